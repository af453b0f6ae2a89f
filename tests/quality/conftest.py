"""One staged scene for all tests of a file that only break it inside a transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg2
import pytest
import sqlalchemy
from sqlalchemy import Connection, text

import scenes
from kubetally.consolidate.stage import Stage
from kubetally.quality.checks import load_checks, run_check
from kubetally.quality.verdict import Gate, Verdict


@dataclass
class Scene:
    """A connection as owner in a transaction that is rolled back after the test."""

    connection: Connection
    stage: Stage

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "cluster_key": self.stage.cluster_key,
            "stage_id": self.stage.stage_id,
            "start": self.stage.window.start,
            "end": self.stage.window.end,
        }

    def plant(self, statement: str) -> None:
        """Breaks something; `:stage_id`, `:cluster_key`, `:start`, `:end` are bound."""
        self.connection.execute(text(statement), self.parameters)

    def check(self, gate: Gate, name: str) -> Verdict:
        found = {check.name: check for check in load_checks(gate)}
        return run_check(self.connection, found[name], self.parameters)

    def verdicts(self, gate: Gate) -> list[Verdict]:
        return [run_check(self.connection, check, self.parameters) for check in load_checks(gate)]


@pytest.fixture(scope="module")
def staged(
    postgres_server: Any, template_database: str
) -> Iterator[tuple[sqlalchemy.Engine, Stage]]:
    """The scene of tests/scenes.py, landed, staged, priced and allocated."""
    database = f"test_{uuid.uuid4().hex[:12]}"
    admin = psycopg2.connect(postgres_server.superuser_url)
    admin.autocommit = True
    with admin.cursor() as cursor:
        cursor.execute(
            f'create database "{database}" template "{template_database}" owner kubetally_owner'
        )
        url = postgres_server.url(
            database, "kubetally_owner", "test-kubetally_owner", driver="psycopg2"
        )
        owner = sqlalchemy.create_engine(
            url, poolclass=sqlalchemy.NullPool, connect_args={"options": "-c TimeZone=UTC"}
        )
        scenes.land_scene(owner)
        yield owner, scenes.stage_scene(owner)
        cursor.execute(f'drop database if exists "{database}" with (force)')
    admin.close()


@pytest.fixture
def scene(staged: tuple[sqlalchemy.Engine, Stage]) -> Iterator[Scene]:
    owner, stage = staged
    with owner.connect() as connection:
        yield Scene(connection, stage)
        connection.rollback()
