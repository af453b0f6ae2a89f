"""A quote: what a price list says about one lookup key, over time, and where that was read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

from kubetally.windows import HOUR, floor

ComponentKind = Literal["node", "cpu", "memory", "gpu", "disk"]
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True)
class Component:
    """One SKU's share in a node's hourly price: `quantity` units at `unit_price`.

    Valid over `[valid_from, valid_until)`, on whole hours. `valid_from` None: the provider gives no
    date, so it counts from the hour it was first seen. `component` "node" is the whole machine,
    "disk" what is bundled with it.
    """

    sku: str
    description: str
    component: ComponentKind
    quantity: Decimal
    unit: str
    unit_price: Decimal
    currency: str
    valid_from: datetime | None
    valid_until: datetime | None = None

    @property
    def price_per_hour(self) -> Decimal:
        return multiply(self.quantity, self.unit_price)

    @property
    def start(self) -> datetime:
        return self.valid_from or EARLIEST

    @property
    def end(self) -> datetime:
        return self.valid_until or LATEST

    def holds_at(self, moment: datetime) -> bool:
        return self.start <= moment < self.end

    @property
    def terms(self) -> tuple[object, ...]:
        """What makes a price the same price; a renamed SKU is not a change."""
        return (self.sku, self.component, self.quantity, self.unit, self.unit_price, self.currency)


@dataclass(frozen=True)
class Priced:
    """Exactly one price at the moment asked for. `components` hold the whole known timeline."""

    components: tuple[Component, ...]
    reason: str = ""

    def at(self, moment: datetime) -> tuple[Component, ...]:
        return tuple(part for part in self.components if part.holds_at(moment))

    def price_per_hour(self, moment: datetime) -> Decimal:
        """The hourly price at `moment`; the components must hold then."""
        return add(part.price_per_hour for part in self.at(moment))


@dataclass(frozen=True)
class Unpriced:
    """The list has no price for the key; `reason` says what was looked for. Never zero."""

    reason: str


@dataclass(frozen=True)
class Ambiguous:
    """Several different prices answer to the key and nothing decides between them."""

    candidates: tuple[Component, ...]
    reason: str


Quote: TypeAlias = Priced | Unpriced | Ambiguous


@dataclass(frozen=True)
class Snapshot:
    """The pages a quote was read from. `url` carries no credentials."""

    provider: str
    url: str
    fetched_at: datetime
    payload: bytes = field(repr=False)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.payload).hexdigest()


def multiply(left: Decimal, right: Decimal) -> Decimal:
    """The exact product (the default context would round it to 28 digits)."""
    with localcontext(prec=100):
        return left * right


def add(amounts: Iterable[Decimal]) -> Decimal:
    """The exact sum."""
    with localcontext(prec=100):
        return sum(amounts, Decimal(0))


def next_hour(moment: datetime) -> datetime:
    """`moment` rounded up to the whole hour: prices change on the hour."""
    down = floor(moment, HOUR)
    return down if down == moment else down + HOUR


def one_price(
    offers: Sequence[Component], at: datetime
) -> tuple[tuple[Component, ...], tuple[Component, ...]]:
    """`offers` for one thing as a timeline with one price at a time, and the rivals at `at`.

    A later offer of the same SKU takes over from an earlier one. Where different prices hold at
    once, that time is left out; if `at` falls into it, the rivals are returned.
    """
    offers = _superseded(offers)
    edges = sorted({edge for offer in offers for edge in (offer.start, offer.end)})
    spans: list[Component] = []
    rivals: tuple[Component, ...] = ()
    for start, end in pairwise(edges):
        active = [offer for offer in offers if offer.start <= start and end <= offer.end]
        if len({(offer.unit_price, offer.currency) for offer in active}) > 1:
            if start <= at < end:
                rivals = tuple(sorted(active, key=lambda offer: (offer.unit_price, offer.sku)))
        elif active:
            before = spans[-1] if spans and spans[-1].end == start else None
            same = [offer for offer in active if before and offer.sku == before.sku]
            chosen = min(same or active, key=lambda offer: offer.sku)
            spans.append(_clipped(chosen, start, end))
    return merged(spans), rivals


def merged(spans: Sequence[Component]) -> tuple[Component, ...]:
    """`spans` in order of time per SKU; neighbours that say the same become one."""
    result: list[Component] = []
    for span in sorted(spans, key=lambda span: (span.component, span.sku, span.start)):
        last = result[-1] if result else None
        if last and last.terms == span.terms and last.end == span.start:
            result[-1] = replace(last, valid_until=span.valid_until)
        else:
            result.append(span)
    return tuple(result)


def covered_by_all(needs: Sequence[Sequence[Component]]) -> tuple[Component, ...]:
    """The parts of several timelines that lie where every one of them has a price."""
    edges = sorted({e for spans in needs for span in spans for e in (span.start, span.end)})
    kept: list[Component] = []
    for start, end in pairwise(edges):
        found = [[s for s in spans if s.start <= start and end <= s.end] for spans in needs]
        if all(found):
            kept.extend(_clipped(span, start, end) for spans in found for span in spans)
    return merged(kept)


def _superseded(offers: Sequence[Component]) -> list[Component]:
    result: list[Component] = []
    for offer in offers:
        later = [
            o.start for o in offers if o.sku == offer.sku and offer.start < o.start < offer.end
        ]
        result.append(replace(offer, valid_until=min(later)) if later else offer)
    return result


def _clipped(span: Component, start: datetime, end: datetime) -> Component:
    return replace(
        span,
        valid_from=None if start == EARLIEST else start,
        valid_until=None if end == LATEST else end,
    )
