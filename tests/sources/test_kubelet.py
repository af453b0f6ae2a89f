"""Kubelets and exporters: what counts as a container, whose network it is, and what one failure costs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.errors import BadDataError, SourceError
from kubetally.http import Answer
from kubetally.sources import kubelet
from kubetally.sources.exposition import parse
from kubetally.sources.kubelet.cgroups import seat_of
from kubetally.sources.kubelet.collect import read_nodes
from kubetally.sources.kubelet.readings import (
    Row,
    cadvisor_readings,
    gpu_readings,
    stated,
    summary_readings,
    syscall_readings,
    with_syscalls,
)
from kubetally.sources.kubernetes.objects import Page, decode_page
from kubetally.sources.kubernetes.pages import NODES, PODS, Resource
from kubetally.sources.rows import SCHEMAS, Batch, Reject, frame
from kubetally.windows import Window
from oracles.by_hand import cases

DATA = Path(__file__).parents[1] / "data" / "k8s"
MINIKUBE = DATA / "clusters" / "minikube-1.35"
GOLDEN = json.loads((MINIKUBE / "GOLDEN.json").read_text())
CELL = Window(datetime(2026, 11, 3, 10, 0, tzinfo=UTC), datetime(2026, 11, 3, 10, 5, tzinfo=UTC))
NOW = CELL.start + timedelta(seconds=30)
UID = "3ea3ef66-5f89-43b7-b88b-6ee26f5b18a4"


def of_cadvisor(text: str | bytes) -> list[Row]:
    rejects: list[Reject] = []
    found = cadvisor_readings(
        text if isinstance(text, bytes) else text.encode(), "n1", NOW, rejects
    )
    assert rejects == []
    return found


def cadvisor_line(name: str, value: object, **labels: str) -> str:
    told = {"namespace": "shop", "pod": "web-0", "id": f"/kubepods/pod{UID}/aaaa"} | labels
    labels_text = ",".join(f'{key}="{text}"' for key, text in told.items())
    return f"{name}{{{labels_text}}} {value}\n"


CPU = "container_cpu_usage_seconds_total"


# --- the text formats


def test_a_line_that_is_none_is_a_reject_and_the_others_count() -> None:
    rejects: list[Reject] = []
    text = b'a{x="1"} 1\na{x="1} 2\na 3 4 5 6\nb 7\na{x="q\\"\\\\\\n"} 1e3 1000\na NaN\nGarbage!\n'
    found = list(parse(text, {"a"}, "container_stats", rejects))
    assert [(each.labels, each.value) for each in found] == [
        ({"x": "1"}, Decimal(1)),
        ({"x": 'q"\\\n'}, Decimal(1000)),
    ]
    assert found[1].sampled_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert len(rejects) == 3


def test_openmetrics_tells_times_in_seconds() -> None:
    found = list(parse(b"a 1 1000.5\n# EOF\n", {"a"}, "container_stats", []))
    assert found[0].sampled_at == datetime(1970, 1, 1, 0, 16, 40, 500000, tzinfo=UTC)


@pytest.mark.parametrize(
    "path",
    sorted(
        path
        for name in ("openmetrics", "cadvisor", "gpu", "ebpf")
        for path in (DATA / name).iterdir()
    ),
    ids=lambda path: path.name,
)
def test_every_recorded_text_is_read(path: Path) -> None:
    rejects: list[Reject] = []
    body = path.read_bytes()
    for readings in (cadvisor_readings, gpu_readings, syscall_readings):
        frame("container_stats", stated(readings(body, "n1", NOW, rejects), CELL))
    assert all(reject.reason for reject in rejects)


class Everything:
    """Every name."""

    def __contains__(self, name: object) -> bool:
        return True


@pytest.mark.parametrize(
    "path",
    [
        *sorted((DATA / "ksm").iterdir()),
        *sorted((DATA / "cadvisor").iterdir()),
        MINIKUBE / "kube-state-metrics.prom.txt",
        MINIKUBE / "cadvisor.prom.txt",
    ],
    ids=lambda path: path.name,
)
def test_no_line_of_a_recorded_exporter_is_refused(path: Path) -> None:
    rejects: list[Reject] = []
    names: Any = Everything()
    body = path.read_bytes()
    found = list(parse(body, names, "container_stats", rejects))
    assert rejects == []
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith(b"#")]
    numbers = [line for line in lines if not line.split()[-1].lower().endswith((b"nan", b"inf"))]
    assert len(found) == len(numbers)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_junk_never_stops_a_reading(junk: bytes) -> None:
    for readings in (cadvisor_readings, gpu_readings, syscall_readings):
        readings(junk + b'\ncontainer_memory_rss{pod="p"} ' + junk, "n1", NOW, [])
    with contextlib.suppress(BadDataError):
        summary_readings(junk, "n1", NOW, [])


# --- cAdvisor


def test_containers_add_up_to_what_they_used_and_nothing_twice() -> None:
    rows = of_cadvisor((MINIKUBE / "cadvisor.prom.txt").read_bytes())
    used = sum(row.get("cpu_seconds_total", Decimal(0)) for row in rows)
    assert used == Decimal(GOLDEN["cadvisor_cpu_seconds"]["sum_containers"])


def test_network_stands_once_per_pod() -> None:
    rows = of_cadvisor((MINIKUBE / "cadvisor.prom.txt").read_bytes())
    golden = GOLDEN["network_eth0_receive_bytes"]
    received = {r["pod"]: r["network_receive_bytes_total"] for r in rows if r["container"] == ""}
    own = {pod: total for pod, total in received.items() if pod not in golden["host_network_pods"]}
    assert own == golden["attributable_pods"]
    assert sum(own.values()) == golden["sum_attributable"]
    assert len(rows) == len({(row["pod"], row["container"]) for row in rows})


def test_samples_carry_their_own_times() -> None:
    rows = of_cadvisor((MINIKUBE / "cadvisor.prom.txt").read_bytes())
    assert max(row["sampled_at"] for row in rows) - min(
        row["sampled_at"] for row in rows
    ) > timedelta(seconds=5)


@pytest.mark.claims("C15")
def test_the_pod_s_cgroup_and_the_pause_container_are_no_containers() -> None:
    case = cases()["C15"]
    lines = [
        cadvisor_line(CPU, value, container=level.split('"')[1])
        for level, value in case["input"].items()
    ]
    rows = of_cadvisor("".join(lines))
    used = sum(row["cpu_seconds_total"] for row in rows)
    assert used == Decimal(str(case["right"]["containers_cpu_s"]))


@pytest.mark.claims("C16")
@pytest.mark.parametrize("total", ["", "0.618"])
def test_cores_are_added_and_never_to_their_total(total: str) -> None:
    case = cases()["C16"]
    lines = [
        cadvisor_line(CPU, value, container="app", cpu=cpu)
        for cpu, value in case["input"].items()
        if value is not None
    ]
    if total:
        lines.append(cadvisor_line(CPU, total, container="app", cpu="total"))
    (row,) = of_cadvisor("".join(lines))
    assert row["cpu_seconds_total"] == Decimal(str(case["right"]["cpu_s"]))


@pytest.mark.claims("C18")
def test_of_a_restarted_container_only_the_living_one_counts() -> None:
    case = cases()["C18"]
    lines = []
    for each in case["input"]["working_set"]:
        where = {"container": "app", "id": f"/kubepods/pod{UID}/{each['id'].strip('./')}"}
        lines.append(cadvisor_line("container_memory_working_set_bytes", each["v"], **where))
        lines.append(cadvisor_line("container_start_time_seconds", each["start"], **where))
    (row,) = of_cadvisor("".join(lines))
    assert row["memory_working_set_bytes"] == case["right"]["memory_bytes"]


@pytest.mark.parametrize("limit", ["0", "9.223372036854772e+18", "1.8446744073709552e+19"])
def test_the_kernel_s_no_limit_is_no_limit(limit: str) -> None:
    (row,) = of_cadvisor(cadvisor_line("container_spec_memory_limit_bytes", limit, container="app"))
    assert row["memory_limit_bytes"] is None


def test_labels_from_before_kubernetes_1_16() -> None:
    rows = of_cadvisor((DATA / "cadvisor" / "gke-pre-1.16.prom.txt").read_bytes())
    assert {row["container"] for row in rows} > {""}
    assert all(row["namespace"] and row["pod"] for row in rows)


def test_all_interfaces_of_a_pod_but_the_loopback() -> None:
    name = "container_network_receive_bytes_total"
    lines = [
        cadvisor_line(name, value, container="POD", interface=interface)
        for interface, value in (("eth0", 10), ("net1", 5), ("lo", 1000))
    ]
    (row,) = of_cadvisor("".join(lines))
    assert row["network_receive_bytes_total"] == 15


def test_a_value_below_zero_rejects_itself_alone() -> None:
    rejects: list[Reject] = []
    text = cadvisor_line(CPU, -513, container="app") + cadvisor_line(CPU, 4, container="proxy")
    rows = cadvisor_readings(text.encode(), "n1", NOW, rejects)
    assert [row["container"] for row in rows] == ["proxy"]
    assert [reject.object_name for reject in rejects] == ["shop/web-0"]


@pytest.mark.parametrize(
    "case",
    json.loads((DATA / "resource" / "metrics-resource-cases.json").read_text()),
    ids=lambda case: str(case["case"]),
)
def test_every_recorded_resource_endpoint_is_read(case: dict[str, Any]) -> None:
    rejects: list[Reject] = []
    rows = cadvisor_readings(case["text"].encode(), "n1", NOW, rejects)
    assert all(row["container"] for row in rows)
    assert all("below zero" in reject.reason for reject in rejects)


# --- summaries


@pytest.mark.parametrize(
    "path",
    [*sorted((DATA / "summary").iterdir()), MINIKUBE / "stats-summary.json"],
    ids=lambda path: path.name,
)
def test_every_recorded_summary_is_read(path: Path) -> None:
    rejects: list[Reject] = []
    rows = summary_readings(path.read_bytes(), None, NOW, rejects)
    assert rows and rejects == []
    assert frame("container_stats", stated(rows, CELL)).height == len(rows)


@pytest.mark.claims("C07")
def test_a_container_listed_twice_is_the_one_that_began_last() -> None:
    case = cases()["C07"]
    for listed in (case["input"]["containers"], case["input"]["containers"][::-1]):
        containers = [
            {
                "name": each["name"],
                "startTime": each["startTime"],
                "cpu": {"usageCoreNanoSeconds": each["usageCoreNanoSeconds"]},
            }
            for each in listed
        ]
        pod = {"podRef": {"name": "p", "namespace": "n", "uid": "u"}, "containers": containers}
        (row,) = summary_readings(json.dumps({"pods": [pod]}).encode(), "n1", NOW, [])
        assert row["cpu_seconds_total"] == Decimal(case["right"]["cpu_seconds"])


def test_two_summaries_of_a_node_tell_what_its_containers_used() -> None:
    first, second = (
        {
            (row["uid"], row["container"]): row
            for row in summary_readings(
                (DATA / "summary" / f"aks-summary-{number}.json").read_bytes(), None, NOW, []
            )
            if row.get("cpu_seconds_total") is not None
        }
        for number in (1, 2)
    )
    assert first.keys() == second.keys()
    for key, row in first.items():
        assert second[key]["cpu_seconds_total"] >= row["cpu_seconds_total"]
        assert second[key]["started_at"] == row["started_at"]


# --- cgroups, syscalls, GPUs


@pytest.mark.parametrize(
    ("path", "uid", "container"),
    [
        (f"/kubepods/burstable/pod{UID}/ff10", UID, "ff10"),
        (f"/kubepods/pod{UID}", UID, None),
        (
            "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
            f"{UID.replace('-', '_')}.slice/cri-containerd-ff102f3a.scope",
            UID,
            "ff102f3a",
        ),
        (
            f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-ff102f3a.scope",
            UID,
            "ff102f3a",
        ),
        (f"/kubelet.slice/kubelet-kubepods.slice/pod{UID}/docker-ff10.scope", UID, "ff10"),
        (
            "/kubepods/besteffort/pod44ebdf29b7dbb0ed4ba5d9c5a9f4b1b5/ab12",
            "44ebdf29b7dbb0ed4ba5d9c5a9f4b1b5",
            "ab12",
        ),
    ],
)
def test_a_cgroup_path_names_pod_and_container(path: str, uid: str, container: str | None) -> None:
    assert seat_of(path) == (uid, container)


@pytest.mark.parametrize(
    "path", ["/", "/kubepods", "/system.slice/containerd.service", "unknown_cgroup_id:8123", ""]
)
def test_other_cgroups_are_nobody_s(path: str) -> None:
    assert seat_of(path) is None


def test_syscalls_go_to_the_container_of_their_cgroup() -> None:
    body = (DATA / "ebpf" / "syscalls-per-cgroup.prom.txt").read_bytes()
    syscalls = syscall_readings(body, "n1", NOW, [])
    assert len(syscalls) == 2  # not the system's services, not the id without a path
    readings = [{"container_id": syscalls[0]["container_id"]}, {"container_id": "else"}, {}]
    found = with_syscalls(readings, syscalls)
    assert [row.get("syscalls_total") for row in found] == [
        {"read": 1200, "write": 300},
        None,
        None,
    ]


def test_syscalls_of_the_whole_node_belong_to_no_container() -> None:
    body = (DATA / "ebpf" / "syscalls.prom.txt").read_bytes()
    assert syscall_readings(body, "n1", NOW, []) == []


def test_mig_slices_of_one_gpu_are_devices_of_their_own() -> None:
    rejects: list[Reject] = []
    body = (DATA / "gpu" / "dcgm-mig-samples.prom.txt").read_bytes()
    rows = gpu_readings(body, "n1", NOW, rejects)
    slices = [row for row in rows if row["gpu_profile"]]
    assert {row["gpu_profile"] for row in slices} >= {"1g.5gb", "2g.10gb"}
    assert len({row["device"] for row in slices}) == len(
        {(row["device"].split("/")[0], row["device"].split("/")[1]) for row in slices}
    )
    assert all("/" in row["device"] for row in slices)
    assert rejects  # the prose between the samples is counted, not swallowed


def test_a_card_s_energy_is_not_repeated_by_its_slices() -> None:
    name = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    text = f'{name}{{UUID="G",GPU_I_ID="7"}} 5000\n{name}{{UUID="G"}} 5000\n'
    rows = gpu_readings(text.encode(), "n1", NOW, [])
    assert [row.get("gpu_energy_joules_total") for row in rows] == [None, 5]


# --- over the API server's proxy


class Api:
    """Answers GETs from a table of path → body, status or exception."""

    def __init__(self, answers: Mapping[str, bytes | int | Exception]) -> None:
        self.answers = answers

    def get(self, path: str, params: Mapping[str, str]) -> Answer:
        found = self.answers.get(path, 404)
        if isinstance(found, Exception):
            raise found
        if isinstance(found, int):
            return Answer(found, b"no", {})
        return Answer(200, found, {})


def read(api: Api, *nodes: str, pods: Iterable[dict[str, Any]] = (), **labels: str) -> Batch:
    listed = {
        NODES: [{"metadata": {"name": node, "labels": labels}} for node in nodes],
        PODS: list(pods),
    }

    def pages(resource: Resource) -> Iterable[Page]:
        return [decode_page(json.dumps({"kind": "List", "items": listed[resource]}).encode())]

    return read_nodes(api.get, pages, CELL, now=NOW)


def proxied(node: str, endpoint: str = "metrics/cadvisor") -> str:
    return f"/api/v1/nodes/{node}/proxy/{endpoint}"


WEB = cadvisor_line(CPU, 4, container="web").encode()


def test_one_unreachable_node_costs_only_itself() -> None:
    batch = read(
        Api({proxied("a"): WEB, proxied("b"): 503, proxied("c"): SourceError("gone")}),
        "a",
        "b",
        "c",
    )
    assert batch.rows["node"].to_list() == ["a"]
    assert dict(batch.rows.schema) == SCHEMAS["container_stats"]
    assert [reject.object_name for reject in batch.rejects] == ["b", "c"]
    assert "503" in batch.rejects[0].reason
    assert batch.covered == ((CELL.start, CELL.end),)


def test_no_node_at_all_is_a_gap() -> None:
    with pytest.raises(SourceError, match="No kubelet could be read"):
        read(Api({}), "a", "b")


def test_a_refusal_names_the_right_that_is_missing() -> None:
    with pytest.raises(SourceError, match="nodes/proxy"):
        read(Api({proxied("a"): 403, proxied("a", "stats/summary"): 403}), "a")


def test_a_kubelet_without_containers_in_cadvisor_is_asked_for_its_summary() -> None:
    summary = (DATA / "summary" / "windows-summary.json").read_bytes()
    batch = read(Api({proxied("w"): b"", proxied("w", "stats/summary"): summary}), "w")
    assert batch.rows.height > 0
    assert batch.rejects == ()


def test_virtual_nodes_have_no_kubelet_to_ask() -> None:
    api = Api({})
    assert read(api, "v", type="virtual-kubelet").rows.height == 0


def test_exporters_are_read_pod_by_pod() -> None:
    pods = [
        {
            "metadata": {"name": name, "namespace": "gpu", "labels": {"app": app}},
            "spec": {"nodeName": "a"},
            "status": {"phase": "Running"},
        }
        for name, app in (("dcgm-x", "nvidia-dcgm-exporter"), ("ebpf-x", "ebpf-exporter"))
    ]
    proxy = "/api/v1/namespaces/gpu/pods"
    cgroup = f"/sys/fs/cgroup/kubepods/pod{UID}/aaaa"
    api = Api(
        {
            proxied("a"): WEB,
            f"{proxy}/dcgm-x:9400/proxy/metrics": b'DCGM_FI_DEV_GPU_UTIL{UUID="G",pod="web-0",namespace="shop"} 50\n',
            f"{proxy}/ebpf-x:9435/proxy/metrics": (
                f'ebpf_exporter_syscalls_total{{cgroup="{cgroup}",syscall="read"}} 3\n'.encode()
            ),
        }
    )
    rows = read(api, "a", pods=pods).rows
    assert rows.filter(rows["device"].is_null())["syscalls_total"].to_list() == ['{"read":"3"}']
    assert rows.filter(rows["device"] == "G")["gpu_utilisation_percent"].to_list() == ["50"]


def test_the_present_is_never_told_of_the_past() -> None:
    cluster = ClusterConfig("c", (SourceConfig("kubelet", "unused"),))
    found = kubelet.collect(cluster, cluster.sources[0], CELL, now=NOW + timedelta(days=1))
    assert [gap.dataset for gap in found.gaps] == ["container_stats"]
    assert "present only" in found.gaps[0].reason


def test_the_node_s_interface_is_read_of_no_container() -> None:
    """Readings keep what a hostNetwork pod shows; the hour drops it, knowing who is on the host."""
    case = cases()["C17"]["input"]
    name = "container_network_receive_bytes_total"
    lines = [f'{name}{{id="/",interface="eth0"}} {case["node eth0 rx"]}\n']
    lines += [
        cadvisor_line(
            name, case[key], pod=pod, id=f"/kubepods/pod{UID[:-1]}{n}/aa", interface="eth0"
        )
        for n, (key, pod) in enumerate(
            (
                ("hostNetwork pod A eth0 rx", "A"),
                ("hostNetwork pod B eth0 rx", "B"),
                ("pod C eth0 rx", "C"),
            )
        )
    ]
    received = {
        row["pod"]: row["network_receive_bytes_total"] for row in of_cadvisor("".join(lines))
    }
    assert received == {"A": 1000, "B": 1000, "C": 200}
