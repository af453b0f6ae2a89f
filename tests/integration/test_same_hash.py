"""However a window comes to be published, its content hash is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from database import Warehouse
from kubetally import pipeline
from kubetally.windows import Window

PROJECT = Path(__file__).resolve().parents[2]
START = datetime(2026, 11, 24, 8, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(hours=3))  # a spot node goes at 09:41 and another comes

RUN = """
import sys
from datetime import datetime
from kubetally import pipeline
from kubetally.windows import Window
FAILPOINT
window = Window(datetime.fromisoformat(sys.argv[1]), datetime.fromisoformat(sys.argv[2]))
print(pipeline.run_window("demo", window, sys.argv[3])["content_sha256"], flush=True)
"""
STOP = """
def stop_here(*_, **__):
    import time
    print("stopped", flush=True)
    time.sleep(600)
"""
BETWEEN_STAGE_AND_PUBLISH = STOP + "pipeline.publishing.publish = stop_here"
INSIDE_PUBLISH = STOP + "pipeline.publishing._roll_up = stop_here"


def _start(
    env: dict[str, str], window: Window = WINDOW, kind: str = "daily", failpoint: str = ""
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            RUN.replace("FAILPOINT", failpoint),
            window.start.isoformat(),
            window.end.isoformat(),
            kind,
        ],
        env=os.environ | env | {"PYTHONPATH": str(PROJECT / "include")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _hash_of(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]
    return out.strip().splitlines()[-1]


def _hours(warehouse: Warehouse) -> int:
    with warehouse.engine.connect() as connection:
        return int(connection.execute(text("select count(*) from ops.published_hour")).scalar_one())


@pytest.fixture
def undisturbed(pipeline_env: dict[str, str]) -> str:
    """The hash of an ordinary run."""
    return str(pipeline.run_window("demo", WINDOW, "daily")["content_sha256"])


@pytest.mark.slow
def test_running_again_gives_the_same_hash(undisturbed: str, warehouse: Warehouse) -> None:
    assert pipeline.run_window("demo", WINDOW, "daily")["content_sha256"] == undisturbed
    with warehouse.engine.connect() as connection:
        left = connection.execute(
            text("select count(distinct stage_id) from mart.cost_hour")
        ).scalar_one()
    assert left == 1, "the replaced stage's rows are gone"


@pytest.mark.slow
def test_hourly_runs_followed_by_the_daily_one_give_the_same_hash(
    undisturbed: str, warehouse: Warehouse
) -> None:
    with warehouse.engine.begin() as connection:
        connection.execute(text("delete from ops.published_hour"))
    for hour in WINDOW.chunks(timedelta(hours=1)):
        pipeline.run_window("demo", hour, "hourly")
    hourly = _current_hash(warehouse)
    assert pipeline.run_window("demo", WINDOW, "daily")["content_sha256"] == undisturbed
    assert hourly == undisturbed
    # and the hourly run does not take the day's hours back
    first = next(WINDOW.chunks(timedelta(hours=1)))
    assert pipeline.run_window("demo", first, "hourly")["hours"] == 0
    assert _current_hash(warehouse) == undisturbed


@pytest.mark.slow
def test_overlapping_runs_give_the_same_hash(
    undisturbed: str, warehouse: Warehouse, pipeline_env: dict[str, str]
) -> None:
    with warehouse.engine.begin() as connection:
        connection.execute(text("delete from ops.published_hour"))
    running = [_start(pipeline_env), _start(pipeline_env)]
    assert [_hash_of(process) for process in running] == [undisturbed] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "failpoint",
    [BETWEEN_STAGE_AND_PUBLISH, INSIDE_PUBLISH],
    ids=["between stage and publish", "inside the publish transaction"],
)
def test_a_killed_run_shows_nothing_and_its_repetition_gives_the_same_hash(
    failpoint: str, undisturbed: str, warehouse: Warehouse, pipeline_env: dict[str, str]
) -> None:
    with warehouse.engine.begin() as connection:
        connection.execute(text("delete from ops.published_hour"))
    process = _start(pipeline_env, failpoint=failpoint)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "stopped"
    assert _hours(warehouse) == 0, "nothing is visible before the commit"
    process.send_signal(signal.SIGKILL)
    process.wait()
    _wait_until_idle(warehouse)
    assert _hours(warehouse) == 0
    assert pipeline.run_window("demo", WINDOW, "daily")["content_sha256"] == undisturbed
    with warehouse.engine.connect() as connection:
        doubled = connection.execute(
            text(
                "select count(*) from (select cluster_key, day, line, owner, namespace, workload_kind,"
                " workload_name from mart.cost_day group by 1, 2, 3, 4, 5, 6, 7 having count(*) > 1) as d"
            )
        ).scalar_one()
    assert doubled == 0


def _current_hash(warehouse: Warehouse) -> str:
    from kubetally.warehouse.publish import combined_hash

    with warehouse.engine.connect() as connection:
        hashes = connection.execute(
            text("select content_sha256 from ops.published_hour order by hour")
        ).scalars()
        return combined_hash(list(hashes))


def _wait_until_idle(warehouse: Warehouse) -> None:
    """Until Postgres has noticed that the killed client is gone."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with warehouse.engine_as("postgres").connect() as connection:
            busy = connection.execute(
                text(
                    "select count(*) from pg_stat_activity where datname = current_database()"
                    " and pid <> pg_backend_pid() and usename = 'kubetally_publisher'"
                )
            ).scalar_one()
        if not busy:
            return
        time.sleep(0.2)
    raise AssertionError("the killed run's transaction is still there")
