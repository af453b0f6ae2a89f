"""What each role may, and what it may not."""

from __future__ import annotations

import psycopg2
import pytest

from allocate.scene import A_DAY, a_day, cluster_of, configure, land_said, run_window

DENIED = (psycopg2.errors.InsufficientPrivilege, psycopg2.errors.ReadOnlySqlTransaction)

MAY = [
    ("loader", "select count(*) from raw.pod_interval"),
    ("loader", "delete from raw.pod_interval where false"),
    ("loader", "select ops.ensure_partitions('raw.pod_interval', '2030-01-01', '2030-01-01')"),
    ("loader", "update ops.gap set reason = reason"),
    ("publisher", "delete from mart.cost_hour where false"),
    ("publisher", "select count(*) from raw.usage_interval"),
    ("publisher", "select ops.ensure_partitions('mart.cost_hour', '2030-01-01', '2030-01-01')"),
    ("quality", "select count(*) from mart.cost_hour"),
    ("quality", "select count(*) from bi.cost_hour"),
    ("quality", "select count(*) from core.price"),
    (
        "quality",
        "insert into ops.check_result (checked_at, cluster_key, during, gate, check_name, engine,"
        " severity, passed, expected, observed)"
        " values (now(), 1, 'empty', 'raw', 'a', 'sql', 'warning', true, '', '')",
    ),
    ("bi", "select count(*) from bi.cost_hour"),
    ("bi", "select count(*) from cost_day"),
]
MAY_NOT = [
    ("loader", "delete from mart.cost_hour"),
    ("loader", "insert into ops.published_hour select * from ops.published_hour"),
    ("loader", "update ops.stage set state = 'published'"),
    ("loader", "insert into ops.closed_month values (1, '2026-11-01', now())"),
    ("loader", "update core.owner_rule set owner = 'me'"),
    ("loader", "truncate raw.pod_interval"),
    ("loader", "drop table raw.pod_interval"),
    ("loader", "create table raw.mine (a int)"),
    ("loader", "create table public.mine (a int)"),
    ("loader", "delete from ops.load"),
    ("loader", "update core.price_snapshot set payload = ''"),
    ("publisher", "insert into raw.pod_interval select * from raw.pod_interval"),
    ("publisher", "delete from raw.usage_interval"),
    ("publisher", "update ops.load set speaks_for = '{}'"),
    ("publisher", "update mart.cost_hour set cpu_cost = 0"),
    ("publisher", "update ops.publication set content_sha256 = ''"),
    ("publisher", "delete from ops.publication"),
    ("publisher", "delete from ops.closed_month"),
    ("publisher", "insert into core.price overriding system value select * from core.price"),
    ("publisher", "alter table mart.cost_hour add column mine int"),
    ("quality", "delete from mart.cost_hour"),
    ("quality", "update ops.check_result set passed = true"),
    ("quality", "delete from ops.check_result"),
    ("quality", "select ops.ensure_partitions('raw.pod_interval', '2030-01-01', '2030-01-01')"),
    ("quality", "insert into ops.gap overriding system value select * from ops.gap"),
    ("bi", "select count(*) from core.pod"),
    ("bi", "select count(*) from mart.cost_hour"),
    ("bi", "select count(*) from raw.pod_interval"),
    ("bi", "select count(*) from ops.load"),
    ("bi", "select payload from core.price_snapshot"),
    ("bi", "delete from bi.price_snapshots"),
    ("bi", "create view bi.mine as select 1"),
    ("bi", "set transaction read write; create table bi.mine (a int)"),
    ("bi", "select ops.ensure_partitions('raw.pod_interval', '2030-01-01', '2030-01-01')"),
    ("bi", "create temporary table mine (a int)"),
]


@pytest.fixture
def filled(warehouse):
    configure()
    cluster = cluster_of("c")
    land_said(cluster, a_day())
    run_window(cluster)
    return warehouse


def test_roles_may_do_their_work(filled):
    for role, statement in MAY:
        with filled.connect(role) as connection, connection.cursor() as cursor:
            cursor.execute(statement)


def test_roles_may_do_nothing_else(filled):
    allowed = []
    for role, statement in MAY_NOT:
        with filled.connect(role) as connection, connection.cursor() as cursor:
            try:
                cursor.execute(statement)
            except DENIED:
                continue
            finally:
                connection.rollback()
            allowed.append((role, statement))
    assert not allowed


def test_partitions_are_made_of_known_tables_only(warehouse):
    refused = pytest.raises(
        psycopg2.errors.RaiseException, match=r"no partitions are kept for core\.pod"
    )
    with warehouse.connect("loader") as connection, connection.cursor() as cursor, refused:
        cursor.execute("select ops.ensure_partitions('core.pod', '2030-01-01', '2030-01-01')")


def test_people_read_nothing_but_the_views(warehouse):
    """Whatever is added later: bi_reader's rights end at the schema bi."""
    with warehouse.connect("owner") as connection, connection.cursor() as cursor:
        cursor.execute(
            "select n.nspname || '.' || c.relname from pg_class as c"
            " join pg_namespace as n on n.oid = c.relnamespace"
            " where n.nspname in ('raw', 'core', 'mart', 'ops', 'public')"
            " and c.relkind in ('r', 'p', 'v', 'm') and has_table_privilege('bi_reader', c.oid, 'select')"
        )
        assert cursor.fetchall() == []
        cursor.execute(
            "select count(*) from pg_class as c join pg_namespace as n on n.oid = c.relnamespace"
            " where n.nspname = 'bi' and has_table_privilege('bi_reader', c.oid, 'select')"
        )
        assert cursor.fetchone()[0] > 5


def test_every_table_and_column_is_explained(warehouse):
    with warehouse.connect("owner") as connection, connection.cursor() as cursor:
        cursor.execute(
            "select n.nspname || '.' || c.relname || coalesce('.' || a.attname, '')"
            " from pg_class as c"
            " join pg_namespace as n on n.oid = c.relnamespace"
            " left join lateral (select attname, attnum from pg_attribute where attrelid = c.oid"
            "   and attnum > 0 and not attisdropped union all select null, 0) as a on true"
            " where n.nspname in ('raw', 'core', 'mart', 'ops', 'bi') and c.relkind in ('r', 'p', 'v')"
            " and not c.relispartition"
            " and case when a.attnum = 0 then obj_description(c.oid, 'pg_class')"
            "   else col_description(c.oid, a.attnum) end is null order by 1"
        )
        assert [row[0] for row in cursor.fetchall() if "alembic" not in row[0]] == []


def test_the_day_of_the_fixture_is_the_day_that_is_published(filled):
    with filled.connect("bi") as connection, connection.cursor() as cursor:
        cursor.execute("select min(hour), count(distinct hour) from bi.cost_hour")
        assert cursor.fetchone() == (A_DAY.start, 24)
