"""A test's own warehouse: how to reach it as each role."""

from __future__ import annotations

import json
from dataclasses import dataclass

import psycopg2
import sqlalchemy

from kubetally.local.postgres import Server

ROLES = {
    "owner": "kubetally_owner",
    "loader": "kubetally_loader",
    "publisher": "kubetally_publisher",
    "quality": "kubetally_quality",
    "bi": "bi_reader",
}
PASSWORDS = {role: f"test-{role}" for role in ROLES.values()}


@dataclass(frozen=True)
class Warehouse:
    """A migrated, empty warehouse of one test's own."""

    server: Server
    database: str

    def url(self, role: str = "owner") -> str:
        """SQLAlchemy URL (psycopg2) as `owner`, `loader`, `publisher`, `quality`, `bi` or `postgres`."""
        user = ROLES.get(role, role)
        return self.server.url(self.database, user, PASSWORDS.get(user), driver="psycopg2")

    def engine_as(self, role: str) -> sqlalchemy.Engine:
        return sqlalchemy.create_engine(self.url(role), poolclass=sqlalchemy.NullPool)

    @property
    def engine(self) -> sqlalchemy.Engine:
        """Connects as kubetally_owner; pooled by nobody, so that the database can be dropped."""
        return self.engine_as("owner")

    def connect(self, role: str = "owner") -> psycopg2.extensions.connection:
        return psycopg2.connect(self.url(role).replace("+psycopg2", ""))

    def connections(self) -> dict[str, str]:
        """The AIRFLOW_CONN_… variables that lead the product's code here."""
        return {
            f"AIRFLOW_CONN_KUBETALLY_{name.upper()}": json.dumps(
                {
                    "conn_type": "postgres",
                    "host": "127.0.0.1",
                    "port": self.server.port,
                    "login": role,
                    "password": PASSWORDS[role],
                    "schema": self.database,
                }
            )
            for name, role in ROLES.items()
        }
