"""Every series this source reads, in one table.

A query names what it is for, the selectors that give it (tried in order, never added together: the
first is kube-state-metrics 2, the next one what version 1 called it), and which labels mean what:

* `subject` labels say what a sample is about;
* `state` labels are the information itself, for series that are always 1;
* `also` labels tell series of one subject apart without changing what they mean.

All other labels (`job`, `instance`, `prometheus_replica`, …) only say who scraped it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from kubetally.errors import ConfigError
from kubetally.sources.rows import Dataset

Kind = Literal["gauge", "state", "counter"]


@dataclass(frozen=True)
class Selector:
    """A PromQL series selector, and how its labels become those of the query.

    `adds` are labels the older metric carries in its name; `renames` maps old label names to new.
    """

    promql: str
    adds: Mapping[str, str] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Query:
    """One kind of series. `keeps` is the prefix of free labels (`label_`) that are information."""

    name: str
    dataset: Dataset
    doc: str
    kind: Kind
    choices: tuple[tuple[Selector, ...], ...]
    subject: tuple[str, ...]
    state: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    keeps: str = ""

    @property
    def known(self) -> frozenset[str]:
        """The labels that mean something, beside those that begin with `keeps`."""
        return frozenset({"__name__", *self.subject, *self.state, *self.also})


def _one(promql: str) -> tuple[Selector, ...]:
    return (Selector(promql),)


def _by_name(stem: str) -> tuple[Selector, ...]:
    """The pair of metrics that stood for cpu and memory in kube-state-metrics 1."""
    return (
        Selector(f"{stem}_cpu_cores", {"resource": "cpu"}),
        Selector(f"{stem}_memory_bytes", {"resource": "memory"}),
    )


POD = ("namespace", "pod")
CONTAINER = ("namespace", "pod", "container")
_CADVISOR_1_15 = {"pod_name": "pod", "container_name": "container"}

_TABLE = (
    # --- pods
    Query(
        "pod_info",
        "pod",
        "That a pod exists, on which node, and who created it. The pods there are, are these.",
        "state",
        (_one("kube_pod_info"),),
        (*POD, "uid"),
        ("node", "created_by_kind", "created_by_name", "host_network"),
        also=("host_ip", "pod_ip", "priority_class"),
    ),
    Query(
        "pod_phase",
        "pod",
        "Pending, Running, Succeeded, Failed or Unknown: the one whose value is 1.",
        "state",
        (_one("kube_pod_status_phase"),),
        (*POD, "uid"),
        ("phase",),
    ),
    Query(
        "pod_created",
        "pod",
        "When a pod was created; tells pods apart where there are no uids.",
        "gauge",
        (_one("kube_pod_created"),),
        (*POD, "uid"),
    ),
    Query(
        "pod_request",
        "pod",
        "The effective request as the scheduler itself publishes it (initialisation and overhead"
        " included, only while the pod holds it). Preferred; has no uid.",
        "gauge",
        (_one("kube_pod_resource_request"),),
        (*POD, "resource"),
        also=("node", "scheduler", "priority", "unit"),
    ),
    Query(
        "container_request",
        "pod",
        "What each container asks for.",
        "gauge",
        (
            _one("kube_pod_container_resource_requests"),
            _by_name("kube_pod_container_resource_requests"),
        ),
        (*CONTAINER, "uid", "resource"),
        also=("node", "unit"),
    ),
    Query(
        "init_request",
        "pod",
        "What each init container asks for. Sidecars (restartPolicy: Always) are listed here too"
        " and cannot be told apart from init containers.",
        "gauge",
        (
            _one("kube_pod_init_container_resource_requests"),
            _by_name("kube_pod_init_container_resource_requests"),
        ),
        (*CONTAINER, "uid", "resource"),
        also=("node", "unit"),
    ),
    Query(
        "pod_overhead",
        "pod",
        "What the pod's runtime class adds to its request.",
        "gauge",
        (_by_name("kube_pod_overhead"),),
        (*POD, "uid", "resource"),
        also=("node", "unit"),
    ),
    Query(
        "container_limit",
        "pod",
        "The limit of each container that has one.",
        "gauge",
        (
            _one("kube_pod_container_resource_limits"),
            _by_name("kube_pod_container_resource_limits"),
        ),
        (*CONTAINER, "uid", "resource"),
        also=("node", "unit"),
    ),
    Query(
        "container_info",
        "pod",
        "The containers of each pod: a pod is limited only where all of them are.",
        "state",
        (_one("kube_pod_container_info"),),
        (*CONTAINER, "uid"),
        also=("image", "image_id", "image_spec", "container_id"),
    ),
    Query(
        "pod_labels",
        "pod",
        "Labels of pods (kube-state-metrics 2 needs --metric-labels-allowlist=pods=[*]).",
        "state",
        (_one("kube_pod_labels"),),
        (*POD, "uid"),
        keeps="label_",
    ),
    Query(
        "pod_annotations",
        "pod",
        "Annotations of pods (needs --metric-annotations-allowlist).",
        "state",
        (_one("kube_pod_annotations"),),
        (*POD, "uid"),
        keeps="annotation_",
    ),
    Query(
        "replicaset_owner",
        "pod",
        "Which Deployment a ReplicaSet belongs to.",
        "state",
        (_one("kube_replicaset_owner"),),
        ("namespace", "replicaset"),
        ("owner_kind", "owner_name"),
        also=("owner_is_controller",),
    ),
    Query(
        "job_owner",
        "pod",
        "Which CronJob a Job belongs to.",
        "state",
        (_one("kube_job_owner"),),
        ("namespace", "job_name"),
        ("owner_kind", "owner_name"),
        also=("owner_is_controller",),
    ),
    # --- nodes
    Query(
        "node_info",
        "node",
        "That a node exists. The nodes there are, are these.",
        "state",
        (_one("kube_node_info"),),
        ("node", "system_uuid", "provider_id"),
        ("os_image",),
        also=(
            "kernel_version",
            "container_runtime_version",
            "kubelet_version",
            "kubeproxy_version",
            "pod_cidr",
            "internal_ip",
        ),
    ),
    Query(
        "node_created",
        "node",
        "When a node was created; tells nodes of one name apart.",
        "gauge",
        (_one("kube_node_created"),),
        ("node",),
    ),
    Query(
        "node_labels",
        "node",
        "Labels of nodes: region, zone, instance type, capacity type"
        " (kube-state-metrics 2 needs --metric-labels-allowlist=nodes=[*]).",
        "state",
        (_one("kube_node_labels"),),
        ("node",),
        keeps="label_",
    ),
    Query(
        "node_capacity",
        "node",
        "What a node has.",
        "gauge",
        (_one("kube_node_status_capacity"), _by_name("kube_node_status_capacity")),
        ("node", "resource"),
        also=("unit",),
    ),
    Query(
        "node_allocatable",
        "node",
        "What of it pods may ask for.",
        "gauge",
        (_one("kube_node_status_allocatable"), _by_name("kube_node_status_allocatable")),
        ("node", "resource"),
        also=("unit",),
    ),
    Query(
        "node_ready",
        "node",
        "Whether a node is ready: the status whose value is 1.",
        "state",
        (_one('kube_node_status_condition{condition="Ready"}'),),
        ("node",),
        ("status",),
        also=("condition",),
    ),
    # --- namespaces
    Query(
        "namespace_created",
        "namespace",
        "That a namespace exists, and since when.",
        "gauge",
        (_one("kube_namespace_created"),),
        ("namespace",),
    ),
    Query(
        "namespace_labels",
        "namespace",
        "Labels of namespaces (needs --metric-labels-allowlist=namespaces=[*]).",
        "state",
        (_one("kube_namespace_labels"),),
        ("namespace",),
        keeps="label_",
    ),
    Query(
        "namespace_annotations",
        "namespace",
        "Annotations of namespaces (needs --metric-annotations-allowlist).",
        "state",
        (_one("kube_namespace_annotations"),),
        ("namespace",),
        keeps="annotation_",
    ),
    # --- volumes
    Query(
        "volume_capacity",
        "volume",
        "That a volume exists, and how large it is.",
        "gauge",
        (_one("kube_persistentvolume_capacity_bytes"),),
        ("persistentvolume",),
    ),
    Query(
        "volume_info",
        "volume",
        "The storage class of a volume.",
        "state",
        (_one("kube_persistentvolume_info"),),
        ("persistentvolume",),
        ("storageclass",),
    ),
    Query(
        "volume_phase",
        "volume",
        "Available, Bound, Released, Failed or Pending: the one whose value is 1.",
        "state",
        (_one("kube_persistentvolume_status_phase"),),
        ("persistentvolume",),
        ("phase",),
    ),
    Query(
        "volume_claim",
        "volume",
        "The claim a volume is bound to, or was last.",
        "state",
        (_one("kube_persistentvolume_claim_ref"),),
        ("persistentvolume",),
        ("claim_namespace", "name"),
    ),
    Query(
        "claim_info",
        "volume",
        "The volume behind a claim; also for exporters that may not read volumes.",
        "state",
        (_one("kube_persistentvolumeclaim_info"),),
        ("namespace", "persistentvolumeclaim"),
        ("volumename", "storageclass"),
        also=("volumemode",),
    ),
    Query(
        "claim_request",
        "volume",
        "The size a claim asks for: its own where its volume is not listed.",
        "gauge",
        (_one("kube_persistentvolumeclaim_resource_requests_storage_bytes"),),
        ("namespace", "persistentvolumeclaim"),
    ),
    Query(
        "claim_phase",
        "volume",
        "Pending, Bound or Lost: the one whose value is 1.",
        "state",
        (_one("kube_persistentvolumeclaim_status_phase"),),
        ("namespace", "persistentvolumeclaim"),
        ("phase",),
    ),
    Query(
        "claim_labels",
        "volume",
        "Labels of claims.",
        "state",
        (_one("kube_persistentvolumeclaim_labels"),),
        ("namespace", "persistentvolumeclaim"),
        keeps="label_",
    ),
    # --- usage
    Query(
        "cpu_used",
        "usage",
        'CPU seconds of each container; never the pod\'s own cgroup (container="") and never the'
        " pause container. Per-CPU series are added up only where there is no total.",
        "counter",
        (
            _one('container_cpu_usage_seconds_total{container!="",container!="POD"}'),
            (
                Selector(
                    'container_cpu_usage_seconds_total{container_name!="",container_name!="POD"}',
                    renames=_CADVISOR_1_15,
                ),
            ),
        ),
        CONTAINER,
        also=("cpu", "id", "name", "image", "node"),
    ),
    Query(
        "memory_used",
        "usage",
        "The working set of each container, what the kubelet evicts by.",
        "gauge",
        (
            _one('container_memory_working_set_bytes{container!="",container!="POD"}'),
            (
                Selector(
                    'container_memory_working_set_bytes{container_name!="",container_name!="POD"}',
                    renames=_CADVISOR_1_15,
                ),
            ),
        ),
        CONTAINER,
        also=("id", "name", "image", "node"),
    ),
)


def table(overrides: Mapping[str, str] | None = None) -> dict[str, Query]:
    """Every query by name. `overrides` gives some of them a selector of the reader's own, for
    example `{"pod_info": 'kube_pod_info{cluster="a"}'}`; its labels must be those of the query.

    Raises ConfigError for a name that is not in the table.
    """
    queries = {query.name: query for query in _TABLE}
    for name, promql in (overrides or {}).items():
        if name not in queries:
            raise ConfigError(
                f"There is no Prometheus query {name!r}.",
                remedy=f"The names are: {', '.join(queries)}.",
            )
        queries[name] = replace(queries[name], choices=(_one(promql),))
    return queries
