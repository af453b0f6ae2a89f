"""The daily files of openshift-usage-scripts: stored samples of the scheduler's requests, as pods and nodes.

A file holds the days `start_date` to `end_date` (inclusive) at one interval: `cpu_metrics`,
`memory_metrics` and perhaps `gpu_metrics`, each a list of Prometheus series with `values`. The rules:

- series are told apart by namespace and pod; of two files that tell of one moment the later wins;
- a new segment begins where a request, the GPU or the node changes (compared as numbers, absent = 0), or
  after a gap of more than 1.5 intervals; a segment lasts from its first sample to its last plus one
  interval, so a pod seen once is billed one interval;
- what no file says is not known: only the times of the samples are covered.

Pods of these files have no uid: (namespace, pod, start of the run of samples) stands for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from kubetally.errors import BadDataError
from kubetally.sources.prometheus.names import node_label, resource_name
from kubetally.sources.quantity import plain
from kubetally.sources.rows import Batch, Dataset, Reject, frame
from kubetally.windows import Window, iso

DEFAULT_INTERVAL_MINUTES = 15  # of files from before the interval was written down
FILE_NAME = re.compile(r"metrics-\d{4}-\d\d-\d\d(-to-\d{4}-\d\d-\d\d)?\.json(\.gz)?")
MOST = Decimal(10) ** 24
GPU_PRODUCT = ("label_nvidia_com_gpu_product", "nvidia.com/gpu.product")
GPU_MACHINE = ("label_nvidia_com_gpu_machine", "nvidia.com/gpu.machine")
CLASS = ("label_nerc_mghpcc_org_class", "nerc.mghpcc.org/class")


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float | int, Any]] = []


class StoredFile(msgspec.Struct):
    """One file as it was written."""

    start_date: str
    end_date: str
    cpu_metrics: list[_Series]
    memory_metrics: list[_Series]
    gpu_metrics: list[_Series] | None = None
    interval_minutes: int | None = None
    cluster_name: str = ""

    @property
    def interval(self) -> timedelta:
        return timedelta(minutes=self.interval_minutes or DEFAULT_INTERVAL_MINUTES)

    @property
    def window(self) -> Window:
        """The days it tells of, the last one included."""
        first, last = (date.fromisoformat(text[:10]) for text in (self.start_date, self.end_date))
        return Window(Window.of_day(first).start, Window.of_day(last).end)


@dataclass
class Moment:
    """What is known of a pod at one time."""

    cpu: Decimal | None = None
    memory: Decimal | None = None
    gpu: Decimal | None = None
    gpu_resource: str | None = None
    gpu_model: str | None = None
    gpu_machine: str | None = None
    node: str | None = None
    pod_class: str | None = None

    @property
    def state(self) -> tuple[object, ...]:
        """What a segment holds constant."""
        zero = Decimal(0)
        return (
            self.cpu or zero,
            self.memory or zero,
            self.gpu or zero,
            self.gpu_resource if self.gpu else None,
            self.gpu_model if self.gpu else None,
            self.node,
            self.pod_class,
        )


class Segment(NamedTuple):
    start: datetime
    end: datetime
    run_start: datetime
    what: Moment


Pods = dict[tuple[str, str], dict[int, Moment]]


@dataclass
class Merged:
    """Files put together, in the order of their days; a later one wins where two tell of a moment."""

    interval: timedelta | None = None
    pods: Pods = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, name: str, stored: StoredFile, body: bytes) -> None:
        """Takes a file in. Raises BadDataError where its interval is another one."""
        if self.interval is not None and stored.interval != self.interval:
            raise BadDataError(
                f"{name} has an interval of {stored.interval}, the files before it {self.interval}.",
                remedy="Keep files of different intervals in folders of their own.",
            )
        self.interval = stored.interval
        self.digest.update(body)
        told: Pods = {}
        for kind, series in (
            ("cpu", stored.cpu_metrics),
            ("memory", stored.memory_metrics),
            ("gpu", stored.gpu_metrics or ()),
        ):
            for one in series:
                self._take(kind, one, told)
        for key, moments in told.items():
            self.pods.setdefault(key, {}).update(moments)

    def _take(self, kind: str, series: _Series, told: Pods) -> None:
        labels = series.metric
        namespace, pod = labels.get("namespace", ""), labels.get("pod", "")
        if not namespace or not pod:
            self._reject(labels, "the series has no namespace or no pod.")
            return
        resource = resource_name(labels.get("resource", ""))
        if kind == "gpu" and resource is None:
            self._reject(labels, f"{labels.get('resource')!r} is no GPU resource we know.")
            return
        moments = told.setdefault((namespace, pod), {})
        for at, text in series.values:
            try:
                amount = Decimal(text) if isinstance(text, str) else Decimal(str(text))
            except InvalidOperation:
                amount = Decimal("NaN")
            if amount.is_nan():
                continue  # no sample
            if not 0 <= amount <= MOST:
                self._reject(labels, f"it asks for {str(text)[:40]!r}.")
                return
            moment = moments.setdefault(round(float(at)), Moment())
            moment.node = labels.get("node") or moment.node
            moment.pod_class = labels.get(CLASS[0]) or moment.pod_class
            if kind == "cpu":
                moment.cpu = amount
            elif kind == "memory":
                moment.memory = amount
            else:
                moment.gpu, moment.gpu_resource = amount, resource
                moment.gpu_model = labels.get(GPU_PRODUCT[0])
                moment.gpu_machine = labels.get(GPU_MACHINE[0])

    def _reject(self, labels: dict[str, str], reason: str) -> None:
        who = f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
        payload = msgspec.json.encode(labels).decode()[:2000]
        self.rejects.append(Reject("pod", who[:512], reason, payload.replace("\\u0000", "")))


def decode(name: str, body: bytes) -> StoredFile:
    """The file called `name`. Raises BadDataError saying what is wrong with it."""
    try:
        stored = msgspec.json.decode(body, type=StoredFile, strict=False)
        if (stored.interval_minutes or 1) < 1 or not stored.window:
            raise ValueError("its interval is not at least a minute")
    except (msgspec.DecodeError, ValueError, BadDataError, RecursionError) as error:
        raise BadDataError(f"{name} is not a file of stored metrics: {error}.") from error
    return stored


def segments(moments: dict[int, Moment], interval: timedelta) -> Iterator[Segment]:
    """A pod's samples as segments, in order of time."""
    hold = 1.5 * interval
    start = before = run_start = None
    held: Moment | None = None
    for epoch in sorted(moments):
        at = datetime.fromtimestamp(epoch, UTC)
        what = moments[epoch]
        if held is not None and before is not None and start is not None and run_start is not None:
            is_gap = at - before > hold
            if is_gap or what.state != held.state:
                # Up to the next sample where it is near, else for one interval.
                yield Segment(start, before + interval if is_gap else at, run_start, held)
                start, held = at, what
            if is_gap:
                run_start = at
        else:
            start = run_start = at
            held = what
        before = at
    if held is not None and before is not None and start is not None and run_start is not None:
        yield Segment(start, before + interval, run_start, held)


def batches(merged: Merged, window: Window) -> list[Batch]:
    """Pods and the nodes they sat on, over `window`."""
    interval = merged.interval or timedelta(minutes=DEFAULT_INTERVAL_MINUTES)
    times = {epoch for moments in merged.pods.values() for epoch in moments}
    known = covered(times, interval, window)
    pods: list[dict[str, object]] = []
    seats: dict[str, set[int]] = {}
    models: dict[str, Moment] = {}
    for (namespace, pod), moments in sorted(merged.pods.items()):
        for epoch, moment in moments.items():
            if moment.node:
                seats.setdefault(moment.node, set()).add(epoch)
                if moment.gpu_model:
                    models[moment.node] = moment
        for segment in segments(moments, interval):
            if segment.start < window.end and segment.end > window.start:
                pods.append(_pod_row(namespace, pod, segment))
    nodes = [
        _node_row(node, models.get(node), start, end)
        for node, epochs in sorted(seats.items())
        for start, end in covered(epochs, interval, window)
    ]
    sha256 = merged.digest.hexdigest()
    rejects = tuple(merged.rejects)

    def batch(
        dataset: Dataset, rows: Iterable[dict[str, object]], left_out: tuple[Reject, ...]
    ) -> Batch:
        return Batch(dataset, window, frame(dataset, rows), known, sha256, left_out)

    return [batch("node", nodes, ()), batch("pod", pods, rejects)]


def covered(
    epochs: Iterable[int], interval: timedelta, window: Window
) -> tuple[tuple[datetime, datetime], ...]:
    """The parts of `window` for which there are samples at all."""
    moments = [datetime.fromtimestamp(epoch, UTC) for epoch in sorted(epochs)]
    spans: list[tuple[datetime, datetime]] = []
    start = moments[0] if moments else None
    for at, then in pairwise([*moments, None]):
        assert at is not None
        if then is None or then - at > 1.5 * interval:
            assert start is not None
            spans.append((max(start, window.start), min(at + interval, window.end)))
            start = then
    return tuple(span for span in spans if span[0] < span[1])


def _pod_row(namespace: str, pod: str, segment: Segment) -> dict[str, object]:
    what = segment.what
    return {
        "start_at": segment.start,
        "end_at": segment.end,
        "uid": f"{namespace}/{pod}@{iso(segment.run_start)}",
        "namespace": namespace,
        "pod": pod,
        "node": what.node,
        "phase": "Running" if what.node else "Pending",
        "cpu_request_cores": plain(what.cpu or Decimal(0)),
        "memory_request_bytes": plain(what.memory or Decimal(0)),
        "gpu_request": plain(what.gpu or Decimal(0)),
        "gpu_resource": what.gpu_resource if what.gpu else None,
        "labels": _json({CLASS[1]: what.pod_class} if what.pod_class else {}),
    }


def _node_row(node: str, gpu: Moment | None, start: datetime, end: datetime) -> dict[str, object]:
    labels = {GPU_PRODUCT[1]: gpu.gpu_model, GPU_MACHINE[1]: gpu.gpu_machine} if gpu else {}
    return {
        "start_at": start,
        "end_at": end,
        "uid": f"node/{node}",
        "node": node,
        "gpu_model": gpu.gpu_model if gpu else None,
        "gpu_resource": gpu.gpu_resource if gpu else None,
        "is_virtual": False,
        "labels": _json({node_label(key): text for key, text in labels.items() if text}),
    }


def _json(strings: dict[str, str]) -> str:
    return msgspec.json.encode(strings, order="sorted").decode()
