"""Stages: one computation of one window, from loads to hourly facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any, Literal

from sqlalchemy import Connection, Engine, text

from kubetally.config import ClusterConfig
from kubetally.errors import BadDataError, StaleStageError
from kubetally.prices.key import NodeFacts
from kubetally.warehouse.connect import cluster_key, run_file
from kubetally.windows import DAY, HOUR, Window, floor

Kind = Literal["hourly", "daily"]
FACTS = (
    "node_segment",
    "namespace_segment",
    "pod_segment",
    "container_hour",
    "pod_hour",
    "node_hour",
    "container_stats_hour",
)


HOURLY = (
    "core.pod_hour",
    "core.node_hour",
    "core.container_hour",
    "core.container_stats_hour",
    "mart.cost_hour",
)


@dataclass(frozen=True)
class Stage:
    """A staged window. `loads_sha256` is what it was computed from."""

    stage_id: int
    cluster_key: int
    cluster: str
    window: Window
    kind: Kind
    loads_sha256: str
    reason: str = ""


def fingerprint(connection: Connection, cluster_key: int, window: Window) -> str:
    """SHA-256 over the loads that speak for the window; the same content gives the same one."""
    found = run_file(
        connection,
        "publish/fingerprint.sql",
        {"cluster_key": cluster_key, "start": window.start, "end": window.end},
    )
    return str(found.scalar_one())


def begin(
    engine: Engine,
    cluster: ClusterConfig,
    window: Window,
    kind: Kind,
    *,
    now: datetime,
    restate_reason: str = "",
) -> Stage:
    """Opens a stage and pins what each hour is computed with.

    An hour that the same kind of run published before keeps its `as_of`, so that an ordinary re-run
    uses the same knowledge; its revision is kept. With `restate_reason` the knowledge of `now` is
    used and the revision goes up. Raises BadDataError for windows that are not whole hours.
    """
    if not window.is_whole_hours:
        raise BadDataError(f"{window} is not made of whole UTC hours.")
    for table in HOURLY:
        # One transaction each: making a partition locks its table, and nobody waits holding one.
        with engine.begin() as connection:
            connection.execute(
                text("select ops.ensure_partitions(cast(:parent as regclass), :first, :last)"),
                {"parent": table, "first": window.days()[0], "last": window.days()[-1]},
            )
    with engine.begin() as connection:
        key = cluster_key(connection, cluster.name)
        loads = fingerprint(connection, key, window)
        stage_id = connection.execute(
            text(
                "insert into ops.stage (cluster_key, during, kind, state, loads_sha256, created_at, reason)"
                " values (:cluster, tstzrange(:start, :end), :kind, 'staged', :loads, :now, :reason)"
                " returning stage_id"
            ),
            {
                "cluster": key,
                "start": window.start,
                "end": window.end,
                "kind": kind,
                "loads": loads,
                "now": now,
                "reason": restate_reason,
            },
        ).scalar_one()
        connection.execute(
            text(
                "insert into ops.stage_hour (stage_id, hour, as_of, revision)"
                " select :stage_id, started,"
                " case when published.kind = :kind and not :restate then published.as_of else :now end,"
                " coalesce(published.revision, 1 - cast(:restate as integer)) + cast(:restate as integer)"
                " from generate_series(cast(:start as timestamptz),"
                " cast(:end as timestamptz) - interval '1 hour', interval '1 hour') as started"
                " left join ops.published_hour as published"
                " on published.cluster_key = :cluster and published.hour = started"
            ),
            {
                "stage_id": stage_id,
                "cluster": key,
                "start": window.start,
                "end": window.end,
                "kind": kind,
                "now": now,
                "restate": bool(restate_reason),
            },
        )
        return Stage(int(stage_id), key, cluster.name, window, kind, loads, restate_reason)


def find(connection: Connection, stage_id: int) -> Stage:
    """The stage with this id. Raises BadDataError when there is none."""
    row = connection.execute(
        text(
            "select stage.*, cluster.cluster from ops.stage join core.cluster using (cluster_key)"
            " where stage_id = :stage_id"
        ),
        {"stage_id": stage_id},
    ).one_or_none()
    if row is None:
        raise BadDataError(f"There is no stage {stage_id}.", remedy="Run `consolidate` again.")
    window = Window(row.during.lower, row.during.upper)
    return Stage(
        row.stage_id, row.cluster_key, row.cluster, window, row.kind, row.loads_sha256, row.reason
    )


def consolidate(engine: Engine, stage: Stage) -> dict[str, int]:
    """Fills the stage's core facts from the loads that speak for its window; returns row counts."""
    parameters = {
        "stage_id": stage.stage_id,
        "cluster_key": stage.cluster_key,
        "start": stage.window.start,
        "end": stage.window.end,
        "day_start": floor(stage.window.start, DAY),
        "day_end": Window.of_day(stage.window.days()[-1]).end,
    }
    for names in ("register_nodes", "register_pods"):
        with engine.begin() as connection:
            run_file(connection, f"stage/{names}.sql", parameters)
    counts: dict[str, int] = {}
    with engine.begin() as connection:
        # A fresh stage has no statistics, so nested loops look cheap and are not.
        connection.execute(text("set local enable_nestloop = off"))
        for fact in FACTS:
            counts[fact] = run_file(connection, f"stage/{fact}.sql", parameters).rowcount
    return counts


def demand_staged(connection: Connection, stage: Stage) -> bool:
    """Locks the stage; whether it is still staged (true) or published already (false).

    Raises StaleStageError for a stage that was replaced or discarded: its rows are gone.
    """
    state = connection.execute(
        text("select state from ops.stage where stage_id = :stage_id for update"),
        {"stage_id": stage.stage_id},
    ).scalar()
    if state not in ("staged", "published"):
        raise StaleStageError(
            f"Stage {stage.stage_id} of {stage.cluster} {stage.window} was replaced by a later run"
            " or discarded.",
            remedy="Run the window again from `consolidate` on.",
        )
    return bool(state == "staged")


def node_facts(
    connection: Connection, stage: Stage, cluster: ClusterConfig
) -> dict[Window, dict[int, NodeFacts]]:
    """What the staged nodes are, by node key, for each part of the window in which they stay so.

    The latest segment in an hour speaks for the whole hour. A node counts from the window's start
    to its end; hours in which it does not exist cost nothing.
    """
    rows = connection.execute(
        text(
            "select node_segment.*, node.uid, node.node"
            " from core.node_segment join core.node using (node_key)"
            " where stage_id = :stage_id order by node_key, during"
        ),
        {"stage_id": stage.stage_id},
    )
    found: dict[Window, dict[int, NodeFacts]] = {}
    for node_key, segments in groupby(rows, key=lambda row: row.node_key):
        since: list[tuple[datetime, NodeFacts]] = []
        for row in segments:
            facts = _facts(row, cluster)
            hour = floor(row.during.lower, HOUR) if since else stage.window.start
            if since and since[-1][1] == facts:
                continue
            if since and since[-1][0] >= hour:
                hour = since.pop()[0]
            since.append((hour, facts))
        ends = [start for start, _ in since[1:]] + [stage.window.end]
        for (start, facts), end in zip(since, ends, strict=True):
            found.setdefault(Window(start, end), {})[node_key] = facts
    return found


def _facts(row: Any, cluster: ClusterConfig) -> NodeFacts:
    def number(value: Decimal | None) -> Decimal | None:
        return None if value is None else Decimal(value)

    return NodeFacts(
        cluster=cluster.name,
        uid=row.uid,
        node=row.node,
        provider_id=row.provider_id or "",
        region=row.region or cluster.region,
        zone=row.zone or "",
        instance_type=row.instance_type or "",
        os=row.os or "",
        capacity_type=row.capacity_type or "",
        labels=dict(row.labels or {}),
        cpu_capacity_cores=number(row.cpu_capacity_cores),
        memory_capacity_bytes=number(row.memory_capacity_bytes),
        gpu_capacity=number(row.gpu_capacity),
        gpu_model=row.gpu_model or "",
        is_virtual=row.is_virtual,
    )


def spans_by_as_of(connection: Connection, stage: Stage) -> Iterator[tuple[datetime, Window]]:
    """The stage's window cut where the pinned knowledge changes: (as_of, part of the window)."""
    rows = connection.execute(
        text("select as_of, hour from ops.stage_hour where stage_id = :stage_id order by hour"),
        {"stage_id": stage.stage_id},
    ).all()
    for as_of, group in groupby(rows, key=lambda row: row.as_of):
        hours = [row.hour for row in group]
        yield as_of, Window(hours[0], hours[-1] + HOUR)
