"""Brings a Postgres to the current warehouse: roles, database, Alembic migrations, views."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from kubetally.warehouse.connect import SQL_FOLDER, run_script

OWNER = "kubetally_owner"
ROLES = (OWNER, "kubetally_loader", "kubetally_publisher", "kubetally_quality", "bi_reader")


def migrate(superuser_url: str, database: str, passwords: Mapping[str, str]) -> None:
    """Creates what is missing and upgrades the rest; safe to repeat.

    `superuser_url` is an SQLAlchemy URL of a role that may create roles and databases;
    `passwords` maps each of ROLES to its password.
    """
    server = make_url(superuser_url).set(drivername="postgresql+psycopg2")
    engine = create_engine(server, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        _make_roles(connection, passwords)
        exists = connection.execute(
            text("select 1 from pg_database where datname = :name"), {"name": database}
        ).scalar()
        if not exists:
            connection.execute(text(f'create database "{database}" owner {OWNER} encoding utf8'))
        connection.execute(text(f'revoke all on database "{database}" from public'))
        connection.execute(text(f'grant connect on database "{database}" to {", ".join(ROLES)}'))
    owned = server.set(username=OWNER, password=passwords[OWNER], database=database)
    upgrade(owned.render_as_string(hide_password=False))


def upgrade(owner_url: str) -> None:
    """Runs the Alembic migrations and replaces the views, as the owner, in one transaction."""
    engine = create_engine(owner_url, poolclass=NullPool)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        connection.execute(
            text("select pg_advisory_xact_lock(hashtextextended('kubetally/migrate', 0))")
        )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        for path in sorted((SQL_FOLDER / "bi").glob("*.sql")):
            run_script(connection, path)


def _make_roles(connection: Connection, passwords: Mapping[str, str]) -> None:
    for role in ROLES:
        if not connection.execute(
            text("select 1 from pg_roles where rolname = :role"), {"role": role}
        ).scalar():
            connection.execute(text(f"create role {role} login"))
        # Passwords cannot be bound in DDL; format() quotes on the server.
        ddl = connection.execute(
            text(
                "select format('alter role %I password %L', cast(:role as text), cast(:password as text))"
            ),
            {"role": role, "password": passwords[role]},
        ).scalar_one()
        connection.exec_driver_sql(str(ddl).replace("%", "%%"))
    connection.execute(text("alter role bi_reader set default_transaction_read_only = on"))
    connection.execute(text("alter role bi_reader set search_path = bi"))
    connection.execute(text("alter role bi_reader set statement_timeout = '5min'"))
