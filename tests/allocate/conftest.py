"""Property tests land and stage hundreds of small clusters: connections are kept, not reopened."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy

from allocate import scene
from kubetally.warehouse import connect


@pytest.fixture
def pooled(warehouse: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A warehouse whose engines keep their connections."""
    monkeypatch.setattr(connect, "NullPool", sqlalchemy.QueuePool)
    engines: list[sqlalchemy.Engine] = []

    @functools.cache
    def engine(role: connect.Role) -> sqlalchemy.Engine:
        engines.append(connect.engine(role))
        return engines[-1]

    monkeypatch.setattr(scene, "engine", engine)
    yield warehouse
    for one in engines:
        one.dispose()
