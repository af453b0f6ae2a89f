"""Airflow on this machine: its environment, starting and stopping it, waiting until it is well."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from kubetally.config import PROJECT
from kubetally.errors import KubetallyError
from kubetally.local.api import Api
from kubetally.local.background import Background
from kubetally.local.files import write_private
from kubetally.local.settings import HOST, Secrets, Settings

HEALTHY_SECONDS = 180
ADMIN = "admin"
AZURE_PRICES = "https://prices.azure.com"
GCP_PRICES = "https://cloudbilling.googleapis.com"
AWS_PRICES = "https://pricing.us-east-1.amazonaws.com"


def airflow_environment(
    settings: Settings,
    secrets: Secrets,
    *,
    inherited: Mapping[str, str],
    metadata_url: str,
    connections: Mapping[str, str],
    ui_port: int,
) -> dict[str, str]:
    """The whole environment of every Airflow process. Ours wins over what is inherited.

    `metadata_url` is a libpq URL; `connections` maps connection ids to their JSON.
    """
    base = f"http://{HOST}:{ui_port}"
    home = settings.home / "airflow"
    inherit = {
        name: value
        for name, value in inherited.items()
        if name not in ("PYTHONDONTWRITEBYTECODE", "AIRFLOW_CONFIG")
    }
    own = {
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": str(PROJECT / "include"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", "")]),
        "TZ": "UTC",
        "no_proxy": _also_local(inherited.get("no_proxy", "")),
        "NO_PROXY": _also_local(inherited.get("NO_PROXY", "")),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": str(settings.parallelism),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(settings.dags_folder),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__DEFAULT_TIMEZONE": "utc",
        "AIRFLOW__CORE__FERNET_KEY": secrets["fernet"],
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{base}/execution/",
        "AIRFLOW__CORE__AUTH_MANAGER": (
            "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(password_file(settings)),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": with_driver(metadata_url, "psycopg2"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": with_driver(metadata_url, "asyncpg"),
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(ui_port),
        "AIRFLOW__API__BASE_URL": base,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets["api"],
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets["jwt"],
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(settings.home / "logs" / "tasks"),
        "AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(
            settings.home / "logs" / "dag-processor"
        ),
        "AIRFLOW__SCHEDULER__CATCHUP_BY_DEFAULT": "False",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "60",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "GX_ANALYTICS_ENABLED": "False",
    }
    named = {f"AIRFLOW_CONN_{name.upper()}": value for name, value in connections.items()}
    reports = {"KUBETALLY_REPORTS": str(settings.home / "reports")}
    return {**named, **reports, **inherit, **own} | {n: v for n, v in named.items() if n in _OURS}


_OURS = frozenset(
    f"AIRFLOW_CONN_KUBETALLY_{name}" for name in ("OWNER", "LOADER", "PUBLISHER", "QUALITY", "BI")
)


def connections(
    settings: Settings,
    secrets: Secrets,
    *,
    warehouse_url: str,
    demo_url: str = "",
    demo_prices: str = "",
) -> dict[str, str]:
    """Every connection a local run defines, by id, as the JSON Airflow reads.

    `warehouse_url` gives host, port and database; the roles bring their own logins. `demo_prices`
    stands in for the public price lists: recorded pages, fit for the demo cluster alone.
    """
    place = urlsplit(warehouse_url)
    found: dict[str, dict[str, object]] = {}
    for name, role in (
        ("kubetally_owner", "kubetally_owner"),
        ("kubetally_loader", "kubetally_loader"),
        ("kubetally_publisher", "kubetally_publisher"),
        ("kubetally_quality", "kubetally_quality"),
        ("kubetally_bi", "bi_reader"),
    ):
        found[name] = {
            "conn_type": "postgres",
            "host": place.hostname,
            "port": place.port or 5432,
            "login": role,
            "password": secrets[role],
            "schema": unquote(place.path.strip("/")),
            "extra": dict(parse_qsl(place.query)),
        }
    if demo_url:
        found["kubetally_demo_prometheus"] = {"conn_type": "http", "host": demo_url}
        found["kubetally_demo_kubernetes"] = {"conn_type": "kubernetes", "host": demo_url}
    found["kubetally_azure_prices"] = {"conn_type": "http", "host": demo_prices or AZURE_PRICES}
    found["kubetally_gcp_prices"] = {
        "conn_type": "http",
        "host": demo_prices or GCP_PRICES,
        "password": settings.gcp_api_key,
    }
    found["kubetally_aws_prices"] = {"conn_type": "http", "host": demo_prices or AWS_PRICES}
    if settings.prometheus_url:
        found["kubetally_prometheus"] = {
            "conn_type": "http",
            "host": settings.prometheus_url,
            "password": settings.prometheus_token,
        }
    if settings.kube_context:
        extra = {"cluster_context": settings.kube_context}
        if settings.kube_config:
            extra["kube_config_path"] = settings.kube_config
        found["kubetally_kubernetes"] = {"conn_type": "kubernetes", "extra": extra}
    return {name: json.dumps(value) for name, value in found.items()}


def password_file(settings: Settings) -> Path:
    return settings.home / "airflow" / "passwords.json"


def start(settings: Settings, secrets: Secrets, env: Mapping[str, str]) -> None:
    """Starts Airflow in the background. Returns at once; see `wait_until_healthy`."""
    password_file(settings).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(password_file(settings), json.dumps({ADMIN: secrets["admin"]}) + "\n")
    background(settings).start([sys.executable, "-m", "kubetally.local.standalone"], env)


def background(settings: Settings) -> Background:
    return Background("airflow", settings.home)


def wait_until_healthy(settings: Settings, api: Api) -> None:
    """Returns when scheduler, dag processor and triggerer report healthy.

    Raises KubetallyError with the log's last lines when Airflow ends or takes too long.
    """
    running = background(settings)
    deadline = time.monotonic() + HEALTHY_SECONDS
    while True:
        health = api.health()
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        sick = [part for part in parts if (health.get(part) or {}).get("status") != "healthy"]
        if not sick:
            return
        if not running.is_running() or time.monotonic() > deadline:
            raise KubetallyError(
                f"Airflow did not come up (waiting for: {', '.join(sick)}). "
                f"The last lines of {running.log}:\n{running.last_lines()}"
            )
        time.sleep(0.5)


def with_driver(url: str, driver: str) -> str:
    """A libpq URL as SQLAlchemy's `postgresql+driver://…`."""
    return f"postgresql+{driver}://{url.partition('://')[2]}"


def with_login(url: str, user: str, password: str, database: str) -> str:
    """`url` with another login and database; host, port and options stay."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return parts._replace(
        scheme="postgresql", netloc=f"{login}@{place}", path=f"/{quote(database, safe='')}"
    ).geturl()


def _also_local(names: str) -> str:
    return ",".join(name for name in (*names.split(","), HOST, "localhost") if name)
