"""The Makefile: finds a Python, says what is missing, and hands values on as they were typed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project that is only a Makefile, with a stand-in for its environment's Python."""
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(PROJECT / name, tmp_path)
    return tmp_path


def make(clone: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(clone), "PATH": path or os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [str(shutil.which("make")), "--no-print-directory", *arguments],
        cwd=clone,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def stand_in(clone: Path) -> None:
    script(
        clone / ".venv" / "bin" / "python",
        'echo "$# ${PYTHONDONTWRITEBYTECODE-unset} $PYTHONPATH"; printf "<%s>\\n" "$@"',
    )


def bare_path(clone: Path, *, python: str = "") -> str:
    """A PATH with what the recipes use and, as python3, the script `python`."""
    folder = clone / "path"
    for name in ("bash", "cat", "cksum", "tr", "rm", "touch", "awk"):
        folder.mkdir(exist_ok=True)
        (folder / name).symlink_to(str(shutil.which(name)))
    if python:
        script(folder / "python3", python)
    return str(folder)


def test_help_names_every_public_target(clone: Path) -> None:
    shown = make(clone).stdout
    targets = ["run", "stop", "clean", "status", "logs", "sql", "day", "migrate", "forget", "gap"]
    for target in [*targets, "test", "oracles", "bench", "lint", "lock"]:
        assert f"make {target} " in shown


@pytest.mark.parametrize(
    "query",
    [
        "select 'it''s', \"a b\" from bi.cost_day where line <> 'idle' -- *",
        "select 1;",
        "",
    ],
)
def test_a_query_reaches_the_command_as_one_word_as_typed(clone: Path, query: str) -> None:
    stand_in(clone)
    make(clone, "sql", "Q=")  # installs
    done = make(clone, "sql", f"Q={query}")
    assert done.stdout.splitlines()[1:] == ["<-m>", "<kubetally.local>", "<sql>", f"<{query}>"]


def test_byte_code_is_written_whatever_the_shell_says(clone: Path) -> None:
    stand_in(clone)
    make(clone, "status")
    assert make(clone, "status").stdout.splitlines()[0] == "3 unset include"


def test_dependencies_are_installed_once_per_lock(clone: Path) -> None:
    stand_in(clone)
    installs = "<kubetally.local.install>"
    assert make(clone, "status").stdout.count(installs) == 1
    assert make(clone, "status").stdout.count(installs) == 0
    assert make(clone, "test").stdout.count(installs) == 1
    assert make(clone, "test").stdout.count(installs) == 0
    with (clone / "requirements.txt").open("a") as file:
        file.write("# changed\n")
    assert make(clone, "status").stdout.count(installs) == 1
    assert make(clone, "test").stdout.count(installs) == 1


def test_a_failed_installation_is_tried_again(clone: Path) -> None:
    script(clone / ".venv" / "bin" / "python", "exit 1")
    assert make(clone, "status").returncode != 0
    assert not list((clone / ".venv").glob("installed-*"))


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("", "needs Python 3.11 or newer"),
        ('[[ "$2" != *version_info* ]]', "needs Python 3.11 or newer"),
        (
            'case "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; esac',
            "sudo apt-get install python3.12-venv",
        ),
    ],
    ids=["none", "too old", "without venv"],
)
def test_what_is_missing_is_said_with_the_line_that_mends_it(
    clone: Path, python: str, message: str
) -> None:
    done = make(clone, "run", path=bare_path(clone, python=python))
    assert done.returncode != 0
    assert message in done.stderr
    assert not (clone / ".venv").exists()


def test_stop_and_clean_do_nothing_where_nothing_was_made(clone: Path) -> None:
    assert make(clone, "stop").returncode == 0
    for folder in ("dags", "include", "plugins", "tests"):
        (clone / folder).mkdir()
    assert make(clone, "clean").returncode == 0
