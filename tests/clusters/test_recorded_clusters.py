"""Every recorded cluster gives its right numbers, from its files and over HTTP, never the wrong ones.

KUBETALLY_CLUSTERS names a folder of recorded clusters, each with a GOLDEN.json; without it those below
tests/data are read. A GOLDEN.json may state any of the numbers known to RIGHT; one that is not known is
a failure, so that nothing goes unchecked.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from database import Warehouse
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate.stage import begin, consolidate
from kubetally.demo.server import DemoServer
from kubetally.sources import files, kubelet, kubernetes
from kubetally.sources.rows import Collected
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import land
from kubetally.windows import Window

OWN = Path(__file__).parents[1] / "data" / "k8s" / "clusters"
CLUSTERS = Path(os.environ.get("KUBETALLY_CLUSTERS") or OWN)
FOLDERS = sorted(path.parent for path in CLUSTERS.glob("*/GOLDEN.json"))
# Long after every recording: what is said then is what the lists say.
CELL = Window(datetime(2028, 1, 4, 10, tzinfo=UTC), datetime(2028, 1, 4, 11, tzinfo=UTC))
NOW = CELL.start + timedelta(minutes=1)
CONNECTION = "kubetally_recorded_cluster"
TERMINAL = ("Succeeded", "Failed")
Rows = dict[str, list[dict[str, Any]]]


def collected(way: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Collected]:
    """What the sources say of the folder, read as files or served as an API."""
    if way == "files":
        source = SourceConfig("files", path=str(folder))
        cluster = ClusterConfig("recorded", (source,))
        return [files.collect(cluster, source, CELL, now=NOW)]
    with DemoServer(cluster=folder) as server:
        monkeypatch.setenv(
            f"AIRFLOW_CONN_{CONNECTION.upper()}",
            json.dumps({"conn_type": "kubernetes", "host": server.url, "password": "a-token"}),
        )
        found = []
        for kind, source in (("kubernetes", kubernetes), ("kubelet", kubelet)):
            config = SourceConfig(kind, CONNECTION)  # type: ignore[arg-type]
            found.append(
                source.collect(ClusterConfig("recorded", (config,)), config, CELL, now=NOW)
            )
        return found


@pytest.fixture(scope="module", params=["files", "http"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda path: path.name)
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def said(
    way: str, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Collected]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_HOME", str(tmp_path_factory.mktemp("airflow")))
        yield collected(way, folder, patch)


@pytest.fixture(scope="module")
def rows(said: list[Collected]) -> Rows:
    return {batch.dataset: batch.rows.to_dicts() for each in said for batch in each.batches}


@pytest.fixture(scope="module")
def golden(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "GOLDEN.json").read_text(encoding="utf-8"))
    return content


def live(rows: Rows) -> list[dict[str, Any]]:
    return [row for row in rows["pod"] if row["node"] and row["phase"] not in TERMINAL]


def total(rows: list[dict[str, Any]], column: str) -> Decimal:
    return sum((Decimal(row[column]) for row in rows if row.get(column)), Decimal(0))


def by_namespace(rows: Rows) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in live(rows):
        sums = found.setdefault(row["namespace"], {"cpu": Decimal(0), "memory": Decimal(0), "n": 0})
        sums["cpu"] += Decimal(row["cpu_request_cores"])
        sums["memory"] += Decimal(row["memory_request_bytes"])
        sums["n"] += 1
    return found


def networks(rows: Rows) -> dict[str, int]:
    """Bytes received by pod, of pods with a network of their own."""
    on_host = {row["pod"] for row in rows["pod"] if row["host_network"]}
    return {
        row["pod"]: int(row["network_receive_bytes_total"])
        for row in rows["container_stats"]
        if row["network_receive_bytes_total"] is not None and row["pod"] not in on_host
    }


def phases_are(rows: Rows, right: dict[str, int]) -> bool:
    return Counter(row["phase"] for row in rows["pod"]) == right


def namespaces_are(rows: Rows, right: dict[str, Any]) -> bool:
    told = {
        name: {
            "cpu": Decimal(each["cpu_cores"]),
            "memory": Decimal(each["memory_bytes"]),
            "n": each["pods"],
        }
        for name, each in right.items()
    }
    return by_namespace(rows) == told


def allocatable_is(rows: Rows, right: dict[str, str]) -> bool:
    return total(rows["node"], "cpu_allocatable_cores") == Decimal(right["cpu"]) and total(
        rows["node"], "memory_allocatable_bytes"
    ) == Decimal(right["memory"])


def cpu_seconds_are(rows: Rows, right: dict[str, str]) -> bool:
    used = total(rows["container_stats"], "cpu_seconds_total")
    return used == Decimal(right["sum_containers"]) and used != Decimal(
        right["naive_sum_of_all_with_pod_label_WRONG"]
    )


def network_is(rows: Rows, right: dict[str, Any]) -> bool:
    received = networks(rows)
    hosts = {row["pod"] for row in rows["pod"] if row["host_network"]}
    return (
        received == right["attributable_pods"]
        and sum(received.values()) == right["sum_attributable"]
        and hosts == set(right["host_network_pods"])
        and sum(received.values()) != right["naive_sum_over_pods_WRONG"]
    )


RIGHT: dict[str, Callable[[Rows, Any], bool]] = {
    "pods": lambda rows, right: len(rows["pod"]) == right,
    "phases": phases_are,
    "unscheduled": lambda rows, right: (
        sorted(row["pod"] for row in rows["pod"] if not row["node"]) == sorted(right)
    ),
    "live_pods": lambda rows, right: len(live(rows)) == right,
    "requested_cpu_cores_live": lambda rows, right: (
        total(live(rows), "cpu_request_cores") == Decimal(right)
    ),
    "requested_memory_bytes_live": lambda rows, right: (
        total(live(rows), "memory_request_bytes") == Decimal(right)
    ),
    "requested_cpu_cores_if_terminal_and_unscheduled_counted_WRONG": lambda rows, wrong: (
        total(live(rows), "cpu_request_cores") != Decimal(wrong)
    ),
    # The exporter's sum has terminal pods in it: never what we say.
    "ksm_sum_kube_pod_container_resource_requests_cpu": lambda rows, wrong: (
        total(live(rows), "cpu_request_cores") != Decimal(wrong)
    ),
    "by_namespace_live": namespaces_are,
    "node_allocatable": allocatable_is,
    "cadvisor_cpu_seconds": cpu_seconds_are,
    "network_eth0_receive_bytes": network_is,
}
PROSE = {"note"}


def test_there_are_recorded_clusters() -> None:
    assert FOLDERS, f"{CLUSTERS} holds no folder with a GOLDEN.json"


def test_every_number_is_right(golden: dict[str, Any], rows: Rows) -> None:
    assert set(golden) - PROSE <= set(RIGHT), "a number nobody checks"
    assert [name for name in golden if name in RIGHT and not RIGHT[name](rows, golden[name])] == []


def test_nothing_was_left_out(said: list[Collected], folder: Path) -> None:
    """No object is refused, and only what the folder does not hold is a gap."""
    rejects = [reject for each in said for batch in each.batches for reject in batch.rejects]
    assert rejects == []
    held = {path.name.split(".")[0] for path in folder.iterdir()}
    stem = {"pod": "pods", "node": "nodes", "namespace": "namespaces", "usage": "metrics"}
    gaps = {gap.dataset for each in said for gap in each.gaps}
    assert not {name for name in gaps if stem.get(name) in held}


def test_the_warehouse_holds_the_live_requests_and_nothing_more(
    said: list[Collected], golden: dict[str, Any], warehouse: Warehouse
) -> None:
    kinds = [each.source for each in said]
    sources = tuple(
        SourceConfig(kind, "unused", path="unused")  # type: ignore[arg-type]
        for kind in kinds
    )
    cluster = ClusterConfig("recorded", sources)
    for each in said:
        land(engine("loader"), cluster, each, now=NOW)
    publisher = engine("publisher")
    stage = begin(publisher, cluster, CELL, "hourly", now=NOW)
    consolidate(publisher, stage)
    with publisher.connect() as connection:
        cores, memory, pods = connection.execute(
            text(
                "select sum(cpu_request_core_seconds), sum(memory_request_byte_seconds), count(*)"
                " from core.pod_hour where stage_id = :stage_id and seconds > 0"
            ),
            {"stage_id": stage.stage_id},
        ).one()
        network = connection.execute(
            text(
                "select count(*) from core.container_stats_hour join core.pod_segment"
                " using (stage_id, pod_key) where stage_id = :stage_id and host_network"
                " and network_receive_bytes is not null"
            ),
            {"stage_id": stage.stage_id},
        ).scalar()
    if "requested_cpu_cores_live" in golden:
        assert cores == Decimal(golden["requested_cpu_cores_live"]) * 3600
        assert memory == Decimal(golden["requested_memory_bytes_live"]) * 3600
        assert pods == golden["live_pods"]
    assert network == 0
