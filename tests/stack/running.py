"""A running Kubetally, as a person at its Makefile sees it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Stack:
    """A running Kubetally: its home, and what `make run` printed."""

    home: Path
    env: dict[str, str]
    said: str

    def local(self, *arguments: str, timeout: float = 600) -> str:
        """What `python -m kubetally.local …`, which the Makefile calls, prints."""
        return run_local(self.env, *arguments, timeout=timeout)

    @property
    def address(self) -> str:
        return next(line.split()[-1] for line in self.said.splitlines() if "  Airflow  " in line)

    @property
    def password(self) -> str:
        return next(line.split()[-1] for line in self.said.splitlines() if "  Login  " in line)


def run_local(env: dict[str, str], *arguments: str, timeout: float) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kubetally.local", *arguments],
        cwd=PROJECT,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout
