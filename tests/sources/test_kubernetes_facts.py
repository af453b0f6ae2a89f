"""What nodes, pods, volumes and usage readings state over one polling cell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubetally.errors import BadDataError
from kubetally.sources.kubernetes import facts
from kubetally.sources.kubernetes.objects import (
    Claim,
    ContainerMetrics,
    Metadata,
    Node,
    Pod,
    Volume,
)
from kubetally.windows import Window
from oracles.by_hand import cases

DATA = Path(__file__).parents[1] / "data" / "k8s"
DAY = datetime(2025, 3, 30, tzinfo=UTC)


def at(clock: str) -> datetime:
    hours, minutes = clock.split(":")
    return DAY + timedelta(hours=int(hours), minutes=int(minutes))


def cell(start: str, end: str) -> Window:
    return Window(at(start), at(end))


def pod(
    *,
    phase: str = "Running",
    node: str | None = "n1",
    scheduled: str | None = "00:00",
    finished: str | None = None,
    evicted: str | None = None,
    cpu: str = "1",
    **metadata: Any,
) -> Pod:
    conditions = []
    if scheduled:
        conditions.append(
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(scheduled)}
        )
    if evicted:
        conditions.append(
            {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at(evicted)}
        )
    terminated = {"terminated": {"finishedAt": at(finished)}} if finished else None
    return msgspec.convert(
        {
            "metadata": {"name": "web-1", "namespace": "team-a", "uid": "u1", **metadata},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            },
            "status": {
                "phase": phase,
                "conditions": conditions,
                "containerStatuses": [{"name": "c", "state": terminated}] if terminated else None,
            },
        },
        Pod,
    )


def held_core_seconds(rows: list[facts.Row]) -> Decimal:
    """Requests integrated over the statements that hold: a node, and a phase that is not terminal."""
    total = Decimal(0)
    for row in rows:
        start, end = row["start_at"], row["end_at"]
        assert isinstance(start, datetime) and isinstance(end, datetime)
        if row["node"] and row["phase"] not in facts.TERMINAL_PHASES:
            seconds = int((end - start).total_seconds())
            total += Decimal(str(row["cpu_request_cores"])) * seconds
    return total


def spans(rows: list[facts.Row]) -> list[tuple[object, object, object]]:
    return [(row["phase"], row["start_at"], row["end_at"]) for row in rows]


@pytest.mark.parametrize(
    ("why", "found", "expected"),
    [
        ("a running pod holds the whole cell", pod(), [("Running", "10:00", "10:05")]),
        (
            "it holds from its binding",
            pod(scheduled="10:02"),
            [("Running", "10:02", "10:05")],
        ),
        ("one bound after the cell is not in it", pod(scheduled="10:05"), []),
        (
            "one that ended inside holds until its last finish",
            pod(phase="Succeeded", finished="10:03"),
            [("Running", "10:00", "10:03"), ("Succeeded", "10:03", "10:05")],
        ),
        (
            "one that began and ended inside",
            pod(phase="Failed", scheduled="10:01", finished="10:03"),
            [("Running", "10:01", "10:03"), ("Failed", "10:03", "10:05")],
        ),
        (
            "one seen ended just after the cell held all of it",
            pod(phase="Succeeded", finished="10:06"),
            [("Running", "10:00", "10:05")],
        ),
        (
            "one that ended before holds nothing",
            pod(phase="Succeeded", finished="09:59"),
            [("Succeeded", "10:00", "10:05")],
        ),
        (
            "without a trace of its end it was not seen alive",
            pod(phase="Failed"),
            [("Failed", "10:00", "10:05")],
        ),
        (
            "an evicted pod holds until its eviction",
            pod(phase="Failed", evicted="10:04"),
            [("Running", "10:00", "10:04"), ("Failed", "10:04", "10:05")],
        ),
        (
            "an unscheduled pod is stated from its creation and has no node",
            pod(phase="Pending", node=None, scheduled=None, creationTimestamp=at("10:01")),
            [("Pending", "10:01", "10:05")],
        ),
        (
            "a bound pod that still pulls its image holds",
            pod(phase="Pending", scheduled="10:01"),
            [("Pending", "10:01", "10:05")],
        ),
    ],
)
def test_life_of_a_pod(why: str, found: Pod, expected: list[tuple[str, str, str]]) -> None:
    rows = facts.pod_rows(found, cell("10:00", "10:05")).rows
    assert spans(rows) == [(phase, at(start), at(end)) for phase, start, end in expected], why


@pytest.mark.claims("AL-22")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str) -> None:
    case = cases()["AL-22"]
    assert case["given"]["requests"] == "4 cores" and case["expect"] == "0 cores"
    rows = facts.pod_rows(pod(phase=phase, cpu="4", finished="09:00"), cell("10:00", "11:00")).rows
    assert [row["cpu_request_cores"] for row in rows] == ["4"]
    assert held_core_seconds(rows) == 0


@pytest.mark.claims("C08")
def test_completed_jobs_are_not_in_the_request_sum() -> None:
    given = cases()["C08"]["input"]
    pods = [pod(cpu=given["running_requests_cores"])]
    done = [pod(phase="Succeeded", cpu=given["request_each"], finished="09:00")]
    pods += done * given["completed_pods"]
    an_hour = cell("10:00", "11:00")
    held = sum(held_core_seconds(facts.pod_rows(each, an_hour).rows) for each in pods)
    assert held / 3600 == Decimal(cases()["C08"]["right"]["requested_cores"])


@pytest.mark.claims("C09")
def test_leaked_succeeded_pods_are_not_in_the_request_sum_of_a_node() -> None:
    given = cases()["C09"]["input"]
    leaked = pod(phase="Succeeded", cpu="1", finished="09:00")
    pods = [pod(cpu=f"{given['live_requests_m']}m"), *[leaked] * given["succeeded_pods"]]
    an_hour = cell("10:00", "11:00")
    held = sum(held_core_seconds(facts.pod_rows(each, an_hour).rows) for each in pods)
    assert held / 3600 == Decimal(cases()["C09"]["right"]["node_requested_cores"])


@pytest.mark.claims("C10")
def test_an_evicted_pod_is_charged_until_its_eviction() -> None:
    given = cases()["C10"]["input"]
    evicted = pod(
        phase="Failed",
        cpu=str(given["request_cpu"]),
        scheduled=given["bound"],
        evicted=given["evicted"],
    )
    rows = facts.pod_rows(evicted, cell(*given["window"])).rows
    core_hours = held_core_seconds(rows) / 3600
    assert round(core_hours, 4) == Decimal(cases()["C10"]["right"]["cpu_core_hours"])


@pytest.mark.parametrize(
    ("owner", "labels", "expected"),
    [
        (("ReplicaSet", "web-5d8f9"), {"pod-template-hash": "5d8f9"}, ("Deployment", "web")),
        (
            ("ReplicaSet", "ksm-57f4659995"),
            {"pod-template-hash": "1390215551"},
            ("Deployment", "ksm"),
        ),
        (("ReplicaSet", "web-5d8f9"), {"rollouts-pod-template-hash": "5d8f9"}, ("Rollout", "web")),
        (("ReplicaSet", "alone"), {}, ("ReplicaSet", "alone")),
        (("Job", "nightly-29707813"), {}, ("CronJob", "nightly")),
        (("Job", "nightly-1690000000"), {}, ("CronJob", "nightly")),
        (("Job", "migrate-7"), {}, ("Job", "migrate-7")),
        (("StatefulSet", "db"), {}, ("StatefulSet", "db")),
        (("DaemonSet", "agent"), {}, ("DaemonSet", "agent")),
        (("Node", "n1"), {}, ("StaticPod", "kube-proxy")),
        (None, {}, (None, None)),
    ],
)
def test_workload_of_a_pod(
    owner: tuple[str, str] | None, labels: dict[str, str], expected: tuple[str | None, str | None]
) -> None:
    metadata = msgspec.convert(
        {
            "name": "kube-proxy-n1",
            "labels": labels,
            "ownerReferences": [{"kind": owner[0], "name": owner[1]}] if owner else None,
        },
        Metadata,
    )
    assert facts.workload_of(metadata, "n1") == expected


def test_the_controlling_owner_counts_not_the_first() -> None:
    metadata = msgspec.convert(
        {
            "ownerReferences": [
                {"kind": "Something", "name": "x"},
                {"kind": "StatefulSet", "name": "db", "controller": True},
            ]
        },
        Metadata,
    )
    assert facts.workload_of(metadata, None) == ("StatefulSet", "db")


def test_identity_is_the_uid_and_a_pod_without_one_gets_a_stable_one() -> None:
    a_cell = cell("10:00", "10:05")
    assert facts.pod_rows(pod(), a_cell).rows[0]["uid"] == "u1"
    no_uid = pod(uid=None, creationTimestamp=at("09:00"))
    assert facts.pod_rows(no_uid, a_cell).rows[0]["uid"] == "team-a/web-1@2025-03-30T09:00:00Z"
    with pytest.raises(BadDataError, match="neither a uid nor a time"):
        facts.pod_rows(pod(uid=None, scheduled=None), a_cell)


def test_long_annotations_are_documents_and_left_out() -> None:
    found = pod(annotations={"team": "a", "last-applied": "x" * 5000})
    rows = facts.pod_rows(found, cell("10:00", "10:05")).rows
    assert rows[0]["annotations"] == '{"team":"a"}'
    assert rows[0]["labels"] is None


# fmt: off
AWKWARD_NODES = [  # name, region, zone, instance type, os, capacity type, virtual, ready
    ("aks-win-000001", "westeurope", None, "Standard_D4s_v3", "windows", None, False, True),
    ("virtual-node-aci-linux", None, None, None, "linux", None, True, True),
    ("fargate-ip-10-0-3-17.eu-west-1.compute.internal", "eu-west-1", "eu-west-1b", None, "linux", None, True, True),
    ("gke-c-spot-1", "europe-west4", "europe-west4-a", "e2-standard-4", "linux", "spot", False, True),
    ("ip-10-0-9-9.eu-west-1.compute.internal", "eu-west-1", "eu-west-1a", "m6a.xlarge", "linux", "spot", False, True),
    ("aks-spot-000002", "westeurope", "westeurope-2", "Standard_D8as_v5", "linux", "spot", False, True),
    ("old-ip-10-1-1-1", "us-east-1", "us-east-1c", "m4.large", "linux", None, False, True),
    ("bare-metal-7", None, None, None, "linux", None, False, True),
    ("edge-lost-1", None, None, "k3s", "linux", None, False, False),
    ("gpu-mixed-1", "us-east-1", None, "p4d.24xlarge", "linux", None, False, True),
]
# fmt: on


def test_awkward_nodes() -> None:
    items = msgspec.json.decode((DATA / "constructed" / "nodes-awkward.json").read_bytes())["items"]
    found = []
    for item in items:
        (row,) = facts.node_rows(msgspec.convert(item, Node), cell("10:00", "10:05"))
        columns = ("node", "region", "zone", "instance_type", "os", "capacity_type")
        found.append(tuple(row[name] for name in (*columns, "is_virtual", "is_ready")))
    assert found == AWKWARD_NODES


def node(labels: dict[str, str] | None = None, provider_id: str = "", **status: Any) -> facts.Row:
    body = {
        "metadata": {"name": "n", "uid": "u", "labels": labels},
        "spec": {"providerID": provider_id},
        "status": status,
    }
    (row,) = facts.node_rows(msgspec.convert(body, Node), cell("10:00", "10:05"))
    return row


@pytest.mark.parametrize(
    ("labels", "provider_id", "place"),
    [
        ({}, "aws:///us-west-2b/i-0a", ("us-west-2", "us-west-2b")),
        ({}, "aws:///us-west-2-lax-1a/i-0a", ("us-west-2", "us-west-2-lax-1a")),
        ({}, "aws:////i-0a", (None, None)),
        ({}, "gce://project/europe-west4-a/x", ("europe-west4", "europe-west4-a")),
        ({}, "azure:///subscriptions/0/resourceGroups/rg", (None, None)),
        ({"failure-domain.beta.kubernetes.io/region": "r"}, "", ("r", None)),
        ({"region": "ams3"}, "digitalocean://1", ("ams3", None)),
        ({"topology.kubernetes.io/zone": "0"}, "", (None, None)),
        ({"topology.kubernetes.io/region": "a"}, "gce://p/b-c1-d/x", ("a", "b-c1-d")),
    ],
)
def test_region_and_zone(
    labels: dict[str, str], provider_id: str, place: tuple[str | None, str | None]
) -> None:
    row = node(labels, provider_id)
    assert (row["region"], row["zone"]) == place


@pytest.mark.parametrize(
    ("label", "value", "capacity_type"),
    [
        ("karpenter.sh/capacity-type", "spot", "spot"),
        ("karpenter.sh/capacity-type", "on-demand", "on_demand"),
        ("eks.amazonaws.com/capacityType", "SPOT", "spot"),
        ("eks.amazonaws.com/capacityType", "ON_DEMAND", "on_demand"),
        ("cloud.google.com/gke-spot", "true", "spot"),
        ("cloud.google.com/gke-spot", "false", None),
        ("cloud.google.com/gke-preemptible", "true", "spot"),
        ("cloud.google.com/gke-provisioning", "standard", "on_demand"),
        ("kubernetes.azure.com/scalesetpriority", "spot", "spot"),
        ("kubernetes.azure.com/scalesetpriority", "regular", "on_demand"),
        ("unrelated", "spot", None),
    ],
)
def test_every_spot_marker_is_read(label: str, value: str, capacity_type: str | None) -> None:
    """opencost/opencost#2081: missed markers price a third of the spot nodes as on-demand."""
    assert node({label: value})["capacity_type"] == capacity_type


def test_a_node_without_labels_or_capacity_is_kept_with_nulls() -> None:
    row = node()
    assert row["node"] == "n"
    for name in ("region", "instance_type", "os", "cpu_capacity_cores", "gpu_capacity", "is_ready"):
        assert row[name] is None, name


def test_a_node_counts_from_its_creation() -> None:
    body = {"metadata": {"name": "n", "uid": "u", "creationTimestamp": at("10:02")}}
    young = msgspec.convert(body, Node)
    (row,) = facts.node_rows(young, cell("10:00", "10:05"))
    assert (row["start_at"], row["end_at"]) == (at("10:02"), at("10:05"))
    assert facts.node_rows(young, cell("09:55", "10:00")) == []


def test_gpus_of_a_node_have_a_resource_and_a_model() -> None:
    row = node(
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "8"},
        capacity={"cpu": "8", "nvidia.com/mig-1g.5gb": "7"},
        allocatable={"cpu": "8", "nvidia.com/mig-1g.5gb": "6"},
    )
    found = (row["gpu_capacity"], row["gpu_allocatable"], row["gpu_resource"], row["gpu_model"])
    assert found == ("7", "6", "nvidia.com/mig-1g.5gb", "NVIDIA-A100-SXM4-40GB")
    assert node(capacity={"cpu": "8"})["gpu_capacity"] == "0"


def usage(
    reading: dict[str, Any],
    name: str = "c",
    life: facts.Life | None = None,
    of: Window | None = None,
) -> list[facts.Row]:
    metadata = Metadata(name="web-1", namespace="team-a")
    container = msgspec.convert({"name": name, "usage": reading}, ContainerMetrics)
    return facts.usage_rows(metadata, container, life, of or cell("10:00", "10:05"))


@pytest.mark.claims("C01")
def test_micro_core_readings() -> None:
    case = cases()["C01"]
    (row,) = usage(case["input"]["usage"])
    cores = Decimal(str(row["cpu_used_core_seconds"])) / 300
    memory = Decimal(str(row["memory_used_byte_seconds"])) / 300
    assert cores == Decimal(case["right"]["cpu_cores"])
    assert memory == Decimal(case["right"]["memory_bytes"])


@pytest.mark.claims("C02")
def test_the_empty_named_container_is_the_pods_total_and_not_added() -> None:
    case = cases()["C02"]
    rows = [
        row for each in case["input"]["containers"] for row in usage(each["usage"], each["name"])
    ]
    memory = sum(Decimal(str(row["memory_used_byte_seconds"])) for row in rows) / 300
    assert memory == case["right"]["pod_memory_bytes"]


@pytest.mark.claims("C38")
def test_an_unsigned_underflow_is_no_reading() -> None:
    case = cases()["C38"]
    found: list[int | None] = []
    for reading in case["input"]["usage"]:
        try:
            (row,) = usage({"cpu": f"{reading}m"})
        except BadDataError as error:
            assert "more than any machine" in str(error)
            found.append(None)
            continue
        found.append(int(Decimal(str(row["cpu_used_core_seconds"])) * 1000 / 300))
    assert found == case["right"]["usage"]


def test_absent_is_null_and_a_zero_is_a_zero() -> None:
    (row,) = usage({"cpu": "0"})
    assert (row["cpu_used_core_seconds"], row["memory_used_byte_seconds"]) == ("0", None)
    assert usage({}) == []
    with pytest.raises(BadDataError, match="below zero"):
        usage({"cpu": "-513m"})


def test_usage_covers_the_pods_part_of_the_cell() -> None:
    life = facts.Life("u1", "n1", at("10:02"), at("10:05"))
    (row,) = usage({"cpu": "1"}, life=life)
    assert (row["start_at"], row["uid"], row["node"]) == (at("10:02"), "u1", "n1")
    assert row["cpu_used_core_seconds"] == "180"
    ended = facts.Life("u1", "n1", at("10:00"), at("10:00"))
    assert usage({"cpu": "1"}, life=ended) == []


def test_usage_is_cut_at_whole_hours_and_the_pieces_re_add() -> None:
    of = Window(at("09:59") + timedelta(microseconds=333_333), at("10:01"))
    first, second = usage({"cpu": "1n"}, of=of)
    assert (first["end_at"], second["start_at"]) == (at("10:00"), at("10:00"))
    total = Decimal(str(first["cpu_used_core_seconds"])) + Decimal(
        str(second["cpu_used_core_seconds"])
    )
    assert total == Decimal("0.000000120")  # 119.666667 nano-core-seconds, half-even at nine places


def volume(claim: dict[str, Any] | None = None, **body: Any) -> Volume:
    spec = {"capacity": {"storage": "10Mi"}, "storageClassName": "std", "claimRef": claim}
    return msgspec.convert(
        {"metadata": {"name": "pv-1", "uid": "v1"}, "spec": spec, **body}, Volume
    )


def test_a_volume_counts_with_its_provisioned_size_for_its_claim() -> None:
    claim = msgspec.convert(
        {
            "metadata": {
                "name": "data",
                "namespace": "team-a",
                "uid": "c1",
                "labels": {"app": "db"},
            },
            "status": {"capacity": {"storage": "8Mi"}},
        },
        Claim,
    )
    reference = {"name": "data", "namespace": "team-a", "uid": "c1"}
    bound = volume(reference, status={"phase": "Bound"})
    (row,) = facts.volume_rows(bound, {("team-a", "data"): claim}, cell("10:00", "10:05"))
    assert row["capacity_bytes"] == "10485760"
    assert (row["namespace"], row["claim"], row["labels"]) == ("team-a", "data", '{"app":"db"}')
    (free,) = facts.volume_rows(volume(), {}, cell("10:00", "10:05"))
    assert (free["namespace"], free["claim"], free["capacity_bytes"]) == (None, None, "10485760")


def test_a_new_claim_of_an_old_name_does_not_lend_its_labels() -> None:
    claim = msgspec.convert(
        {"metadata": {"name": "data", "namespace": "a", "uid": "new", "labels": {"x": "y"}}}, Claim
    )
    old = volume({"name": "data", "namespace": "a", "uid": "old"})
    (row,) = facts.volume_rows(old, {("a", "data"): claim}, cell("10:00", "10:05"))
    assert row["labels"] is None


def test_a_pending_claim_holds_nothing_known() -> None:
    pending = msgspec.convert(
        {"metadata": {"name": "d", "namespace": "a", "uid": "c"}, "status": {"phase": "Pending"}},
        Claim,
    )
    (row,) = facts.claim_rows(pending, cell("10:00", "10:05"))
    assert (row["phase"], row["capacity_bytes"], row["volume"]) == ("Pending", None, None)
