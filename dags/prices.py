"""# Prices of the machines in use

**What it publishes** Price-book rows and snapshots for the machine types the clusters used lately.

**Window** None: it asks for today's lists. Prices carry their own validity.

**Inputs** The public price lists, through the connections `kubetally_azure_prices`,
`kubetally_gcp_prices` (password: the API key) and `kubetally_aws_prices` (without a login the public
offer files, with an access key GetProducts). Their extra `currency` asks for another one than USD.

**Checks** Unpriced and ambiguous machines are counted in the task's receipt and shown in
`bi.unpriced`; a failing provider leaves what is known in place. Prices that changed by more than 30 %
are named with both snapshots (`sudden_changes`), and used.

**Backfill** Not needed: a list says from when its prices hold.

**When it fails** Nothing is lost; the next run asks again. A schema change of a list is named.
"""

from datetime import timedelta

from airflow.sdk import CronDataIntervalTimetable, dag, task

from kubetally.flow import DEFAULTS, START, list_clusters, show_as


@dag(
    dag_id="prices",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("30 0 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS,
    dagrun_timeout=timedelta(hours=2),
    tags=["kubetally", "prices"],
)
def prices() -> None:
    @task(map_index_template="{{ cluster }}")
    def look_up_prices(cluster: str) -> dict:
        from kubetally import pipeline

        show_as(cluster)
        return pipeline.refresh_prices(cluster)

    look_up_prices.expand(cluster=list_clusters())


prices()
