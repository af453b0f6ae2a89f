"""# Costs of the last hour

**What it publishes** Provisional costs of every cluster for the hour just ended. The day's run
replaces them; an hour the day's run has published is not overwritten.

**Window** The run's data interval, one UTC hour.

**Inputs** As `costs_daily`.

**Checks** The same gates over one hour.

**Backfill** Not needed: backfill `costs_daily` instead.

**When it fails** The next hour is not affected, and the day's run repairs the gap. Failing every hour
means that a source is away: see the message and `bi.gaps`.
"""

from datetime import timedelta

from airflow.sdk import CronDataIntervalTimetable, dag

from kubetally.flow import DEFAULTS, START, costs_of_cluster, settled_clusters


@dag(
    dag_id="costs_hourly",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=2,
    default_args=DEFAULTS,
    dagrun_timeout=timedelta(hours=2),
    tags=["kubetally", "costs"],
)
def costs_hourly() -> None:
    clusters = settled_clusters(settle_minutes=10)
    costs_of_cluster.partial(kind="hourly").expand(cluster=clusters)


costs_hourly()
