"""A demo day through the Prometheus API says exactly what the demo's ground truth says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from prometheus_server import connect_to

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.demo import truth
from kubetally.demo.faults import Faults
from kubetally.demo.scenario import Scenario
from kubetally.demo.server import DemoServer
from kubetally.sources import prometheus
from kubetally.sources.rows import Collected
from kubetally.windows import HOUR, Window

DAY = Window.of_day(date(2026, 11, 4))
NOW = DAY.end + timedelta(hours=3)
SOURCE = SourceConfig("prometheus", "prometheus_test", interval_seconds=60)
CLUSTER = ClusterConfig("demo", (SOURCE,))
Quantities = dict[tuple[str, datetime], dict[str, Fraction]]


def collect(server: DemoServer, window: Window, monkeypatch: pytest.MonkeyPatch) -> Collected:
    connect_to(server.url, monkeypatch)
    return prometheus.collect(CLUSTER, SOURCE, window, now=NOW)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return Scenario()


@pytest.fixture(scope="module")
def demo_day(scenario: Scenario) -> Iterator[Collected]:
    with pytest.MonkeyPatch.context() as patch, DemoServer(scenario, clock=lambda: NOW) as server:
        yield collect(server, DAY, patch)


def rows_of(collected: Collected, dataset: str) -> list[dict[str, Any]]:
    return next(b.rows.to_dicts() for b in collected.batches if b.dataset == dataset)


def seconds(row: dict[str, Any]) -> Fraction:
    return Fraction((row["end_at"] - row["start_at"]) // timedelta(microseconds=1), 10**6)


def hours(row: dict[str, Any]) -> Iterator[tuple[datetime, Fraction]]:
    for piece in Window(row["start_at"], row["end_at"]).chunks(HOUR):
        whole = piece.start.replace(minute=0, second=0, microsecond=0)
        yield whole, Fraction((piece.end - piece.start) // timedelta(microseconds=1), 10**6)


def held(collected: Collected) -> Quantities:
    """Per pod and hour what it held: the integral over its rows with a node and not terminal."""
    found: Quantities = defaultdict(lambda: defaultdict(Fraction))
    for row in rows_of(collected, "pod"):
        if row["node"] is None or row["phase"] in {"Succeeded", "Failed"}:
            continue
        for hour, length in hours(row):
            one = found[row["uid"], hour]
            one["seconds"] += length
            one["cpu"] += length * Fraction(row["cpu_request_cores"])
            one["memory"] += length * Fraction(row["memory_request_bytes"])
            one["gpu"] += length * Fraction(row["gpu_request"])
    return found


def used(collected: Collected) -> Quantities:
    found: Quantities = defaultdict(lambda: defaultdict(Fraction))
    for row in rows_of(collected, "usage"):
        assert row["start_at"].replace(minute=0, second=0) + HOUR >= row["end_at"]
        one = found[row["uid"], row["start_at"].replace(minute=0, second=0, microsecond=0)]
        one["cpu"] += Fraction(row["cpu_used_core_seconds"] or 0)
        one["memory"] += Fraction(row["memory_used_byte_seconds"] or 0)
    return found


def test_a_demo_day_has_no_gaps_and_no_rejects(demo_day: Collected) -> None:
    assert demo_day.gaps == []
    assert {b.dataset: b.rejects for b in demo_day.batches} == dict.fromkeys(
        ("pod", "node", "usage", "namespace", "volume"), ()
    )
    assert all(batch.covered == ((DAY.start, DAY.end),) for batch in demo_day.batches)


def test_pods_hold_and_use_what_the_ground_truth_says(
    demo_day: Collected, scenario: Scenario
) -> None:
    wanted_held: Quantities = {}
    wanted_used: Quantities = {}
    for one in truth.pod_hours(scenario, DAY):
        key = (one.pod.uid, one.hour)
        if one.held_seconds:
            wanted_held[key] = {
                "seconds": Fraction(one.held_seconds),
                "cpu": one.cpu_requested,
                "memory": one.memory_requested,
                "gpu": one.gpu_requested,
            }
        if one.cpu_used or one.memory_used:
            wanted_used[key] = {"cpu": one.cpu_used, "memory": one.memory_used}
    assert held(demo_day) == wanted_held
    assert used(demo_day) == wanted_used
    assert len(wanted_held) > 1000


def test_nodes_exist_as_long_as_the_ground_truth_says(
    demo_day: Collected, scenario: Scenario
) -> None:
    lived: dict[tuple[str, datetime], Fraction] = defaultdict(Fraction)
    for row in rows_of(demo_day, "node"):
        assert row["cpu_capacity_cores"] and row["memory_allocatable_bytes"]
        for hour, length in hours(row):
            lived[row["node"], hour] += length
    assert lived == {
        (one.node.name, one.hour): Fraction(one.seconds) for one in truth.node_hours(scenario, DAY)
    }


def test_node_facts_are_those_of_the_scenario(demo_day: Collected, scenario: Scenario) -> None:
    pools = {row["node"]: row for row in rows_of(demo_day, "node")}
    start = int(DAY.start.timestamp())
    nodes = scenario.nodes(start, start + 86400)
    assert {node.name for node in nodes} == set(pools)
    for node in nodes:
        row = pools[node.name]
        assert row["instance_type"] == node.pool.instance_type
        assert row["region"] == scenario.region
        assert row["uid"] == node.system_uuid
        assert row["capacity_type"] == ("spot" if node.pool.is_spot else None)
        assert row["gpu_capacity"] == str(node.pool.gpus)
        assert row["gpu_model"] == (node.pool.gpu_model or None)
        assert row["created_at"] == datetime.fromtimestamp(node.created, UTC)


def test_workloads_are_named_as_the_scenario_names_them(
    demo_day: Collected, scenario: Scenario
) -> None:
    start = int(DAY.start.timestamp())
    wanted = {
        pod.uid: (pod.workload.kind, pod.workload.name)
        for pod in scenario.pods(start, start + 86400)
    }
    named = {
        row["uid"]: (row["workload_kind"], row["workload_name"]) for row in rows_of(demo_day, "pod")
    }
    assert named.items() <= wanted.items()


def test_a_silence_of_prometheus_is_uncovered_and_not_zero(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = Window(DAY.start + 10 * HOUR, DAY.start + 12 * HOUR)
    faults = Faults(gaps=(("2026-11-04T10:20:00Z", "2026-11-04T10:50:00Z"),))
    with DemoServer(scenario, clock=lambda: NOW, faults=faults) as server:
        collected = collect(server, window, monkeypatch)
    pod = next(b for b in collected.batches if b.dataset == "pod")
    assert pod.covered == (
        (window.start, window.start + timedelta(minutes=20)),
        (window.start + timedelta(minutes=50), window.end),
    )
    assert all(
        not (row["start_at"] < window.start + timedelta(minutes=49) < row["end_at"])
        for row in rows_of(collected, "pod") + rows_of(collected, "usage")
    )


def test_two_hours_apart_say_what_they_say_together(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = DAY.start + 10 * HOUR
    both = Window(start, start + 2 * HOUR)
    with DemoServer(scenario, clock=lambda: NOW) as server:
        together = collect(server, both, monkeypatch)
        parts = [collect(server, hour, monkeypatch) for hour in both.chunks(HOUR)]
    for batch in together.batches:
        apart = [row for part in parts for row in rows_of(part, batch.dataset)]
        if batch.dataset == "usage":
            assert as_set(apart) == as_set(batch.rows.to_dicts())
        else:
            cut = [
                {**row, "start_at": piece.start, "end_at": piece.end}
                for row in batch.rows.to_dicts()
                for hour in both.chunks(HOUR)
                if (piece := overlap(row, hour))
            ]
            assert as_set(apart) == as_set(cut)


def as_set(rows: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    return {tuple(f"{k}={v}" for k, v in row.items()) for row in rows}


def overlap(row: dict[str, Any], window: Window) -> Window | None:
    start, end = max(row["start_at"], window.start), min(row["end_at"], window.end)
    return Window(start, end) if start < end else None
