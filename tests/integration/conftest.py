"""The whole pipeline against the demo cluster's server, on a warehouse of each test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from database import Warehouse
from kubetally.demo.scenario import Scenario
from kubetally.demo.server import DemoServer


@pytest.fixture(scope="session")
def demo_server() -> Iterator[DemoServer]:
    with DemoServer(Scenario()) as server:
        yield server


@pytest.fixture
def pipeline_env(
    warehouse: Warehouse, demo_server: DemoServer, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The connections of a demo pipeline, set here and returned for child processes."""
    found = dict(warehouse.connections())
    for name, extra in (
        ("DEMO_PROMETHEUS", {}),
        ("AZURE_PRICES", {}),
        ("GCP_PRICES", {"password": "demo-key"}),
    ):
        found[f"AIRFLOW_CONN_KUBETALLY_{name}"] = json.dumps(
            {"conn_type": "http", "host": demo_server.url, **extra}
        )
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found
