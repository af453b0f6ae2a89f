"""SQL checks: every file in include/sql/checks/<gate>/ is a query for the rows that break a rule.

A file begins with comments: why the rule exists, then `severity:`, `expects:` and, for critical
ones, `remedy:`. A longer entry goes on in lines indented by two more blanks. The query may use the
bound parameters `:cluster_key`, `:stage_id`, `:start` and `:end` and no others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from kubetally.errors import ConfigError
from kubetally.quality.verdict import GATES, SEVERITIES, Gate, Severity, Verdict
from kubetally.warehouse.connect import SQL_FOLDER

PARAMETERS = frozenset({"cluster_key", "stage_id", "start", "end"})
KEYS = ("severity", "expects", "remedy")
SAMPLE_ROWS = 5
_ENTRY = re.compile(rf"({'|'.join(KEYS)}):\s*(.*)")


@dataclass(frozen=True)
class SqlCheck:
    """One rule: its name (that of the file), what it protects, and the query for what breaks it."""

    name: str
    gate: Gate
    severity: Severity
    reason: str
    expects: str
    remedy: str
    query: str


def load_checks(gate: Gate, folder: Path = SQL_FOLDER / "checks") -> tuple[SqlCheck, ...]:
    """The SQL checks of a gate by name. Raises ConfigError for a file with an incomplete head."""
    return _load(gate, folder)


@cache
def _load(gate: Gate, folder: Path) -> tuple[SqlCheck, ...]:
    found = tuple(parse(gate, path) for path in sorted((folder / gate).glob("*.sql")))
    if not found:
        raise ConfigError(
            f"The gate {gate!r} has no checks in {folder / gate}.",
            remedy="A gate without checks would let everything pass; restore the files.",
        )
    return found


def parse(gate: Gate, path: Path) -> SqlCheck:
    """The check in `path`. Raises ConfigError when its head lacks a reason or an entry."""
    content = path.read_text(encoding="utf-8")
    entries: dict[str, str] = {}
    reason: list[str] = []
    current = ""
    for line in content.splitlines():
        if not line.startswith("--"):
            break
        said = line[2:].removeprefix(" ")
        entry = _ENTRY.fullmatch(said)
        if entry:
            current = entry[1]
            entries[current] = entry[2].strip()
        elif current and said.startswith("  "):
            entries[current] = f"{entries[current]} {said.strip()}"
        else:
            reason.append(said.strip())
    severity = next((known for known in SEVERITIES if known == entries.get("severity")), None)
    needed = KEYS if severity == "critical" else KEYS[:2]
    missing = [key for key in needed if not entries.get(key)]
    if severity is None or missing or not reason:
        raise ConfigError(
            f"The check {gate}/{path.name} does not begin with its reason,"
            f" `-- severity: {' or '.join(SEVERITIES)}`, `-- expects: …` and, if critical,"
            " `-- remedy: …`.",
            remedy="Write them above the query, as in the other files of the folder.",
        )
    return SqlCheck(
        name=path.stem,
        gate=gate,
        severity=severity,
        reason=" ".join(reason),
        expects=entries["expects"],
        remedy=entries.get("remedy", ""),
        query=content,
    )


def run_check(connection: Connection, check: SqlCheck, parameters: Mapping[str, Any]) -> Verdict:
    """Runs the check; only a count and a few rows leave the database."""
    # The files are the project's own and take bound parameters only; this wraps, it does not fill in.
    counted = (
        "select cast(row_to_json(offending) as text) as row, count(*) over () as offending_count"  # noqa: S608
        f" from (\n{check.query.rstrip().rstrip(';')}\n) as offending limit {SAMPLE_ROWS}"
    )
    rows = connection.execute(text(counted), dict(parameters)).all()
    count = int(rows[0].offending_count) if rows else 0
    return Verdict(
        check=check.name,
        engine="sql",
        severity=check.severity,
        passed=count == 0,
        expected=check.expects,
        observed=f"{count} offending row{'' if count == 1 else 's'}",
        offending=count,
        sample=tuple(row.row for row in rows),
        remedy=check.remedy,
    )


def all_checks() -> tuple[SqlCheck, ...]:
    """Every SQL check of every gate."""
    return tuple(check for gate in GATES for check in load_checks(gate))
