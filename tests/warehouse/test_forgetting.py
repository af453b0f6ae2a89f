"""Forgetting a cluster leaves nothing of it and everything of the others."""

from __future__ import annotations

import pytest

from allocate.scene import (
    A_DAY,
    NOW,
    a_day,
    cluster_of,
    configure,
    hours,
    land_said,
    query,
    run_sql,
    run_window,
    stage_window,
)
from kubetally.errors import BadDataError
from kubetally.sources.rows import Collected, Gap, Reject
from kubetally.warehouse.connect import engine
from kubetally.warehouse.forget import forget
from kubetally.warehouse.land import land

SHARED = {
    "core.cost_model",
    "core.outage",
    "core.owner_rule",
    "core.price",
    "core.price_lookup",
    "core.price_snapshot",
    "core.share_driver",
    "core.share_policy",
}


def contents():
    """Every table's number of rows; partitions count as their table."""
    tables = query(
        "select n.nspname || '.' || c.relname as name from pg_class as c"
        " join pg_namespace as n on n.oid = c.relnamespace"
        " where n.nspname in ('raw', 'core', 'mart', 'ops') and c.relkind in ('r', 'p')"
        " and not c.relispartition order by 1"
    )
    return {
        name: query(f"select count(*) from {name}")[0][0]
        for (name,) in tables
        if "alembic" not in name
    }


def fill(name):
    cluster = cluster_of(name)
    land_said(cluster, a_day())
    land_said(cluster, a_day(cpu_used="9"), datasets=["usage"])
    reject = Reject("pod", "shop/odd", "odd", "")
    gap = Gap("usage", hours("03:00", "04:00"), "gone")
    batch = a_day().batch("volume")
    land(
        engine("loader"),
        cluster,
        Collected(
            "prometheus",
            [type(batch)("volume", A_DAY, batch.rows, batch.covered, "", (reject,))],
            [gap],
        ),
        now=NOW,
    )
    run_window(cluster)
    run_window(cluster)
    stage_window(cluster, hours("00:00", "01:00"), {})
    run_sql(
        "insert into ops.closed_month select cluster_key, '2026-10-01', now() from core.cluster"
        " where cluster = :name",
        name=name,
    )
    run_sql(
        "insert into ops.check_result (checked_at, cluster_key, during, gate, check_name, engine,"
        " severity, passed, expected, observed) select now(), cluster_key, 'empty', 'raw', 'a', 'sql',"
        " 'warning', true, '', '' from core.cluster where cluster = :name",
        name=name,
    )


def test_nothing_of_the_cluster_stays_and_all_of_the_other(warehouse):
    configure()
    fill("kept")
    before = contents()
    fill("demo")
    unfilled = {name for name, rows in contents().items() if rows == before[name]}
    statistics = {
        "raw.load_balancer_interval",
        "raw.container_stats_interval",
        "core.container_stats_hour",
    }
    assert unfilled <= {*SHARED, *statistics, "raw.volume_interval"}
    with engine("owner").begin() as connection:
        counts = forget(connection, "demo")
    assert contents() == before
    assert counts["core.cluster"] == 1
    assert query("select cluster from core.cluster") == [("kept",)]


def test_a_forgotten_cluster_can_come_back(warehouse):
    configure()
    cluster = cluster_of("demo")
    land_said(cluster, a_day())
    first = run_window(cluster)
    with engine("owner").begin() as connection:
        forget(connection, "demo")
    land_said(cluster, a_day())
    assert run_window(cluster).content_sha256 == first.content_sha256


def test_an_unknown_cluster_is_named_with_those_that_are_known(warehouse):
    land_said(cluster_of("prod"), a_day())
    refused = pytest.raises(BadDataError, match="'demo'; it knows prod")
    with engine("owner").begin() as connection, refused:
        forget(connection, "demo")
