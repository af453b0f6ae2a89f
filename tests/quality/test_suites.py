"""Great Expectations suites: each expectation turns red for the row it is there for."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine, text

import scenes
from kubetally.quality.suites import SUITES, query, run_suites
from kubetally.quality.verdict import GATES, Gate
from kubetally.windows import Window

ALL = frozenset({"pod", "node"})

# gate, what is done to the committed rows, and the checks that fail
FAULTS: list[tuple[Gate, str, set[str]]] = [
    (
        "raw",
        "insert into raw.pod_interval select * from raw.pod_interval where pod = 'api';"
        "update raw.pod_interval set cpu_request_cores = null, memory_request_bytes = null,"
        " phase = 'Sleeping' where pod = 'tool';"
        "insert into raw.node_interval select * from raw.node_interval where node = 'node-a';"
        "update raw.node_interval set cpu_capacity_cores = null, memory_capacity_bytes = null"
        " where node = 'node-b';"
        "update raw.node_interval set cpu_capacity_cores = 20000 where node = 'node-a'",
        {
            "raw_pods.ExpectCompoundColumnsToBeUnique(uid,start_at)",
            "raw_pods.ExpectColumnValuesToNotBeNull(cpu_request_cores)",
            "raw_pods.ExpectColumnValuesToNotBeNull(memory_request_bytes)",
            "raw_pods.ExpectColumnValuesToBeInSet(phase)",
            "raw_nodes.ExpectCompoundColumnsToBeUnique(uid,start_at)",
            "raw_nodes.ExpectColumnValuesToNotBeNull(cpu_capacity_cores)",
            "raw_nodes.ExpectColumnValuesToNotBeNull(memory_capacity_bytes)",
            "raw_nodes.ExpectColumnValuesToBeBetween(cpu_capacity_cores)",
        },
    ),
    (
        "core",
        "insert into core.pod_hour select * from core.pod_hour where pod_key = 1;"
        "update core.pod_hour set seconds = 3601, cpu_used_covered_seconds = 3601,"
        " memory_used_covered_seconds = 3601, node_key = null where pod_key = 2;"
        "insert into core.node_hour select * from core.node_hour where node_key = 1;"
        "update core.node_hour set seconds = 3601, covered_seconds = -1 where node_key = 2;"
        "insert into core.container_hour select * from core.container_hour where pod_key = 1",
        {
            "core_pod_hours.ExpectCompoundColumnsToBeUnique(hour,pod_key)",
            "core_pod_hours.ExpectColumnValuesToBeBetween(seconds)",
            "core_pod_hours.ExpectColumnValuesToBeBetween(cpu_used_covered_seconds)",
            "core_pod_hours.ExpectColumnValuesToBeBetween(memory_used_covered_seconds)",
            "core_pod_hours.ExpectColumnValuesToNotBeNull(node_key)",
            "core_node_hours.ExpectCompoundColumnsToBeUnique(hour,node_key)",
            "core_node_hours.ExpectColumnValuesToBeBetween(seconds)",
            "core_node_hours.ExpectColumnValuesToBeBetween(covered_seconds)",
            "core_container_hours.ExpectCompoundColumnsToBeUnique(hour,pod_key,container)",
        },
    ),
    (
        "costs",
        "alter table mart.cost_hour drop constraint cost_hour_line_check;"
        "insert into mart.cost_hour (stage_id, cluster_key, hour, cost_model_key, revision, line, node_key,"
        " owner) select stage_id, cluster_key, hour, cost_model_key, revision, 'unpriced', node_key, owner"
        " from mart.cost_hour, generate_series(1, 2) where line = 'idle';"
        "update mart.cost_hour set owner = '' where pod_key = 1;"
        "update mart.cost_hour set currency = 'US dollars', revision = 0 where pod_key = 2;"
        "update mart.cost_hour set line = 'profit' where pod_key = 3",
        {
            "cost_lines.ExpectCompoundColumnsToBeUnique(hour,cost_model_key,line,node_key,pod_key,pool)",
            "cost_lines.ExpectColumnValuesToBeInSet(line)",
            "cost_lines.ExpectColumnValueLengthsToBeBetween(owner)",
            "cost_lines.ExpectColumnValueLengthsToEqual(currency)",
            "cost_lines.ExpectColumnValuesToBeBetween(revision)",
        },
    ),
]


@pytest.fixture
def parameters(warehouse: Any) -> dict[str, Any]:
    scenes.land_scene(warehouse.engine)
    stage = scenes.stage_scene(warehouse.engine)
    return {
        "cluster_key": stage.cluster_key,
        "stage_id": stage.stage_id,
        "start": stage.window.start,
        "end": stage.window.end,
    }


def failures(warehouse: Any, gate: Gate, parameters: dict[str, Any]) -> dict[str, str]:
    url = create_engine(warehouse.url("quality")).url
    found = run_suites(gate, url, parameters, ALL)
    return {verdict.check: verdict.observed for verdict in found if not verdict.passed}


@pytest.mark.parametrize(("gate", "fault", "broken"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_each_expectation_fails_for_its_fault_and_passes_without(
    warehouse: Any, parameters: dict[str, Any], gate: Gate, fault: str, broken: set[str]
) -> None:
    assert failures(warehouse, gate, parameters) == {}
    with warehouse.engine.begin() as connection:
        for statement in fault.split(";"):
            connection.execute(text(statement))
    found = failures(warehouse, gate, parameters)
    assert set(found) == broken
    assert all(" of " in observed for observed in found.values()), found


@pytest.mark.parametrize("gate", GATES)
def test_an_empty_slice_fails_where_rows_are_needed(
    warehouse: Any, parameters: dict[str, Any], gate: Gate
) -> None:
    later = Window(scenes.WINDOW.end, scenes.WINDOW.end + (scenes.WINDOW.end - scenes.WINDOW.start))
    elsewhere = parameters | {"start": later.start, "end": later.end}
    needing = {part.name for part in SUITES[gate] if part.needs}
    assert failures(warehouse, gate, elsewhere) == {
        f"{name}.ExpectTableRowCountToBeBetween": "0" for name in needing
    }


def test_a_query_that_cannot_run_fails_and_says_so(
    warehouse: Any, parameters: dict[str, Any]
) -> None:
    with warehouse.engine.begin() as connection:
        connection.execute(text("revoke select on core.container_hour from kubetally_quality"))
    try:
        found = failures(warehouse, "core", parameters)
    except Exception as error:
        assert "test-kubetally_quality" not in str(error)
    else:
        assert set(found) == {
            "core_container_hours.ExpectCompoundColumnsToBeUnique(hour,pod_key,container)"
        }


@pytest.mark.parametrize("gate", GATES)
def test_no_expectation_adds_up_money(gate: Gate) -> None:
    for part in SUITES[gate]:
        for rule in part.rules:
            assert "Sum" not in rule.expectation and "cost" not in str(rule.arguments.get("column"))


def test_parameters_are_written_in_by_type(parameters: dict[str, Any]) -> None:
    told = query("core_pod_hours", parameters | {"stage_id": 7})
    assert "stage_id = 7" in told and "'2026-11-03 10:00:00+00:00'" in told
    assert told.lower().startswith("select")
