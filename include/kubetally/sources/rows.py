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

Dataset = Literal["pod", "node", "usage", "namespace", "volume"]

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

    source: str  # "kubernetes", "prometheus", "files"
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
