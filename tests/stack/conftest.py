"""One whole Kubetally, as `make run` starts it, shared by the tests of this folder."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import PROJECT, Stack, run_local

DEMO_DAYS = 2


def _processes_of(home: Path) -> list[str]:
    """Command lines of the processes whose environment or arguments name the home."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if str(home).encode() in text:
            found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    base = Path(tempfile.mkdtemp(prefix="kubetally-stack-"))
    home = base / "home"
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KUBETALLY_", "AIRFLOW"))
    } | {
        "PYTHONPATH": str(PROJECT / "include"),
        "KUBETALLY_HOME": str(home),
        "KUBETALLY_DEMO_DAYS": str(DEMO_DAYS),
        "KUBETALLY_UI_PORT": "18080",
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        yield Stack(home, env, run_local(env, "run", timeout=1200))
    finally:
        run_local(env, "stop", timeout=120)
        time.sleep(1)
        left = _processes_of(home)
        run_local(env, "clean", timeout=120)
        shutil.rmtree(base, ignore_errors=True)
        assert not left, f"still running after `make stop`: {left}"
