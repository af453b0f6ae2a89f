"""The BI views: documented, readable as bi_reader (and nothing else), exact, silent about staged rows."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import text

from kubetally.allocate.allocate import allocate, price_nodes
from kubetally.consolidate.stage import begin, consolidate
from kubetally.sources.rows import Gap
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import land, record_gaps
from kubetally.warehouse.publish import discard
from kubetally.windows import Window
from sample_company import (
    CLUSTER,
    FIRST_DAY,
    HOURS_OF_LAST_DAY,
    LAST_DAY,
    SILENT,
    UNPRICED_DAY,
    Company,
    collected,
    days,
)

FULL_OF_THINGS = [
    "pod_label_hour",
    "efficiency_cost_day",
    "capacity_share_hour",
    "capacity_share_day",
    "cost_hour",
    "cost_day",
    "cost_month",
    "cost_by_owner_day",
    "cost_by_owner_month",
    "cost_by_namespace_day",
    "cost_by_workload_day",
    "cost_by_resource_day",
    "cost_by_node_day",
    "requests_and_usage_hour",
    "requests_and_usage_day",
    "efficiency_day",
    "idle_day",
    "node_hour",
    "data_status",
    "unpriced",
    "publications",
    "gaps",
    "price_snapshots",
]
# The gates, odd objects, kubelets: empty in the sample.
FILLED_BY_OTHERS = ["checks", "rejects", "container_stats_hour", "gpu_stats_hour"]
RESOURCES = ("cpu", "memory", "gpu", "storage", "network", "load_balancer", "other")


def rows(company: Company, query: str, **values: object) -> list[Any]:
    with company.engine_as("bi_reader").connect() as connection:
        return list(connection.execute(text(query), values).all())


def one(company: Company, query: str, **values: object) -> Any:
    (found,) = rows(company, query, **values)
    return found


def test_the_list_of_views_is_complete(company: Company) -> None:
    found = rows(
        company, "select relname from pg_class where relnamespace = 'bi'::regnamespace order by 1"
    )
    assert [row.relname for row in found] == sorted(FULL_OF_THINGS + FILLED_BY_OTHERS)


@pytest.mark.parametrize("view", FULL_OF_THINGS)
def test_bi_reader_reads_every_view_and_it_has_rows(company: Company, view: str) -> None:
    assert rows(company, f"select * from bi.{view} limit 3")


@pytest.mark.parametrize("view", FILLED_BY_OTHERS)
def test_bi_reader_reads_views_that_others_fill(company: Company, view: str) -> None:
    assert rows(company, f"select * from bi.{view}") == []


@pytest.mark.parametrize("role", ["kubetally_quality", "kubetally_publisher"])
def test_the_stages_read_the_views_too(company: Company, role: str) -> None:
    with company.engine_as(role).connect() as connection:
        assert connection.execute(text("select count(*) from bi.data_status")).scalar()


def test_bi_reader_reads_nothing_but_bi(company: Company) -> None:
    tables = rows(
        company,
        "select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n"
        " on n.oid = c.relnamespace where n.nspname in ('raw', 'core', 'mart', 'ops', 'public')"
        " and c.relkind in ('r', 'p', 'v', 'm', 'S')",
    )
    assert len(tables) > 40
    with company.engine_as("bi_reader").connect() as connection:
        for table in tables:
            with pytest.raises(sqlalchemy.exc.ProgrammingError, match="permission denied"):
                connection.execute(text(f"select * from {table.name}"))
            connection.rollback()


@pytest.mark.parametrize(
    "command",
    [
        "create table bi.mine (n integer)",
        "create table public.mine (n integer)",
        "update bi.cost_day set cost = 0",
        "drop view bi.cost_day",
    ],
)
def test_bi_reader_changes_nothing(company: Company, command: str) -> None:
    with (
        company.engine_as("bi_reader").connect() as connection,
        pytest.raises(sqlalchemy.exc.DBAPIError),
    ):
        connection.execute(text("set transaction read write"))
        connection.execute(text(command))


def test_every_view_table_and_column_has_a_comment(company: Company) -> None:
    """Comments are the data dictionary. Partitions repeat their parent and carry none."""
    with company.engine_as("kubetally_owner").connect() as connection:
        bare = connection.execute(
            text(
                "select n.nspname || '.' || c.relname || coalesce('.' || a.attname, '') as name"
                " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
                " cross join lateral ("
                "   select null::name as attname, 0 as attnum union all"
                "   select attname, attnum from pg_attribute"
                "   where attrelid = c.oid and attnum > 0 and not attisdropped) a"
                " where n.nspname in ('bi', 'raw', 'core', 'mart', 'ops')"
                " and c.relkind in ('r', 'p', 'v') and not c.relispartition"
                " and coalesce(col_description(c.oid, a.attnum),"
                "   case when a.attnum = 0 then obj_description(c.oid, 'pg_class') end, '') = ''"
                " order by 1"
            )
        ).scalars()
        assert list(bare) == []


def test_the_lines_of_a_day_add_up_to_what_the_nodes_cost(company: Company) -> None:
    broken = rows(
        company,
        "select day, lines.cost, nodes.cost from (select day, sum(cost) as cost from bi.cost_day"
        " group by day) as lines full join (select cast(hour at time zone 'UTC' as date) as day,"
        " sum(cost) as cost from bi.node_hour group by 1) as nodes using (day)"
        " where lines.cost is distinct from nodes.cost",
    )
    assert broken == []


@pytest.mark.parametrize(
    ("view", "where"),
    [
        ("cost_hour", ""),
        ("cost_month", ""),
        ("cost_by_owner_day", ""),
        ("cost_by_owner_month", ""),
        ("cost_by_namespace_day", ""),
        ("cost_by_resource_day", ""),
        ("cost_by_node_day", ""),
        ("idle_day", ""),
        ("cost_by_workload_day", " where owner <> 'cluster'"),
    ],
)
def test_every_cut_of_the_costs_has_the_same_total(company: Company, view: str, where: str) -> None:
    total = one(company, f"select sum(cost) as cost from bi.cost_day{where}").cost
    assert total > 0
    assert one(company, f"select sum(cost) as cost from bi.{view}").cost == total


def test_owners_are_teams_unowned_or_the_cluster(company: Company) -> None:
    found = {
        row.owner: row.lines
        for row in rows(
            company,
            "select owner, array_agg(distinct line order by line) as lines"
            " from bi.cost_by_owner_day group by owner",
        )
    }
    assert found == {
        "cluster": ["idle", "system", "uncovered", "unpriced"],
        "ml-research": ["workload"],
        "platform": ["workload"],
        "team-checkout": ["unpriced", "workload"],
        "team-payments": ["workload"],
        "team-search": ["workload"],
        "unowned": ["workload"],
    }


def test_unpriced_is_null_and_never_zero(company: Company) -> None:
    costs = [f"{resource}_cost" for resource in RESOURCES] + ["cost", "currency"]
    found = rows(
        company,
        f"select {', '.join(costs)}, cpu_core_hours from bi.cost_day where line = 'unpriced'",
    )
    assert len(found) == 2
    for row in found:
        assert all(getattr(row, name) is None for name in costs)
        assert row.cpu_core_hours > 0


def test_what_has_no_price_is_listed_with_the_reason(company: Company) -> None:
    found = one(company, "select * from bi.unpriced")
    assert (found.day, found.node, found.instance_type) == (UNPRICED_DAY, "edge-1", "bare-metal")
    assert (found.price_state, found.hours) == ("unpriced", 24)
    assert (found.cpu_core_hours, found.memory_gib_hours) == (4 * 24, 8 * 24)
    assert found.reason


def test_efficiency_is_usage_over_the_requests_of_the_same_seconds(company: Company) -> None:
    """On a weekday ledger uses 0.8 of its one core for 12 hours and 0.3 for the others."""
    found = one(
        company,
        "select * from bi.efficiency_day where workload_name = 'ledger' and day = '2026-02-24'",
    )
    assert found.cpu_requested_known_core_hours == 24
    assert found.cpu_used_core_hours == Decimal("13.2")
    assert (found.cpu_efficiency, found.memory_efficiency) == (Decimal("0.55"), Decimal("0.6"))
    assert found.cpu_used_covered_share == 1


def test_more_used_than_requested_is_above_one(company: Company) -> None:
    """On a weekday gateway uses 1.3 of its request for 12 hours and 0.9 for the others."""
    found = one(
        company,
        "select * from bi.efficiency_day where workload_name = 'gateway' and day = '2026-02-24'",
    )
    assert found.cpu_efficiency == Decimal("1.1")


def test_without_usage_there_is_no_efficiency(company: Company) -> None:
    found = one(
        company,
        "select * from bi.efficiency_day where workload_name = 'coredns' and day = '2026-02-24'",
    )
    assert (found.cpu_efficiency, found.memory_efficiency, found.cpu_used_core_hours) == (None,) * 3
    assert found.cpu_used_covered_share == 0


def test_a_silent_time_is_covered_by_nothing_and_its_money_shows(company: Company) -> None:
    found = one(company, "select * from bi.data_status where day = :day", day=SILENT.start.date())
    assert (found.state, found.is_complete, found.hours_published) == ("gaps", False, 24)
    assert found.uncovered_node_hours == 3 * 7  # seven nodes
    assert found.uncovered_share == Decimal("0.125")
    assert (found.open_gaps, found.acknowledged_gaps) == (0, 2)
    cost = one(company, "select sum(uncovered_cost) as cost from bi.idle_day").cost
    assert (
        cost
        == one(company, "select sum(cost) as cost from bi.cost_day where line = 'uncovered'").cost
    )
    assert cost > 0


def test_a_gap_acknowledged_for_all_sources_is_not_open(company: Company) -> None:
    found = one(company, "select * from bi.gaps where source = 'prometheus'")
    assert (found.start_at, found.end_at) == (SILENT.start, SILENT.end)
    assert (found.is_acknowledged, found.is_filled, found.acknowledgement) == (True, False, None)


@pytest.mark.parametrize(
    ("day", "state", "published", "daily"),
    [
        (FIRST_DAY, "complete", 24, 24),
        (UNPRICED_DAY, "unpriced", 24, 24),
        (LAST_DAY, "partial", HOURS_OF_LAST_DAY, 0),
    ],
)
def test_the_state_of_a_day_names_what_is_wrong(
    company: Company, day: date, state: str, published: int, daily: int
) -> None:
    found = one(company, "select * from bi.data_status where day = :day", day=day)
    assert (found.state, found.hours_published, found.hours_daily) == (state, published, daily)
    assert found.is_complete == (state == "complete")
    assert (
        found.cost
        == one(company, "select sum(cost) as cost from bi.cost_day where day = :day", day=day).cost
    )


def test_a_gap_is_open_until_some_source_fills_it(warehouse: Any) -> None:
    """A live source that was down matters no more once a stored one told the same time."""
    day = Window.of_day(FIRST_DAY)
    loader = engine("loader")
    record_gaps(
        loader, CLUSTER.name, "kubernetes", [Gap("pod", day, "connection refused")], now=day.end
    )
    query = text("select data_status.state, open_gaps, is_filled from bi.data_status, bi.gaps")
    with engine("bi").connect() as connection:
        assert connection.execute(query).one() == ("missing", 1, False)
        connection.rollback()
        land(loader, CLUSTER, collected(day), now=day.end)
        assert connection.execute(query).one() == ("missing", 0, True)


def test_every_day_from_the_first_to_the_last_has_a_status(company: Company) -> None:
    found = rows(company, "select day from bi.data_status order by day")
    assert [row.day for row in found] == days()


def test_the_hash_of_a_day_is_over_its_hours_in_order(company: Company) -> None:
    """Two computations of a day are compared by this hash; it is the one publish returns."""
    with company.engine_as("kubetally_owner").connect() as connection:
        hours = connection.execute(
            text(
                "select content_sha256 from ops.published_hour"
                " where cast(hour at time zone 'UTC' as date) = :day order by hour"
            ),
            {"day": FIRST_DAY},
        ).scalars()
        expected = hashlib.sha256("".join(hours).encode()).hexdigest()
    found = one(company, "select * from bi.data_status where day = :day", day=FIRST_DAY)
    assert found.content_sha256 == expected


def test_the_same_day_of_work_gives_the_same_hash(company: Company) -> None:
    found = rows(
        company,
        "select content_sha256 from bi.data_status where day in ('2026-02-24', '2026-02-25')",
    )
    assert found[0] == found[1]


def test_staged_rows_are_seen_by_nobody(at_company: Company) -> None:
    """A stage that is not published leaves every view as it was."""
    queries = [
        f"select count(*) as n from bi.{view}"
        for view in FULL_OF_THINGS
        if view not in ("price_snapshots",)
    ]
    before = [one(at_company, query).n for query in queries]
    publisher = engine("publisher")
    day = Window.of_day(FIRST_DAY)
    stage = begin(publisher, CLUSTER, day, "daily", now=datetime(2026, 3, 9, tzinfo=UTC))
    try:
        assert consolidate(publisher, stage)["pod_hour"] > 0
        price_nodes(publisher, stage, CLUSTER)
        assert allocate(publisher, stage, CLUSTER) > 0
        assert [one(at_company, query).n for query in queries] == before
    finally:
        with publisher.begin() as connection:
            discard(connection, stage.stage_id)


def test_nodes_carry_the_pool_their_labels_name(company: Company) -> None:
    found = rows(company, "select distinct node_pool from bi.node_hour order by 1")
    assert [row.node_pool for row in found] == ["edge", "general", "gpu", "spot"]


def test_prices_lead_back_to_the_list_they_were_read_from(company: Company) -> None:
    found = one(
        company,
        "select distinct price_snapshots.provider, price_snapshots.sha256 from bi.cost_hour"
        " join bi.price_snapshots on price_snapshot_id = any(price_snapshot_ids)",
    )
    assert found.provider == "sheet"
    assert len(found.sha256) == 64
