"""docker-compose.yaml is valid, keeps its references, and has no default for any secret.

Two validators, as each misses what the other finds: the Compose schema knows every key, Debian's
docker-compose knows dangling references. Neither needs a container engine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[1]
COMPOSE = PROJECT / "docker-compose.yaml"
EXAMPLE = PROJECT / ".env.example"
SECRETS = re.findall(r"^([A-Z_]+)=$", EXAMPLE.read_text(), re.MULTILINE)
COMMAND = shutil.which("docker-compose")

needs_docker_compose = pytest.mark.skipif(
    COMMAND is None,
    reason="Debian's docker-compose is not installed (apt-get install docker-compose)",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the file with a .env made as .env.example says."""
    shutil.copy(COMPOSE, tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    commented = re.search(
        r"^#   (\(umask.*?\.env\))$", EXAMPLE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert commented, ".env.example no longer shows how to generate .env"
    script = re.sub(r"^#", "", commented[1], flags=re.MULTILINE)
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True)
    return tmp_path


def config(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *arguments, "config", "-q"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def schema(path: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("check-jsonschema")
    return subprocess.run(
        [command, "--builtin-schema", "vendor.compose-spec", path],
        capture_output=True,
        text=True,
        check=False,
    )


def services() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text())["services"])


def test_the_example_generates_every_secret_differently(folder: Path) -> None:
    env = dict(
        line.split("=", 1)
        for line in (folder / ".env").read_text().splitlines()
        if line and not line.startswith("#")
    )
    assert sorted(env) == sorted(SECRETS)
    assert len(set(env.values())) == len(env)
    assert min(map(len, env.values())) >= 44
    assert (folder / ".env").stat().st_mode & 0o077 == 0


def test_it_follows_the_compose_schema() -> None:
    done = schema(COMPOSE)
    assert done.returncode == 0, done.stdout


def test_the_schema_finds_an_unknown_key(folder: Path) -> None:
    path = folder / "docker-compose.yaml"
    path.write_text(path.read_text().replace("stop_grace_period: 60s", "stop_grace: 60s", 1))
    assert schema(path).returncode == 1


@needs_docker_compose
@pytest.mark.parametrize("profile", [(), ("--profile", "celery")], ids=["local", "celery"])
def test_docker_compose_accepts_it(folder: Path, profile: tuple[str, ...]) -> None:
    done = config(folder, *profile)
    assert done.returncode == 0, done.stderr


@needs_docker_compose
@pytest.mark.parametrize("name", SECRETS)
def test_a_missing_secret_is_refused(folder: Path, name: str) -> None:
    path = folder / ".env"
    path.write_text(re.sub(rf"^{name}=.*$", f"{name}=", path.read_text(), flags=re.MULTILINE))
    done = config(folder)
    assert done.returncode != 0
    assert re.search(r"(generate|choose) it, see .env.example", done.stderr)


@needs_docker_compose
@pytest.mark.parametrize(
    ("kept", "planted"),
    [
        (
            "\n      postgres-airflow:\n        condition",
            "\n      postgres-missing:\n        condition",
        ),
        ("- postgres-warehouse:/var/lib", "- undeclared:/var/lib"),
    ],
    ids=["depends_on", "volume"],
)
def test_a_dangling_reference_is_caught(folder: Path, kept: str, planted: str) -> None:
    path = folder / "docker-compose.yaml"
    text = path.read_text()
    assert kept in text
    path.write_text(text.replace(kept, planted, 1))
    assert config(folder).returncode != 0


def test_every_secret_is_required_and_none_has_a_default() -> None:
    text = COMPOSE.read_text()
    for name in SECRETS:
        assert f"${{{name}:?" in text
    named = set(re.findall(r"\$\{(KUBETALLY_[A-Z_]*(?:PASSWORD|SECRET|KEY)[A-Z_]*)(:.)", text))
    assert named == {(name, ":?") for name in SECRETS}


def test_ports_are_open_on_loopback_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_is_restarted_reaped_and_checked() -> None:
    for name, service in services().items():
        assert service["init"] is True, name
        if name == "init":
            assert service["restart"] == "no"
        else:
            assert service["restart"] == "unless-stopped", name
            assert service["healthcheck"]["test"], name


def test_airflow_services_share_one_jwt_secret_and_never_trust_everyone() -> None:
    airflow = {n: s["environment"] for n, s in services().items() if "build" in s}
    assert len(airflow) == 6
    assert len({env["AIRFLOW__API_AUTH__JWT_SECRET"] for env in airflow.values()}) == 1
    assert {env["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS"] for env in airflow.values()} == {
        "False"
    }


@pytest.mark.parametrize(
    ("service", "may_write"),
    [
        ("api-server", False),
        ("dag-processor", False),
        ("triggerer", False),
        ("scheduler", True),
        ("worker", True),
        ("init", True),
    ],
)
def test_only_what_runs_tasks_holds_a_writers_password(service: str, may_write: bool) -> None:
    environment = str(services()[service]["environment"])
    for name in ("OWNER", "LOADER", "PUBLISHER", "QUALITY"):
        assert (f"KUBETALLY_{name}_PASSWORD" in environment) is may_write
    assert ("KUBETALLY_WAREHOUSE_ADMIN_PASSWORD" in environment) is (service == "init")
