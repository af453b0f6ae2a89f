"""# Doctor

**What it publishes** Nothing. It looks a cluster over: which sources answer, which rights are missing
(with the YAML that grants them), which series are there and how far back, which nodes will have no
price. The task's log has a line per finding, with its remedy.

**Window** None; it tries the last whole hour, or the running polling cell.

**Inputs** The parameter `cluster`. `make doctor CLUSTER=name` prints the same.

**Checks** The task fails when something that a bill needs is missing.

**Backfill** Not needed.

**When it fails** Do what the remedies say and trigger it again.
"""

from datetime import timedelta

from airflow.sdk import Param, dag, get_current_context, task

from kubetally.flow import DEFAULTS, START


@dag(
    dag_id="doctor",
    doc_md=__doc__,
    schedule=None,
    start_date=START,
    catchup=False,
    max_active_runs=2,
    default_args=DEFAULTS | {"retries": 0},
    dagrun_timeout=timedelta(minutes=30),
    params={"cluster": Param("demo", type="string", description="As named in clusters.yaml.")},
    tags=["kubetally", "operations"],
)
def doctor() -> None:
    @task
    def look_over() -> int:
        from kubetally.doctor.command import demand_health

        return demand_health(get_current_context()["params"]["cluster"])

    look_over()


doctor()
