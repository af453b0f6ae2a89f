"""A price sheet: negotiated, on-premise or otherwise custom node prices, dated.

YAML (`prices:` list) or CSV (one entry per row) below include/config/price_sheets/. The first entry
that matches a node counts, at every instant; an entry counts over `[valid_from, valid_until)`,
rounded up to the whole hour.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from kubetally.config import parse_yaml
from kubetally.errors import BadDataError, ConfigError
from kubetally.labels import label_value
from kubetally.prices.key import NodeFacts
from kubetally.prices.quote import EARLIEST, LATEST, next_hour
from kubetally.windows import parse_time

RATES = ("cpu_core_hour", "memory_gib_hour", "gpu_hour")
PRICES = ("price_per_hour", *RATES)
MATCHES = ("node", "instance_type", "capacity_type", "os", "region")


class MatchText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which nodes an entry is for: all that is given must match. Names may be globs."""

    node: str = ""
    instance_type: str = ""
    labels: dict[str, str] = {}
    capacity_type: str = ""
    os: str = ""
    region: str = ""


class EntryText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as it is written. Amounts are strings or whole numbers: a float is not exact."""

    match: MatchText = MatchText()
    price_per_hour: Any = None
    cpu_core_hour: Any = None
    memory_gib_hour: Any = None
    gpu_hour: Any = None
    currency: str = "USD"
    valid_from: Any = None
    valid_until: Any = None

    def __post_init__(self) -> None:
        amounts = {name: _amount(name, getattr(self, name)) for name in PRICES}
        given = [name for name, amount in amounts.items() if amount is not None]
        if not given:
            raise ValueError(f"an entry needs `price_per_hour` or rates ({', '.join(RATES)})")
        if "price_per_hour" in given and len(given) > 1:
            raise ValueError(
                f"give either `price_per_hour` or rates, not both ({', '.join(given)})"
            )
        if len(self.currency) != 3 or not self.currency.isalpha() or not self.currency.isupper():
            raise ValueError(f"`currency` {self.currency!r} is not a code like USD")
        start = _moment("valid_from", self.valid_from)
        end = _moment("valid_until", self.valid_until)
        if start is not None and end is not None and end <= start:
            raise ValueError("`valid_until` is not after `valid_from`")


class SheetText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prices: tuple[EntryText, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One dated price for the nodes that `matches` accepts; either a price or rates."""

    match: MatchText
    price_per_hour: Decimal | None
    cpu_core_hour: Decimal | None
    memory_gib_hour: Decimal | None
    gpu_hour: Decimal | None
    currency: str
    valid_from: datetime
    valid_until: datetime

    def matches(self, facts: NodeFacts) -> bool:
        wanted = self.match
        return (
            _is_like(facts.node, wanted.node)
            and _is_like(facts.stated_instance_type, wanted.instance_type)
            and _is_like(facts.stated_region, wanted.region)
            and wanted.os.lower() in ("", facts.stated_os)
            and wanted.capacity_type.lower() in ("", facts.market)
            and all(
                label_value(facts.labels, name) == value for name, value in wanted.labels.items()
            )
        )


@dataclass(frozen=True)
class Sheet:
    """The entries of one file, in order of precedence, and the snapshot that keeps the file."""

    entries: tuple[Entry, ...] = ()
    snapshot_id: int | None = None

    def for_node(self, facts: NodeFacts) -> tuple[Entry, ...]:
        """The entries that ever apply to `facts`; at an instant the first valid one counts."""
        return tuple(entry for entry in self.entries if entry.matches(facts))


def load(path: Path) -> Sheet:
    """The sheet at `path` (.yaml, .yml or .csv). Raises ConfigError with file, key and remedy."""
    try:
        return parse(path.read_bytes(), path.name)
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read: {error.strerror}.") from error


def parse(content: bytes, name: str, snapshot_id: int | None = None) -> Sheet:
    """The sheet in `content`, the bytes of the file called `name`. Raises ConfigError like `load`."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8 text: {error.reason}.") from error
    is_csv = name.lower().endswith(".csv")
    found = _parse_csv(text, name) if is_csv else parse_yaml(text, name, SheetText)
    return Sheet(tuple(_entry(entry) for entry in found.prices), snapshot_id)


def _entry(text: EntryText) -> Entry:
    start = _moment("valid_from", text.valid_from)
    end = _moment("valid_until", text.valid_until)
    return Entry(
        match=text.match,
        price_per_hour=_amount("price_per_hour", text.price_per_hour),
        cpu_core_hour=_amount("cpu_core_hour", text.cpu_core_hour),
        memory_gib_hour=_amount("memory_gib_hour", text.memory_gib_hour),
        gpu_hour=_amount("gpu_hour", text.gpu_hour),
        currency=text.currency,
        valid_from=EARLIEST if start is None else start,
        valid_until=LATEST if end is None else end,
    )


def _is_like(value: str, pattern: str) -> bool:
    return not pattern or fnmatchcase(value.lower(), pattern.lower())


def _amount(name: str, value: object) -> Decimal | None:
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


def _moment(name: str, value: object) -> datetime | None:
    """A date (its start in UTC) or a time with its zone, on the next whole hour."""
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


def _parse_csv(text: str, file: str) -> SheetText:
    """Columns: those of an entry and of `match`; labels as `name=value;name=value`."""
    known = {*MATCHES, "labels", *PRICES, "currency", "valid_from", "valid_until"}
    reader = csv.DictReader(text.splitlines())
    unknown = sorted({name.strip() for name in reader.fieldnames or ()} - known)
    if unknown or not reader.fieldnames:
        raise ConfigError(
            f"{file}: unknown columns {', '.join(unknown) or '(none given)'}.",
            remedy=f"Known are {', '.join(sorted(known))}.",
        )
    entries = []
    for row in reader:
        if None in row:
            raise ConfigError(f"{file}, line {reader.line_num}: more cells than columns.")
        try:
            entries.append(msgspec.convert(_csv_entry(row), EntryText))
        except (msgspec.ValidationError, ValueError) as error:
            raise ConfigError(
                f"{file}, line {reader.line_num}: {error}.", remedy="Correct that cell."
            ) from error
    return SheetText(tuple(entries))


def _csv_entry(row: Mapping[str, str | None]) -> dict[str, Any]:
    cells = {name.strip(): (value or "").strip() for name, value in row.items()}
    match: dict[str, Any] = {name: cells.pop(name) for name in MATCHES if cells.get(name)}
    labels = {}
    for pair in filter(None, cells.pop("labels", "").split(";")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"`labels` {pair!r} is not name=value")
        labels[name.strip()] = value.strip()
    if labels:
        match["labels"] = labels
    return {
        "match": match,
        **{name: value for name, value in cells.items() if value and name not in MATCHES},
    }
