"""The by-hand cases by id, for the tests that claim them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "cases" / "by_hand"


@cache
def cases() -> dict[str, dict[str, Any]]:
    """Every case with an id of its own (seeds and bug reports)."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("seeds", "bug_reports"):
        for case in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["cases"]:
            assert case["id"] not in found, f"{case['id']} stands in two files"
            found[case["id"]] = case
    return found


@cache
def peers() -> dict[str, Any]:
    """The worked examples of peers; `_index` says where O1 to O42 stand."""
    content: dict[str, Any] = json.loads((FOLDER / "peers.json").read_text(encoding="utf-8"))
    return content


def all_ids() -> list[str]:
    return [*cases(), *peers()["_index"]]
