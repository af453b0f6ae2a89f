"""Killing anything at any point loses nothing, shows no half day, and the next run gives the same hash."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest
import sqlalchemy

from allocate.scene import (
    A_DAY,
    DAY_PRICES,
    NOW,
    a_day,
    cluster_of,
    configure,
    land_said,
    publish_stage,
    published_lines,
    query,
    run_window,
    stage_window,
)
from kubetally.errors import StaleStageError
from kubetally.warehouse import connect
from kubetally.warehouse import publish as publishing
from kubetally.warehouse.connect import engine
from kubetally.warehouse.maintain import discard_stages

TESTS = Path(__file__).parents[1]
CLUSTER = cluster_of("c")
DEAR = {"uid-node-a": "9", "uid-node-b": "9"}
IN_PUBLISH = [
    f"kubetally.warehouse.publish:{name}"
    for name in (
        "_assert_balanced",
        "_write_ledger",
        "_point_at",
        "_purge",
        "_roll_up",
        "_window_hash",
    )
]


def prepare() -> str:
    """The hash of the day in a cluster that nothing happens to; the same day is published before,
    at other prices, in the cluster that things will happen to."""
    configure()
    calm = cluster_of("calm")
    land_said(calm, a_day())
    land_said(CLUSTER, a_day())
    run_window(CLUSTER, prices=DEAR)
    return run_window(calm).content_sha256


@pytest.fixture
def undisturbed(warehouse):
    return prepare()


def start(step: str, place: str, barrier: Path) -> subprocess.Popen[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent / "include")))
    }
    command = [sys.executable, str(TESTS / "faults" / "run.py"), "c", step, place, str(barrier)]
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@contextmanager
def stopped_at(step: str, place: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that has reached `place` and waits there; killed at the end if it still lives."""
    barrier = folder / "reached"
    run = start(step, place, barrier)
    try:
        wait_for(lambda: barrier.exists() or run.poll() is not None)
        assert run.poll() is None, run.communicate()
        yield run
    finally:
        run.kill()
        run.communicate()


def people_see():
    return query(
        "select count(distinct hour), sum(cost) from bi.cost_hour where cluster = 'c'", "bi"
    )


def assert_nothing_left_behind(hash_of_the_day):
    """Ledger and data agree, no lock is left, and upkeep leaves only what is published."""
    wait_for(lambda: query("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)])
    discard_stages(NOW + timedelta(days=365))
    current = query("select distinct stage_id from ops.published_hour order by 1")
    for table in ("mart.cost_hour", "core.pod_hour", "core.node_price", "core.pod_segment"):
        assert query(f"select distinct stage_id from {table} order by 1") == current
    (last,) = query(
        "select content_sha256, hours, row_count from ops.publication join core.cluster using (cluster_key)"
        " where cluster = 'c' order by publication_id desc limit 1"
    )
    assert tuple(last) == (hash_of_the_day, 24, len(published_lines("c")))
    assert query(
        "select sum(cost) from mart.cost_day join core.cluster using (cluster_key) where cluster = 'c'"
    ) == query("select sum(cost) from bi.cost_hour where cluster = 'c'")


@pytest.mark.parametrize("place", IN_PUBLISH)
def test_killed_while_publishing(undisturbed, tmp_path, place):
    before = people_see()
    stage_window(CLUSTER, A_DAY, DAY_PRICES)
    with stopped_at("publish", place, tmp_path) as run:
        assert people_see() == before
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        assert people_see() == before
    assert run_window(CLUSTER).content_sha256 == undisturbed
    assert_nothing_left_behind(undisturbed)


@pytest.mark.parametrize(
    "place",
    [
        "allocate.scene:begin",
        "kubetally.consolidate.stage:run_file",
        "allocate.scene:put_prices",
        "allocate.scene:allocate",
    ],
)
def test_killed_between_stage_and_publish(undisturbed, tmp_path, place):
    before = people_see()
    with stopped_at("stage", place, tmp_path) as run:
        assert people_see() == before
        os.kill(run.pid, signal.SIGKILL)
    assert people_see() == before
    assert run_window(CLUSTER).content_sha256 == undisturbed
    assert_nothing_left_behind(undisturbed)


def test_a_fully_staged_window_can_still_be_published_after_the_kill(undisturbed, tmp_path):
    with stopped_at("stage", "allocate.scene:allocate", tmp_path) as run:
        os.kill(run.pid, signal.SIGKILL)
    run = start("publish", "-", tmp_path / "unused")
    assert run.wait(60) == 0, run.communicate()
    run.communicate()
    assert_nothing_left_behind(undisturbed)


def test_killed_while_landing(undisturbed, tmp_path):
    loads = query("select load_id, speaks_for, superseded_at from ops.load order by load_id")
    with stopped_at("land", "kubetally.warehouse.land:_settle", tmp_path) as run:
        os.kill(run.pid, signal.SIGKILL)
    assert (
        query("select load_id, speaks_for, superseded_at from ops.load order by load_id") == loads
    )
    assert run_window(CLUSTER).content_sha256 == undisturbed
    assert_nothing_left_behind(undisturbed)


def test_two_runs_of_one_day_at_once_give_the_hash_of_one(undisturbed, tmp_path):
    go = tmp_path / "go"
    runs = [start("run", "-", go) for _ in range(3)]
    time.sleep(1)
    go.touch()
    told = [run.communicate(timeout=120) for run in runs]
    assert [out.strip() for out, _ in told] == [undisturbed] * 3, told
    assert_nothing_left_behind(undisturbed)


def test_the_database_dies_in_the_middle_and_comes_back(mortal_server, tmp_path):
    undisturbed = prepare()
    before = people_see()
    stage_window(CLUSTER, A_DAY, DAY_PRICES)
    with stopped_at("publish", "kubetally.warehouse.publish:_roll_up", tmp_path):
        postmaster = int((mortal_server.data / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGQUIT)  # at once, without a checkpoint
        wait_for(lambda: not mortal_server.is_running())
        mortal_server.start()
        assert people_see() == before
    assert run_window(CLUSTER).content_sha256 == undisturbed
    assert_nothing_left_behind(undisturbed)


def test_a_restart_between_stage_and_publish_changes_nothing(mortal_server):
    undisturbed = prepare()
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    mortal_server.stop()
    mortal_server.start()
    assert publish_stage(stage).content_sha256 == undisturbed
    assert_nothing_left_behind(undisturbed)


@pytest.mark.parametrize("place", ["_point_at", "_roll_up"])
def test_a_session_that_a_dba_ends_leaves_the_old_day(
    undisturbed, postgres_server, monkeypatch, place
):
    before = people_see()
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    original = getattr(publishing, place)

    def ended(connection, *arguments):
        original(connection, *arguments)
        pid = connection.execute(sqlalchemy.text("select pg_backend_pid()")).scalar_one()
        with psycopg2.connect(postgres_server.superuser_url) as dba, dba.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(%s)", (pid,))

    monkeypatch.setattr(publishing, place, ended)
    with pytest.raises(sqlalchemy.exc.OperationalError):
        publish_stage(stage)
    monkeypatch.setattr(publishing, place, original)
    assert people_see() == before
    assert publish_stage(stage).content_sha256 == undisturbed
    assert_nothing_left_behind(undisturbed)


def test_a_human_who_holds_the_day_makes_the_run_fail_and_nothing_else(undisturbed, monkeypatch):
    before = people_see()
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    monkeypatch.setattr(connect, "LOCK_TIMEOUT_SECONDS", 1)
    with engine("owner").connect() as human:
        human.execute(
            sqlalchemy.text(
                "select pg_advisory_xact_lock(hashtextextended('kubetally/c/2026-11-03', 0))"
            )
        )
        with pytest.raises(sqlalchemy.exc.OperationalError, match="lock timeout"):
            publish_stage(stage)
        assert people_see() == before
    assert publish_stage(stage).content_sha256 == undisturbed


class LosingProxy:
    """Forwards to Postgres; the first time a client says COMMIT, the answer gets lost on the way."""

    def __init__(self, port: int, *, before_commit: bool) -> None:
        self.target = port
        self.before_commit = before_commit
        self.lost = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            state = {"mute": False}
            for source, sink, is_client in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._pump, args=(source, sink, is_client, state), daemon=True
                ).start()

    def _pump(self, source, sink, is_client, state) -> None:
        while True:
            try:
                data = source.recv(65536)
                if is_client and b"COMMIT" in data and not self.lost and self.armed:
                    self.lost = state["mute"] = True
                    if self.before_commit:
                        break
                if state["mute"] and not is_client:
                    break
                if not data:
                    break
                sink.sendall(data)
            except OSError:
                break
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    armed = False


@pytest.mark.parametrize("before_commit", [True, False], ids=["commit lost", "answer lost"])
def test_a_connection_that_breaks_during_commit_is_safe_to_repeat(
    undisturbed, postgres_server, before_commit
):
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    before = people_see()
    proxy = LosingProxy(postgres_server.port, before_commit=before_commit)
    through = sqlalchemy.create_engine(
        engine("publisher").url.set(port=proxy.port), poolclass=sqlalchemy.NullPool
    )
    with through.connect() as connection:
        connection.execute(sqlalchemy.text("select 1"))
    proxy.armed = True
    with pytest.raises(sqlalchemy.exc.OperationalError):
        publishing.publish(through, stage, now=NOW)
    assert proxy.lost
    wait_for(lambda: query("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)])
    assert (people_see() == before) is before_commit
    assert publish_stage(stage).content_sha256 == undisturbed
    assert query(
        "select count(*) from ops.publication where stage_id = :id", id=stage.stage_id
    ) == [(1,)]
    assert_nothing_left_behind(undisturbed)
    proxy.listener.close()


def test_late_data_between_audit_and_publish_is_never_lost(undisturbed):
    """An older audit never overwrites newer data: the stage is refused, a new one has it."""
    stage = stage_window(CLUSTER, A_DAY, DAY_PRICES)
    more = a_day()
    more.rows["pod"].append(
        more.rows["pod"][0] | {"uid": "uid-late", "pod": "late", "cpu_request_cores": "0.5"}
    )
    land_said(CLUSTER, more)
    with pytest.raises(StaleStageError, match="New data landed"):
        publish_stage(stage)
    run_window(CLUSTER)
    assert "uid-late" in {line.pod for line in published_lines("c")}
