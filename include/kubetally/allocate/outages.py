"""Outages: when a cluster was down, from include/config/outages/*.yaml, dated and remembered.

The format is that of nerc-rates' outages.yaml, with its gaps closed: times must say that they are UTC,
an outage without an end lasts, and the union is what counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
from sqlalchemy import Connection, text

from kubetally.config import ClusterConfig, config_dir, load_yaml

Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Timeframe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from"}):
    start: Moment
    affected_services: tuple[str, ...]
    until: Moment | None = None

    def __post_init__(self) -> None:
        for name, moment in (("from", self.start), ("until", self.until)):
            if moment is not None and moment.utcoffset() != timedelta(0):
                raise ValueError(f"`{name}` must be UTC, like 2026-10-14T12:00:00Z")
        if self.until is not None and self.until <= self.start:
            raise ValueError("`until` must lie after `from`")
        if not self.affected_services:
            raise ValueError("`affected_services` names no service")


class Outage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    timeframes: tuple[Timeframe, ...]


def load_outages(folder: Path | None = None) -> tuple[Outage, ...]:
    """Every outage of every file. Raises ConfigError that names file, key and expectation."""
    files = sorted(((folder or config_dir()) / "outages").glob("*.yaml"))
    return tuple(outage for path in files for outage in load_yaml(path, tuple[Outage, ...]))


def sync_outages(
    connection: Connection,
    outages: Iterable[Outage],
    now: datetime,
    clusters: Iterable[ClusterConfig] = (),
) -> None:
    """Makes `outages` the known ones from `now` on; what was known before stays readable.

    What is said of a service counts for every cluster that bears its name or lists it; a service that
    no cluster answers to is kept under its own name.
    """
    wanted = set(_rows(outages, tuple(clusters)))
    known: dict[tuple[Any, ...], int] = {
        tuple(row[1:]): row[0]
        for row in connection.execute(
            text(
                "select outage_id, cluster, service, url, lower(during), upper(during)"
                " from core.outage where upper_inf(known)"
            )
        )
    }
    is_first = not connection.execute(text("select 1 from core.outage limit 1")).scalar()
    connection.execute(
        text(
            "update core.outage set known = tstzrange(lower(known), greatest(:now, lower(known)))"
            " where outage_id = any(:gone)"
        ),
        {"now": now, "gone": [key for row, key in known.items() if row not in wanted]},
    )
    for cluster, service, url, start, end in sorted(wanted - known.keys(), key=str):
        connection.execute(
            text(
                "insert into core.outage (cluster, service, url, during, known) values"
                " (:cluster, :service, :url, tstzrange(:start, :end), tstzrange(:since, null))"
            ),
            {
                "cluster": cluster,
                "service": service,
                "url": url,
                "start": start,
                "end": end,
                "since": None if is_first else now,
            },
        )


def _rows(
    outages: Iterable[Outage], clusters: tuple[ClusterConfig, ...]
) -> Iterable[tuple[str, str, str, datetime, datetime | None]]:
    for outage in outages:
        for frame in outage.timeframes:
            for service in frame.affected_services:
                names = [
                    cluster.name
                    for cluster in clusters
                    if service == cluster.name or service in cluster.outage_services
                ]
                for name in names or [service]:
                    yield name, service, outage.url, frame.start, frame.until
