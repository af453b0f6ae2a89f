"""What a pod holds on its node: the scheduler's effective request, and its effective limits.

The rule is that of k8s.io/component-helpers `resource.PodRequests` with status resources:

1. A container's request is what its spec asks for; with an in-place resize it is the largest of
   spec, allocated and actual, and, while the resize is infeasible, the larger of the last two.
2. Init containers run in order. One with `restartPolicy: Always` (a native sidecar) stays: it adds
   to the steady sum and to the sidecars running so far. A plain one needs its own request plus the
   sidecars started before it, for a moment.
3. The pod needs the larger of its steady sum and its largest init moment, per resource.
4. Pod-level `spec.resources.requests` replaces that for cpu and memory where it names them.
5. `spec.overhead` of the runtime class is added.

Everything is pure; quantities are `Decimal`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from kubetally.errors import BadDataError
from kubetally.sources.quantity import parse_quantity

if TYPE_CHECKING:
    from kubetally.sources.kubernetes.objects import (
        Container,
        ContainerStatus,
        Pod,
        PodSpec,
        Quantities,
        Resources,
    )

ZERO = Decimal(0)
MOST = Decimal(10**19)  # above the 2**63 - 1 bytes at which binary quantities are capped
CPU = "cpu"
MEMORY = "memory"
# Whole devices, time-sliced shares and MIG slices; the last is the name before Kubernetes 1.8.
_GPU = re.compile(
    r"nvidia\.com/gpu(?:\.shared)?|nvidia\.com/mig-\d+(?:c\.\d+)?g\.\d+gb[\w.+-]*"
    r"|amd\.com/gpu[\w.-]*|gpu\.intel\.com/(?:i915|xe)|alpha\.kubernetes\.io/nvidia-gpu"
)
_MIG_SLICES = re.compile(r"nvidia\.com/mig-(\d+)")

Amounts = dict[str, Decimal]


@dataclass(frozen=True, slots=True)
class EffectiveRequest:
    """What a pod asks for: cores, bytes and devices (or slices) of `gpu_resource`.

    `other_gpu_resources` names what one row cannot carry when a pod asks for several kinds.
    """

    cpu_cores: Decimal
    memory_bytes: Decimal
    gpus: Decimal
    gpu_resource: str | None
    other_gpu_resources: tuple[str, ...] = ()


def effective_request(pod: Pod) -> EffectiveRequest:
    """The pod's effective request. Raises BadDataError for an invalid or negative quantity."""
    spec = pod.spec
    if spec is None:
        return EffectiveRequest(ZERO, ZERO, ZERO, None)
    statuses = _resized(pod)
    infeasible = bool(statuses) and _is_resize_infeasible(pod)
    steady: Amounts = {}
    for container in spec.containers or ():
        _add(steady, _container_requests(container, statuses, infeasible))
    if spec.init_containers:
        moments: Amounts = {}
        sidecars: Amounts = {}
        for container in spec.init_containers:
            is_sidecar = container.restart_policy == "Always"
            asked = _container_requests(container, statuses if is_sidecar else {}, infeasible)
            if is_sidecar:
                _add(steady, asked)
                _add(sidecars, asked)
                _raise_to(moments, sidecars)
            else:
                moment = dict(sidecars)
                _add(moment, asked)
                _raise_to(moments, moment)
        _raise_to(steady, moments)
    _apply_pod_level(steady, spec, limits=False)
    if spec.overhead:
        _add(steady, _amounts(spec.overhead))
    gpu_resource, others = _gpu_of(steady)
    return EffectiveRequest(
        steady.get(CPU, ZERO),
        steady.get(MEMORY, ZERO),
        steady[gpu_resource] if gpu_resource else ZERO,
        gpu_resource,
        others,
    )


def effective_limits(pod: Pod) -> tuple[Decimal | None, Decimal | None]:
    """The pod's cpu (cores) and memory (bytes) limit; None = unlimited.

    A pod is limited only where all its containers that keep running are, or where the pod itself is.
    """
    spec = pod.spec
    if spec is None:
        return None, None
    running = [*(spec.containers or ())]
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            running.append(container)
    total: Amounts = {}
    for position, container in enumerate(running):
        limits = _amounts(container.resources.limits if container.resources else None)
        for name in (CPU, MEMORY):
            if name in limits and (position == 0 or name in total):
                total[name] = total.get(name, ZERO) + limits[name]
            else:
                total.pop(name, None)
    _apply_pod_level(total, spec, limits=True)
    if spec.overhead:
        overhead = _amounts(spec.overhead)
        for name in total:
            total[name] += overhead.get(name, ZERO)
    return total.get(CPU), total.get(MEMORY)


def gpu_amount(amounts: Quantities | None) -> tuple[Decimal, str | None]:
    """Devices and their resource name among a node's capacity or allocatable; (0, None) = no GPU."""
    gpus = {
        name: amount
        for name, amount in _amounts(
            {n: q for n, q in (amounts or {}).items() if _GPU.fullmatch(n)}
        ).items()
        if amount
    }
    chosen, _ = _gpu_of(gpus)
    return (gpus[chosen], chosen) if chosen else (ZERO, None)


def _container_requests(
    container: Container, statuses: Mapping[str, ContainerStatus], infeasible: bool
) -> Amounts:
    resources = container.resources
    asked = _with_defaults(resources)
    status = statuses.get(container.name or "") if statuses else None
    if status is None:
        return asked
    actual = status.resources.requests if status.resources else None
    booked = {} if infeasible else asked
    if actual is not None:
        _raise_to(booked, _amounts(actual))
    if status.allocated_resources is not None:
        _raise_to(booked, _amounts(status.allocated_resources))
    return booked


def _with_defaults(resources: Resources | None) -> Amounts:
    """Requests; a limit without a request is its request, as the API server fills it in."""
    if resources is None:
        return {}
    asked = _amounts(resources.requests)
    if resources.limits:
        for name, limit in resources.limits.items():
            if name not in asked and limit is not None:
                asked[name] = _amount(name, limit)
    return asked


def _resized(pod: Pod) -> dict[str, ContainerStatus]:
    """Container statuses that tell of allocated or actual resources, by container name."""
    status = pod.status
    if status is None:
        return {}
    found: dict[str, ContainerStatus] = {}
    for statuses in (status.container_statuses, status.init_container_statuses):
        for each in statuses or ():
            if each.name and (
                each.allocated_resources is not None
                or (each.resources is not None and each.resources.requests is not None)
            ):
                found[each.name] = each
    return found


def _is_resize_infeasible(pod: Pod) -> bool:
    status = pod.status
    if status is None:
        return False
    if status.resize == "Infeasible":  # Kubernetes 1.27 to 1.32
        return True
    return any(
        condition.type == "PodResizePending"
        and condition.status == "True"
        and condition.reason == "Infeasible"
        for condition in status.conditions or ()
    )


def _apply_pod_level(amounts: Amounts, spec: PodSpec, *, limits: bool) -> None:
    if spec.resources is None:
        return
    named = spec.resources.limits if limits else spec.resources.requests
    for name in (CPU, MEMORY):
        quantity = (named or {}).get(name)
        if quantity is not None:
            amounts[name] = _amount(name, quantity)


def _gpu_of(amounts: Amounts) -> tuple[str | None, tuple[str, ...]]:
    """The GPU resource that weighs most (whole devices first, then MIG slices), and the others."""
    if len(amounts) <= 2 and CPU in amounts and MEMORY in amounts:
        return None, ()
    names = [name for name, amount in amounts.items() if amount and _GPU.fullmatch(name)]
    if not names:
        return None, ()

    def weight(name: str) -> tuple[bool, Decimal, str]:
        slices = _MIG_SLICES.match(name)
        factor = int(slices.group(1)) if slices else 1
        return (slices is None, amounts[name] * factor, name)

    names.sort(key=weight, reverse=True)
    return names[0], tuple(sorted(names[1:]))


def _amounts(quantities: Mapping[str, str | int | float | None] | None) -> Amounts:
    if not quantities:
        return {}
    return {
        name: _amount(name, quantity)
        for name, quantity in quantities.items()
        if quantity is not None
    }


def _amount(name: str, quantity: str | int | float) -> Decimal:
    amount = parse_quantity(quantity)
    if not 0 <= amount <= MOST:
        raise BadDataError(f"{name} {quantity!r} is negative or more than any cluster has.")
    return amount


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        present = total.get(name)
        total[name] = amount if present is None else present + amount


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        present = total.get(name)
        if present is None or amount > present:
            total[name] = amount
