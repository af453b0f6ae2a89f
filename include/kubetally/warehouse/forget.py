"""Forgetting: takes every row of one cluster out of the warehouse."""

from __future__ import annotations

from sqlalchemy import Connection, text

from kubetally.errors import BadDataError

BY_LOAD = ("pod", "node", "usage", "namespace", "volume", "load_balancer", "container_stats")
BY_CLUSTER = (
    "mart.cost_hour",
    "mart.cost_day",
    "core.pod_hour",
    "core.node_hour",
    "core.container_hour",
    "core.container_stats_hour",
    "core.pod_segment",
    "core.node_segment",
    "core.namespace_segment",
    "ops.published_hour",
    "ops.publication",
    "ops.check_result",
    "ops.gap",
    "ops.closed_month",
)
LAST = ("ops.stage", "ops.load", "core.pod", "core.node", "core.cluster")


def forget(connection: Connection, cluster: str) -> dict[str, int]:
    """Deletes all of `cluster` and returns the rows per table. Prices and owners stay.

    Runs as kubetally_owner in the caller's transaction. Raises BadDataError for an unknown cluster.
    """
    key = connection.execute(
        text("select cluster_key from core.cluster where cluster = :cluster"), {"cluster": cluster}
    ).scalar()
    if key is None:
        known = connection.execute(text("select cluster from core.cluster order by 1")).scalars()
        raise BadDataError(
            f"The warehouse holds nothing of a cluster {cluster!r}; it knows"
            f" {', '.join(known) or 'no cluster'}."
        )
    of_loads = "where load_id in (select load_id from ops.load where cluster_key = :key)"
    of_stages = "where stage_id in (select stage_id from ops.stage where cluster_key = :key)"
    deletes = [
        *((f"raw.{name}_interval", of_loads) for name in BY_LOAD),
        ("ops.reject", of_loads),
        ("core.node_price", of_stages),
        *((table, "where cluster_key = :key") for table in BY_CLUSTER),
        ("ops.stage_hour", of_stages),
        *((table, "where cluster_key = :key") for table in LAST),
    ]
    return {
        table: connection.execute(text(f"delete from {table} {condition}"), {"key": key}).rowcount  # noqa: S608
        for table, condition in deletes
    }
