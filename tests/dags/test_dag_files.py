"""The DAG files: light imports, stable serialisation, runbooks, shared defaults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DAG_FILES = sorted((PROJECT / "dags").glob("*.py"))
HEAVY = ("pandas", "great_expectations", "sqlalchemy", "requests", "kubernetes", "polars")
OURS = tuple(str(PROJECT / name) for name in ("dags", "include", "plugins"))
HEADINGS = ("What it publishes", "Window", "Inputs", "Checks", "Backfill", "When it fails")
SCHEDULES = {
    "scrape": "*/5 * * * *",
    "prices": "30 0 * * *",
    "costs_hourly": "0 * * * *",
    "costs_daily": "0 0 * * *",
    "reports": None,
    "maintenance": "0 3 * * *",
    "doctor": None,
}

# Airflow's own decorators load sqlalchemy and requests; our files must not, and nobody may load the rest.
IMPORT_BLOCKED = """
import builtins, importlib.util, sys
real_import = builtins.__import__
def guarded(name, globals=None, locals=None, fromlist=(), level=0):
    top = name.split(".")[0]
    ours = str((globals or {}).get("__file__", "")).startswith(OURS)
    if level == 0 and top in BLOCKED and (ours or top not in ("sqlalchemy", "requests")):
        raise ImportError(f"{name} is too heavy for the top of a DAG file")
    return real_import(name, globals, locals, fromlist, level)
builtins.__import__ = guarded
spec = importlib.util.spec_from_file_location("dag_file", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""

SERIALISE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
bag = DagBag(dag_folder=sys.argv[1], bundle_name="test")
assert not bag.import_errors, bag.import_errors
found = {dag_id: DagSerialization.to_dict(dag) for dag_id, dag in sorted(bag.dags.items())}
print(json.dumps(found, sort_keys=True, default=str))
"""


def _python(code: str, *args: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        env=os.environ | {"PYTHONPATH": str(PROJECT / "include"), **env},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def _import_blocked(path: Path, home: Path, *, ours: tuple[str, ...]) -> None:
    code = f"BLOCKED = {HEAVY!r}\nOURS = {ours!r}\n{IMPORT_BLOCKED}"
    _python(code, str(path), AIRFLOW_HOME=str(home))


@pytest.mark.parametrize("path", DAG_FILES, ids=lambda path: path.stem)
def test_a_dag_file_imports_nothing_heavy(path: Path, tmp_path: Path) -> None:
    _import_blocked(path, tmp_path, ours=OURS)


@pytest.mark.parametrize("module", HEAVY)
def test_every_heavy_module_is_blocked(module: str, tmp_path: Path) -> None:
    heavy = tmp_path / "heavy.py"
    heavy.write_text(f"import {module}\n")
    with pytest.raises(AssertionError, match="too heavy"):
        _import_blocked(heavy, tmp_path, ours=(str(tmp_path),))


@pytest.fixture(scope="module")
def serialised(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Every DAG as the DAG processor stores it, from two processes with different hash seeds."""
    home = str(tmp_path_factory.mktemp("airflow"))
    first, second = (
        _python(
            SERIALISE, str(PROJECT / "dags"), AIRFLOW_HOME=home, PYTHONHASHSEED=seed
        ).splitlines()[-1]
        for seed in ("1", "2")
    )
    assert first == second, "a DAG serialises differently from parse to parse: its versions inflate"
    return json.loads(first)


def test_the_dags_are_the_ones_promised_with_their_schedules(serialised: dict[str, dict]) -> None:
    found = {}
    for dag_id, data in serialised.items():
        timetable = data["dag"]["timetable"]
        found[dag_id] = timetable["__var"].get("expression")
    assert found == SCHEDULES


@pytest.mark.parametrize("dag_id", SCHEDULES)
def test_the_docstring_is_the_runbook(serialised: dict[str, dict], dag_id: str) -> None:
    text = serialised[dag_id]["dag"]["doc_md"]
    missing = [heading for heading in HEADINGS if f"**{heading}**" not in text]
    assert not missing


@pytest.mark.parametrize("dag_id", SCHEDULES)
def test_a_dag_bounds_its_runs_and_tells_people_about_failures(
    serialised: dict[str, dict], dag_id: str
) -> None:
    dag = serialised[dag_id]["dag"]
    assert dag["max_active_runs"] <= 4
    assert dag["catchup"] is False
    assert dag["dagrun_timeout"] > 0
    assert "kubetally" in dag["tags"]
