"""A price sheet: negotiated, on-premise or otherwise custom node prices, dated.

YAML (`prices:` and `fees:` lists), CSV (one entry per row), or a custom-pricing file of OpenCost
(JSON or CSV), below include/config/price_sheets/. The first entry with a price that matches a node
counts, at every instant; entries with percentages adjust what would count without them. An entry
counts over `[valid_from, valid_until)`, rounded up to the whole hour.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from kubetally.config import parse_yaml
from kubetally.errors import ConfigError
from kubetally.prices import opencost
from kubetally.prices.entry import Entry, GpuRate, MatchText
from kubetally.prices.fees import Fee, FeeText, fee_of
from kubetally.prices.key import NodeFacts
from kubetally.prices.quote import EARLIEST, LATEST
from kubetally.prices.written import amount_of, moment_of

RATES = ("cpu_core_hour", "memory_gib_hour", "gpu_hour")
PRICES = ("price_per_hour", *RATES)
PERCENTAGES = ("discount_percent", "markup_percent")
MATCHES = (
    "cluster",
    "node",
    "provider_id",
    "instance_type",
    "capacity_type",
    "os",
    "region",
    "gpu_model",
)


class EntryText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as it is written. Amounts are strings or whole numbers: a float is not exact."""

    match: MatchText = MatchText()
    price_per_hour: Any = None
    cpu_core_hour: Any = None
    memory_gib_hour: Any = None
    gpu_hour: Any = None
    gpu_hour_by_model: dict[str, Any] = {}
    discount_percent: Any = None
    markup_percent: Any = None
    of: Literal["", "on_demand"] = ""
    currency: str = "USD"
    valid_from: Any = None
    valid_until: Any = None

    def __post_init__(self) -> None:
        amounts = {name: amount_of(name, getattr(self, name)) for name in (*PRICES, *PERCENTAGES)}
        for model, amount in self.gpu_hour_by_model.items():
            amounts[f"gpu_hour_by_model.{model}"] = amount_of(model, amount)
        given = [name for name, amount in amounts.items() if amount is not None]
        percentages = [name for name in given if name in PERCENTAGES]
        if not given:
            raise ValueError(
                f"an entry needs `price_per_hour`, rates ({', '.join(RATES)}) or percentages"
                f" ({', '.join(PERCENTAGES)})"
            )
        if ("price_per_hour" in given or percentages) and given not in (
            ["price_per_hour"],
            percentages,
        ):
            raise ValueError(
                "give either `price_per_hour` or rates or percentages, not both"
                f" ({', '.join(given)})"
            )
        discount = amounts["discount_percent"]
        if discount is not None and discount > 100:
            raise ValueError("`discount_percent` is at most 100")
        if self.of and not percentages:
            raise ValueError("`of` says what percentages are taken of; there are none")
        if len(self.currency) != 3 or not self.currency.isalpha() or not self.currency.isupper():
            raise ValueError(f"`currency` {self.currency!r} is not a code like USD")
        start = moment_of("valid_from", self.valid_from)
        end = moment_of("valid_until", self.valid_until)
        if start is not None and end is not None and end <= start:
            raise ValueError("`valid_until` is not after `valid_from`")


class SheetText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prices: tuple[EntryText, ...] = ()
    fees: tuple[FeeText, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """The entries of one file, in order of precedence, and the snapshot that keeps the file."""

    entries: tuple[Entry, ...] = ()
    snapshot_id: int | None = None
    fees: tuple[Fee, ...] = ()

    def for_node(self, facts: NodeFacts) -> tuple[Entry, ...]:
        """The entries that ever apply to `facts`; at an instant the first valid one counts."""
        return tuple(entry for entry in self.entries if entry.matches(facts))


def load(path: Path) -> Sheet:
    """The sheet at `path` (.yaml, .yml, .csv or .json). Raises ConfigError with file, key and remedy."""
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
    if name.lower().endswith(".json"):
        entries, fees = opencost.parse_json(text, name)
        return Sheet(entries, snapshot_id, fees)
    is_csv = name.lower().endswith(".csv")
    if is_csv and opencost.is_csv(text):
        entries, fees = opencost.parse_csv(text, name)
        return Sheet(entries, snapshot_id, fees)
    found = _parse_csv(text, name) if is_csv else parse_yaml(text, name, SheetText)
    return Sheet(
        tuple(_entry(entry) for entry in found.prices),
        snapshot_id,
        tuple(fee_of(fee) for fee in found.fees),
    )


def _entry(text: EntryText) -> Entry:
    start = moment_of("valid_from", text.valid_from)
    end = moment_of("valid_until", text.valid_until)
    models = {name: amount_of(name, value) for name, value in text.gpu_hour_by_model.items()}
    return Entry(
        match=text.match,
        price_per_hour=amount_of("price_per_hour", text.price_per_hour),
        cpu_core_hour=amount_of("cpu_core_hour", text.cpu_core_hour),
        memory_gib_hour=amount_of("memory_gib_hour", text.memory_gib_hour),
        gpu_hour=amount_of("gpu_hour", text.gpu_hour),
        gpu_rates=tuple(
            GpuRate(name, price) for name, price in models.items() if price is not None
        ),
        discount_percent=amount_of("discount_percent", text.discount_percent),
        markup_percent=amount_of("markup_percent", text.markup_percent),
        of_on_demand=text.of == "on_demand",
        currency=text.currency,
        valid_from=EARLIEST if start is None else start,
        valid_until=LATEST if end is None else end,
    )


def _parse_csv(text: str, file: str) -> SheetText:
    """Columns: those of an entry and of `match`; labels as `name=value;name=value`."""
    known = {
        *MATCHES,
        "labels",
        *PRICES,
        *PERCENTAGES,
        "of",
        "currency",
        "valid_from",
        "valid_until",
    }
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
