"""Periods end where the data ends, and are compared with as much time before."""

from __future__ import annotations

from datetime import date

import pytest

from kubetally.report.periods import Days, PeriodName, month_of, period


@pytest.mark.parametrize(
    ("name", "last_day", "days", "before"),
    [
        ("7d", "2026-03-08", ("2026-03-02", "2026-03-09"), ("2026-02-23", "2026-03-02")),
        ("14d", "2026-03-08", ("2026-02-23", "2026-03-09"), ("2026-02-09", "2026-02-23")),
        ("30d", "2026-03-31", ("2026-03-02", "2026-04-01"), ("2026-01-31", "2026-03-02")),
        ("month-to-date", "2026-03-08", ("2026-03-01", "2026-03-09"), ("2026-02-01", "2026-02-09")),
        ("month-to-date", "2026-01-01", ("2026-01-01", "2026-01-02"), ("2025-12-01", "2025-12-02")),
        # February has no 30th: the whole of it is what March until the 30th is compared with.
        ("month-to-date", "2026-03-30", ("2026-03-01", "2026-03-31"), ("2026-02-01", "2026-03-01")),
        ("last-month", "2026-03-08", ("2026-02-01", "2026-03-01"), ("2026-01-01", "2026-02-01")),
        ("last-month", "2026-01-15", ("2025-12-01", "2026-01-01"), ("2025-11-01", "2025-12-01")),
    ],
)
def test_period(
    name: PeriodName, last_day: str, days: tuple[str, str], before: tuple[str, str]
) -> None:
    found = period(name, date.fromisoformat(last_day))
    assert found.days == Days(*map(date.fromisoformat, days))
    assert found.before == Days(*map(date.fromisoformat, before))


@pytest.mark.parametrize(
    ("day", "end"),
    [("2026-02-11", "2026-03-01"), ("2028-02-29", "2028-03-01"), ("2026-12-31", "2027-01-01")],
)
def test_month(day: str, end: str) -> None:
    found = month_of(date.fromisoformat(day))
    assert (found.start, found.end) == (
        date.fromisoformat(day).replace(day=1),
        date.fromisoformat(end),
    )
    assert len(found.all()) == (found.end - found.start).days
