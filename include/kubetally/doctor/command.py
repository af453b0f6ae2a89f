"""`python -m kubetally doctor CLUSTER`, and the same as a task."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from kubetally.config import cluster
from kubetally.doctor.examine import examine
from kubetally.doctor.findings import as_json, as_text, has_failed
from kubetally.errors import SourceError
from kubetally.warehouse.connect import engine

log = logging.getLogger(__name__)


def report(name: str, now: datetime, *, is_json: bool = False) -> tuple[str, bool]:
    """The findings as text or JSON, and whether one is a FAIL. Raises ConfigError for an unknown name."""
    found = list(examine(cluster(name), engine("publisher"), now=now))
    return (as_json(found) if is_json else as_text(found)), has_failed(found)


def demand_health(name: str) -> int:
    """Logs the findings; returns how many lines. Raises SourceError when one is a FAIL."""
    text, failed = report(name, datetime.now(UTC))
    for line in text.splitlines():
        log.info("%s", line)
    if failed:
        raise SourceError(
            f"Cluster {name!r} lacks something that its bill needs.",
            remedy="See the FAIL lines above and their remedies.",
        )
    return len(text.splitlines())
