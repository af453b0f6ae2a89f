"""A server of one test's own, to be stopped and killed; the shared one must stay up for the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubetally.local.postgres import THROWAWAY, Server
from kubetally.warehouse.migrate import ROLES, migrate


@pytest.fixture
def mortal_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A running server with a migrated warehouse that the product's connections lead to."""
    server = Server(tmp_path / "postgres", THROWAWAY)
    server.base.mkdir()
    server.start()
    try:
        migrate(server.superuser_url, "mortal", dict.fromkeys(ROLES, "test"))
        for role in ROLES:
            name = role.removeprefix("kubetally_").removesuffix("_reader")
            found = {
                "conn_type": "postgres",
                "host": "127.0.0.1",
                "port": server.port,
                "login": role,
                "password": "test",
                "schema": "mortal",
            }
            monkeypatch.setenv(f"AIRFLOW_CONN_KUBETALLY_{name.upper()}", json.dumps(found))
        yield server
    finally:
        server.destroy()
