"""Every by-hand case is claimed by exactly one test, waits for a named stage, or is not ours.

Claims are read from the test sources (`@pytest.mark.claims("C01", …)`), so a partial run counts the
same. The list of what waits is waiting.yaml.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from oracles.by_hand import all_ids

TESTS = Path(__file__).resolve().parents[1]
STAGES = {
    "sources",
    "consolidation",
    "prices",
    "cost_models",
    "statements",
    "reports",
}


def claims_in(source: str, name: str) -> Iterator[tuple[str, str]]:
    """(id, test) for every `pytest.mark.claims(…)` in a test file; ids are string literals."""
    for node in ast.walk(ast.parse(source)):
        for decorator in getattr(node, "decorator_list", ()):
            for call in ast.walk(decorator):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                    continue
                if call.func.attr != "claims":
                    continue
                for argument in call.args:
                    assert isinstance(argument, ast.Constant), f"{name}: ids must be literals"
                    yield str(argument.value), f"{name}::{getattr(node, 'name', '?')}"


def all_claims() -> list[tuple[str, str]]:
    return [
        claim
        for file in sorted(TESTS.rglob("test_*.py"))
        for claim in claims_in(file.read_text(encoding="utf-8"), str(file.relative_to(TESTS)))
    ]


def waiting() -> dict[str, Any]:
    path = Path(__file__).parent / "waiting.yaml"
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def test_every_id_is_claimed_once_or_waits_or_is_not_ours(
    record_property: Callable[[str, object], None],
) -> None:
    known = all_ids()
    listed = waiting()
    claimed = [case_id for case_id, _ in all_claims()]
    waits = [case_id for ids in listed["waiting"].values() for case_id in ids]
    not_ours = list(listed["not_ours"])
    counts = Counter([*claimed, *waits, *not_ours])
    assert {case_id: n for case_id, n in counts.items() if n > 1} == {}, "accounted for twice"
    assert sorted(set(counts) - set(known)) == [], "no such case"
    assert sorted(set(known) - set(counts)) == [], "neither claimed nor waiting nor not ours"
    assert set(listed["waiting"]) <= STAGES, "waits for an unknown stage"
    assert all(reason for reason in listed["not_ours"].values()), "not ours needs a reason"
    per_stage = ", ".join(f"{stage} {len(ids)}" for stage, ids in listed["waiting"].items())
    record_property(
        "claim_counts",
        f"by-hand cases: {len(known)} = {len(claimed)} claimed + {len(waits)} waiting"
        f" ({per_stage}) + {len(not_ours)} not ours",
    )


def test_a_claim_is_found_on_functions_and_classes_with_several_ids() -> None:
    source = (
        "import pytest\n"
        "@pytest.mark.claims('C01', 'C02')\n"
        "def test_a(): ...\n"
        "@pytest.mark.claims('C03')\n"
        "class TestB: ...\n"
    )
    found = list(claims_in(source, "f.py"))
    assert found == [("C01", "f.py::test_a"), ("C02", "f.py::test_a"), ("C03", "f.py::TestB")]
