"""uv is told what pip is told: an installation behind a mirror works with either."""

from __future__ import annotations

from kubetally.local.install import parse_pip_config, uv_environment

LISTED = """\
:env:.cert='/etc/own.pem'
:env:.disable-pip-version-check='1'
global.cert='/etc/ssl/certs/ca-certificates.crt'
global.index-url='https://mirror.example.com/simple'
global.extra-index-url='https://a.example.com/simple\\nhttps://b.example.com/simple'
install.find-links='/opt/wheels /srv/wheels'
"""


def test_the_environment_goes_before_pips_file() -> None:
    found = parse_pip_config(LISTED)
    assert found["cert"] == "/etc/own.pem"
    assert found["index-url"] == "https://mirror.example.com/simple"
    assert found["extra-index-url"] == "https://a.example.com/simple https://b.example.com/simple"
    assert found["find-links"] == "/opt/wheels /srv/wheels"


def test_uv_gets_pips_settings_under_its_own_names() -> None:
    found = uv_environment(parse_pip_config(LISTED), {"HOME": "/root"})
    assert found["UV_DEFAULT_INDEX"] == "https://mirror.example.com/simple"
    assert found["UV_FIND_LINKS"] == "/opt/wheels,/srv/wheels"
    assert found["SSL_CERT_FILE"] == "/etc/own.pem"
    assert found["HOME"] == "/root"
    assert "disable-pip-version-check" not in found


def test_what_is_said_to_uv_itself_comes_first() -> None:
    pip = {"index-url": "https://mirror.example.com/simple"}
    assert (
        uv_environment(pip, {"UV_DEFAULT_INDEX": "https://own"})["UV_DEFAULT_INDEX"]
        == "https://own"
    )
    assert "UV_DEFAULT_INDEX" not in uv_environment(pip, {"UV_INDEX_URL": "https://own"})
