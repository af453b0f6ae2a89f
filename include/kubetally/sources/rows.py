"""What a source hands over: interval rows per dataset, rejects and coverage.

Every row is a statement that holds over the half-open UTC interval `[start_at, end_at)`.
Numbers travel as plain decimal strings (`pl.String`), so nothing is lost on the way to `numeric`;
absent is null, never zero. The schemas here are the columns of the `raw` tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import polars as pl

from kubetally.windows import Window

Dataset = Literal["pod", "node", "usage", "namespace", "volume", "load_balancer", "container_stats"]
# What costs are made of; the rest is statistics.
COST_DATASETS: tuple[Dataset, ...] = ("pod", "node", "usage", "namespace", "volume")

TIME = pl.Datetime("us", "UTC")
NUMBER = pl.String  # a plain decimal, no exponent
JSON = pl.String  # an object of strings, sorted keys

SCHEMAS: dict[Dataset, dict[str, pl.DataType | type[pl.DataType]]] = {
    # A pod asks for this and sits there. Terminal and unscheduled pods are stated too; they hold nothing.
    "pod": {
        "start_at": TIME,
        "end_at": TIME,
        "uid": pl.String,  # never null: synthetic "namespace/pod@<first seen>" where the source has none
        "namespace": pl.String,
        "pod": pl.String,
        "node": pl.String,  # null while unscheduled
        "phase": pl.String,  # Pending Running Succeeded Failed Unknown; null where the source has none
        "workload_kind": pl.String,  # Deployment, StatefulSet, DaemonSet, CronJob, Job, … or null
        "workload_name": pl.String,
        "cpu_request_cores": NUMBER,  # effective request by the scheduler's rule; "0" = asked for none
        "memory_request_bytes": NUMBER,
        "gpu_request": NUMBER,  # whole devices, or slices of gpu_resource
        "gpu_resource": pl.String,  # nvidia.com/gpu, nvidia.com/mig-1g.5gb, … or null
        "cpu_limit_cores": NUMBER,  # null = unlimited
        "memory_limit_bytes": NUMBER,
        "host_network": pl.Boolean,
        "labels": JSON,
        "annotations": JSON,
    },
    # A node exists and offers this.
    "node": {
        "start_at": TIME,
        "end_at": TIME,
        "uid": pl.String,
        "node": pl.String,
        "provider_id": pl.String,
        "region": pl.String,
        "zone": pl.String,
        "instance_type": pl.String,
        "os": pl.String,
        "capacity_type": pl.String,  # on_demand, spot; null = not said
        "cpu_capacity_cores": NUMBER,
        "cpu_allocatable_cores": NUMBER,
        "memory_capacity_bytes": NUMBER,
        "memory_allocatable_bytes": NUMBER,
        "gpu_capacity": NUMBER,
        "gpu_allocatable": NUMBER,
        "gpu_resource": pl.String,
        "gpu_model": pl.String,
        "is_ready": pl.Boolean,
        "is_virtual": pl.Boolean,  # virtual-kubelet, Fargate: their capacity is no cost of its own
        "created_at": TIME,
        "labels": JSON,
    },
    # A container used this much. Amounts over the interval, cut at whole hours, no overlap within
    # one (uid or namespace+pod, container); consecutive samples are already added up.
    "usage": {
        "start_at": TIME,
        "end_at": TIME,
        "uid": pl.String,  # null where the source has none: joined by namespace and pod name
        "namespace": pl.String,
        "pod": pl.String,
        "container": pl.String,
        "node": pl.String,
        "cpu_used_core_seconds": NUMBER,  # null = this row says nothing about CPU
        "memory_used_byte_seconds": NUMBER,  # working set; null = says nothing about memory
    },
    "namespace": {
        "start_at": TIME,
        "end_at": TIME,
        "uid": pl.String,
        "namespace": pl.String,
        "labels": JSON,
        "annotations": JSON,
    },
    # A claim (or an unclaimed volume) holds this much storage.
    "volume": {
        "start_at": TIME,
        "end_at": TIME,
        "uid": pl.String,
        "volume": pl.String,
        "namespace": pl.String,  # null = unclaimed
        "claim": pl.String,
        "storage_class": pl.String,
        "phase": pl.String,
        "capacity_bytes": NUMBER,
        "labels": JSON,
    },
    # A service has a load balancer of the cloud in front of it.
    "load_balancer": {
        "start_at": TIME,
        "end_at": TIME,
        "uid": pl.String,
        "namespace": pl.String,
        "service": pl.String,
        "address": pl.String,  # first address or host name; null while it is being made
        "ports": NUMBER,  # how many it listens on: some clouds bill by forwarding rule
        "load_balancer_class": pl.String,
        "labels": JSON,
        "annotations": JSON,  # kind and scheme of the load balancer stand here
    },
    # What one look at a container's counters and gauges read, as read: differences are taken when
    # the hour is consolidated. Over the polling cell; the reading itself is of `sampled_at`.
    "container_stats": {
        "start_at": TIME,
        "end_at": TIME,
        "uid": pl.String,  # from the cgroup path or the kubelet; null where neither says
        "namespace": pl.String,
        "pod": pl.String,
        "container": pl.String,  # "" = the pod as a whole: its network
        "container_id": pl.String,  # null where the endpoint does not tell
        "device": pl.String,  # GPU, or GPU/instance of MIG; null = not about a GPU
        "node": pl.String,
        "started_at": TIME,  # of the container; a later one than before is a reset
        "sampled_at": TIME,
        "cpu_seconds_total": NUMBER,
        "cpu_periods_total": NUMBER,  # null where no CPU limit is set
        "cpu_throttled_periods_total": NUMBER,
        "cpu_throttled_seconds_total": NUMBER,
        "memory_rss_bytes": NUMBER,
        "memory_working_set_bytes": NUMBER,
        "memory_cache_bytes": NUMBER,
        "memory_limit_bytes": NUMBER,  # null = unlimited
        "network_receive_bytes_total": NUMBER,
        "network_transmit_bytes_total": NUMBER,
        "network_receive_dropped_total": NUMBER,
        "network_transmit_dropped_total": NUMBER,
        "filesystem_used_bytes": NUMBER,
        "processes": NUMBER,
        "oom_events_total": NUMBER,
        "syscalls_total": JSON,  # by name
        "gpu_model": pl.String,
        "gpu_profile": pl.String,  # MIG profile
        "gpu_utilisation_percent": NUMBER,
        "gpu_memory_used_bytes": NUMBER,
        "gpu_memory_free_bytes": NUMBER,
        "gpu_energy_joules_total": NUMBER,
    },
}


@dataclass(frozen=True)
class Reject:
    """One odd object that was left out, and why; the rest of its batch landed."""

    dataset: Dataset
    object_name: str
    reason: str
    payload: str = ""  # at most 2,000 characters of what was found


@dataclass(frozen=True)
class Batch:
    """One dataset of one window as one source told it.

    `covered` are the parts of `window` the source can speak for (sorted, disjoint); outside them
    silence means "not known", inside them silence means "not there". `rows` may begin before the
    window or end after it: they are clipped when read. `payload_sha256` is over what came in.
    """

    dataset: Dataset
    window: Window
    rows: pl.DataFrame
    covered: tuple[tuple[datetime, datetime], ...]
    payload_sha256: str
    rejects: tuple[Reject, ...] = ()


@dataclass(frozen=True)
class Gap:
    """A call that failed: what could not be read and why. Nothing was invented in its place."""

    dataset: Dataset
    window: Window
    reason: str


@dataclass
class Collected:
    """All a source said about one cluster and window."""

    source: str  # "kubernetes", "prometheus", "files", "kubelet"
    batches: list[Batch] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


def frame(dataset: Dataset, rows: Iterable[dict[str, object]]) -> pl.DataFrame:
    """`rows` as a frame with exactly the columns and types of `dataset`; missing keys are null."""
    schema = SCHEMAS[dataset]
    columns: dict[str, list[object]] = {name: [] for name in schema}
    for row in rows:
        for name, column in columns.items():
            column.append(row.get(name))
    return pl.DataFrame(columns, schema=schema)
