"""Publishing: one transaction makes a staged window the truth, or leaves everything as it was."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, text

from kubetally.consolidate.stage import Stage, demand_staged, fingerprint
from kubetally.errors import ClosedPeriodError, GateError, StaleStageError
from kubetally.warehouse.connect import lock_days, run_file
from kubetally.windows import DAY, HOUR, Window, iso

STAGED_TABLES = (
    "core.pod_hour",
    "core.node_hour",
    "core.container_hour",
    "core.container_stats_hour",
    "mart.cost_hour",
)
STAGED_WHOLE = (
    "core.node_segment",
    "core.pod_segment",
    "core.namespace_segment",
    "core.node_price",
)


@dataclass(frozen=True)
class Published:
    """Receipt: how many hours became current and the hash over the window's content."""

    publication_id: int | None
    hours: int
    rows: int
    content_sha256: str


def publish(engine: Engine, stage: Stage, *, now: datetime, who: str = "") -> Published:
    """Makes the stage current for its hours.

    In one READ COMMITTED transaction: lock the cluster's days, refuse closed months, refuse a stage
    whose loads are no longer the current ones or whose rows are gone, assert that every hour's lines
    add up to the cluster's cost, swap the pointer, roll the days up, write the ledger. Hours that the
    daily run published are left alone by an hourly one. A stage that is published already gives its
    receipt again and changes nothing.

    Raises ClosedPeriodError, StaleStageError (stage and audit again), GateError (invariant broken).
    """
    with engine.begin() as connection:
        lock_days(connection, stage.cluster, stage.window.days())
        if not demand_staged(connection, stage):
            return _receipt(connection, stage)
        _refuse_closed_months(connection, stage)
        if fingerprint(connection, stage.cluster_key, stage.window) != stage.loads_sha256:
            raise StaleStageError(
                f"New data landed for {stage.cluster} {stage.window} after it was staged.",
                remedy="Stage and audit the window again.",
            )
        _assert_balanced(connection, stage)
        hours = _publishable_hours(connection, stage)
        if not hours:
            return Published(None, 0, 0, _window_hash(connection, stage.cluster_key, stage.window))
        before = _current_stages(connection, stage, hours)
        publication_id = _write_ledger(connection, stage, hours, now, who)
        _point_at(connection, stage, hours, publication_id)
        for old in before:
            _purge(connection, old, hours)
        _roll_up(connection, stage)
        content = _window_hash(connection, stage.cluster_key, stage.window)
        return Published(publication_id, len(hours), sum(row.row_count for row in hours), content)


def _receipt(connection: Connection, stage: Stage) -> Published:
    row = connection.execute(
        text(
            "select publication_id, hours, row_count from ops.publication"
            " where stage_id = :stage_id order by publication_id desc limit 1"
        ),
        {"stage_id": stage.stage_id},
    ).one()
    content = _window_hash(connection, stage.cluster_key, stage.window)
    return Published(row.publication_id, row.hours, row.row_count, content)


def _refuse_closed_months(connection: Connection, stage: Stage) -> None:
    closed = connection.execute(
        text(
            "select month from ops.closed_month where cluster_key = :cluster"
            " and month in (select cast(date_trunc('month', cast(day as timestamp)) as date)"
            " from unnest(cast(:days as date[])) as day) order by month limit 1"
        ),
        {"cluster": stage.cluster_key, "days": stage.window.days()},
    ).scalar()
    if closed is not None:
        raise ClosedPeriodError(
            f"{stage.cluster} {stage.window}: {closed:%B %Y} is closed and does not change any more.",
            remedy="Late changes become corrections of the next open month.",
        )


def _assert_balanced(connection: Connection, stage: Stage) -> None:
    window = {"stage_id": stage.stage_id, "start": stage.window.start, "end": stage.window.end}
    broken = run_file(connection, "publish/unbalanced_hours.sql", window).all()
    if broken:
        first = broken[0]
        raise GateError(
            f"{stage.cluster}, hour {iso(first.hour)}, model {first.cost_model}: the lines add up to"
            f" {first.lines_cost} but the cluster costs {first.cluster_cost}, a difference of"
            f" {first.difference} ({len(broken)} hours like it). Nothing was published.",
            remedy="This is a defect of the allocation; please report it with this message.",
        )
    broken = run_file(connection, "publish/unbalanced_distributions.sql", window).all()
    if broken:
        first = broken[0]
        raise GateError(
            f"{stage.cluster}, hour {iso(first.hour)}, model {first.cost_model}: of {first.line}"
            f" {first.resource}, {first.minus_cost} was taken from the cluster and {first.plus_cost}"
            f" given out, a difference of {first.difference} ({len(broken)} like it)."
            " Nothing was published.",
            remedy="This is a defect of the allocation; please report it with this message.",
        )


def _publishable_hours(connection: Connection, stage: Stage) -> Sequence[Any]:
    """Each staged hour with its hash; without those an hourly run must leave to the daily one."""
    rows = run_file(
        connection,
        "publish/content_hashes.sql",
        {"stage_id": stage.stage_id, "start": stage.window.start, "end": stage.window.end},
    ).all()
    if stage.kind == "daily":
        return rows
    settled = set(
        connection.execute(
            text(
                "select hour from ops.published_hour where cluster_key = :cluster and kind = 'daily'"
                " and hour >= :start and hour < :end"
            ),
            {"cluster": stage.cluster_key, "start": stage.window.start, "end": stage.window.end},
        ).scalars()
    )
    return [row for row in rows if row.hour not in settled]


def _current_stages(connection: Connection, stage: Stage, hours: Sequence[Any]) -> list[int]:
    return list(
        connection.execute(
            text(
                "select distinct stage_id from ops.published_hour where cluster_key = :cluster"
                " and hour = any(:hours) and stage_id <> :stage_id"
            ),
            {
                "cluster": stage.cluster_key,
                "hours": [row.hour for row in hours],
                "stage_id": stage.stage_id,
            },
        ).scalars()
    )


def _write_ledger(
    connection: Connection, stage: Stage, hours: Sequence[Any], now: datetime, who: str
) -> int:
    return int(
        connection.execute(
            text(
                "insert into ops.publication (cluster_key, during, kind, stage_id, published_at, hours,"
                " row_count, content_sha256, loads_sha256, reason, published_by)"
                " values (:cluster, tstzrange(:start, :end), :kind, :stage_id, :now, :hours, :rows,"
                " :content, :loads, :reason, :who) returning publication_id"
            ),
            {
                "cluster": stage.cluster_key,
                "start": stage.window.start,
                "end": stage.window.end,
                "kind": stage.kind,
                "stage_id": stage.stage_id,
                "now": now,
                "hours": len(hours),
                "rows": sum(row.row_count for row in hours),
                "content": combined_hash([row.content_sha256 for row in hours]),
                "loads": stage.loads_sha256,
                "reason": stage.reason,
                "who": who,
            },
        ).scalar_one()
    )


def _point_at(
    connection: Connection, stage: Stage, hours: Sequence[Any], publication_id: int
) -> None:
    connection.execute(
        text(
            "insert into ops.published_hour (cluster_key, hour, stage_id, publication_id, kind,"
            " revision, as_of, content_sha256)"
            " values (:cluster, :hour, :stage_id, :publication_id, :kind, :revision, :as_of, :content)"
            " on conflict (cluster_key, hour) do update set stage_id = excluded.stage_id,"
            " publication_id = excluded.publication_id, kind = excluded.kind,"
            " revision = excluded.revision, as_of = excluded.as_of,"
            " content_sha256 = excluded.content_sha256"
        ),
        [
            {
                "cluster": stage.cluster_key,
                "hour": row.hour,
                "stage_id": stage.stage_id,
                "publication_id": publication_id,
                "kind": stage.kind,
                "revision": row.revision,
                "as_of": row.as_of,
                "content": row.content_sha256,
            }
            for row in hours
        ],
    )
    connection.execute(
        text("update ops.stage set state = 'published' where stage_id = :stage_id"),
        {"stage_id": stage.stage_id},
    )


def _purge(connection: Connection, stage_id: int, hours: Sequence[Any]) -> None:
    """Deletes what a replaced stage held for these hours; all of it once nothing is current."""
    window = {
        "stage_id": stage_id,
        "start": min(row.hour for row in hours),
        "end": max(row.hour for row in hours) + HOUR,
        "hours": [row.hour for row in hours],
    }
    for table in STAGED_TABLES:
        connection.execute(
            text(
                f"delete from {table} where stage_id = :stage_id and hour = any(:hours)"  # noqa: S608
                " and hour >= :start and hour < :end"
            ),
            window,
        )
    still_current = connection.execute(
        text("select 1 from ops.published_hour where stage_id = :stage_id limit 1"),
        {"stage_id": stage_id},
    ).scalar()
    if not still_current:
        discard(connection, stage_id)


def discard(connection: Connection, stage_id: int) -> None:
    """Deletes every row of a stage that no reader follows and marks it abandoned."""
    during = connection.execute(
        text("select during from ops.stage where stage_id = :stage_id"), {"stage_id": stage_id}
    ).scalar_one()
    for table in STAGED_TABLES:
        connection.execute(
            text(
                f"delete from {table} where stage_id = :stage_id and hour >= :start and hour < :end"  # noqa: S608
            ),
            {"stage_id": stage_id, "start": during.lower, "end": during.upper},
        )
    for table in STAGED_WHOLE:
        connection.execute(
            text(f"delete from {table} where stage_id = :stage_id"),  # noqa: S608
            {"stage_id": stage_id},
        )
    connection.execute(
        text("update ops.stage set state = 'abandoned' where stage_id = :stage_id"),
        {"stage_id": stage_id},
    )


def _roll_up(connection: Connection, stage: Stage) -> None:
    days = stage.window.days()
    whole = Window.of_day(days[0]).start, Window.of_day(days[-1]).start + DAY
    connection.execute(
        text("delete from mart.cost_day where cluster_key = :cluster and day = any(:days)"),
        {"cluster": stage.cluster_key, "days": days},
    )
    run_file(
        connection,
        "publish/rollup_days.sql",
        {"cluster_key": stage.cluster_key, "start": whole[0], "end": whole[1]},
    )


def _window_hash(connection: Connection, cluster_key: int, window: Window) -> str:
    """SHA-256 over the hashes of the window's published hours, in order."""
    return combined_hash(
        list(
            connection.execute(
                text(
                    "select content_sha256 from ops.published_hour where cluster_key = :cluster"
                    " and hour >= :start and hour < :end order by hour"
                ),
                {"cluster": cluster_key, "start": window.start, "end": window.end},
            ).scalars()
        )
    )


def combined_hash(hashes: Sequence[str]) -> str:
    """One SHA-256 over the hashes of several hours, in the order given."""
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
