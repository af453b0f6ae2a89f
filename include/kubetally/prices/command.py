"""`kubetally prices explain`: where a node's price comes from, from the warehouse or the list itself.

Without `--live` the rows judged are those of the snapshot that the price book searched, so the answer
is about what was known; with it the provider's list is asked now, and nothing is stored.
"""

from __future__ import annotations

import zlib
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, text

from kubetally import config
from kubetally.config import ClusterConfig, config_dir
from kubetally.errors import ConfigError, KubetallyError
from kubetally.prices import book, fetch, fetch_aws
from kubetally.prices.explain import Rows, explain, keys_to_know, rows_of
from kubetally.prices.key import LookupKey, NodeFacts
from kubetally.prices.resolve import hourly_rate
from kubetally.prices.sheet import load
from kubetally.warehouse.connect import engine


def explain_price(
    node: str, at: datetime, *, cluster: str = "", live: bool = False, now: datetime
) -> str:
    """The text for `node`: a name, or labels as `name=value,name=value`.

    Raises ConfigError when the node or the cluster is not known.
    """
    with engine("publisher").connect() as connection:
        found = (
            _from_labels(node, cluster)
            if "=" in node
            else _from_warehouse(connection, node, cluster, at)
        )
        of_cluster = _cluster(found.cluster)
        keys = keys_to_know(found, provider=of_cluster.provider, region=of_cluster.region)
        known = book.read(connection, [key.text for key in keys], now) if keys else {}
        note, rows = "", Rows()
        if keys:
            try:
                rows = _live_rows(keys[0], now) if live else _kept_rows(connection, keys[0], now)
            except KubetallyError as error:
                note = f"The list cannot be shown: {error}\n"
        return note + explain(
            found,
            at,
            provider=of_cluster.provider,
            region=of_cluster.region,
            rows=rows,
            known=known.get(keys[0].text) if keys else None,
            known_on_demand=known.get(keys[1].text) if keys else None,
            sheet=load(config_dir() / of_cluster.price_sheet) if of_cluster.price_sheet else None,
            hourly_rate=hourly_rate(of_cluster.hourly_rate),
        )


def _from_labels(said: str, cluster: str) -> NodeFacts:
    labels = {}
    for pair in filter(None, (part.strip() for part in said.split(","))):
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"{pair!r} is not a label.", remedy="Write name=value,name=value.")
        labels[name.strip()] = value.strip()
    is_virtual = labels.get("eks.amazonaws.com/compute-type") == "fargate"
    return NodeFacts(
        cluster=cluster, uid="", node="(by labels)", labels=labels, is_virtual=is_virtual
    )


def _from_warehouse(connection: Connection, node: str, cluster: str, at: datetime) -> NodeFacts:
    """What the sources said about the node at `at`, or the last time before."""
    row = connection.execute(
        text(
            "select node_interval.*, cluster.cluster from raw.node_interval"
            " join ops.load using (load_id) join core.cluster using (cluster_key)"
            " where node = :node and (:cluster = '' or cluster.cluster = :cluster)"
            " and start_at <= :at and load.superseded_at is null"
            " order by start_at desc limit 1"
        ),
        {"node": node, "cluster": cluster, "at": at},
    ).one_or_none()
    if row is None:
        raise ConfigError(
            f"No source has spoken of a node {node!r} up to then.",
            remedy="Give its labels instead: name=value,name=value.",
        )
    return NodeFacts(
        cluster=row.cluster,
        uid=row.uid,
        node=row.node,
        provider_id=row.provider_id or "",
        region=row.region or "",
        zone=row.zone or "",
        instance_type=row.instance_type or "",
        os=row.os or "",
        capacity_type=row.capacity_type or "",
        labels=dict(row.labels or {}),
        cpu_capacity_cores=_number(row.cpu_capacity_cores),
        memory_capacity_bytes=_number(row.memory_capacity_bytes),
        gpu_capacity=_number(row.gpu_capacity),
        gpu_model=row.gpu_model or "",
        is_virtual=bool(row.is_virtual),
    )


def _cluster(name: str) -> ClusterConfig:
    """The cluster, or the only one there is, or one that says nothing."""
    known = config.clusters()
    if name:
        return config.cluster(name)
    if len(known) == 1:
        return known[0]
    return ClusterConfig("any", (config.SourceConfig("kubernetes", "unused"),))


def _kept_rows(connection: Connection, key: LookupKey, now: datetime) -> Rows:
    row = connection.execute(
        text(
            "select snapshot.provider, snapshot.payload from core.price_snapshot as snapshot"
            " where snapshot_id = coalesce("
            " (select max(snapshot_id) from core.price where lookup_key = :key"
            " and known @> cast(:now as timestamptz)),"
            " (select snapshot_id from core.price_lookup where lookup_key = :key"
            " and known @> cast(:now as timestamptz)))"
        ),
        {"key": key.text, "now": now},
    ).one_or_none()
    if row is None:
        raise ConfigError("no snapshot is kept for it.", remedy="Use --live to ask the list.")
    return rows_of(row.provider, zlib.decompress(row.payload))


def _live_rows(key: LookupKey, now: datetime) -> Rows:
    if key.provider == "azure":
        return Rows(azure=fetch.AzurePrices.from_connection().items(key, now)[0])
    if key.provider == "gcp":
        catalog = fetch.GcpPrices.from_connection().catalog(now, key)[0]
        found = {sku.sku_id: sku for skus in catalog.skus.values() for sku in skus}
        return Rows(gcp=list(found.values()))
    return Rows(aws=fetch_aws.from_connection().offers(key))


def _number(value: Any) -> Decimal | None:
    return None if value is None else Decimal(value)
