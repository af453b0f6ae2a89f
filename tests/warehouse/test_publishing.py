"""Publishing: what is audited becomes the truth in one step, the same bytes every time, or nothing changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal

import pytest
import sqlalchemy

from allocate.scene import (
    A_DAY,
    DAY,
    DAY_PRICES,
    NOW,
    RESOURCE_MODEL,
    a_day,
    cluster_of,
    configure,
    hours,
    land_said,
    lines_of,
    publish_stage,
    published_lines,
    put_prices,
    query,
    run_sql,
    run_window,
    stage_window,
)
from kubetally.allocate.allocate import allocate, price_nodes
from kubetally.allocate.models import ModelVersion
from kubetally.allocate.owners import OwnerEntry
from kubetally.consolidate.stage import begin, consolidate, find
from kubetally.errors import ClosedPeriodError, GateError, StaleStageError
from kubetally.warehouse.connect import engine, run_file
from kubetally.windows import HOUR, Window

CLUSTER = cluster_of("c", "prometheus", "kubernetes")
SHOP = OwnerEntry(namespace="shop", owner="team-shop")
LATER = NOW + timedelta(days=7)


@pytest.fixture(autouse=True)
def landed_day(warehouse):
    configure([SHOP])
    land_said(CLUSTER, a_day())
    return warehouse


def ledger():
    return query(
        "select publication_id, kind, hours, row_count, content_sha256, reason from ops.publication"
        " order by publication_id"
    )


def revisions():
    return {row[0] for row in query("select distinct revision from ops.published_hour")}


# --- the same content, the same hash --------------------------------------------------------------


def test_a_run_and_a_re_run_give_the_same_hash(warehouse):
    first = run_window(CLUSTER)
    again = run_window(CLUSTER, now=LATER)
    assert again.content_sha256 == first.content_sha256
    assert (first.hours, first.rows) == (24, len(published_lines("c")))
    assert [row.content_sha256 for row in ledger()] == [first.content_sha256] * 2


def test_hours_and_then_the_day_give_the_hash_of_the_day(warehouse):
    for hour in A_DAY.chunks(HOUR):
        run_window(CLUSTER, hour, "hourly")
    by_hours = published_lines("c")
    day = run_window(CLUSTER)
    assert published_lines("c") == by_hours
    assert query(
        "select count(*) from ops.published_hour where kind = 'hourly' or revision <> 1"
    ) == [(0,)]
    other = cluster_of("other")
    land_said(other, a_day())
    assert run_window(other).content_sha256 == day.content_sha256


def test_another_warehouse_order_of_arrival_gives_the_same_hash(warehouse):
    """Keys are handed out in another order; names make the hash, not keys."""
    other = cluster_of("other")
    for n, hour in enumerate(reversed(list(A_DAY.chunks(HOUR)))):
        land_said(other, a_day().within(hour))
        if n % 5 == 0:
            run_window(other, hour, "hourly")
    assert run_window(other).content_sha256 == run_window(CLUSTER).content_sha256


def test_changed_content_changes_the_hash(warehouse):
    before = run_window(CLUSTER)
    land_said(CLUSTER, a_day(cpu_used="9000"), datasets=["usage"])
    after = run_window(CLUSTER)
    assert after.content_sha256 != before.content_sha256


NOT_CONTENT = {
    "stage_id",  # differs from run to run
    "hour",  # the hash is the hour's own
    "cluster_key",
    "revision",
    "price_snapshot_ids",
    "cost",  # the sum of its parts
}
OTHER_CONTENT = {
    "line": "'recovery'",
    "owner": "'somebody-else'",
    "currency": "'EUR'",
    "node_key": "(select max(node_key) from core.node)",
    "pod_key": "(select min(pod_key) from core.pod where namespace = 'lab')",
    "cost_model_key": "(select max(cost_model_key) from core.cost_model)",
    "is_distribution": "true",
    "pool": "'control_plane'",
    "namespace": "'lab'",
}


def test_the_hash_sees_every_figure_of_a_line(warehouse):
    configure([SHOP], model=cheap_gpus(), now=LATER)  # so that there is another model version
    run_window(CLUSTER)
    columns = {
        row[0]
        for row in query(
            "select attname from pg_attribute where attrelid = 'mart.cost_hour'::regclass"
            " and attnum > 0 and not attisdropped"
        )
    }
    unseen = []
    for column in sorted(columns - NOT_CONTENT):
        value = OTHER_CONTENT.get(column, f"{column} + 0.000000000000000001")
        with engine("owner").connect() as connection:
            before = hashes(connection)
            changed = connection.exec_driver_sql(
                f"update mart.cost_hour set {column} = {value} where ctid = (select min(cost_hour.ctid)"
                " from mart.cost_hour join core.pod using (pod_key) where line = 'workload'"
                " and pod.uid = 'uid-web' and hour = '2026-11-03 10:00Z')"
            )
            assert changed.rowcount == 1
            if hashes(connection) == before:
                unseen.append(column)
            connection.rollback()
    assert unseen == []


def hashes(connection):
    window = {"stage_id": 1, "start": A_DAY.start, "end": A_DAY.end}
    return run_file(connection, "publish/content_hashes.sql", window).all()


# --- replacing ------------------------------------------------------------------------------------


def test_what_was_replaced_leaves_no_row_behind(warehouse):
    for hour in list(A_DAY.chunks(HOUR))[:3]:
        run_window(CLUSTER, hour, "hourly")
    run_window(CLUSTER)
    current = query("select distinct stage_id from ops.published_hour")
    assert len(current) == 1
    for table in (
        "core.pod_hour",
        "core.node_hour",
        "core.container_hour",
        "mart.cost_hour",
        "core.pod_segment",
        "core.node_segment",
        "core.namespace_segment",
        "core.node_price",
    ):
        assert query(f"select distinct stage_id from {table}") == current, table
    states = query("select state, count(*) from ops.stage group by state order by state")
    assert [tuple(row) for row in states] == [("abandoned", 3), ("published", 1)]


def test_the_hour_does_not_overwrite_the_day(warehouse):
    day = run_window(CLUSTER)
    land_said(CLUSTER, a_day(cpu_used="9000"), datasets=["usage"])
    before = published_lines("c")
    hour = run_window(CLUSTER, hours("10:00", "11:00"), "hourly")
    assert (hour.publication_id, hour.hours, hour.rows) == (None, 0, 0)
    assert published_lines("c") == before
    assert len(ledger()) == 1
    assert day.hours == 24


def test_an_hourly_window_fills_only_the_hours_the_day_left(warehouse):
    run_window(CLUSTER, hours("00:00", "02:00"))
    both = run_window(CLUSTER, hours("01:00", "03:00"), "hourly")
    assert both.hours == 1
    kinds = query("select kind, count(*) from ops.published_hour group by kind order by kind")
    assert [tuple(row) for row in kinds] == [("daily", 2), ("hourly", 1)]
    run_window(CLUSTER)
    assert query("select count(distinct stage_id) from mart.cost_hour") == [(1,)]


def test_the_rollup_adds_up_to_the_published_hours(warehouse):
    run_window(CLUSTER, hours("00:00", "05:00"))
    run_window(CLUSTER, hours("03:00", "12:00"), prices={"uid-node-a": "0.5", "uid-node-b": None})
    by_hour = query(
        "select line, owner, sum(cost) as cost, sum(cpu_core_seconds) as cpu from mart.cost_hour"
        " join ops.published_hour using (stage_id, hour) group by 1, 2 order by 1, 2"
    )
    by_day = query(
        "select line, owner, sum(cost) as cost, sum(cpu_core_seconds) as cpu from mart.cost_day"
        " group by 1, 2 order by 1, 2"
    )
    assert by_day == by_hour
    assert query("select distinct day from mart.cost_day") == [(DAY.date(),)]


# --- refusing -------------------------------------------------------------------------------------


def test_a_stage_whose_loads_changed_is_refused(warehouse):
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    land_said(CLUSTER, a_day(cpu_used="9000"), datasets=["usage"])
    with pytest.raises(StaleStageError, match="New data landed for c"):
        publish_stage(stage)
    assert (published_lines("c"), ledger()) == ([], [])


def test_the_same_data_landing_again_does_not_make_a_stage_stale(warehouse):
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    land_said(CLUSTER, a_day())
    assert publish_stage(stage).hours == 24


def test_data_of_a_source_that_comes_second_does_not_make_a_stage_stale(warehouse):
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    land_said(CLUSTER, a_day(source="kubernetes", cpu_used="9000"))
    assert publish_stage(stage).hours == 24


def test_a_closed_month_is_refused(warehouse):
    run_window(CLUSTER)
    before = published_lines("c")
    run_sql("insert into ops.closed_month select 1, '2026-11-01', now()")
    with pytest.raises(ClosedPeriodError, match="November 2026 is closed"):
        run_window(CLUSTER, restate_reason="a late price")
    assert published_lines("c") == before
    across = Window(DAY.replace(month=10, day=31, hour=23), DAY.replace(day=1, hour=1))
    with pytest.raises(ClosedPeriodError):
        run_window(CLUSTER, across)
    october = Window(across.start, across.start + HOUR)
    assert run_window(CLUSTER, october).hours == 1


def test_a_stage_without_cost_lines_is_refused(warehouse):
    publisher = engine("publisher")
    stage = begin(publisher, CLUSTER, A_DAY, "daily", now=NOW)
    consolidate(publisher, stage)
    put_prices(stage, DAY_PRICES)
    with pytest.raises(
        GateError, match=r"hour 2026-11-03T00:00:00Z.*add up to 0 but the cluster costs 0\.2786"
    ):
        publish_stage(stage)


def test_lines_that_do_not_add_up_are_refused(warehouse):
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    run_sql(
        "update mart.cost_hour set cpu_cost = cpu_cost + 0.000000000000000001"
        " where ctid = (select min(ctid) from mart.cost_hour where line = 'idle')"
    )
    with pytest.raises(GateError, match=r"a difference of 1E-18|0\.000000000000000001"):
        publish_stage(stage)
    assert published_lines("c") == []


def test_a_discarded_stage_is_refused(warehouse):
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    run_window(CLUSTER)
    newer = published_lines("c")
    run_sql("update ops.stage set state = 'abandoned' where stage_id = :id", id=stage.stage_id)
    run_sql("delete from mart.cost_hour where stage_id = :id", id=stage.stage_id)
    run_sql("delete from core.node_hour where stage_id = :id", id=stage.stage_id)
    with pytest.raises(StaleStageError, match="replaced by a later run or discarded"):
        publish_stage(stage)
    assert published_lines("c") == newer


def test_a_replaced_stage_cannot_come_back(warehouse):
    old = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    publish_stage(old)
    run_window(CLUSTER, now=LATER)
    newer = published_lines("c")
    with pytest.raises(StaleStageError, match="consolidate"):
        publish_stage(old)
    with pytest.raises(StaleStageError):
        allocate(engine("publisher"), old, CLUSTER)
    assert published_lines("c") == newer


# --- repeating a step -----------------------------------------------------------------------------


def test_publishing_a_stage_again_gives_its_receipt_and_changes_nothing(warehouse):
    """A task whose COMMIT was lost on the way back is run again."""
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    first = publish_stage(stage)
    assert publish_stage(stage, now=LATER) == first
    assert len(ledger()) == 1


def test_pricing_and_allocating_again_changes_nothing(warehouse):
    priced = cluster_of("c", "prometheus", "kubernetes", hourly_rate="0.125")
    publisher = engine("publisher")
    stage = begin(publisher, priced, A_DAY, "daily", now=NOW)
    consolidate(publisher, stage)
    for _ in range(2):
        price_nodes(publisher, stage, priced)
        rows = allocate(publisher, stage, priced)
    lines = lines_of(stage)
    assert len(lines) == rows
    assert sum(line.cost for line in lines) == Decimal("0.125") * 24 + Decimal("0.125") * Decimal(
        "13.5"
    )
    publish_stage(stage)
    price_nodes(publisher, stage, priced)
    assert allocate(publisher, stage, priced) == rows
    assert published_lines("c") == lines


def test_a_stage_is_found_again_by_its_id(warehouse):
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES, restate_reason="because")
    with engine("publisher").connect() as connection:
        assert find(connection, stage.stage_id) == stage


# --- what was known when --------------------------------------------------------------------------


def owners_of_pods():
    return {line.owner for line in published_lines("c") if line.pod}


def test_a_later_change_of_owners_or_model_does_not_change_an_ordinary_re_run(warehouse):
    first = run_window(CLUSTER)
    configure([OwnerEntry(namespace="shop", owner="somebody-else")], model=cheap_gpus(), now=LATER)
    again = run_window(CLUSTER, now=LATER)
    assert again.content_sha256 == first.content_sha256
    assert owners_of_pods() == {"team-shop", "unowned"}
    assert revisions() == {1}


def test_restating_uses_what_is_known_now_and_makes_a_new_revision(warehouse):
    first = run_window(CLUSTER)
    configure([OwnerEntry(namespace="shop", owner="somebody-else")], now=LATER)
    restated = run_window(CLUSTER, now=LATER, restate_reason="the shop was sold")
    assert restated.content_sha256 != first.content_sha256
    assert owners_of_pods() == {"somebody-else", "unowned"}
    assert revisions() == {2}
    assert ledger()[-1].reason == "the shop was sold"
    assert query("select distinct revision from mart.cost_hour") == [(2,)]
    configure([SHOP], now=LATER + timedelta(days=1))
    later = run_window(CLUSTER, now=LATER + timedelta(days=1))
    assert later.content_sha256 == restated.content_sha256
    assert revisions() == {2}


def test_the_day_does_not_lower_the_revision_an_hour_was_restated_to(warehouse):
    run_window(CLUSTER, hours("10:00", "11:00"), "hourly")
    run_window(CLUSTER, hours("10:00", "11:00"), "hourly", restate_reason="a late price")
    run_window(CLUSTER)
    found = query("select revision, count(*) from ops.published_hour group by 1 order by 1")
    assert [tuple(row) for row in found] == [(1, 23), (2, 1)]


def test_the_day_knows_what_became_known_after_the_hours(warehouse):
    run_window(CLUSTER, hours("10:00", "11:00"), "hourly")
    configure([OwnerEntry(namespace="shop", owner="somebody-else")], now=LATER)
    run_window(CLUSTER, now=LATER)
    assert owners_of_pods() == {"somebody-else", "unowned"}


def cheap_gpus():
    version = RESOURCE_MODEL.versions[0]
    other = ModelVersion(
        valid_from=version.valid_from,
        currency="USD",
        base_price=type(version.base_price)(Decimal(1), Decimal(1), Decimal(1)),
    )
    return type(RESOURCE_MODEL)("resource", (other,))


# --- readers and locks ----------------------------------------------------------------------------


@contextmanager
def watching(sql: str, role: str) -> Iterator[set[tuple]]:
    """Runs a query as fast as it goes in another thread; gives the set of what it saw."""
    seen: set[tuple] = set()
    done = threading.Event()

    def watch() -> None:
        with engine(role).connect() as connection:
            while not done.is_set():
                seen.add(tuple(map(tuple, connection.execute(sqlalchemy.text(sql)))))
                connection.rollback()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("role", ["bi", "quality"])
@pytest.mark.parametrize(
    "view",
    [
        "select count(distinct hour), sum(cost) from bi.cost_hour",
        "select sum(hours), sum(cost) from bi.cost_day",
    ],
)
def test_a_reader_sees_the_old_or_the_new_day_and_nothing_between(warehouse, role, view):
    dear = {"uid-node-a": "1", "uid-node-b": "2"}
    allowed = set()
    for prices in (DAY_PRICES, dear):
        run_window(CLUSTER, prices=prices)
        allowed.add(tuple(map(tuple, query(view, role))))
    assert len(allowed) == 2
    stages = [
        stage_window(CLUSTER, A_DAY, prices) for prices in (DAY_PRICES, dear, DAY_PRICES, dear)
    ]
    with watching(view, role) as seen:
        for stage in stages:
            publish_stage(stage)
    assert seen <= allowed


def test_a_stage_is_invisible_to_people(warehouse):
    stage_window(CLUSTER, A_DAY, DAY_PRICES)
    assert query("select count(*) from bi.cost_hour", "bi") == [(0,)]


def test_publishing_waits_for_whoever_holds_the_day(warehouse):
    """A landing and a publication of one cluster-day follow each other; other days do not wait."""
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    with engine("loader").connect() as holder:
        holder.execute(
            sqlalchemy.text(
                "select pg_advisory_xact_lock(hashtextextended('kubetally/c/2026-11-03', 0))"
            )
        )
        other = Window(DAY + timedelta(days=1), DAY + timedelta(days=1, hours=1))
        run_window(CLUSTER, other)
        done = threading.Thread(target=publish_stage, args=(stage,))
        done.start()
        done.join(timeout=0.5)
        assert done.is_alive()
        holder.rollback()
    done.join()
    assert len(query("select hour from ops.published_hour where hour < :end", end=A_DAY.end)) == 24
