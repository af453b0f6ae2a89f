"""Why a node costs what it costs: every candidate row, and why it was kept or dropped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from kubetally.prices import azure, gcp
from kubetally.prices.gcp_machines import needs
from kubetally.prices.key import LookupKey, NodeFacts, NoKey, lookup_key
from kubetally.prices.quote import Priced, Quote
from kubetally.prices.resolve import Known, resolve
from kubetally.prices.sheet import Sheet
from kubetally.windows import Window, iso


def explain(
    facts: NodeFacts,
    at: datetime,
    *,
    provider: str = "",
    region: str = "",
    azure_items: Sequence[azure.Item] = (),
    gcp_skus: Sequence[gcp.Sku] = (),
    known: Known | None = None,
    sheet: Sheet | None = None,
    hourly_rate: Decimal | None = None,
) -> str:
    """A text for people: the lookup key, every candidate with its verdict, the price that counts.

    `provider`, `region`, `sheet` and `hourly_rate` are the cluster's; `known` is the price book's
    entry; `azure_items` and `gcp_skus` are the rows of the list to judge, if they are at hand.
    """
    key = lookup_key(facts, provider=provider, region=region)
    lines = [f"Node {facts.node} of cluster {facts.cluster} at {iso(at)}"]
    if isinstance(key, NoKey):
        lines.append(f"No list price: {key.reason}.")
    else:
        lines.append(f"Lookup key: {key.text}")
        if key.provider == "azure" and azure_items:
            lines += _azure_lines(azure_items, key, at)
        if key.provider == "gcp" and gcp_skus:
            lines += _gcp_lines(gcp_skus, key, at)
    for number, entry in enumerate(sheet.entries if sheet else (), start=1):
        if not entry.matches(facts):
            verdict = "dropped: is for other nodes"
        elif not entry.valid_from <= at < entry.valid_until:
            verdict = "dropped: is not valid then"
        else:
            verdict = "matches"
        lines.append(f"Sheet entry {number}: {verdict}")
    hour = Window.of_hour(at)
    price = resolve(facts, hour, key=key, known=known, sheet=sheet, hourly_rate=hourly_rate)[0]
    if price.price_per_hour is None:
        lines.append(f"Counts: {price.state}: {price.reason}")
    else:
        lines.append(
            f"Counts: {price.price_per_hour.normalize():f} {price.currency} per hour"
            f" ({price.state}, origin {price.origin})"
            + (f": {price.reason}" if price.reason else "")
        )
    return "\n".join(lines)


def _azure_lines(items: Sequence[azure.Item], key: LookupKey, at: datetime) -> list[str]:
    lines = [f"Candidates in the list: {len(items)}"]
    for item in items:
        reason = azure.why_not(item, key)
        if not reason and not azure.component(item).holds_at(at):
            reason = "is not valid then"
        verdict = f"dropped: {reason}" if reason else "kept"
        lines.append(f"  {item.retail_price:f} {item.currency_code}  {item.title}: {verdict}")
    return [*lines, _verdict(azure.match(items, key, at), at)]


def _gcp_lines(skus: Sequence[gcp.Sku], key: LookupKey, at: datetime) -> list[str]:
    wanted = needs(key)
    if isinstance(wanted, NoKey):
        return [f"No list price: {wanted.reason}."]
    catalog = gcp.Catalog.of(skus)
    lines = []
    for need in wanted:
        lines.append(f"Needs {need.quantity.normalize():f} x {need.heads[0]} ({need.usage_type})")
        for sku in catalog.find(need, key.region):
            holding = [part for part in gcp.timeline(sku, need) if part.holds_at(at)]
            price = ", ".join(f"{part.unit_price:f} {part.currency}" for part in holding)
            lines.append(f"  {sku.sku_id}  {sku.description}: {price or 'no price then'}")
    return [*lines, _verdict(gcp.match(catalog, key, at), at)]


def _verdict(quote: Quote, at: datetime) -> str:
    if isinstance(quote, Priced):
        return f"The list says: {quote.price_per_hour(at).normalize():f} per hour"
    return f"The list says: {type(quote).__name__.lower()}, {quote.reason}"
