"""# Costs of a day

**What it publishes** The authoritative costs of every cluster for one UTC day: `core` facts, `mart`
cost lines, the daily rollup, one row in `ops.publication` with the content hash.

**Window** The run's data interval, `[day, day + 1)` in UTC.

**Inputs** The sources of each cluster that know the past (Prometheus, files), what `scrape` landed
meanwhile, the price book, `include/config/`.

**Checks** Gates after raw, after core and before publishing; see `bi.checks`. A critical check that
fails stops the cluster's run and leaves what was published untouched.

**Backfill** `airflow backfill create --dag-id costs_daily --from-date 2026-11-01 --to-date 2026-11-07`
runs these seven days. Running a day again gives the same hash unless its data changed. To compute the
past anew with today's prices and owners, trigger it with `restate_reason`; that makes a new revision.

**When it fails** Read the failed task's last line: it names the check, the window and what to do.
`collect` and `check_raw`: a source was away; run the day again, or acknowledge the gap
(`make gap CLUSTER=… FROM=… TO=… REASON=…`). Everything else: clear the task; each is safe to repeat.
"""

from datetime import timedelta

from airflow.sdk import CronDataIntervalTimetable, Param, dag

from kubetally.flow import DEFAULTS, START, costs_of_cluster, settled_clusters


@dag(
    dag_id="costs_daily",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=4,
    default_args=DEFAULTS,
    dagrun_timeout=timedelta(hours=12),
    tags=["kubetally", "costs"],
    params={
        "restate_reason": Param(
            "",
            type="string",
            title="Restate because",
            description="Why the past is computed anew with today's prices and owners. Empty: an ordinary run.",
        )
    },
)
def costs_daily() -> None:
    clusters = settled_clusters(settle_minutes=20)
    costs_of_cluster.partial(kind="daily").expand(cluster=clusters)


costs_daily()
