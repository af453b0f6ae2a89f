"""Month-to-date statements: one per owner and one total, as CSV (exact) and HTML (to the cent).

The owners' statements and the cluster's own lines add up to the total: exactly in the CSV files, and
to the shown cent in the HTML. The same published content gives the same bytes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sqlalchemy import Connection, Engine, Row

from kubetally.config import PROJECT
from kubetally.report import queries
from kubetally.report.periods import ONE_DAY, Days, month_of
from kubetally.report.rounding import share_out, to_cents
from kubetally.report.summary import day_states, text_of
from kubetally.warehouse.connect import run_file

TEMPLATES = Path(__file__).parent / "templates"
RESOURCES = ("cpu", "memory", "gpu", "storage", "network", "load_balancer", "other")
CLUSTER = "cluster"  # the owner of lines that belong to no pod


@dataclass(frozen=True)
class Line:
    """A row of statement/lines.sql. Costs are None where there is no price."""

    cost_model: str
    currency: str | None
    cluster: str
    owner: str
    line: str
    namespace: str
    workload_kind: str
    workload_name: str
    cpu_core_hours: Decimal
    memory_gib_hours: Decimal
    gpu_hours: Decimal
    storage_gib_hours: Decimal
    network_gib: Decimal
    load_balancer_hours: Decimal
    cpu_cost: Decimal | None
    memory_cost: Decimal | None
    gpu_cost: Decimal | None
    storage_cost: Decimal | None
    network_cost: Decimal | None
    load_balancer_cost: Decimal | None
    other_cost: Decimal | None
    cost: Decimal | None

    @property
    def key(self) -> tuple[str, ...]:
        return (
            self.cluster,
            self.owner,
            self.namespace,
            self.workload_kind,
            self.workload_name,
            self.line,
        )

    @property
    def resource_costs(self) -> dict[str, Decimal]:
        return {name: getattr(self, f"{name}_cost") or Decimal(0) for name in RESOURCES}


@dataclass(frozen=True)
class ShownLine:
    """A line with its cost and its resources' costs to the cent; they add up."""

    line: Line
    shown: Decimal
    resources: Mapping[str, Decimal]


@dataclass(frozen=True)
class Statement:
    """What one owner pays. `shown` is what the total shows for this owner; the lines add up to it."""

    owner: str
    total: Decimal
    shown: Decimal
    lines: tuple[ShownLine, ...]
    unpriced: tuple[Line, ...]

    @property
    def file(self) -> str:
        return file_name(self.owner)

    @property
    def clusters(self) -> list[str]:
        lines = [shown.line for shown in self.lines] + list(self.unpriced)
        return sorted({line.cluster for line in lines})

    @property
    def resources(self) -> list[str]:
        """The resources that cost this owner anything."""
        used = {
            name for row in self.lines for name, cost in row.line.resource_costs.items() if cost
        }
        return [name for name in RESOURCES if name in used]


@dataclass(frozen=True)
class StatementSet:
    """All statements of a month by one cost model in one currency, and their total."""

    cost_model: str
    currency: str
    total: Decimal
    shown: Decimal
    owners: tuple[Statement, ...]
    cluster_lines: Statement

    @property
    def folder(self) -> str:
        return file_name(f"{self.cost_model}-{self.currency or 'unpriced'}")

    @property
    def lines(self) -> list[Line]:
        statements = (*self.owners, self.cluster_lines)
        found = [shown.line for statement in statements for shown in statement.lines]
        found += [line for statement in statements for line in statement.unpriced]
        return sorted(found, key=lambda line: line.key)


def reports_folder(env: Mapping[str, str] = os.environ) -> str:
    """Where statements go: KUBETALLY_REPORTS (a folder or an object-store URL), else .kubetally/reports."""
    return env.get("KUBETALLY_REPORTS") or str(PROJECT / ".kubetally" / "reports")


def write_statements(engine: Engine, month: date, folder: str, *, now: datetime) -> list[str]:
    """Writes the month's statements below `folder`; returns the paths of all files, index last.

    `folder` is a local folder or any URL airflow.sdk.ObjectStoragePath knows. `<folder>/<month>/
    <model>-<currency>/` gets `index.html`, `total.csv` and, in `owners/`, two files per owner; files
    of owners who have none any more are removed. `now` only says whether the month is still running.
    Nothing is written for a month without published costs.
    """
    days = month_of(month)
    with engine.connect() as connection:
        connection.execution_options(isolation_level="REPEATABLE READ")
        lines = read_lines(connection, days.start)
        context = _context(connection, days, is_running=now.date() < days.end) if lines else {}
    written: list[str] = []
    for found in statement_sets(lines):
        target = _path(folder) / f"{days.start:%Y-%m}" / found.folder
        files = render(found, context)
        written += [_write(target, name, content) for name, content in files.items()]
        _remove_others(target / "owners", {name.rpartition("/")[2] for name in files})
    return written


def read_lines(connection: Connection, month: date) -> list[Line]:
    rows = run_file(connection, "statement/lines.sql", {"month": month}).all()
    return [Line(**row._asdict()) for row in rows]


def statement_sets(lines: Iterable[Line]) -> list[StatementSet]:
    """The statements, one set per cost model and currency. Unpriced lines are in every set of theirs."""
    by_model: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        by_model[line.cost_model].append(line)
    sets: list[StatementSet] = []
    for model, all_lines in sorted(by_model.items()):
        for currency in sorted({line.currency for line in all_lines if line.currency}) or [""]:
            kept = [line for line in all_lines if line.currency in (currency, None)]
            sets.append(_statement_set(model, currency, kept))
    return sets


def render(found: StatementSet, context: Mapping[str, Any]) -> dict[str, bytes]:
    """Every file of the set by its name below the set's folder, the index last."""
    files: dict[str, bytes] = {}
    for statement in found.owners:
        lines = sorted(
            [shown.line for shown in statement.lines] + list(statement.unpriced),
            key=lambda line: line.key,
        )
        files[f"owners/{statement.file}.csv"] = lines_csv(lines)
        files[f"owners/{statement.file}.html"] = _html(
            "statement.html", context, set=found, statement=statement
        )
    files["total.csv"] = lines_csv(found.lines)
    files["index.html"] = _html("statements.html", context, set=found)
    return files


def lines_csv(lines: Sequence[Line]) -> bytes:
    """Lines as CSV at full precision. An empty cost is unknown, not zero."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [field.name for field in fields(Line)]
    writer.writerow(names)
    for line in lines:
        values = [getattr(line, name) for name in names]
        writer.writerow([text_of(v) if isinstance(v, Decimal) else v for v in values])
    return out.getvalue().encode()


def file_name(name: str) -> str:
    """`name` as a file name; one that had to be changed carries a piece of its hash."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")
    if safe == name:
        return safe
    return f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".lstrip("-")


def _statement_set(model: str, currency: str, lines: Sequence[Line]) -> StatementSet:
    by_owner: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        by_owner[line.owner].append(line)
    by_owner.setdefault(CLUSTER, [])
    totals = {owner: _total(owned) for owner, owned in by_owner.items()}
    total = sum(totals.values(), Decimal(0))
    shown = share_out(totals)
    statements = {
        owner: _statement(owner, by_owner[owner], totals[owner], shown[owner]) for owner in by_owner
    }
    cluster_lines = statements.pop(CLUSTER)
    ranked = sorted(statements.values(), key=lambda found: (found.owner == "unowned", found.owner))
    return StatementSet(model, currency, total, to_cents(total), tuple(ranked), cluster_lines)


def _statement(owner: str, lines: Sequence[Line], total: Decimal, shown: Decimal) -> Statement:
    priced = {line.key: line for line in lines if line.cost is not None}
    cents = share_out({key: line.cost or Decimal(0) for key, line in priced.items()}, shown)
    rows = tuple(
        ShownLine(priced[key], cents[key], share_out(priced[key].resource_costs, cents[key]))
        for key in sorted(priced)
    )
    unpriced = sorted((line for line in lines if line.cost is None), key=lambda line: line.key)
    return Statement(owner, total, shown, rows, tuple(unpriced))


def _total(lines: Iterable[Line]) -> Decimal:
    return sum((line.cost for line in lines if line.cost is not None), Decimal(0))


def _context(connection: Connection, month: Days, *, is_running: bool) -> dict[str, Any]:
    """What the pages say about the data: how complete it is, what is missing, which content it is."""
    status = queries.status(connection, "", month)
    published = [row for row in status if row.hours_published]
    last_day = max(row.day for row in published)
    days = Days(month.start, last_day + ONE_DAY if is_running else month.end)
    hashes = "".join(
        row.content_sha256 for row in sorted(published, key=lambda row: (row.cluster, row.day))
    )
    return {
        "days": days.all(),
        "is_running": is_running,
        "clusters": _completeness(status, days),
        "unpriced": _unpriced(connection, month),
        "gaps": queries.gaps(connection, "", month),
        "published_at": max(row.published_at for row in published),
        "fingerprint": hashlib.sha256(hashes.encode()).hexdigest(),
    }


def _completeness(status: Sequence[Row[Any]], days: Days) -> list[dict[str, Any]]:
    found = []
    for cluster in sorted({row.cluster for row in status}):
        states = day_states((row for row in status if row.cluster == cluster), days.all())
        found.append(
            {
                "cluster": cluster,
                "complete": sum(day["state"] == "complete" for day in states),
                "days": len(states),
                "others": [
                    {"day": date.fromisoformat(day["day"]), "state": day["state"]}
                    for day in states
                    if day["state"] != "complete"
                ],
            }
        )
    return found


def _unpriced(connection: Connection, month: Days) -> dict[str, Sequence[Row[Any]]]:
    models = {row.cost_model for row in queries.scopes(connection)}
    return {
        model: queries.unpriced(connection, queries.Scope("", model, ""), month)
        for model in sorted(models)
    }


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["amount"] = lambda value: f"{value:,.2f}".replace("-", "\N{MINUS SIGN}")
    environment.filters["quantity"] = lambda value: f"{value:,.1f}"
    environment.filters["sentence"] = lambda text: f"{text[:1].upper()}{text[1:].rstrip('.')}."
    environment.filters["utc"] = lambda value: f"{value:%Y-%m-%d %H:%M} UTC"
    return environment


def _html(template: str, context: Mapping[str, Any], **values: Any) -> bytes:
    return _templates().get_template(template).render(**context, **values).encode()


def _path(folder: str) -> Any:
    if "://" not in folder:
        return Path(folder)
    from airflow.sdk import ObjectStoragePath

    return ObjectStoragePath(folder)


def _write(target: Any, name: str, content: bytes) -> str:
    """Writes so that a reader meets the old content or the new, never half of it."""
    path = target / name
    if path.exists() and path.read_bytes() == content:
        return str(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(path, Path):
        new = path.with_name(f".{path.name}.{os.getpid()}.new")
        new.write_bytes(content)
        new.replace(path)
    else:
        path.write_bytes(content)  # an object appears whole
    return str(path)


def _remove_others(folder: Any, kept: set[str]) -> None:
    if folder.exists():
        for path in list(folder.iterdir()):
            if path.name not in kept and path.suffix in (".csv", ".html"):
                path.unlink()
