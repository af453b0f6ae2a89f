"""Looks up the prices of the machines that a window's nodes are."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, text

from kubetally.config import ClusterConfig, config_dir
from kubetally.prices.book import ensure
from kubetally.prices.key import LookupKey, NodeFacts, lookup_key
from kubetally.prices.resolve import on_demand, takes_on_demand
from kubetally.prices.sheet import Sheet, load
from kubetally.warehouse.connect import cluster_key
from kubetally.windows import Window


def look_up_in_use(
    engine: Engine,
    cluster: ClusterConfig,
    window: Window,
    *,
    now: datetime,
    max_age: timedelta = timedelta(days=3650),
) -> dict[str, Any]:
    """Makes sure the price book knows every machine type met in the window; returns a summary.

    Only keys the book does not know, or knows longer than `max_age`, are asked for.
    """
    with engine.begin() as connection:
        keys = _keys_in_use(connection, cluster, window)
        return ensure(connection, keys, now=now, max_age=max_age, since=window.start)


def _keys_in_use(connection: Any, cluster: ClusterConfig, window: Window) -> list[LookupKey]:
    rows = connection.execute(
        text(
            "select distinct provider_id, region, zone, instance_type, os, capacity_type, labels,"
            " is_virtual, gpu_capacity, node"
            " from raw.node_interval"
            " join ops.spoken(cast(:cluster as smallint), 'node', :start, :end) using (load_id)"
            " where start_at < :end and end_at > :start"
        ),
        {
            "cluster": cluster_key(connection, cluster.name),
            "start": window.start,
            "end": window.end,
        },
    ).all()
    sheet = load(config_dir() / cluster.price_sheet) if cluster.price_sheet else Sheet()
    keys: dict[str, LookupKey] = {}
    for row in rows:
        facts = NodeFacts(
            cluster=cluster.name,
            uid="",
            node=row.node,
            provider_id=row.provider_id or "",
            region=row.region or "",
            zone=row.zone or "",
            instance_type=row.instance_type or "",
            os=row.os or "",
            capacity_type=row.capacity_type or "",
            labels=dict(row.labels or {}),
            gpu_capacity=row.gpu_capacity,
            is_virtual=bool(row.is_virtual),
        )
        key = lookup_key(facts, provider=cluster.provider, region=cluster.region)
        if isinstance(key, LookupKey):
            keys[key.text] = key
            if takes_on_demand(facts, sheet):
                keys[on_demand(key).text] = on_demand(key)
    return [keys[name] for name in sorted(keys)]
