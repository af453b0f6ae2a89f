"""Exchange rates by day, from configuration: include/config/exchange_rates.yaml or .csv.

The CSV is the reference-rate file of the European Central Bank (eurofxref-hist.csv) unchanged. A day
without a rate of its own (week-ends, holidays) uses the last one before it, at most a week old; a
missing rate is an error, never 1 and never one from later.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from kubetally.config import config_dir, parse_yaml
from kubetally.errors import ConfigError
from kubetally.prices.quote import add
from kubetally.prices.resolve import SCALE, NodePrice
from kubetally.prices.written import amount_of
from kubetally.windows import Window

FILES = ("exchange_rates.yaml", "exchange_rates.csv")
OLDEST_RATE = timedelta(days=7)


class DayText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One day's rates: a unit of the base currency is so many units of each."""

    date: date
    rates: dict[str, Any]


class RatesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    base: str
    days: tuple[DayText, ...]


@dataclass(frozen=True)
class Rates:
    """Units of each currency for one unit of `base`, by day."""

    base: str
    days: Mapping[date, Mapping[str, Decimal]]
    snapshot_id: int | None = None

    @cached_property
    def _dates(self) -> list[date]:
        return sorted(self.days)

    def of(self, currency: str, day: date) -> tuple[Decimal, date] | None:
        """The rate of `currency` that holds on `day`, and the day it was stated."""
        if currency == self.base:
            return Decimal(1), day
        at = bisect_right(self._dates, day)
        while at > 0 and day - self._dates[at - 1] <= OLDEST_RATE:
            at -= 1
            stated = self.days[self._dates[at]].get(currency)
            if stated is not None:
                return stated, self._dates[at]
        return None

    def convert(self, amount: Decimal, source: str, target: str, day: date) -> Decimal:
        """`amount` of `source` in `target`, at 18 decimals, half away from zero.

        Raises ConfigError naming pair and date when there is no rate.
        """
        if source == target:
            return amount
        own, other = self.of(source, day), self.of(target, day)
        if own is None or other is None:
            raise ConfigError(
                f"There is no exchange rate from {source} to {target} for {day.isoformat()}.",
                remedy=f"Add it to include/config/{FILES[0]}; a rate holds for a week at most.",
            )
        with localcontext(prec=100):
            return (amount * other[0] / own[0]).quantize(SCALE, ROUND_HALF_UP)


def parse_rates(content: bytes, name: str, snapshot_id: int | None = None) -> Rates:
    """The rates in the bytes of the file called `name`. Raises ConfigError with file and reason."""
    try:
        text = content.decode("utf-8-sig")
        if name.lower().endswith(".csv"):
            return Rates("EUR", _ecb(text), snapshot_id)
        file = parse_yaml(text, name, RatesFile)
        days = {day.date: _amounts(day.rates) for day in file.days}
        return Rates(file.base, days, snapshot_id)
    except (UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"{name}: {error}.", remedy="Correct that rate.") from error


def rates_file(folder: Path | None = None) -> Path | None:
    """The configured file of exchange rates, if there is one."""
    where = folder or config_dir()
    return next((where / name for name in FILES if (where / name).exists()), None)


def settled(
    amounts: Iterable[Decimal], source: str, target: str, day: date, rates: Rates
) -> Decimal:
    """What an invoice that settles as a whole comes to: summed first, converted and rounded once.

    Converting line by line would round each of them (FOCUS 1.4, invoice detail scenario 2).
    """
    total = rates.convert(add(amounts), source, target, day)
    return total.quantize(Decimal("0.01"), ROUND_HALF_UP)


def in_currency(prices: Iterable[NodePrice], target: str, rates: Rates) -> list[NodePrice]:
    """`prices` in `target`, cut at UTC midnights where rates may change.

    Raises ConfigError when a rate is missing.
    """
    result: list[NodePrice] = []
    for price in prices:
        if price.currency in (None, target):
            result.append(price)
            continue
        for day in Window(price.during_start, price.during_end).days():
            whole = Window.of_day(day)
            part = replace(
                price,
                during_start=max(price.during_start, whole.start),
                during_end=min(price.during_end, whole.end),
            )
            result.append(_converted(part, target, day, rates))
    return result


def _converted(price: NodePrice, target: str, day: date, rates: Rates) -> NodePrice:
    source = price.currency or target

    def amount(value: Decimal | None) -> Decimal | None:
        return None if value is None else rates.convert(value, source, target, day)

    one = rates.convert(Decimal(1), source, target, day).normalize()
    said = f"1 {source} = {one:f} {target} on {day.isoformat()}"
    ids = {*price.snapshot_ids, *(() if rates.snapshot_id is None else (rates.snapshot_id,))}
    return replace(
        price,
        reason=f"{price.reason}; {said}" if price.reason else said,
        price_per_hour=amount(price.price_per_hour),
        cpu_price_per_hour=amount(price.cpu_price_per_hour),
        memory_price_per_hour=amount(price.memory_price_per_hour),
        gpu_price_per_hour=amount(price.gpu_price_per_hour),
        currency=target,
        snapshot_ids=tuple(sorted(ids)),
    )


def _ecb(text: str) -> dict[date, dict[str, Decimal]]:
    days: dict[date, dict[str, Decimal]] = {}
    for row in csv.DictReader(text.splitlines(), skipinitialspace=True):
        cells = {(name or "").strip(): value for name, value in row.items()}
        stated = (cells.pop("Date", "") or "").strip()
        days[_day(stated)] = _amounts(
            {
                name: value.strip()
                for name, value in cells.items()
                if name and isinstance(value, str) and value.strip() not in ("", "N/A")
            }
        )
    return days


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:  # the file of the present day writes "02 November 2026"
        return datetime.strptime(text, "%d %B %Y").replace(tzinfo=UTC).date()


def _amounts(written: Mapping[str, Any]) -> dict[str, Decimal]:
    found = {name: amount_of(name, value) for name, value in written.items()}
    for name, amount in found.items():
        if not amount:
            raise ValueError(f"the rate of {name} is not above zero")
    return {name: amount for name, amount in found.items() if amount}
