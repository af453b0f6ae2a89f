"""Services with a load balancer are stated; the others are not, and none is an error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubetally.sources.kubernetes.objects import Page, decode_page
from kubetally.sources.kubernetes.pages import SERVICES, Resource
from kubetally.sources.kubernetes.snapshot import collect_snapshot
from kubetally.sources.rows import SCHEMAS, Batch
from kubetally.windows import Window

DATA = Path(__file__).parents[1] / "data" / "k8s"
START = datetime(2026, 11, 3, 10, tzinfo=UTC)
CELL = Window(START, START + timedelta(minutes=5))


def batch(body: bytes) -> Batch:
    def pages(resource: Resource) -> Iterable[Page]:
        return [decode_page(body if resource is SERVICES else b'{"kind": "List"}')]

    found = collect_snapshot("test", pages, window=CELL, cell=CELL)
    (one,) = (each for each in found.batches if each.dataset == "load_balancer")
    assert dict(one.rows.schema) == SCHEMAS["load_balancer"]
    return one


def of(*services: dict[str, Any]) -> list[dict[str, Any]]:
    return batch(json.dumps({"kind": "ServiceList", "items": services}).encode()).rows.to_dicts()


def service(kind: str | None = "LoadBalancer", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "shop", "uid": "s1", "labels": {"app": "web"}},
        "spec": {"type": kind, "ports": [{"port": 80}, {"port": 443}]},
    } | more


def test_its_address_and_its_ports_are_known() -> None:
    ingress = {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}, {"ip": "203.0.113.7"}]}}
    (row,) = of(service(status=ingress))
    assert (row["namespace"], row["service"], row["ports"]) == ("shop", "web", "2")
    assert row["address"] == "lb.example.com"
    assert (row["start_at"], row["end_at"]) == (CELL.start, CELL.end)


def test_one_that_is_being_made_has_no_address_yet() -> None:
    assert [row["address"] for row in of(service())] == [None]


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "ExternalName", None])
def test_other_services_have_none(kind: str | None) -> None:
    assert of(service(kind)) == []


def test_it_counts_from_its_creation() -> None:
    metadata = {"name": "web", "namespace": "shop", "uid": "s1"}
    (row,) = of(service(metadata=metadata | {"creationTimestamp": "2026-11-03T10:02:00Z"}))
    assert row["start_at"] == START + timedelta(minutes=2)
    assert of(service(metadata=metadata | {"creationTimestamp": "2026-11-03T10:05:00Z"})) == []


@pytest.mark.parametrize(
    "path",
    [
        DATA / "services" / "openshift-2023-services.json",
        DATA / "clusters" / "minikube-1.35" / "services.json",
    ],
    ids=lambda path: path.name,
)
def test_every_recorded_list_of_services_is_read(path: Path) -> None:
    items = json.loads(path.read_bytes())["items"]
    found = batch(path.read_bytes())
    assert found.rejects == ()
    wanted = [each for each in items if each["spec"].get("type") == "LoadBalancer"]
    assert found.rows.height == len(wanted)
