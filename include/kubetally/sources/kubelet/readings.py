"""From what a kubelet or an exporter answers to readings: one row per container, as read.

Pure. Nothing is added up over time here and no difference is taken; what is not said is null. The
pod's own cgroup and the pause container are left out of the containers, and the pod's network stands
once, in a row whose container is "". Rows carry no interval yet (`stated`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from kubetally.errors import BadDataError
from kubetally.sources.exposition import EPOCH, Sample, parse
from kubetally.sources.kubelet.cgroups import seat_of
from kubetally.sources.kubernetes.objects import Time
from kubetally.sources.quantity import plain
from kubetally.sources.rows import Reject
from kubetally.windows import Window

Row = dict[str, Any]
UNLIMITED_FROM = Decimal(2**62)  # the kernel's "no limit" is 2**63 less a page
PAUSE = "POD"

CADVISOR = {
    "container_cpu_usage_seconds_total": "cpu_seconds_total",
    "container_cpu_cfs_periods_total": "cpu_periods_total",
    "container_cpu_cfs_throttled_periods_total": "cpu_throttled_periods_total",
    "container_cpu_cfs_throttled_seconds_total": "cpu_throttled_seconds_total",
    "container_memory_rss": "memory_rss_bytes",
    "container_memory_working_set_bytes": "memory_working_set_bytes",
    "container_memory_cache": "memory_cache_bytes",
    "container_spec_memory_limit_bytes": "memory_limit_bytes",
    "container_fs_usage_bytes": "filesystem_used_bytes",
    "container_processes": "processes",
    "container_oom_events_total": "oom_events_total",
    "container_start_time_seconds": "started_at",
}
NETWORK = {
    "container_network_receive_bytes_total": "network_receive_bytes_total",
    "container_network_transmit_bytes_total": "network_transmit_bytes_total",
    "container_network_receive_packets_dropped_total": "network_receive_dropped_total",
    "container_network_transmit_packets_dropped_total": "network_transmit_dropped_total",
}
DCGM = {
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_utilisation_percent", Decimal(1)),
    "DCGM_FI_DEV_FB_USED": ("gpu_memory_used_bytes", Decimal(2**20)),
    "DCGM_FI_DEV_FB_FREE": ("gpu_memory_free_bytes", Decimal(2**20)),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("gpu_energy_joules_total", Decimal("0.001")),
    # Of a MIG instance only the profiling fields are known.
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gpu_utilisation_percent", Decimal(100)),
}
SYSCALLS = frozenset({"ebpf_exporter_syscalls_total"})


def cadvisor_readings(
    body: bytes, node: str | None, scraped_at: datetime, rejects: list[Reject]
) -> list[Row]:
    """Containers and pod networks of `/metrics/cadvisor`, or containers of `/metrics/resource`.

    Knows the labels of before and after Kubernetes 1.16. Where CPU comes per core, the cores are added
    unless a total stands beside them.
    """
    containers: dict[tuple[str, str, str, str], Row] = {}
    networks: dict[tuple[str, str, str], Row] = {}
    began: dict[tuple[str, str, str], datetime | None] = {}
    cores: dict[tuple[str, str, str, str], Decimal] = {}
    for sample in _samples(body, {*CADVISOR, *NETWORK}, rejects):
        labels = sample.labels
        pod = labels.get("pod") or labels.get("pod_name") or ""
        namespace = labels.get("namespace") or ""
        container = labels.get("container") or labels.get("container_name") or ""
        if not pod or not namespace:
            continue  # the node, its system services, cgroups between it and the pods
        path = labels.get("id", "")
        seat = seat_of(path)
        where = {
            "uid": seat.uid if seat else None,
            "namespace": namespace,
            "pod": pod,
            "node": node,
            "sampled_at": sample.sampled_at or scraped_at,
        }
        if sample.name in NETWORK:
            if labels.get("interface") == "lo" or container not in ("", PAUSE):
                continue
            row = networks.setdefault((namespace, pod, path), {**where, "container": ""})
            column = NETWORK[sample.name]
            row[column] = row.get(column, Decimal(0)) + sample.value
            continue
        if container in ("", PAUSE):
            if sample.name == "container_start_time_seconds":
                began[(namespace, pod, path)] = _moment(sample.value)
            continue
        key = (namespace, pod, container, path)
        row = containers.get(key) or containers.setdefault(
            key, {**where, "container": container, "container_id": _container_id(labels)}
        )
        column = CADVISOR[sample.name]
        if column == "started_at":
            row[column] = _moment(sample.value)
        elif column == "cpu_seconds_total" and labels.get("cpu", "total") != "total":
            cores[key] = cores.get(key, Decimal(0)) + sample.value
        elif column == "memory_limit_bytes":
            row[column] = sample.value if 0 < sample.value < UNLIMITED_FROM else None
        else:
            row[column] = sample.value
            if column == "cpu_seconds_total":
                row["sampled_at"] = where["sampled_at"]
    for sandbox, moment in began.items():
        if sandbox in networks:
            networks[sandbox]["started_at"] = moment
    for key, value in cores.items():
        containers[key].setdefault("cpu_seconds_total", value)
    alive = _latest(containers.values(), lambda r: (r["namespace"], r["pod"], r["container"]))
    return [*alive, *_latest(networks.values(), lambda r: (r["namespace"], r["pod"]))]


def syscall_readings(
    body: bytes, node: str | None, scraped_at: datetime, rejects: list[Reject]
) -> list[Row]:
    """Syscalls by name per container, from an exporter that labels them with the cgroup.

    Without a pod's name: the uid and the container's id in the path say whose they are. Cgroups
    without a path any more ("unknown_cgroup_id:…") belong to nobody.
    """
    found: dict[tuple[str, str | None], Row] = {}
    counts: dict[tuple[str, str | None], dict[str, Decimal]] = {}
    for sample in _samples(body, SYSCALLS, rejects):
        seat = seat_of(sample.labels.get("cgroup", ""))
        if seat is None or not seat.container_id or not sample.labels.get("syscall"):
            continue
        found.setdefault(
            seat,
            {
                "uid": seat.uid,
                "container_id": seat.container_id,
                "node": node,
                "sampled_at": sample.sampled_at or scraped_at,
            },
        )
        names = counts.setdefault(seat, {})
        syscall = sample.labels["syscall"]
        names[syscall] = names.get(syscall, Decimal(0)) + sample.value
    for seat_key, row in found.items():
        row["syscalls_total"] = counts[seat_key]
    return list(found.values())


def gpu_readings(
    body: bytes, node: str | None, scraped_at: datetime, rejects: list[Reject]
) -> list[Row]:
    """Utilisation, memory and energy per GPU or MIG instance, and the container that has it.

    Instances of one GPU share its UUID: the device is UUID/instance. A device nobody has stands without
    a pod.
    """
    found: dict[tuple[str, ...], Row] = {}
    for sample in _samples(body, DCGM, rejects):
        labels = sample.labels
        pod = labels.get("pod") or labels.get("exported_pod") or ""
        namespace = labels.get("namespace") or labels.get("exported_namespace") or ""
        container = labels.get("container") or labels.get("exported_container") or ""
        device = labels.get("UUID") or labels.get("uuid") or labels.get("gpu", "")
        instance = labels.get("GPU_I_ID", "")
        row = found.setdefault(
            (namespace, pod, container, device, instance),
            {
                "namespace": namespace or None,
                "pod": pod or None,
                "container": container,
                "device": f"{device}/{instance}" if instance else device,
                "node": node or labels.get("Hostname"),
                "sampled_at": sample.sampled_at or scraped_at,
                "gpu_model": labels.get("modelName"),
                "gpu_profile": labels.get("GPU_I_PROFILE") or None,
            },
        )
        column, unit = DCGM[sample.name]
        if column == "gpu_energy_joules_total" and instance:
            continue  # the whole card's, repeated by each instance
        row.setdefault(column, sample.value * unit)
    return list(found.values())


class _Cpu(msgspec.Struct, rename="camel"):
    time: Time | None = None
    usage_core_nano_seconds: int | None = None


class _Memory(msgspec.Struct, rename="camel"):
    time: Time | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    usage_bytes: int | None = None


class _Filesystem(msgspec.Struct, rename="camel"):
    used_bytes: int | None = None


class _Container(msgspec.Struct, rename="camel"):
    name: str = ""
    start_time: Time | None = None
    cpu: _Cpu | None = None
    memory: _Memory | None = None
    rootfs: _Filesystem | None = None


class _Interface(msgspec.Struct, rename="camel"):
    name: str = ""
    rx_bytes: int | None = None
    tx_bytes: int | None = None


class _Network(_Interface):
    time: Time | None = None
    interfaces: list[_Interface] | None = None


class _Processes(msgspec.Struct, rename="camel"):
    process_count: int | None = msgspec.field(default=None, name="process_count")


class _PodReference(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _PodStats(msgspec.Struct, rename="camel"):
    pod_ref: _PodReference
    containers: list[_Container] | None = None
    network: _Network | None = None
    start_time: Time | None = None


class _NodeStats(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Summary(msgspec.Struct):
    node: _NodeStats | None = None
    pods: list[msgspec.Raw] | None = None


_POD_STATS = msgspec.json.Decoder(_PodStats)


def summary_readings(
    body: bytes, node: str | None, scraped_at: datetime, rejects: list[Reject]
) -> list[Row]:
    """Containers and pod networks of `/stats/summary` (the only source on Windows nodes).

    A container listed twice counts once, with its latest start (kubernetes/kubernetes#47853).
    Raises BadDataError when the body is no summary.
    """
    try:
        summary = msgspec.json.decode(body, type=_Summary)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadDataError(f"This is not a kubelet's summary: {error}.") from error
    name = node or (summary.node.node_name if summary.node else None) or None
    found: list[Row] = []
    networks: list[Row] = []
    for raw in summary.pods or ():
        try:
            pod = _POD_STATS.decode(raw)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            text = bytes(raw)[:2000].decode("utf-8", "replace").replace("\0", "\ufffd")
            rejects.append(
                Reject("container_stats", "?", f"not a pod's statistics: {error}.", text)
            )
            continue
        where = {
            "uid": pod.pod_ref.uid or None,
            "namespace": pod.pod_ref.namespace,
            "pod": pod.pod_ref.name,
            "node": name,
        }
        if not where["namespace"] or not where["pod"]:
            rejects.append(Reject("container_stats", "?", "statistics of a pod without a name."))
            continue
        for each in pod.containers or ():
            row = _summary_container(each, scraped_at)
            if row is not None:
                found.append({**where, **row})
        if pod.network is not None:
            row = _summary_network(pod.network, scraped_at)
            if row is not None:
                networks.append({**where, **row, "container": "", "started_at": pod.start_time})
    alive = _latest(found, lambda r: (r["uid"], r["namespace"], r["pod"], r["container"]))
    return [*alive, *networks]


def _summary_container(each: _Container, scraped_at: datetime) -> Row | None:
    cpu, memory = each.cpu, each.memory
    if not each.name or (cpu is None and memory is None):
        return None
    nanoseconds = cpu.usage_core_nano_seconds if cpu else None
    return {
        "container": each.name,
        "started_at": each.start_time,
        "sampled_at": (cpu and cpu.time) or (memory and memory.time) or scraped_at,
        "cpu_seconds_total": None if nanoseconds is None else Decimal(nanoseconds) / 10**9,
        "memory_working_set_bytes": _whole(memory.working_set_bytes) if memory else None,
        "memory_rss_bytes": _whole(memory.rss_bytes) if memory else None,
        "filesystem_used_bytes": _whole(each.rootfs.used_bytes) if each.rootfs else None,
    }


def _summary_network(network: _Network, scraped_at: datetime) -> Row | None:
    interfaces: Iterable[_Interface] = network.interfaces or (network,)
    received = [i.rx_bytes for i in interfaces if i.rx_bytes is not None and i.name != "lo"]
    sent = [i.tx_bytes for i in interfaces if i.tx_bytes is not None and i.name != "lo"]
    if not received and not sent:
        return None
    return {
        "sampled_at": network.time or scraped_at,
        "network_receive_bytes_total": Decimal(sum(received)) if received else None,
        "network_transmit_bytes_total": Decimal(sum(sent)) if sent else None,
    }


def with_syscalls(readings: list[Row], syscalls: Iterable[Row]) -> list[Row]:
    """`readings`, each container with its syscalls; one that no reading names is nobody's."""
    by_id = {row["container_id"]: row["syscalls_total"] for row in syscalls}
    return [
        row | {"syscalls_total": by_id[row["container_id"]]}
        if row.get("container_id") in by_id
        else row
        for row in readings
    ]


def stated(readings: Iterable[Row], cell: Window) -> list[Row]:
    """The readings as rows that are stated over `cell`, numbers as text."""
    return [
        {
            "start_at": cell.start,
            "end_at": cell.end,
            **{name: _text(value) for name, value in row.items()},
        }
        for row in readings
    ]


def _text(value: object) -> object:
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, dict):
        return msgspec.json.encode(
            {name: plain(count) for name, count in value.items()}, order="sorted"
        ).decode()
    return value


def _latest(rows: Iterable[Row], identity: Callable[[Row], object]) -> list[Row]:
    """Of several readings of one container only its youngest life: the others have ended."""
    chosen: dict[object, Row] = {}
    for row in rows:
        key = identity(row)
        known = chosen.get(key)
        if known is None or _age(row) > _age(known):
            chosen[key] = row
    return list(chosen.values())


def _age(row: Row) -> tuple[datetime, datetime]:
    return (row.get("started_at") or EPOCH, row["sampled_at"])


def _samples(body: bytes, names: Collection[str], rejects: list[Reject]) -> Iterator[Sample]:
    """The samples of `names`; one below zero is a reject."""
    for sample in parse(body, names, "container_stats", rejects):
        if sample.value < 0:
            who = f"{sample.labels.get('namespace', '')}/{sample.labels.get('pod', '')}"
            reason = f"{sample.name} is {sample.value}, below zero."
            rejects.append(Reject("container_stats", who[:512], reason))
            continue
        yield sample


def _whole(value: int | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def _moment(seconds: Decimal) -> datetime | None:
    return EPOCH + timedelta(microseconds=int(seconds * 1_000_000)) if seconds > 0 else None


def _container_id(labels: dict[str, str]) -> str | None:
    seat = seat_of(labels.get("id", ""))
    return (seat.container_id if seat else None) or labels.get("id") or None
