"""The shapes every DAG shares: defaults, the window of a run, and the cost task group.

Light on purpose: the DAG processor imports this file often, so everything else is imported inside
the tasks.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import (
    Asset,
    ExceptionRetryPolicy,
    PokeReturnValue,
    RetryAction,
    RetryRule,
    get_current_context,
    task,
    task_group,
)

from kubetally.quality.notify import GateNotifier

if TYPE_CHECKING:
    from kubetally.windows import Window

Kind = Literal["hourly", "daily"]

DAY_PUBLISHED = Asset(name="kubetally_day_published", uri="kubetally://costs/day")
START = datetime(2020, 1, 1, tzinfo=UTC)

# Bad data and failed gates do not get better by trying again; networks and locks do.
RETRIES = ExceptionRetryPolicy(
    rules=[
        RetryRule(
            exception=f"kubetally.errors.{name}",
            action=RetryAction.FAIL,
            reason="trying again cannot help; see the message",
        )
        for name in ("GateError", "BadDataError", "ConfigError", "ClosedPeriodError")
    ]
)
DEFAULTS: dict[str, Any] = {
    "owner": "kubetally",
    "retries": 2,
    "retry_delay": timedelta(seconds=30),
    "retry_policy": RETRIES,
    "execution_timeout": timedelta(minutes=45),
    "on_failure_callback": [GateNotifier()],
}


def window_of_run() -> Window:
    """The data interval of the running DAG run as a window.

    Raises BadDataError for a run without one (triggered by hand without a logical date).
    """
    from kubetally.errors import BadDataError
    from kubetally.windows import Window

    context = get_current_context()
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is None or end is None or start == end:
        raise BadDataError(
            "This run has no data interval.",
            remedy="Run past windows as a backfill, or give the logical date when triggering.",
        )
    return Window(start, end)


def show_as(cluster: str) -> None:
    """Lets the UI name a mapped task instance by its cluster (`map_index_template`)."""
    get_current_context()["cluster"] = cluster


def run_name() -> str:
    """dag/run/task/try, as it stands in the ledger and in pg_stat_activity."""
    context = get_current_context()
    instance = context["ti"]
    return f"{instance.dag_id}/{instance.run_id}/{instance.task_id}/{instance.try_number}"


@task
def list_clusters() -> list[str]:
    """The names of the configured clusters. Having none is an error."""
    from kubetally import config
    from kubetally.errors import ConfigError

    names = [cluster.name for cluster in config.clusters()]
    if not names:
        raise ConfigError(
            "No cluster is configured.", remedy="Add one to include/config/clusters.yaml."
        )
    return names


@task.sensor(poke_interval=60, timeout=6 * 3600, mode="reschedule", task_id="settled_clusters")
def settled_clusters(settle_minutes: int) -> PokeReturnValue:
    """Waits until the window is over and sources had time to settle; gives the cluster names."""
    from kubetally import config

    settled_at = window_of_run().end + timedelta(minutes=settle_minutes)
    names = [cluster.name for cluster in config.clusters()]
    return PokeReturnValue(is_done=datetime.now(UTC) >= settled_at, xcom_value=names)


@task_group
def costs_of_cluster(cluster: str, kind: Kind) -> None:
    """From what the sources say to published costs, for one cluster and the run's window."""

    @task(map_index_template="{{ cluster }}")
    def collect(cluster: str) -> dict[str, Any]:
        from kubetally import pipeline

        show_as(cluster)
        return pipeline.collect(cluster, window_of_run())

    @task
    def check_raw(cluster: str) -> dict[str, Any]:
        from kubetally import pipeline

        return pipeline.check("raw", cluster, window_of_run())

    @task
    def look_up_prices(cluster: str) -> dict[str, Any]:
        from kubetally import pipeline

        return pipeline.look_up_prices(cluster, window_of_run())

    @task
    def consolidate(cluster: str, kind: Kind) -> dict[str, Any]:
        from kubetally import pipeline

        reason = get_current_context()["params"].get("restate_reason", "")
        return pipeline.consolidate(cluster, window_of_run(), kind, reason)

    @task
    def check_core(cluster: str, stage: dict[str, Any]) -> dict[str, Any]:
        from kubetally import pipeline

        return pipeline.check("core", cluster, window_of_run(), stage["stage_id"])

    @task
    def allocate(stage: dict[str, Any]) -> dict[str, Any]:
        from kubetally import pipeline

        return pipeline.allocate(stage["stage_id"])

    @task
    def check_costs(cluster: str, stage: dict[str, Any]) -> dict[str, Any]:
        from kubetally import pipeline

        return pipeline.check("costs", cluster, window_of_run(), stage["stage_id"])

    @task(outlets=[DAY_PUBLISHED] if kind == "daily" else [])
    def publish(stage: dict[str, Any]) -> dict[str, Any]:
        from kubetally import pipeline

        return pipeline.publish(stage["stage_id"], run_name())

    collected = collect(cluster)
    stage = consolidate(cluster, kind)
    allocated = allocate(stage)
    (
        collected
        >> check_raw(cluster)
        >> look_up_prices(cluster)
        >> stage
        >> check_core(cluster, stage)
        >> allocated
        >> check_costs(cluster, stage)
        >> publish(stage)
    )
