"""Many pods at once: the rows `facts.pod_rows` gives, made as columns.

Pods of one workload repeat each other: their resources, labels and owners are the same bytes. Each
distinct piece is worked out once, by the same functions, and every pod refers to it. A pod that is
unusual in any way is not guessed at: `add` raises, and the caller reads it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import polars as pl

from kubetally.errors import BadDataError
from kubetally.sources.effective_request import effective_limits, effective_request
from kubetally.sources.kubernetes import facts
from kubetally.sources.kubernetes.objects import (
    Condition,
    Container,
    ContainerOutline,
    ContainerState,
    ContainerStatus,
    ContainerStatusOutline,
    Metadata,
    OwnerReference,
    Pod,
    PodOutline,
    PodSpec,
    PodSpecOutline,
    PodStatus,
    PodStatusOutline,
    Quantities,
    Resources,
)
from kubetally.sources.quantity import plain
from kubetally.sources.rows import SCHEMAS
from kubetally.windows import Window

# Clocks of a node and of the API server may differ by this much, no more.
CLOCK_SKEW = timedelta(minutes=10)
MOST_KEPT = 1 << 15  # distinct pieces; a full store is emptied

_STRINGS = msgspec.json.Decoder(dict[str, str] | None).decode
_OWNERS = msgspec.json.Decoder(list[OwnerReference] | None).decode
_RESOURCES = msgspec.json.Decoder(Resources | None).decode
_QUANTITIES = msgspec.json.Decoder(Quantities | None).decode
_STATE = msgspec.json.Decoder(ContainerState | None).decode
_CONDITIONS = msgspec.json.Decoder(list[Condition] | None).decode

_NOTHING = msgspec.Raw()
_STATE_COLUMNS = ("start_at", "end_at", "phase", "namespace", "node", "host_network")
_TEMPLATE_COLUMNS = (
    "cpu_request_cores",
    "memory_request_bytes",
    "gpu_request",
    "gpu_resource",
    "cpu_limit_cores",
    "memory_limit_bytes",
    "workload_kind",
    "workload_name",
    "labels",
)
_Cells = tuple[str | None, ...]


class PodColumns:
    """Collects pods and gives them as a frame. What it worked out is kept from page to page."""

    def __init__(self, cell: Window) -> None:
        self._start, self._end = cell.start, cell.end
        self._surely_bound_before = cell.start - CLOCK_SKEW
        self._requests: dict[tuple[object, ...], _Cells] = {}
        self._workloads: dict[tuple[object, ...], _Cells] = {}
        self._labels: dict[bytes, _Cells] = {}
        self._annotations: dict[bytes, _Cells] = {}
        self.drop()

    def drop(self) -> None:
        """Forgets the rows not yet taken."""
        self._uids: list[str] = []
        self._names: list[str] = []
        self._states = _Distinct(_STATE_COLUMNS)
        self._templates = _Distinct(_TEMPLATE_COLUMNS)
        self._notes = _Distinct(("annotations",))
        self._before: PodOutline | None = None
        self._template_before = self._note_before = 0
        self._is_plain = True

    def __len__(self) -> int:
        return len(self._uids)

    def add(self, pod: PodOutline) -> None:
        """Takes the pod's statements in.

        Raises BadDataError, msgspec.DecodeError or ValueError where the pod needs a closer look.
        """
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        namespace, name, uid = metadata.namespace, metadata.name, metadata.uid
        if not namespace or not name or not uid or spec is None or status is None:
            raise BadDataError("an unusual pod.")
        start, end = self._start, self._end
        node, phase = spec.node_name or None, status.phase or None

        bound = metadata.creation_timestamp
        if node:
            started = status.start_time
            if started is not None and started < self._surely_bound_before:
                bound = started
            else:
                bound = _bound_at(status.conditions) or started or bound
        begin = start if bound is None or bound < start else bound
        if begin >= end:
            raise BadDataError("a pod of a later time.")
        is_terminal = phase == "Succeeded" or phase == "Failed"
        ended = end
        if is_terminal:  # one that never sat on a node held nothing
            ended = min(max(_finished_at(status) or begin, begin), end) if node else begin

        # Lists come sorted by namespace and name: the pod before is likely a sibling.
        before = self._before
        if before is not None and _are_alike(pod, before):
            template = self._template_before
        else:
            template = self._template_before = self._template(pod)
        if before is not None and metadata.annotations == before.metadata.annotations:
            note = self._note_before
        else:
            note = self._note_before = self._note(bytes(metadata.annotations))
        self._before = pod if self._is_plain else None

        place = (namespace, node, bool(spec.host_network))
        if not is_terminal:
            self._state((begin, end, phase, *place), uid, name, template, note)
            return
        if node and begin < ended:
            self._state((begin, ended, "Running", *place), uid, name, template, note)
        if ended < end:
            self._state((ended, end, phase, *place), uid, name, template, note)

    def _state(
        self, state: tuple[object, ...], uid: str, name: str, template: int, note: int
    ) -> None:
        states = self._states
        number = states.number.get(state)
        if number is None:
            number = states.new(state, state)
        states.rows.append(number)
        self._templates.rows.append(template)
        self._notes.rows.append(note)
        self._uids.append(uid)
        self._names.append(name)

    def take(self) -> pl.DataFrame:
        """The rows of the pods added since the last call."""
        if not self._uids:
            return pl.DataFrame(schema=SCHEMAS["pod"])
        names = pl.DataFrame(
            {"uid": self._uids, "pod": self._names},
            schema={"uid": pl.String, "pod": pl.String},
        )
        parts = [names, self._states.frame(), self._templates.frame(), self._notes.frame()]
        self.drop()
        for store in (self._requests, self._workloads, self._labels, self._annotations):
            if len(store) > MOST_KEPT:
                store.clear()
        return pl.concat(parts, how="horizontal").select(list(SCHEMAS["pod"]))

    def _template(self, pod: PodOutline) -> int:
        """The number of what the pod shares with its siblings: request, limits, workload, labels."""
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        assert spec is not None and status is not None
        labels, owners = bytes(metadata.labels), bytes(metadata.owner_references)
        parts: list[object] = []
        containers = spec.containers or ()
        for container in containers:
            parts.append(container.name)
            parts.append(bytes(container.resources))
        if spec.init_containers:
            parts.append(len(parts))  # keeps apart what a flat list would run together
            for container in spec.init_containers:
                parts.append(container.restart_policy)
                parts.append(container.name)
                parts.append(bytes(container.resources))
        if spec.overhead != _NOTHING or spec.resources != _NOTHING:
            parts.append((bytes(spec.overhead), bytes(spec.resources)))
        self._is_plain = True
        for statuses in (status.container_statuses, status.init_container_statuses):
            for each in statuses or ():
                if each.allocated_resources != _NOTHING or each.resources != _NOTHING:
                    parts.append(len(parts))
                    parts.append(each.name)
                    parts.append(bytes(each.resources))
                    parts.append(bytes(each.allocated_resources))
                    self._is_plain = self._is_plain and _is_settled(each, spec)
        if not self._is_plain:
            parts.append((status.resize, bytes(status.conditions)))
        request = tuple(parts)
        workload = self._workload_key(pod, labels, owners)
        key = (request, workload, labels)
        number = self._templates.number.get(key)
        if number is not None:
            return number
        # The parts before the whole: labels may differ where the request does not.
        if request not in self._requests:
            self._requests[request] = _request_of(pod)
        if workload not in self._workloads:
            self._workloads[workload] = _workload_of(pod)
        if labels not in self._labels:
            self._labels[labels] = (facts.strings_json(_strings(labels)),)
        return self._templates.new(
            key, (*self._requests[request], *self._workloads[workload], *self._labels[labels])
        )

    def _workload_key(self, pod: PodOutline, labels: bytes, owners: bytes) -> tuple[object, ...]:
        if owners and b'"Node"' not in owners and b'"ReplicationController"' not in owners:
            return (owners, labels)
        # Only these look at annotations, and static pods at their own name.
        self._is_plain = False
        node = pod.spec.node_name if pod.spec else None
        return (owners, labels, bytes(pod.metadata.annotations), pod.metadata.name, node)

    def _note(self, raw: bytes) -> int:
        number = self._notes.number.get(raw)
        if number is None:
            if raw not in self._annotations:
                self._annotations[raw] = (facts.annotations_json(_strings(raw)),)
            number = self._notes.new(raw, self._annotations[raw])
        return number


class _Distinct:
    """Columns of few distinct values: each value once, and a number per row."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._values: list[tuple[object, ...]] = []
        self.number: dict[object, int] = {}
        self.rows: list[int] = []

    def new(self, key: object, values: tuple[object, ...]) -> int:
        """Takes in the values of a key that was not there yet; gives its number."""
        number = self.number[key] = len(self._values)
        self._values.append(values)
        return number

    def frame(self) -> pl.DataFrame:
        """One row per number in `rows`. Rows of the same values share their memory."""
        columns = zip(*self._values, strict=True)
        distinct = pl.DataFrame(
            [
                pl.Series(name, column, dtype=SCHEMAS["pod"][name])
                for name, column in zip(self._names, columns, strict=True)
            ]
        )
        return distinct[pl.Series(self.rows, dtype=pl.UInt32)]


def _are_alike(pod: PodOutline, other: PodOutline) -> bool:
    """Whether all that makes a template is the same, byte by byte, in both."""
    if (
        pod.metadata.labels != other.metadata.labels
        or pod.metadata.owner_references != other.metadata.owner_references
    ):
        return False
    spec, other_spec = pod.spec, other.spec
    status, other_status = pod.status, other.status
    assert spec is not None and other_spec is not None
    assert status is not None and other_status is not None
    return (
        spec.containers == other_spec.containers
        and spec.init_containers == other_spec.init_containers
        and spec.overhead == other_spec.overhead
        and spec.resources == other_spec.resources
        and status.resize == other_status.resize
        and _tell_the_same(status.container_statuses, other_status.container_statuses)
        and _tell_the_same(status.init_container_statuses, other_status.init_container_statuses)
    )


def _tell_the_same(
    these: list[ContainerStatusOutline] | None, others: list[ContainerStatusOutline] | None
) -> bool:
    if not these or not others:
        return not these and not others
    if len(these) != len(others):
        return False
    for each, other in zip(these, others, strict=True):
        if (
            each.resources != other.resources
            or each.allocated_resources != other.allocated_resources
            or each.name != other.name
        ):
            return False
    return True


def _is_settled(status: ContainerStatusOutline, spec: PodSpecOutline) -> bool:
    """Whether the container has what its spec asks for: then no resize is pending."""
    for containers in (spec.containers, spec.init_containers):
        for container in containers or ():
            if container.name == status.name:
                return container.resources == status.resources
    return False


def _workload_of(pod: PodOutline) -> _Cells:
    metadata = pod.metadata
    owners = bytes(metadata.owner_references)
    known = Metadata(
        name=metadata.name,
        labels=_strings(bytes(metadata.labels)),
        annotations=_strings(bytes(metadata.annotations)),
        owner_references=_OWNERS(owners) if owners else None,
    )
    return facts.workload_of(known, (pod.spec.node_name if pod.spec else None) or None)


def _strings(raw: bytes) -> dict[str, str] | None:
    return _STRINGS(raw) if raw else None


def _request_of(pod: PodOutline) -> _Cells:
    whole = _thawed(pod)
    request = effective_request(whole)
    if request.other_gpu_resources:
        raise BadDataError("it asks for several kinds of GPU.")
    cpu_limit, memory_limit = effective_limits(whole)
    return (
        plain(request.cpu_cores),
        plain(request.memory_bytes),
        plain(request.gpus),
        request.gpu_resource,
        None if cpu_limit is None else plain(cpu_limit),
        None if memory_limit is None else plain(memory_limit),
    )


def _thawed(pod: PodOutline) -> Pod:
    """What the request depends on, as typed records."""
    spec, status = pod.spec, pod.status
    assert spec is not None and status is not None
    return Pod(
        metadata=Metadata(),
        spec=PodSpec(
            containers=_containers(spec.containers),
            init_containers=_containers(spec.init_containers),
            overhead=_QUANTITIES(spec.overhead) if bytes(spec.overhead) else None,
            resources=_RESOURCES(spec.resources) if bytes(spec.resources) else None,
        ),
        status=PodStatus(
            resize=status.resize,
            conditions=_CONDITIONS(status.conditions) if bytes(status.conditions) else None,
            container_statuses=_statuses(status.container_statuses),
            init_container_statuses=_statuses(status.init_container_statuses),
        ),
    )


def _containers(outlines: Sequence[ContainerOutline] | None) -> list[Container]:
    return [
        Container(
            each.name,
            _RESOURCES(each.resources) if bytes(each.resources) else None,
            each.restart_policy,
        )
        for each in outlines or ()
    ]


def _statuses(outlines: Sequence[ContainerStatusOutline] | None) -> list[ContainerStatus]:
    return [
        ContainerStatus(
            name=each.name,
            resources=_RESOURCES(each.resources) if bytes(each.resources) else None,
            allocated_resources=_QUANTITIES(each.allocated_resources)
            if bytes(each.allocated_resources)
            else None,
        )
        for each in outlines or ()
    ]


def _bound_at(conditions: msgspec.Raw) -> datetime | None:
    raw = bytes(conditions)
    for condition in (_CONDITIONS(raw) if raw else None) or ():
        if condition.type == "PodScheduled" and condition.status == "True":
            return condition.last_transition_time
    return None


def _finished_at(status: PodStatusOutline) -> datetime | None:
    finishes: list[datetime] = []
    for statuses in (status.container_statuses, status.init_container_statuses):
        for each in statuses or ():
            raw = bytes(each.state)
            state = _STATE(raw) if raw else None
            if state and state.terminated and state.terminated.finished_at:
                finishes.append(state.terminated.finished_at)
    if finishes:
        return max(finishes)
    raw = bytes(status.conditions)
    for condition in (_CONDITIONS(raw) if raw else None) or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return condition.last_transition_time
    return None
