"""Readings become hours in the warehouse: resets, first looks, gaps, host networks; any order, any number of times."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import text

from database import Warehouse
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate.stage import begin, consolidate
from kubetally.sources.rows import Batch, Collected, frame
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import land
from kubetally.windows import Window
from oracles.by_hand import cases

T0 = datetime(2026, 11, 3, 10, 30, tzinfo=UTC)
HOUR = Window(datetime(2026, 11, 3, 10, tzinfo=UTC), datetime(2026, 11, 3, 11, tzinfo=UTC))
HOURS = Window(HOUR.start - timedelta(hours=1), HOUR.end + timedelta(hours=1))
MINUTE = timedelta(minutes=1)
NOW = datetime(2026, 11, 4, tzinfo=UTC)
CLUSTER = ClusterConfig(
    "stats", (SourceConfig("kubernetes", "unused"), SourceConfig("kubelet", "unused"))
)

pytestmark = pytest.mark.usefixtures("warehouse")


def second(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def reading(
    seconds: float, *, cell: timedelta = MINUTE, start: float | None = -600, **told: Any
) -> dict[str, Any]:
    """A reading of container web `seconds` after T0, stated over the cell it was taken in."""
    sampled_at = second(seconds)
    begins = T0 + ((sampled_at - T0) // cell) * cell
    return {
        "start_at": begins,
        "end_at": begins + cell,
        "uid": "u1",
        "namespace": "shop",
        "pod": "web-0",
        "container": "web",
        "node": "n1",
        "started_at": None if start is None else second(start),
        "sampled_at": sampled_at,
    } | {
        name: str(value) if isinstance(value, int | float) else value
        for name, value in told.items()
    }


def other(seconds: float) -> dict[str, Any]:
    """A reading of some older container of the same node: proof that the node was looked at."""
    return reading(seconds, pod="old-0", uid="u0", cpu_seconds_total=1)


def hours_of(
    readings: Iterable[dict[str, Any]], *, pods: Iterable[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """What the readings come to, by pod, container and hour; hours of `other` left out."""
    whole = ((HOURS.start, HOURS.end),)
    batch = Batch("container_stats", HOURS, frame("container_stats", readings), whole, "0" * 64)
    land(engine("loader"), CLUSTER, Collected("kubelet", [batch]), now=NOW)
    known = Batch("pod", HOURS, frame("pod", pods), whole, "0" * 64)
    land(engine("loader"), CLUSTER, Collected("kubernetes", [known]), now=NOW)
    publisher = engine("publisher")
    stage = begin(publisher, CLUSTER, HOURS, "hourly", now=NOW)
    consolidate(publisher, stage)
    with publisher.connect() as connection:
        rows = connection.execute(
            text(
                "select * from core.container_stats_hour where stage_id = :stage_id and pod <> 'old-0'"
                " order by hour, pod, container, device"
            ),
            {"stage_id": stage.stage_id},
        )
        return [dict(row) for row in rows.mappings()]


def cpu(readings: Iterable[dict[str, Any]]) -> tuple[Decimal | None, Decimal, int]:
    """CPU, covered seconds and resets of the one container."""
    rows = hours_of(readings)
    used = [
        row["cpu_used_core_seconds"] for row in rows if row["cpu_used_core_seconds"] is not None
    ]
    return (
        sum(used) if used else None,
        sum((row["covered_seconds"] for row in rows), Decimal(0)),
        sum(row["resets"] for row in rows),
    )


def test_two_readings_give_an_interval() -> None:
    assert cpu([reading(0, cpu_seconds_total=100), reading(60, cpu_seconds_total=160)]) == (
        60,
        60,
        0,
    )


@pytest.mark.claims("CN-01")
def test_the_mean_over_the_window_is_the_difference() -> None:
    given = cases()["CN-01"]["given"]
    used, seconds, _ = cpu(
        [
            reading(0, cpu_seconds_total=given["prev_cpu_s"]),
            reading(given["window_s"], cpu_seconds_total=given["curr_cpu_s"]),
        ]
    )
    assert used is not None
    assert f"{used / seconds * 1000:.0f} millicores" == cases()["CN-01"]["expect"]


@pytest.mark.claims("CN-02")
def test_a_counter_that_went_down_counts_what_it_shows_and_is_flagged() -> None:
    given = cases()["CN-02"]["given"]
    before, after = given["prev_cpu_s"], given["curr_cpu_s"]
    found = cpu([reading(0, cpu_seconds_total=before), reading(60, cpu_seconds_total=after)])
    assert found == (3, 60, 1)


@pytest.mark.claims("CN-03")
def test_sent_bytes_never_wrap() -> None:
    given = cases()["CN-03"]["given"]
    rows = hours_of(
        [
            reading(seconds, container="", network_transmit_bytes_total=given[name])
            for seconds, name in ((0, "prev_tx"), (60, "curr_tx"))
        ]
    )
    assert [(row["network_transmit_bytes"], row["resets"]) for row in rows] == [(100, 1)]


@pytest.mark.claims("CN-04")
def test_a_window_of_no_length_gives_nothing() -> None:
    same = [reading(0, cpu_seconds_total=5), reading(0, cpu_seconds_total=5)]
    assert cpu(same)[0] is None


@pytest.mark.claims("CN-05")
def test_the_first_look_is_a_baseline() -> None:
    assert cpu([reading(0, cpu_seconds_total=45)])[0] is None


def test_a_container_that_began_after_the_look_before_counts_from_its_start() -> None:
    """The first window of a short container is not lost (it was, in the program we come from)."""
    found = cpu([other(0), other(60), reading(60, start=20, cpu_seconds_total=7)])
    assert found == (7, 40, 0)


def test_a_container_older_than_the_look_before_has_no_first_window() -> None:
    assert cpu([other(0), other(60), reading(60, start=-5, cpu_seconds_total=7)])[0] is None


def test_without_a_look_before_the_start_proves_nothing() -> None:
    assert cpu([other(60), reading(60, start=20, cpu_seconds_total=7)])[0] is None


@pytest.mark.claims("C03", "C04")
@pytest.mark.parametrize("case_id", ["C03", "C04"])
def test_a_later_start_is_a_reset_also_where_the_value_grew(case_id: str) -> None:
    case = cases()[case_id]
    told = [case["input"][name] for name in ("prev", "curr")]
    used, covered, resets = cpu(
        [reading(each["t"], start=each["start"], cpu_seconds_total=each["cpu_s"]) for each in told]
    )
    assert used == Decimal(str(case["right"]["cpu_core_seconds"]))
    assert (covered, resets) == (60 - told[1]["start"], 1)


def test_another_container_id_is_a_reset_where_no_start_is_told() -> None:
    found = cpu(
        [
            reading(0, start=None, container_id="aaaa", cpu_seconds_total=5),
            reading(60, start=None, container_id="bbbb", cpu_seconds_total=9),
        ]
    )
    assert found == (9, 60, 1)


@pytest.mark.claims("C05")
def test_readings_are_ordered_by_their_own_time_not_by_arrival() -> None:
    case = cases()["C05"]
    samples = case["input"]["samples"]
    first = min(datetime.fromisoformat(each["time"]) for each in samples)
    used, covered, resets = cpu(
        [
            # Which cell a reading arrived in does not matter.
            reading(
                arrival * 20, start=None, cpu_seconds_total=str(Decimal(each["cpu_ns"]) / 10**9)
            )
            | {"sampled_at": T0 + (datetime.fromisoformat(each["time"]) - first)}
            for arrival, each in enumerate(samples)
        ]
    )
    assert used == Decimal(str(case["right"]["cpu_core_seconds"]))
    assert (covered, resets) == (case["right"]["window_seconds"], 0)


@pytest.mark.claims("C06")
def test_a_pod_that_came_back_under_its_name_is_another_pod() -> None:
    case = cases()["C06"]
    readings = [
        reading(
            600 - each["sample_age_s"],
            uid=each["uid"],
            pod=each["pod"],
            node=each["node"],
            memory_working_set_bytes=each["memory"],
        )
        for each in case["input"]["series"]
    ]
    live = case["input"]["live_uid"]
    pods = [
        {
            "start_at": T0,
            "end_at": HOUR.end,
            "uid": live,
            "namespace": "shop",
            "pod": "redis-0",
            "node": "n2",
            "phase": "Running",
        }
    ]
    rows = hours_of(readings, pods=pods)
    of_live = [row for row in rows if row["node"] == "n2"]
    assert [row["memory_working_set_max_bytes"] for row in of_live] == [
        case["right"]["memory_bytes"]
    ]
    assert len(rows) == 2  # never one sum


@pytest.mark.claims("CN-09")
def test_a_muted_span_drops_the_baseline() -> None:
    given = cases()["CN-09"]["given"]
    muted = [
        reading(0, container="", network_transmit_bytes_total=given["tx_t0"]),
        reading(3600, container="", network_transmit_bytes_total=given["tx_t60"]),
    ]
    assert [row["network_transmit_bytes"] for row in hours_of(muted)] == [None, None]


@pytest.mark.claims("CN-07", "C17")
def test_a_pod_on_the_host_s_network_has_none_of_its_own() -> None:
    """All of them show the node's interface; only the pod with its own has traffic of its own."""
    case = cases()["C17"]
    names = ("hostNetwork pod A eth0 rx", "hostNetwork pod B eth0 rx", "pod C eth0 rx")
    pods, readings = [], []
    for pod, name in zip("ABC", names, strict=True):
        pods.append(
            {
                "start_at": HOUR.start,
                "end_at": HOUR.end,
                "uid": f"u-{pod}",
                "namespace": "shop",
                "pod": pod,
                "node": "n1",
                "phase": "Running",
                "host_network": name.startswith("hostNetwork"),
            }
        )
        for seconds, total in ((0, 0), (60, case["input"][name])):
            told = {"uid": f"u-{pod}", "pod": pod, "container": ""}
            readings.append(reading(seconds, **told, network_receive_bytes_total=total))
    received = {row["pod"]: row["network_receive_bytes"] for row in hours_of(readings, pods=pods)}
    assert received == {pod: case["right"][pod] for pod in "ABC"}


def test_a_mirror_pod_is_found_by_its_name() -> None:
    """Its cgroup carries the hash of its configuration, not the uid the API server gave it."""
    pod = {
        "start_at": HOUR.start,
        "end_at": HOUR.end,
        "uid": "api-uid",
        "namespace": "kube-system",
        "pod": "etcd-n1",
        "node": "n1",
        "phase": "Running",
    }
    told = {"uid": "config-hash", "namespace": "kube-system", "pod": "etcd-n1"}
    rows = hours_of(
        [reading(0, **told, cpu_seconds_total=1), reading(60, **told, cpu_seconds_total=2)],
        pods=[pod],
    )
    assert [row["pod_key"] is not None for row in rows] == [True]


def test_zeros_are_kept_and_missing_stays_missing() -> None:
    row = hours_of([reading(0, cpu_seconds_total=5), reading(60, cpu_seconds_total=5)])[0]
    assert row["cpu_used_core_seconds"] == 0
    assert row["cpu_throttled_seconds"] is None
    assert row["memory_working_set_byte_seconds"] is None


def test_unlimited_memory_is_no_limit_of_zero() -> None:
    row = hours_of([reading(0, memory_working_set_bytes=100)])[0]
    assert (row["memory_limited_seconds"], row["memory_limit_byte_seconds"]) == (0, None)


def test_an_interval_over_the_hour_is_cut_and_its_parts_re_add() -> None:
    rows = hours_of(
        [reading(1790, cpu_seconds_total=0), reading(1820, cpu_seconds_total=10)]
    )  # 10 s before and 20 s after 11:00
    assert [row["cpu_used_core_seconds"] for row in rows] == [
        Decimal("3.333333333"),
        Decimal("6.666666667"),
    ]
    assert sum(row["covered_seconds"] for row in rows) == 30


def test_a_gauge_holds_until_the_next_reading_else_for_one_cell() -> None:
    rows = hours_of(
        [
            reading(0, memory_working_set_bytes=10),
            reading(55, memory_working_set_bytes=30),
            reading(600, memory_working_set_bytes=20),
        ]
    )
    assert rows[0]["gauge_seconds"] == 55 + 60 + 60
    assert rows[0]["memory_working_set_byte_seconds"] == 10 * 55 + 30 * 60 + 20 * 60
    assert rows[0]["memory_working_set_max_bytes"] == 30


def test_syscalls_count_by_name_and_begin_anew_with_their_exporter() -> None:
    told = [
        {"read": "100", "write": "5"},
        {"read": "130", "write": "5", "open": "2"},
        {"read": "4"},
    ]
    rows = hours_of(
        [reading(60 * n, syscalls_total=json.dumps(counts)) for n, counts in enumerate(told)]
    )
    assert rows[0]["syscalls_by_name"] == {"read": 34, "write": 0, "open": 2}
    assert rows[0]["syscalls"] == 36


def test_order_and_repetition_of_landings_change_nothing(warehouse: Warehouse) -> None:
    readings = [
        reading(60 * n, start=-600 if n < 3 else 170, cpu_seconds_total=value)
        for n, value in enumerate((10, 20, 31, 4, 9))
    ]
    expected = hours_of(readings)
    shuffled = readings * 2
    random.Random(7).shuffle(shuffled)
    again = hours_of(shuffled)
    ids = {"stage_id"}
    assert [{k: v for k, v in row.items() if k not in ids} for row in again] == [
        {k: v for k, v in row.items() if k not in ids} for row in expected
    ]
    assert expected[0]["cpu_used_core_seconds"] == 10 + 11 + 4 + 5


def test_gpu_readings_stand_by_device() -> None:
    rows = hours_of(
        [
            reading(
                60 * n, device=device, gpu_utilisation_percent=50, gpu_energy_joules_total=100 * n
            )
            for device in ("GPU-1", "GPU-2/7")
            for n in range(2)
        ]
    )
    assert [(row["device"], row["gpu_busy_seconds"], row["gpu_energy_joules"]) for row in rows] == [
        ("GPU-1", 60, 100),
        ("GPU-2/7", 60, 100),
    ]
