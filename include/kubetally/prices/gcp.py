"""Google Cloud Billing catalogue: which SKUs make up the price of a node.

A machine is billed by core, memory and GPU SKUs whose descriptions begin with the family's name;
comparing the whole beginning keeps "N2 Sole Tenancy Instance Core" and the like out. The place name
in a description is never parsed: `serviceRegions` says where a SKU holds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import msgspec

from kubetally.errors import BadDataError
from kubetally.prices.gcp_machines import Need, needs
from kubetally.prices.key import LookupKey, NoKey
from kubetally.prices.quote import (
    Ambiguous,
    Component,
    Priced,
    Quote,
    Unpriced,
    covered_by_all,
    next_hour,
    one_price,
)

COMPUTE_SERVICE = "6F81-5844-456A"
GKE_SERVICE = "CCD8-9BF1-090E"
# " running in Iowa", " in Iowa", " (asia-southeast2)": where, which `serviceRegions` says better.
HEAD = re.compile(r"\s+((running\s+)?in\s+.*|\([a-z0-9-]+\))$", re.IGNORECASE | re.DOTALL)


class Money(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`units` + `nanos`/1e9 of a currency; either may be absent and means zero."""

    currency_code: str
    units: str | int = "0"
    nanos: int = 0

    @property
    def amount(self) -> Decimal:
        return Decimal(self.units or 0) + Decimal(self.nanos).scaleb(-9)


class Rate(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    start_usage_amount: Decimal = Decimal(0)
    unit_price: Money


class Expression(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    usage_unit: str
    tiered_rates: list[Rate] = []


class Pricing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    pricing_expression: Expression
    effective_time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class Category(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    usage_type: str
    resource_group: str = ""


class Sku(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One SKU of the catalogue. `pricing_info` is its timeline, oldest first."""

    sku_id: str
    description: str
    category: Category
    service_regions: list[str]
    pricing_info: list[Pricing] = []

    @property
    def head(self) -> str:
        """The description up to " running in …", for comparison."""
        return HEAD.sub("", self.description.strip()).casefold()


class Page(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The envelope: `nextPageToken` is missing or "" on the last page."""

    skus: list[Sku]
    next_page_token: str = ""


def decode_page(body: bytes) -> Page:
    """`body` as a page of the catalogue. Raises BadDataError if it is not one."""
    try:
        return msgspec.json.decode(body, type=Page)
    except msgspec.DecodeError as error:
        raise BadDataError(
            f"The Google Cloud catalogue page is not in the known form: {error}.",
            remedy="Nothing was stored. If the API changed its schema, gcp.py has to follow.",
        ) from error


def with_history(skus: Sequence[Sku], of_month: Iterable[Sku]) -> list[Sku]:
    """`skus` with the dated prices that a month's catalogue has of them, each once."""
    known = {sku.sku_id: sku.pricing_info for sku in of_month}
    result: list[Sku] = []
    for sku in skus:
        dates = {entry.effective_time for entry in sku.pricing_info}
        more = [e for e in known.get(sku.sku_id, []) if e.effective_time not in dates]
        result.append(msgspec.structs.replace(sku, pricing_info=[*more, *sku.pricing_info]))
    return result


@dataclass(frozen=True)
class Catalog:
    """SKUs indexed by region, usage type and the beginning of their description."""

    skus: dict[tuple[str, str, str], tuple[Sku, ...]]

    @classmethod
    def of(cls, skus: Iterable[Sku]) -> Catalog:
        index: dict[tuple[str, str, str], list[Sku]] = defaultdict(list)
        for sku in skus:
            for region in sku.service_regions:
                index[region, sku.category.usage_type, sku.head].append(sku)
        return cls({at: tuple(found) for at, found in index.items()})

    def find(self, need: Need, region: str) -> tuple[Sku, ...]:
        """The SKUs that `need` names in `region`, by the newest description that exists there."""
        place = "global" if need.is_global else region
        for head in need.heads:
            for usage_type in (need.usage_type, *need.other_usage_types):
                found = self.skus.get((place, usage_type, head.casefold()))
                if found:
                    return found
        return ()


def candidates(skus: Iterable[Sku], need: Need) -> list[Sku]:
    """The SKUs whose description holds the words of `need` anywhere: what a search would find."""
    words = [head.casefold() for head in need.heads]
    return [sku for sku in skus if any(word in sku.description.casefold() for word in words)]


def why_not(sku: Sku, need: Need, region: str) -> str:
    """Why `sku` is not the one that `need` names in `region`; "" if nothing speaks against it."""
    place = "global" if need.is_global else region
    if place not in sku.service_regions:
        return f"is for {', '.join(sku.service_regions[:3])}"
    if sku.category.usage_type not in (need.usage_type, *need.other_usage_types):
        return f"is of usage type {sku.category.usage_type}"
    if sku.head not in {head.casefold() for head in need.heads}:
        return "is another product: its description begins differently"
    return "is called by an older name"


def unit_price(rates: Sequence[Rate], usage: Decimal) -> Money | None:
    """The price of the tier that `usage` falls into (the first tier often costs nothing)."""
    reached = [rate for rate in rates if rate.start_usage_amount <= usage]
    return max(reached, key=lambda rate: rate.start_usage_amount).unit_price if reached else None


def timeline(sku: Sku, need: Need) -> list[Component]:
    """The prices of `sku` over time; entries in another unit, tiered or without a price are left out."""
    entries = sorted(
        sku.pricing_info,
        key=lambda entry: entry.effective_time.timestamp() if entry.effective_time else 0,
    )
    starts = [None if e.effective_time is None else next_hour(e.effective_time) for e in entries]
    found: list[Component] = []
    for entry, start, end in zip(entries, starts, [*starts[1:], None], strict=True):
        expression = entry.pricing_expression
        money = unit_price(expression.tiered_rates, Decimal(0))
        if expression.usage_unit != need.unit or len(expression.tiered_rates) != 1:
            continue
        if money is None or money.amount <= 0 or start == end is not None:
            continue
        found.append(
            Component(
                sku=sku.sku_id,
                description=sku.description.strip(),
                component=need.component,
                quantity=need.quantity,
                unit=need.unit,
                unit_price=money.amount,
                currency=money.currency_code,
                valid_from=start,
                valid_until=end,
            )
        )
    return found


def match(skus: Catalog | Iterable[Sku], key: LookupKey, at: datetime) -> Quote:
    """The price of `key` as core, memory and GPU components, or why there is none.

    Only time that all of its SKUs cover is kept.
    """
    catalog = skus if isinstance(skus, Catalog) else Catalog.of(skus)
    wanted = needs(key)
    if isinstance(wanted, NoKey):
        return Unpriced(wanted.reason)
    parts: list[tuple[Component, ...]] = []
    for need in wanted:
        found = catalog.find(need, key.region)
        if not found:
            return Unpriced(f"no SKU {need.heads[0]!r} ({need.usage_type}) for {key.region}")
        offers = [part for sku in found for part in timeline(sku, need)]
        if not offers:
            return Unpriced(
                f"the SKU {need.heads[0]!r} for {key.region} has no price per {need.unit}"
            )
        spans, rivals = one_price(offers, at)
        if rivals or not spans:
            ids = ", ".join(f"{rival.sku} {rival.unit_price:f}" for rival in rivals or offers)
            return Ambiguous(
                rivals or tuple(offers),
                f"several SKUs {need.heads[0]!r} with different prices cover {key.region}: {ids}",
            )
        parts.append(spans)
    components = covered_by_all(parts)
    if not components:
        return Unpriced("its SKUs have prices, but at no time all of them at once")
    currencies = {part.currency for part in components}
    if len(currencies) > 1:
        return Unpriced(
            f"its SKUs are priced in several currencies: {', '.join(sorted(currencies))}"
        )
    return Priced(components)
