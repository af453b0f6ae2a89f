"""Every case of every file in KUBETALLY_ORACLES, one test each, by the runner of the file's area."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oracles.runners import RUNNERS

DEFAULT_FOLDER = Path(__file__).parent / "cases" / "uniform"


def folder() -> Path:
    return Path(os.environ.get("KUBETALLY_ORACLES") or DEFAULT_FOLDER)


def parameters(where: Path) -> Iterator[Any]:
    """One parameter set per case; a file that cannot be read, or no file at all, is one that fails."""
    files = sorted(where.glob("*.json"))
    if not files:
        yield pytest.param("?", {}, f"{where} holds no *.json", id="no-files")
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            area, cases = str(content["area"]), list(content["cases"])
        except (ValueError, KeyError, TypeError) as error:
            yield pytest.param("?", {}, f"{file.name}: {error!r}", id=f"{file.stem}-unreadable")
            continue
        if not cases:
            yield pytest.param(area, {}, f"{file.name} has no cases", id=f"{file.stem}-empty")
        for position, case in enumerate(cases):
            name = ascii(case.get("id", case.get("in", ""))).strip("'") if case else ""
            yield pytest.param(area, case, "", id=f"{file.stem}-{position:03d}-{name[:40]}")


@pytest.mark.parametrize(("area", "case", "problem"), list(parameters(folder())))
def test_case(
    area: str,
    case: dict[str, Any],
    problem: str,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("oracle_area", area)
    if problem:
        pytest.fail(problem)
    if area not in RUNNERS:
        pytest.fail(f"area {area!r} has no runner; known: {', '.join(sorted(RUNNERS))}")
    RUNNERS[area](case)


def test_an_unknown_area_and_an_unreadable_file_fail(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"area": "tea_leaves", "cases": [{"in": "1"}]}')
    (tmp_path / "b.json").write_text("[]")
    unknown, unreadable = parameters(tmp_path)
    with pytest.raises(pytest.fail.Exception, match="'tea_leaves' has no runner"):
        test_case(*unknown.values, record_property=lambda *_: None)
    with pytest.raises(pytest.fail.Exception, match=r"b\.json"):
        test_case(*unreadable.values, record_property=lambda *_: None)


def test_a_runner_notices_a_wrong_value() -> None:
    with pytest.raises(AssertionError):
        RUNNERS["quantity"]({"in": "1Ki", "valid": True, "exact": "1000"})
    with pytest.raises(pytest.fail.Exception):
        RUNNERS["quantity"]({"in": "1Ki", "valid": False, "why": "made up"})
    cases = json.loads((DEFAULT_FOLDER / "node_prices.json").read_text(encoding="utf-8"))["cases"]
    first = {case["cloud"]: case for case in reversed(cases) if case["expected_hourly_exact"]}
    assert set(first) == {"AZ", "GCP", "AWS"}
    for case in first.values():
        for wrong in (f"{case['expected_hourly_exact']}1", None):
            with pytest.raises(AssertionError):
                RUNNERS["node_price"](case | {"expected_hourly_exact": wrong})
