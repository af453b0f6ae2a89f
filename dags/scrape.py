"""# Scrape the live clusters

**What it publishes** Raw statements of what each cluster's Kubernetes API says now.

**Window** The five minutes from the end of the run's data interval: a poll at 10:05 speaks for
`[10:05, 10:10)`. A poll that comes too late leaves a gap; the present is never served as the past.

**Inputs** The Kubernetes API and metrics.k8s.io of every cluster with a `kubernetes` source.

**Checks** None here; the cost runs check what landed.

**Backfill** Impossible: a live API does not know the past. Prometheus does, see `costs_daily`.

**When it fails** One failed poll is one gap of five minutes. 401 and 403 name the missing RBAC rule.
"""

from datetime import timedelta

from airflow.sdk import CronDataIntervalTimetable, dag, get_current_context, task

from kubetally.flow import DEFAULTS, START, list_clusters, show_as


@dag(
    dag_id="scrape",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("*/5 * * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS | {"retries": 0, "execution_timeout": timedelta(minutes=4)},
    dagrun_timeout=timedelta(minutes=5),
    tags=["kubetally", "sources"],
)
def scrape() -> None:
    @task(map_index_template="{{ cluster }}")
    def poll(cluster: str) -> dict:
        from kubetally import pipeline
        from kubetally.windows import Window

        show_as(cluster)
        start = get_current_context()["data_interval_end"]
        return pipeline.collect(cluster, Window(start, start + timedelta(minutes=5)), live=True)

    poll.expand(cluster=list_clusters())


scrape()
