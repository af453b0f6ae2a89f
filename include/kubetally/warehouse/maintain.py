"""Upkeep of the warehouse: partitions, retention, stages nobody reads, freshness."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection, text

from kubetally import config
from kubetally.errors import ConfigError, GateError
from kubetally.warehouse.connect import engine
from kubetally.warehouse.publish import discard
from kubetally.windows import Window

RAW = ("pod", "node", "usage", "namespace", "volume", "load_balancer", "container_stats")
HOURLY = (
    "core.pod_hour",
    "core.node_hour",
    "core.container_hour",
    "core.container_stats_hour",
    "mart.cost_hour",
)
DAYS_AHEAD = 2
STAGE_LIFE = timedelta(days=1)
FRESH_WITHIN = timedelta(days=2)


def keep_partitions(now: datetime | None = None) -> dict[str, int]:
    """Makes the partitions of the coming days and drops those past retention.

    Loads whose rows go with a raw partition no longer speak, before the rows go: a window so old
    fails its gate instead of being published as empty. The daily rollup stays.
    """
    moment = now or datetime.now(UTC)
    today = moment.date()
    raw_from = today - timedelta(days=_days("KUBETALLY_RAW_DAYS", 90))
    hours_from = today - timedelta(days=_days("KUBETALLY_HOUR_DAYS", 400))
    owner = engine("owner")
    with owner.begin() as connection:
        connection.execute(
            text(
                "update ops.load set speaks_for = '{}', superseded_at = :now"
                " where superseded_at is null and upper(during) <= :edge"
            ),
            {"edge": Window.of_day(raw_from).start, "now": moment},
        )
    made = dropped = 0
    for table in (*(f"raw.{name}_interval" for name in RAW), *HOURLY):
        # One transaction each: both lock the table, and nobody waits holding one.
        with owner.begin() as connection:
            made += connection.execute(
                text("select ops.ensure_partitions(cast(:parent as regclass), :first, :last)"),
                {"parent": table, "first": today, "last": today + timedelta(days=DAYS_AHEAD)},
            ).scalar_one()
        with owner.begin() as connection:
            edge = raw_from if table.startswith("raw") else hours_from
            dropped += _drop_before(connection, table, edge)
    return {"partitions_made": made, "partitions_dropped": dropped}


def discard_stages(now: datetime | None = None) -> dict[str, int]:
    """Deletes the rows of stages that were never published and are older than a day."""
    edge = (now or datetime.now(UTC)) - STAGE_LIFE
    with engine("publisher").begin() as connection:
        left = connection.execute(
            text(
                "select stage_id from ops.stage where state = 'staged' and created_at < :edge"
                " order by stage_id for update skip locked"
            ),
            {"edge": edge},
        ).scalars()
        stages = list(left)
        for stage_id in stages:
            discard(connection, stage_id)
    return {"stages_discarded": len(stages)}


def check_freshness(now: datetime | None = None) -> dict[str, str]:
    """The newest published hour per cluster. Raises GateError naming those that lag behind."""
    moment = now or datetime.now(UTC)
    with engine("quality").connect() as connection:
        rows = connection.execute(
            text(
                "select cluster.cluster, max(published.hour) as newest from core.cluster"
                " left join ops.published_hour as published using (cluster_key) group by cluster.cluster"
            )
        ).all()
    newest = {row.cluster: row.newest for row in rows}
    late = [
        f"{cluster.name} (newest: {newest.get(cluster.name) or 'nothing'})"
        for cluster in config.clusters()
        if newest.get(cluster.name) is None or newest[cluster.name] < moment - FRESH_WITHIN
    ]
    if late:
        raise GateError(
            f"No costs were published for more than {FRESH_WITHIN.days} days: {', '.join(late)}.",
            remedy="See why costs_daily did not publish; the failed task's last line says it.",
        )
    return {name: str(hour) for name, hour in newest.items()}


def _drop_before(connection: Connection, parent: str, edge: date) -> int:
    partitions = connection.execute(
        text(
            "select child.oid::regclass::text as name,"
            " pg_get_expr(child.relpartbound, child.oid) as bounds"
            " from pg_inherits join pg_class as child on child.oid = inhrelid"
            " where inhparent = cast(:parent as regclass)"
        ),
        {"parent": parent},
    ).all()
    dropped = 0
    for partition in partitions:
        upper = partition.bounds.split("TO ('")[1][:10]
        if date.fromisoformat(upper) <= edge:
            connection.exec_driver_sql(f"drop table {partition.name}")
            dropped += 1
    return dropped


def _days(setting: str, default: int) -> int:
    value = os.environ.get(setting, "") or str(default)
    if not value.isdigit() or int(value) < 1:
        raise ConfigError(
            f"{setting} is {value!r}, which is not a number of days.",
            remedy=f"Give a whole number of at least 1, or unset it for {default}.",
        )
    return int(value)
