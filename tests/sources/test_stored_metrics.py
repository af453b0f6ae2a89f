"""Files of openshift-usage-scripts load unchanged, by the segment rules their bills were made with."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from database import Warehouse
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate.stage import begin, consolidate
from kubetally.sources import files
from kubetally.sources.rows import Collected
from kubetally.sources.stored_metrics import Moment, segments
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import land
from kubetally.windows import Window
from oracles.by_hand import cases

DAY = Window.of_day(datetime(2024, 10, 11).date())
NEXT = Window.of_day(datetime(2024, 10, 12).date())
BOTH = Window(DAY.start, NEXT.end)
QUARTER = timedelta(minutes=15)


def series(values: dict[str, Any], day: Window = DAY, **labels: str) -> dict[str, Any]:
    """A Prometheus series; times as "HH:MM" of the day."""
    told = {"namespace": "ns1", "pod": "web", "node": "wrk-1", "resource": "cpu"} | labels
    return {
        "metric": told,
        "values": [
            [(day.start + timedelta(hours=int(at[:2]), minutes=int(at[3:]))).timestamp(), value]
            for at, value in values.items()
        ],
    }


def stored(
    cpu: list[dict[str, Any]],
    memory: list[dict[str, Any]] | None = None,
    gpu: list[dict[str, Any]] | None = None,
    *,
    day: Window = DAY,
    **more: Any,
) -> dict[str, Any]:
    text = day.start.date().isoformat()
    content = {
        "start_date": text,
        "end_date": text,
        "interval_minutes": 15,
        "cluster_name": "ocp-prod",
        "cpu_metrics": cpu,
        "memory_metrics": memory or [],
    }
    if gpu is not None:
        content["gpu_metrics"] = gpu
    return content | more


def write(folder: Path, content: dict[str, Any], *, packed: bool = False) -> None:
    month = folder / f"data_{content['start_date'][:7]}"
    month.mkdir(exist_ok=True)
    body = json.dumps(content).encode()
    name = f"metrics-{content['start_date']}.json"
    (month / (f"{name}.gz" if packed else name)).write_bytes(
        gzip.compress(body) if packed else body
    )


def collect(folder: Path, window: Window = DAY) -> Collected:
    source = SourceConfig("files", path=str(folder))
    cluster = ClusterConfig("stored", (source,))
    return files.collect(cluster, source, window, now=datetime(2024, 11, 1, tzinfo=UTC))


def pods(found: Collected) -> list[tuple[str, str, str]]:
    """(start, end, cores) of each statement, in order."""
    (batch,) = (each for each in found.batches if each.dataset == "pod")
    return [
        (f"{row['start_at']:%H:%M}", f"{row['end_at']:%H:%M}", row["cpu_request_cores"])
        for row in batch.rows.sort("namespace", "pod", "start_at").to_dicts()
    ]


def test_a_day_of_files_gives_pods_nodes_and_their_gpus(tmp_path: Path) -> None:
    gpu = {
        "label_nvidia_com_gpu_product": "Tesla-V100-PCIE-32GB",
        "label_nvidia_com_gpu_machine": "PowerEdge-R740xd",
    }
    when = {"10:00": "1", "10:15": "1"}
    write(
        tmp_path,
        stored(
            [series(when, label_nerc_mghpcc_org_class="cs101")],
            [series({"10:00": "1073741824", "10:15": "1073741824"}, resource="memory")],
            [series(when, resource="nvidia_com_gpu", **gpu)],
        ),
    )
    found = collect(tmp_path)
    rows = {batch.dataset: batch.rows.to_dicts() for batch in found.batches}
    (pod,) = rows["pod"]
    assert (pod["memory_request_bytes"], pod["gpu_request"]) == ("1073741824", "1")
    assert pod["gpu_resource"] == "nvidia.com/gpu"
    assert pod["uid"] == "ns1/web@2024-10-11T10:00:00Z"
    assert json.loads(pod["labels"]) == {"nerc.mghpcc.org/class": "cs101"}
    (node,) = rows["node"]
    assert (node["node"], node["gpu_model"]) == ("wrk-1", "Tesla-V100-PCIE-32GB")
    assert found.batches[0].covered == (
        (DAY.start + timedelta(hours=10), DAY.start + timedelta(hours=10, minutes=30)),
    )
    assert {gap.dataset for gap in found.gaps} == {
        "usage",
        "namespace",
        "volume",
        "load_balancer",
    }


@pytest.mark.claims("DUR-01", "DUR-02", "DUR-03", "DUR-04", "DUR-08")
@pytest.mark.parametrize("case_id", ["DUR-01", "DUR-02", "DUR-03", "DUR-04", "DUR-08"])
def test_segments_are_those_of_the_bills(case_id: str) -> None:
    given = cases()[case_id]["given"]
    moments = {}
    for at, said in given["samples"].items():
        cpu, memory = said if isinstance(said, list) else (said, 1)
        moments[int(at)] = Moment(cpu=Decimal(str(cpu)), memory=Decimal(str(memory)))
    found = [
        {
            "start": int(each.start.timestamp()),
            "duration": int((each.end - each.start).total_seconds()),
        }
        for each in segments(moments, timedelta(seconds=given["interval_s"]))
    ]
    assert found == cases()[case_id]["expect"]


@pytest.mark.claims("DUR-05")
def test_another_gpu_or_another_count_of_it_is_another_segment() -> None:
    case = cases()["DUR-05"]
    gpus = {
        (1800, 2700): ("V100", 1),
        (3600, 5400): ("A100SXM4", 1),
        (6300, 7200): ("A100SXM4", 3),
    }
    moments = {}
    for moment in range(0, 8101, case["given"]["interval_s"]):
        model, count = next(
            (gpu for (first, last), gpu in gpus.items() if first <= moment <= last), (None, 0)
        )
        moments[moment] = Moment(
            cpu=Decimal(1),
            memory=Decimal(4),
            gpu=Decimal(count),
            gpu_model=model,
            gpu_resource="nvidia.com/gpu",
        )
    found = []
    for each in segments(moments, timedelta(seconds=case["given"]["interval_s"])):
        told = {
            "start": int(each.start.timestamp()),
            "duration": int((each.end - each.start).total_seconds()),
        }
        if each.what.gpu:
            told["gpu"] = f"{each.what.gpu_model}x{each.what.gpu}"
        found.append(told)
    assert found == case["expect"]


def quarters(count: int, start: int = 0) -> list[str]:
    """Clock times a quarter of an hour apart."""
    return [f"{n // 4:02}:{n % 4 * 15:02}" for n in range(start, start + count)]


def core_hours(tmp_path: Path) -> Decimal:
    cluster = ClusterConfig("stored", (SourceConfig("files", path=str(tmp_path)),))
    land(engine("loader"), cluster, collect(tmp_path), now=DAY.end)
    publisher = engine("publisher")
    consolidate(publisher, begin(publisher, cluster, DAY, "daily", now=DAY.end))
    with publisher.connect() as connection:
        seconds = connection.exec_driver_sql(
            "select sum(cpu_request_core_seconds) from core.pod_hour"
        ).scalar_one()
    return Decimal(seconds) / 3600


@pytest.mark.claims("C25")
def test_a_day_of_quarters_is_twenty_four_hours(tmp_path: Path, warehouse: Warehouse) -> None:
    given = cases()["C25"]["input"]
    write(tmp_path, stored([series(dict.fromkeys(quarters(given["samples"]), given["request"]))]))
    assert core_hours(tmp_path) == Decimal(str(cases()["C25"]["right"]["core_hours"]))


@pytest.mark.claims("C26")
def test_a_gap_in_the_samples_is_not_billed(tmp_path: Path, warehouse: Warehouse) -> None:
    given, right = cases()["C26"]["input"], cases()["C26"]["right"]
    times = [quarters(1, seconds // given["step_s"])[0] for seconds in given["t"]]
    write(tmp_path, stored([series(dict(zip(times, map(str, given["v"]), strict=True)))]))
    assert pods(collect(tmp_path)) == [
        (quarters(1, run["from"] // 900)[0], quarters(1, run["to"] // 900)[0], str(run["v"]))
        for run in right["runs"]
    ]
    assert core_hours(tmp_path) == Decimal(right["core_hours"])


def test_a_pod_seen_once_is_billed_one_interval_and_a_gap_is_not(tmp_path: Path) -> None:
    write(tmp_path, stored([series({"10:00": "1", "12:00": "1"})]))
    assert pods(collect(tmp_path)) == [("10:00", "10:15", "1"), ("12:00", "12:15", "1")]


def test_a_run_over_midnight_is_one_pod_in_either_window(tmp_path: Path) -> None:
    write(tmp_path, stored([series({"23:30": "1", "23:45": "1"})]))
    write(tmp_path, stored([series({"00:00": "1"}, NEXT)], day=NEXT), packed=True)
    assert pods(collect(tmp_path, BOTH)) == [("23:30", "00:15", "1")]
    for window in (DAY, NEXT):
        (batch,) = (each for each in collect(tmp_path, window).batches if each.dataset == "pod")
        assert batch.rows["uid"].to_list() == ["ns1/web@2024-10-11T23:30:00Z"]


def test_the_later_file_wins_and_reading_twice_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, stored([series({"23:15": "10", "23:30": "10", "23:45": "10"})]))
    later = stored([series({"23:30": "8", "23:45": "8"}), series({"00:00": "10"}, NEXT)], day=NEXT)
    write(tmp_path, later)
    right = [("23:15", "23:30", "10"), ("23:30", "00:00", "8"), ("00:00", "00:15", "10")]
    assert pods(collect(tmp_path, BOTH)) == right
    first, again = collect(tmp_path, BOTH), collect(tmp_path, BOTH)
    assert [each.rows.to_dicts() for each in first.batches] == [
        each.rows.to_dicts() for each in again.batches
    ]


def test_one_name_in_two_namespaces_is_two_pods(tmp_path: Path) -> None:
    write(tmp_path, stored([series({"10:00": "1"}), series({"10:00": "2"}, namespace="ns2")]))
    assert pods(collect(tmp_path)) == [("10:00", "10:15", "1"), ("10:00", "10:15", "2")]


def test_files_of_two_intervals_do_not_mix(tmp_path: Path) -> None:
    write(tmp_path, stored([series({"10:00": "1"})]))
    write(tmp_path, stored([series({"10:00": "1"}, NEXT)], day=NEXT, interval_minutes=5))
    found = collect(tmp_path, BOTH)
    assert found.batches == []
    assert "interval of 0:05:00" in found.gaps[0].reason


def test_a_file_without_an_interval_is_of_fifteen_minutes(tmp_path: Path) -> None:
    content = stored([series({"10:00": "1"})])
    del content["interval_minutes"]
    write(tmp_path, content)
    assert pods(collect(tmp_path)) == [("10:00", "10:15", "1")]


def test_odd_series_are_rejected_and_nan_is_no_sample(tmp_path: Path) -> None:
    odd = [
        series({"10:00": "-1"}, pod="below-zero"),
        series({"10:00": "1"}, namespace=""),
        series({"10:00": "NaN", "10:15": "1"}),
    ]
    write(tmp_path, stored(odd, gpu=[series({"10:00": "1"}, resource="example_com_fpga")]))
    found = collect(tmp_path)
    (batch,) = (each for each in found.batches if each.dataset == "pod")
    assert [row["pod"] for row in batch.rows.to_dicts()] == ["web"]
    assert len(batch.rejects) == 3


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"start_date": "never"}'])
def test_a_file_that_is_none_is_a_gap_that_names_it(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "metrics-2024-10-11.json").write_bytes(body)
    found = collect(tmp_path)
    assert found.batches == []
    assert "metrics-2024-10-11.json" in found.gaps[0].reason


def test_stored_days_become_hours(tmp_path: Path, warehouse: Warehouse) -> None:
    write(tmp_path, stored([series({"10:00": "2", "10:15": "2", "10:30": "4"})]))
    cluster = ClusterConfig("stored", (SourceConfig("files", path=str(tmp_path)),))
    land(engine("loader"), cluster, collect(tmp_path), now=DAY.end)
    publisher = engine("publisher")
    stage = begin(publisher, cluster, DAY, "daily", now=DAY.end)
    counts = consolidate(publisher, stage)
    assert counts["pod_hour"] == 1
    with publisher.connect() as connection:
        row = connection.exec_driver_sql("select * from core.pod_hour").one()
    assert row.cpu_request_core_seconds == 2 * 1800 + 4 * 900
    assert row.seconds == 2700
