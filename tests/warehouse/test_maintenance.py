"""Upkeep: partitions come and go, stages nobody publishes go, and nothing that is read is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from allocate.scene import (
    A_DAY,
    DAY,
    DAY_PRICES,
    NOW,
    a_day,
    cluster_of,
    configure,
    land_said,
    published_lines,
    query,
    run_window,
    stage_window,
)
from kubetally import config
from kubetally.errors import ConfigError, GateError, StaleStageError
from kubetally.warehouse.connect import engine
from kubetally.warehouse.maintain import check_freshness, discard_stages, keep_partitions
from kubetally.warehouse.publish import publish

CLUSTER = cluster_of("c")


def partitions(parent):
    return [
        name.removeprefix(f"{parent}_")
        for (name,) in query(
            "select inhrelid::regclass::text from pg_inherits"
            " where inhparent = cast(:parent as regclass) order by 1",
            parent=parent,
        )
    ]


def test_the_coming_days_have_partitions(warehouse):
    made = keep_partitions(DAY.replace(day=29))
    assert partitions("raw.pod_interval") == ["20261129", "20261130", "20261201"]
    assert partitions("mart.cost_hour") == ["202611", "202612"]
    assert made == {"partitions_made": 7 * 3 + 5 * 2, "partitions_dropped": 0}
    assert keep_partitions(DAY.replace(day=29))["partitions_made"] == 0


def test_raw_goes_after_its_days_and_its_loads_stop_speaking(warehouse, monkeypatch):
    monkeypatch.setenv("KUBETALLY_RAW_DAYS", "2")
    configure()
    for day in (DAY, DAY + timedelta(days=1)):
        land_said(CLUSTER, a_day(day))
    run_window(CLUSTER)
    before = published_lines("c")
    keep_partitions(DAY + timedelta(days=2))
    assert partitions("raw.pod_interval")[0] == "20261103"
    keep_partitions(DAY + timedelta(days=3))
    assert partitions("raw.pod_interval")[0] == "20261104"
    speaking = query("select distinct lower(during) from ops.load where superseded_at is null")
    assert speaking == [(DAY + timedelta(days=1),)]
    assert published_lines("c") == before
    assert query("select rows from (select count(*) as rows from raw.usage_interval) as found") == [
        (24,)
    ]


def test_a_day_whose_raw_rows_are_gone_cannot_be_published_as_empty(warehouse, monkeypatch):
    monkeypatch.setenv("KUBETALLY_RAW_DAYS", "1")
    configure()
    land_said(CLUSTER, a_day())
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    keep_partitions(DAY + timedelta(days=5))
    with pytest.raises(StaleStageError):
        publish(engine("publisher"), stage, now=NOW)


def test_hours_go_by_whole_months_and_the_daily_rollup_stays(warehouse, monkeypatch):
    monkeypatch.setenv("KUBETALLY_HOUR_DAYS", "30")
    configure()
    land_said(CLUSTER, a_day())
    run_window(CLUSTER)
    rollup = query("select * from mart.cost_day order by line, owner, namespace, workload_name")
    keep_partitions(DAY.replace(month=12, day=30))
    assert "202611" in partitions("mart.cost_hour")
    keep_partitions(DAY.replace(month=12, day=31))
    assert "202611" not in partitions("mart.cost_hour")
    assert rollup and rollup == query(
        "select * from mart.cost_day order by line, owner, namespace, workload_name"
    )


@pytest.mark.parametrize("value", ["0", "-1", "ten", "1.5"])
def test_a_retention_that_is_no_number_of_days_is_refused(warehouse, monkeypatch, value):
    monkeypatch.setenv("KUBETALLY_RAW_DAYS", value)
    with pytest.raises(ConfigError, match=f"KUBETALLY_RAW_DAYS is '{value}'"):
        keep_partitions(NOW)


def test_old_stages_are_discarded_and_published_or_young_ones_stay(warehouse):
    configure()
    land_said(CLUSTER, a_day())
    run_window(CLUSTER, now=NOW)
    before = published_lines("c")
    old = stage_window(CLUSTER, A_DAY, DAY_PRICES, now=NOW)
    young = stage_window(CLUSTER, A_DAY, DAY_PRICES, now=NOW + timedelta(hours=20))
    assert discard_stages(NOW + timedelta(hours=30)) == {"stages_discarded": 1}
    rows = {
        row.stage_id: row.rows
        for row in query("select stage_id, count(*) as rows from mart.cost_hour group by 1")
    }
    assert old.stage_id not in rows and rows[young.stage_id] == len(before)
    assert published_lines("c") == before
    for table in ("core.pod_segment", "core.node_price", "core.container_hour", "core.node_hour"):
        left = query(
            f"select count(*) from {table} where stage_id = :id",
            id=old.stage_id,
        )
        assert left == [(0,)], table
    with pytest.raises(StaleStageError):
        publish(engine("publisher"), old, now=NOW)


def test_a_stage_that_is_being_published_is_not_discarded(warehouse):
    configure()
    land_said(CLUSTER, a_day())
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES, now=NOW)
    with engine("publisher").begin() as connection:
        connection.exec_driver_sql(
            f"select 1 from ops.stage where stage_id = {stage.stage_id} for update"
        )
        assert discard_stages(NOW + timedelta(days=30)) == {"stages_discarded": 0}


def test_freshness_names_the_clusters_that_lag(warehouse, monkeypatch):
    configure()
    land_said(CLUSTER, a_day())
    run_window(CLUSTER)
    monkeypatch.setattr(config, "clusters", lambda: (CLUSTER,))
    newest = A_DAY.end - timedelta(hours=1)
    assert check_freshness(newest + timedelta(days=2)) == {"c": str(newest)}
    with pytest.raises(GateError, match=r"more than 2 days: c \(newest: 2026-11-03 23:00"):
        check_freshness(newest + timedelta(days=2, seconds=1))
    monkeypatch.setattr(config, "clusters", lambda: (CLUSTER, cluster_of("new")))
    with pytest.raises(GateError, match=r"new \(newest: nothing\)"):
        check_freshness(newest)
