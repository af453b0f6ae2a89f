"""The stages as the DAGs call them, one after the other, over data that a live source landed before."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from allocate.scene import (
    A_DAY,
    a_day,
    cluster_of,
    hours,
    land_said,
    published_lines,
    query,
    run_sql,
)
from kubetally import pipeline
from kubetally.config import PROJECT
from kubetally.errors import ClosedPeriodError, GateError, StaleStageError
from kubetally.windows import HOUR

CLUSTER = cluster_of("live", "kubernetes")
CLUSTERS = """
clusters:
  - name: live
    provider: custom
    hourly_rate: "0.125"
    sources:
      - {kind: kubernetes, connection: unused}
"""
NODE_HOURS = 24 + Decimal("13.5")


@pytest.fixture
def config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "clusters.yaml").write_text(CLUSTERS)
    (tmp_path / "owners.yaml").write_text("owners:\n  - {namespace: shop, owner: team-shop}\n")
    models = tmp_path / "cost_models"
    models.mkdir()
    text = (PROJECT / "include" / "config" / "cost_models" / "resource.yaml").read_text()
    (models / "resource.yaml").write_text(text)
    monkeypatch.setenv("KUBETALLY_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("KUBETALLY_DEMO", "0")
    return tmp_path


@pytest.fixture
def landed(warehouse, config_folder):
    land_said(CLUSTER, a_day(source="kubernetes"))
    return warehouse


def total():
    return sum(line.cost for line in published_lines("live") if line.cost is not None)


def late_pod():
    said = a_day(source="kubernetes")
    said.rows["pod"].append(said.rows["pod"][0] | {"uid": "uid-late", "pod": "late"})
    return said


def test_hours_day_and_re_run_give_one_hash_and_the_price_of_the_nodes(landed):
    for hour in list(A_DAY.chunks(HOUR))[9:11]:
        pipeline.run_window("live", hour, "hourly")
    by_hour = published_lines("live")
    day = pipeline.run_window("live", A_DAY, "daily", who="a test")
    again = pipeline.run_window("live", A_DAY, "daily")
    assert again["content_sha256"] == day["content_sha256"]
    assert (day["hours"], total()) == (24, Decimal("0.125") * NODE_HOURS)
    assert [line for line in published_lines("live") if line in by_hour] == by_hour
    assert query("select published_by from ops.publication order by publication_id")[2] == (
        "a test",
    )


def test_data_that_lands_between_audit_and_publish_is_staged_and_audited_first(landed):
    stage = pipeline.consolidate("live", A_DAY, "daily")["stage_id"]
    pipeline.allocate(stage)
    land_said(CLUSTER, late_pod())
    published = pipeline.publish(stage)
    assert published["hours"] == 24
    assert "uid-late" in {line.pod for line in published_lines("live")}
    (used,) = query("select distinct stage_id from ops.published_hour")
    assert used[0] > stage
    gates = query("select distinct gate from ops.check_result where stage_id = :id", id=used[0])
    assert {row[0] for row in gates} == {"core", "costs"}


def test_data_that_never_stops_landing_ends_the_run_with_a_remedy(landed, monkeypatch):
    stage = pipeline.consolidate("live", A_DAY, "daily")["stage_id"]
    pipeline.allocate(stage)
    arrived = iter(range(10))

    def more(*_):
        land_said(CLUSTER, a_day(source="kubernetes", cpu_used=str(next(arrived))))

    more()
    monkeypatch.setattr(pipeline, "check", more)
    with pytest.raises(StaleStageError, match=r"staged 3 times.*sources are quiet"):
        pipeline.publish(stage)
    assert published_lines("live") == []


def test_repeating_any_task_of_a_published_run_changes_nothing(landed):
    stage = pipeline.consolidate("live", A_DAY, "daily")["stage_id"]
    first = pipeline.allocate(stage)
    published = pipeline.publish(stage)
    before = published_lines("live")
    assert pipeline.allocate(stage) == first
    assert pipeline.publish(stage) == published
    assert published_lines("live") == before


def test_a_failed_gate_leaves_what_is_published(landed):
    pipeline.run_window("live", A_DAY, "daily")
    before = published_lines("live")
    emptied = a_day(source="kubernetes")
    emptied.rows["pod"].clear()
    land_said(CLUSTER, emptied)
    with pytest.raises(GateError, match="live"):
        pipeline.run_window("live", A_DAY, "daily")
    assert published_lines("live") == before


def test_restating_takes_todays_owners_and_an_ordinary_run_does_not(landed, config_folder):
    pipeline.run_window("live", A_DAY, "daily")
    (config_folder / "owners.yaml").write_text("owners:\n  - {namespace: shop, owner: sold}\n")
    pipeline.run_window("live", A_DAY, "daily")
    assert {line.owner for line in published_lines("live")} == {"cluster", "team-shop", "unowned"}
    pipeline.run_window("live", A_DAY, "daily", restate_reason="the shop was sold")
    assert {line.owner for line in published_lines("live")} == {"cluster", "sold", "unowned"}
    assert query("select distinct revision from ops.published_hour") == [(2,)]


def test_a_closed_month_is_not_touched(landed):
    pipeline.run_window("live", hours("00:00", "02:00"), "daily")
    run_sql(
        "insert into ops.closed_month select cluster_key, '2026-11-01', now() from core.cluster"
    )
    with pytest.raises(ClosedPeriodError):
        pipeline.run_window("live", A_DAY, "daily")
    assert len(query("select hour from ops.published_hour")) == 2
