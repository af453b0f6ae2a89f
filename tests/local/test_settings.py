"""Settings are checked with their name and remedy; secrets are made once and kept private."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from kubetally.config import PROJECT
from kubetally.errors import ConfigError
from kubetally.local import settings


def test_defaults() -> None:
    found = settings.from_environment({})
    assert found.home == PROJECT / ".kubetally"
    assert (found.ui_port, found.demo, found.demo_days, found.embedded) == (8080, True, 7, True)


@pytest.mark.parametrize(
    ("given", "embedded"),
    [
        ({"KUBETALLY_POSTGRES_URL": "postgresql://a:b@host"}, False),
        ({"KUBETALLY_WAREHOUSE_URL": "postgresql://a:b@host/w"}, True),
        (
            {
                "KUBETALLY_WAREHOUSE_URL": "postgresql://a:b@host/w",
                "KUBETALLY_AIRFLOW_URL": "postgresql://a:b@host/a",
            },
            False,
        ),
    ],
)
def test_the_embedded_server_is_used_where_a_database_has_no_other_place(
    given: dict[str, str], embedded: bool
) -> None:
    assert settings.from_environment(given).embedded is embedded


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KUBETALLY_UI_PORT", "http", "KUBETALLY_UI_PORT is 'http'. It takes a whole number"),
        ("KUBETALLY_UI_PORT", "70000", "from 1 to 65535"),
        ("KUBETALLY_DEMO_DAYS", "0", "KUBETALLY_DEMO_DAYS is '0'"),
        ("KUBETALLY_POSTGRES_URL", "mysql://u:hunter2@h/d", "KUBETALLY_POSTGRES_URL is not"),
        ("KUBETALLY_WAREHOUSE_URL", "postgresql://u:hunter2@h", "KUBETALLY_WAREHOUSE_URL is not"),
    ],
)
def test_a_wrong_setting_is_named_and_its_password_is_not(
    name: str, value: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        settings.from_environment({name: value})
    assert "hunter2" not in str(caught.value)


def test_dot_env_gives_way_to_the_environment_and_offers_only_our_names(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "# comment\nKUBETALLY_UI_PORT=8090\nKUBETALLY_DEMO='0'\nPATH=/evil\n"
        'AIRFLOW_CONN_X={"host": "a=b"}\n'
    )
    found = settings.environment(tmp_path, {"KUBETALLY_UI_PORT": "8100"})
    assert found == {
        "KUBETALLY_UI_PORT": "8100",
        "KUBETALLY_DEMO": "0",
        "AIRFLOW_CONN_X": '{"host": "a=b"}',
    }


def test_secrets_are_made_once_differ_and_stay_private(tmp_path: Path) -> None:
    first = settings.load_secrets(tmp_path)
    assert settings.load_secrets(tmp_path) == first
    assert len(set(first.values.values())) == len(first.values)
    assert all(len(value) >= 20 for value in first.values.values())
    assert stat.S_IMODE((tmp_path / "secrets.json").stat().st_mode) == 0o600
    assert first["admin"] not in repr(first)
    Fernet(first["fernet"])


def test_a_taken_port_yields_the_next_free_one_and_it_is_remembered(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]
        port = settings.remembered_port(tmp_path, "ui", wanted)
        assert wanted < port < wanted + 100
    assert settings.remembered_port(tmp_path, "ui", wanted) == port
    assert settings.choose_port(tmp_path, "demo", port) != port
