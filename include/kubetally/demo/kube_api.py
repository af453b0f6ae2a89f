"""The Kubernetes API of the demo cluster at one moment: lists, metrics.k8s.io, kubelet proxy.

Pure: (scenario, path, parameters, now) in, status and body out. Object shapes follow recorded
answers of AKS and minikube; a list is paged as it was when its first page was asked for.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from kubetally.demo import series
from kubetally.demo.faults import Faults
from kubetally.demo.scenario import (
    BIRTH,
    GI,
    MI,
    Container,
    Node,
    Pod,
    Run,
    Scenario,
    digest,
    number,
    str_uuid,
)

Object = dict[str, Any]
PROXY = re.compile(
    r"/api/v1/nodes/([^/]+)/proxy/(metrics/cadvisor|metrics/resource|stats/summary|metrics)"
)
EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the first "
    "chunk was returned and now may show up in the list."
)
WAYS: tuple[Literal["receive", "transmit"], ...] = ("receive", "transmit")
METRICS_WINDOW = 30  # metrics-server averages over about this many seconds
TEXT = "text/plain; version=0.0.4; charset=utf-8"


def status(code: int, reason: str, message: str, **more: Any) -> Object:
    """A failure as the API server words it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **more,
        "code": code,
    }


def expired(token: str) -> Object:
    """The body of a 410: the token it carries continues at the same place, on present data."""
    position = _read_token(token) or (0, 0)
    body = status(410, "Expired", EXPIRED)
    body["metadata"] = {"continue": _token(0, position[1])}
    return body


def answer(
    scenario: Scenario, path: str, parameters: dict[str, str], now: int, faults: Faults
) -> tuple[int, Object | str, str]:
    """(status, body, content type) of a GET."""
    json_type = "application/json"
    if path == "/version":
        return 200, VERSION, json_type
    proxied = PROXY.fullmatch(path)
    if proxied:
        return _proxy(scenario, proxied[1], proxied[2], now, faults)
    for pattern, kind, version, make in _LISTS:
        found = re.fullmatch(pattern, path)
        if found:
            return _page(kind, version, partial(make, scenario, faults), found, parameters, now)
    if path.startswith("/apis/"):
        return 404, "404 page not found\n", "text/plain; charset=utf-8"
    return (
        404,
        status(404, "NotFound", "the server could not find the requested resource"),
        json_type,
    )


VERSION: Object = {
    "major": "1",
    "minor": "33",
    "gitVersion": "v1.33.4",
    "gitCommit": "74cdb4273ee9c3f6a7c1d1d8c3a3ab4a6b2f1b3d",
    "gitTreeState": "clean",
    "buildDate": "2025-08-13T14:11:36Z",
    "goVersion": "go1.24.5",
    "compiler": "gc",
    "platform": "linux/amd64",
}


# --- lists ------------------------------------------------------------------------------------


def _page(
    kind: str,
    version: str,
    make: Callable[[int], list[Object]],
    found: re.Match[str],
    parameters: dict[str, str],
    now: int,
) -> tuple[int, Object, str]:
    """One page of a list. The continue token holds the moment of the first page."""
    moment, start = now, 0
    if parameters.get("continue"):
        position = _read_token(parameters["continue"])
        if position is None:
            message = "continue key is not valid: invalid continue token"
            return 400, status(400, "BadRequest", message), "application/json"
        moment, start = position[0] or now, position[1]
    try:
        limit = int(parameters.get("limit") or 0)
    except ValueError:
        message = f'strconv.ParseInt: parsing "{parameters["limit"]}": invalid syntax'
        return 400, status(400, "BadRequest", message), "application/json"
    items = make(moment)
    if found.re.groups and found[1]:
        items = [item for item in items if item["metadata"].get("namespace") == found[1]]
    end = start + limit if limit > 0 else len(items)
    metadata: Object = {"resourceVersion": str(_version(moment))}
    if end < len(items):
        metadata["continue"] = _token(moment, end)
        metadata["remainingItemCount"] = len(items) - end
    body = {"kind": kind, "apiVersion": version, "metadata": metadata, "items": items[start:end]}
    return 200, body, "application/json"


def _token(moment: int, position: int) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": moment or -1, "start": position})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, int] | None:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        fields = json.loads(text)
        return max(0, int(fields["rv"])), int(fields["start"])
    except (ValueError, KeyError, TypeError):
        return None


def _version(moment: int) -> int:
    return (moment - BIRTH) * 7 + 1000


def rfc3339(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _meta(name: str, uid: str, created: int, namespace: str = "", **more: Any) -> Object:
    found: Object = {"name": name}
    if namespace:
        found["namespace"] = namespace
    return found | {
        "uid": uid,
        "resourceVersion": str(_version(created)),
        "creationTimestamp": rfc3339(created),
        **more,
    }


def namespaces(scenario: Scenario, faults: Faults, now: int) -> list[Object]:
    return [
        {
            "metadata": _meta(
                space.name,
                str_uuid(scenario.seed, scenario.cluster, "namespace", space.name),
                BIRTH,
                labels={"kubernetes.io/metadata.name": space.name, **dict(space.labels)},
            ),
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        for space in scenario.namespaces
    ]


def nodes(scenario: Scenario, faults: Faults, now: int) -> list[Object]:
    return [_node(node, now) for node in scenario.nodes(now, now + 1)]


def _node(node: Node, now: int) -> Object:
    pool = node.pool
    capacity = {
        "cpu": str(pool.cpu_millicores // 1000),
        "ephemeral-storage": f"{128 * GI // 1024}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": f"{pool.memory_bytes // 1024}Ki",
        "pods": "110",
    }
    allocatable = capacity | {
        "cpu": f"{pool.cpu_allocatable_millicores}m",
        "ephemeral-storage": str(115 * GI),
        "memory": f"{pool.memory_allocatable_bytes // 1024}Ki",
    }
    if pool.gpus:
        capacity["nvidia.com/gpu"] = allocatable["nvidia.com/gpu"] = str(pool.gpus)
    spec: Object = {"podCIDR": "10.244.0.0/24", "providerID": node.provider_id}
    if pool.is_spot:
        key = "kubernetes.azure.com/scalesetpriority"
        if node.provider_id.startswith("gce:"):
            key = "cloud.google.com/gke-spot"
        spec["taints"] = [{"key": key, "value": dict(node.labels)[key], "effect": "NoSchedule"}]
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    since, beat = rfc3339(node.created), rfc3339(now // 60 * 60)
    conditions = [
        {
            "type": kind,
            "status": "False",
            "lastHeartbeatTime": beat,
            "lastTransitionTime": since,
            "reason": f"KubeletHasNo{kind}"
            if kind == "DiskPressure"
            else f"KubeletHasSufficient{kind.removesuffix('Pressure')}",
            "message": "kubelet is well",
        }
        for kind in pressures
    ]
    conditions.append(
        {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": beat,
            "lastTransitionTime": since,
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        }
    )
    return {
        "metadata": _meta(
            node.name,
            node.uid,
            node.created,
            labels=dict(node.labels),
            annotations={
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        ),
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": node.ip},
                {"type": "Hostname", "address": node.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": digest("machine", node.uid).hex()[:32],
                "systemUUID": node.system_uuid,
                "bootID": str_uuid("boot", node.uid),
                "kernelVersion": "5.15.0-1092-azure",
                "osImage": "Ubuntu 22.04.5 LTS",
                "containerRuntimeVersion": "containerd://1.7.27-1",
                "kubeletVersion": "v1.33.4",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def pods(scenario: Scenario, faults: Faults, now: int) -> list[Object]:
    """Every listed pod, by namespace and name as etcd keeps them."""
    listed = [_pod(pod, now) for pod in scenario.pods(now, now + 1)]
    if faults.odd_pod:
        odd = json.loads(json.dumps(listed[0]))
        odd["metadata"] |= {"name": "odd-one", "uid": str_uuid("odd")}
        odd["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1.5 cores"}}
        listed.append(odd)
    return sorted(listed, key=lambda p: (p["metadata"]["namespace"], p["metadata"]["name"]))


def quantity(value: int) -> str:
    """Bytes with the largest binary suffix that fits."""
    for unit, size in (("Gi", GI), ("Mi", MI), ("Ki", 1024)):
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return str(value)


def _resources(container: Container) -> Object:
    requests: Object = {}
    limits: Object = {}
    if container.cpu_request is not None:
        requests["cpu"] = _cpu(container.cpu_request)
    if container.memory_request is not None:
        requests["memory"] = quantity(container.memory_request)
    if container.cpu_limit is not None:
        limits["cpu"] = _cpu(container.cpu_limit)
    if container.memory_limit is not None:
        limits["memory"] = quantity(container.memory_limit)
    if container.gpus:
        requests["nvidia.com/gpu"] = limits["nvidia.com/gpu"] = str(container.gpus)
    return {k: v for k, v in (("limits", limits), ("requests", requests)) if v}


def _cpu(millicores: int) -> str:
    return str(millicores // 1000) if millicores % 1000 == 0 else f"{millicores}m"


def _pod(pod: Pod, now: int) -> Object:
    workload = pod.workload
    api_version = "batch/v1" if pod.owner_kind == "Job" else "apps/v1"
    owner = {
        "apiVersion": api_version,
        "kind": pod.owner_kind,
        "name": pod.owner_name,
        "uid": str_uuid(pod.namespace, pod.owner_kind, pod.owner_name),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    more: Object = {"labels": dict(pod.labels), "ownerReferences": [owner]}
    if pod.owner_kind != "StatefulSet":
        more["generateName"] = f"{pod.owner_name}-"
    spec: Object = {
        "restartPolicy": "Never" if pod.owner_kind == "Job" else "Always",
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "priority": int(series.priority(pod)),
    }
    if workload.priority_class:
        spec["priorityClassName"] = workload.priority_class
    init: list[Object] = []
    main: list[Object] = []
    for container in workload.containers:
        described: Object = {
            "name": container.name,
            "image": container.image,
            "resources": _resources(container),
        }
        if container.kind == "sidecar":
            described["restartPolicy"] = "Always"
        (main if container.kind == "main" else init).append(described)
    if init:
        spec["initContainers"] = init
    spec["containers"] = main
    if workload.host_network:
        spec["hostNetwork"] = True
    if workload.overhead_cpu or workload.overhead_memory:
        spec["runtimeClassName"] = "kata"
        spec["overhead"] = {
            "cpu": _cpu(workload.overhead_cpu),
            "memory": quantity(workload.overhead_memory),
        }
    if workload.claim_gib:
        claim = f"data-{workload.name}-{pod.replica}"
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    is_bound = pod.node is not None and pod.scheduled is not None and now >= pod.scheduled
    if is_bound and pod.node is not None:
        spec["nodeName"] = pod.node.name
    return {
        "metadata": _meta(pod.name, pod.uid, pod.created, pod.namespace, **more),
        "spec": spec,
        "status": _pod_status(pod, now, is_bound),
    }


def _pod_status(pod: Pod, now: int, is_bound: bool) -> Object:
    phase = pod.phase(now)
    body: Object = {"phase": phase, "qosClass": series.quality_of_service(pod)}
    if not is_bound or pod.node is None or pod.scheduled is None:
        body["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/10 nodes are available: insufficient resources. preemption: 0/10 "
                "nodes are available: 10 Preemption is not helpful for scheduling.",
                "lastTransitionTime": rfc3339(pod.created),
            }
        ]
        return body
    body |= {"hostIP": pod.node.ip, "hostIPs": [{"ip": pod.node.ip}]}
    if now >= pod.runs[0].start:
        body |= {"podIP": pod.ip, "podIPs": [{"ip": pod.ip}]}
    body["startTime"] = rfc3339(pod.scheduled)
    is_over, is_up = bool(pod.outcome) and now >= pod.finished, phase == "Running"
    reason: Object = {}
    if is_over:
        reason = {"reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    since = pod.finished if is_over else pod.running if is_up else pod.scheduled
    started = [run for run in pod.runs if run.start <= now]
    up: Object = {"status": "True" if is_up else "False", "lastTransitionTime": rfc3339(since)}
    body["conditions"] = [
        {
            "type": "PodReadyToStartContainers",
            "status": "True" if started and not is_over else "False",
            "lastTransitionTime": rfc3339(since),
        },
        {
            "type": "Initialized",
            "status": "True" if is_up or is_over else "False",
            "lastTransitionTime": rfc3339(min(pod.running, now)),
        },
        {"type": "Ready", **up, **reason},
        {"type": "ContainersReady", **up, **reason},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(pod.scheduled)},
    ]
    by_name = {run.container.name: run for run in pod.runs}
    statuses: dict[bool, list[Object]] = {True: [], False: []}
    for container in pod.workload.containers:
        shown = _container_status(pod, container, by_name.get(container.name), now)
        statuses[container.kind == "main"].append(shown)
    if statuses[False]:
        body["initContainerStatuses"] = statuses[False]
    body["containerStatuses"] = statuses[True]
    return body


def _container_status(pod: Pod, container: Container, run: Run | None, now: int) -> Object:
    shown: Object = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "started": False,
    }
    resources = _resources(container)
    if "requests" in resources and container.kind != "init":
        shown["allocatedResources"] = resources.get("requests", {})
        shown["resources"] = resources
    if run is None or now < run.start:
        shown["state"] = {"waiting": {"reason": "PodInitializing"}}
        return shown
    identity = f"containerd://{series.container_id(run)}"
    shown |= {
        "containerID": identity,
        "imageID": f"{container.image}@sha256:{digest(container.image).hex()}",
    }
    if now < run.end:
        shown |= {"ready": True, "started": True}
        shown["state"] = {"running": {"startedAt": rfc3339(run.start)}}
        return shown
    failed = pod.outcome == "Failed" and container.kind == "main"
    if container.kind == "init":
        shown["ready"] = True
    shown["state"] = {
        "terminated": {
            "containerID": identity,
            "exitCode": 1 if failed else 0,
            "reason": "Error" if failed else "Completed",
            "startedAt": rfc3339(run.start),
            "finishedAt": rfc3339(run.end),
        }
    }
    return shown


def volumes(scenario: Scenario, faults: Faults, now: int) -> list[Object]:
    driver = "disk.csi.azure.com" if scenario.provider == "azure" else "pd.csi.storage.gke.io"
    return [
        {
            "metadata": _meta(
                volume,
                str_uuid(scenario.seed, scenario.cluster, volume),
                BIRTH,
                annotations={"pv.kubernetes.io/provisioned-by": driver},
                finalizers=["kubernetes.io/pv-protection"],
            ),
            "spec": {
                "capacity": {"storage": quantity(size)},
                "csi": {"driver": driver, "volumeHandle": volume},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": namespace,
                    "name": claim,
                    "uid": str_uuid(scenario.seed, scenario.cluster, namespace, "claim", claim),
                    "apiVersion": "v1",
                },
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": series.storage_class(scenario),
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Bound"},
        }
        for namespace, claim, volume, size in series.claims(scenario)
    ]


def volume_claims(scenario: Scenario, faults: Faults, now: int) -> list[Object]:
    return [
        {
            "metadata": _meta(
                claim,
                str_uuid(scenario.seed, scenario.cluster, namespace, "claim", claim),
                BIRTH,
                namespace,
                finalizers=["kubernetes.io/pvc-protection"],
            ),
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": quantity(size)}},
                "volumeName": volume,
                "storageClassName": series.storage_class(scenario),
                "volumeMode": "Filesystem",
            },
            "status": {
                "phase": "Bound",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": quantity(size)},
            },
        }
        for namespace, claim, volume, size in series.claims(scenario)
    ]


_SERVICES = (
    # namespace, name, type, port
    ("checkout", "storefront", "LoadBalancer", 443),
    ("checkout", "cart", "ClusterIP", 8080),
    ("default", "kubernetes", "ClusterIP", 443),
    ("kube-system", "kube-dns", "ClusterIP", 53),
    ("observability", "grafana", "ClusterIP", 3000),
    ("observability", "prometheus", "ClusterIP", 9090),
    ("payments", "payments-api", "LoadBalancer", 443),
    ("search", "search-api", "ClusterIP", 8080),
)


def services(scenario: Scenario, faults: Faults, now: int) -> list[Object]:
    found = []
    for namespace, name, kind, port in _SERVICES:
        address = number(scenario.seed, scenario.cluster, namespace, name)
        ip = f"10.0.{address % 250}.{address // 250 % 250 + 1}"
        state: Object = {}
        if kind == "LoadBalancer":
            state = {"ingress": [{"ip": f"203.0.113.{address % 250 + 1}"}]}
        found.append(
            {
                "metadata": _meta(
                    name,
                    str_uuid(scenario.seed, scenario.cluster, namespace, "service", name),
                    BIRTH,
                    namespace,
                ),
                "spec": {
                    "type": kind,
                    "clusterIP": ip,
                    "clusterIPs": [ip],
                    "ports": [
                        {"name": "main", "protocol": "TCP", "port": port, "targetPort": port}
                    ],
                    "selector": {"app.kubernetes.io/name": name},
                },
                "status": {"loadBalancer": state},
            }
        )
    return found


# --- metrics.k8s.io ---------------------------------------------------------------------------


def _nanocores(counter: Callable[[int], int], start: int, now: int) -> int:
    """The average over the window of metrics-server, from a counter of millicore-seconds."""
    begin = max(start, now - METRICS_WINDOW)
    return (counter(now) - counter(begin)) * 1_000_000 // (now - begin)


def node_metrics(scenario: Scenario, faults: Faults, now: int) -> list[Object]:
    return [
        {
            "metadata": {
                "name": node.name,
                "creationTimestamp": rfc3339(now),
                "labels": dict(node.labels),
            },
            "timestamp": rfc3339(now - 3),
            "window": f"{METRICS_WINDOW}.0s",
            "usage": {
                "cpu": f"{_nanocores(node.cpu_counter, node.created, now)}n",
                "memory": f"{node.memory_used(now) // 1024}Ki",
            },
        }
        for node in scenario.nodes(now, now + 1)
        if now - node.created >= 2 * METRICS_WINDOW
    ]


def pod_metrics(scenario: Scenario, faults: Faults, now: int) -> list[Object]:
    """Usage of running pods that metrics-server has seen twice; terminal ones are absent."""
    found = []
    for pod in scenario.pods(now, now + 1):
        running = [
            run for run in pod.runs if run.start <= now - 2 * METRICS_WINDOW and now < run.end
        ]
        if pod.phase(now) != "Running" or not running:
            continue
        found.append(
            {
                "metadata": {
                    "name": pod.name,
                    "namespace": pod.namespace,
                    "creationTimestamp": rfc3339(now),
                    "labels": dict(pod.labels),
                },
                "timestamp": rfc3339(now - 3),
                "window": f"{METRICS_WINDOW}.0s",
                "containers": [
                    {
                        "name": run.container.name,
                        "usage": {
                            "cpu": f"{_nanocores(run.cpu_counter, run.start, now)}n",
                            "memory": f"{run.memory_used(now) // 1024}Ki",
                        },
                    }
                    for run in running
                ],
            }
        )
    return sorted(found, key=lambda p: (p["metadata"]["namespace"], p["metadata"]["name"]))


_LISTS: tuple[tuple[str, str, str, Callable[[Scenario, Faults, int], list[Object]]], ...] = (
    (r"/api/v1/namespaces", "NamespaceList", "v1", namespaces),
    (r"/api/v1/nodes", "NodeList", "v1", nodes),
    (r"/api/v1/(?:namespaces/([^/]+)/)?pods", "PodList", "v1", pods),
    (r"/api/v1/persistentvolumes", "PersistentVolumeList", "v1", volumes),
    (
        r"/api/v1/(?:namespaces/([^/]+)/)?persistentvolumeclaims",
        "PersistentVolumeClaimList",
        "v1",
        volume_claims,
    ),
    (r"/api/v1/(?:namespaces/([^/]+)/)?services", "ServiceList", "v1", services),
    (
        r"/apis/metrics\.k8s\.io/v1beta1/nodes",
        "NodeMetricsList",
        "metrics.k8s.io/v1beta1",
        node_metrics,
    ),
    (
        r"/apis/metrics\.k8s\.io/v1beta1/(?:namespaces/([^/]+)/)?pods",
        "PodMetricsList",
        "metrics.k8s.io/v1beta1",
        pod_metrics,
    ),
)


# --- kubelet ----------------------------------------------------------------------------------


def _proxy(
    scenario: Scenario, name: str, what: str, now: int, faults: Faults
) -> tuple[int, Object | str, str]:
    machines = scenario.nodes(now, now + 1)
    node = next((one for one in machines if one.name == name), None)
    if node is None:
        message = f'nodes "{name}" not found'
        more = {"details": {"name": name, "kind": "nodes"}}
        return 404, status(404, "NotFound", message, **more), "application/json"
    if faults.broken_node in (name, "first" if node is machines[0] else name):
        message = f"error trying to reach service: dial tcp {node.ip}:10250: i/o timeout"
        return 503, status(503, "ServiceUnavailable", message), "application/json"
    here = [pod for pod in scenario.pods(now, now + 1) if pod.node is node and pod.runs]
    if what == "metrics/cadvisor":
        return 200, _exposition(_cadvisor_lines(node, here, now)), TEXT
    if what == "metrics/resource":
        return 200, _exposition(_resource_lines(node, here, now)), TEXT
    if what == "stats/summary":
        return 200, _summary(node, here, now), "application/json"
    return 404, "404 page not found\n", "text/plain; charset=utf-8"


Sample = tuple[str, dict[str, str], str, int]  # metric, labels, value, milliseconds


def _lag(key: object, now: int) -> int:
    """When cAdvisor looked last at a cgroup: 1 to 14 seconds ago, in milliseconds."""
    return now * 1000 - 1000 - number("lag", key) % 13_000


def float_text(value: str) -> str:
    """A number as Go prints it in the text format: with an exponent from 1e+06 on."""
    whole, _, fraction = value.partition(".")
    exponent = len(whole) - 1
    if exponent < 6:
        return value
    digits = (whole[1:] + fraction).rstrip("0")
    return f"{whole[0]}{'.' if digits else ''}{digits}e+{exponent:02d}"


def _exposition(samples: Iterator[Sample]) -> str:
    """Prometheus text format with per-sample timestamps."""
    by_name: dict[str, list[str]] = {}
    for name, labels, value, stamp in samples:
        text = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
        printed = float_text(value)
        line = f"{name}{{{text}}} {printed} {stamp}" if labels else f"{name} {printed} {stamp}"
        by_name.setdefault(name, []).append(line)
    lines: list[str] = []
    for name in sorted(by_name):
        help_text, kind = _METRICS[name]
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", *by_name[name]]
    return "\n".join(lines) + "\n"


_METRICS = {
    "container_cpu_usage_seconds_total": ("Cumulative cpu time consumed in seconds.", "counter"),
    "container_memory_rss": ("Size of RSS in bytes.", "gauge"),
    "container_memory_working_set_bytes": ("Current working set in bytes.", "gauge"),
    "container_network_receive_bytes_total": ("Cumulative count of bytes received", "counter"),
    "container_network_transmit_bytes_total": ("Cumulative count of bytes transmitted", "counter"),
    "container_scrape_error": (
        "1 if there was an error while getting container metrics, 0 otherwise",
        "gauge",
    ),
    "container_spec_cpu_quota": ("CPU quota of the container.", "gauge"),
    "container_start_time_seconds": (
        "Start time of the container since unix epoch in seconds.",
        "gauge",
    ),
    "machine_cpu_cores": ("Number of logical CPU cores.", "gauge"),
    "machine_memory_bytes": ("Amount of memory installed on the machine.", "gauge"),
    "node_cpu_usage_seconds_total": (
        "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
        "counter",
    ),
    "node_memory_working_set_bytes": (
        "[STABLE] Current working set of the node in bytes",
        "gauge",
    ),
    "pod_cpu_usage_seconds_total": (
        "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
        "counter",
    ),
    "pod_memory_working_set_bytes": ("[STABLE] Current working set of the pod in bytes", "gauge"),
    "resource_scrape_error": (
        "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
        "gauge",
    ),
}


def _level(
    container: str, cgroup: str, image: str, name: str, namespace: str, pod: str
) -> dict[str, str]:
    return {
        "container": container,
        "id": cgroup,
        "image": image,
        "name": name,
        "namespace": namespace,
        "pod": pod,
    }


def _seen_at(stamp: int, start: int) -> int:
    """The whole second a sample speaks of, never before its start."""
    return max(start, stamp // 1000)


def _cadvisor_lines(node: Node, here: list[Pod], now: int) -> Iterator[Sample]:
    root = _level("", "/", "", "", "", "")
    stamp = _lag(node.uid, now)
    at = _seen_at(stamp, node.created)
    cpu = {"cpu": "total"}
    yield "container_cpu_usage_seconds_total", root | cpu, series.milli(node.cpu_counter(at)), stamp
    yield "container_memory_working_set_bytes", root, str(node.memory_used(at)), stamp
    for way in WAYS:
        name = f"container_network_{way}_bytes_total"
        yield name, root | {"interface": "eth0"}, str(series.node_network(node, at)), stamp
    yield "container_scrape_error", {}, "0", stamp
    machine = {
        "machine_id": digest("machine", node.uid).hex()[:32],
        "system_uuid": node.system_uuid,
    }
    yield "machine_cpu_cores", machine, str(node.pool.cpu_millicores // 1000), stamp
    yield "machine_memory_bytes", machine, str(node.pool.memory_bytes), stamp
    for pod in here:
        runs = [run for run in pod.runs if run.start <= now < run.seen_until]
        if not runs:
            continue
        stamp = _lag(pod.uid, now)
        at = _seen_at(stamp, pod.runs[0].start)
        whole = _level("", series.cgroup(pod), "", "", pod.namespace, pod.name)
        counter = series.milli(series.pod_cpu_counter(pod, at))
        yield "container_cpu_usage_seconds_total", whole | cpu, counter, stamp
        yield (
            "container_memory_working_set_bytes",
            whole,
            str(series.pod_memory_used(pod, at)),
            stamp,
        )
        sandbox = series.sandbox_id(pod)
        network = _level(
            "",
            f"{series.cgroup(pod)}/cri-containerd-{sandbox}.scope",
            "mcr.microsoft.com/oss/kubernetes/pause:3.6",
            sandbox,
            pod.namespace,
            pod.name,
        )
        for way in WAYS:
            if pod.workload.host_network:
                value = series.node_network(node, at)
            else:
                value = series.network_bytes(pod, at, way)
            name = f"container_network_{way}_bytes_total"
            yield name, network | {"interface": "eth0"}, str(value), stamp
        for run in runs:
            stamp = _lag(run.key, now)
            at = _seen_at(stamp, run.start)
            labels = series.container_labels(pod, run)
            counter = series.milli(run.cpu_counter(at))
            yield "container_cpu_usage_seconds_total", labels | cpu, counter, stamp
            yield "container_memory_working_set_bytes", labels, str(run.memory_used(at)), stamp
            rss = run.memory_used(at) * 7 // 8 // 4096 * 4096
            yield "container_memory_rss", labels, str(rss), stamp
            yield "container_start_time_seconds", labels, str(run.start), stamp
            if run.container.cpu_limit is not None:  # only where a limit is set: absent is not 0
                yield "container_spec_cpu_quota", labels, str(run.container.cpu_limit * 100), stamp


def _resource_lines(node: Node, here: list[Pod], now: int) -> Iterator[Sample]:
    stamp = _lag(node.uid, now)
    at = _seen_at(stamp, node.created)
    yield "node_cpu_usage_seconds_total", {}, series.milli(node.cpu_counter(at)), stamp
    yield "node_memory_working_set_bytes", {}, str(node.memory_used(at)), stamp
    yield "resource_scrape_error", {}, "0", stamp
    for pod in here:
        runs = [run for run in pod.runs if run.start <= now < run.end]
        if not runs:
            continue
        where = {"namespace": pod.namespace, "pod": pod.name}
        stamp = _lag(pod.uid, now)
        at = _seen_at(stamp, pod.runs[0].start)
        counter = series.milli(series.pod_cpu_counter(pod, at))
        yield "pod_cpu_usage_seconds_total", where, counter, stamp
        yield "pod_memory_working_set_bytes", where, str(series.pod_memory_used(pod, at)), stamp
        for run in runs:
            stamp = _lag(run.key, now)
            at = _seen_at(stamp, run.start)
            labels = where | {"container": run.container.name}
            counter = series.milli(run.cpu_counter(at))
            yield "container_cpu_usage_seconds_total", labels, counter, stamp
            yield "container_memory_working_set_bytes", labels, str(run.memory_used(at)), stamp
            yield "container_start_time_seconds", labels, str(run.start), stamp


def _summary(node: Node, here: list[Pod], now: int) -> Object:
    stamp = _lag(node.uid, now)
    at = _seen_at(stamp, node.created)
    return {
        "node": {
            "nodeName": node.name,
            "startTime": rfc3339(node.created),
            "cpu": _summary_cpu(node.cpu_counter, node.created, at),
            "memory": {
                "time": rfc3339(at),
                "availableBytes": node.pool.memory_bytes - node.memory_used(at),
                "usageBytes": node.memory_used(at) * 9 // 8,
                "workingSetBytes": node.memory_used(at),
                "rssBytes": node.memory_used(at) * 7 // 8,
                "pageFaults": 0,
                "majorPageFaults": 0,
            },
            "network": _summary_network(
                series.node_network(node, at), series.node_network(node, at), at
            ),
        },
        "pods": [
            _summary_pod(node, pod, now)
            for pod in here
            if now < pod.finished and pod.runs[0].start <= now
        ],
    }


def _summary_cpu(counter: Callable[[int], int], start: int, at: int) -> Object:
    begin = max(start, at - 15)
    rate = (counter(at) - counter(begin)) * 1_000_000 // max(1, at - begin)
    return {
        "time": rfc3339(at),
        "usageNanoCores": rate,
        "usageCoreNanoSeconds": counter(at) * 1_000_000,
    }


def _summary_memory(used: int, at: int) -> Object:
    return {
        "time": rfc3339(at),
        "usageBytes": used,
        "workingSetBytes": used,
        "rssBytes": used * 7 // 8,
        "pageFaults": 0,
        "majorPageFaults": 0,
    }


def _summary_network(received: int, sent: int, at: int) -> Object:
    eth0 = {"name": "eth0", "rxBytes": received, "rxErrors": 0, "txBytes": sent, "txErrors": 0}
    return {"time": rfc3339(at), **eth0, "interfaces": [eth0]}


def _summary_pod(node: Node, pod: Pod, now: int) -> Object:
    at = _seen_at(_lag(pod.uid, now), pod.runs[0].start)
    containers = []
    for run in pod.runs:
        if run.start <= now < run.end:
            seen = _seen_at(_lag(run.key, now), run.start)
            containers.append(
                {
                    "name": run.container.name,
                    "startTime": rfc3339(run.start),
                    "cpu": _summary_cpu(run.cpu_counter, run.start, seen),
                    "memory": _summary_memory(run.memory_used(seen), seen),
                }
            )
    if pod.workload.host_network:
        received = sent = series.node_network(node, at)
    else:
        received = series.network_bytes(pod, at, "receive")
        sent = series.network_bytes(pod, at, "transmit")
    return {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": rfc3339(pod.scheduled or pod.created),
        "containers": containers,
        "cpu": _summary_cpu(
            lambda moment: series.pod_cpu_counter(pod, moment), pod.runs[0].start, at
        ),
        "memory": _summary_memory(series.pod_memory_used(pod, at), at),
        "network": _summary_network(received, sent, at),
    }
