"""Which nodes will have no price, and why, by what the price book knows now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from kubetally.config import ClusterConfig, config_dir
from kubetally.doctor.findings import Finding, failure
from kubetally.errors import KubetallyError
from kubetally.prices import book
from kubetally.prices.key import LookupKey, NodeFacts, lookup_key
from kubetally.prices.resolve import Known, hourly_rate, on_demand, resolve
from kubetally.prices.sheet import load
from kubetally.windows import HOUR, Window, floor

ABOUT = "prices"


def probe(
    warehouse: Engine, cluster: ClusterConfig, rows: Iterable[Mapping[str, Any]], now: datetime
) -> Iterator[Finding]:
    """Findings for the nodes that a source just told of (rows of its `node` batch)."""
    nodes = [facts_of(row, cluster) for row in {row["uid"]: row for row in rows}.values()]
    if not nodes:
        yield Finding("WARN", ABOUT, "No node is known: nothing can be priced.")
        return
    keys = {
        node.uid: lookup_key(node, provider=cluster.provider, region=cluster.region)
        for node in nodes
    }
    known: dict[str, Known] = {}
    try:
        texts = [
            each.text
            for key in keys.values()
            if isinstance(key, LookupKey)
            for each in (key, on_demand(key))
        ]
        with warehouse.connect() as connection:
            known = book.read(connection, texts, now)
    except (SQLAlchemyError, KubetallyError) as error:
        yield Finding(
            "WARN",
            ABOUT,
            f"The price book cannot be read ({type(error).__name__}): list prices are left out.",
            "Is the warehouse up? `make status` says.",
        )
    try:
        sheet = load(config_dir() / cluster.price_sheet) if cluster.price_sheet else None
        rate = hourly_rate(cluster.hourly_rate)
    except KubetallyError as error:
        yield failure(ABOUT, error)
        return
    hour = Window(floor(now, HOUR), floor(now, HOUR) + HOUR)
    why: Counter[str] = Counter()
    unpriced: list[str] = []
    for node in nodes:
        key = keys[node.uid]
        about = key if isinstance(key, LookupKey) else None
        price = resolve(
            node,
            hour,
            key=key,
            known=known.get(about.text) if about else None,
            known_on_demand=known.get(on_demand(about).text) if about else None,
            sheet=sheet,
            hourly_rate=rate,
        )[-1]
        if price.state != "priced":
            why[price.reason or price.state] += 1
            unpriced.append(node.node)
    if not unpriced:
        yield Finding("OK", ABOUT, f"all {len(nodes)} nodes have a price")
    for reason, nodes_count in why.most_common():
        yield Finding(
            "WARN",
            ABOUT,
            f"{nodes_count} of {len(nodes)} nodes have no price: {reason}",
            "Run the `prices` DAG, or give a price sheet or an hourly rate"
            f" (`kubetally prices explain {unpriced[0]}` shows every candidate).",
        )


def facts_of(row: Mapping[str, Any], cluster: ClusterConfig) -> NodeFacts:
    """A row of a source's `node` batch as what a price depends on."""

    def number(name: str) -> Decimal | None:
        return None if row.get(name) is None else Decimal(str(row[name]))

    said = {
        name: row.get(name) or ""
        for name in (
            "provider_id",
            "region",
            "zone",
            "instance_type",
            "os",
            "capacity_type",
            "gpu_model",
        )
    }
    return NodeFacts(
        cluster=cluster.name,
        uid=row["uid"],
        node=row["node"],
        labels=msgspec.json.decode(row.get("labels") or "{}", type=dict[str, str]),
        cpu_capacity_cores=number("cpu_capacity_cores"),
        memory_capacity_bytes=number("memory_capacity_bytes"),
        gpu_capacity=number("gpu_capacity"),
        is_virtual=bool(row.get("is_virtual")),
        **said,
    )
