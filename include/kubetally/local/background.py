"""Background programs in a session of their own, which can be ended to the last child."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubetally.errors import KubetallyError
from kubetally.local.files import write_private


@dataclass(frozen=True)
class Process:
    """One line of the process table. `session` is the group where the system does not show it."""

    pid: int
    parent: int
    group: int
    session: int
    started: str


@dataclass(frozen=True)
class Background:
    """The program `name`, remembered in `folder`/run and logging to `folder`/logs."""

    name: str
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "logs" / f"{self.name}.log"

    def start(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> int:
        """Starts `command` as leader of a new session and process group; returns its pid."""
        if self.pids():
            raise KubetallyError(f"{self.name} is running already.", remedy="Stop it: `make stop`.")
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.truncate(0)
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started = {p.pid: p.started for p in process_table()}.get(process.pid, "")
        write_private(self._state, json.dumps({"pid": process.pid, "started": started}))
        return process.pid

    def pids(self) -> list[int]:
        """Every live process that `start` led to, in whatever group it is by now."""
        try:
            state = json.loads(self._state.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return []
        return family(process_table(), int(state["pid"]), str(state["started"]))

    def is_running(self) -> bool:
        return bool(self.pids())

    def stop(self, patience_seconds: float = 20.0) -> None:
        """TERM to all, KILL to what is left after `patience_seconds`. Safe to call again.

        Raises KubetallyError when something survives even that.
        """
        for number, patience in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, 10.0)):
            deadline = time.monotonic() + patience
            told: set[int] = set()
            while left := self.pids():
                for pid in left:
                    if pid not in told:  # TERM twice makes some programs give up their clean-up
                        with suppress(ProcessLookupError):
                            os.kill(pid, number)
                        told.add(pid)
                if time.monotonic() > deadline:
                    break
                time.sleep(0.1)
        if left := self.pids():
            raise KubetallyError(f"{self.name} does not stop: processes {left}.")
        self._state.unlink(missing_ok=True)

    def last_lines(self, count: int = 20) -> str:
        """The end of the log, for messages."""
        try:
            return "\n".join(self.log.read_text("utf-8", errors="replace").splitlines()[-count:])
        except OSError:
            return ""

    @property
    def _state(self) -> Path:
        return self.folder / "run" / f"{self.name}.json"


def family(table: Sequence[Process], leader: int, started: str) -> list[int]:
    """Pids of `leader`'s session and process group and of all their children.

    Empty when `leader` is alive but began at another time: then someone else has the number. (A
    number is not given out anew while a group or session of that name lives.)
    """
    if any(process.pid == leader and process.started != started for process in table):
        return []
    known = {process.pid for process in table if leader in (process.group, process.session)}
    while True:
        children = {p.pid for p in table if p.parent in known and p.pid not in known}
        if not children:
            return sorted(known)
        known |= children


def process_table() -> list[Process]:
    """Every live (not zombie) process this user can see."""
    if not Path("/proc/self/stat").exists():
        return _ps()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text("utf-8", errors="replace")
        except OSError:
            continue
        fields = stat.rpartition(")")[2].split()  # state ppid pgrp session … starttime
        if fields[0] != "Z":
            numbers = (int(entry.name), int(fields[1]), int(fields[2]), int(fields[3]))
            found.append(Process(*numbers, started=fields[19]))
    return found


def _ps() -> list[Process]:
    shown = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,pgid=,state=,lstart="],
        check=True,
        capture_output=True,
        text=True,
    )
    found = []
    for line in shown.stdout.splitlines():
        pid, parent, group, state, started = line.split(maxsplit=4)
        if not state.startswith("Z"):
            found.append(Process(int(pid), int(parent), int(group), int(group), started))
    return found
