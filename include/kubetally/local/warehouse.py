"""What the local commands ask the warehouse: only published rows, only as `bi_reader`."""

from __future__ import annotations

from datetime import date
from typing import TextIO

import psycopg2
from psycopg2 import errors

from kubetally.errors import KubetallyError
from kubetally.local.airflow import with_login
from kubetally.local.settings import Secrets


def reader(secrets: Secrets, warehouse_url: str) -> psycopg2.extensions.connection:
    """A read-only connection as bi_reader. Raises KubetallyError when there is no warehouse."""
    parts = warehouse_url.partition("?")[0].rpartition("/")
    url = with_login(warehouse_url, "bi_reader", secrets["bi_reader"], parts[2])
    try:
        connection = psycopg2.connect(url, connect_timeout=10, application_name="kubetally sql")
    except psycopg2.OperationalError as error:
        raise KubetallyError(
            f"The warehouse does not answer: {str(error).strip()}.", remedy="Start it: `make run`."
        ) from error
    connection.set_session(readonly=True)
    return connection


def write_csv(connection: psycopg2.extensions.connection, query: str, out: TextIO) -> None:
    """Writes the result of `query` to `out` as CSV with a header, numbers in full precision.

    Raises KubetallyError with Postgres' message for a query it refuses.
    """
    text = query.strip().rstrip(";")
    if not text:
        raise KubetallyError(
            "There is no query.", remedy='Give it as `make sql Q="select * from bi.data_status"`.'
        )
    try:
        with connection.cursor() as cursor:
            cursor.execute("set time zone 'UTC'")
            # The line break keeps a trailing comment of the query from swallowing the bracket.
            cursor.copy_expert(f"copy ({text}\n) to stdout with (format csv, header)", out)
    except psycopg2.Error as error:
        raise KubetallyError(f"Postgres: {str(error).strip()}") from error


def published_days(secrets: Secrets, warehouse_url: str, cluster: str) -> dict[date, int]:
    """Hours that costs_daily published of each day of `cluster`; days without any are left out."""
    connection = reader(secrets, warehouse_url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "select day, hours_daily from bi.data_status"
                " where cluster = %s and hours_daily > 0",
                [cluster],
            )
            return dict(cursor.fetchall())
    except errors.UndefinedTable:
        return {}
    finally:
        connection.close()


def publications(secrets: Secrets, warehouse_url: str, day: date) -> list[str]:
    """One line a cluster: what is published of `day`, with the content hash."""
    connection = reader(secrets, warehouse_url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "select cluster, hours_published, content_sha256 from bi.data_status"
                " where day = %s and hours_published > 0 order by cluster",
                [day],
            )
            return [
                f"{day} {name}: {hours} hours published, sha256 {digest}"
                for name, hours, digest in cursor
            ]
    finally:
        connection.close()
