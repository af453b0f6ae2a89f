"""The periods people look at, and the one each is compared with. They end where the data ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

PeriodName = Literal["7d", "14d", "30d", "month-to-date", "last-month"]
LENGTHS = {"7d": 7, "14d": 14, "30d": 30}
ONE_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Days:
    """UTC days `[start, end)`."""

    start: date
    end: date

    def all(self) -> list[date]:
        return [self.start + timedelta(days=n) for n in range((self.end - self.start).days)]


@dataclass(frozen=True)
class Period:
    """The days shown and the days they are compared with."""

    days: Days
    before: Days


def period(name: PeriodName, last_day: date) -> Period:
    """The period that ends with `last_day`, the last day with data (for last-month: lies before it).

    Days are compared with as many days just before; a running month with the same days of the month
    before (fewer where that month is shorter); a whole month with the month before.
    """
    month = last_day.replace(day=1)
    if name == "month-to-date":
        before = _month_before(month)
        length = last_day - month + ONE_DAY
        return Period(Days(month, last_day + ONE_DAY), Days(before, min(before + length, month)))
    if name == "last-month":
        start = _month_before(month)
        return Period(Days(start, month), Days(_month_before(start), start))
    length = timedelta(days=LENGTHS[name])
    end = last_day + ONE_DAY
    return Period(Days(end - length, end), Days(end - 2 * length, end - length))


def month_of(day: date) -> Days:
    """The whole UTC month that holds `day`."""
    start = day.replace(day=1)
    return Days(start, (start + timedelta(days=31)).replace(day=1))


def _month_before(month: date) -> date:
    return (month - ONE_DAY).replace(day=1)
