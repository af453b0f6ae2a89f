"""A day of a large cluster through the warehouse: how long each stage takes, beside DuckDB with doubles.

    PYTHONPATH=include python benchmarks/allocate_day.py [NODES PODS HOURS]

Default: 200 nodes, 10,000 pods, 24 hours, hence 240,000 pod-hours and as many usage rows. It starts an
embedded Postgres of its own (as on a laptop, only without fsync), lands the day, stages it, publishes
it, and removes everything again. The same allocation from the same frames in DuckDB, in doubles and
without a warehouse around it, is the yardstick: what the engine, exact money and one transaction cost.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import msgspec
import polars as pl

from kubetally.allocate.allocate import allocate, price_nodes, sync_config
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate import stage as staging
from kubetally.local.postgres import THROWAWAY, Server
from kubetally.sources.rows import SCHEMAS, Batch, Collected, Dataset
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import land
from kubetally.warehouse.migrate import ROLES, migrate
from kubetally.warehouse.publish import publish
from kubetally.windows import HOUR, Window

START = datetime(2026, 11, 3, tzinfo=UTC)
NOW = datetime(2026, 11, 4, 1, tzinfo=UTC)
GIB = 1024**3
CLUSTER = ClusterConfig("bench", (SourceConfig("prometheus", "unused"),), hourly_rate="0.384")
FULLY_LOADED = msgspec.structs.replace(CLUSTER, cost_models=("fully_loaded",))


def frames(nodes: int, pods: int, window: Window) -> dict[Dataset, pl.DataFrame]:
    """Nodes that stay; pods of which every eleventh ends early; a usage row per pod and hour."""
    hours = window.seconds // 3600
    node = pl.DataFrame({"n": range(nodes)}).select(
        start_at=pl.lit(window.start),
        end_at=pl.lit(window.end),
        uid=pl.format("node-{}", "n"),
        node=pl.format("node-{}", "n"),
        cpu_capacity_cores=pl.lit("64"),
        cpu_allocatable_cores=pl.lit("63.77"),
        memory_capacity_bytes=pl.lit(str(64 * GIB)),
        memory_allocatable_bytes=pl.lit(str(61 * GIB)),
        gpu_capacity=pl.lit("0"),
        is_ready=pl.lit(True),
        is_virtual=pl.lit(False),
        labels=pl.lit("{}"),
    )
    pod = pl.DataFrame({"p": range(pods)}).select(
        "p",
        start_at=pl.lit(window.start),
        end_at=pl.when(pl.col("p") % 11 == 0)
        .then(pl.lit(window.start + timedelta(minutes=613)))
        .otherwise(pl.lit(window.end)),
        uid=pl.format("pod-{}", "p"),
        namespace=pl.when(pl.col("p") % 50 == 0)
        .then(pl.lit("kube-system"))
        .otherwise(pl.format("team-{}", pl.col("p") % 40)),
        pod=pl.format("app-{}-{}", pl.col("p") % 700, "p"),
        node=pl.format("node-{}", pl.col("p") % nodes),
        phase=pl.lit("Running"),
        workload_kind=pl.lit("Deployment"),
        workload_name=pl.format("app-{}", pl.col("p") % 700),
        cpu_request_cores=pl.format("0.{}", pl.col("p") % 9 + 1),
        memory_request_bytes=((pl.col("p") % 7 + 1) * (GIB // 3)).cast(pl.String),
        gpu_request=pl.lit("0"),
        labels=pl.concat_str(
            pl.lit('{"app": "app-'),
            pl.col("p") % 700,
            pl.lit('", "team": "'),
            pl.col("p") % 40,
            pl.lit('"}'),
        ),
        annotations=pl.lit("{}"),
    )
    hour = pl.DataFrame({"h": [window.start + n * HOUR for n in range(hours)]})
    usage = (
        pod.join(hour, how="cross")
        .filter(pl.col("end_at") > pl.col("h"))
        .select(
            "uid",
            "namespace",
            "pod",
            "node",
            start_at=pl.col("h"),
            end_at=pl.min_horizontal(pl.col("h") + pl.duration(hours=1), "end_at"),
            container=pl.lit("app"),
            cpu_used_core_seconds=pl.format(
                "{}.{}", pl.col("p") % 3000, pl.col("h").dt.hour().cast(pl.Int32) + 100000001
            ),
            memory_used_byte_seconds=(
                (pl.col("p").cast(pl.Int64) % 11 + 1) * (GIB // 5) * 3600
            ).cast(pl.String),
        )
    )
    found: dict[Dataset, pl.DataFrame] = {"node": node, "pod": pod, "usage": usage}
    return {dataset: _whole(dataset, rows) for dataset, rows in found.items()}


def _whole(dataset: Dataset, rows: pl.DataFrame) -> pl.DataFrame:
    schema = SCHEMAS[dataset]
    missing = [pl.lit(None).alias(name) for name in schema if name not in rows.columns]
    return rows.with_columns(missing).select(
        pl.col(name).cast(kind) for name, kind in schema.items()
    )


@contextmanager
def warehouse() -> Iterator[None]:
    """A migrated warehouse on a server of its own; the product's connections lead to it."""
    with tempfile.TemporaryDirectory(prefix="kubetally-bench-") as folder:
        server = Server(Path(folder) / "postgres", THROWAWAY)
        server.base.mkdir()
        server.start()
        try:
            migrate(server.superuser_url, "bench", dict.fromkeys(ROLES, "bench"))
            for role in ROLES:
                name = role.removeprefix("kubetally_").removesuffix("_reader").upper()
                os.environ[f"AIRFLOW_CONN_KUBETALLY_{name}"] = json.dumps(
                    {
                        "conn_type": "postgres",
                        "host": "127.0.0.1",
                        "port": server.port,
                        "login": role,
                        "password": "bench",
                        "schema": "bench",
                    }
                )
            yield
        finally:
            server.destroy()


@contextmanager
def timed(name: str, times: dict[str, float]) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    times[name] = time.perf_counter() - begun
    print(f"  {name:<24} {times[name]:8.2f} s", flush=True)


def in_postgres(
    found: dict[Dataset, pl.DataFrame], window: Window
) -> tuple[dict[str, float], float]:
    times: dict[str, float] = {}
    covered = ((window.start, window.end),)
    batches = [Batch(dataset, window, rows, covered, "0" * 64) for dataset, rows in found.items()]
    loader, publisher = engine("loader"), engine("publisher")
    sync_config(publisher, now=NOW)
    with timed("land", times):
        land(loader, CLUSTER, Collected("prometheus", batches), now=NOW)
    with timed("land the same again", times):
        land(loader, CLUSTER, Collected("prometheus", batches), now=NOW)
    hour = Window(window.end - HOUR, window.end)
    with timed("one hour, all stages", times):
        stage = staging.begin(publisher, CLUSTER, hour, "hourly", now=NOW)
        staging.consolidate(publisher, stage)
        price_nodes(publisher, stage, CLUSTER)
        allocate(publisher, stage, CLUSTER)
        publish(publisher, stage, now=NOW)
    with timed("consolidate", times):
        stage = staging.begin(publisher, CLUSTER, window, "daily", now=NOW)
        staging.consolidate(publisher, stage)
    with timed("price", times):
        price_nodes(publisher, stage, CLUSTER)
    with timed("allocate, all policies", times):
        shared_rows = allocate(publisher, stage, FULLY_LOADED)
    with timed("allocate", times):
        rows = allocate(publisher, stage, CLUSTER)
    with timed("publish", times):
        publish(publisher, stage, now=NOW)
    again = staging.begin(publisher, CLUSTER, window, "daily", now=NOW)
    staging.consolidate(publisher, again)
    price_nodes(publisher, again, CLUSTER)
    allocate(publisher, again, CLUSTER)
    with timed("publish over it", times):
        publish(publisher, again, now=NOW)
    with engine("bi").connect() as connection:
        total = connection.exec_driver_sql("select sum(cost) from bi.cost_day").scalar_one()
    print(f"  {rows:,} cost lines; {shared_rows:,} with all policies")
    return times, float(total)


DUCKDB = """
with hour as (
    select unnest(generate_series($start, $end - interval 1 hour, interval 1 hour)) as hour
),
held as (
    select pod.uid, pod.node, hour.hour,
        epoch(least(pod.end_at, hour.hour + interval 1 hour) - greatest(pod.start_at, hour.hour)) as seconds,
        pod.cpu_request_cores::double as cpu, pod.memory_request_bytes::double as memory
    from pod join hour on pod.start_at < hour.hour + interval 1 hour and pod.end_at > hour.hour
),
used as (
    select uid, date_trunc('hour', start_at) as hour,
        sum(epoch(end_at - start_at)) as covered,
        sum(cpu_used_core_seconds::double) as cpu, sum(memory_used_byte_seconds::double) as memory
    from usage group by all
),
pod_hour as (
    select held.uid, held.node, held.hour,
        held.cpu * (held.seconds - used.covered) + greatest(held.cpu * used.covered, used.cpu) as cpu,
        held.memory * (held.seconds - used.covered) + greatest(held.memory * used.covered, used.memory)
        as memory
    from held left join used using (uid, hour)
),
node_hour as (
    select node.node, hour.hour, cpu_capacity_cores::double * 3600 as cpu,
        memory_capacity_bytes::double * 3600 as memory,
        cpu_allocatable_cores::double * 3600 as cpu_free, memory_allocatable_bytes::double * 3600 as memory_free,
        0.031611 * cpu_capacity_cores::double as cpu_weight,
        0.004237 * memory_capacity_bytes::double / 1073741824 as memory_weight
    from node cross join hour
),
pool as (
    select *, 0.384 * cpu_weight / (cpu_weight + memory_weight) as cpu_pool,
        0.384 * memory_weight / (cpu_weight + memory_weight) as memory_pool
    from node_hour
),
workload as (
    select pool.node, pool.hour, uid, 'workload' as line,
        cpu_pool * pod_hour.cpu / pool.cpu as cpu_cost, memory_pool * pod_hour.memory / pool.memory as memory_cost
    from pod_hour join pool using (node, hour)
),
taken as (
    select node, hour, sum(cpu_cost) as cpu_cost, sum(memory_cost) as memory_cost from workload group by all
)
select * from workload
union all
select node, hour, null, 'system', cpu_pool * (cpu - cpu_free) / cpu, memory_pool * (memory - memory_free) / memory
from pool
union all
select node, hour, null, 'idle',
    cpu_pool - cpu_pool * (cpu - cpu_free) / cpu - coalesce(taken.cpu_cost, 0),
    memory_pool - memory_pool * (memory - memory_free) / memory - coalesce(taken.memory_cost, 0)
from pool left join taken using (node, hour)
"""


def in_duckdb(found: dict[Dataset, pl.DataFrame], window: Window) -> tuple[dict[str, float], float]:
    times: dict[str, float] = {}
    with duckdb.connect() as connection:
        connection.execute("set threads = 2")
        with timed("load", times):
            for dataset, rows in found.items():
                connection.register("rows", rows.to_arrow())
                connection.execute(f"create table {dataset} as select * from rows")  # noqa: S608
        with timed("consolidate + allocate", times):
            connection.execute(
                f"create table line as {DUCKDB}", {"start": window.start, "end": window.end}
            )
        total = connection.execute("select sum(cpu_cost + memory_cost) from line").fetchone()
    assert total is not None
    return times, float(total[0])


def main() -> None:
    nodes, pods, hours = (
        [int(text) for text in sys.argv[1:4]] if len(sys.argv) > 3 else [200, 10_000, 24]
    )
    window = Window(START, START + hours * HOUR)
    found = frames(nodes, pods, window)
    print(f"{nodes} nodes, {pods:,} pods, {hours} hours, {found['usage'].height:,} usage rows")
    print("DuckDB, doubles, in memory:")
    baseline, cheap = in_duckdb(found, window)
    with warehouse():
        print("Kubetally, Postgres, exact:")
        times, cost = in_postgres(found, window)
    print(f"  costs {cost:.6f}, DuckDB {cheap:.6f}")
    core = times["consolidate"] + times["allocate"]
    ratio = core / baseline["consolidate + allocate"]
    print(f"consolidate + allocate: {core:.2f} s, {ratio:.1f} times DuckDB")


if __name__ == "__main__":
    main()
