"""Azure Retail Prices: which row of a page is the price of a node.

Rules and traps: learn.microsoft.com/rest/api/cost-management/retail-prices and the public bug
reports named at the lines they forced. Nothing here opens a connection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

import msgspec

from kubetally.errors import BadDataError
from kubetally.prices.key import POD_RATES, LookupKey
from kubetally.prices.quote import (
    Ambiguous,
    Component,
    Priced,
    Quote,
    Unpriced,
    next_hour,
    one_price,
)
from kubetally.windows import parse_time

SERVICE = "Virtual Machines"


class Item(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One row of a page. Numbers are decoded from their JSON text, so they are exact."""

    retail_price: Decimal
    currency_code: str
    arm_region_name: str | None = ""
    arm_sku_name: str | None = ""
    service_name: str
    product_name: str
    sku_name: str
    meter_name: str
    meter_id: str = ""
    type: str
    unit_of_measure: str
    tier_minimum_units: Decimal = Decimal(0)
    effective_start_date: str | None
    effective_end_date: str | None = None
    reservation_term: str = ""

    @property
    def sku(self) -> str:
        """What identifies the row over time; copies of pages may lack the ids."""
        return self.meter_id.strip() or "/".join(
            (self.product_name.strip(), self.sku_name.strip(), self.meter_name.strip())
        )

    @property
    def starts_at(self) -> datetime | None:
        return parse_time(self.effective_start_date) if self.effective_start_date else None

    @property
    def ends_at(self) -> datetime | None:
        return parse_time(self.effective_end_date) if self.effective_end_date else None

    @property
    def title(self) -> str:
        return f"{self.product_name.strip()} · {self.sku_name.strip()} · {self.type.strip()}"


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope: `NextPageLink` is null or "" on the last page, `Count` the rows of this one."""

    Items: list[Item]
    Count: int
    NextPageLink: str | None = None


def decode_page(body: bytes) -> Page:
    """`body` as a page. Raises BadDataError if it is not one or holds fewer rows than it says."""
    try:
        page = msgspec.json.decode(body, type=Page)
        for item in page.Items:
            _ = item.starts_at, item.ends_at
    except (msgspec.DecodeError, BadDataError) as error:
        raise BadDataError(
            f"The Azure price page is not in the known form: {error}.",
            remedy="Nothing was stored. If the API changed its schema, azure.py has to follow.",
        ) from error
    if page.Count != len(page.Items):
        raise BadDataError(
            f"The Azure price page says Count {page.Count} but holds {len(page.Items)} rows.",
            remedy="Nothing was stored; run the lookup again.",
        )
    return page


def why_not(item: Item, key: LookupKey) -> str:
    """Why `item` is not the price of `key`; "" if it is (as far as one row can tell)."""
    product, sku, meter = item.product_name.strip(), item.sku_name.strip(), item.meter_name.strip()
    names = f"{sku} {meter}".lower()
    kind = item.type.strip()
    if (item.arm_sku_name or "").strip().lower() != key.instance_type:
        return f"is for {item.arm_sku_name or 'no instance type'}"
    if (item.arm_region_name or "").strip().lower() != key.region:
        return f"is for the region {item.arm_region_name or '(none)'}"
    if item.service_name.strip() != SERVICE:
        return f"belongs to {item.service_name}"
    if kind == "Reservation":
        # The amount is the total of the term, although the unit says "1 Hour" (opencost PR 3531).
        return "is a reservation: the amount is for the whole term"
    if kind != "Consumption":
        return f"is of type {kind}"
    if re.search(r"cloud ?services", product, re.IGNORECASE):
        return "is for Cloud Services"  # opencost #2906
    if re.search(r"dedicated ?host", product, re.IGNORECASE):
        return "is for a Dedicated Host"
    if "low priority" in names:
        return "is Low Priority, which only Batch can buy"  # opencost #3226, PR 3230
    is_windows = product.lower().endswith(" windows")
    if is_windows != (key.os == "windows"):
        return f"is for {'Windows' if is_windows else 'Linux'}"
    is_spot = "spot" in names.split()
    if is_spot != (key.capacity_type == "spot"):
        return "is the spot price" if is_spot else "is the on-demand price"
    if meter.lower().endswith("- free") or item.retail_price <= 0:
        return "is free or has no price"  # infracost #1626, skypilot #3615
    if item.unit_of_measure.strip() != "1 Hour":
        return f"is per {item.unit_of_measure}"
    if item.tier_minimum_units != 0:
        return f"is a volume tier from {item.tier_minimum_units}"
    if item.starts_at and item.ends_at and item.ends_at <= item.starts_at:
        return "ends before it starts"
    return ""


def component(item: Item) -> Component:
    """`item` as the price of a whole node; validity on whole hours."""
    start, end = item.starts_at, item.ends_at
    return Component(
        sku=item.sku,
        description=item.title,
        component="node",
        quantity=Decimal(1),
        unit="1 Hour",
        unit_price=item.retail_price,
        currency=item.currency_code.strip(),
        valid_from=None if start is None else next_hour(start),
        valid_until=None if end is None else next_hour(end),
    )


def match(items: Sequence[Item], key: LookupKey, at: datetime) -> Quote:
    """The price of `key` in `items`: exactly one at `at`, or why not. The timeline is kept whole."""
    if key.instance_type.startswith(POD_RATES):
        return Unpriced("the rates of virtual nodes' pods are not read from the list; give a sheet")
    offers = [component(item) for item in items if not why_not(item, key)]
    if not offers:
        rows = f"none of the {len(items)} rows is it" if items else "the list has no rows for it"
        market = key.capacity_type.replace("_", " ")
        return Unpriced(
            f"no {market} {key.os} price of {key.spelling or key.instance_type} in {key.region}: {rows}"
        )
    spans, rivals = one_price(offers, at)
    if rivals:
        prices = ", ".join(f"{rival.unit_price:f} ({rival.description})" for rival in rivals)
        return Ambiguous(rivals, f"{len(rivals)} rows with different prices hold at once: {prices}")
    if not spans:
        return Ambiguous(tuple(offers), "rows with different prices hold at once at all times")
    return Priced(spans)


def canonical_spelling(items: Sequence[Item], instance_type: str) -> str:
    """The way the list itself writes `instance_type`, or "" if it does not know it."""
    wanted = instance_type.lower()
    names = ((item.arm_sku_name or "").strip() for item in items)
    return next((name for name in names if name.lower() == wanted), "")
