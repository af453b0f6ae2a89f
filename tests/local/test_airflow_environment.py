"""What Airflow is told: its own Postgres, loopback, real logins, and nothing the caller had set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubetally.local import airflow
from kubetally.local.settings import Secrets, Settings, load_secrets


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    return load_secrets(tmp_path)


def environment(tmp_path: Path, secrets: Secrets, inherited: dict[str, str]) -> dict[str, str]:
    settings = Settings(tmp_path, parallelism=5)
    return airflow.airflow_environment(
        settings,
        secrets,
        inherited=inherited,
        metadata_url="postgresql://a:b@127.0.0.1:5555/meta",
        connections=airflow.connections(
            settings, secrets, warehouse_url="postgresql://x:y@db:5544/costs?sslmode=require"
        ),
        ui_port=8099,
    )


def test_loopback_postgres_and_logins(tmp_path: Path, secrets: Secrets) -> None:
    found = environment(tmp_path, secrets, {})
    assert found["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert found["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS"] == "False"
    assert found["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    metadata = found["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    assert metadata == "postgresql+psycopg2://a:b@127.0.0.1:5555/meta"
    assert found["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:8099/execution/"


def test_ours_wins_over_what_the_shell_had_set(tmp_path: Path, secrets: Secrets) -> None:
    inherited = {
        "AIRFLOW_HOME": "/elsewhere",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW_CONN_KUBETALLY_BI": "postgres://leftover",
        "PYTHONDONTWRITEBYTECODE": "1",
        "AIRFLOW_CONN_KUBETALLY_AZURE_PRICES": '{"host": "https://mirror"}',
        "HTTPS_PROXY": "http://proxy:3128",
        "no_proxy": "internal",
    }
    found = environment(tmp_path, secrets, inherited)
    assert found["AIRFLOW_HOME"] == str(tmp_path / "airflow")
    assert found["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS"] == "False"
    assert json.loads(found["AIRFLOW_CONN_KUBETALLY_BI"])["login"] == "bi_reader"
    assert "PYTHONDONTWRITEBYTECODE" not in found
    assert found["AIRFLOW_CONN_KUBETALLY_AZURE_PRICES"] == '{"host": "https://mirror"}'
    assert found["HTTPS_PROXY"] == "http://proxy:3128"
    assert found["KUBETALLY_REPORTS"] == str(tmp_path / "reports")
    assert found["no_proxy"] == "internal,127.0.0.1,localhost"


def test_each_role_has_a_login_of_its_own_in_the_warehouse(
    tmp_path: Path, secrets: Secrets
) -> None:
    url = "postgresql://x:y@db:5544/costs"
    found = airflow.connections(Settings(tmp_path), secrets, warehouse_url=url)
    roles = [
        json.loads(found[f"kubetally_{n}"])
        for n in ("owner", "loader", "publisher", "quality", "bi")
    ]
    assert {(role["host"], role["port"], role["schema"]) for role in roles} == {
        ("db", 5544, "costs")
    }
    assert len({role["password"] for role in roles}) == len({role["login"] for role in roles}) == 5


def test_tls_options_of_ones_own_postgres_reach_every_role(
    tmp_path: Path, secrets: Secrets
) -> None:
    url = "postgresql://x:y@db/costs?sslmode=verify-full&sslrootcert=/ca.pem"
    found = airflow.connections(Settings(tmp_path), secrets, warehouse_url=url)
    extra = json.loads(found["kubetally_loader"])["extra"]
    assert extra == {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}


@pytest.mark.parametrize(
    ("demo_prices", "expected"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ("", "https://prices.azure.com"),
    ],
    ids=["demo alone", "a real cluster beside it"],
)
def test_recorded_prices_never_price_a_real_cluster(
    tmp_path: Path, secrets: Secrets, demo_prices: str, expected: str
) -> None:
    found = airflow.connections(
        Settings(tmp_path),
        secrets,
        warehouse_url="postgresql://x:y@db/costs",
        demo_url="http://127.0.0.1:1",
        demo_prices=demo_prices,
    )
    assert json.loads(found["kubetally_azure_prices"])["host"] == expected
    assert json.loads(found["kubetally_demo_kubernetes"])["conn_type"] == "kubernetes"


def test_a_cluster_of_ones_own_gets_its_connections(tmp_path: Path, secrets: Secrets) -> None:
    settings = Settings(
        tmp_path,
        prometheus_url="https://prometheus.example.com",
        prometheus_token="t0ken",
        kube_context="prod",
    )
    found = airflow.connections(settings, secrets, warehouse_url="postgresql://x:y@db/costs")
    prometheus = json.loads(found["kubetally_prometheus"])
    assert (prometheus["host"], prometheus["password"]) == (
        "https://prometheus.example.com",
        "t0ken",
    )
    assert json.loads(found["kubetally_kubernetes"])["extra"] == {"cluster_context": "prod"}
    assert "t0ken" not in repr(settings)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://a:b@h:1/d?sslmode=require", "postgresql://u:p%40@h:1/n?sslmode=require"),
        ("postgresql+psycopg2://h/d", "postgresql://u:p%40@h/n"),
    ],
)
def test_with_login_changes_login_and_database_only(url: str, expected: str) -> None:
    assert airflow.with_login(url, "u", "p@", "n") == expected
