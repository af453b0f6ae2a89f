"""What the Prometheus source makes of answers: traps of exporters, replicas, versions and servers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_server import Labels, Reply, Samples, Series, Store, connect_to, serving

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.errors import ConfigError
from kubetally.http import HttpClient
from kubetally.sources import prometheus
from kubetally.sources.prometheus import client
from kubetally.sources.prometheus.client import decode_matrix
from kubetally.sources.prometheus.families import hear, statements
from kubetally.sources.prometheus.intervals import Rhythm
from kubetally.sources.prometheus.names import node_label, resource_name, workload
from kubetally.sources.prometheus.queries import Query, Selector, table
from kubetally.sources.quantity import plain_quantity
from kubetally.sources.rows import Batch, Collected
from kubetally.windows import HOUR, Window

DATA = Path(__file__).parents[1] / "data" / "k8s"
START = datetime(2025, 3, 30, 10, tzinfo=UTC)
T0 = START.timestamp()
WINDOW = Window(START, START + HOUR)
NOW = START + 5 * HOUR
SOURCE = SourceConfig("prometheus", "prometheus_test", interval_seconds=60)
CLUSTER = ClusterConfig("test", (SOURCE,))
ALWAYS = (-10, 70)  # minutes


def every_minute(value: str, first: float = -10, last: float = 70, shift: float = 0) -> Samples:
    """Samples at whole minutes of the window's first hour, `first` <= minute < `last`."""
    minutes = range(int(first), int(last))
    return [(T0 + 60 * minute + shift, value) for minute in minutes]


def counter(per_minute: float, first: int = -10, last: int = 70, shift: float = 0) -> Samples:
    return [
        (T0 + 60 * minute + shift, str(round(1000 + per_minute * minute, 6)))
        for minute in range(first, last)
    ]


def pod_info(
    pod: str = "web-0", uid: str = "u1", samples: Samples | None = None, **more: str
) -> Series:
    labels = {"namespace": "a", "pod": pod, "uid": uid, "node": "n1", **more}
    labels = {name: text for name, text in labels.items() if text}
    return ("kube_pod_info", labels, samples if samples is not None else every_minute("1"))


def request(
    resource: str, value: str, container: str = "app", pod: str = "web-0", **more: Any
) -> Series:
    name = more.pop("name", "kube_pod_container_resource_requests")
    samples = more.pop("samples", None)
    labels = {
        "namespace": "a",
        "pod": pod,
        "uid": "u1",
        "container": container,
        "node": "n1",
        "resource": "" if name.endswith("_cpu_cores") else resource,
        **more,
    }
    labels = {label: text for label, text in labels.items() if text}
    return (name, labels, every_minute(value) if samples is None else samples)


def cpu(value: Samples, container: str = "app", pod: str = "web-0", **more: str) -> Series:
    labels = {"namespace": "a", "pod": pod, "container": container, **more}
    return ("container_cpu_usage_seconds_total", labels, value)


def memory(value: Samples, container: str = "app", pod: str = "web-0", **more: str) -> Series:
    labels = {"namespace": "a", "pod": pod, "container": container, **more}
    return ("container_memory_working_set_bytes", labels, value)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses the client made instead of sleeping."""
    pauses: list[float] = []
    monkeypatch.setattr(client, "HttpClient", partial(HttpClient, sleep=pauses.append))
    return pauses


@pytest.fixture
def collect(monkeypatch: pytest.MonkeyPatch, naps: list[float]) -> Any:
    """`collect(series or store, window)` over HTTP."""

    def collect(
        told: list[Series] | Store,
        window: Window = WINDOW,
        *,
        now: datetime = NOW,
        source: SourceConfig = SOURCE,
    ) -> Collected:
        store = told if isinstance(told, Store) else Store(told)
        with serving(store) as url:
            connect_to(url, monkeypatch)
            return prometheus.collect(CLUSTER, source, window, now=now)

    return collect


def batch(collected: Collected, dataset: str) -> Batch:
    return next(b for b in collected.batches if b.dataset == dataset)


def rows(collected: Collected, dataset: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows as (start minute, end minute, columns…) since the window's start."""
    found = []
    for row in batch(collected, dataset).rows.to_dicts():
        minutes = [(row[side] - START) / timedelta(minutes=1) for side in ("start_at", "end_at")]
        found.append((*minutes, *(row[name] for name in columns)))
    return found


def reasons(collected: Collected, dataset: str) -> str:
    return " | ".join(gap.reason for gap in collected.gaps if gap.dataset == dataset)


# --- pods -----------------------------------------------------------------------------------------


def test_a_pod_is_one_row_with_all_that_is_said_of_it(collect: Any) -> None:
    collected = collect([
        pod_info(created_by_kind="ReplicaSet", created_by_name="web-7c9f4b", host_network="false"),
        request("cpu", "0.25"),
        request("memory", "1.048576e+08"),
        request("cpu", "0.5", name="kube_pod_container_resource_limits"),
        ("kube_pod_container_info", {"namespace": "a", "pod": "web-0", "uid": "u1", "container": "app"}, every_minute("1")),
        ("kube_pod_status_phase", {"namespace": "a", "pod": "web-0", "uid": "u1", "phase": "Running"}, every_minute("1")),
        ("kube_pod_status_phase", {"namespace": "a", "pod": "web-0", "uid": "u1", "phase": "Failed"}, every_minute("0")),
        ("kube_pod_labels", {"namespace": "a", "pod": "web-0", "uid": "u1", "label_team": "x", "label_app": "web"}, every_minute("1")),
        ("kube_replicaset_owner", {"namespace": "a", "replicaset": "web-7c9f4b", "owner_kind": "Deployment", "owner_name": "web"}, every_minute("1")),
    ])  # fmt: skip
    pod = batch(collected, "pod")
    assert pod.rows.to_dicts() == [
        {
            "start_at": WINDOW.start,
            "end_at": WINDOW.end,
            "uid": "u1",
            "namespace": "a",
            "pod": "web-0",
            "node": "n1",
            "phase": "Running",
            "workload_kind": "Deployment",
            "workload_name": "web",
            "cpu_request_cores": "0.25",
            "memory_request_bytes": "104857600",
            "gpu_request": "0",
            "gpu_resource": None,
            "cpu_limit_cores": "0.5",
            "memory_limit_bytes": None,
            "host_network": False,
            "labels": '{"app":"web","team":"x"}',
            "annotations": None,
        }
    ]
    assert pod.covered == ((WINDOW.start, WINDOW.end),)


REQUESTS: dict[str, tuple[list[Series], str]] = {
    "containers add up": ([request("cpu", "0.25"), request("cpu", "0.1", "log")], "0.35"),
    "a larger init container sets the request": (
        [
            request("cpu", "0.25"),
            request("cpu", "2", "init", name="kube_pod_init_container_resource_requests"),
        ],
        "2",
    ),
    "a smaller one does not": (
        [
            request("cpu", "0.25"),
            request("cpu", "0.1", "one", name="kube_pod_init_container_resource_requests"),
            request("cpu", "0.2", "two", name="kube_pod_init_container_resource_requests"),
        ],
        "0.25",
    ),
    "overhead of the runtime class comes on top": (
        [
            request("cpu", "0.25"),
            ("kube_pod_overhead_cpu_cores", {"namespace": "a", "pod": "web-0", "uid": "u1"}, every_minute("0.05")),
        ],
        "0.3",
    ),
    "the scheduler knows best": (
        [
            request("cpu", "0.25"),
            ("kube_pod_resource_request", {"namespace": "a", "pod": "web-0", "node": "n1", "resource": "cpu", "unit": "cores"}, every_minute("0.75")),
        ],
        "0.75",
    ),
    "a pod without requests asks for none while others' are known": (
        [request("cpu", "0.25", pod="other", uid="u2")],
        "0",
    ),
    "memory says nothing of cpu": ([request("memory", "4096")], "0"),
    "the names of version 1": (
        [request("cpu", "0.25", name="kube_pod_container_resource_requests_cpu_cores")],
        "0.25",
    ),
    "version 1 and 2 side by side are one": (
        [
            request("cpu", "0.25"),
            request("cpu", "0.25", name="kube_pod_container_resource_requests_cpu_cores", uid=""),
        ],
        "0.25",
    ),
    "two exporters are one": (
        [request("cpu", "0.25", job="ksm"), request("cpu", "0.25", job="opencost", uid="", node="")],
        "0.25",
    ),
    "two replicas are one, though their clocks differ": (
        [
            request("cpu", "0.25", prometheus_replica="a"),
            request("cpu", "0.25", prometheus_replica="b", samples=every_minute("0.25", shift=17.3)),
        ],
        "0.25",
    ),
    "what Prometheus set aside as exported_… is the truth": (
        [
            (
                "kube_pod_container_resource_requests",
                {"namespace": "monitoring", "pod": "ksm-1", "container": "ksm", "exported_namespace": "a", "exported_pod": "web-0", "exported_container": "app", "uid": "u1", "resource": "cpu"},
                every_minute("0.25"),
            )
        ],
        "0.25",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("told", "cores"), REQUESTS.values(), ids=REQUESTS.keys())
def test_the_effective_request(told: list[Series], cores: str, collect: Any) -> None:
    collected = collect([pod_info(), *told])
    assert rows(collected, "pod", "cpu_request_cores") == [(0, 60, cores)]


def test_requests_that_could_not_be_read_are_null_and_a_gap(collect: Any) -> None:
    def spoil(query: str) -> Reply | None:
        return (
            Reply(400, {"status": "error", "error": "no"}) if "resource_request" in query else None
        )

    for told in (Store([pod_info()]), Store([pod_info(), request("cpu", "1")], spoil=spoil)):
        collected = collect(told)
        assert rows(collected, "pod", "cpu_request_cores", "gpu_request") == [(0, 60, None, None)]
        assert "request" in reasons(collected, "pod")


LIMITS: dict[str, tuple[list[Series], str | None]] = {
    "a pod is limited where all its containers are": (
        [request("cpu", "1", name="kube_pod_container_resource_limits"), request("cpu", "2", "log", name="kube_pod_container_resource_limits")],
        "3",
    ),
    "one unlimited container leaves the pod unlimited": (
        [
            request("cpu", "1", name="kube_pod_container_resource_limits"),
            ("kube_pod_container_info", {"namespace": "a", "pod": "web-0", "uid": "u1", "container": "log"}, every_minute("1")),
        ],
        None,
    ),
    "no limit is no zero": ([request("cpu", "1")], None),
}  # fmt: skip


@pytest.mark.parametrize(("told", "cores"), LIMITS.values(), ids=LIMITS.keys())
def test_the_effective_limit(told: list[Series], cores: str | None, collect: Any) -> None:
    assert rows(collect([pod_info(), *told]), "pod", "cpu_limit_cores") == [(0, 60, cores)]


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("nvidia_com_gpu", "nvidia.com/gpu"),
        ("nvidia.com/gpu", "nvidia.com/gpu"),
        ("nvidia_com_gpu_shared", "nvidia.com/gpu.shared"),
        ("nvidia_com_mig_1g_5gb", "nvidia.com/mig-1g.5gb"),
        ("nvidia_com_mig_1g_5gb_me", "nvidia.com/mig-1g.5gb.me"),
        ("nvidia.com/mig-3g.20gb", "nvidia.com/mig-3g.20gb"),
        ("amd_com_gpu", "amd.com/gpu"),
        ("ephemeral_storage", None),
        ("hugepages_2Mi", None),
    ],
)
def test_gpu_resources_get_their_real_names_back(
    resource: str, name: str | None, collect: Any
) -> None:
    assert resource_name(resource) == name
    collected = collect([pod_info(), request("cpu", "1"), request(resource, "2")])
    wanted = ("2", name) if name else ("0", None)
    assert rows(collected, "pod", "gpu_request", "gpu_resource") == [(0, 60, *wanted)]


def test_a_second_gpu_resource_is_rejected_with_its_name(collect: Any) -> None:
    told = [pod_info(), request("nvidia_com_mig_1g_5gb", "4"), request("nvidia_com_gpu", "1")]
    collected = collect(told)
    assert rows(collected, "pod", "gpu_request", "gpu_resource") == [(0, 60, "1", "nvidia.com/gpu")]
    assert ["nvidia.com/mig-1g.5gb" in r.reason for r in batch(collected, "pod").rejects] == [True]


def test_phases_and_nodes_cut_a_pod_and_nothing_else_does(collect: Any) -> None:
    phase = {"namespace": "a", "pod": "web-0", "uid": "u1"}
    collected = collect([
        pod_info(node="", samples=every_minute("1", 5, 7)),
        pod_info(samples=every_minute("1", 7, 40), pod_ip="10.0.0.7"),
        request("cpu", "1", node="", samples=every_minute("1", 5, 7)),
        request("cpu", "1", samples=every_minute("1", 7, 40)),
        ("kube_pod_status_phase", {**phase, "phase": "Pending"}, [*every_minute("1", 5, 8), *every_minute("0", 8, 40)]),
        ("kube_pod_status_phase", {**phase, "phase": "Running"}, [*every_minute("0", 5, 8), *every_minute("1", 8, 30), *every_minute("0", 30, 40)]),
        ("kube_pod_status_phase", {**phase, "phase": "Succeeded"}, [*every_minute("0", 5, 30), *every_minute("1", 30, 40)]),
    ])  # fmt: skip
    assert rows(collected, "pod", "node", "phase", "cpu_request_cores") == [
        (5, 7, None, "Pending", "1"),
        (7, 8, "n1", "Pending", "1"),
        (8, 30, "n1", "Running", "1"),
        (30, 40, "n1", "Succeeded", "1"),
    ]


def test_pods_of_one_name_are_told_apart_by_uid(collect: Any) -> None:
    recorded = json.loads((DATA / "prometheus" / "constructed-matrices.json").read_text())
    series = [
        (one["metric"].pop("__name__"), one["metric"], [(float(t), v) for t, v in one["values"]])
        for one in recorded["recreated_uid"]["data"]["result"]
    ]
    start = datetime.fromtimestamp(1743292800, UTC)
    collected = collect(series, Window(start, start + HOUR))
    told = batch(collected, "pod").rows.select("uid", "node", "start_at", "end_at").rows()
    minute = timedelta(minutes=1)
    assert told == [
        ("u1", "n1", start, start + 2 * minute),
        ("u2", "n2", start + 2 * minute, start + 4 * minute),
    ]


def test_pods_without_uids_are_told_apart_by_creation_or_first_sight(collect: Any) -> None:
    created = ("kube_pod_created", {"namespace": "a", "pod": "web-0"}, every_minute("1743321600"))
    told = [pod_info(uid=""), pod_info("job", uid="", samples=[*every_minute("1", 5, 10), *every_minute("1", 30, 35)])]  # fmt: skip
    assert rows(collect([*told, created]), "pod", "uid") == [
        (5, 10, "a/job@2025-03-30T10:05:00Z"),
        (30, 35, "a/job@2025-03-30T10:30:00Z"),
        (0, 60, "a/web-0@2025-03-30T08:00:00Z"),
    ]


def test_a_restart_of_the_exporter_neither_cuts_nor_loses_anything(collect: Any) -> None:
    """The new kube-state-metrics has another instance label and overlaps the old one."""
    collected = collect(
        [
            pod_info(samples=every_minute("1", -10, 31), instance="10.0.0.1:8080"),
            pod_info(samples=every_minute("1", 29, 70, shift=20), instance="10.0.0.2:8080"),
        ]
    )
    assert rows(collected, "pod", "uid") == [(0, 60, "u1")]


@pytest.mark.parametrize(
    ("creator", "owner", "wanted"),
    [
        (("ReplicaSet", "web-7c9f4b"), ("Deployment", "web"), ("Deployment", "web")),
        (("ReplicaSet", "web-868bf6f59d"), None, ("Deployment", "web")),
        (("ReplicaSet", "web-2766206515"), None, ("Deployment", "web")),
        (("ReplicaSet", "frontend"), None, ("ReplicaSet", "frontend")),
        (("ReplicaSet", "web-868bf6f59d"), ("<none>", "<none>"), ("ReplicaSet", "web-868bf6f59d")),
        (("ReplicaSet", "canary-1"), ("Rollout", "canary"), ("Rollout", "canary")),
        (("Job", "backup-29707814"), None, ("CronJob", "backup")),
        (("Job", "hello-1509998460"), None, ("CronJob", "hello")),
        (("Job", "migrate"), None, ("Job", "migrate")),
        (("Job", "migrate-20240101"), ("", ""), ("Job", "migrate-20240101")),
        (("StatefulSet", "db"), None, ("StatefulSet", "db")),
        (("<none>", "<none>"), None, (None, None)),
        (("", ""), None, (None, None)),
        (("Node", "n1"), None, ("StaticPod", "etcd")),
    ],
)
def test_workloads_are_named_as_people_name_them(
    creator: tuple[str, str], owner: tuple[str, str] | None, wanted: tuple[str | None, str | None]
) -> None:
    assert workload(*creator, "etcd-n1", "n1", owner) == wanted


# --- usage ----------------------------------------------------------------------------------------


def used(collected: Collected) -> list[tuple[Any, ...]]:
    return rows(collected, "usage", "cpu_used_core_seconds", "memory_used_byte_seconds")


USAGE: dict[str, tuple[list[Series], list[tuple[Any, ...]]]] = {
    "a counter and a gauge of one container are one row an hour": (
        [cpu(counter(30)), memory(every_minute("1000"))],
        [(0, 60, "1800", "3600000")],
    ),
    "only CPU": ([cpu(counter(30))], [(0, 60, "1800", None)]),
    "only memory": ([memory(every_minute("1000"))], [(0, 60, None, "3600000")]),
    "nothing used is a zero, not a null": ([cpu(counter(0))], [(0, 60, "0", None)]),
    "the pod's cgroup and the pause container are not added": (
        [cpu(counter(30)), cpu(counter(31), ""), cpu(counter(1), "POD")],
        [(0, 60, "1800", None)],
    ),
    "per-CPU series beside a total are not added": (
        [cpu(counter(30), cpu="total"), cpu(counter(10), cpu="cpu00"), cpu(counter(20), cpu="cpu01")],
        [(0, 60, "1800", None)],
    ),
    "per-CPU series without a total are": (
        [cpu(counter(10), cpu="cpu00"), cpu(counter(20), cpu="cpu01")],
        [(0, 60, "1800", None)],
    ),
    "labels of cAdvisor before Kubernetes 1.16": (
        [
            ("container_cpu_usage_seconds_total", {"namespace": "a", "pod_name": "web-0", "container_name": "app"}, counter(30)),
            ("container_cpu_usage_seconds_total", {"namespace": "a", "pod_name": "web-0", "container_name": "POD"}, counter(1)),
        ],
        [(0, 60, "1800", None)],
    ),
    "a container that restarted is the sum of both, each for its time": (
        [cpu(counter(30, -10, 20), id="/x/1"), cpu(counter(60, 25, 70), id="/x/2")],
        [(0, 19, "570", None), (25, 60, "2100", None)],
    ),
    "two replicas are one": (
        [
            cpu(counter(30), prometheus_replica="a"),
            cpu(counter(30, shift=13.7), prometheus_replica="b"),
            memory(every_minute("1000"), prometheus_replica="a"),
            memory(every_minute("1000", shift=13.7), prometheus_replica="b"),
        ],
        [(0, 60, "1800", "3600000")],
    ),
    "two jobs that scrape one kubelet are one": (
        [cpu(counter(30), job="kubelet"), cpu(counter(30), job="kubernetes-cadvisor")],
        [(0, 60, "1800", None)],
    ),
    "a reset leaves its time open and is never negative": (
        [cpu([*counter(30, -10, 20), *[(T0 + 60 * m, str(30 * (m - 20))) for m in range(20, 70)]])],
        [(0, 19, "570", None), (20, 60, "1200", None)],
    ),
    "a silence of more than five minutes stays open": (
        [cpu([*counter(30, -10, 11), *counter(30, 15, 21), *counter(30, 26, 70)])],
        [(0, 20, "600", None), (26, 60, "1020", None)],
    ),
    "NaN and infinities are no samples": (
        [memory([(T0, "1000"), (T0 + 60, "NaN"), (T0 + 120, "+Inf"), (T0 + 180, "2000")])],
        [(0, 4, None, str(3 * 60 * 1000 + 60 * 2000))],
    ),
    "exponents are exact": ([memory(every_minute("1.2533760000001e+13"))], [(0, 60, None, str(12533760000001 * 3600))]),
    "memory holds one interval longer than CPU is known": (
        [cpu(counter(30, -10, 31)), memory(every_minute("1000", -10, 31))],
        [(0, 30, "900", "1800000"), (30, 31, None, "60000")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("told", "wanted"), USAGE.values(), ids=USAGE.keys())
def test_usage(told: list[Series], wanted: list[tuple[Any, ...]], collect: Any) -> None:
    assert used(collect(told)) == wanted


def test_usage_is_cut_at_whole_hours_and_adds_up_exactly(collect: Any) -> None:
    """A reading 20 s before each hour: a third of 1 core-second lies before it."""
    readings = [(T0 - 20 + 60 * m, str(m + 10)) for m in range(-10, 130)]
    collected = collect([cpu(readings)], Window(START, START + 2 * HOUR))
    told = used(collected)
    assert [row[:2] for row in told] == [(0, 60), (60, 120)]
    # At both edges the counter stands at n + 1/3; rounded to nine decimals it is the same again.
    assert [row[2] for row in told] == ["60", "60"]
    first, second = (
        collect([cpu(readings)], w) for w in Window(START, START + 2 * HOUR).chunks(HOUR)
    )
    assert [*used(first), *used(second)] == told


def test_a_uid_is_read_from_the_cgroup_only_when_such_a_pod_is_known(collect: Any) -> None:
    uid = "da59f36e-a7a8-46ed-8d9d-36392eb967d4"
    slice_id = f"/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/x"
    for known, wanted in ((uid, uid), ("another", None)):
        told = [pod_info(uid=known), cpu(counter(30), id=slice_id, node="n1")]
        assert rows(collect(told), "usage", "uid", "node") == [(0, 60, wanted, "n1")]


# --- nodes, namespaces, volumes -------------------------------------------------------------------


def test_a_node_is_one_row_with_its_facts(collect: Any) -> None:
    label = {
        "label_topology_kubernetes_io_region": "eu-west-1",
        "label_topology_kubernetes_io_zone": "eu-west-1a",
        "label_node_kubernetes_io_instance_type": "g5.xlarge",
        "label_eks_amazonaws_com_capacity_type": "SPOT",
        "label_nvidia_com_gpu_product": "NVIDIA-A10G",
        "label_team": "ml",
    }
    node = {"node": "n1"}
    told: list[Series] = [
        ("kube_node_info", {**node, "system_uuid": "s-1", "provider_id": "aws:///eu-west-1a/i-1", "os_image": "Bottlerocket"}, every_minute("1", -10, 30)),
        ("kube_node_created", node, every_minute("1743321600")),
        ("kube_node_labels", {**node, **label}, every_minute("1")),
        ("kube_node_status_condition", {**node, "condition": "Ready", "status": "true"}, [*every_minute("1", -10, 10), *every_minute("0", 10, 70)]),
        ("kube_node_status_condition", {**node, "condition": "Ready", "status": "unknown"}, [*every_minute("0", -10, 10), *every_minute("1", 10, 70)]),
        *(
            (f"kube_node_status_{kind}", {**node, "resource": resource}, every_minute(value))
            for kind, resource, value in (
                ("capacity", "cpu", "4"), ("allocatable", "cpu", "3.92"),
                ("capacity", "memory", "1.6e+10"), ("allocatable", "memory", "1.5e+10"),
                ("capacity", "nvidia_com_gpu", "1"), ("allocatable", "nvidia_com_gpu", "1"),
                ("capacity", "pods", "58"),
            )
        ),
    ]  # fmt: skip
    collected = collect(told)
    assert rows(collected, "node", "is_ready") == [(0, 10, True), (10, 30, False)]
    row = batch(collected, "node").rows.to_dicts()[0]
    assert row | {"start_at": None, "end_at": None, "labels": None} == {
        "start_at": None,
        "end_at": None,
        "uid": "s-1",
        "node": "n1",
        "provider_id": "aws:///eu-west-1a/i-1",
        "region": "eu-west-1",
        "zone": "eu-west-1a",
        "instance_type": "g5.xlarge",
        "os": "linux",
        "capacity_type": "spot",
        "cpu_capacity_cores": "4",
        "cpu_allocatable_cores": "3.92",
        "memory_capacity_bytes": "16000000000",
        "memory_allocatable_bytes": "15000000000",
        "gpu_capacity": "1",
        "gpu_allocatable": "1",
        "gpu_resource": "nvidia.com/gpu",
        "gpu_model": "NVIDIA-A10G",
        "is_ready": True,
        "is_virtual": False,
        "created_at": datetime(2025, 3, 30, 8, tzinfo=UTC),
        "labels": None,
    }
    assert json.loads(row["labels"])["team"] == "ml"
    assert json.loads(row["labels"])["eks.amazonaws.com/capacityType"] == "SPOT"


@pytest.mark.parametrize(
    ("info", "uid"),
    [
        ({"system_uuid": "s-1", "provider_id": "gce://p/z/n1"}, "s-1"),
        ({"provider_id": "gce://p/z/n1"}, "gce://p/z/n1"),
        ({}, "n1@2025-03-30T08:00:00Z"),
    ],
)
def test_what_stands_for_a_nodes_uid(info: dict[str, str], uid: str, collect: Any) -> None:
    told: list[Series] = [
        ("kube_node_info", {"node": "n1", **info}, every_minute("1")),
        ("kube_node_created", {"node": "n1"}, every_minute("1743321600")),
    ]
    assert rows(collect(told), "node", "uid", "cpu_capacity_cores", "gpu_capacity") == [
        (0, 60, uid, None, None)
    ]


def test_machines_that_share_a_system_uuid_are_not_one_node(collect: Any) -> None:
    told: list[Series] = [
        (
            "kube_node_info",
            {"node": n, "system_uuid": "s", "provider_id": f"p/{n}"},
            every_minute("1"),
        )
        for n in ("n1", "n2")
    ]
    assert [row[2] for row in rows(collect(told), "node", "uid")] == ["p/n1", "p/n2"]


def test_node_capacity_by_the_names_of_version_1(collect: Any) -> None:
    told: list[Series] = [
        ("kube_node_info", {"node": "n1"}, every_minute("1")),
        ("kube_node_status_capacity_cpu_cores", {"node": "n1"}, every_minute("2")),
        (
            "kube_node_status_allocatable_memory_bytes",
            {"node": "n1"},
            every_minute("2.097229824e+09"),
        ),
    ]
    columns = ("cpu_capacity_cores", "memory_allocatable_bytes", "cpu_allocatable_cores")
    assert rows(collect(told), "node", *columns) == [(0, 60, "2", "2097229824", None)]


def test_a_change_of_exporter_version_neither_doubles_nor_loses(collect: Any) -> None:
    """Version 1 names until minute 30, version 2 names from then on."""
    told: list[Series] = [
        ("kube_node_info", {"node": "n1"}, every_minute("1")),
        ("kube_node_status_capacity_cpu_cores", {"node": "n1"}, every_minute("2", -10, 31)),
        ("kube_node_status_capacity", {"node": "n1", "resource": "cpu"}, every_minute("2", 30, 70)),
    ]
    assert rows(collect(told), "node", "cpu_capacity_cores") == [(0, 60, "2")]


def test_label_keys_come_back_where_their_meaning_matters() -> None:
    assert node_label("node_kubernetes_io_instance_type") == "node.kubernetes.io/instance-type"
    assert node_label("eks_amazonaws_com_capacityType") == "eks.amazonaws.com/capacityType"
    assert node_label("eks_amazonaws_com_capacity_type") == "eks.amazonaws.com/capacityType"
    assert node_label("team_name") == "team_name"


def test_namespaces_and_volumes(collect: Any) -> None:
    claim = {"namespace": "a", "persistentvolumeclaim": "data-db-0"}
    volume = {"persistentvolume": "pv-1"}
    lone = {"namespace": "a", "persistentvolumeclaim": "hidden"}
    waiting = {"namespace": "a", "persistentvolumeclaim": "waiting"}
    collected = collect([
        ("kube_namespace_created", {"namespace": "a"}, every_minute("1743321600")),
        ("kube_namespace_labels", {"namespace": "a", "label_team": "x"}, every_minute("1")),
        ("kube_persistentvolume_capacity_bytes", volume, every_minute("3.221225472e+10")),
        ("kube_persistentvolume_capacity_bytes", {"persistentvolume": "pv-2"}, every_minute("1024", 10, 20)),
        ("kube_persistentvolume_info", {**volume, "storageclass": "gp3"}, every_minute("1")),
        ("kube_persistentvolume_status_phase", {**volume, "phase": "Bound"}, every_minute("1")),
        ("kube_persistentvolume_status_phase", {**volume, "phase": "Failed"}, every_minute("0")),
        ("kube_persistentvolumeclaim_info", {**claim, "volumename": "pv-1", "storageclass": "gp3"}, every_minute("1")),
        ("kube_persistentvolumeclaim_labels", {**claim, "label_app": "db"}, every_minute("1")),
        ("kube_persistentvolumeclaim_resource_requests_storage_bytes", claim, every_minute("8388608")),
        ("kube_persistentvolumeclaim_info", {**lone, "volumename": "pv-9", "storageclass": "gp3"}, every_minute("1")),
        ("kube_persistentvolumeclaim_resource_requests_storage_bytes", lone, every_minute("8388608")),
        ("kube_persistentvolumeclaim_info", {**waiting, "volumename": "", "storageclass": "gp3"}, every_minute("1")),
        ("kube_persistentvolumeclaim_resource_requests_storage_bytes", waiting, every_minute("8388608")),
    ])  # fmt: skip
    assert rows(collected, "namespace", "uid", "labels") == [
        (0, 60, "a@2025-03-30T08:00:00Z", '{"team":"x"}')
    ]
    columns = ("volume", "namespace", "claim", "storage_class", "phase", "capacity_bytes", "labels")
    assert sorted(rows(collected, "volume", *columns), key=str) == sorted(
        [
            (0, 60, "pv-1", "a", "data-db-0", "gp3", "Bound", "32212254720", '{"app":"db"}'),
            (10, 20, "pv-2", None, None, None, None, "1024", None),
            (0, 60, "pv-9", "a", "hidden", "gp3", None, "8388608", None),
            (0, 60, None, "a", "waiting", "gp3", None, None, None),
        ],
        key=str,
    )


# --- doubled series -------------------------------------------------------------------------------


def test_a_doubled_series_is_reported_once_with_who_told_it(collect: Any) -> None:
    told = [pod_info(prometheus_replica=name) for name in ("a", "b")]
    rejects = batch(collect(told), "pod").rejects
    assert [(r.object_name, "another exporter or replica" in r.reason) for r in rejects] == [
        ("pod_info told by prometheus_replica=b", True)
    ]


def test_thanos_replicas_are_deduplicated_as_thanos_does() -> None:
    """thanos-io/thanos#2890."""
    query = Query("any", "pod", "", "gauge", (), ("_id",))
    heard = {}
    for name in ("expected", "expected-dedup"):
        answer = json.loads((DATA / "prometheus" / f"thanos-issue2890-{name}.json").read_text())
        labels, samples = decode_matrix(json.dumps(answer["data"]["result"]).encode())
        heard[name] = hear(query, [(Selector("any"), client.Samples(labels, samples))])
    first, second = (heard[name].samples.drop("series") for name in heard)
    assert first.sort("at").rows() == second.sort("at").rows()
    assert len(first) == 301


@pytest.mark.parametrize("order", range(3))
def test_the_order_of_series_changes_nothing_not_even_the_hash(order: int, collect: Any) -> None:
    told = [
        *(pod_info(f"p{n}", f"u{n}") for n in range(5)),
        *(request("cpu", "0.25", pod=f"p{n}", uid=f"u{n}") for n in range(5)),
        *(pod_info(f"p{n}", f"u{n}", prometheus_replica="b") for n in range(3)),
        *(cpu(counter(n), pod=f"p{n}") for n in range(5)),
    ]
    straight = collect(told)
    shuffled = list(told)
    random.Random(order).shuffle(shuffled)
    again = collect([(n, dict(reversed(list(ls.items()))), s) for n, ls, s in shuffled])
    for dataset in ("pod", "usage"):
        one, other = batch(straight, dataset), batch(again, dataset)
        assert one.payload_sha256 == other.payload_sha256
        assert one.rows.equals(other.rows)
    changed = collect([*told[:-1], cpu(counter(4.5), pod="p4")])
    assert batch(changed, "usage").payload_sha256 != batch(straight, "usage").payload_sha256
    assert batch(changed, "pod").payload_sha256 == batch(straight, "pod").payload_sha256


# --- servers --------------------------------------------------------------------------------------


def recorded_error(name: str) -> Reply:
    error = json.loads((DATA / "prometheus" / "prometheus-api.json").read_text())[name]
    return Reply(error["status"], error.get("body") or error["body_text"].encode())


def spoiling(reply: Reply, part: str = "kube_pod_info") -> Any:
    return lambda query: reply if part in query else None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (recorded_error("400-parse"), "unexpected end of input"),
        (recorded_error("422-many-to-many"), "many-to-many"),
        (recorded_error("403-oauth-proxy"), "cluster-monitoring-view"),
        (Reply(401, b"Unauthorized"), "credentials were refused"),
        (Reply(404, b"404 page not found"), "no Prometheus API below this address"),
        (Reply(200, b"<html>login</html>"), "did not answer"),
        (Reply(200, {"status": "success", "data": {"resultType": "vector", "result": []}}), "expected a matrix"),
        (Reply(200, {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, 2]]}]}}), 'not [time, "value"]'),
        (Reply(200, {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": 7}]}}), 'not [time, "value"]'),
        (Reply(302, b"", {"Location": "http://login.example.com"}), "redirect"),
    ],
)  # fmt: skip
def test_a_refused_query_is_a_gap_that_says_why_and_the_rest_lands(
    reply: Reply, said: str, collect: Any
) -> None:
    collected = collect(Store([pod_info(), cpu(counter(30))], spoil=spoiling(reply)))
    assert said in reasons(collected, "pod")
    assert [gap.window for gap in collected.gaps if gap.dataset == "pod"] == [WINDOW]
    assert {b.dataset for b in collected.batches} == {"usage"}


def test_labels_that_cannot_be_read_leave_the_pods(collect: Any) -> None:
    store = Store([pod_info(), request("cpu", "1")], spoil=spoiling(Reply(401, b"no"), "labels"))
    collected = collect(store)
    assert rows(collected, "pod", "labels", "cpu_request_cores") == [(0, 60, None, "1")]
    assert "pod_labels" in reasons(collected, "pod")


def test_too_many_samples_are_asked_for_in_smaller_ranges(collect: Any) -> None:
    too_many = recorded_error("422-max-samples")

    def spoil(query: str) -> Reply | None:
        asked = int(re.search(r"\[(\d+)", query).group(1))  # type: ignore[union-attr]
        asked *= 60 if query.endswith("m]") else 1
        return too_many if asked > 1200 else None

    told = [pod_info(), request("cpu", "1"), cpu(counter(30)), memory(every_minute("7"))]
    halved = collect(Store(told, spoil=spoil))
    whole = collect(told)
    for one, other in zip(halved.batches, whole.batches, strict=True):
        assert one.rows.equals(other.rows)
        assert one.payload_sha256 == other.payload_sha256
    assert not [gap for gap in halved.gaps if "too many samples" in gap.reason]


def test_a_long_range_that_times_out_is_asked_for_in_halves(collect: Any) -> None:
    """After the first hour a small cluster is asked for many hours at once."""

    def spoil(query: str) -> Reply | None:
        minutes = int(re.search(r"\[(\d+)m", query).group(1))  # type: ignore[union-attr]
        return recorded_error("503-timeout") if minutes > 100 else None

    told = [
        pod_info(samples=every_minute("1", -10, 250)),
        request("cpu", "1", samples=every_minute("1", -10, 250)),
        cpu(counter(30, -10, 250)),
    ]
    collected = collect(Store(told, spoil=spoil), Window(START, START + 4 * HOUR))
    assert rows(collected, "pod", "cpu_request_cores") == [(0, 240, "1")]
    assert [row[2] for row in used(collected)] == ["1800"] * 4
    assert not [gap for gap in collected.gaps if "503" in gap.reason]


def flaky(failures: int, reply: Reply) -> Any:
    left = [failures]

    def spoil(query: str) -> Reply | None:
        if "kube_pod_info" not in query or not left[0]:
            return None
        left[0] -= 1
        return reply

    return spoil


@pytest.mark.parametrize(
    ("reply", "least_pause"),
    [
        (Reply(429, b"slow down", {"Retry-After": "7"}), 7),
        (recorded_error("503-timeout"), 0.5),
        (
            Reply(
                200, {"status": "success", "data": {"resultType": "matrix", "result": []}}, cut=9
            ),
            0.5,
        ),
    ],
)
def test_what_passes_is_asked_again(
    reply: Reply, least_pause: float, collect: Any, naps: list[float]
) -> None:
    collected = collect(Store([pod_info()], spoil=flaky(2, reply)))
    assert rows(collected, "pod", "uid") == [(0, 60, "u1")]
    assert len(naps) == 2 and min(naps) >= least_pause


def test_a_server_that_is_down_is_not_asked_a_hundred_times(collect: Any) -> None:
    store = Store([pod_info()], spoil=lambda query: Reply(503, b"down"))
    collected = collect(store)
    assert collected.batches == []
    assert {gap.dataset for gap in collected.gaps} == {
        "pod",
        "node",
        "namespace",
        "volume",
        "usage",
    }
    assert "stopped answering" in reasons(collected, "usage")
    assert len(store.asked) == 8


def test_an_incomplete_answer_lands_but_covers_nothing(collect: Any) -> None:
    """Thanos answers 200 with warnings when one of its stores is missing."""
    store = Store([pod_info(), request("cpu", "1", pod="other", uid="u2")], warnings=["store sidecar 10.0.0.5: Unavailable"])  # fmt: skip
    collected = collect(store)
    assert rows(collected, "pod", "cpu_request_cores") == [(0, 60, None)]
    assert batch(collected, "pod").covered == ()
    assert "store sidecar 10.0.0.5: Unavailable" in reasons(collected, "pod")


def test_an_empty_family_is_a_gap_and_not_an_empty_batch(collect: Any) -> None:
    collected = collect([cpu(counter(30))])
    assert {b.dataset for b in collected.batches} == {"usage"}
    assert "kube_pod_info has no samples" in reasons(collected, "pod")


def test_closed_and_half_open_ranges_give_the_same(collect: Any) -> None:
    told = [pod_info(), request("cpu", "1"), cpu(counter(30)), memory(every_minute("7"))]
    two, three = collect(Store(told)), collect(Store(told, left_open=True))
    for one, other in zip(two.batches, three.batches, strict=True):
        assert one.rows.equals(other.rows)
        assert one.payload_sha256 == other.payload_sha256


def test_a_window_that_has_not_ended_is_cut_at_now(collect: Any) -> None:
    now = START + timedelta(minutes=30, seconds=30)
    known = [s for s in every_minute("1") if s[0] <= now.timestamp()]
    readings = [s for s in counter(30) if s[0] <= now.timestamp()]
    collected = collect([pod_info(samples=known), cpu(readings)], now=now)
    pod = batch(collected, "pod")
    assert pod.window == Window(START, now)
    assert rows(collected, "pod", "uid") == [(0, 30.5, "u1")]
    assert used(collected) == [(0, 30, "900", None)]
    future = collect([pod_info()], now=START - HOUR)
    assert future.batches == [] and len(future.gaps) == 5


def test_a_text_that_is_no_number_rejects_its_series_alone(collect: Any) -> None:
    told = [pod_info(), request("cpu", "much"), request("cpu", "1", "log")]
    collected = collect(told)
    assert rows(collected, "pod", "cpu_request_cores") == [(0, 60, "1")]
    assert ["'much'" in r.reason for r in batch(collected, "pod").rejects] == [True]


# --- connections ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({"password": "s3cret"}, "Bearer s3cret"),
        ({"extra": {"bearer_token": "s3cret"}}, "Bearer s3cret"),
        ({"login": "me", "password": "s3cret"}, "Basic bWU6czNjcmV0"),
    ],
)
def test_credentials_go_along_and_stay_out_of_messages(
    fields: Mapping[str, Any], header: str, monkeypatch: pytest.MonkeyPatch, naps: list[float]
) -> None:
    store = Store(spoil=lambda query: Reply(401, b"no"))
    with serving(store) as url:
        connect_to(f"{url}/tenant/prometheus", monkeypatch, **fields)
        collected = prometheus.collect(CLUSTER, SOURCE, WINDOW, now=NOW)
    assert {headers["Authorization"] for headers in store.headers} == {header}
    assert set(store.paths) == {"/tenant/prometheus/api/v1/query"}
    assert "s3cret" not in repr(collected.gaps) and header.split()[1] not in repr(collected.gaps)


def test_tenant_headers_go_along(monkeypatch: pytest.MonkeyPatch, naps: list[float]) -> None:
    store = Store([pod_info()])
    with serving(store) as url:
        connect_to(url, monkeypatch, extra={"headers": {"X-Scope-OrgID": "team-a"}})
        prometheus.collect(CLUSTER, SOURCE, WINDOW, now=NOW)
    assert {headers["X-Scope-OrgID"] for headers in store.headers} == {"team-a"}


@pytest.mark.parametrize("off", [False, "false", 0])
def test_certificate_checks_cannot_be_switched_off(
    off: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to("https://prometheus.example.com", monkeypatch, extra={"verify": off})
    with pytest.raises(ConfigError, match="CA file"):
        prometheus.collect(CLUSTER, SOURCE, WINDOW, now=NOW)


def test_queries_can_be_overridden_by_name_only() -> None:
    mine = table({"pod_info": 'kube_pod_info{cluster="a"}'})["pod_info"]
    assert mine.choices == ((Selector('kube_pod_info{cluster="a"}'),),)
    with pytest.raises(ConfigError, match="pod_infos"):
        table({"pod_infos": "x"})


# --- recorded exporters ---------------------------------------------------------------------------

_LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)(?: \d+)?\n?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def exposed(name: str) -> Iterator[tuple[str, Labels, str]]:
    for line in (DATA / "prometheus" / name).read_text().splitlines():
        metric, labels, value = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]
        yield metric, {k: v for k, v in _LABEL.findall(labels or "") if v}, value


def test_a_recorded_cluster_has_its_golden_numbers(collect: Any) -> None:
    golden = json.loads((DATA / "clusters" / "minikube-1.35" / "GOLDEN.json").read_text())
    told = [
        (metric, labels, every_minute(value))
        for metric, labels, value in exposed("minikube-1.35-kube-state-metrics.prom.txt")
    ]
    # kube-state-metrics does not tell pod-level requests; two pods have them. The scheduler does.
    for pod in json.loads((DATA / "clusters" / "minikube-1.35" / "pods.json").read_text())["items"]:
        for resource, quantity in pod["spec"].get("resources", {}).get("requests", {}).items():
            meta = pod["metadata"]
            labels = {"namespace": meta["namespace"], "pod": meta["name"], "resource": resource}
            value = every_minute(plain_quantity(quantity))
            told.append(("kube_pod_resource_request", labels, value))
    pods = batch(collect(told), "pod").rows.to_dicts()
    assert len(pods) == golden["pods"]
    phases = [pod["phase"] for pod in pods]
    assert {phase: phases.count(phase) for phase in set(phases)} == golden["phases"]
    assert [pod["pod"] for pod in pods if pod["node"] is None] == golden["unscheduled"]
    live = [p for p in pods if p["node"] and p["phase"] not in {"Succeeded", "Failed"}]
    for column, wanted in (
        ("cpu_request_cores", "requested_cpu_cores_live"),
        ("memory_request_bytes", "requested_memory_bytes_live"),
    ):
        assert sum(Decimal(pod[column]) for pod in live) == Decimal(golden[wanted])
    (node,) = batch(collect(told), "node").rows.to_dicts()
    assert node["cpu_allocatable_cores"] == golden["node_allocatable"]["cpu"]
    assert node["memory_allocatable_bytes"] == golden["node_allocatable"]["memory"]


def test_a_recorded_version_1_exporter_loads(collect: Any) -> None:
    told = [
        (metric, labels, every_minute(value))
        for metric, labels, value in exposed("ksm-v1.prom.txt")
    ]
    collected = collect(told)
    pods = {row["pod"]: row for row in batch(collected, "pod").rows.to_dicts()}
    wanted: dict[str, Decimal] = dict.fromkeys(pods, Decimal(0))
    for metric, labels, value in exposed("ksm-v1.prom.txt"):
        if metric == "kube_pod_container_resource_requests_cpu_cores":
            wanted[labels["pod"]] += Decimal(value)
    assert {name: Decimal(pod["cpu_request_cores"]) for name, pod in pods.items()} == wanted
    assert any(wanted.values())
    uids = {
        labels["pod"]: labels.get("uid")
        for metric, labels, _ in exposed("ksm-v1.prom.txt")
        if metric == "kube_pod_info"
    }
    for name, pod in pods.items():
        assert pod["uid"] == uids[name] or (
            uids[name] is None and pod["uid"].startswith(f"{pod['namespace']}/{name}@20")
        )
    assert {b.dataset for b in collected.batches} >= {"pod", "node", "namespace"}


def test_recorded_cadvisor_counts_containers_once(collect: Any) -> None:
    golden = json.loads((DATA / "clusters" / "minikube-1.35" / "GOLDEN.json").read_text())
    told = [
        (metric, labels, [(T0, "0"), (T0 + 60, value)])
        for metric, labels, value in exposed("minikube-1.35-cadvisor.prom.txt")
        if metric == "container_cpu_usage_seconds_total"
    ]
    total = sum(
        Decimal(row["cpu_used_core_seconds"])
        for row in batch(collect(told), "usage").rows.to_dicts()
    )
    assert total == Decimal(golden["cadvisor_cpu_seconds"]["sum_containers"])


@pytest.mark.parametrize(
    "name", ["gap_and_step", "two_exporters", "ksm_v1", "ksm_v2", "counter_reset"]
)
def test_constructed_matrices_say_what_they_should(name: str) -> None:
    recorded = json.loads((DATA / "prometheus" / "constructed-matrices.json").read_text())[name]
    matrix = json.dumps(recorded["data"]["result"], indent=1).encode()
    labels, samples = decode_matrix(matrix)
    assert len(labels) == len(recorded["data"]["result"])
    assert samples.height == sum(len(one["values"]) for one in recorded["data"]["result"])
    if name == "gap_and_step":
        query = table()["pod_request"]
        heard = hear(query, [(query.choices[0][0], client.Samples(labels, samples))])
        held = statements(heard, Rhythm.of(900)).sort("start")
        spans = [((end - start) // 60_000, value) for start, end, value in held.select("start", "end", "value").rows()]  # fmt: skip
        assert spans == [(45, 5 * 10**8), (15, 5 * 10**8), (15, 10**9)]
    if name == "two_exporters":
        query = table()["container_request"]
        heard = hear(query, [(query.choices[0][0], client.Samples(labels, samples))])
        assert heard.samples.height == 1 and len(heard.rejects) == 1
