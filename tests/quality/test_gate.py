"""The gate as the pipeline runs it: both engines, the quality role, verdicts on record, a stop."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

import scenes
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.errors import GateError, StaleStageError
from kubetally.quality.gate import run_gate
from kubetally.quality.suites import SUITES
from kubetally.quality.verdict import GATES
from kubetally.sources.rows import Collected, Reject
from kubetally.warehouse.land import acknowledge_gap
from kubetally.warehouse.publish import publish
from kubetally.windows import Window

CLUSTER, NOW, WINDOW = scenes.CLUSTER, scenes.NOW, scenes.WINDOW


def rows(warehouse: Any, query: str, role: str = "owner") -> list[Any]:
    with warehouse.engine_as(role).begin() as connection:
        return list(connection.execute(text(query)))


def change(warehouse: Any, statement: str) -> None:
    with warehouse.engine.begin() as connection:
        connection.execute(text(statement))


def test_a_sound_window_passes_all_three_gates_and_leaves_its_verdicts(warehouse: Any) -> None:
    scenes.land_scene(warehouse.engine_as("loader"))
    raw = run_gate("raw", CLUSTER, WINDOW, stage_id=None, now=NOW)
    stage = scenes.stage_scene(warehouse.engine_as("publisher"))
    core = run_gate("core", CLUSTER, WINDOW, stage_id=stage.stage_id, now=NOW)
    costs = run_gate("costs", CLUSTER, WINDOW, stage_id=stage.stage_id, now=NOW)

    assert [found.warnings for found in (raw, core, costs)] == [(), (), ()]
    recorded = rows(
        warehouse,
        "select gate, engine, bool_and(passed) as passed, count(*) as checks, min(stage_id) as stage_id"
        " from ops.check_result group by gate, engine order by gate, engine",
    )
    assert [(row.gate, row.engine, row.passed, row.stage_id) for row in recorded] == [
        (gate, engine, True, None if gate == "raw" else stage.stage_id)
        for gate in ("core", "costs", "raw")
        for engine in ("gx", "sql")
    ]
    by_gate = {found.gate: found.passed for found in (raw, core, costs)}
    for gate in GATES:
        assert by_gate[gate] == sum(row.checks for row in recorded if row.gate == gate)
        expectations = sum(len(part.rules) for part in SUITES[gate])
        assert [row.checks for row in recorded if (row.gate, row.engine) == (gate, "gx")] == [
            expectations
        ]
    receipt = raw.receipt()
    assert receipt["cluster"] == "scene" and receipt["window"] == str(WINDOW)
    assert len(json.dumps(receipt)) < 1024


def test_an_empty_window_fails_and_the_verdict_stays_on_record(warehouse: Any) -> None:
    scenes.land_scene(warehouse.engine)
    empty = Window(WINDOW.end, WINDOW.end + timedelta(hours=2))
    with pytest.raises(GateError) as caught:
        run_gate("raw", CLUSTER, empty, stage_id=None, now=NOW)
    message = str(caught.value)
    assert f"Gate raw failed for scene {empty}" in message
    assert "empty_hours" in message and "found 4 offending rows" in message
    assert "hour=2026-11-03T12:00:00+00:00, dataset=node" in message
    assert "Published data is untouched." in message and "make gap" in message
    failed = rows(
        warehouse,
        "select check_name, engine, expected, observed, offending_count, sample, during, cluster_key"
        " from ops.check_result where not passed and severity = 'critical' order by engine desc, check_name",
    )
    assert [(row.check_name, row.engine) for row in failed] == [
        ("empty_hours", "sql"),
        ("raw_nodes.ExpectTableRowCountToBeBetween", "gx"),
        ("raw_pods.ExpectTableRowCountToBeBetween", "gx"),
    ]
    assert failed[0].offending_count == 4
    assert failed[0].sample[0] == {"hour": "2026-11-03T12:00:00+00:00", "dataset": "node"}
    assert (failed[0].during.lower, failed[0].during.upper) == (empty.start, empty.end)


def test_a_window_that_loads_speak_for_but_say_nothing_about_fails(warehouse: Any) -> None:
    scenes.land_scene(warehouse.engine, scenes.collected(pods=()))
    with pytest.raises(
        GateError, match=r"no_rows: expected .* found 1 offending row \(dataset=pod"
    ):
        run_gate("raw", CLUSTER, WINDOW, stage_id=None, now=NOW)


def test_a_cluster_that_never_landed_anything_fails(warehouse: Any) -> None:
    unknown = ClusterConfig("unknown", (SourceConfig("prometheus", "kubetally_scene"),))
    with pytest.raises(GateError, match="nothing of this cluster has ever landed"):
        run_gate("raw", unknown, WINDOW, stage_id=None, now=NOW)


def test_an_acknowledged_gap_passes_every_gate(warehouse: Any) -> None:
    """The second hour is missing: it fails, is acknowledged, and costs what the nodes cost."""
    first = Window(WINDOW.start, WINDOW.start + timedelta(hours=1))
    scenes.land_scene(warehouse.engine, scenes.collected(covered=((first.start, first.end),)))
    with pytest.raises(GateError, match="empty_hours"):
        run_gate("raw", CLUSTER, WINDOW, stage_id=None, now=NOW)
    acknowledge_gap(
        warehouse.engine_as("loader"),
        "scene",
        Window(first.end, WINDOW.end),
        reason="the monitoring was moved",
        who="a test",
        now=NOW,
    )
    run_gate("raw", CLUSTER, WINDOW, stage_id=None, now=NOW)
    stage = scenes.stage_scene(warehouse.engine)
    for gate in ("core", "costs"):
        assert run_gate(gate, CLUSTER, WINDOW, stage_id=stage.stage_id, now=NOW).warnings == ()
    lines = rows(
        warehouse,
        "select line, sum(cost) as cost from mart.cost_hour where hour = '2026-11-03T11:00Z' group by line",
    )
    assert [(row.line, f"{row.cost:f}") for row in lines] == [("uncovered", "0.300000000000000000")]


def test_a_wholly_acknowledged_window_passes_without_a_row(warehouse: Any) -> None:
    scenes.land_scene(warehouse.engine)
    empty = Window(WINDOW.end, WINDOW.end + timedelta(hours=1))
    acknowledge_gap(
        warehouse.engine_as("loader"), "scene", empty, reason="outage", who="a test", now=NOW
    )
    assert run_gate("raw", CLUSTER, empty, stage_id=None, now=NOW).warnings == ()
    stage = scenes.stage_scene(warehouse.engine, empty)
    run_gate("core", CLUSTER, empty, stage_id=stage.stage_id, now=NOW)
    run_gate("costs", CLUSTER, empty, stage_id=stage.stage_id, now=NOW)


def test_warnings_are_recorded_and_let_the_window_pass(
    warehouse: Any, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Reject("pod", "payments/odd", "cpu: expected a quantity, found '1 core'")
    late = WINDOW.start + timedelta(minutes=5)
    scenes.land_scene(
        warehouse.engine, scenes.collected(rejects=(odd,), covered=((late, WINDOW.end),))
    )
    found = run_gate("raw", CLUSTER, WINDOW, stage_id=None, now=NOW)
    assert found.warnings == ("partly_covered_hours", "rejects")
    assert found.receipt()["warned"] == 2
    assert "object_name=payments/odd" in caplog.text and "unknown_seconds=300" in caplog.text
    warned = rows(warehouse, "select sample from ops.check_result where check_name = 'rejects'")
    assert warned[0].sample[0]["reason"] == odd.reason


def test_usage_cut_by_the_span_of_its_load_is_not_lost(warehouse: Any) -> None:
    """A usage row from 10:10 whose load speaks from 10:20 on counts for five sixths, on both sides."""
    scenes.land_scene(warehouse.engine)
    change(
        warehouse,
        "update ops.load set speaks_for = '{[2026-11-03 10:20+00, 2026-11-03 12:00+00)}'"
        " where dataset = 'usage'",
    )
    stage = scenes.stage_scene(warehouse.engine)
    assert run_gate("core", CLUSTER, WINDOW, stage_id=stage.stage_id, now=NOW).warnings == ()


FAULTS = {
    "core": "update core.pod_hour set cpu_request_core_seconds = cpu_request_core_seconds + 1",
    "costs": "update mart.cost_hour set cpu_cost = cpu_cost + 0.000000000000000001 where line = 'idle'",
}
BREAKS = {"core": "requests_not_added_up", "costs": "unbalanced_node_hours"}


@pytest.mark.parametrize("gate", ["core", "costs"])
def test_a_failing_gate_leaves_what_is_published_untouched(warehouse: Any, gate: Any) -> None:
    scenes.land_scene(warehouse.engine)
    good = scenes.stage_scene(warehouse.engine)
    published = publish(warehouse.engine_as("publisher"), good, now=NOW)
    seen = (
        "select md5(string_agg(cost_hour::text, '|' order by cost_hour::text)) as hash from mart.cost_hour"
        " join ops.published_hour using (stage_id, hour)"
    )
    before = rows(warehouse, seen)

    worse = scenes.stage_scene(warehouse.engine)
    change(
        warehouse,
        f"{FAULTS[gate]}{' and' if 'where' in FAULTS[gate] else ' where'} stage_id = {worse.stage_id}",
    )
    with pytest.raises(GateError, match=BREAKS[gate]) as caught:
        run_gate(gate, CLUSTER, WINDOW, stage_id=worse.stage_id, now=NOW)
    assert "scene" in str(caught.value) and str(WINDOW) in str(caught.value)

    assert rows(warehouse, seen) == before
    current = rows(warehouse, "select distinct publication_id from ops.published_hour")
    assert [row.publication_id for row in current] == [published.publication_id]
    failed = rows(warehouse, "select check_name, stage_id from ops.check_result where not passed")
    assert (BREAKS[gate], worse.stage_id) in [(row.check_name, row.stage_id) for row in failed]


def test_a_stage_that_newer_loads_overtook_is_stale_not_bad(warehouse: Any) -> None:
    scenes.land_scene(warehouse.engine)
    stage = scenes.stage_scene(warehouse.engine)
    scenes.land_scene(warehouse.engine, scenes.collected(pods=scenes.PODS[:2]))
    with pytest.raises(StaleStageError, match="requests_lost"):
        run_gate("core", CLUSTER, WINDOW, stage_id=stage.stage_id, now=NOW)


def test_newer_loads_that_change_nothing_do_not_stop_the_gate(warehouse: Any) -> None:
    scenes.land_scene(warehouse.engine)
    stage = scenes.stage_scene(warehouse.engine)
    receipt = scenes.land_scene(warehouse.engine)
    assert receipt.unchanged == 4
    run_gate("core", CLUSTER, WINDOW, stage_id=stage.stage_id, now=NOW)


def test_gaps_alone_are_no_data(warehouse: Any) -> None:
    from kubetally.sources.rows import Gap

    failed = Collected(
        "prometheus", [], [Gap("pod", WINDOW, "status 503"), Gap("node", WINDOW, "")]
    )
    scenes.land_scene(warehouse.engine, failed)
    with pytest.raises(GateError, match="empty_hours"):
        run_gate("raw", CLUSTER, WINDOW, stage_id=None, now=NOW)


def test_no_password_shows_in_messages_or_logs(
    warehouse: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with pytest.raises(GateError) as caught:
        scenes.land_scene(warehouse.engine, scenes.collected(pods=()))
        run_gate("raw", CLUSTER, WINDOW, stage_id=None, now=NOW)
    assert "test-kubetally_quality" not in caplog.text + str(caught.value)
