"""From Kubernetes objects to raw rows: what each object states over one polling cell.

Pure. A row holds over `[start_at, end_at)` inside the cell: a pod from its binding (PodScheduled) to
its last container's finish, a node from its creation. What was not said is null, never zero.
Raises BadDataError where an object says something impossible; the caller rejects that object alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import NamedTuple

import msgspec

from kubetally.errors import BadDataError
from kubetally.sources.effective_request import effective_limits, effective_request, gpu_amount
from kubetally.sources.kubernetes.objects import (
    Claim,
    Condition,
    ContainerMetrics,
    Metadata,
    Namespace,
    Node,
    OwnerReference,
    Pod,
    Quantity,
    Service,
    Volume,
)
from kubetally.sources.quantity import parse_quantity, plain, plain_quantity
from kubetally.windows import HOUR, Window, iso

Row = dict[str, object]

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
LONGEST_ANNOTATION = 1024  # characters; longer ones are documents, not attributes

# Beyond any machine: what is left of an unsigned counter that ran below zero (kubernetes#27194).
MOST_CORES = Decimal(1_000_000)
MOST_BYTES = Decimal(2**60)
LONGEST_NUMBER = 30  # 20 digits, a point, nine decimals
NINE_DECIMALS = Decimal("0.000000001")

_ENCODE = msgspec.json.Encoder(order="sorted").encode
_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_CRON_JOB_SUFFIX = re.compile(r"(.+)-\d{8,10}")
_AWS_ZONE = re.compile(r"([a-z]{2,4}(?:-[a-z]+)+-\d+)(?:-[a-z]+-\d+)?[a-z]")

REGION_LABELS = (
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
    "region",  # DigitalOcean
)
ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
OS_LABELS = ("kubernetes.io/os", "beta.kubernetes.io/os")
GPU_MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "gpu.nvidia.com/model",
    "amd.com/gpu.product-name",
)
CAPACITY_LABELS = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-provisioning",
    "kubernetes.azure.com/scalesetpriority",
    "node.kubernetes.io/lifecycle",
)
SPOT_FLAGS = (
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-preemptible",
    "node-role.kubernetes.io/spot-worker",
    "machine.openshift.io/interruptible-instance",
)
SPOT_WORDS = frozenset({"spot", "preemptible", "low", "ec2spot"})
ON_DEMAND_WORDS = frozenset({"on-demand", "on_demand", "ondemand", "standard", "regular", "normal"})


class Life(NamedTuple):
    """Who a (namespace, pod) is and when it held its request; `start >= end` = it holds nothing."""

    uid: str
    node: str | None
    start: datetime
    end: datetime


class PodFacts(NamedTuple):
    """A pod's statements over a cell (none when it begins later) and its life in it.

    `left_out` names further GPU resources a row has no room for.
    """

    rows: list[Row]
    life: Life
    left_out: tuple[str, ...] = ()


def pod_rows(pod: Pod, cell: Window) -> PodFacts:
    """What one pod states over `cell`.

    A pod that ended inside the cell is stated twice: holding until it ended, terminal after.
    """
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    namespace, name = metadata.namespace, metadata.name
    if not namespace or not name:
        raise BadDataError("the pod has no name or no namespace.")
    start_time = status.start_time if status else None
    created = metadata.creation_timestamp
    uid = pod_uid(metadata.uid, namespace, name, created or start_time)
    node = (spec.node_name if spec else None) or None
    phase = (status.phase if status else None) or None
    conditions = (status.conditions if status else None) or ()

    bound = created
    if node:
        bound = _transition(conditions, "PodScheduled", "True") or start_time or bound
    begin = cell.start if bound is None or bound < cell.start else bound
    ended = cell.end
    if phase in TERMINAL_PHASES:
        # Without any trace of the end it was not seen alive in this cell, and without a node it
        # never held anything.
        ended = min(max(finished_at(pod) or begin, begin), cell.end) if node else begin
    life = Life(uid, node, begin, ended if node else begin)
    if begin >= cell.end:
        return PodFacts([], life)

    request = effective_request(pod)
    cpu_limit, memory_limit = effective_limits(pod)
    kind, workload = workload_of(metadata, node)
    row: Row = {
        "start_at": begin,
        "end_at": ended,
        "uid": uid,
        "namespace": namespace,
        "pod": name,
        "node": node,
        "phase": phase,
        "workload_kind": kind,
        "workload_name": workload,
        "cpu_request_cores": plain(request.cpu_cores),
        "memory_request_bytes": plain(request.memory_bytes),
        "gpu_request": plain(request.gpus),
        "gpu_resource": request.gpu_resource,
        "cpu_limit_cores": None if cpu_limit is None else plain(cpu_limit),
        "memory_limit_bytes": None if memory_limit is None else plain(memory_limit),
        "host_network": bool(spec.host_network) if spec else False,
        "labels": strings_json(metadata.labels),
        "annotations": annotations_json(metadata.annotations),
    }
    if phase not in TERMINAL_PHASES:
        return PodFacts([row], life, request.other_gpu_resources)
    rows: list[Row] = []
    if node and begin < ended:
        rows.append({**row, "phase": "Running"})
    if ended < cell.end:
        rows.append({**row, "start_at": ended, "end_at": cell.end})
    return PodFacts(rows, life, request.other_gpu_resources)


def pod_uid(uid: str | None, namespace: str, name: str, since: datetime | None) -> str:
    """What a pod is told by. Raises BadDataError where it has neither a uid nor a time."""
    return uid or _synthetic_uid(namespace, name, since)


def finished_at(pod: Pod) -> datetime | None:
    """When a terminal pod stopped holding: its last container's finish, else its eviction."""
    status = pod.status
    if status is None:
        return None
    finishes: list[datetime] = []
    for statuses in (status.container_statuses, status.init_container_statuses):
        for each in statuses or ():
            terminated = each.state.terminated if each.state else None
            if terminated and terminated.finished_at:
                finishes.append(terminated.finished_at)
    if finishes:
        return max(finishes)
    return _transition(status.conditions or (), "DisruptionTarget", "True")


def workload_of(metadata: Metadata, node: str | None) -> tuple[str | None, str | None]:
    """The kind and name of what a person would recognise as the pod's workload; nulls = bare pod."""
    owner = _controller(metadata.owner_references)
    annotations = metadata.annotations or {}
    if owner is None or not owner.kind or owner.kind == "Node":
        if MIRROR_ANNOTATION in annotations or (owner and owner.kind == "Node"):
            return "StaticPod", (metadata.name or "").removesuffix(f"-{node}" if node else "")
        return None, None
    labels = metadata.labels or {}
    if owner.kind == "ReplicaSet":
        for label, kind in (
            ("pod-template-hash", "Deployment"),
            ("rollouts-pod-template-hash", "Rollout"),
        ):
            suffix = labels.get(label)
            if not suffix:
                continue
            # Up to Kubernetes 1.11 the name carried the hash in a safe spelling.
            for spelling in (suffix, _safe_spelling(suffix)):
                if owner.name.endswith(f"-{spelling}"):
                    return kind, owner.name.removesuffix(f"-{spelling}")
    if owner.kind == "Job":
        cron = _CRON_JOB_SUFFIX.fullmatch(owner.name)
        if cron:
            return "CronJob", cron.group(1)
    if owner.kind == "ReplicationController":
        config = annotations.get("openshift.io/deployment-config.name")
        if config:
            return "DeploymentConfig", config
    return owner.kind, owner.name


def node_rows(node: Node, cell: Window) -> list[Row]:
    """What a node offers over `cell`; none when it was created later."""
    metadata, spec, status = node.metadata, node.spec, node.status
    if not metadata.name:
        raise BadDataError("the node has no name.")
    created = metadata.creation_timestamp
    begin = cell.start if created is None or created < cell.start else created
    if begin >= cell.end:
        return []
    labels = metadata.labels or {}
    provider_id = (spec.provider_id if spec else None) or None
    region, zone = place_of(labels, provider_id)
    capacity = (status.capacity if status else None) or (spec.capacity if spec else None) or {}
    allocatable = (status.allocatable if status else None) or {}
    gpus, gpu_resource = gpu_amount(capacity)
    free_gpus = parse_quantity(allocatable.get(gpu_resource) or 0) if gpu_resource else Decimal(0)
    os = _first(labels, OS_LABELS)
    if os is None and status and status.node_info:
        os = status.node_info.operating_system
    return [
        {
            "start_at": begin,
            "end_at": cell.end,
            "uid": metadata.uid or _synthetic_uid("", metadata.name, created),
            "node": metadata.name,
            "provider_id": provider_id,
            "region": region,
            "zone": zone,
            "instance_type": _first(labels, INSTANCE_LABELS),
            "os": os.lower() if os else None,
            "capacity_type": capacity_type_of(labels),
            "cpu_capacity_cores": _stated(capacity.get("cpu")),
            "cpu_allocatable_cores": _stated(allocatable.get("cpu")),
            "memory_capacity_bytes": _stated(capacity.get("memory")),
            "memory_allocatable_bytes": _stated(allocatable.get("memory")),
            "gpu_capacity": plain(gpus) if capacity else None,
            "gpu_allocatable": plain(free_gpus) if allocatable else None,
            "gpu_resource": gpu_resource,
            "gpu_model": _first(labels, GPU_MODEL_LABELS) if gpu_resource else None,
            "is_ready": _readiness((status.conditions if status else None) or ()),
            "is_virtual": is_virtual(labels, provider_id),
            "created_at": created,
            "labels": strings_json(metadata.labels),
        }
    ]


def place_of(labels: Mapping[str, str], provider_id: str | None) -> tuple[str | None, str | None]:
    """Region and zone from labels (current and legacy names), else from the provider's id."""
    region = _first(labels, REGION_LABELS)
    zone = _first(labels, ZONE_LABELS)
    if zone is not None and zone.isdigit():
        zone = None  # Azure: "0" is "no zone", a bare number says nothing outside its region
    scheme, _, rest = (provider_id or "").partition("://")
    parts = rest.split("/")
    if scheme == "aws" and len(parts) >= 2:
        found = _AWS_ZONE.fullmatch(parts[1])
        if found:
            zone = zone or parts[1]
            region = region or found.group(1)
    elif scheme == "gce" and len(parts) >= 2 and parts[1].count("-") >= 2:
        zone = zone or parts[1]
        region = region or parts[1].rpartition("-")[0]
    return region, zone


def capacity_type_of(labels: Mapping[str, str]) -> str | None:
    """spot or on_demand by any provider's or provisioner's marker; None = not said."""
    if any(labels.get(flag, "").lower() in {"true", ""} for flag in SPOT_FLAGS if flag in labels):
        return "spot"
    words = {labels[label].lower() for label in CAPACITY_LABELS if label in labels}
    if words & SPOT_WORDS:
        return "spot"
    return "on_demand" if words & ON_DEMAND_WORDS else None


def is_virtual(labels: Mapping[str, str], provider_id: str | None = None) -> bool:
    """Virtual-kubelet, Fargate and GKE Autopilot nodes: their capacity is no machine that is paid for.

    Autopilot names its machines gk3-…, and bills what pods ask for.
    """
    return (
        "/gk3-" in (provider_id or "")
        or labels.get("type") == "virtual-kubelet"
        or labels.get("kubernetes.io/role") == "virtual-kubelet"
        or labels.get("eks.amazonaws.com/compute-type") == "fargate"
    )


def namespace_rows(namespace: Namespace, cell: Window) -> list[Row]:
    """That a namespace exists over `cell`, with its labels; none when it was created later."""
    metadata = namespace.metadata
    if not metadata.name:
        raise BadDataError("the namespace has no name.")
    created = metadata.creation_timestamp
    begin = cell.start if created is None or created < cell.start else created
    if begin >= cell.end:
        return []
    return [
        {
            "start_at": begin,
            "end_at": cell.end,
            "uid": metadata.uid or _synthetic_uid("", metadata.name, created),
            "namespace": metadata.name,
            "labels": strings_json(metadata.labels),
            "annotations": annotations_json(metadata.annotations),
        }
    ]


def volume_rows(volume: Volume, claims: Mapping[tuple[str, str], Claim], cell: Window) -> list[Row]:
    """What a volume holds over `cell`: its provisioned size, for the claim that has it.

    A released volume keeps the claim it was last bound to: whoever left it there still pays.
    """
    metadata, spec = volume.metadata, volume.spec
    if not metadata.name:
        raise BadDataError("the volume has no name.")
    created = metadata.creation_timestamp
    begin = cell.start if created is None or created < cell.start else created
    if begin >= cell.end:
        return []
    owner = spec.claim_ref if spec else None
    claim = claims.get((owner.namespace or "", owner.name or "")) if owner else None
    if claim and owner and owner.uid and claim.metadata.uid not in {None, owner.uid}:
        claim = None  # a new claim of the same name; the volume belonged to the old one
    labels = claim.metadata.labels if claim else metadata.labels
    storage = ((spec.capacity if spec else None) or {}).get("storage")
    return [
        {
            "start_at": begin,
            "end_at": cell.end,
            "uid": metadata.uid or _synthetic_uid("", metadata.name, created),
            "volume": metadata.name,
            "namespace": (owner.namespace or None) if owner else None,
            "claim": (owner.name or None) if owner else None,
            "storage_class": _storage_class(metadata, spec.storage_class_name if spec else None)
            or (claim and _storage_class(claim.metadata, _claim_class(claim)))
            or None,
            "phase": volume.status.phase if volume.status else None,
            "capacity_bytes": _stated(storage),
            "labels": strings_json(labels),
        }
    ]


def claim_rows(claim: Claim, cell: Window) -> list[Row]:
    """A claim whose volume is not listed: what it holds by its own status (null while pending)."""
    metadata, status = claim.metadata, claim.status
    if not metadata.name or not metadata.namespace:
        raise BadDataError("the claim has no name or no namespace.")
    created = metadata.creation_timestamp
    begin = cell.start if created is None or created < cell.start else created
    if begin >= cell.end:
        return []
    return [
        {
            "start_at": begin,
            "end_at": cell.end,
            "uid": metadata.uid or _synthetic_uid(metadata.namespace, metadata.name, created),
            "volume": (claim.spec.volume_name if claim.spec else None) or None,
            "namespace": metadata.namespace,
            "claim": metadata.name,
            "storage_class": _storage_class(metadata, _claim_class(claim)) or None,
            "phase": status.phase if status else None,
            "capacity_bytes": _stated(((status.capacity if status else None) or {}).get("storage")),
            "labels": strings_json(metadata.labels),
        }
    ]


def load_balancer_rows(service: Service, cell: Window) -> list[Row]:
    """The load balancer in front of a service over `cell`; none for services of other types."""
    metadata, spec, status = service.metadata, service.spec, service.status
    if not metadata.name or not metadata.namespace:
        raise BadDataError("the service has no name or no namespace.")
    if spec is None or spec.type != "LoadBalancer":
        return []
    created = metadata.creation_timestamp
    begin = cell.start if created is None or created < cell.start else created
    if begin >= cell.end:
        return []
    ingress = (status.load_balancer.ingress if status and status.load_balancer else None) or ()
    addresses = [each.ip or each.hostname for each in ingress if each.ip or each.hostname]
    return [
        {
            "start_at": begin,
            "end_at": cell.end,
            "uid": metadata.uid or _synthetic_uid(metadata.namespace, metadata.name, created),
            "namespace": metadata.namespace,
            "service": metadata.name,
            "address": addresses[0] if addresses else None,
            "ports": str(len(spec.ports or ())),
            "load_balancer_class": spec.load_balancer_class or None,
            "labels": strings_json(metadata.labels),
            "annotations": annotations_json(metadata.annotations),
        }
    ]


def usage_rows(
    metadata: Metadata, container: ContainerMetrics, life: Life | None, cell: Window
) -> list[Row]:
    """A container's gauge reading times the seconds it stands for: amounts, cut at whole hours.

    The reading holds over the pod's part of the cell. The empty-named entry that some servers add is
    the pod's total and is left out (kubernetes-sigs/metrics-server#210).
    """
    if not container.name:
        return []
    usage = container.usage or {}
    cores = _used("cpu", usage.get("cpu"), MOST_CORES)
    memory = _used("memory", usage.get("memory"), MOST_BYTES)
    if cores is None and memory is None:
        return []
    start, end = (life.start, life.end) if life else (cell.start, cell.end)
    if start >= end:
        return []
    return [
        {
            "start_at": piece.start,
            "end_at": piece.end,
            "uid": life.uid if life else None,
            "namespace": metadata.namespace,
            "pod": metadata.name,
            "container": container.name,
            "node": life.node if life else None,
            "cpu_used_core_seconds": _amount_over(cores, start, piece),
            "memory_used_byte_seconds": _amount_over(memory, start, piece),
        }
        for piece in Window(start, end).chunks(HOUR)
    ]


def strings_json(strings: Mapping[str, str] | None) -> str | None:
    """A map as JSON with sorted keys; None where nothing was said."""
    return _ENCODE(strings).decode() if strings is not None else None


def annotations_json(annotations: Mapping[str, str] | None) -> str | None:
    """Annotations as JSON, without the documents some tools keep in them."""
    if annotations is None:
        return None
    return strings_json(
        {key: text for key, text in annotations.items() if len(text) <= LONGEST_ANNOTATION}
    )


def _amount_over(gauge: Decimal | None, since: datetime, piece: Window) -> str | None:
    """The gauge integrated over `piece`; edges are rounded from `since` on, so pieces re-add."""
    if gauge is None:
        return None
    before = _integral(gauge, since, piece.start)
    return plain(_integral(gauge, since, piece.end) - before)


def _integral(gauge: Decimal, since: datetime, until: datetime) -> Decimal:
    elapsed = until - since
    whole = elapsed.days * 86400 + elapsed.seconds
    if not elapsed.microseconds:
        return gauge * whole
    seconds = Decimal(whole) + Decimal(elapsed.microseconds) / 1_000_000
    return (gauge * seconds).quantize(NINE_DECIMALS, ROUND_HALF_EVEN)


def _used(name: str, quantity: Quantity | None, most: Decimal) -> Decimal | None:
    if quantity is None:
        return None
    used = parse_quantity(quantity)
    if used < 0:
        raise BadDataError(f"{name} used is {quantity!r}, below zero.")
    if used > most:
        raise BadDataError(f"{name} used is {quantity!r}, more than any machine has.")
    return used


def _stated(quantity: Quantity | None) -> str | None:
    if quantity is None:
        return None
    text = plain_quantity(quantity)
    if text.startswith("-") or len(text) > LONGEST_NUMBER:
        raise BadDataError(f"a capacity of {quantity!r} is negative or more than any machine has.")
    return text


def _readiness(conditions: Iterable[Condition]) -> bool | None:
    for condition in conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return None


def _transition(conditions: Iterable[Condition], kind: str, status: str) -> datetime | None:
    for condition in conditions:
        if condition.type == kind and condition.status == status:
            return condition.last_transition_time
    return None


def _controller(owners: list[OwnerReference] | None) -> OwnerReference | None:
    for owner in owners or ():
        if owner.controller:
            return owner
    return owners[0] if owners else None


def _synthetic_uid(namespace: str, name: str, since: datetime | None) -> str:
    if since is None:
        raise BadDataError("it has neither a uid nor a time of creation to tell it by.")
    return f"{namespace}/{name}@{iso(since)}" if namespace else f"{name}@{iso(since)}"


def _safe_spelling(text: str) -> str:
    """k8s.io/apimachinery `rand.SafeEncodeString`."""
    return "".join(_SAFE_ALPHABET[ord(letter) % len(_SAFE_ALPHABET)] for letter in text)


def _storage_class(metadata: Metadata, name: str | None) -> str | None:
    legacy = (metadata.annotations or {}).get("volume.beta.kubernetes.io/storage-class")
    return name or legacy


def _claim_class(claim: Claim) -> str | None:
    return claim.spec.storage_class_name if claim.spec else None


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str | None:
    for name in names:
        if labels.get(name):
            return labels[name]
    return None
