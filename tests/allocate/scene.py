"""Small made-up clusters: rows as a source would hand them over, landed and taken through the stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy
from sqlalchemy import text

from kubetally.allocate.allocate import allocate
from kubetally.allocate.drivers import sync_drivers
from kubetally.allocate.models import BasePrice, CostModel, ModelVersion, sync_models
from kubetally.allocate.owners import OwnerEntry, sync_owners
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate.stage import Kind, Stage, begin, consolidate
from kubetally.sources.rows import Batch, Collected, Dataset, Reject, frame
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import Landed, land
from kubetally.warehouse.publish import Published, publish
from kubetally.windows import Window

GIB = 1024**3
NOW = datetime(2026, 12, 1, tzinfo=UTC)
DAY = datetime(2026, 11, 3, tzinfo=UTC)
Span = tuple[datetime, datetime]
Row = dict[str, Any]

SOURCES: dict[str, SourceConfig] = {
    "prometheus": SourceConfig("prometheus", "unused"),
    "kubernetes": SourceConfig("kubernetes", "unused"),
    "files": SourceConfig("files", path="unused"),
}
RESOURCE_MODEL = CostModel(
    "resource",
    (
        ModelVersion(
            valid_from=datetime(2020, 1, 1).date(),
            currency="USD",
            base_price=BasePrice(Decimal("0.031611"), Decimal("0.004237"), Decimal("0.95")),
        ),
    ),
)


def at(clock: str, day: datetime = DAY) -> datetime:
    """`"10:05"` or `"10:05:30.5"` on `day`, UTC; `"24:00"` is the next midnight."""
    hours, minutes, seconds = [*clock.split(":"), "0"][:3]
    return day + timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))


def span(start: str, end: str, day: datetime = DAY) -> Span:
    return at(start, day), at(end, day)


def hours(start: str, end: str, day: datetime = DAY) -> Window:
    return Window(*span(start, end, day))


def cluster_of(name: str, *kinds: str, **settings: Any) -> ClusterConfig:
    """A cluster whose sources, in order of precedence, are `kinds`."""
    return ClusterConfig(
        name, tuple(SOURCES[kind] for kind in kinds or ("prometheus",)), **settings
    )


def pod(name: str, during: Span, **facts: Any) -> Row:
    """A statement about the pod `shop/<name>`; no request unless given."""
    row = {
        "start_at": during[0],
        "end_at": during[1],
        "uid": f"uid-{name}",
        "namespace": "shop",
        "pod": name,
        "phase": "Running",
        "cpu_request_cores": "0",
        "memory_request_bytes": "0",
        "gpu_request": "0",
        "labels": "{}",
        "annotations": "{}",
    }
    return row | facts


def node(name: str, during: Span, **facts: Any) -> Row:
    """A statement about a node of 4 cores and 16 GiB, all of it allocatable."""
    row = {
        "start_at": during[0],
        "end_at": during[1],
        "uid": f"uid-{name}",
        "node": name,
        "cpu_capacity_cores": "4",
        "memory_capacity_bytes": str(16 * GIB),
        "gpu_capacity": "0",
        "is_ready": True,
        "is_virtual": False,
        "labels": "{}",
    }
    return row | facts


def usage(
    name: str, during: Span, cpu: str | None = None, memory: str | None = None, **facts: Any
) -> Row:
    """A row of what the container `main` of the pod `shop/<name>` used."""
    row = {
        "start_at": during[0],
        "end_at": during[1],
        "uid": f"uid-{name}",
        "namespace": "shop",
        "pod": name,
        "container": "main",
        "cpu_used_core_seconds": cpu,
        "memory_used_byte_seconds": memory,
    }
    return row | facts


def namespace(name: str, during: Span, labels: str = "{}") -> Row:
    return {
        "start_at": during[0],
        "end_at": during[1],
        "uid": f"uid-{name}",
        "namespace": name,
        "labels": labels,
        "annotations": "{}",
    }


@dataclass(frozen=True)
class Said:
    """What a source says about a window: rows per dataset, and what it could not speak for."""

    window: Window
    rows: Mapping[Dataset, Sequence[Row]]
    silent: Mapping[Dataset, Sequence[Span]] = field(default_factory=dict)
    source: str = "prometheus"
    rejects: tuple[Reject, ...] = ()

    def covered(self, dataset: Dataset) -> tuple[Span, ...]:
        return tuple(without([(self.window.start, self.window.end)], self.silent.get(dataset, ())))

    def batch(self, dataset: Dataset) -> Batch:
        return Batch(
            dataset,
            self.window,
            frame(dataset, self.rows.get(dataset, ())),
            self.covered(dataset),
            "0" * 64,
            tuple(reject for reject in self.rejects if reject.dataset == dataset),
        )

    def within(self, window: Window) -> Said:
        """The same, as it would have been said about a part of the window."""
        rows = {
            dataset: [
                row
                | {
                    "start_at": max(row["start_at"], window.start),
                    "end_at": min(row["end_at"], window.end),
                }
                for row in said
                if row["start_at"] < window.end and row["end_at"] > window.start
            ]
            for dataset, said in self.rows.items()
        }
        return Said(window, rows, self.silent, self.source, self.rejects)


def without(spans: Iterable[Span], holes: Iterable[Span]) -> list[Span]:
    """`spans` minus `holes`."""
    left = list(spans)
    for hole_start, hole_end in holes:
        left = [
            part
            for start, end in left
            for part in ((start, min(end, hole_start)), (max(start, hole_end), end))
            if part[0] < part[1]
        ]
    return sorted(left)


DATASETS: tuple[Dataset, ...] = ("pod", "node", "usage", "namespace")


def land_said(
    cluster: ClusterConfig,
    said: Said,
    *,
    now: datetime = NOW,
    datasets: Iterable[Dataset] = DATASETS,
) -> Landed:
    batches = [said.batch(dataset) for dataset in datasets]
    return land(engine("loader"), cluster, Collected(said.source, batches), now=now)


def configure(
    owners: Sequence[OwnerEntry] = (),
    model: CostModel = RESOURCE_MODEL,
    drivers: Mapping[str, Mapping[str, Decimal]] = {},
    *,
    now: datetime = NOW,
) -> None:
    """Makes these the owners, the one cost model, and the drivers' weights by owner."""
    figures = [
        {"driver": driver, "owner": owner, "weight": weight, "start": None, "end": None}
        for driver, weights in drivers.items()
        for owner, weight in weights.items()
    ]
    with engine("publisher").begin() as connection:
        sync_drivers(connection, figures, now)
        sync_models(connection, {model.cost_model: model}, now)
        sync_owners(connection, tuple(owners), now)


Price = str | tuple[str, str, str] | None
"""Per hour: of the whole node, or of its (cpu, memory, gpu); None = unpriced."""


def put_prices(stage: Stage, prices: Mapping[str, Price | Sequence[tuple[Window, Price]]]) -> None:
    """Writes core.node_price by node uid, as resolving the prices would."""
    with engine("publisher").begin() as connection:
        connection.execute(
            text("delete from core.node_price where stage_id = :stage_id"),
            {"stage_id": stage.stage_id},
        )
        keys = {
            row.uid: row.node_key
            for row in connection.execute(
                text("select uid, node_key from core.node where cluster_key = :key"),
                {"key": stage.cluster_key},
            )
        }
        for uid, price in prices.items():
            parts = price if isinstance(price, list) else [(stage.window, price)]
            for window, amount in parts:
                if uid in keys:
                    connection.execute(_PUT_PRICE, _price_row(stage, keys[uid], window, amount))


_PUT_PRICE = text(
    "insert into core.node_price (stage_id, node_key, during, state, price_per_hour,"
    " cpu_price_per_hour, memory_price_per_hour, gpu_price_per_hour, currency, origin)"
    " values (:stage_id, :node_key, tstzrange(:start, :end), :state, :whole, :cpu, :memory, :gpu,"
    " :currency, 'sheet')"
)


def _price_row(stage: Stage, node_key: int, window: Window, price: Price) -> dict[str, Any]:
    cpu = memory = gpu = whole = None
    if isinstance(price, tuple):
        cpu, memory, gpu = map(Decimal, price)
        whole = cpu + memory + gpu
    elif price is not None:
        whole = Decimal(price)
    return {
        "stage_id": stage.stage_id,
        "node_key": node_key,
        "start": window.start,
        "end": window.end,
        "state": "unpriced" if price is None else "priced",
        "whole": whole,
        "cpu": cpu,
        "memory": memory,
        "gpu": gpu,
        "currency": None if price is None else "USD",
    }


def stage_window(
    cluster: ClusterConfig,
    window: Window,
    prices: Mapping[str, Any],
    kind: Kind = "daily",
    *,
    now: datetime = NOW,
    restate_reason: str = "",
) -> Stage:
    """Stages a window up to its cost lines."""
    publisher = engine("publisher")
    stage = begin(publisher, cluster, window, kind, now=now, restate_reason=restate_reason)
    consolidate(publisher, stage)
    put_prices(stage, prices)
    allocate(publisher, stage, cluster)
    return stage


def publish_stage(stage: Stage, *, now: datetime = NOW, who: str = "") -> Published:
    return publish(engine("publisher"), stage, now=now, who=who)


@dataclass(frozen=True, order=True)
class Line:
    """One row of mart.cost_hour with names instead of keys."""

    hour: datetime
    line: str
    node: str
    pod: str
    owner: str
    is_distribution: bool
    cpu_core_seconds: Decimal
    memory_byte_seconds: Decimal
    gpu_seconds: Decimal
    cpu_cost: Decimal | None
    memory_cost: Decimal | None
    gpu_cost: Decimal | None
    cost: Decimal | None


def lines_of(stage: Stage) -> list[Line]:
    """The stage's cost lines; nodes and pods by uid."""
    with engine("owner").connect() as connection:
        return _lines(connection, "stage_id = :key", stage.stage_id)


def published_lines(cluster: str) -> list[Line]:
    with engine("owner").connect() as connection:
        return _lines(
            connection,
            "(stage_id, hour) in (select stage_id, hour from ops.published_hour"
            " join core.cluster using (cluster_key) where cluster = :key)",
            cluster,
        )


def _lines(connection: sqlalchemy.Connection, condition: str, key: object) -> list[Line]:
    rows = connection.execute(
        text(
            "select hour, line, coalesce(node.uid, '') as node, coalesce(pod.uid, '') as pod, owner,"
            " is_distribution, cpu_core_seconds, memory_byte_seconds, gpu_seconds, cpu_cost, memory_cost, gpu_cost, cost"
            " from mart.cost_hour left join core.node using (node_key) left join core.pod using (pod_key)"
            f" where {condition}"
        ),
        {"key": key},
    )
    return sorted(
        (Line(*row) for row in rows),
        key=lambda line: (line.hour, line.node, line.line, line.pod, line.owner),
    )


def a_day(day: datetime = DAY, *, source: str = "prometheus", cpu_used: str = "1800") -> Said:
    """A whole UTC day of a small cluster, the same whenever it is asked for.

    node-a all day; node-b until 13:30. `web` all day on node-a, its usage known by the hour; `job` from
    02:10 to 02:40 on node-b, then succeeded; `trial` in the namespace `lab` from 09:00 to 17:45.
    """
    whole = span("00:00", "24:00", day)
    return Said(
        Window(*whole),
        {
            "node": [
                node("node-a", whole, cpu_allocatable_cores="3.8"),
                node("node-b", span("00:00", "13:30", day), cpu_capacity_cores="2"),
            ],
            "pod": [
                pod(
                    "web",
                    whole,
                    node="node-a",
                    cpu_request_cores="1",
                    memory_request_bytes=str(GIB),
                ),
                pod("job", span("02:10", "02:40", day), node="node-b", cpu_request_cores="1.5"),
                pod(
                    "job",
                    span("02:40", "05:00", day),
                    node="node-b",
                    cpu_request_cores="1.5",
                    phase="Succeeded",
                ),
                pod(
                    "trial",
                    span("09:00", "17:45", day),
                    namespace="lab",
                    node="node-a",
                    cpu_request_cores="0.25",
                    memory_request_bytes=str(3 * GIB),
                ),
            ],
            "usage": [
                usage("web", (hour.start, hour.end), cpu=cpu_used, memory=str(2 * GIB * 3600))
                for hour in Window(*whole).chunks(timedelta(hours=1))
            ],
            "namespace": [namespace("shop", whole), namespace("lab", whole)],
        },
        source=source,
    )


A_DAY = hours("00:00", "24:00")
DAY_PRICES: dict[str, Price] = {"uid-node-a": "0.192", "uid-node-b": "0.0866"}


def run_window(
    cluster: ClusterConfig,
    window: Window = A_DAY,
    kind: Kind = "daily",
    *,
    prices: Mapping[str, Any] = DAY_PRICES,
    now: datetime = NOW,
    restate_reason: str = "",
) -> Published:
    """Stages and publishes a window of what has landed."""
    stage = stage_window(cluster, window, prices, kind, now=now, restate_reason=restate_reason)
    return publish_stage(stage, now=now)


def query(sql: str, role: str = "owner", **parameters: object) -> list[Any]:
    """The rows of a query."""
    with engine(role).connect() as connection:  # type: ignore[arg-type]
        return list(connection.execute(text(sql), parameters))


def run_sql(sql: str, role: str = "owner", **parameters: object) -> None:
    with engine(role).begin() as connection:  # type: ignore[arg-type]
        connection.execute(text(sql), parameters)
