"""From statements to hours: what is merged, cut, presumed and pinned."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from allocate.scene import (
    A_DAY,
    DAY,
    GIB,
    NOW,
    Said,
    a_day,
    at,
    cluster_of,
    configure,
    hours,
    land_said,
    node,
    pod,
    query,
    run_window,
    span,
    stage_window,
    usage,
)
from kubetally.allocate.allocate import price_nodes
from kubetally.consolidate.stage import begin, consolidate, find, node_facts, spans_by_as_of
from kubetally.errors import BadDataError
from kubetally.warehouse.connect import engine
from kubetally.windows import Window

CLUSTER = cluster_of("c", "prometheus", "kubernetes")
TEN = hours("10:00", "11:00")
TWO = hours("10:00", "12:00")


def staged(said, window=TEN, cluster=CLUSTER):
    """A stage with its core facts, of what one or more sources said."""
    for one in said if isinstance(said, list) else [said]:
        land_said(cluster, one)
    stage = begin(engine("publisher"), cluster, window, "daily", now=NOW)
    consolidate(engine("publisher"), stage)
    return stage


def segments(kind, stage):
    key = f"{kind}_key"
    return [
        (row.uid.removeprefix("uid-"), clock(row.during.lower), clock(row.during.upper), *row[2:])
        for row in query(
            f"select uid, during, {'is_presumed' if kind == 'node' else 'is_holding'}"
            f" from core.{kind}_segment join core.{kind} using ({key})"
            " where stage_id = :id order by uid, during",
            id=stage.stage_id,
        )
    ]


def clock(moment):
    minutes = (moment - DAY) // timedelta(minutes=1)
    return f"{minutes // 60:02}:{minutes % 60:02}"


def pod_hours(stage):
    return {
        (row.uid.removeprefix("uid-"), clock(row.hour)): row
        for row in query(
            "select pod_hour.*, pod.uid, node.uid as node from core.pod_hour join core.pod using (pod_key)"
            " left join core.node using (node_key) where stage_id = :id",
            id=stage.stage_id,
        )
    }


# --- windows --------------------------------------------------------------------------------------


def test_a_window_is_made_of_whole_hours(warehouse):
    with pytest.raises(BadDataError, match="not made of whole UTC hours"):
        begin(engine("publisher"), CLUSTER, hours("10:00", "10:30"), "hourly", now=NOW)


def test_an_unknown_stage_is_named(warehouse):
    refused = pytest.raises(BadDataError, match="no stage 77")
    with engine("publisher").connect() as connection, refused:
        find(connection, 77)


# --- segments -------------------------------------------------------------------------------------


def test_equal_neighbours_are_one_segment_and_a_change_cuts(warehouse):
    rows = [
        pod("p", span("10:00", "10:05"), node="n", cpu_request_cores="0.50"),
        pod("p", span("10:05", "10:10"), node="n", cpu_request_cores="0.5"),
        pod("p", span("10:10", "10:20"), node="n", cpu_request_cores="0.75"),
        pod("p", span("10:30", "10:40"), node="n", cpu_request_cores="0.75"),
        pod("p", span("10:40", "11:00"), node="n", cpu_request_cores="0.75", phase="Failed"),
    ]
    stage = staged(Said(TEN, {"pod": rows}))
    assert segments("pod", stage) == [
        ("p", "10:00", "10:10", True),
        ("p", "10:10", "10:20", True),
        ("p", "10:30", "10:40", True),
        ("p", "10:40", "11:00", False),
    ]
    hour = pod_hours(stage)["p", "10:00"]
    assert hour.seconds == 30 * 60
    assert hour.cpu_request_core_seconds == Decimal("0.5") * 600 + Decimal("0.75") * 1200


def test_a_waiting_pod_holds_nothing_and_has_no_hour(warehouse):
    rows = [pod("p", span("10:00", "11:00"), phase="Pending", cpu_request_cores="4")]
    stage = staged(Said(TEN, {"pod": rows}))
    assert segments("pod", stage) == [("p", "10:00", "11:00", False)]
    assert pod_hours(stage) == {}


def test_polls_of_a_day_end_as_one_segment(warehouse):
    rows = [
        pod(
            "p",
            (A_DAY.start + n * timedelta(minutes=5), A_DAY.start + (n + 1) * timedelta(minutes=5)),
            node="n",
        )
        for n in range(288)
    ]
    assert segments("pod", staged(Said(A_DAY, {"pod": rows}), A_DAY)) == [
        ("p", "00:00", "24:00", True)
    ]


# --- nodes nobody speaks of for a while -----------------------------------------------------------

PRESUMED = {
    "seen on both sides": (
        [node("n", span("10:00", "10:20")), node("n", span("10:40", "11:00"))],
        [
            ("n", "10:00", "10:20", False),
            ("n", "10:20", "10:40", True),
            ("n", "10:40", "11:00", False),
        ],
    ),
    "gone after the silence": (
        [node("n", span("10:00", "10:20"))],
        [("n", "10:00", "10:20", False)],
    ),
    "gone before the silence": (
        [node("n", span("10:00", "10:15")), node("n", span("10:40", "11:00"))],
        [("n", "10:00", "10:15", False), ("n", "10:40", "11:00", False)],
    ),
    "born after the silence began": (
        [
            node("n", span("10:00", "10:20")),
            node("n", span("10:40", "11:00")),
            node("m", span("10:40", "11:00"), created_at=at("10:30")),
        ],
        [
            ("m", "10:40", "11:00", False),
            ("n", "10:00", "10:20", False),
            ("n", "10:20", "10:40", True),
            ("n", "10:40", "11:00", False),
        ],
    ),
}


@pytest.mark.parametrize("rows, wanted", PRESUMED.values(), ids=PRESUMED)
def test_a_node_is_presumed_through_a_silence_it_was_seen_around(warehouse, rows, wanted):
    said = Said(TEN, {"node": rows}, silent={"node": [span("10:20", "10:40")]})
    assert segments("node", staged(said)) == wanted


def test_a_silence_that_touches_midnight_needs_one_side(warehouse):
    """Hours before the first and after the last that ever landed are silent, too."""
    rows = [
        node("old", span("10:00", "11:00")),
        node("new", span("10:00", "11:00"), created_at=at("09:30")),
    ]
    stage = staged(Said(TEN, {"node": rows}), hours("09:00", "12:00"))
    assert segments("node", stage) == [
        ("new", "09:30", "10:00", True),
        ("new", "10:00", "11:00", False),
        ("new", "11:00", "12:00", True),
        ("old", "09:00", "10:00", True),
        ("old", "10:00", "11:00", False),
        ("old", "11:00", "12:00", True),
    ]


def test_an_hour_without_any_statement_takes_its_nodes_from_its_neighbours(warehouse):
    land_said(CLUSTER, Said(TEN, {"node": [node("n", span("10:00", "11:00"))]}))
    land_said(CLUSTER, Said(hours("12:00", "13:00"), {"node": [node("n", span("12:00", "13:00"))]}))
    stage = begin(engine("publisher"), CLUSTER, hours("11:00", "12:00"), "hourly", now=NOW)
    consolidate(engine("publisher"), stage)
    assert segments("node", stage) == [("n", "11:00", "12:00", True)]
    (hour,) = query(
        "select seconds, covered_seconds from core.node_hour where stage_id = :id",
        id=stage.stage_id,
    )
    assert tuple(hour) == (3600, 0)


def test_presumed_seconds_are_covered_where_the_pods_are_known(warehouse):
    said = Said(
        TEN,
        {"node": [node("n", span("10:00", "10:20")), node("n", span("10:40", "11:00"))]},
        silent={"node": [span("10:20", "10:40")], "pod": [span("10:50", "11:00")]},
    )
    stage = staged(said)
    (hour,) = query("select seconds, covered_seconds, ready_seconds from core.node_hour")
    assert tuple(hour) == (3600, 3000, 2400)
    assert stage.window == TEN


# --- names ----------------------------------------------------------------------------------------


def test_a_name_that_comes_back_means_the_node_that_bore_it_then(warehouse):
    rows = {
        "node": [
            node("first", span("10:00", "10:25"), node="n"),
            node("second", span("10:35", "11:00"), node="n"),
        ],
        "pod": [
            pod("early", span("10:00", "10:28"), node="n"),
            pod("late", span("10:40", "11:00"), node="n"),
            pod("stray", span("10:00", "11:00"), node="ghost"),
        ],
    }
    found = pod_hours(staged(Said(TEN, rows)))
    assert {name: row.node for (name, _), row in found.items()} == {
        "early": "uid-first",
        "late": "uid-second",
        "stray": "node/ghost",
    }


def test_usage_without_a_uid_belongs_to_the_pod_that_lived_then(warehouse):
    rows = {
        "pod": [
            pod("db", span("10:00", "10:20"), uid="uid-old", node="n"),
            pod("db", span("10:30", "11:00"), uid="uid-new", node="n"),
        ],
        "usage": [
            usage("db", span("10:00", "10:22"), cpu="22", uid=None),
            usage("db", span("10:22", "10:24"), cpu="2", uid=None),
            usage("db", span("10:28", "10:40"), cpu="12", uid=None),
            usage("other", span("10:00", "10:10"), cpu="10", uid=None),
        ],
    }
    found = pod_hours(staged(Said(TEN, rows)))
    assert {name: row.cpu_used_core_seconds for (name, _), row in found.items()} == {
        "old": 24,
        "new": 12,
        "shop/other": 10,
    }


def test_usage_that_spans_two_pods_of_a_name_belongs_to_the_one_it_overlaps_most(warehouse):
    rows = {
        "pod": [
            pod("job", span("10:03", "10:06"), uid="uid-short", node="n"),
            pod("job", span("10:06", "10:20"), uid="uid-long", node="n"),
        ],
        "usage": [usage("job", span("10:00", "10:10"), cpu="5", uid=None)],
    }
    found = pod_hours(staged(Said(TEN, rows)))
    assert found["long", "10:00"].cpu_used_core_seconds == 5


# --- usage ----------------------------------------------------------------------------------------


def test_a_pods_usage_is_the_sum_of_its_containers_over_the_union_of_their_seconds(warehouse):
    rows = {
        "pod": [pod("p", span("10:00", "11:00"), node="n", cpu_request_cores="1")],
        "usage": [
            usage("p", span("10:00", "10:30"), cpu="100", memory="7"),
            usage("p", span("10:20", "10:40"), cpu="50", container="side"),
        ],
    }
    hour = pod_hours(staged(Said(TEN, rows)))["p", "10:00"]
    assert (hour.cpu_used_core_seconds, hour.cpu_used_covered_seconds) == (150, 2400)
    assert (hour.memory_used_byte_seconds, hour.memory_used_covered_seconds) == (7, 1800)
    assert (hour.cpu_request_core_seconds, hour.cpu_request_used_core_seconds) == (3600, 2400)


def test_a_request_is_compared_with_usage_only_while_both_are_known(warehouse):
    """Held until 10:30, used until 10:45, and nobody knows how much before 10:10."""
    rows = {
        "pod": [
            pod(
                "p",
                span("10:00", "10:30"),
                node="n",
                cpu_request_cores="2",
                memory_request_bytes="3",
            ),
            pod("p", span("10:30", "11:00"), node="n", cpu_request_cores="2", phase="Succeeded"),
        ],
        "usage": [usage("p", span("10:10", "10:45"), cpu="100", memory="200")],
    }
    hour = pod_hours(staged(Said(TEN, rows)))["p", "10:00"]
    assert (hour.cpu_request_core_seconds, hour.cpu_request_used_core_seconds) == (3600, 2400)
    assert (hour.memory_request_byte_seconds, hour.memory_request_used_byte_seconds) == (5400, 3600)
    assert (hour.cpu_used_covered_seconds, hour.memory_used_covered_seconds) == (2100, 2100)


def test_usage_that_another_load_cuts_is_taken_in_proportion(warehouse):
    """The first source speaks from 10:10; of the second one's ten core-seconds 10 of 15 minutes count."""
    polls = {"usage": [usage("p", span("10:00", "10:15"), cpu="10")]}
    better = Said(
        TEN,
        {"usage": [usage("p", span("10:30", "11:00"), cpu="1")]},
        silent={"usage": [span("10:00", "10:10")]},
    )
    hour = pod_hours(staged([Said(TEN, polls, source="kubernetes"), better]))["p", "10:00"]
    assert hour.cpu_used_core_seconds == Decimal("6.666666667") + 1
    assert hour.cpu_used_covered_seconds == 600 + 1800


def test_no_statement_about_usage_is_null_and_not_zero(warehouse):
    rows = {
        "pod": [
            pod("p", span("10:00", "11:00"), node="n"),
            pod("q", span("10:00", "11:00"), node="n"),
        ],
        "usage": [usage("q", span("10:00", "11:00"), cpu="0")],
    }
    found = pod_hours(staged(Said(TEN, rows)))
    assert found["p", "10:00"].cpu_used_core_seconds is None
    assert (
        found["q", "10:00"].cpu_used_core_seconds,
        found["q", "10:00"].memory_used_byte_seconds,
    ) == (0, None)


# --- pinned knowledge -----------------------------------------------------------------------------


def test_every_hour_keeps_the_knowledge_it_was_published_with(warehouse):
    configure()
    land_said(CLUSTER, a_day())
    first, second, third = (NOW + timedelta(days=n) for n in range(3))
    run_window(CLUSTER, hours("00:00", "02:00"), now=first)
    run_window(CLUSTER, hours("02:00", "03:00"), "hourly", now=first)
    run_window(CLUSTER, hours("01:00", "02:00"), now=second, restate_reason="a late price")
    stage = stage_window(CLUSTER, hours("00:00", "05:00"), {}, now=third)
    with engine("publisher").connect() as connection:
        assert list(spans_by_as_of(connection, stage)) == [
            (first, hours("00:00", "01:00")),
            (second, hours("01:00", "02:00")),
            (third, hours("02:00", "05:00")),
        ]


def test_a_machine_that_changes_is_priced_by_what_it_is_in_each_hour(warehouse):
    sizes = [
        node("n", span("10:00", "11:20"), instance_type="small"),
        node("n", span("11:20", "13:00"), instance_type="large"),
        node("m", span("10:30", "11:30"), instance_type="small"),
    ]
    stage = staged(Said(hours("10:00", "13:00"), {"node": sizes}), hours("10:00", "13:00"))
    with engine("publisher").connect() as connection:
        found = node_facts(connection, stage, CLUSTER)
    assert {
        (str(window), facts.node): facts.instance_type
        for window, nodes in found.items()
        for facts in nodes.values()
    } == {
        (str(hours("10:00", "13:00")), "m"): "small",
        (str(hours("10:00", "11:00")), "n"): "small",
        (str(hours("11:00", "13:00")), "n"): "large",
    }


def test_prices_cover_every_hour_of_every_node_once(warehouse, tmp_path, monkeypatch):
    sheet = tmp_path / "sheet.yaml"
    sheet.write_text(
        "prices:\n"
        "  - {match: {instance_type: small}, price_per_hour: '1', currency: USD, valid_from: 2020-01-01}\n"
        "  - {match: {instance_type: large}, price_per_hour: '2', currency: USD, valid_from: 2020-01-01}\n"
    )
    monkeypatch.setenv("KUBETALLY_CONFIG_DIR", str(tmp_path))
    priced = cluster_of("c", "prometheus", "kubernetes", price_sheet="sheet.yaml")
    sizes = [
        node("n", span("10:00", "11:20"), instance_type="small"),
        node("n", span("11:20", "13:00"), instance_type="large"),
    ]
    stage = staged(Said(hours("10:00", "13:00"), {"node": sizes}), hours("10:00", "13:00"), priced)
    price_nodes(engine("publisher"), stage, priced)
    found = query("select during, price_per_hour from core.node_price order by during")
    assert [
        (clock(row.during.lower), clock(row.during.upper), row.price_per_hour) for row in found
    ] == [
        ("10:00", "11:00", 1),
        ("11:00", "13:00", 2),
    ]


def test_midnight_cuts_what_a_longer_window_would_join(warehouse):
    long = Window(A_DAY.start - timedelta(hours=1), A_DAY.start + timedelta(hours=1))
    rows = {
        "node": [node("n", (long.start, long.end))],
        "pod": [pod("p", (long.start, long.end), node="n", memory_request_bytes=str(GIB))],
    }
    stage = staged(Said(long, rows), long)
    assert [row[1:3] for row in segments("pod", stage)] == [("-1:00", "00:00"), ("00:00", "01:00")]
    assert sum(row.seconds for row in pod_hours(stage).values()) == 7200
