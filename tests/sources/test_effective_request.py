"""The scheduler's rule for what a pod holds."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubetally.errors import BadDataError
from kubetally.sources.effective_request import effective_limits, effective_request, gpu_amount
from kubetally.sources.kubernetes.objects import Pod
from oracles.by_hand import cases

CONSTRUCTED = Path(__file__).parents[1] / "data" / "k8s" / "constructed"


def pod(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Pod:
    body = {"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, Pod)


def container(requests: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    limits = more.pop("limits", None)
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **more}


def test_awkward_pods() -> None:
    pods = msgspec.json.decode((CONSTRUCTED / "pods-awkward.json").read_bytes())["items"]
    expected = json.loads((CONSTRUCTED / "pods-awkward.expected.json").read_text())
    assert len(pods) == len(expected) == 15
    for manifest, right in zip(pods, expected, strict=True):
        found = effective_request(msgspec.convert(manifest, Pod))
        assert right["pod"].split("/")[0].split(" ")[0] == manifest["metadata"]["name"]
        assert (found.cpu_cores, found.memory_bytes) == (
            Decimal(right["effective_cpu_cores"]),
            Decimal(right["effective_memory_bytes"]),
        ), right


@pytest.mark.claims("AL-23")
def test_a_large_init_container_decides() -> None:
    case = cases()["AL-23"]
    found = effective_request(
        pod(
            {
                "containers": [container({"cpu": cpu}) for cpu in case["given"]["containers"]],
                "initContainers": [container({"cpu": cpu}) for cpu in case["given"]["init"]],
            }
        )
    )
    assert case["expect"] == "500m"
    assert found.cpu_cores == Decimal("0.5")


@pytest.mark.parametrize(
    ("why", "spec", "cores"),
    [
        (
            "overhead is added last",
            {"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m"}},
            "1.25",
        ),
        (
            "overhead is added to pod-level requests too",
            {
                "containers": [container({"cpu": "9"})],
                "resources": {"requests": {"cpu": "2"}},
                "overhead": {"cpu": "1"},
            },
            "3",
        ),
        (
            "a sidecar started later does not add to an earlier init step",
            {
                "containers": [container({"cpu": "100m"})],
                "initContainers": [
                    container({"cpu": "2"}),
                    container({"cpu": "1"}, restartPolicy="Always"),
                ],
            },
            "2",
        ),
        (
            "a sidecar started earlier does",
            {
                "containers": [container({"cpu": "100m"})],
                "initContainers": [
                    container({"cpu": "1"}, restartPolicy="Always"),
                    container({"cpu": "2"}),
                ],
            },
            "3",
        ),
        (
            "a limit without a request is its request",
            {"containers": [container(limits={"cpu": "2"})]},
            "2",
        ),
        ("a bare number is a quantity", {"containers": [container({"cpu": 2})]}, "2"),
        ("no containers hold nothing", {"containers": None}, "0"),
    ],
)
def test_rule(why: str, spec: dict[str, Any], cores: str) -> None:
    assert effective_request(pod(spec)).cpu_cores == Decimal(cores), why


@pytest.mark.parametrize(
    ("condition", "resize", "cores"),
    [
        (None, None, "3"),
        ({"type": "PodResizePending", "status": "True", "reason": "Deferred"}, None, "3"),
        ({"type": "PodResizePending", "status": "True", "reason": "Infeasible"}, None, "2"),
        (None, "Infeasible", "2"),
    ],
)
def test_in_place_resize(condition: dict[str, str] | None, resize: str | None, cores: str) -> None:
    """Spec 3, allocated 1, actual 2: the largest, without the spec while that is infeasible."""
    resized = pod(
        {"containers": [container({"cpu": "3"})]},
        {
            "resize": resize,
            "conditions": [condition] if condition else [],
            "containerStatuses": [
                {
                    "name": "c",
                    "allocatedResources": {"cpu": "1"},
                    "resources": {"requests": {"cpu": "2"}},
                }
            ],
        },
    )
    assert effective_request(resized).cpu_cores == Decimal(cores)


@pytest.mark.parametrize(
    ("requests", "gpus", "resource", "others"),
    [
        ({"nvidia.com/gpu": "2"}, 2, "nvidia.com/gpu", ()),
        ({"nvidia.com/gpu": "0"}, 0, None, ()),
        ({"nvidia.com/mig-1g.5gb": "2"}, 2, "nvidia.com/mig-1g.5gb", ()),
        ({"nvidia.com/mig-1g.5gb.me": 1}, 1, "nvidia.com/mig-1g.5gb.me", ()),
        ({"nvidia.com/gpu.shared": "3"}, 3, "nvidia.com/gpu.shared", ()),
        ({"amd.com/gpu": "1"}, 1, "amd.com/gpu", ()),
        ({"alpha.kubernetes.io/nvidia-gpu": "1"}, 1, "alpha.kubernetes.io/nvidia-gpu", ()),
        ({"vpc.amazonaws.com/pod-eni": "1", "hugepages-2Mi": "4Mi"}, 0, None, ()),
        (
            {"nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-3g.20gb": "1"},
            1,
            "nvidia.com/mig-3g.20gb",
            ("nvidia.com/mig-1g.5gb",),
        ),
    ],
)
def test_gpu_requests(
    requests: dict[str, Any], gpus: int, resource: str | None, others: tuple[str, ...]
) -> None:
    found = effective_request(pod({"containers": [container(requests)]}))
    assert (found.gpus, found.gpu_resource, found.other_gpu_resources) == (gpus, resource, others)


def test_whole_gpus_count_before_slices_on_a_node() -> None:
    capacity = {"cpu": "96", "nvidia.com/gpu": "6", "nvidia.com/mig-1g.5gb": "7"}
    assert gpu_amount(capacity) == (6, "nvidia.com/gpu")
    assert gpu_amount({"cpu": "96", "nvidia.com/gpu": "0"}) == (0, None)


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        (
            {"containers": [container({"cpu": "1"}), container(limits={"cpu": "2", "memory": 5})]},
            (None, None),
        ),
        (
            {
                "containers": [
                    container(limits={"cpu": "1", "memory": "1Ki"}),
                    container(limits={"cpu": "2"}),
                ]
            },
            (Decimal(3), None),
        ),
        ({"containers": [container()], "resources": {"limits": {"cpu": "4"}}}, (Decimal(4), None)),
        ({"containers": []}, (None, None)),
    ],
)
def test_one_unlimited_container_makes_the_pod_unlimited(
    spec: dict[str, Any], limits: tuple[Decimal | None, Decimal | None]
) -> None:
    assert effective_limits(pod(spec)) == limits


@pytest.mark.parametrize("bad", ["1K", "-1", ""])
def test_a_bad_request_is_refused(bad: str) -> None:
    with pytest.raises(BadDataError):
        effective_request(pod({"containers": [container({"cpu": bad})]}))
