"""Fixtures every folder shares: one embedded Postgres per test session, one database per test."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
from hypothesis import settings

from database import PASSWORDS, Warehouse
from kubetally.local.postgres import THROWAWAY, Server

TEMPLATE = "kubetally_template"

# What lands must not depend on the luck of one run; people's own runs go on searching.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError):
        pass
    return True


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One server per session. A killed session's server is removed by the next one."""
    folder = Path(tempfile.gettempdir()) / f"kubetally-tests-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for left in folder.iterdir():
        if not _is_alive(left.name):
            Server(left).destroy()
            shutil.rmtree(left, ignore_errors=True)
    base = folder / str(os.getpid())
    base.mkdir(mode=0o700)
    server = Server(base, THROWAWAY)
    try:
        server.start()
        yield server
    finally:
        server.destroy()
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def template_database(postgres_server: Server) -> str:
    """The name of a migrated database to clone."""
    from kubetally.warehouse.migrate import migrate

    migrate(postgres_server.superuser_url, TEMPLATE, PASSWORDS)
    return TEMPLATE


@pytest.fixture
def warehouse(
    postgres_server: Server, template_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Warehouse]:
    """A fresh warehouse with the AIRFLOW_CONN_KUBETALLY_… connections set to it."""
    found = Warehouse(postgres_server, f"test_{uuid.uuid4().hex[:12]}")
    admin = psycopg2.connect(postgres_server.superuser_url)
    admin.autocommit = True
    with admin.cursor() as cursor:
        cursor.execute(
            f'create database "{found.database}" template "{template_database}" owner kubetally_owner'
        )
        for name, value in found.connections().items():
            monkeypatch.setenv(name, value)
        try:
            yield found
        finally:
            cursor.execute(f'drop database if exists "{found.database}" with (force)')
            admin.close()
