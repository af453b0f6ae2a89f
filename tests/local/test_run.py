"""`make run` for real, with stand-in DAGs: up, safe to repeat, closed to strangers, gone without rest."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from kubetally.local import settings
from kubetally.local.background import process_table
from kubetally.local.run import AFTER, BEFORE
from kubetally.local.stack import Stack

DAGS = """
from datetime import datetime
from airflow.sdk import CronDataIntervalTimetable, dag, task

def make(name):
    @dag(dag_id=name, schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
         start_date=datetime(2026, 1, 1), catchup=False)
    def made():
        @task
        def work():
            pass
        work()
    return made()

for name in {names!r}:
    globals()[name] = make(name)
"""

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux' socket tables"),
]


@dataclass
class Local:
    folder: Path
    env: dict[str, str]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kubetally.local", *arguments],
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    @property
    def stack(self) -> Stack:
        return Stack(settings.from_environment(self.env), self.env)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    folder = tmp_path_factory.mktemp("local")
    (folder / "dags").mkdir()
    (folder / "dags" / "made.py").write_text(DAGS.replace("{names!r}", repr([*BEFORE, *AFTER])))
    (folder / "config").mkdir()
    (folder / "config" / "clusters.yaml").write_text("clusters: []\n")
    env = {
        "KUBETALLY_HOME": str(folder / "home"),
        "KUBETALLY_DAGS_FOLDER": str(folder / "dags"),
        "KUBETALLY_CONFIG_DIR": str(folder / "config"),
        "KUBETALLY_DEMO": "0",
        "KUBETALLY_UI_PORT": "18080",
        "KUBETALLY_PARALLELISM": "2",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    made = Local(folder, env)
    try:
        done = made("run")
        assert done.returncode == 0, done.stdout + done.stderr
        yield made
    finally:
        made("clean")


def listening(pids: list[int]) -> set[str]:
    """The addresses, as /proc/net/tcp writes them, on which `pids` listen."""
    sockets = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(str(entry.readlink()).removeprefix("socket:[").removesuffix("]"))
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(fields[1].partition(":")[0])
    return found


def test_a_second_run_finds_it_running_and_changes_nothing(local: Local) -> None:
    before = local.stack.airflow.pids()[0]
    done = local("run")
    assert done.returncode == 0, done.stderr
    assert "Airflow: running already" in done.stdout
    assert local.stack.airflow.pids()[0] == before


def test_nobody_gets_in_without_the_generated_login(local: Local) -> None:
    stack = local.stack
    session = requests.Session()
    session.trust_env = False
    assert session.get(f"{stack.ui_url}/api/v2/dags", timeout=10).status_code == 401
    wrong = {"username": "admin", "password": "admin"}
    assert session.post(f"{stack.ui_url}/auth/token", json=wrong, timeout=10).status_code == 401
    assert stack.api.dags().keys() >= {*BEFORE, *AFTER}


def test_every_process_listens_on_loopback_only(local: Local) -> None:
    assert listening(local.stack.airflow.pids()) == {"0100007F"}  # 127.0.0.1


def test_metadata_is_in_postgres(local: Local) -> None:
    assert not list((local.folder / "home").rglob("*.db"))
    assert local.stack.environment()["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].startswith("postgresql")


def test_sql_is_csv_read_only_and_only_bi(local: Local) -> None:
    done = local("sql", "select 1.10::numeric as a, 'x,y' as b; ")
    assert done.stdout == 'a,b\n1.10,"x,y"\n'
    for query in ("create table bi.mine (a int)", "select * from core.cluster", "selec"):
        refused = local("sql", query)
        assert refused.returncode == 1
        assert refused.stderr.startswith("error: Postgres: ")


def test_status_and_env_tell_what_runs_and_how_to_reach_it(local: Local) -> None:
    status = local("status").stdout
    assert "scheduler      healthy" in status
    assert local.stack.ui_url in status
    assert "export AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=" in local("env").stdout


def test_secrets_are_in_no_log(local: Local) -> None:
    secrets = [value.encode() for value in local.stack.secrets.values.values()]
    logs = [path for path in (local.folder / "home" / "logs").rglob("*") if path.is_file()]
    assert logs
    for path in [*logs, local.stack.server.log]:
        assert not [secret for secret in secrets if secret in path.read_bytes()], path


def test_stop_leaves_nothing_behind_and_run_goes_on_where_it_was(local: Local) -> None:
    stack = local.stack
    stack.server.start()
    pids = stack.airflow.pids()
    assert len(pids) >= 5
    assert local("stop").returncode == 0
    assert not {process.pid for process in process_table()} & set(pids)
    assert not stack.server.is_running()
    for port in (stack.ui_port, stack.server.port):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert local("stop").returncode == 0
    done = local("sql", "select 1 as still_there")
    assert done.stdout == "still_there\n1\n"
