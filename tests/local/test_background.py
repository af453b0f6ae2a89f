"""Background programs end to the last child, and nobody else's process is ever touched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubetally.errors import KubetallyError
from kubetally.local.background import Background, Process, family, process_table

CHILDREN = """
import os, signal, subprocess, sys, time
code = "import time; time.sleep(600)"
stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + code
subprocess.Popen([sys.executable, "-c", code])
subprocess.Popen([sys.executable, "-c", code], process_group=0)
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
subprocess.Popen([sys.executable, "-c", stubborn])
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    made = Background("program", tmp_path)
    yield made
    made.stop(0.1)


def start(background: Background, code: str) -> int:
    pid = background.start([sys.executable, "-c", code], dict(os.environ))
    for _ in range(200):
        if "up" in background.last_lines():
            return pid
        time.sleep(0.05)
    raise AssertionError(background.last_lines())


def alive(pids: list[int]) -> list[int]:
    return sorted({process.pid for process in process_table()} & set(pids))


def test_stop_ends_children_in_other_groups_and_sessions_and_the_stubborn(
    background: Background,
) -> None:
    start(background, CHILDREN)
    pids = background.pids()
    assert len(pids) == 5
    background.stop(1.0)
    assert alive(pids) == []
    assert not background.is_running()
    background.stop()


def test_what_is_left_of_a_killed_leader_is_found(background: Background) -> None:
    leader = start(background, CHILDREN)
    pids = background.pids()
    os.kill(leader, 9)
    subprocess.run(["true"], check=True)
    assert background.is_running()
    background.stop(0.5)
    # the one with a session of its own and no parent left is beyond what a group can tell
    assert len(alive(pids)) <= 1
    for pid in alive(pids):
        os.kill(pid, 9)


def test_a_second_start_is_refused_while_the_first_runs(background: Background) -> None:
    start(background, "import time; print('up', flush=True); time.sleep(600)")
    with pytest.raises(KubetallyError, match="running already"):
        background.start([sys.executable, "-c", ""], {})


def row(pid: int, parent: int = 1, group: int = 0, session: int = 0, started: str = "t") -> Process:
    return Process(pid, parent, group or pid, session or group or pid, started)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([row(7), row(8, group=7), row(9, group=9)], [7, 8]),
        ([row(7), row(8, parent=7), row(9, parent=8)], [7, 8, 9]),
        ([row(8, group=7)], [8]),
        ([row(8, group=8, session=7)], [8]),
        ([row(7, started="later"), row(8, group=7, started="later")], []),
        ([row(9)], []),
    ],
    ids=["group", "descendants", "leader gone", "own group, same session", "number reused", "none"],
)
def test_family(table: list[Process], expected: list[int]) -> None:
    assert family(table, 7, "t") == expected
