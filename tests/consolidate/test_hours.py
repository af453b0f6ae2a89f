"""What an hour is made of: short lives, partial knowledge, the edge of a month, days one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from allocate.scene import (
    NOW,
    Said,
    a_day,
    at,
    cluster_of,
    configure,
    hours,
    land_said,
    lines_of,
    node,
    pod,
    publish_stage,
    query,
    run_window,
    span,
    stage_window,
    usage,
)
from kubetally.windows import Window
from oracles.by_hand import cases

CLUSTER = cluster_of("c")
TEN = hours("10:00", "11:00")
WHOLE = span("10:00", "11:00")


@pytest.mark.claims("C27")
def test_a_short_life_costs_and_holds_that_long(warehouse):
    given, right = cases()["C27"]["input"], cases()["C27"]["right"]
    cost = Decimal(str(given[0]["cost_1h"]))
    ran = (at("10:34:57"), at("10:49:57"))
    configure()
    land_said(
        CLUSTER,
        Said(
            TEN,
            {
                "node": [node("n", span("10:00", "10:30")), node("m", WHOLE)],
                "pod": [pod("short", ran, node="m", cpu_request_cores="1")],
            },
        ),
    )
    stage = stage_window(CLUSTER, TEN, {"uid-n": str(cost), "uid-m": "1"})
    half_hour = sum(line.cost for line in lines_of(stage) if line.node == "uid-n")
    assert half_hour == cost / 2
    assert round(half_hour, 14) == round(Decimal(str(right[0])), 14)
    held = query("select pod.uid, seconds from core.pod_hour join core.pod using (pod_key)")
    assert held == [("uid-short", 60 * right[1])]  # and no row of what nobody spoke of


@pytest.mark.claims("C41")
def test_a_node_that_vanishes_costs_until_the_poll_that_misses_it(warehouse):
    configure()
    polls = [span(f"10:{n:02}", f"10:{n + 5:02}") for n in range(0, 25, 5)]
    land_said(CLUSTER, Said(TEN, {"node": [node("n", poll) for poll in polls]}))
    stage = stage_window(CLUSTER, TEN, {"uid-n": "60"})
    assert sum(line.cost for line in lines_of(stage)) == 25  # minutes, at 60 an hour


@pytest.mark.claims("AL-20")
def test_an_hour_known_in_part_is_kept_with_its_coverage(warehouse):
    given = cases()["AL-20"]["given"]
    known = [span(f"10:{5 * n:02}", f"10:{5 * n + 5:02}") for n in range(given["samples_known"])]
    configure()
    land_said(
        CLUSTER,
        Said(
            TEN,
            {
                "node": [node("n", WHOLE)],
                "pod": [pod("p", WHOLE, node="n")],
                "usage": [usage("p", each, cpu="150") for each in known],
            },
        ),
    )
    stage_window(CLUSTER, TEN, {"uid-n": "1"})
    (row,) = query("select * from core.pod_hour")
    assert row.cpu_used_covered_seconds / 3600 == Decimal(given["samples_known"]) / given["of"]
    assert row.cpu_used_core_seconds == 150 * given["samples_known"]


@pytest.mark.claims("AL-19")
def test_the_last_hour_of_a_month_belongs_to_it(warehouse):
    start, end = map(datetime.fromisoformat, cases()["AL-19"]["given"]["hour"].split("/"))
    hour = Window(start, end)
    configure()
    land_said(CLUSTER, Said(hour, {"node": [node("n", (start, end))]}))
    publish_stage(stage_window(CLUSTER, hour, {"uid-n": "10"}))
    assert [str(row[0]) for row in query("select day from bi.cost_day", "bi")] == ["2024-03-31"]
    assert [str(row[0]) for row in query("select month from bi.cost_month", "bi")] == ["2024-03-01"]


@pytest.mark.claims("BA-02")
def test_a_day_filled_later_leaves_the_other_days_as_they_are(warehouse):
    configure()
    first, second = (datetime(2026, 11, day, tzinfo=UTC) for day in (14, 15))
    land_said(CLUSTER, a_day(second))
    run_window(CLUSTER, Window(second, second + timedelta(days=1)))
    stored = costs_of(second)
    assert stored
    land_said(CLUSTER, a_day(first))
    run_window(CLUSTER, Window(first, first + timedelta(days=1)))
    assert costs_of(second) == stored
    land_said(CLUSTER, a_day(second, cpu_used="7200"), now=NOW + timedelta(days=1))
    run_window(CLUSTER, Window(second, second + timedelta(days=1)))
    assert costs_of(second) != stored


def costs_of(day):
    return sorted(
        map(
            tuple,
            query(
                "select line, owner, namespace, cost from bi.cost_day where day = :day",
                day=day.date(),
            ),
        )
    )
