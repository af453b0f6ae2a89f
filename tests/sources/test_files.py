"""Folders of recorded lists: the recorded cluster's right numbers, times, gaps."""

from __future__ import annotations

import gzip
import json
import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.sources import files
from kubetally.sources.kubernetes.snapshot import DATASETS
from kubetally.sources.rows import Collected
from kubetally.windows import Window

CLUSTERS = Path(__file__).parents[1] / "data" / "k8s" / "clusters"
MINIKUBE = CLUSTERS / "minikube-1.35"
GOLDEN = json.loads((MINIKUBE / "GOLDEN.json").read_text())
# The recorded lists were taken at 10:14:35; the last pod finished two seconds before.
CELL = Window(datetime(2026, 6, 26, 10, 15, tzinfo=UTC), datetime(2026, 6, 26, 10, 20, tzinfo=UTC))


def collect(path: Path | str, window: Window = CELL) -> Collected:
    source = SourceConfig("files", path=str(path))
    return files.collect(ClusterConfig("recorded", (source,)), source, window, now=window.end)


def rows(collected: Collected, dataset: str) -> pl.DataFrame:
    (batch,) = (each for each in collected.batches if each.dataset == dataset)
    return batch.rows


def holding(pods: pl.DataFrame) -> pl.DataFrame:
    return pods.filter(
        pl.col("node").is_not_null() & ~pl.col("phase").is_in(["Succeeded", "Failed"])
    )


def total(column: pl.Series) -> Decimal:
    return sum((Decimal(text) for text in column), Decimal(0))


def test_recorded_cluster_gives_its_right_totals() -> None:
    pods = rows(collect(MINIKUBE), "pod")
    assert pods.height == GOLDEN["pods"]
    assert dict(pods.group_by("phase").len().iter_rows()) == GOLDEN["phases"]
    assert pods.filter(pl.col("node").is_null())["pod"].to_list() == GOLDEN["unscheduled"]
    live = holding(pods)
    assert live.height == GOLDEN["live_pods"]
    assert total(live["cpu_request_cores"]) == Decimal(GOLDEN["requested_cpu_cores_live"])
    assert total(live["memory_request_bytes"]) == Decimal(GOLDEN["requested_memory_bytes_live"])
    wrong = GOLDEN["requested_cpu_cores_if_terminal_and_unscheduled_counted_WRONG"]
    assert total(pods["cpu_request_cores"]) == Decimal(wrong), "the wrong total is a real trap"


def test_recorded_cluster_by_namespace() -> None:
    live = holding(rows(collect(MINIKUBE), "pod"))
    found = {
        namespace: {
            "cpu_cores": total(part["cpu_request_cores"]),
            "memory_bytes": total(part["memory_request_bytes"]),
            "pods": part.height,
        }
        for (namespace,), part in live.group_by("namespace")
    }
    assert found == {
        namespace: {
            "cpu_cores": Decimal(right["cpu_cores"]),
            "memory_bytes": Decimal(right["memory_bytes"]),
            "pods": right["pods"],
        }
        for namespace, right in GOLDEN["by_namespace_live"].items()
    }


def test_recorded_cluster_node_and_host_network() -> None:
    found = collect(MINIKUBE)
    node = rows(found, "node").row(0, named=True)
    assert node["cpu_allocatable_cores"] == GOLDEN["node_allocatable"]["cpu"]
    assert node["memory_allocatable_bytes"] == GOLDEN["node_allocatable"]["memory"]
    host = rows(found, "pod").filter(pl.col("host_network"))["pod"].sort().to_list()
    assert host == GOLDEN["network_eth0_receive_bytes"]["host_network_pods"]


def test_recorded_usage_is_joined_to_the_pods_uids() -> None:
    found = collect(MINIKUBE)
    usage, pods = rows(found, "usage"), rows(found, "pod")
    assert usage.height == 17
    joined = usage.join(pods, on=["uid", "namespace", "pod", "node"])
    assert joined.height == usage.height
    row = usage.filter(pl.col("container") == "kube-scheduler").row(0, named=True)
    assert Decimal(row["cpu_used_core_seconds"]) == Decimal("0.003705818") * 300
    assert Decimal(row["memory_used_byte_seconds"]) == 23200 * 1024 * 300


def test_a_file_that_is_not_there_is_a_gap_of_its_dataset() -> None:
    found = collect(MINIKUBE)
    assert [each.dataset for each in found.gaps] == ["volume"]
    assert "persistentvolume" in found.gaps[0].reason
    small = collect(CLUSTERS / "kube-small-vcr")
    assert [each.dataset for each in small.gaps] == ["usage", "load_balancer"]
    assert rows(small, "volume").height == 1


def test_a_folder_that_is_not_there_is_all_gaps(tmp_path: Path) -> None:
    found = collect(tmp_path / "nowhere")
    assert [each.dataset for each in found.gaps] == list(DATASETS)
    assert "cannot be listed" in found.gaps[0].reason


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINIKUBE, tmp_path / "dump"))


def test_gzipped_lists_and_an_object_store_prefix_read_the_same(folder: Path) -> None:
    plain = collect(folder)
    for path in folder.glob("*.json"):
        path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    for path in (str(folder), f"file://{folder}"):
        packed = collect(path)
        assert len(packed.batches) == len(plain.batches)
        for left, right in zip(plain.batches, packed.batches, strict=True):
            assert left.rows.equals(right.rows)
            assert left.payload_sha256 == right.payload_sha256


def test_a_cut_gzip_or_a_broken_list_costs_only_its_dataset(folder: Path) -> None:
    packed = gzip.compress((folder / "pods.json").read_bytes())
    (folder / "pods.json").unlink()
    (folder / "pods.json.gz").write_bytes(packed[: len(packed) // 2])
    (folder / "namespaces.json").write_text("<html>")
    found = collect(folder)
    assert {each.dataset for each in found.gaps} == {"pod", "namespace", "volume"}
    assert rows(found, "node").height == 1
    assert rows(found, "usage").height == 17


def test_a_window_file_dates_the_dump(folder: Path) -> None:
    dated = {"start": "2026-06-26T10:15:00Z", "end": "2026-06-26T10:30:00Z"}
    (folder / "WINDOW.json").write_text(json.dumps(dated))
    hour = Window(CELL.start.replace(minute=0), CELL.start.replace(minute=0) + timedelta(hours=1))
    found = collect(folder, hour)
    end = datetime(2026, 6, 26, 10, 30, tzinfo=UTC)
    assert all(each.covered == ((CELL.start, end),) for each in found.batches)
    assert set(rows(found, "pod")["end_at"]) == {end}
    another = collect(folder, Window(hour.end, hour.end + timedelta(hours=1)))
    assert another.batches == []
    assert "speaks of [2026-06-26T10:15:00Z, 2026-06-26T10:30:00Z) only" in another.gaps[0].reason


@pytest.mark.parametrize("text", ['{"start": "2026-06-26"}', "{}", "not json", '{"start": 1}'])
def test_a_wrong_window_file_is_said(folder: Path, text: str) -> None:
    (folder / "WINDOW.json").write_text(text)
    found = collect(folder)
    assert found.batches == []
    assert "WINDOW.json" in found.gaps[0].reason


def test_an_undated_dump_is_not_served_as_an_older_past() -> None:
    before = Window(CELL.start - timedelta(days=30), CELL.end - timedelta(days=30))
    found = collect(MINIKUBE, before)
    assert {"pod", "node", "namespace"} <= {each.dataset for each in found.gaps}
    assert "the dump is younger" in found.gaps[0].reason
