"""Why a node costs what it costs: every candidate row, and why it was kept or dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from kubetally.errors import BadDataError
from kubetally.prices import aws, azure, gcp
from kubetally.prices.gcp_machines import needs
from kubetally.prices.key import LookupKey, NodeFacts, NoKey, lookup_key
from kubetally.prices.quote import Priced, Quote
from kubetally.prices.resolve import Known, NodePrice, on_demand, resolve
from kubetally.prices.sheet import Sheet
from kubetally.windows import Window, iso


@dataclass(frozen=True)
class Rows:
    """The rows of a price list to judge; one of them is filled, by provider."""

    azure: Sequence[azure.Item] = ()
    gcp: Sequence[gcp.Sku] = ()
    aws: Sequence[aws.Offer] = ()


def rows_of(provider: str, payload: bytes) -> Rows:
    """The rows in a stored snapshot. Raises BadDataError if it is not one of that provider."""
    if provider == "azure":
        pages = [azure.decode_page(page).Items for page in documents(payload)]
        return Rows(azure=[item for page in pages for item in page])
    if provider == "gcp":
        skus = [gcp.decode_page(page).skus for page in documents(payload)]
        return Rows(gcp=[sku for page in skus for sku in page])
    if provider == "aws":
        if b'"PriceList"' in payload:
            offers = [aws.decode_products_page(page)[0] for page in documents(payload)]
            return Rows(aws=[offer for page in offers for offer in page])
        return Rows(aws=aws.read_offer_file([payload], lambda _: True, "The snapshot").offers)
    return Rows()


def documents(payload: bytes) -> Iterator[bytes]:
    """The JSON documents that a snapshot's payload holds, one after the other."""
    text = payload.decode()
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            _, end = decoder.raw_decode(text, at)
        except ValueError as error:
            raise BadDataError(f"The snapshot is not made of JSON pages: {error}.") from error
        yield text[at:end].encode()
        at = end


def explain(
    facts: NodeFacts,
    at: datetime,
    *,
    provider: str = "",
    region: str = "",
    rows: Rows | None = None,
    known: Known | None = None,
    known_on_demand: Known | None = None,
    sheet: Sheet | None = None,
    hourly_rate: Decimal | None = None,
) -> str:
    """A text for people: the lookup key, every candidate with its verdict, the price that counts.

    `provider`, `region`, `sheet` and `hourly_rate` are the cluster's; `known` is the price book's
    entry; `rows` are those of the list to judge, if they are at hand.
    """
    key = lookup_key(facts, provider=provider, region=region)
    lines = [f"Node {facts.node} of cluster {facts.cluster} at {iso(at)}"]
    if isinstance(key, NoKey):
        lines.append(f"No list price: {key.reason}.")
    else:
        lines.append(f"Lookup key: {key.text}")
        lines += _list_lines(rows or Rows(), key, at)
        lines += _book_lines(known, at)
    for number, entry in enumerate(sheet.entries if sheet else (), start=1):
        if not entry.matches(facts):
            verdict = "dropped: is for other nodes"
        elif not entry.valid_from <= at < entry.valid_until:
            verdict = "dropped: is not valid then"
        else:
            verdict = "matches, adjusts what counts below it" if entry.is_adjustment else "matches"
        lines.append(f"Sheet entry {number}: {verdict}")
    (price, *_) = resolve(
        facts,
        Window.of_hour(at),
        key=key,
        known=known,
        known_on_demand=known_on_demand,
        sheet=sheet,
        hourly_rate=hourly_rate,
    )
    lines.append(_counts(price, facts))
    return "\n".join(lines)


def keys_to_know(
    facts: NodeFacts, *, provider: str = "", region: str = ""
) -> tuple[LookupKey, LookupKey] | None:
    """The keys whose book entries `explain` wants: the node's, and the on-demand one."""
    key = lookup_key(facts, provider=provider, region=region)
    return None if isinstance(key, NoKey) else (key, on_demand(key))


def _counts(price: NodePrice, facts: NodeFacts) -> str:
    because = f": {price.reason}" if price.reason else ""
    if facts.is_virtual and price.cpu_price_per_hour is not None:
        memory = price.memory_price_per_hour or Decimal(0)
        return (
            f"Counts: {price.cpu_price_per_hour.normalize():f} {price.currency} per core-hour and"
            f" {memory.normalize():f} per GiB-hour of its pods"
            f" ({price.state}, origin {price.origin}){because}"
        )
    if price.price_per_hour is None:
        return f"Counts: {price.state}{because}"
    return (
        f"Counts: {price.price_per_hour.normalize():f} {price.currency} per hour"
        f" ({price.state}, origin {price.origin}){because}"
    )


def _list_lines(rows: Rows, key: LookupKey, at: datetime) -> list[str]:
    if rows.azure:
        return _azure_lines(rows.azure, key, at)
    if rows.gcp:
        return _gcp_lines(rows.gcp, key, at)
    if rows.aws:
        return _aws_lines(rows.aws, key, at)
    return []


def _book_lines(known: Known | None, at: datetime) -> list[str]:
    if known is None:
        return ["The price book has not looked it up."]
    state = known.state + (f": {known.reason}" if known.reason else "")
    lines = [f"The price book says: {state}"]
    for part in known.components:
        component = part.component
        holds = "holds" if component.holds_at(at) else "does not hold then"
        until = iso(component.valid_until) if component.valid_until else "now on"
        since = iso(component.valid_from) if component.valid_from else "ever"
        lines.append(
            f"  {component.price_per_hour.normalize():f} {component.currency} {component.component},"
            f" {since} to {until}, snapshot {part.snapshot_id}: {holds}"
        )
    return lines


def _azure_lines(items: Sequence[azure.Item], key: LookupKey, at: datetime) -> list[str]:
    lines = [f"Candidates in the list: {len(items)}"]
    for item in items:
        reason = azure.why_not(item, key)
        if not reason and not azure.component(item).holds_at(at):
            reason = "is not valid then"
        lines.append(
            f"  {item.retail_price:f} {item.currency_code}  {item.title}: {_judged(reason)}"
        )
    return [*lines, _verdict(azure.match(items, key, at), at)]


def _gcp_lines(skus: Sequence[gcp.Sku], key: LookupKey, at: datetime) -> list[str]:
    wanted = needs(key)
    if isinstance(wanted, NoKey):
        return [f"No list price: {wanted.reason}."]
    catalog = gcp.Catalog.of(skus)
    lines = []
    for need in wanted:
        lines.append(f"Needs {need.quantity.normalize():f} x {need.heads[0]} ({need.usage_type})")
        chosen = {sku.sku_id for sku in catalog.find(need, key.region)}
        for sku in gcp.candidates(skus, need):
            holding = [part for part in gcp.timeline(sku, need) if part.holds_at(at)]
            price = ", ".join(f"{part.unit_price:f} {part.currency}" for part in holding)
            reason = "" if sku.sku_id in chosen else gcp.why_not(sku, need, key.region)
            if not reason and not holding:
                reason = "has no price then"
            lines.append(f"  {price or '-'}  {sku.sku_id} {sku.description}: {_judged(reason)}")
    return [*lines, _verdict(gcp.match(catalog, key, at), at)]


def _aws_lines(offers: Sequence[aws.Offer], key: LookupKey, at: datetime) -> list[str]:
    lines = [f"Candidates in the list: {len(offers)}"]
    for offer in offers:
        parts = aws.components(offer)
        reason = aws.why_not(offer, key)
        if not reason and key.capacity_type == "spot":
            reason = "is the on-demand price; spot prices are not in the list"
        if not reason and not any(part.holds_at(at) for part in parts):
            reason = "is not valid then"
        price = ", ".join(f"{part.unit_price.normalize():f} {part.currency}" for part in parts)
        lines.append(f"  {price or '-'}  {offer.product.sku} {offer.title}: {_judged(reason)}")
    return [*lines, _verdict(aws.match(offers, key, at), at)]


def _judged(reason: str) -> str:
    return f"dropped: {reason}" if reason else "kept"


def _verdict(quote: Quote, at: datetime) -> str:
    if not isinstance(quote, Priced):
        return f"The list says: {type(quote).__name__.lower()}, {quote.reason}"
    if not quote.at(at):
        first = min(part.start for part in quote.components)
        return f"The list says: nothing for that time; its first price holds from {iso(first)}"
    return f"The list says: {quote.price_per_hour(at).normalize():f} per hour"
