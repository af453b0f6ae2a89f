"""A small cluster that tests can land, stage and break: two nodes, four pods, whole hours.

node-a (4 cores, 16 GiB, price 0.20) and node-b (2 cores, 8 GiB, price 0.10), a tenth of each kept for the
system. `api` uses less than it asks for, `batch` more, `job` succeeds halfway through the first hour,
`tool` runs in a namespace without owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, text

from kubetally.allocate.allocate import allocate, sync_config
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate.stage import Stage, begin, consolidate
from kubetally.sources.rows import Batch, Collected, Reject, frame
from kubetally.warehouse.land import Landed, land
from kubetally.windows import HOUR, Window

GIB = 1024**3
NOW = datetime(2026, 11, 5, 8, tzinfo=UTC)
WINDOW = Window(datetime(2026, 11, 3, 10, tzinfo=UTC), datetime(2026, 11, 3, 12, tzinfo=UTC))
CLUSTER = ClusterConfig("scene", (SourceConfig("prometheus", "kubetally_scene"),))
PRICES = {"node-a": "0.20", "node-b": "0.10"}


@dataclass(frozen=True)
class Pod:
    namespace: str
    name: str
    node: str
    cpu: str
    memory: int
    cpu_used: str
    memory_used: int
    succeeds_after: timedelta | None = None

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"


PODS = (
    Pod("payments", "api", "node-a", "1.5", 2 * GIB, "0.4", GIB),
    Pod("search", "batch", "node-b", "0.25", GIB, "0.75", GIB // 2),
    Pod("search", "job", "node-b", "0.5", GIB, "0.1", GIB // 4, timedelta(minutes=30)),
    Pod("sandbox", "tool", "node-a", "0.1", GIB // 8, "0.05", GIB // 16),
)


def collected(
    window: Window = WINDOW,
    *,
    pods: tuple[Pod, ...] = PODS,
    covered: tuple[tuple[datetime, datetime], ...] | None = None,
    rejects: tuple[Reject, ...] = (),
) -> Collected:
    """What a source says of the scene; it speaks for `covered`, all of the window if not given."""
    spoken = ((window.start, window.end),) if covered is None else covered
    rows = {
        "pod": frame("pod", _cut(_pod_rows(window, pods), spoken)),
        "node": frame("node", _cut(_node_rows(window), spoken)),
        "usage": frame("usage", [row for row in _usage_rows(window, pods) if _inside(row, spoken)]),
        "namespace": frame("namespace", _cut(_namespace_rows(window, pods), spoken)),
    }
    return Collected(
        "prometheus",
        [
            Batch(dataset, window, found, spoken, "0" * 64, rejects if dataset == "pod" else ())
            for dataset, found in rows.items()
        ],
    )


def land_scene(engine: Engine, found: Collected | None = None, *, now: datetime = NOW) -> Landed:
    return land(engine, CLUSTER, collected() if found is None else found, now=now)


def stage_scene(engine: Engine, window: Window = WINDOW, *, now: datetime = NOW) -> Stage:
    """Consolidates, prices by hand, allocates; publishes nothing."""
    sync_config(engine, now=now)
    stage = begin(engine, CLUSTER, window, "hourly", now=now)
    consolidate(engine, stage)
    price(engine, stage)
    allocate(engine, stage, CLUSTER)
    return stage


def price(engine: Engine, stage: Stage) -> None:
    with engine.begin() as connection:
        for node, amount in PRICES.items():
            connection.execute(
                text(
                    "insert into core.node_price (stage_id, node_key, during, state, price_per_hour,"
                    " currency, origin) select :stage_id, node_key, tstzrange(:start, :end), 'priced',"
                    " cast(:price as numeric), 'USD', 'sheet' from core.node where node = :node"
                ),
                {
                    "stage_id": stage.stage_id,
                    "start": stage.window.start,
                    "end": stage.window.end,
                    "price": amount,
                    "node": node,
                },
            )


def more_pods(count: int) -> tuple[Pod, ...]:
    """`count` small pods on node-a."""
    return tuple(replace(PODS[3], name=f"tool-{number}") for number in range(count))


def _pod_rows(window: Window, pods: tuple[Pod, ...]) -> Iterator[dict[str, object]]:
    for pod in pods:
        row: dict[str, object] = {
            "start_at": window.start,
            "end_at": window.end,
            "uid": pod.uid,
            "namespace": pod.namespace,
            "pod": pod.name,
            "node": pod.node,
            "phase": "Running",
            "workload_kind": "Job" if pod.succeeds_after else "Deployment",
            "workload_name": pod.name,
            "cpu_request_cores": pod.cpu,
            "memory_request_bytes": str(pod.memory),
            "gpu_request": "0",
            "labels": "{}",
        }
        if pod.succeeds_after is None:
            yield row
        else:
            done_at = window.start + pod.succeeds_after
            yield row | {"end_at": done_at}
            yield row | {"start_at": done_at, "phase": "Succeeded"}


def _node_rows(window: Window) -> Iterator[dict[str, object]]:
    for name, cores, gib in (("node-a", 4, 16), ("node-b", 2, 8)):
        yield {
            "start_at": window.start,
            "end_at": window.end,
            "uid": f"uid-{name}",
            "node": name,
            "instance_type": f"machine-{cores}",
            "os": "linux",
            "cpu_capacity_cores": str(cores),
            "cpu_allocatable_cores": f"{cores * 9 // 10}.{cores * 9 % 10}",
            "memory_capacity_bytes": str(gib * GIB),
            "memory_allocatable_bytes": str(gib * GIB * 9 // 10),
            "gpu_capacity": "0",
            "gpu_allocatable": "0",
            "is_ready": True,
            "is_virtual": False,
            "labels": "{}",
        }


def _usage_rows(window: Window, pods: tuple[Pod, ...]) -> Iterator[dict[str, object]]:
    """Per hour; the first ten minutes of the window go without usage, as a late scrape would."""
    for pod in pods:
        for hour in window.chunks(HOUR):
            start = hour.start + timedelta(minutes=10) if hour.start == window.start else hour.start
            ends = window.start + pod.succeeds_after if pod.succeeds_after else window.end
            end = min(hour.end, ends)
            if start >= end:
                continue
            seconds = int((end - start).total_seconds())
            whole, part = pod.cpu_used.split(".")
            thousandths = int(whole) * 1000 + int(part.ljust(3, "0"))
            yield {
                "start_at": start,
                "end_at": end,
                "uid": pod.uid,
                "namespace": pod.namespace,
                "pod": pod.name,
                "container": "main",
                "node": pod.node,
                "cpu_used_core_seconds": f"{thousandths * seconds // 1000}.{thousandths * seconds % 1000:03}",
                "memory_used_byte_seconds": str(pod.memory_used * seconds),
            }


def _namespace_rows(window: Window, pods: tuple[Pod, ...]) -> Iterator[dict[str, object]]:
    for namespace in sorted({pod.namespace for pod in pods}):
        yield {
            "start_at": window.start,
            "end_at": window.end,
            "namespace": namespace,
            "labels": "{}",
        }


def _cut(
    rows: Iterator[dict[str, object]], spans: tuple[tuple[datetime, datetime], ...]
) -> Iterator[dict[str, object]]:
    for row in rows:
        for start, end in spans:
            if row["start_at"] < end and row["end_at"] > start:  # type: ignore[operator]
                cut = {"start_at": max(row["start_at"], start), "end_at": min(row["end_at"], end)}  # type: ignore[type-var]
                yield row | cut


def _inside(row: dict[str, object], spans: tuple[tuple[datetime, datetime], ...]) -> bool:
    return any(start <= row["start_at"] and row["end_at"] <= end for start, end in spans)  # type: ignore[operator]
