"""# Month-to-date statements

**What it publishes** Statements per owner and one total that adds up, as CSV and HTML, in the folder
or object store of `KUBETALLY_REPORTS`.

**Window** The month of yesterday, and the one before while its last days may still change.

**Inputs** `mart.cost_day`, that is published days only.

**Checks** The owners' statements add up to the total, to the last digit.

**Backfill** Not needed: it runs whenever a day is published and writes the same bytes for the same
content.

**When it fails** Nothing but the files is affected; clear the task.
"""

from datetime import timedelta

from airflow.sdk import dag, task

from kubetally.flow import DAY_PUBLISHED, DEFAULTS, START


@dag(
    dag_id="reports",
    doc_md=__doc__,
    schedule=[DAY_PUBLISHED],
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS,
    dagrun_timeout=timedelta(hours=1),
    tags=["kubetally", "reports"],
)
def reports() -> None:
    @task
    def write_statements() -> dict:
        from kubetally import pipeline

        return pipeline.write_statements()

    write_statements()


reports()
