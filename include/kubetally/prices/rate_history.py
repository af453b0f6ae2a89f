"""Named values that hold by month, as the New England Research Cloud publishes its rates.

The file (nerc-rates `rates.yaml`) lists for each name a history of values with the first and the last
month each holds. A month without a value is an error: a rate that is missing is not zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import yaml

from kubetally.errors import ConfigError
from kubetally.prices.written import amount_of

MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


@dataclass(frozen=True)
class Held:
    """A value and the months it holds, both inclusive; `until` "" = still."""

    value: str
    since: str
    until: str


@dataclass(frozen=True)
class RateHistory:
    """Values by name and month."""

    name: str
    items: dict[str, tuple[Held, ...]]

    def text_at(self, item: str, month: str) -> str:
        """The value of `item` in `month` (`2025-06`) as it is written. Raises ConfigError if none."""
        for held in self.items.get(item, ()):
            if held.since <= month and (not held.until or month <= held.until):
                return held.value
        known = "there is no such item" if item not in self.items else "no value holds then"
        raise ConfigError(
            f"{self.name}: {item!r} has no value in {month}: {known}.",
            remedy="Add it to the rates; a missing rate is not zero.",
        )

    def amount_at(self, item: str, month: str) -> Decimal:
        """The value as a number. Raises ConfigError if there is none or it is not a number."""
        text = self.text_at(item, month)
        try:
            amount = amount_of(item, text)
        except ValueError as error:
            raise ConfigError(f"{self.name}: {error}.") from error
        assert amount is not None
        return amount


def parse_history(text: str, name: str) -> RateHistory:
    """The history in the YAML `text` of the file called `name`. Raises ConfigError."""
    try:
        listed: Any = yaml.safe_load(text)
        items = {
            str(entry["name"]): tuple(_held(one) for one in entry["history"]) for entry in listed
        }
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{name} is not a list of rates with a history: {error!r}.") from error
    return RateHistory(name, items)


def _held(one: dict[str, Any]) -> Held:
    since, until = str(one["from"]), str(one.get("until") or "")
    if not MONTH.fullmatch(since) or (until and not MONTH.fullmatch(until)):
        raise ValueError(f"{since!r} to {until!r} are not months")
    if isinstance(one["value"], float):
        raise ValueError(f"{one['value']!r} is not exact; write it in quotes")
    return Held(str(one["value"]), since, until)
