"""Amounts and times as people write them into price sheets and fees."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation

from kubetally.errors import BadDataError
from kubetally.prices.quote import next_hour
from kubetally.windows import parse_time


def amount_of(name: str, value: object) -> Decimal | None:
    """`value` of the key `name` as an amount; None if nothing is written. Raises ValueError."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f'`{name}` {value!r} must be a number in quotes, for example "0.096"')
    try:
        amount = Decimal(value)
    except InvalidOperation:
        raise ValueError(f"`{name}` {value!r} is not a number") from None
    if not amount.is_finite() or amount < 0:
        raise ValueError(f"`{name}` {value!r} is not a price; it cannot be negative")
    return amount


def moment_of(name: str, value: object) -> datetime | None:
    """A date (its start in UTC) or a time with its zone, on the next whole hour. Raises ValueError."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            try:
                value = parse_time(str(value))
            except BadDataError as error:
                raise ValueError(f"`{name}`: {error}") from None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"`{name}` {value.isoformat()} has no time zone; append Z for UTC")
        return next_hour(value)
    if isinstance(value, date):
        return datetime.combine(value, time.min, UTC)
    raise ValueError(f"`{name}` {value!r} is not a date like 2026-01-31")
