"""The demo's Kubernetes API answers as a real one does, for the present of its clock."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from kubetally.demo.faults import Faults
from kubetally.demo.kube_api import float_text
from kubetally.demo.server import DemoServer

NOW = datetime(2026, 11, 5, 14, 26, 12, tzinfo=UTC)  # a spot node is gone, the next not yet there
DATA = Path(__file__).parents[1] / "data/k8s"
LISTS = {
    "namespaces": "NamespaceList",
    "nodes": "NodeList",
    "pods": "PodList",
    "persistentvolumes": "PersistentVolumeList",
    "persistentvolumeclaims": "PersistentVolumeClaimList",
    "services": "ServiceList",
}


@pytest.fixture(scope="module")
def server() -> Iterator[DemoServer]:
    with DemoServer(clock=lambda: NOW) as running:
        yield running


def get(server: DemoServer, path: str, **parameters: Any) -> requests.Response:
    return requests.get(f"{server.url}{path}", params=parameters, timeout=30)


def items(server: DemoServer, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(server, path).json()["items"]
    return found


# --- lists ------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", LISTS)
def test_lists_are_lists(server: DemoServer, what: str) -> None:
    body = get(server, f"/api/v1/{what}", fieldSelector="metadata.name=ignored").json()
    assert (body["kind"], body["apiVersion"]) == (LISTS[what], "v1")
    assert body["metadata"]["resourceVersion"]
    uids = [item["metadata"]["uid"] for item in body["items"]]
    assert uids and len(set(uids)) == len(uids)


def walk(value: Any, path: str = "") -> Iterator[str]:
    """The paths of keys in an object, lists flattened; maps of free keys are not entered."""
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}"
            yield here
            if key not in FREE:
                yield from walk(inner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner, path)


FREE = {"labels", "annotations", "selector", "nodeSelector", "limits", "requests", "capacity"} | {
    "allocatable",
    "allocatedResources",
}


def recorded(*patterns: str) -> set[str]:
    paths: set[str] = set()
    for pattern in patterns:
        for file in DATA.glob(pattern):
            body = json.loads(file.read_text(encoding="utf-8"))
            found = body.get("items") if isinstance(body, dict) else None
            for item in [body] if found is None else found:
                paths |= set(walk(item))
    return paths


@pytest.mark.parametrize(
    ("what", "patterns"),
    [
        (
            "pods",
            ("pods/*.json", "clusters/minikube-1.35/pods.json", "constructed/pods-awkward.json"),
        ),
        ("nodes", ("nodes/*.json", "clusters/minikube-1.35/nodes.json")),
        ("namespaces", ("namespaces/*.json", "clusters/minikube-1.35/namespaces.json")),
        ("services", ("../demo/services.json",)),
        ("persistentvolumes", ("volumes/*-pv.json", "volumes/*.json")),
        ("persistentvolumeclaims", ("volumes/*pvc*.json",)),
    ],
)
def test_objects_have_no_field_that_recorded_ones_lack(
    server: DemoServer, what: str, patterns: tuple[str, ...]
) -> None:
    known = recorded(*patterns)
    shown = {path for item in items(server, f"/api/v1/{what}") for path in walk(item)}
    assert shown - known <= NEWER


NEWER = {  # fields of today's API that the recorded objects (trimmed, or older) do not show
    ".status.loadBalancer.ingress",
    ".status.loadBalancer.ingress.ip",
    ".spec.csi",
    ".spec.csi.driver",
    ".spec.csi.volumeHandle",
    ".spec.claimRef.apiVersion",
    ".spec.volumeMode",
    ".metadata.finalizers",
    ".spec.runtimeClassName",
    ".metadata.annotations",
    ".spec.taints.value",
    ".spec.overhead",
    ".spec.overhead.cpu",
    ".spec.overhead.memory",
    ".status.containerStatuses.imageID",
    ".status.initContainerStatuses.imageID",
    ".status.initContainerStatuses.resources",
    ".status.initContainerStatuses.resources.limits",
    ".status.initContainerStatuses.resources.requests",
    ".status.initContainerStatuses.allocatedResources",
    ".status.daemonEndpoints",
    ".status.daemonEndpoints.kubeletEndpoint",
    ".status.daemonEndpoints.kubeletEndpoint.Port",
}


def test_pages_add_up_to_the_list_although_the_clock_goes_on() -> None:
    moments = iter(NOW + timedelta(minutes=7) * n for n in range(50))
    with DemoServer(clock=lambda: next(moments)) as server:
        whole = get(server, "/api/v1/pods").json()
    moments = iter([NOW, *(NOW + timedelta(hours=n) for n in range(50))])
    with DemoServer(clock=lambda: next(moments)) as server:
        found: list[dict[str, Any]] = []
        token, left = "", None
        while True:
            body = get(
                server, "/api/v1/pods", limit=20, **({"continue": token} if token else {})
            ).json()
            found += body["items"]
            if left is not None:
                assert left - len(body["items"]) == body["metadata"].get("remainingItemCount", 0)
            left = body["metadata"].get("remainingItemCount")
            token = body["metadata"].get("continue", "")
            if not token:
                break
    assert found == whole["items"]
    keys = [(p["metadata"]["namespace"], p["metadata"]["name"]) for p in found]
    assert keys == sorted(keys)


def test_a_namespaced_list_is_a_part_of_the_whole(server: DemoServer) -> None:
    mine = items(server, "/api/v1/namespaces/payments/pods")
    assert mine == [
        p for p in items(server, "/api/v1/pods") if p["metadata"]["namespace"] == "payments"
    ]
    assert mine


def test_an_expired_continue_token_is_gone_once_and_its_successor_works() -> None:
    with DemoServer(clock=lambda: NOW, faults=Faults(expire_continue=1)) as server:
        first = get(server, "/api/v1/pods", limit=30).json()
        gone = get(server, "/api/v1/pods", limit=30, **{"continue": first["metadata"]["continue"]})
        body = gone.json()
        assert gone.status_code == 410
        assert (body["reason"], body["code"], body["status"]) == ("Expired", 410, "Failure")
        recorded_body = json.loads((DATA / "errors/kubernetes-api.json").read_text())[
            "410-expired-continue"
        ]["body"]
        assert body["message"] == recorded_body["message"]
        again = get(server, "/api/v1/pods", limit=30, **{"continue": body["metadata"]["continue"]})
        assert again.status_code == 200 and again.json()["items"]


def test_a_broken_continue_token_is_a_bad_request(server: DemoServer) -> None:
    got = get(server, "/api/v1/pods", limit=5, **{"continue": "nonsense"})
    assert (got.status_code, got.json()["reason"]) == (400, "BadRequest")


def test_a_token_is_asked_for_where_the_server_has_one() -> None:
    with DemoServer(clock=lambda: NOW, token="sesame") as server:
        refused = get(server, "/api/v1/pods")
        known = json.loads((DATA / "errors/kubernetes-api.json").read_text())["401"]["body"]
        assert (refused.status_code, refused.json()) == (401, known)
        headers = {"Authorization": "Bearer sesame"}
        url = f"{server.url}/api/v1/nodes"
        assert requests.get(url, headers=headers, timeout=30).status_code == 200
        assert get(server, "/api/v1/query", query="up").status_code == 200  # Prometheus is open


# --- what the objects say ---------------------------------------------------------------------


def test_pods_say_what_the_cluster_is_going_through(server: DemoServer) -> None:
    pods = items(server, "/api/v1/pods")
    by_phase: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        by_phase.setdefault(pod["status"]["phase"], []).append(pod)
    assert set(by_phase) == {"Pending", "Running", "Succeeded", "Failed"}
    for pod in by_phase["Pending"]:
        assert "nodeName" not in pod["spec"]  # their node was reclaimed three minutes ago
        (condition,) = pod["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    for pod in by_phase["Succeeded"] + by_phase["Failed"]:
        code = 0 if pod["status"]["phase"] == "Succeeded" else 1
        for shown in pod["status"]["containerStatuses"]:
            assert shown["state"]["terminated"]["exitCode"] == code
            assert shown["state"]["terminated"]["finishedAt"] <= NOW.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_api_and_prometheus_agree_on_pods_nodes_and_requests(server: DemoServer) -> None:
    pods = items(server, "/api/v1/pods")
    answer = get(server, "/api/v1/query", query="kube_pod_info").json()["data"]["result"]
    assert {p["metadata"]["uid"] for p in pods} == {one["metric"]["uid"] for one in answer}
    bound = {p["metadata"]["uid"]: p["spec"].get("nodeName") for p in pods}
    assert bound == {one["metric"]["uid"]: one["metric"].get("node") for one in answer}
    nodes = get(server, "/api/v1/query", query="kube_node_info").json()["data"]["result"]
    assert {
        n["metadata"]["name"]: n["spec"]["providerID"] for n in items(server, "/api/v1/nodes")
    } == {one["metric"]["node"]: one["metric"]["provider_id"] for one in nodes}


def test_nodes_look_like_aks_nodes(server: DemoServer) -> None:
    nodes = items(server, "/api/v1/nodes")
    assert len(nodes) == 9
    for node in nodes:
        labels = node["metadata"]["labels"]
        assert node["spec"]["providerID"].startswith("azure:///subscriptions/")
        assert labels["topology.kubernetes.io/region"] == "eastus"
        assert labels["node.kubernetes.io/instance-type"].startswith("Standard_")
        assert re.fullmatch(r"\d+Ki", node["status"]["capacity"]["memory"])
        assert re.fullmatch(r"\d+m", node["status"]["allocatable"]["cpu"])
        is_spot = "-spot-" in node["metadata"]["name"]
        assert (labels.get("kubernetes.azure.com/scalesetpriority") == "spot") == is_spot
    gpus = [n for n in nodes if "nvidia.com/gpu" in n["status"]["allocatable"]]
    assert len(gpus) == 2


def test_odd_objects_come_along_with_the_others(server: DemoServer) -> None:
    with DemoServer(clock=lambda: NOW, faults=Faults(odd_pod=True)) as odd:
        pods = items(odd, "/api/v1/pods")
    (found,) = (p for p in pods if p["metadata"]["name"] == "odd-one")
    assert found["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1.5 cores"
    assert len(pods) == len(items(server, "/api/v1/pods")) + 1


# --- metrics.k8s.io and the kubelet -----------------------------------------------------------


def test_the_metrics_api_knows_running_pods_only(server: DemoServer) -> None:
    body = get(server, "/apis/metrics.k8s.io/v1beta1/pods").json()
    assert (body["kind"], body["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
    running = {
        p["metadata"]["name"]
        for p in items(server, "/api/v1/pods")
        if p["status"]["phase"] == "Running"
    }
    assert {p["metadata"]["name"] for p in body["items"]} <= running
    usage = [c["usage"] for p in body["items"] for c in p["containers"]]
    assert all(
        re.fullmatch(r"\d+n", u["cpu"]) and re.fullmatch(r"\d+Ki", u["memory"]) for u in usage
    )
    nodes = get(server, "/apis/metrics.k8s.io/v1beta1/nodes").json()
    assert nodes["kind"] == "NodeMetricsList" and len(nodes["items"]) == 9


def test_an_api_group_that_is_not_there_says_so_in_plain_text(server: DemoServer) -> None:
    got = get(server, "/apis/custom.metrics.k8s.io/v1beta1/pods")
    assert (got.status_code, got.text) == (404, "404 page not found\n")


@pytest.fixture(scope="module")
def node(server: DemoServer) -> str:
    return str(items(server, "/api/v1/nodes")[2]["metadata"]["name"])


SAMPLE = re.compile(r"(\w+)(?:\{([^}]*)\})? (\S+) (\d{13})")


@pytest.mark.parametrize("what", ["metrics/cadvisor", "metrics/resource"])
def test_the_kubelet_speaks_prometheus_text_with_a_time_per_sample(
    server: DemoServer, node: str, what: str
) -> None:
    text = get(server, f"/api/v1/nodes/{node}/proxy/{what}").text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    parsed = [SAMPLE.fullmatch(line) for line in lines]
    assert all(parsed) and len(lines) > 30
    stamps = {int(one[4]) for one in parsed if one}
    now = int(NOW.timestamp() * 1000)
    assert len(stamps) > 10 and all(now - 15_000 < stamp < now for stamp in stamps)
    names = [one[1] for one in parsed if one]
    assert names == sorted(names), "a metric's samples stand together"
    for name in set(names):
        assert f"# TYPE {name} " in text


def test_the_kubelet_uses_the_families_of_the_recorded_one(server: DemoServer, node: str) -> None:
    real = (DATA / "../demo/cadvisor.prom.txt").read_text(encoding="utf-8")
    ours = get(server, f"/api/v1/nodes/{node}/proxy/metrics/cadvisor").text
    heads = {line for line in ours.splitlines() if line.startswith("# TYPE")}
    assert heads <= set(real.splitlines())


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("0", "0"),
        ("62.148052", "62.148052"),
        ("200000", "200000"),
        ("917110784", "9.17110784e+08"),
        ("1000000", "1e+06"),
        ("1782468720", "1.78246872e+09"),
        ("147739824.28", "1.4773982428e+08"),
    ],
)
def test_numbers_are_printed_as_go_prints_them(value: str, printed: str) -> None:
    assert float_text(value) == printed


def test_the_summary_has_nodes_pods_and_containers(server: DemoServer, node: str) -> None:
    body = get(server, f"/api/v1/nodes/{node}/proxy/stats/summary").json()
    assert body["node"]["nodeName"] == node
    assert len(body["pods"]) > 5
    real = json.loads((DATA / "../demo/stats-summary.json").read_text(encoding="utf-8"))
    assert set(walk(body["pods"])) <= set(walk(real["pods"]))
    assert set(walk(body["node"])) <= set(walk(real["node"]))


def test_one_unreachable_node_does_not_take_the_others_along(node: str) -> None:
    with DemoServer(clock=lambda: NOW, faults=Faults(broken_node=node)) as server:
        answers = {
            name: get(server, f"/api/v1/nodes/{name}/proxy/stats/summary").status_code
            for name in (n["metadata"]["name"] for n in items(server, "/api/v1/nodes"))
        }
    assert answers.pop(node) == 503
    assert set(answers.values()) == {200}


def test_an_unknown_node_is_not_found(server: DemoServer) -> None:
    got = get(server, "/api/v1/nodes/nobody/proxy/stats/summary")
    assert (got.status_code, got.json()["reason"]) == (404, "NotFound")
