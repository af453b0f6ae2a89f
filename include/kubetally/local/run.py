"""`make run` and `make day`: from nothing to published costs, with progress as it goes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from kubetally.config import clusters
from kubetally.errors import KubetallyError
from kubetally.local import airflow
from kubetally.local.api import ApiError
from kubetally.local.files import locked
from kubetally.local.stack import Stack
from kubetally.local.warehouse import publications, published_days

BEFORE = ("reports", "costs_daily")  # a paused DAG does not hear of published days
AFTER = ("prices", "costs_hourly", "scrape", "maintenance")
COSTS_PAGE = "/plugin/costs"
PARSE_SECONDS = 120
STALLED_SECONDS = 900
OVER = ("success", "failed")


@dataclass
class Progress:
    """Lines with the seconds since the start in front."""

    began: float = field(default_factory=time.monotonic)

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)


def run(stack: Stack, say: Progress) -> None:
    """Starts everything, fills the demo's days, and says where to look. Safe to repeat.

    Interrupted, it stops what it has started; what is in the databases stays. Raises KubetallyError
    that names the failing part.
    """
    stack.make_home()
    try:
        with locked(stack.settings.home / "lock", wait=False):
            was_running = stack.airflow.is_running()
            try:
                _start(stack, say)
                _fill(stack, say)
            except KeyboardInterrupt:
                if not was_running:
                    say("Interrupted: stopping what was started.")
                    stack.stop(say)
                raise
    except BlockingIOError:
        raise KubetallyError("Another `make run` is at work here; wait for it.") from None
    _farewell(stack, say)


def run_day(stack: Stack, day: date, say: Progress) -> None:
    """Runs `[day, day + 1)` through costs_daily, again if it ran before, and prints what it published."""
    if day >= datetime.now(UTC).date():
        raise KubetallyError(
            f"{day} is not over yet (days are UTC days).", remedy="Its hours are costs_hourly's."
        )
    stack.make_home()
    _start(stack, say)
    _unpause(stack, BEFORE)
    _backfill(stack, day, day, say)
    found = publications(stack.secrets, stack.warehouse_url, day)
    if not found:
        raise KubetallyError(f"The run of {day} succeeded but published nothing.")
    for line in found:
        print(line)


def _start(stack: Stack, say: Progress) -> None:
    place = "embedded Postgres" if stack.settings.embedded else "your Postgres"
    say(f"Postgres: {place}")
    stack.start_postgres()
    say("Warehouse: roles, database, migrations, views")
    stack.migrate()
    if stack.settings.demo:
        stack.start_demo()
        say(f"Demo cluster: {stack.demo_url}")
    began = datetime.now(UTC)
    started = stack.start_airflow()
    say("Airflow: starting" if started else "Airflow: running already")
    airflow.wait_until_healthy(stack.settings, stack.api)
    say(f"Airflow: healthy at {stack.ui_url}")
    _wait_for_dags(stack, began)


def _wait_for_dags(stack: Stack, began: datetime) -> None:
    wanted = {*BEFORE, *AFTER}
    deadline = time.monotonic() + PARSE_SECONDS
    while missing := wanted - stack.api.dags().keys():
        # what an earlier start met stays listed until the file is read anew
        if errors := stack.api.import_errors(since=began):
            raise KubetallyError("DAG files do not load:\n" + "\n".join(errors))
        if time.monotonic() > deadline:
            raise KubetallyError(
                f"Airflow did not find these DAGs: {', '.join(sorted(missing))}.",
                remedy=f"They are looked for in {stack.settings.dags_folder}.",
            )
        time.sleep(0.5)


def _unpause(stack: Stack, dag_ids: Iterable[str]) -> None:
    paused = {dag_id for dag_id, dag in stack.api.dags().items() if dag["is_paused"]}
    for dag_id in dag_ids:
        if dag_id in paused:
            stack.api.unpause(dag_id)


def _fill(stack: Stack, say: Progress) -> None:
    """Publishes the last days of every cluster that can answer for them, where they are missing."""
    today = datetime.now(UTC).date()
    days = [today - timedelta(days=n) for n in range(stack.settings.demo_days, 0, -1)]
    _unpause(stack, BEFORE)
    missing = _missing(stack, days)
    if missing:
        say(f"Costs of {missing[0]} to {missing[-1]}: backfill of costs_daily")
        _backfill(stack, missing[0], missing[-1], say)
        if missing := _missing(stack, days):
            raise KubetallyError(
                f"The runs succeeded, but not published: {', '.join(map(str, missing))}."
            )
    _unpause(stack, AFTER)


def _missing(stack: Stack, days: list[date]) -> list[date]:
    found: set[date] = set()
    for cluster in clusters(env=stack.inherited):
        if any(source.is_backfillable for source in cluster.sources):
            done = published_days(stack.secrets, stack.warehouse_url, cluster.name)
            found |= {day for day in days if done.get(day, 0) < 24}
    return sorted(found)


def _backfill(stack: Stack, first: date, last: date, say: Progress) -> None:
    """Runs costs_daily over the days and waits. Raises KubetallyError for the first that fails."""
    told = False
    while True:
        try:
            stack.api.backfill("costs_daily", first, last, again=True)
            break
        except ApiError as error:
            if error.status != 409:
                raise
            if not told:
                say("Another backfill of costs_daily is active: waiting for it.")
                told = True
            time.sleep(2)
    seen: dict[date, str] = {}
    changed = time.monotonic()
    while len([state for state in seen.values() if state == "success"]) <= (last - first).days:
        for day, dag_run in sorted(stack.api.runs("costs_daily", first, last).items()):
            state = str(dag_run["state"])
            if seen.get(day) != state:
                seen[day], changed = state, time.monotonic()
                if state != "queued":
                    say(f"Costs of {day}: {state}")
            if state == "failed":
                raise KubetallyError(_explain(stack, dag_run))
        if time.monotonic() - changed > STALLED_SECONDS:
            raise KubetallyError(f"The backfill does not get on; see {stack.ui_url}.")
        time.sleep(1)


def _explain(stack: Stack, dag_run: dict[str, Any]) -> str:
    """Which task of a failed run failed, and the end of its log."""
    lines = [f"The run {dag_run['dag_run_id']} of {dag_run['dag_id']} failed."]
    for task in stack.api.failed_tasks(dag_run["dag_id"], dag_run["dag_run_id"]):
        name = task["task_id"]
        if task["map_index"] >= 0:
            name += f"[{task.get('rendered_map_index') or task['map_index']}]"
        lines.append(f"Task {name}, try {task['try_number']}; the last lines of its log:")
        try:
            lines += [f"    {line}" for line in stack.api.log_lines(task)]
        except ApiError as error:
            lines.append(f"    (no log: {error})")
    lines.append(f"See {stack.ui_url}/dags/{dag_run['dag_id']}/runs/{dag_run['dag_run_id']}")
    return "\n".join(lines)


def _farewell(stack: Stack, say: Progress) -> None:
    example = (
        "select owner, line, cost, currency from bi.cost_by_owner_day "
        "where day = current_date - 1 order by cost desc"
    )
    say("Ready.")
    print(
        f"""
  Costs page   {stack.ui_url}{COSTS_PAGE}
  Airflow      {stack.ui_url}
  Login        {airflow.ADMIN} / {stack.secrets["admin"]}

  Try          make sql Q="{example}"
               make day D={datetime.now(UTC).date() - timedelta(days=1)}
  Stop         make stop        (make run goes on where it was; make clean removes everything)
""",
        flush=True,
    )
    if os.geteuid() == 0:
        print("  Running as root: Postgres itself runs as the system user `kubetally`.\n")
