"""What the page and the statements read, as the read-only BI role; the SQL is in include/sql/page/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from sqlalchemy import Connection, Row, text

from kubetally.report.periods import Days
from kubetally.warehouse.connect import engine, run_file

Grouping = Literal["owner", "namespace"]
TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Scope:
    """Whose costs, by which model, in which currency. An empty cluster means all of them."""

    cluster: str
    cost_model: str
    currency: str


@contextmanager
def reading(application: str = "kubetally/costs") -> Iterator[Connection]:
    """A read-only transaction as bi_reader in which every query sees the same publications."""
    with engine("bi", application).connect() as connection:
        connection.execution_options(isolation_level="REPEATABLE READ")
        connection.execute(text(f"set local statement_timeout = '{TIMEOUT_SECONDS}s'"))
        yield connection


def scopes(connection: Connection) -> Sequence[Row[Any]]:
    return run_file(connection, "page/scopes.sql").all()


def costs(
    connection: Connection, scope: Scope, days: Days, grouping: Grouping
) -> Sequence[Row[Any]]:
    return _read(connection, "costs", scope, days, {"grouping": grouping})


def status(connection: Connection, cluster: str, days: Days) -> Sequence[Row[Any]]:
    values = {"cluster": cluster, "start": days.start, "end": days.end}
    return run_file(connection, "page/status.sql", values).all()


def gaps(connection: Connection, cluster: str, days: Days) -> Sequence[Row[Any]]:
    values = {"cluster": cluster, "start": days.start, "end": days.end}
    return run_file(connection, "page/gaps.sql", values).all()


def unpriced(connection: Connection, scope: Scope, days: Days) -> Sequence[Row[Any]]:
    return _read(connection, "unpriced", scope, days)


def download(connection: Connection, scope: Scope, days: Days) -> Sequence[Row[Any]]:
    return _read(connection, "download", scope, days)


def data_until(connection: Connection, cluster: str) -> Row[Any]:
    return run_file(connection, "page/data_until.sql", {"cluster": cluster}).one()


def failed_checks(connection: Connection) -> Sequence[Row[Any]]:
    return run_file(connection, "page/failed_checks.sql").all()


def first_day_landed(connection: Connection) -> date | None:
    """The first day with any data, published or not; None when nothing has landed."""
    found: date | None = connection.execute(text("select min(day) from bi.data_status")).scalar()
    return found


def _read(
    connection: Connection,
    name: str,
    scope: Scope,
    days: Days,
    more: dict[str, str] | None = None,
) -> Sequence[Row[Any]]:
    values: dict[str, Any] = {
        "cluster": scope.cluster,
        "cost_model": scope.cost_model,
        "start": days.start,
        "end": days.end,
    }
    if name != "unpriced":
        values["currency"] = scope.currency
    return run_file(connection, f"page/{name}.sql", values | (more or {})).all()
