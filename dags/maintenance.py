"""# Maintenance

**What it publishes** Nothing. It makes the coming days' partitions, drops those past retention,
deletes stages nobody reads, and raises the freshness alarm.

**Window** None.

**Inputs** `KUBETALLY_RAW_DAYS` (default 90) and `KUBETALLY_HOUR_DAYS` (default 400) days are kept;
daily rollups are kept for ever.

**Checks** `check_freshness` fails when a cluster's newest published day is older than two days.

**Backfill** Not needed.

**When it fails** `check_freshness`: see why `costs_daily` did not publish. The others: clear the task.
"""

from datetime import timedelta

from airflow.sdk import CronDataIntervalTimetable, dag, task

from kubetally.flow import DEFAULTS, START


@dag(
    dag_id="maintenance",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS,
    dagrun_timeout=timedelta(hours=2),
    tags=["kubetally", "operations"],
)
def maintenance() -> None:
    @task
    def keep_partitions() -> dict:
        from kubetally.warehouse import maintain

        return maintain.keep_partitions()

    @task
    def discard_stages() -> dict:
        from kubetally.warehouse import maintain

        return maintain.discard_stages()

    @task
    def check_freshness() -> dict:
        from kubetally.warehouse import maintain

        return maintain.check_freshness()

    keep_partitions() >> discard_stages() >> check_freshness()


maintenance()
