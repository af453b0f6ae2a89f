"""The one place that opens the warehouse: engines per role, SQL files, advisory locks.

SQLAlchemy over psycopg2. Every role has an Airflow connection of its own, `kubetally_<role>`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import URL, Connection, CursorResult, Engine, create_engine, event, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from kubetally.config import PROJECT
from kubetally.connections import get_connection

Role = Literal["owner", "loader", "publisher", "quality", "bi"]
SQL_FOLDER = PROJECT / "include" / "sql"
STATEMENT_TIMEOUT_SECONDS = 1800
LOCK_TIMEOUT_SECONDS = 300


def url(role: Role) -> URL:
    """The address of the warehouse as `role`, from the connection `kubetally_<role>`."""
    found = get_connection(f"kubetally_{role}")
    query = {
        name: str(value)
        for name, value in found.extra.items()
        if name in ("sslmode", "sslrootcert")
    }
    return URL.create(
        "postgresql+psycopg2",
        found.login,
        found.password,
        found.host,
        found.port or 5432,
        found.schema,
        query,
    )


def engine(role: Role, application: str = "kubetally") -> Engine:
    """An engine as `role`. READ COMMITTED, time zone UTC, with statement and lock time-outs."""
    made = create_engine(
        url(role),
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={
            "application_name": _application(application)[:63],
            "connect_timeout": 10,
            "keepalives_idle": 30,
        },
    )

    @event.listens_for(made, "connect")
    def _settle(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute("set time zone 'UTC'")
        cursor.execute(f"set statement_timeout = '{STATEMENT_TIMEOUT_SECONDS}s'")
        cursor.execute(f"set lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'")
        cursor.execute("set idle_in_transaction_session_timeout = '30min'")
        cursor.close()
        connection.commit()

    return made


def _application(fallback: str) -> str:
    """dag/run/task/try inside Airflow, so that a DBA sees who holds a lock."""
    parts = [
        os.environ.get(f"AIRFLOW_CTX_{name}")
        for name in ("DAG_ID", "DAG_RUN_ID", "TASK_ID", "TRY_NUMBER")
    ]
    return "/".join(part for part in parts if part) or fallback


@cache
def statement(path: str) -> str:
    """The text of `include/sql/<path>`."""
    return (SQL_FOLDER / path).read_text(encoding="utf-8")


def run_file(
    connection: Connection, path: str, parameters: Mapping[str, Any] | None = None
) -> CursorResult[Any]:
    """Runs the single statement in `include/sql/<path>` with bound parameters."""
    return connection.execute(text(statement(path)), dict(parameters or {}))


def run_script(connection: Connection, path: Path) -> None:
    """Runs a file of several statements without parameters (DDL, views, grants)."""
    driver = connection.connection.driver_connection
    assert driver is not None
    with driver.cursor() as cursor:
        cursor.execute(path.read_text(encoding="utf-8"))


def lock_days(connection: Connection, cluster: str, days: Iterable[date]) -> None:
    """Takes the advisory lock of every cluster-day, in order, until the transaction ends.

    Taken before the first read, so that under READ COMMITTED every statement sees what the
    previous holder committed.
    """
    for day in sorted(set(days)):
        lock(connection, f"{cluster}/{day.isoformat()}")


def lock(connection: Connection, name: str) -> None:
    """Takes the advisory lock `kubetally/<name>` until the transaction ends."""
    connection.execute(
        text("select pg_advisory_xact_lock(hashtextextended(:name, 0))"),
        {"name": f"kubetally/{name}"},
    )


def cluster_key(connection: Connection, cluster: str) -> int:
    """The surrogate key of `cluster`, made when it is new."""
    connection.execute(
        text("insert into core.cluster (cluster) values (:cluster) on conflict do nothing"),
        {"cluster": cluster},
    )
    found = connection.execute(
        text("select cluster_key from core.cluster where cluster = :cluster"), {"cluster": cluster}
    )
    return int(found.scalar_one())
