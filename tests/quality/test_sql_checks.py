"""Every SQL check: it lets a sound hour pass, and one planted fault turns it red."""

# The faults are statements of our own, put together from the few row filters below.

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kubetally.errors import ConfigError
from kubetally.quality.checks import PARAMETERS, all_checks, parse
from kubetally.quality.verdict import GATES, Gate

if TYPE_CHECKING:
    from conftest import Scene

RAW_PODS = "load_id in (select load_id from ops.load where dataset = 'pod')"
POD = "pod_key = (select pod_key from core.pod where pod = '{}')"
NODE = "node_key = (select node_key from core.node where node = '{}')"
API, BATCH, JOB = (POD.format(name) for name in ("api", "batch", "job"))
NODE_A, NODE_B = (NODE.format(name) for name in ("node-a", "node-b"))
ACKNOWLEDGED = (
    "insert into ops.gap (cluster_key, dataset, source, during, reason, seen_at, acknowledged_at,"
    " acknowledged_by, acknowledgement)"
    " select :cluster_key, dataset, 'any', tstzrange({}), 'no data', now(), now(), 'a person', 'outage'"
    " from unnest(array['pod', 'node']) as dataset"
)
HISTORY = (
    "select ops.ensure_partitions('core.pod_hour', '2026-10-01', '2026-11-30');"
    "insert into core.pod_hour select stage_id, cluster_key, hour - days * interval '1 day',"
    " 100 * copies + pod_key, node_key, {seconds}, 0, 0, null, 0, 0, 0, null, 0, 0 from core.pod_hour,"
    " generate_series(1, {days}) as days, generate_series(1, {copies}) as copies"
    " where stage_id = :stage_id;"
    "insert into ops.publication (cluster_key, during, kind, stage_id, published_at, hours, row_count,"
    " content_sha256, loads_sha256) values (:cluster_key, tstzrange(:start, :end), 'hourly', :stage_id,"
    " now(), 1, 1, '', '');"
    "insert into ops.published_hour select distinct cluster_key, hour, stage_id, (select"
    " publication_id from ops.publication), 'hourly', 1, now(), '' from core.pod_hour where hour < :start"
)

# gate, check, the fault, and how many rows offend
FAULTS: list[tuple[Gate, str, str, int]] = [
    # raw
    ("raw", "empty_hours", "update ops.load set speaks_for = '{}'", 4),
    ("raw", "empty_hours", "update ops.load set speaks_for = '{}' where dataset = 'node'", 2),
    (
        "raw",
        "empty_hours",
        "update ops.load set speaks_for = tstzmultirange(tstzrange(:start,"
        " cast(:start as timestamptz) + interval '1 hour')) where dataset = 'pod'",
        1,
    ),
    ("raw", "no_rows", "delete from raw.node_interval", 1),
    ("raw", "no_rows", "delete from raw.pod_interval", 1),
    (
        "raw",
        "partly_covered_hours",
        "update ops.load set speaks_for = tstzmultirange(tstzrange("
        "cast(:start as timestamptz) + interval '1 minute', :end)) where dataset = 'pod'",
        1,
    ),
    (
        "raw",
        "usage_missing",
        "delete from raw.usage_interval where start_at < '2026-11-03T11:00Z'",
        1,
    ),
    (
        "raw",
        "overlapping_statements",
        "insert into raw.pod_interval select * from raw.pod_interval where pod = 'api'",
        1,
    ),
    (
        "raw",
        "overlapping_statements",
        "update raw.pod_interval set end_at = end_at + interval '1 second' where pod = 'job'"
        " and phase = 'Running'",
        1,
    ),
    (
        "raw",
        "overlapping_statements",
        "insert into raw.node_interval select * from raw.node_interval where node = 'node-b'",
        1,
    ),
    (
        "raw",
        "overlapping_statements",
        "insert into raw.usage_interval (load_id, start_at, end_at, uid, namespace, pod, container,"
        " cpu_used_core_seconds) select load_id, start_at, end_at, uid, namespace, pod, container, 1"
        " from raw.usage_interval where pod = 'tool'",
        2,
    ),
    (
        "raw",
        "impossible_amounts",
        "update raw.pod_interval set cpu_request_cores = -1 where pod = 'api'",
        1,
    ),
    ("raw", "impossible_amounts", "update raw.node_interval set memory_capacity_bytes = 'NaN'", 2),
    (
        "raw",
        "impossible_amounts",
        "update raw.usage_interval set cpu_used_core_seconds = 'Infinity' where pod = 'job'",
        1,
    ),
    (
        "raw",
        "impossible_usage",
        "update raw.usage_interval set cpu_used_core_seconds = 4 * 3600 * 1.2 where pod = 'api'"
        " and start_at = '2026-11-03T11:00Z'",
        1,
    ),
    (
        "raw",
        "impossible_usage",
        "update raw.usage_interval set memory_used_byte_seconds = memory_used_byte_seconds * 100,"
        " node = null where pod = 'api'",
        2,  # 100 GiB in each of two hours; where no node is named, the largest (16 GiB) is meant
    ),
    (
        "raw",
        "rejects",
        "insert into ops.reject select load_id, 'payments/odd', 'cpu: not a quantity' from ops.load"
        " where dataset = 'pod'",
        1,
    ),
    # 3.25 pods on average now (job holds for 30 of 120 minutes)
    ("raw", "volume_jump", HISTORY.format(days=3, copies=2, seconds=3600), 1),
    # core
    ("core", "hours_without_facts", "delete from core.pod_hour", 2),
    (
        "core",
        "hours_without_facts",
        "delete from core.node_hour where hour = :start",
        1,
    ),
    ("core", "impossible_amounts", f"update core.pod_hour set seconds = -1 where {API}", 2),
    (
        "core",
        "impossible_amounts",
        "update core.node_hour set cpu_capacity_core_seconds = 'NaN'",
        4,
    ),
    (
        "core",
        "impossible_amounts",
        f"update core.container_hour set memory_used_byte_seconds = -1 where {JOB}",
        1,
    ),
    (
        "core",
        "impossible_seconds",
        f"update core.pod_hour set seconds = 3600.000001 where {API}",
        2,
    ),
    (
        "core",
        "impossible_seconds",
        f"update core.pod_hour set cpu_request_used_core_seconds = cpu_request_core_seconds + 1 where {API}",
        2,
    ),
    (
        "core",
        "impossible_seconds",
        f"update core.pod_hour set cpu_used_core_seconds = null where {API}",
        2,
    ),
    (
        "core",
        "impossible_seconds",
        f"update core.node_hour set covered_seconds = seconds + 1 where {NODE_A}",
        2,
    ),
    (
        "core",
        "requests_not_added_up",
        f"update core.pod_hour set memory_request_byte_seconds = memory_request_byte_seconds + 1 where {API}"
        " and hour = :start",
        1,
    ),
    ("core", "requests_not_added_up", f"delete from core.pod_hour where {JOB}", 1),
    ("core", "requests_lost", f"delete from core.pod_segment where {JOB}", 1),
    (
        "core",
        "requests_lost",
        "update core.pod_segment set cpu_request_cores = cpu_request_cores + 0.000000001"
        f" where {BATCH}",
        1,
    ),
    (
        "core",
        "capacity_not_added_up",
        f"update core.node_hour set cpu_capacity_core_seconds = cpu_capacity_core_seconds - 1 where {NODE_B}"
        " and hour = :start",
        1,
    ),
    (
        "core",
        "capacity_not_added_up",
        f"update core.node_segment set is_presumed = true where {NODE_B}",
        1,
    ),
    (
        "core",
        "usage_lost",
        f"update core.container_hour set cpu_used_core_seconds = cpu_used_core_seconds + 0.000000001"
        f" where {API} and hour = :start",
        1,
    ),
    ("core", "usage_lost", f"delete from core.container_hour where {JOB}", 1),
    ("core", "usage_lost", "delete from core.container_hour where hour = :start", 1),
    (
        "core",
        "usage_not_added_up",
        f"update core.pod_hour set cpu_used_core_seconds = cpu_used_core_seconds + 0.000000001 where {API}"
        " and hour = :start",
        1,
    ),
    (
        "core",
        "usage_not_added_up",
        f"update core.pod_hour set memory_used_covered_seconds = 3599 where {API} and hour > :start",
        1,
    ),
    ("core", "unresolved_nodes", f"update core.pod_hour set node_key = null where {API}", 1),
    # costs
    ("costs", "empty_costs", "delete from mart.cost_hour", 2),
    ("costs", "empty_costs", "delete from mart.cost_hour where hour = :start", 1),
    (
        "costs",
        "unbalanced_node_hours",
        "update mart.cost_hour set cpu_cost = cpu_cost + 0.000000000000000001"
        f" where line = 'idle' and hour = :start and {NODE_A}",
        1,
    ),
    (
        "costs",
        "unbalanced_node_hours",
        f"delete from mart.cost_hour where line = 'system' and {NODE_B}",
        2,
    ),
    (
        "costs",
        "unbalanced_node_hours",
        f"update mart.cost_hour set node_key = null where line = 'workload' and {API} and hour = :start",
        2,
    ),
    (
        "costs",
        "unbalanced_quantities",
        "update mart.cost_hour set cpu_core_seconds = cpu_core_seconds + 1"
        f" where line = 'idle' and hour = :start and {NODE_A}",
        1,
    ),
    ("costs", "pod_hours_without_one_line", f"delete from mart.cost_hour where {JOB}", 1),
    (
        "costs",
        "pod_hours_without_one_line",
        "insert into mart.cost_hour (stage_id, cluster_key, hour, cost_model_key, revision, line, node_key,"
        " pod_key, owner) select stage_id, cluster_key, hour, cost_model_key, revision, 'unpriced',"
        f" node_key, pod_key, owner from mart.cost_hour where {API} and hour = :start",
        1,
    ),
    (
        "costs",
        "pod_hours_without_one_line",
        f"delete from core.pod_hour where {JOB}",
        1,
    ),
    ("costs", "nodes_without_price_row", f"delete from core.node_price where {NODE_B}", 1),
    (
        "costs",
        "nodes_without_price_row",
        "update core.node_price set during = tstzrange(:start, cast(:start as timestamptz)"
        f" + interval '1 hour') where {NODE_B}",
        1,
    ),
    (
        "costs",
        "overlapping_node_prices",
        f"insert into core.node_price select * from core.node_price where {NODE_A}",
        1,
    ),
    (
        "costs",
        "currency_mismatch",
        f"update core.node_price set currency = 'EUR' where {NODE_A}",
        1,
    ),
    ("costs", "currency_mismatch", f"update core.node_price set currency = null where {NODE_A}", 1),
    (
        "costs",
        "closing_lines_sign",
        "update mart.cost_hour set cpu_cost = -0.000000000000000001 where line = 'system'"
        f" and hour = :start and {NODE_A}",
        1,
    ),
    (
        "costs",
        "closing_lines_sign",
        "update mart.cost_hour set cpu_cost = -1, memory_cost = 2 where line = 'idle' and hour = :start"
        f" and {NODE_A}",
        1,
    ),
    (
        "costs",
        "unpriced_nodes",
        "update core.node_price set state = 'unpriced', reason = 'no list price', price_per_hour = null"
        f" where {NODE_A}",
        1,
    ),
    (
        "costs",
        "ambiguous_prices",
        f"update core.node_price set state = 'ambiguous', price_per_hour = null where {NODE_A}",
        1,
    ),
    (
        "costs",
        "estimated_prices",
        f"update core.node_price set state = 'estimated' where {NODE_A}",
        1,
    ),
    (
        "costs",
        "sudden_price_changes",
        "insert into core.node_price (stage_id, node_key, during, state, price_per_hour, currency)"
        " select stage_id, node_key, tstzrange(:end, cast(:end as timestamptz) + interval '1 hour'),"
        f" state, price_per_hour * 1.31, currency from core.node_price where {NODE_A}",
        1,
    ),
    ("costs", "unowned_share", f"update mart.cost_hour set owner = 'unowned' where {API}", 1),
    (
        "costs",
        "overcommitted_nodes",
        "update mart.cost_hour set line = 'overcommit', cpu_cost = -0.1, memory_cost = 0 where line = 'idle'"
        f" and hour = :start and {NODE_B}",
        1,
    ),
]


@pytest.mark.parametrize("gate", GATES)
def test_a_sound_window_passes_every_check(scene: Scene, gate: Gate) -> None:
    failed = [str(verdict) for verdict in scene.verdicts(gate) if not verdict.passed]
    assert failed == []


@pytest.mark.parametrize(
    ("gate", "check", "fault", "offending"),
    FAULTS,
    ids=[f"{gate}-{check}-{number}" for number, (gate, check, _, _) in enumerate(FAULTS)],
)
def test_a_planted_fault_turns_its_check_red(
    scene: Scene, gate: Gate, check: str, fault: str, offending: int
) -> None:
    scene.plant(fault)
    verdict = scene.check(gate, check)
    assert (verdict.passed, verdict.offending) == (False, offending)
    assert len(verdict.sample) == min(offending, 5)


def test_every_check_has_a_fault_that_breaks_it() -> None:
    planted = {(gate, check) for gate, check, _, _ in FAULTS}
    assert {(check.gate, check.name) for check in all_checks()} == planted


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: f"{check.gate}-{check.name}")
def test_every_check_says_why_it_exists_and_binds_known_parameters_only(check) -> None:
    from sqlalchemy import text

    assert check.reason and check.expects
    assert check.remedy or check.severity == "warning"
    assert set(text(check.query).compile().params) <= PARAMETERS


@pytest.mark.parametrize(
    "head",
    [
        "",
        "-- a reason\n-- severity: critical\n-- expects: order\n",
        "-- a reason\n-- severity: fatal\n-- expects: order\n-- remedy: tidy up\n",
        "-- a reason\n-- severity: warning\n",
        "-- severity: warning\n-- expects: order\n",
    ],
)
def test_a_check_without_reason_severity_expectation_or_remedy_is_refused(
    tmp_path: Path, head: str
) -> None:
    path = tmp_path / "odd.sql"
    path.write_text(f"{head}select 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"raw/odd\.sql"):
        parse("raw", path)


def test_a_longer_entry_goes_on_in_indented_lines(tmp_path: Path) -> None:
    path = tmp_path / "fine.sql"
    path.write_text(
        "-- one\n-- two\n-- severity: warning\n-- expects: a\n--   b\nselect 1\n", encoding="utf-8"
    )
    found = parse("raw", path)
    assert (found.reason, found.expects, found.severity) == ("one two", "a b", "warning")


class TestGaps:
    def test_an_acknowledged_gap_passes(self, scene: Scene) -> None:
        scene.plant("update ops.load set speaks_for = '{}'")
        scene.plant(ACKNOWLEDGED.format(":start, :end"))
        assert scene.check("raw", "empty_hours").passed

    def test_a_gap_that_nobody_acknowledged_does_not(self, scene: Scene) -> None:
        scene.plant("update ops.load set speaks_for = '{}'")
        scene.plant(ACKNOWLEDGED.format(":start, :end"))
        scene.plant(
            "update ops.gap set acknowledged_at = null, acknowledged_by = null, acknowledgement = null"
        )
        assert scene.check("raw", "empty_hours").offending == 4

    def test_an_acknowledgement_must_cover_the_hour(self, scene: Scene) -> None:
        scene.plant("update ops.load set speaks_for = '{}'")
        scene.plant(ACKNOWLEDGED.format(":start, cast(:end as timestamptz) - interval '1 second'"))
        assert scene.check("raw", "empty_hours").offending == 2

    def test_adjacent_acknowledgements_add_up(self, scene: Scene) -> None:
        scene.plant("update ops.load set speaks_for = '{}'")
        half = "cast(:start as timestamptz) + interval '30 minutes'"
        scene.plant(ACKNOWLEDGED.format(f":start, {half}"))
        scene.plant(ACKNOWLEDGED.format(f"{half}, :end"))
        assert scene.check("raw", "empty_hours").passed

    def test_the_other_datasets_gap_does_not_count(self, scene: Scene) -> None:
        scene.plant("update ops.load set speaks_for = '{}' where dataset = 'pod'")
        scene.plant(ACKNOWLEDGED.format(":start, :end"))
        scene.plant("delete from ops.gap where dataset = 'pod'")
        assert [json.loads(row)["dataset"] for row in scene.check("raw", "empty_hours").sample] == [
            "pod",
            "pod",
        ]

    def test_hours_without_facts_pass_when_acknowledged(self, scene: Scene) -> None:
        scene.plant("delete from core.pod_hour")
        scene.plant("delete from core.node_hour")
        scene.plant("delete from mart.cost_hour")
        assert not scene.check("costs", "empty_costs").passed
        scene.plant(ACKNOWLEDGED.format(":start, :end"))
        assert scene.check("core", "hours_without_facts").passed
        assert scene.check("costs", "empty_costs").passed

    def test_nodes_without_costs_fail_even_in_an_acknowledged_gap(self, scene: Scene) -> None:
        scene.plant("delete from mart.cost_hour")
        scene.plant(ACKNOWLEDGED.format(":start, :end"))
        assert scene.check("costs", "empty_costs").offending == 2


class TestVolume:
    @pytest.mark.parametrize(
        ("history", "passes"),
        [
            (HISTORY.format(days=3, copies=1, seconds=3600), True),  # 3.5 before, 3.25 now
            (HISTORY.format(days=2, copies=2, seconds=3600), True),  # two days are no history
            (
                HISTORY.format(days=3, copies=2, seconds=3600),
                False,
            ),  # 7 before: more than 40 % fewer
            (
                HISTORY.format(days=3, copies=1, seconds=1800),
                False,
            ),  # 1.75 before: more than 40 % more
        ],
    )
    def test_pods_are_compared_with_the_median_of_the_days_before(
        self, scene: Scene, history: str, passes: bool
    ) -> None:
        for part in history.split(";"):
            scene.plant(part)
        assert scene.check("raw", "volume_jump").passed is passes


def test_samples_keep_every_digit(scene: Scene) -> None:
    scene.plant(
        "update mart.cost_hour set cpu_cost = cpu_cost + 0.000000000000000001"
        f" where line = 'idle' and hour = :start and {NODE_A}"
    )
    verdict = scene.check("costs", "unbalanced_node_hours")
    assert '"difference":0.000000000000000001' in verdict.sample[0]
    assert "difference=0.000000000000000001" in str(verdict)
    assert "node=node-a" in str(verdict)


def test_only_a_few_offending_rows_leave_the_database(scene: Scene) -> None:
    scene.plant(
        "insert into ops.reject select load_id, 'pod-' || n, 'odd' from ops.load,"
        " generate_series(1, 1000) as n where dataset = 'pod'"
    )
    verdict = scene.check("raw", "rejects")
    assert (verdict.offending, len(verdict.sample)) == (1000, 5)
