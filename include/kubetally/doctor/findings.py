"""What was found: a state, what it is about, what was seen, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from kubetally.errors import KubetallyError

State = Literal["OK", "WARN", "FAIL"]


class Finding(msgspec.Struct, frozen=True):
    """`WARN` costs something (a label, history, a price), `FAIL` costs the cluster's bill."""

    state: State
    about: str
    seen: str
    remedy: str = ""


def failure(about: str, error: KubetallyError, state: State = "FAIL") -> Finding:
    """An error as a finding."""
    return Finding(state, about, str(error).removesuffix(error.remedy).strip(), error.remedy)


def has_failed(findings: Iterable[Finding]) -> bool:
    return any(finding.state == "FAIL" for finding in findings)


def as_text(findings: Iterable[Finding]) -> str:
    """A line each, remedies below, and how many there are of each state."""
    found = list(findings)
    lines: list[str] = []
    for finding in found:
        lines.append(f"{finding.state:<5} {finding.about:<12} {finding.seen}")
        if finding.remedy:
            first, *more = finding.remedy.splitlines()
            lines += [f"      → {first}", *(f"        {line}" for line in more)]
    counts = [sum(finding.state == state for finding in found) for state in ("OK", "WARN", "FAIL")]
    lines.append("{} in order, {} to look at, {} to mend".format(*counts))
    return "\n".join(lines)


def as_json(findings: Iterable[Finding]) -> str:
    return msgspec.json.format(msgspec.json.encode(list(findings)), indent=2).decode()
