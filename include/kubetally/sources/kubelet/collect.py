"""One look at every node's kubelet, and at the exporters beside them, over the API server's proxy.

Per node: `/metrics/cadvisor`; where that names no container (Windows, cut-down kubelets) the summary;
then `/metrics/resource`. Exporters of GPU metrics and of syscalls by cgroup are found by their pods'
labels and read pod by pod: behind a service one would meet a random node's.
A node that cannot be reached is a reject; the others land. Nothing is kept between two looks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

import msgspec

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.errors import BadDataError, KubetallyError, SourceError
from kubetally.http import RETRIED_STATUS, Answer
from kubetally.sources.kubelet.readings import (
    Row,
    cadvisor_readings,
    gpu_readings,
    stated,
    summary_readings,
    syscall_readings,
    with_syscalls,
)
from kubetally.sources.kubernetes.client import connect
from kubetally.sources.kubernetes.facts import is_virtual
from kubetally.sources.kubernetes.objects import Node, Page, Pod, decode_items
from kubetally.sources.kubernetes.pages import NODES, PODS, Resource, list_pages
from kubetally.sources.kubernetes.poll import not_the_present
from kubetally.sources.rows import Batch, Collected, Gap, Reject, frame
from kubetally.windows import Window

SOURCE = "kubelet"
THREADS = 8
Get = Callable[[str, Mapping[str, str]], Answer]
Readings = Callable[[bytes, str | None, datetime, list[Reject]], list[Row]]

ENDPOINTS: tuple[tuple[str, Readings], ...] = (
    ("metrics/cadvisor", cadvisor_readings),
    ("stats/summary", summary_readings),
    ("metrics/resource", cadvisor_readings),
)
NAME_LABELS = ("app.kubernetes.io/name", "app", "k8s-app")
GPU_EXPORTERS = frozenset({"dcgm-exporter", "nvidia-dcgm-exporter"})
SYSCALL_EXPORTERS = frozenset({"ebpf-exporter", "ebpf_exporter"})
GPU_PORT, SYSCALL_PORT = 9400, 9435


@dataclass(frozen=True)
class Exporter:
    """A pod that exports what kubelets do not: GPUs, or syscalls by cgroup."""

    namespace: str
    pod: str
    node: str | None
    is_gpu: bool

    @property
    def path(self) -> str:
        port = GPU_PORT if self.is_gpu else SYSCALL_PORT
        where = f"{quote(self.namespace, safe='')}/pods/{quote(self.pod, safe='')}:{port}"
        return f"/api/v1/namespaces/{where}/proxy/metrics"


@dataclass
class _Told:
    """What one node or exporter told."""

    readings: list[Row] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    digest: str = ""
    has_failed: bool = False


def collect(
    cluster: ClusterConfig, source: SourceConfig, window: Window, *, now: datetime
) -> Collected:
    """Readings of every container over the polling cell `window`, or one gap with the reason."""
    problem = not_the_present(window, now)
    if not problem:
        try:
            client = connect(source.connection, source.context)
            try:
                pages = lambda resource: list_pages(client.get, resource)  # noqa: E731
                return Collected(SOURCE, [read_nodes(client.get, pages, window, now=now)])
            finally:
                client.close()
        except KubetallyError as error:
            problem = str(error)
    return Collected(SOURCE, gaps=[Gap("container_stats", window, problem)])


def read_nodes(
    get: Get, pages: Callable[[Resource], Iterable[Page]], window: Window, *, now: datetime
) -> Batch:
    """The batch of one look. Raises KubetallyError where not one node could be read."""
    rejects: list[Reject] = []
    nodes = _nodes(pages(NODES), rejects)
    try:
        exporters = _exporters(pages(PODS))
    except KubetallyError as error:
        exporters = []
        rejects.append(Reject("container_stats", "exporters", f"pods cannot be listed: {error}"))
    with ThreadPoolExecutor(THREADS, "kubelet") as pool:
        of_nodes = list(pool.map(lambda node: _node(get, node, now), nodes))
        of_exporters = list(pool.map(lambda exporter: _exporter(get, exporter, now), exporters))
    if of_nodes and all(told.has_failed for told in of_nodes):
        raise SourceError(f"No kubelet could be read; {of_nodes[0].rejects[-1].reason}")
    digest = hashlib.sha256()
    readings: list[Row] = []
    for told in of_nodes:
        readings.extend(told.readings)
    for exporter, told in zip(exporters, of_exporters, strict=True):
        if exporter.is_gpu:
            readings.extend(told.readings)
        else:
            readings = with_syscalls(readings, told.readings)
    for told in (*of_nodes, *of_exporters):
        rejects.extend(told.rejects)
        digest.update(told.digest.encode())
    rows = frame("container_stats", stated(readings, window))
    covered = ((window.start, window.end),)
    return Batch("container_stats", window, rows, covered, digest.hexdigest(), tuple(rejects))


def _nodes(pages: Iterable[Page], rejects: list[Reject]) -> list[str]:
    """Names of the nodes that have a kubelet. A list that starts over drops what was read."""
    names: list[str] = []
    decoder = msgspec.json.Decoder(Node)
    for page in pages:
        if page.is_first:
            names.clear()
        for node, _ in decode_items(page.items, decoder, "container_stats", rejects):
            if node.metadata.name and not is_virtual(node.metadata.labels or {}):
                names.append(node.metadata.name)
    return names


def _exporters(pages: Iterable[Page]) -> list[Exporter]:
    found: list[Exporter] = []
    decoder = msgspec.json.Decoder(Pod)
    for page in pages:
        if page.is_first:
            found.clear()
        if b"exporter" not in page.body:
            continue
        for pod, _ in decode_items(page.raw_items(), decoder, "container_stats", []):
            labels = pod.metadata.labels or {}
            names = {labels[name] for name in NAME_LABELS if name in labels}
            is_gpu = bool(names & GPU_EXPORTERS)
            if not (is_gpu or names & SYSCALL_EXPORTERS):
                continue
            if pod.status and pod.status.phase == "Running" and pod.metadata.name:
                node = pod.spec.node_name if pod.spec else None
                namespace = pod.metadata.namespace or "default"
                found.append(Exporter(namespace, pod.metadata.name, node, is_gpu))
    return found


def _node(get: Get, node: str, now: datetime) -> _Told:
    """What the node's kubelet tells, from the first endpoint that names a container."""
    told = _Told()
    problems: list[str] = []
    answered = False
    for endpoint, readings in ENDPOINTS:
        path = f"/api/v1/nodes/{quote(node, safe='')}/proxy/{endpoint}"
        try:
            body = _body(get, path)
            answered = True
            told.readings = readings(body, node, now, told.rejects)
        except KubetallyError as error:
            problems.append(str(error))
            if not isinstance(error, BadDataError):
                break  # it cannot be reached: the other endpoints cannot be either
            continue
        told.digest = hashlib.sha256(body).hexdigest()
        if told.readings:
            return told
    if not answered:
        told.has_failed = True
        told.rejects.append(Reject("container_stats", node, problems[0]))
    return told


def _exporter(get: Get, exporter: Exporter, now: datetime) -> _Told:
    told = _Told()
    readings = gpu_readings if exporter.is_gpu else syscall_readings
    try:
        body = _body(get, exporter.path)
        told.readings = readings(body, exporter.node, now, told.rejects)
        told.digest = hashlib.sha256(body).hexdigest()
    except KubetallyError as error:
        name = f"{exporter.namespace}/{exporter.pod}"
        told.rejects.append(Reject("container_stats", name, str(error)))
    return told


def _body(get: Get, path: str) -> bytes:
    """A 200's body. Raises SourceError where another try may help, BadDataError where not."""
    answer = get(path, {})
    if answer.status == 200:
        return answer.body
    said = " ".join(answer.body[:200].decode("utf-8", "replace").split())
    if answer.status in RETRIED_STATUS:
        raise SourceError(f"{path} answered {answer.status}: {said}.")
    if answer.status in (401, 403):
        resource = "nodes/proxy" if "/nodes/" in path else "pods/proxy"
        raise BadDataError(
            f"We may not read {path} ({answer.status}).",
            remedy=f'Add to our ClusterRole: {{apiGroups: [""], resources: ["{resource}"],'
            ' verbs: ["get"]} (include/config/rbac/kubetally-kubelet.yaml).',
        )
    raise BadDataError(f"{path} answered {answer.status}: {said}.")
