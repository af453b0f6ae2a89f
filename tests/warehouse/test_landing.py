"""Landing replaces what a source said about a window, whole or not at all, and decides who speaks."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import psycopg2
import pytest

from allocate.scene import (
    A_DAY,
    DAY,
    NOW,
    Said,
    a_day,
    cluster_of,
    hours,
    land_said,
    node,
    pod,
    query,
    span,
    usage,
)
from kubetally.errors import ConfigError
from kubetally.sources.rows import Collected, Gap, Reject
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import acknowledge_gap, land
from kubetally.windows import Window

BOTH = cluster_of("c", "prometheus", "kubernetes")


def spoken(dataset="pod", window=A_DAY):
    """Who speaks when: (source, from hour, to hour)."""
    return [
        (
            row.source,
            (row.span.lower - DAY) / timedelta(hours=1),
            (row.span.upper - DAY) / timedelta(hours=1),
        )
        for row in query(
            "select load.source, spoken.span from ops.spoken(cast(1 as smallint), :dataset, :start, :end)"
            " as spoken join ops.load using (load_id) order by spoken.span",
            dataset=dataset,
            start=window.start,
            end=window.end,
        )
    ]


def rows_in(dataset):
    return query(f"select count(*) from raw.{dataset}_interval")[0][0]


def about(start, end, source="prometheus", silent=()):
    """What a source says of a part of the day; one pod, named after the source."""
    window = hours(start, end)
    rows = {"pod": [pod(source, (window.start, window.end), node="n")]}
    return Said(window, rows, silent={"pod": [span(*hole) for hole in silent]}, source=source)


def test_the_same_content_twice_keeps_the_load(warehouse):
    first = land_said(BOTH, a_day())
    again = land_said(BOTH, a_day(), now=NOW + timedelta(days=1))
    assert again.load_ids == first.load_ids
    assert (first.unchanged, again.unchanged) == (0, 4)
    assert query("select count(*) from ops.load")[0][0] == 4


def test_rows_in_another_order_are_the_same_content(warehouse):
    first = land_said(BOTH, a_day())
    turned = {dataset: list(reversed(rows)) for dataset, rows in a_day().rows.items()}
    assert land_said(BOTH, replace(a_day(), rows=turned)).load_ids == first.load_ids


def test_new_content_replaces_the_window_and_its_rows(warehouse):
    land_said(BOTH, a_day())
    before = rows_in("pod")
    changed = a_day()
    changed.rows["pod"].pop()
    land_said(BOTH, changed)
    assert rows_in("pod") == before - 1
    assert spoken() == [("prometheus", 0, 24)]
    states = query(
        "select superseded_at is not null, count(*) from ops.load where dataset = 'pod' group by 1 order by 1"
    )
    assert [tuple(row) for row in states] == [(False, 1), (True, 1)]


def test_an_hour_replaces_its_part_of_the_day_and_the_day_replaces_the_hours(warehouse):
    day = land_said(BOTH, about("00:00", "24:00"), datasets=["pod"])
    hour = land_said(BOTH, about("05:00", "06:00"), datasets=["pod"])
    loads = query(
        "select load_id from ops.spoken(cast(1 as smallint), 'pod', :start, :end)"
        " as spoken order by span",
        start=A_DAY.start,
        end=A_DAY.end,
    )
    assert [row.load_id for row in loads] == [*day.load_ids, *hour.load_ids, *day.load_ids]
    assert spoken() == [("prometheus", 0, 5), ("prometheus", 5, 6), ("prometheus", 6, 24)]
    land_said(BOTH, about("00:00", "24:00"), datasets=["pod"])
    assert spoken() == [("prometheus", 0, 24)]
    assert rows_in("pod") == 1


def test_a_later_load_of_a_source_that_comes_second_takes_nothing_over(warehouse):
    land_said(BOTH, about("00:00", "12:00"), datasets=["pod"])
    land_said(BOTH, about("00:00", "24:00", "kubernetes"), datasets=["pod"])
    assert spoken() == [("prometheus", 0, 12), ("kubernetes", 12, 24)]


def test_the_second_source_speaks_where_the_first_one_could_not(warehouse):
    land_said(BOTH, about("00:00", "24:00", "kubernetes"), datasets=["pod"])
    land_said(BOTH, about("00:00", "24:00", silent=[("03:00", "04:00")]), datasets=["pod"])
    assert spoken() == [("prometheus", 0, 3), ("kubernetes", 3, 4), ("prometheus", 4, 24)]


def test_current_loads_never_speak_for_the_same_time(warehouse):
    told = [
        about("00:00", "24:00", silent=[("03:00", "04:00"), ("20:00", "22:00")]),
        about("02:00", "05:00", "kubernetes"),
        about("01:00", "04:00"),
        about("03:30", "23:00", "kubernetes", silent=[("21:00", "21:30")]),
        about("21:00", "24:00", silent=[("23:00", "24:00")]),
    ]
    for said in [*told, *reversed(told)]:
        land_said(BOTH, said, datasets=["pod"])
        spans = spoken()
        assert all(before[2] <= after[1] for before, after in pairwise(spans))


def test_a_batch_is_cut_at_midnight(warehouse):
    window = Window(A_DAY.start - timedelta(hours=2), A_DAY.start + timedelta(hours=2))
    rows = {
        "pod": [
            pod("p", (window.start - timedelta(hours=9), window.end + timedelta(hours=9)), node="n")
        ],
        "usage": [usage("p", (A_DAY.start, A_DAY.start + timedelta(minutes=5)), cpu="1")],
    }
    landed = land_said(BOTH, Said(window, rows))
    assert len(landed.load_ids) == 8
    clipped = query("select start_at, end_at from raw.pod_interval order by start_at")
    assert [tuple(row) for row in clipped] == [
        (window.start, A_DAY.start),
        (A_DAY.start, window.end),
    ]
    assert rows_in("usage") == 1


ODD = "a\"b,c\\N\nd\te\\f;\u2603 'g' \x00h"


def test_odd_text_arrives_as_it_was_but_for_what_postgres_cannot_hold(warehouse):
    labels = json.dumps({"odd": ODD.replace("\x00", ""), "nul": "x\x00y"}, sort_keys=True)
    rows = [
        pod(ODD, (A_DAY.start, A_DAY.end), node="\\N", labels=labels, phase=""),
        pod("plain", (A_DAY.start, A_DAY.end), node=None, labels=None),
    ]
    land_said(BOTH, Said(A_DAY, {"pod": rows}))
    found = query("select pod, node, phase, labels from raw.pod_interval order by pod")
    assert tuple(found[0]) == (
        ODD.replace("\x00", ""),
        "\\N",
        "",
        {"odd": ODD.replace("\x00", ""), "nul": "xy"},
    )
    assert (found[1].node, found[1].labels) == (None, None)


def test_a_landing_that_fails_leaves_what_was_there(warehouse):
    land_said(BOTH, a_day())
    before = query("select load_id, speaks_for, superseded_at from ops.load order by load_id")
    bad = Said(A_DAY, {"node": [node("n", (A_DAY.start, A_DAY.end), cpu_capacity_cores="four")]})
    with pytest.raises(psycopg2.DataError, match="four"):
        land_said(BOTH, bad, datasets=["node"])
    assert (
        query("select load_id, speaks_for, superseded_at from ops.load order by load_id") == before
    )
    assert rows_in("node") == 2


def test_rejects_are_kept_with_their_load(warehouse):
    reject = Reject(
        "pod", "shop/odd", "cpu: expected a quantity, found 'much'", '{"cpu": "much\x00"}'
    )
    landed = land_said(BOTH, replace(about("00:00", "24:00"), rejects=(reject,)), datasets=["pod"])
    assert landed.rejects == 1
    found = query("select load_id, object_name, reason, payload from ops.reject")
    assert [tuple(row) for row in found] == [
        (
            landed.load_ids[0],
            "shop/odd",
            "cpu: expected a quantity, found 'much'",
            '{"cpu": "much"}',
        )
    ]


def test_a_gap_is_written_down_and_an_acknowledgement_survives_meeting_it_again(warehouse):
    loader = engine("loader")
    gap = Gap("pod", hours("03:00", "04:00"), "503 from the API server")
    assert land(loader, BOTH, Collected("prometheus", gaps=[gap]), now=NOW).gaps == 1
    settled = acknowledge_gap(loader, "c", gap.window, reason="maintenance", who="a test", now=NOW)
    assert settled == 2
    land(loader, BOTH, Collected("prometheus", gaps=[replace(gap, reason="timeout")]), now=NOW)
    found = query(
        "select source, reason, acknowledgement from ops.gap where dataset = 'pod' order by source"
    )
    assert [tuple(row) for row in found] == [
        ("any", "no data", "maintenance"),
        ("prometheus", "timeout", None),
    ]
    assert spoken() == []


def test_a_source_the_cluster_does_not_list_is_refused(warehouse):
    with pytest.raises(ConfigError, match=r"lists no source of kind 'files'.*clusters\.yaml"):
        land_said(BOTH, a_day(source="files"))
    assert query("select count(*) from ops.load")[0][0] == 0
