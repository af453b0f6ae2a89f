"""The outcome of one check."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, get_args

Gate = Literal["raw", "core", "costs"]
Severity = Literal["critical", "warning"]
GATES: tuple[Gate, ...] = get_args(Gate)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
SHOWN_ROWS = 3
SHOWN_CHARACTERS = 400


@dataclass(frozen=True)
class Verdict:
    """What one check expected and found. `sample` holds some offending rows as JSON texts.

    JSON texts, not objects: their numbers keep every digit on the way to `ops.check_result`.
    """

    check: str
    engine: Literal["sql", "gx"]
    severity: Severity
    passed: bool
    expected: str
    observed: str
    offending: int = 0
    sample: tuple[str, ...] = ()
    remedy: str = ""

    @property
    def stops(self) -> bool:
        return not self.passed and self.severity == "critical"

    def __str__(self) -> str:
        rows = "; ".join(_shown(row) for row in self.sample[:SHOWN_ROWS])
        return f"{self.check}: expected {self.expected}, found {self.observed}" + (
            f" ({rows})" if rows else ""
        )


def _shown(row: str) -> str:
    """`hour=2026-11-03T10:00:00+00:00, dataset=pod` for a JSON object."""
    value: Any = json.loads(row, parse_float=str, parse_int=str)
    if isinstance(value, dict):
        value = ", ".join(f"{name}={found}" for name, found in value.items() if found is not None)
    text = str(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
