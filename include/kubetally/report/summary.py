"""What the Costs page shows, from rows: groups, shares, changes, the state of every day. Pure.

Money leaves as text, exact in `cost` and to the cent in `shown`; the shown parts add up to the
shown total.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, Protocol

from sqlalchemy import Row

from kubetally.report.periods import Period
from kubetally.report.rounding import share_out, to_cents
from kubetally.windows import iso

LINES = (
    "shared",
    "system",
    "idle",
    "uncovered",
    "unmounted",
    "recovery",
    "correction",
    "overcommit",
)
KINDS = ("owner", "namespace", "unowned", "line", "unpriced")
STATES = ("missing", "partial", "gaps", "unpriced", "complete")  # the worst first
Group = tuple[str, str]  # kind, name


class CostRow(Protocol):
    """A row of page/costs.sql; `cost` is None where there is no price."""

    day: date
    kind: str
    name: str
    owner: str
    cost: Decimal | None


def text_of(amount: Decimal | None) -> str | None:
    """A number as plain digits, without exponent; None stays None."""
    return None if amount is None else format(amount, "f")


def cost_groups(
    rows: Iterable[CostRow], rows_before: Sequence[CostRow], period: Period
) -> dict[str, Any]:
    """Groups and total of the period, by day, with shares and the change against the period before.

    Without any row before there is nothing to compare with and the changes are None.
    """
    days = period.days.all()
    by_day: dict[Group, dict[date, Decimal]] = defaultdict(dict)
    owners: dict[Group, set[str]] = defaultdict(set)
    parts: dict[str, Decimal] = dict.fromkeys(("teams", "unowned", "idle", "other"), Decimal(0))
    for row in rows:
        group = (row.kind, row.name)
        owners[group].add(row.owner)
        cells = by_day[group]
        if row.cost is not None:
            cells[row.day] = cells.get(row.day, Decimal(0)) + row.cost
            parts[_part(row)] += row.cost
    before: dict[Group, Decimal] = defaultdict(Decimal)
    for row in rows_before:
        if row.cost is None:
            continue
        group = (row.kind, row.name)
        owners[group].add(row.owner)
        by_day.setdefault(group, {})
        before[group] += row.cost
    priced = {
        group: sum(c.values(), Decimal(0)) for group, c in by_day.items() if group[0] != "unpriced"
    }
    total = sum(priced.values(), Decimal(0))
    shown = share_out(priced)
    order = sorted(by_day, key=lambda group: _order(group, priced.get(group, Decimal(0))))
    is_compared = bool(rows_before)
    return {
        "groups": [
            {
                "kind": group[0],
                "name": group[1],
                "owners": sorted(owners[group]),
                "cost": text_of(priced.get(group)),
                "shown": text_of(shown.get(group)),
                "share": _share(priced.get(group), total),
                "days": [text_of(by_day[group].get(day)) for day in days],
                **_change(priced.get(group), before[group] if is_compared else None),
            }
            for group in order
        ],
        "total": {
            "cost": text_of(total),
            "shown": text_of(to_cents(total)),
            "days": [text_of(_sum_of_day(by_day, day)) for day in days],
            **_change(total, sum(before.values(), Decimal(0)) if is_compared else None),
        },
        "parts": {
            name: {"cost": text_of(cost), "shown": text_of(cents), "share": _share(cost, total)}
            for (name, cost), cents in zip(parts.items(), share_out(parts).values(), strict=True)
        },
    }


def day_states(rows: Iterable[Any], days: Iterable[date]) -> list[dict[str, Any]]:
    """Every day with its worst state over the clusters; `missing` where no cluster has a row."""
    by_day: dict[date, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_day[row.day].append(plain(row))
    return [
        {
            "day": day.isoformat(),
            "state": min(
                (detail["state"] for detail in by_day[day]), key=STATES.index, default="missing"
            ),
            "clusters": by_day[day],
        }
        for day in days
    ]


def hours_published(rows: Iterable[Any]) -> int:
    return sum(row.hours_published for row in rows)


def plain(row: Row[Any]) -> dict[str, Any]:
    """A row for JSON: numbers with decimals as text, times as ISO 8601 in UTC."""
    return {name: _plain(value) for name, value in row._asdict().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return text_of(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    return value


def _part(row: CostRow) -> str:
    if row.kind == "line":
        return "idle" if row.name == "idle" else "other"
    return "unowned" if row.owner == "unowned" else "teams"


def _order(group: Group, cost: Decimal) -> tuple[int, int, Decimal, str]:
    """Teams or namespaces by falling cost, then unowned, then the lines of the cluster as listed."""
    kind, name = group
    if kind == "line":
        return KINDS.index(kind), LINES.index(name), Decimal(0), name
    return KINDS.index(kind), 0, -cost, name


def _sum_of_day(by_day: Mapping[Group, Mapping[date, Decimal]], day: date) -> Decimal | None:
    cells = [cells[day] for cells in by_day.values() if day in cells]
    return sum(cells, Decimal(0)) if cells else None


def _share(part: Decimal | None, whole: Decimal) -> str | None:
    return None if part is None or not whole else _ratio(part / whole)


def is_comparable(states: Iterable[Any], states_before: Iterable[Any]) -> bool:
    """Whether about as many hours are published of both periods: else "502 % more" says nothing."""
    now, before = hours_published(states), hours_published(states_before)
    return before > 0 and abs(now - before) * 10 <= max(now, before)


def _change(now: Decimal | None, before: Decimal | None) -> dict[str, str | None]:
    if now is None or before is None:
        return {"before": None, "change": None, "change_share": None}
    return {
        "before": text_of(before),
        "change": text_of(now - before),
        "change_share": _ratio((now - before) / before) if before > 0 else None,
    }


def _ratio(value: Decimal) -> str:
    return format(value.quantize(Decimal("0.000001"), ROUND_HALF_EVEN), "f")
