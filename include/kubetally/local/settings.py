"""The KUBETALLY_… settings of a local run, and the secrets it makes up once and keeps.

Settings come from the environment, then from the project's `.env`. What is generated lies in
`<home>/secrets.json` (mode 0600) and nowhere else.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubetally.config import PROJECT
from kubetally.errors import ConfigError
from kubetally.local.files import write_private

HOST = "127.0.0.1"
ROLES = (
    "kubetally_owner",
    "kubetally_loader",
    "kubetally_publisher",
    "kubetally_quality",
    "bi_reader",
)


@dataclass(frozen=True)
class Settings:
    """Everything a local run may be told. See `from_environment` for the names."""

    home: Path
    ui_port: int = 8080
    postgres_url: str = ""
    warehouse_url: str = ""
    airflow_url: str = ""
    demo: bool = True
    demo_days: int = 7
    parallelism: int = 8
    prometheus_url: str = ""
    prometheus_token: str = ""
    kube_context: str = ""
    kube_config: str = ""
    gcp_api_key: str = ""
    dags_folder: Path = PROJECT / "dags"

    def __repr__(self) -> str:
        return f"Settings({self.home})"  # the others may hold passwords

    @property
    def embedded(self) -> bool:
        """Whether the wheel's own Postgres is needed."""
        return not self.postgres_url and not (self.warehouse_url and self.airflow_url)


def environment(folder: Path = PROJECT, env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`env` over the KUBETALLY_… and AIRFLOW_CONN_… lines of `folder`/.env."""
    found: dict[str, str] = {}
    path = folder / ".env"
    if path.is_file():
        for line in path.read_text("utf-8").splitlines():
            name, equals, value = line.strip().partition("=")
            if equals and name.startswith(("KUBETALLY_", "AIRFLOW_CONN_")):
                found[name] = value.strip().strip("'\"")
    return {**found, **env}


def from_environment(env: Mapping[str, str]) -> Settings:
    """Settings from KUBETALLY_HOME, _UI_PORT, _POSTGRES_URL, _WAREHOUSE_URL, _AIRFLOW_URL, _DEMO,
    _DEMO_DAYS, _PARALLELISM, _PROMETHEUS_URL, _PROMETHEUS_TOKEN, _KUBE_CONTEXT, _KUBE_CONFIG,
    _GCP_API_KEY and _DAGS_FOLDER.

    Raises ConfigError that names the setting and what it takes.
    """
    for name in ("POSTGRES_URL", "WAREHOUSE_URL", "AIRFLOW_URL"):
        _check_postgres(f"KUBETALLY_{name}", env.get(f"KUBETALLY_{name}", ""))
    return Settings(
        home=(PROJECT / (env.get("KUBETALLY_HOME") or ".kubetally")).absolute(),
        ui_port=_number(env, "KUBETALLY_UI_PORT", 8080, 1, 65535),
        postgres_url=env.get("KUBETALLY_POSTGRES_URL", ""),
        warehouse_url=env.get("KUBETALLY_WAREHOUSE_URL", ""),
        airflow_url=env.get("KUBETALLY_AIRFLOW_URL", ""),
        demo=env.get("KUBETALLY_DEMO", "1") != "0",
        demo_days=_number(env, "KUBETALLY_DEMO_DAYS", 7, 1, 366),
        parallelism=_number(env, "KUBETALLY_PARALLELISM", 8, 1, 256),
        prometheus_url=env.get("KUBETALLY_PROMETHEUS_URL", ""),
        prometheus_token=env.get("KUBETALLY_PROMETHEUS_TOKEN", ""),
        kube_context=env.get("KUBETALLY_KUBE_CONTEXT", ""),
        kube_config=env.get("KUBETALLY_KUBE_CONFIG", ""),
        gcp_api_key=env.get("KUBETALLY_GCP_API_KEY", ""),
        dags_folder=(PROJECT / (env.get("KUBETALLY_DAGS_FOLDER") or "dags")).absolute(),
    )


def _number(env: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = env.get(name) or str(default)
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ConfigError(
            f"{name} is {text!r}.", remedy=f"It takes a whole number from {least} to {most}."
        )
    return int(text)


def _check_postgres(name: str, url: str) -> None:
    if not url:
        return
    parts = urlsplit(url)
    named = parts.path.strip("/") or name == "KUBETALLY_POSTGRES_URL"
    if not parts.scheme.startswith("postgres") or not parts.hostname or not named:
        raise ConfigError(  # the value holds a password and is not shown
            f"{name} is not the address of a Postgres database.",
            remedy="It looks like postgresql://user:password@host:5432/database.",
        )


@dataclass(frozen=True)
class Secrets:
    """What was generated for this home. `repr` shows none of it."""

    values: Mapping[str, str]

    def __repr__(self) -> str:
        return "Secrets(…)"

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    @property
    def passwords(self) -> dict[str, str]:
        """Password of each warehouse role."""
        return {role: self.values[role] for role in ROLES}


def load_secrets(home: Path) -> Secrets:
    """The secrets of `home`; generated at the first call, completed when a new one is needed."""
    path = home / "secrets.json"
    known: dict[str, str] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    missing = {name: make() for name, make in _GENERATED.items() if name not in known}
    if missing:
        known |= missing
        write_private(path, json.dumps(known, indent=1))
    return Secrets(known)


def _token() -> str:
    return secrets.token_urlsafe(24)


def _readable() -> str:
    """20 letters and digits without look-alikes: people type this one."""
    return "".join(secrets.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(20))


def _fernet() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


_GENERATED = {
    **dict.fromkeys(ROLES, _token),
    "kubetally_airflow": _token,
    "admin": _readable,
    "fernet": _fernet,
    "jwt": _token,
    "api": _token,
}


def remembered_port(home: Path, name: str, wanted: int) -> int:
    """The port `name` used last, else `wanted` or the next free one (0: any free one).

    A remembered port is returned even while something listens there: it may be our own program.
    """
    path = home / "ports.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    entry = known.get(name)
    if entry and entry["wanted"] == wanted:
        return int(entry["port"])
    return choose_port(home, name, wanted)


def choose_port(home: Path, name: str, wanted: int) -> int:
    """A free port for `name`, now remembered: `wanted`, else the next free one within 100."""
    path = home / "ports.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    taken = {entry["port"] for other, entry in known.items() if other != name}
    for candidate in range(wanted, wanted + 100) if wanted else [0] * 100:
        port = _bindable(candidate)
        if port and port not in taken:
            write_private(path, json.dumps(known | {name: {"wanted": wanted, "port": port}}))
            return port
    raise ConfigError(
        f"No port from {wanted} to {wanted + 99} is free.", remedy="Set KUBETALLY_UI_PORT."
    )


def _bindable(port: int) -> int:
    if port > 65535:
        return 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return 0
        return int(probe.getsockname()[1])
