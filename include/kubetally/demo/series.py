"""What Prometheus holds of the demo cluster: kube-state-metrics v2, scheduler and cAdvisor series.

Pure: `series(scenario, name, start, end)` gives every series of a metric that has a sample in
[start, end]. Samples lie on the scrape grid. As in a real Prometheus, labels with an empty value do
not exist, completed pods keep their kube-state-metrics series until they are deleted, and cAdvisor
shows the same usage at several levels (container, pod cgroup, whole node).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from kubetally.demo.scenario import (
    BIRTH,
    BLOCK,
    GI,
    PAGE,
    Container,
    Node,
    Pod,
    Run,
    Scenario,
    digest,
    number,
    str_uuid,
)

Values = Callable[[Sequence[int]], "list[str] | str"]
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
KSM = {"job": "kube-state-metrics", "instance": "10.244.0.9:8080"}
SCHEDULER = {"job": "kube-scheduler", "instance": "10.240.0.4:10259"}
_FRACTIONS = ["", *(f".{n:03d}".rstrip("0") for n in range(1, 1000))]


@dataclass(frozen=True, eq=False)
class Series:
    """One time series: `values` are the printed samples at grid times within [start, end), or one
    string where they are all the same."""

    labels: dict[str, str]
    start: int
    end: int
    values: str | Values

    @cached_property
    def json(self) -> str:
        """The labels as the API prints them."""
        return json.dumps(dict(sorted(self.labels.items())), separators=(",", ":"))


def milli(value: int) -> str:
    """Thousandths as Prometheus prints them: 1500 → 1.5."""
    whole, rest = divmod(value, 1000)
    return f"{whole}{_FRACTIONS[rest]}"


def sanitize(label: str) -> str:
    """A Kubernetes label key as kube-state-metrics writes it."""
    return "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", label)


def names() -> list[str]:
    """Every metric the demo cluster has."""
    return sorted({*_OF_CLUSTER, *_OF_WINDOW, *_OF_NODE, *_OF_POD})


def series(scenario: Scenario, name: str, start: int, end: int) -> Iterator[Series]:
    """Every series of metric `name` that exists at some time in [start, end]; none if unknown."""
    found: list[Series] = []
    if name in _OF_CLUSTER:
        found.extend(_of_cluster(scenario, name))
    if name in _OF_WINDOW:
        found.extend(_finish(name, _OF_WINDOW[name](scenario, start, end + 1)))
    if name in _OF_NODE:
        for node in scenario.nodes(start, end + 1):
            found.extend(_of_node(name, node))
    if name in _OF_POD:
        for pod in scenario.pods(start, end + 1):
            found.extend(_of_pod(name, pod))
    for one in found:
        if one.start <= end and one.end > start:
            yield one


def _finish(name: str, found: Iterator[Series]) -> tuple[Series, ...]:
    """With the metric's name, without the labels that are empty."""
    return tuple(
        Series(
            {"__name__": name} | {key: value for key, value in one.labels.items() if value},
            one.start,
            one.end,
            one.values,
        )
        for one in found
    )


@lru_cache(maxsize=256)
def _of_cluster(scenario: Scenario, name: str) -> tuple[Series, ...]:
    return _finish(name, _OF_CLUSTER[name](scenario))


@lru_cache(maxsize=4096)
def _of_node(name: str, node: Node) -> tuple[Series, ...]:
    return _finish(name, _OF_NODE[name](node))


@lru_cache(maxsize=20_000)
def _of_pod(name: str, pod: Pod) -> tuple[Series, ...]:
    return _finish(name, _OF_POD[name](pod))


# --- kube-state-metrics: namespaces and nodes -------------------------------------------------


def _namespaces(
    scenario: Scenario, kind: Literal["labels", "created", "phase"]
) -> Iterator[Series]:
    for namespace in scenario.namespaces:
        labels = {**KSM, "namespace": namespace.name}
        if kind == "created":
            yield Series(labels, BIRTH, _FAR, str(BIRTH))
        elif kind == "phase":
            for phase in ("Active", "Terminating"):
                yield Series(
                    {**labels, "phase": phase}, BIRTH, _FAR, "1" if phase == "Active" else "0"
                )
        else:
            labels[sanitize("kubernetes.io/metadata.name")] = namespace.name
            labels.update((sanitize(key), value) for key, value in namespace.labels)
            yield Series(labels, BIRTH, _FAR, "1")


_FAR = BIRTH + 10**10


def node_resources(node: Node) -> list[tuple[str, str, str, str]]:
    """(resource, unit, capacity, allocatable) as kube-state-metrics names them."""
    pool = node.pool
    rows = [
        ("cpu", "core", milli(pool.cpu_millicores), milli(pool.cpu_allocatable_millicores)),
        ("ephemeral_storage", "byte", str(128 * GI), str(115 * GI)),
        ("hugepages_2Mi", "byte", "0", "0"),
        ("memory", "byte", str(pool.memory_bytes), str(pool.memory_allocatable_bytes)),
        ("pods", "integer", "110", "110"),
    ]
    if pool.gpus:
        rows.append(("nvidia_com_gpu", "integer", str(pool.gpus), str(pool.gpus)))
    return rows


def _node_series(kind: str) -> Callable[[Node], Iterator[Series]]:
    def family(node: Node) -> Iterator[Series]:
        labels = {**KSM, "node": node.name}
        born, gone = node.created, node.deleted
        if kind == "info":
            yield Series(labels | _node_info(node), born, gone, "1")
        elif kind == "labels":
            more = {sanitize(key): value for key, value in node.labels}
            yield Series(labels | more, born, gone, "1")
        elif kind == "created":
            yield Series(labels, born, gone, str(born))
        elif kind == "unschedulable":
            yield Series(labels, born, gone, "0")
        elif kind == "condition":
            for condition in ("DiskPressure", "MemoryPressure", "PIDPressure", "Ready"):
                right = "true" if condition == "Ready" else "false"
                for status in ("true", "false", "unknown"):
                    more = {"condition": condition, "status": status}
                    yield Series(labels | more, born, gone, "1" if status == right else "0")
        else:
            for resource, unit, capacity, allocatable in node_resources(node):
                value = capacity if kind == "capacity" else allocatable
                yield Series({**labels, "resource": resource, "unit": unit}, born, gone, value)

    return family


def _node_info(node: Node) -> dict[str, str]:
    return {
        "container_runtime_version": "containerd://1.7.27-1",
        "internal_ip": node.ip,
        "kernel_version": "5.15.0-1092-azure",
        "kubelet_version": "v1.33.4",
        "kubeproxy_version": "deprecated",
        "os_image": "Ubuntu 22.04.5 LTS",
        "pod_cidr": f"10.244.{number(node.uid) % 250}.0/24",
        "provider_id": node.provider_id,
        "system_uuid": node.system_uuid,
    }


# --- kube-state-metrics: pods -----------------------------------------------------------------


def _pod_labels(pod: Pod) -> dict[str, str]:
    return {**KSM, "namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}


def _by_node(pod: Pod, end: int) -> Iterator[tuple[dict[str, str], int, int]]:
    """Labels with the node, over [created, end): without one until the pod is scheduled."""
    labels = _pod_labels(pod)
    if pod.scheduled is None or pod.node is None:
        yield labels, pod.created, end
        return
    if pod.created < pod.scheduled:
        yield labels, pod.created, pod.scheduled
    yield {**labels, "node": pod.node.name}, pod.scheduled, end


def _pod_info(pod: Pod) -> Iterator[Series]:
    workload = pod.workload
    more = {
        "created_by_kind": pod.owner_kind,
        "created_by_name": pod.owner_name,
        "host_network": "true" if workload.host_network else "false",
        "priority_class": workload.priority_class,
    }
    for labels, start, end in _by_node(pod, pod.removed):
        where = {}
        if "node" in labels and pod.node is not None:
            where = {"host_ip": pod.node.ip, "pod_ip": pod.ip}
        yield Series(labels | more | where, start, end, "1")


def _pod_owner(pod: Pod) -> Iterator[Series]:
    more = {
        "owner_kind": pod.owner_kind,
        "owner_name": pod.owner_name,
        "owner_is_controller": "true",
    }
    yield Series(_pod_labels(pod) | more, pod.created, pod.removed, "1")


def _pod_own_labels(pod: Pod) -> Iterator[Series]:
    more = {sanitize(key): value for key, value in pod.labels}
    yield Series(_pod_labels(pod) | more, pod.created, pod.removed, "1")


def _pod_created(pod: Pod) -> Iterator[Series]:
    yield Series(_pod_labels(pod), pod.created, pod.removed, str(pod.created))


def _pod_start_time(pod: Pod) -> Iterator[Series]:
    if pod.scheduled is not None:
        yield Series(_pod_labels(pod), pod.scheduled, pod.removed, str(pod.scheduled))


def _pod_completion_time(pod: Pod) -> Iterator[Series]:
    if pod.outcome:
        yield Series(_pod_labels(pod), pod.finished, pod.removed, str(pod.finished))


def _pod_unschedulable(pod: Pod) -> Iterator[Series]:
    waits_until = pod.removed if pod.scheduled is None else pod.scheduled
    if waits_until > pod.created:
        yield Series(_pod_labels(pod), pod.created, waits_until, "1")


def _pod_phase(pod: Pod) -> Iterator[Series]:
    labels = _pod_labels(pod)
    lives = {  # from when to when each phase is the pod's
        "Pending": (pod.created, pod.running),
        "Running": (pod.running, pod.finished),
        pod.outcome: (pod.finished, pod.removed),
    }
    for phase in PHASES:
        begin, end = lives.get(phase, (0, 0))
        yield Series(
            {**labels, "phase": phase},
            pod.created,
            pod.removed,
            _within(begin, end),
        )


def _within(begin: int, end: int) -> Values:
    """1 within [begin, end), else 0."""

    def values(times: Sequence[int]) -> list[str] | str:
        if begin <= times[0] and times[-1] < end:
            return "1"
        if times[-1] < begin or times[0] >= end:
            return "0"
        return ["1" if begin <= t < end else "0" for t in times]

    return values


def container_resources(
    container: Container, kind: Literal["requests", "limits"]
) -> Iterator[tuple[str, str, str]]:
    """(resource, unit, printed value) of a container's requests or limits."""
    cpu = container.cpu_request if kind == "requests" else container.cpu_limit
    memory = container.memory_request if kind == "requests" else container.memory_limit
    if cpu is not None:
        yield "cpu", "core", milli(cpu)
    if memory is not None:
        yield "memory", "byte", str(memory)
    if container.gpus:
        yield "nvidia_com_gpu", "integer", str(container.gpus)


def _container_resources(
    kind: Literal["requests", "limits"], init: bool
) -> Callable[[Pod], Iterator[Series]]:
    def family(pod: Pod) -> Iterator[Series]:
        for labels, start, end in _by_node(pod, pod.removed):
            for container in pod.workload.containers:
                if (container.kind != "main") != init:
                    continue  # sidecars are init containers to kube-state-metrics
                for resource, unit, value in container_resources(container, kind):
                    more = {"container": container.name, "resource": resource, "unit": unit}
                    yield Series(labels | more, start, end, value)

    return family


def _container_info(init: bool) -> Callable[[Pod], Iterator[Series]]:
    def family(pod: Pod) -> Iterator[Series]:
        for container in pod.workload.containers:
            if (container.kind != "main") == init:
                more = {"container": container.name, "image": container.image}
                yield Series(_pod_labels(pod) | more, pod.created, pod.removed, "1")

    return family


def _overhead(resource: Literal["cpu", "memory"]) -> Callable[[Pod], Iterator[Series]]:
    def family(pod: Pod) -> Iterator[Series]:
        workload = pod.workload
        value = workload.overhead_cpu if resource == "cpu" else workload.overhead_memory
        if value:
            printed = milli(value) if resource == "cpu" else str(value)
            yield Series(_pod_labels(pod), pod.created, pod.removed, printed)

    return family


def _scheduler_request(pod: Pod) -> Iterator[Series]:
    """The effective request, from creation (no node yet) until the pod is terminal or gone."""
    cpu, memory, gpus = pod.workload.effective_request
    asks = pod.workload.asks_for
    rows = [
        ("cpu", "cores", milli(cpu), asks[0]),
        ("memory", "bytes", str(memory), asks[1]),
        ("nvidia_com_gpu", "", str(gpus), asks[2]),
    ]
    for by_node, start, end in _by_node(pod, pod.finished):
        labels = {
            **SCHEDULER,
            "namespace": pod.namespace,
            "pod": pod.name,
            "node": by_node.get("node", ""),
            "scheduler": "default-scheduler",
            "priority": priority(pod),
        }
        for resource, unit, value, asked in rows:
            if asked:
                name = "nvidia.com/gpu" if resource == "nvidia_com_gpu" else resource
                unit = unit or "integer"
                yield Series({**labels, "resource": name, "unit": unit}, start, end, value)


def priority(pod: Pod) -> str:
    return {"system-node-critical": "2000001000", "system-cluster-critical": "2000000000"}.get(
        pod.workload.priority_class, "0"
    )


def _replicaset_owner(scenario: Scenario, start: int, end: int) -> Iterator[Series]:
    yield from _controllers(scenario, start, end, "ReplicaSet", "Deployment", "replicaset")


def _job_owner(scenario: Scenario, start: int, end: int) -> Iterator[Series]:
    yield from _controllers(scenario, start, end, "Job", "CronJob", "job_name")


def _controllers(
    scenario: Scenario, start: int, end: int, kind: str, owner_kind: str, label: str
) -> Iterator[Series]:
    """Who owns the owners: one series per controller that has pods, as long as it has them."""
    lives: dict[tuple[str, str], tuple[str, int, int]] = {}
    for pod in scenario.pods(start, end):
        if pod.owner_kind == kind:
            key = (pod.namespace, pod.owner_name)
            _, begin, stop = lives.get(key, ("", pod.created, pod.removed))
            lives[key] = (pod.workload.name, min(begin, pod.created), max(stop, pod.removed))
    for (namespace, name), (owner, begin, stop) in lives.items():
        labels = {
            **KSM,
            "namespace": namespace,
            label: name,
            "owner_kind": owner_kind,
            "owner_name": owner,
            "owner_is_controller": "true",
        }
        yield Series(labels, begin, stop, "1")


# --- volumes ----------------------------------------------------------------------------------


def claims(scenario: Scenario) -> list[tuple[str, str, str, int]]:
    """(namespace, claim, volume, bytes) of every volume claim; they outlive their pods."""
    found = []
    for workload in scenario.workloads:
        if workload.claim_gib:
            replicas = max(1, round(workload.replicas * scenario.pod_scale))
            for replica in range(replicas):
                claim = f"data-{workload.name}-{replica}"
                volume = (
                    f"pvc-{str_uuid(scenario.seed, scenario.cluster, workload.namespace, claim)}"
                )
                found.append((workload.namespace, claim, volume, workload.claim_gib * GI))
    return found


def storage_class(scenario: Scenario) -> str:
    return "managed-csi" if scenario.provider == "azure" else "standard-rwo"


def _claim_series(kind: str) -> Callable[[Scenario], Iterator[Series]]:
    def family(scenario: Scenario) -> Iterator[Series]:
        for namespace, claim, volume, size in claims(scenario):
            labels = {**KSM, "namespace": namespace, "persistentvolumeclaim": claim}
            if kind == "info":
                more = {
                    "storageclass": storage_class(scenario),
                    "volumename": volume,
                    "volumemode": "Filesystem",
                }
                yield Series(labels | more, BIRTH, _FAR, "1")
            elif kind == "requests":
                yield Series(labels, BIRTH, _FAR, str(size))
            elif kind == "phase":
                for phase in ("Bound", "Lost", "Pending"):
                    value = "1" if phase == "Bound" else "0"
                    yield Series({**labels, "phase": phase}, BIRTH, _FAR, value)
            elif kind == "pv capacity":
                yield Series({**KSM, "persistentvolume": volume}, BIRTH, _FAR, str(size))
            elif kind == "pv info":
                more = {"storageclass": storage_class(scenario), "csi_driver": "disk.csi.azure.com"}
                yield Series({**KSM, "persistentvolume": volume} | more, BIRTH, _FAR, "1")
            elif kind == "pv claim":
                more = {"persistentvolume": volume, "name": claim, "claim_namespace": namespace}
                yield Series(KSM | more, BIRTH, _FAR, "1")
            else:
                for phase in ("Available", "Bound", "Failed", "Pending", "Released"):
                    value = "1" if phase == "Bound" else "0"
                    more = {"persistentvolume": volume, "phase": phase}
                    yield Series(KSM | more, BIRTH, _FAR, value)

    return family


def _pod_claims(pod: Pod) -> Iterator[Series]:
    if pod.workload.claim_gib:
        more = {
            "volume": "data",
            "persistentvolumeclaim": f"data-{pod.workload.name}-{pod.replica}",
        }
        yield Series(_pod_labels(pod) | more, pod.created, pod.removed, "1")


# --- cAdvisor ---------------------------------------------------------------------------------


def quality_of_service(pod: Pod) -> str:
    """The pod's class by its containers' requests and limits."""
    containers = pod.workload.containers
    if all(c.cpu_request is None and c.memory_request is None for c in containers):
        return "BestEffort"
    if all(
        c.cpu_request == c.cpu_limit is not None and c.memory_request == c.memory_limit is not None
        for c in containers
    ):
        return "Guaranteed"
    return "Burstable"


@lru_cache(maxsize=20_000)
def cgroup(pod: Pod) -> str:
    """The pod's cgroup path with the systemd driver: the uid has "_" for "-"."""
    qos = quality_of_service(pod).lower()
    uid = pod.uid.replace("-", "_")
    if qos == "guaranteed":
        return f"/kubepods.slice/kubepods-pod{uid}.slice"
    return f"/kubepods.slice/kubepods-{qos}.slice/kubepods-{qos}-pod{uid}.slice"


def container_id(run: Run) -> str:
    return (digest("container", run.key).hex() + digest("container", run.key, 2).hex())[:64]


def sandbox_id(pod: Pod) -> str:
    return (digest("sandbox", pod.uid).hex() + digest("sandbox", pod.uid, 2).hex())[:64]


def kubelet(node: Node) -> dict[str, str]:
    """The target labels of a node's kubelet."""
    return {
        "job": "kubelet",
        "metrics_path": "/metrics/cadvisor",
        "instance": f"{node.ip}:10250",
        "node": node.name,
    }


def container_labels(pod: Pod, run: Run) -> dict[str, str]:
    name = container_id(run)
    return {
        "container": run.container.name,
        "id": f"{cgroup(pod)}/cri-containerd-{name}.scope",
        "image": run.container.image,
        "name": name,
        "namespace": pod.namespace,
        "pod": pod.name,
    }


def pod_cpu_counter(pod: Pod, moment: int) -> int:
    """Millicore-seconds of the pod's cgroup: its containers and a pause process."""
    total = (moment - pod.runs[0].start) // 60
    for run in pod.runs:
        if moment >= run.start:
            total += run.cpu_counter(moment)
    return total


def pod_memory_used(pod: Pod, moment: int) -> int:
    return 73 * PAGE + sum(
        run.memory_used(moment) for run in pod.runs if run.start <= moment < run.seen_until
    )


def network_bytes(pod: Pod, moment: int, direction: Literal["receive", "transmit"]) -> int:
    """Bytes through the pod's own interface since its start."""
    per = 211 if direction == "receive" else 157
    return pod_cpu_counter(pod, moment) * per + (moment - pod.runs[0].start) * 7


def _thousandths(counter: Callable[[int], int]) -> Values:
    return lambda times: [milli(counter(t)) for t in times]


def _whole(gauge: Callable[[int], int]) -> Values:
    return lambda times: [str(gauge(t)) for t in times]


def _run_cpu(run: Run) -> Values:
    def values(times: Sequence[int]) -> list[str]:
        fractions = _FRACTIONS
        return [f"{v // 1000}{fractions[v % 1000]}" for v in run.cpu_counters(times)]

    return values


def _run_memory(run: Run, share: int = 8) -> Values:
    def values(times: Sequence[int]) -> list[str]:
        printed: dict[int, str] = {}
        result = []
        for t in times:
            block = t // BLOCK if t < run.end else -1
            if block not in printed:
                printed[block] = str(run.memory_used(t) * share // 8 // PAGE * PAGE)
            result.append(printed[block])
        return result

    return values


Kind = Literal["cpu", "memory", "rss"]


def _cadvisor_node(kind: Kind) -> Callable[[Node], Iterator[Series]]:
    def family(node: Node) -> Iterator[Series]:
        labels = kubelet(node) | {"id": "/"} | ({"cpu": "total"} if kind == "cpu" else {})
        if kind == "cpu":
            values = _thousandths(node.cpu_counter)
        elif kind == "memory":
            values = _whole(node.memory_used)
        else:
            values = _whole(lambda t: node.memory_used(t) * 7 // 8 // PAGE * PAGE)
        yield Series(labels, node.created, node.deleted, values)

    return family


def _cadvisor_pod(kind: Kind) -> Callable[[Pod], Iterator[Series]]:
    def family(pod: Pod) -> Iterator[Series]:
        if pod.node is None or not pod.runs:
            return
        target = kubelet(pod.node) | ({"cpu": "total"} if kind == "cpu" else {})
        seen_until = max(run.seen_until for run in pod.runs)
        whole = {"id": cgroup(pod), "namespace": pod.namespace, "pod": pod.name}
        if kind == "cpu":
            values = _thousandths(lambda t: pod_cpu_counter(pod, t))
        elif kind == "memory":
            values = _whole(lambda t: pod_memory_used(pod, t))
        else:
            values = _whole(lambda t: pod_memory_used(pod, t) * 7 // 8 // PAGE * PAGE)
        yield Series(target | whole, pod.runs[0].start, seen_until, values)
        for run in pod.runs:
            if kind == "cpu":
                values = _run_cpu(run)
            else:
                values = _run_memory(run, 8 if kind == "memory" else 7)
            yield Series(target | container_labels(pod, run), run.start, run.seen_until, values)

    return family


def _network_node(node: Node) -> Iterator[Series]:
    labels = kubelet(node) | {"id": "/", "interface": "eth0"}
    yield Series(labels, node.created, node.deleted, _whole(lambda t: node_network(node, t)))


def _network_pod(direction: Literal["receive", "transmit"]) -> Callable[[Pod], Iterator[Series]]:
    def family(pod: Pod) -> Iterator[Series]:
        node = pod.node
        if node is None or not pod.runs:
            return
        labels = kubelet(node) | {
            "id": f"{cgroup(pod)}/cri-containerd-{sandbox_id(pod)}.scope",
            "image": "mcr.microsoft.com/oss/kubernetes/pause:3.6",
            "interface": "eth0",
            "name": sandbox_id(pod),
            "namespace": pod.namespace,
            "pod": pod.name,
        }
        if pod.workload.host_network:  # shows the node's own interface: not the pod's traffic
            values = _whole(lambda t: node_network(node, t))
        else:
            values = _whole(lambda t: network_bytes(pod, t, direction))
        yield Series(labels, pod.runs[0].start, pod.finished, values)

    return family


def node_network(node: Node, moment: int) -> int:
    """Bytes through the machine's eth0 since it was created."""
    return node.cpu_counter(moment) * 97


def _start_time(pod: Pod) -> Iterator[Series]:
    if pod.node is not None:
        for run in pod.runs:
            labels = kubelet(pod.node) | container_labels(pod, run)
            yield Series(labels, run.start, run.seen_until, str(run.start))


def _up(scenario: Scenario) -> Iterator[Series]:
    for target in (KSM, SCHEDULER):
        yield Series(dict(target), BIRTH, _FAR, "1")


def _up_node(node: Node) -> Iterator[Series]:
    yield Series(kubelet(node), node.created, node.deleted, "1")


# --- the list ---------------------------------------------------------------------------------


_OF_CLUSTER: dict[str, Callable[[Scenario], Iterator[Series]]] = {
    "kube_namespace_created": lambda s: _namespaces(s, "created"),
    "kube_namespace_labels": lambda s: _namespaces(s, "labels"),
    "kube_namespace_status_phase": lambda s: _namespaces(s, "phase"),
    "kube_persistentvolume_capacity_bytes": _claim_series("pv capacity"),
    "kube_persistentvolume_claim_ref": _claim_series("pv claim"),
    "kube_persistentvolume_info": _claim_series("pv info"),
    "kube_persistentvolume_status_phase": _claim_series("pv phase"),
    "kube_persistentvolumeclaim_info": _claim_series("info"),
    "kube_persistentvolumeclaim_resource_requests_storage_bytes": _claim_series("requests"),
    "kube_persistentvolumeclaim_status_phase": _claim_series("phase"),
    "up": _up,
}
_OF_WINDOW: dict[str, Callable[[Scenario, int, int], Iterator[Series]]] = {
    "kube_job_owner": _job_owner,
    "kube_replicaset_owner": _replicaset_owner,
}
_OF_NODE: dict[str, Callable[[Node], Iterator[Series]]] = {
    "container_cpu_usage_seconds_total": _cadvisor_node("cpu"),
    "container_memory_rss": _cadvisor_node("rss"),
    "container_memory_working_set_bytes": _cadvisor_node("memory"),
    "container_network_receive_bytes_total": _network_node,
    "container_network_transmit_bytes_total": _network_node,
    "kube_node_created": _node_series("created"),
    "kube_node_info": _node_series("info"),
    "kube_node_labels": _node_series("labels"),
    "kube_node_spec_unschedulable": _node_series("unschedulable"),
    "kube_node_status_allocatable": _node_series("allocatable"),
    "kube_node_status_capacity": _node_series("capacity"),
    "kube_node_status_condition": _node_series("condition"),
    "up": _up_node,
}
_OF_POD: dict[str, Callable[[Pod], Iterator[Series]]] = {
    "container_cpu_usage_seconds_total": _cadvisor_pod("cpu"),
    "container_memory_rss": _cadvisor_pod("rss"),
    "container_memory_working_set_bytes": _cadvisor_pod("memory"),
    "container_network_receive_bytes_total": _network_pod("receive"),
    "container_network_transmit_bytes_total": _network_pod("transmit"),
    "container_start_time_seconds": _start_time,
    "kube_pod_completion_time": _pod_completion_time,
    "kube_pod_container_info": _container_info(init=False),
    "kube_pod_container_resource_limits": _container_resources("limits", init=False),
    "kube_pod_container_resource_requests": _container_resources("requests", init=False),
    "kube_pod_created": _pod_created,
    "kube_pod_info": _pod_info,
    "kube_pod_init_container_info": _container_info(init=True),
    "kube_pod_init_container_resource_limits": _container_resources("limits", init=True),
    "kube_pod_init_container_resource_requests": _container_resources("requests", init=True),
    "kube_pod_labels": _pod_own_labels,
    "kube_pod_overhead_cpu_cores": _overhead("cpu"),
    "kube_pod_overhead_memory_bytes": _overhead("memory"),
    "kube_pod_owner": _pod_owner,
    "kube_pod_resource_request": _scheduler_request,
    "kube_pod_spec_volumes_persistentvolumeclaims_info": _pod_claims,
    "kube_pod_start_time": _pod_start_time,
    "kube_pod_status_phase": _pod_phase,
    "kube_pod_status_scheduled_time": _pod_start_time,
    "kube_pod_status_unschedulable": _pod_unschedulable,
}
