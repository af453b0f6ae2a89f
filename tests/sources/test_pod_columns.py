"""Pods read in bulk give the very rows, rejects and usage that pods read one by one give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubetally.sources.kubernetes.objects import Page, decode_page
from kubetally.sources.kubernetes.pages import POD_METRICS, PODS, Resource
from kubetally.sources.kubernetes.snapshot import collect_snapshot
from kubetally.sources.rows import Batch
from kubetally.windows import Window, iso

DATA = Path(__file__).parents[1] / "data" / "k8s"
CELL = Window(datetime(2026, 11, 3, 10, 0, tzinfo=UTC), datetime(2026, 11, 3, 10, 5, tzinfo=UTC))
LISTS = sorted(
    path
    for folder in ("pods", "constructed", "clusters")
    for path in (DATA / folder).rglob("*.json")
    if b'"containers"' in path.read_bytes() and not path.name.startswith(("metrics", "stats"))
)

TIMES = st.sampled_from(
    [iso(CELL.start + timedelta(minutes=m)) for m in (-900, -12, -9, -1, 0, 1, 3, 5, 9)]
)
RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        name: st.dictionaries(
            st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]),
            st.sampled_from(["1", "250m", "64Mi", "junk", "-1", 2, "1500000000"]),
            max_size=3,
        )
        for name in ("requests", "limits")
    },
)
NAMES = st.sampled_from(["web", "proxy", "warm-up"])
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={"resources": RESOURCES, "restartPolicy": st.sampled_from(["Always", "Never"])},
    ),
    max_size=3,
)
STATUSES = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "resources": RESOURCES,
            "allocatedResources": st.just({"cpu": "2"}),
            "state": st.one_of(
                st.just({"running": {}}),
                TIMES.map(lambda time: {"terminated": {"finishedAt": time}}),
            ),
        },
    ),
    max_size=2,
)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["PodScheduled", "PodResizePending", "DisruptionTarget"]),
            "status": st.sampled_from(["True", "False"]),
            "reason": st.sampled_from(["Infeasible", "Deferred"]),
            "lastTransitionTime": TIMES,
        }
    ),
    max_size=3,
)
OWNERS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["ReplicaSet", "Job", "Node", "ReplicationController", ""]),
            "name": st.sampled_from(["web-abc12", "nightly-28000000", "node-1"]),
            "controller": st.booleans(),
        }
    ),
    max_size=2,
)
STRINGS = st.dictionaries(
    st.sampled_from(
        ["pod-template-hash", "kubernetes.io/config.mirror", "openshift.io/deployment-config.name"]
    ),
    st.sampled_from(["abc12", "x", "\u0000", "y" * 1100]),
    max_size=2,
)
POD = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(["web-abc12-1", "web-abc12-2"]), "namespace": st.just("shop")},
            optional={
                "uid": st.sampled_from(["u-1", "u-2", "u-3", "u-4"]),
                "creationTimestamp": TIMES,
                "labels": STRINGS,
                "annotations": STRINGS,
                "ownerReferences": OWNERS,
            },
        ),
    },
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeName": st.sampled_from(["node-1", ""]),
                "hostNetwork": st.booleans(),
                "containers": CONTAINERS,
                "initContainers": CONTAINERS,
                "overhead": st.just({"cpu": "250m"}),
                "resources": RESOURCES,
            },
        ),
        "status": st.fixed_dictionaries(
            {"phase": st.sampled_from(["Running", "Pending", "Succeeded", "Failed", ""])},
            optional={
                "startTime": TIMES,
                "resize": st.sampled_from(["Infeasible", "Proposed"]),
                "conditions": CONDITIONS,
                "containerStatuses": STATUSES,
                "initContainerStatuses": STATUSES,
            },
        ),
    },
)


def collected(bodies: list[bytes], *, in_bulk: bool) -> list[Batch]:
    usage = {"name": "web", "usage": {"cpu": "100m", "memory": "1Mi"}}
    metrics = [
        {"metadata": {"name": name, "namespace": "shop"}, "containers": [usage]}
        for name in ("web-abc12-1", "web-abc12-2")
    ]

    def pages(resource: Resource) -> Iterator[Page]:
        if resource is PODS:
            for number, body in enumerate(bodies):
                yield decode_page(body, is_first=number == 0, outline_pods=in_bulk)
        else:
            items = metrics if resource is POD_METRICS else []
            yield decode_page(json.dumps({"kind": "List", "items": items}).encode())

    found = collect_snapshot("test", pages, window=CELL, cell=CELL)
    assert not found.gaps
    return [batch for batch in found.batches if batch.dataset in ("pod", "usage")]


def assert_same(bodies: list[bytes]) -> None:
    one_by_one, in_bulk = (collected(bodies, in_bulk=flag) for flag in (False, True))
    for expected, got in zip(one_by_one, in_bulk, strict=True):
        assert got.rows.schema == expected.rows.schema
        order = list(expected.rows.columns)
        assert got.rows.sort(order).rows() == expected.rows.sort(order).rows()
        assert sorted(map(repr, got.rejects)) == sorted(map(repr, expected.rejects))
        assert got.payload_sha256 == expected.payload_sha256


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_a_recorded_list_gives_the_same_rows_in_bulk(path: Path) -> None:
    assert_same([path.read_bytes()])


NEVER_SEATED = {
    "metadata": {"name": "web-abc12-1", "namespace": "shop", "uid": "u-1"},
    "spec": {},
    "status": {
        "phase": "Succeeded",
        "initContainerStatuses": [
            {"name": "web", "state": {"terminated": {"finishedAt": CELL.end.isoformat()}}}
        ],
    },
}


@settings(max_examples=400, deadline=None)
@example(pages=[[NEVER_SEATED]])
@given(pages=st.lists(st.lists(POD, max_size=5), min_size=1, max_size=2))
def test_any_pods_give_the_same_rows_in_bulk(pages: list[list[dict[str, Any]]]) -> None:
    assert_same([json.dumps({"kind": "PodList", "items": items}).encode() for items in pages])


def test_most_recorded_pods_are_read_in_bulk() -> None:
    """The quick way is taken: a list that falls back pod by pod would still be right, and slow."""
    body = (DATA / "clusters" / "minikube-1.35" / "pods.json").read_bytes()
    assert decode_page(body, outline_pods=True).outlines
