"""Which price counts for a node, hour by hour: the order of precedence, written down once.

1. `sheet`: the cluster's price sheet (negotiated, custom).
2. `list`: the provider's list price as the price book knew it.
3. `cluster_rate`: the cluster's one hourly rate.
4. Nothing: `unpriced` or `ambiguous` with the reason. Never zero, never a built-in default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from itertools import pairwise
from typing import Literal

from kubetally.errors import ConfigError
from kubetally.prices.key import LookupKey, NodeFacts, NoKey
from kubetally.prices.quote import Component, ComponentKind, add
from kubetally.prices.sheet import Entry, Sheet
from kubetally.windows import Window

State = Literal["priced", "estimated", "unpriced", "ambiguous"]
Origin = Literal["sheet", "list", "cluster_rate"]
GIB = Decimal(1024**3)
SCALE = Decimal("1e-18")


@dataclass(frozen=True)
class KnownComponent:
    """A row of the price book."""

    component: Component
    snapshot_id: int


@dataclass(frozen=True)
class Known:
    """What the price book knows about one lookup key as of one moment.

    `state` and `reason` are those of the last lookup; `components` may reach back before it.
    `stale_since`: from then on the provider listed no price any more and the last one is kept.
    """

    state: Literal["priced", "unpriced", "ambiguous"]
    reason: str
    components: tuple[KnownComponent, ...]
    stale_since: datetime | None = None


@dataclass(frozen=True)
class NodePrice:
    """What a node costs per hour over `[during_start, during_end)`.

    `priced` and `estimated` have a price, the other states have None. The cpu, memory and gpu
    prices are all known (and add up to `price_per_hour`) or all None.
    """

    during_start: datetime
    during_end: datetime
    state: State
    reason: str = ""
    price_per_hour: Decimal | None = None
    cpu_price_per_hour: Decimal | None = None
    memory_price_per_hour: Decimal | None = None
    gpu_price_per_hour: Decimal | None = None
    currency: str | None = None
    origin: Origin | None = None
    snapshot_ids: tuple[int, ...] = ()


def resolve(
    facts: NodeFacts,
    window: Window,
    *,
    key: LookupKey | NoKey,
    known: Known | None = None,
    sheet: Sheet | None = None,
    hourly_rate: Decimal | None = None,
    hourly_currency: str = "USD",
) -> list[NodePrice]:
    """The node's prices over the whole of `window`, in order, without gap or overlap."""
    entries = sheet.for_node(facts) if sheet else ()
    parts = known.components if known else ()
    edges = {window.start, window.end}
    for entry in entries:
        edges |= {entry.valid_from, entry.valid_until}
    for part in parts:
        edges |= {part.component.start, part.component.end}
    if known and known.stale_since:
        edges.add(known.stale_since)
    inside = sorted(edge for edge in edges if window.start <= edge <= window.end)
    result: list[NodePrice] = []
    for start, end in pairwise(inside):
        price = _price_at(
            facts,
            start,
            end,
            entries,
            sheet.snapshot_id if sheet else None,
            key,
            known,
            hourly_rate,
            hourly_currency,
        )
        last = result[-1] if result else None
        if last and replace(price, during_start=last.during_start) == replace(last, during_end=end):
            result[-1] = replace(last, during_end=end)
        else:
            result.append(price)
    return result


def hourly_rate(text: str) -> Decimal | None:
    """A cluster's `hourly_rate`. Raises ConfigError when it is not a price; "" is none."""
    if not text:
        return None
    try:
        rate = Decimal(text)
    except InvalidOperation:
        rate = Decimal(-1)
    if not rate.is_finite() or rate < 0:
        raise ConfigError(
            f"clusters.yaml: `hourly_rate` {text!r} is not a price.",
            remedy='Write a decimal in quotes, for example "0.25", or leave it out.',
        )
    return rate


def _price_at(
    facts: NodeFacts,
    start: datetime,
    end: datetime,
    entries: Sequence[Entry],
    sheet_snapshot_id: int | None,
    key: LookupKey | NoKey,
    known: Known | None,
    rate: Decimal | None,
    currency: str,
) -> NodePrice:
    entry = next((e for e in entries if e.valid_from <= start < e.valid_until), None)
    if entry is not None:
        snapshots = () if sheet_snapshot_id is None else (sheet_snapshot_id,)
        return _from_sheet(facts, start, end, entry, snapshots)
    listed = _from_list(start, end, key, known)
    if listed.price_per_hour is None and rate is not None:
        return NodePrice(
            start,
            end,
            "priced",
            reason=f"the cluster's hourly rate; {listed.reason}",
            price_per_hour=rate,
            currency=currency,
            origin="cluster_rate",
        )
    return listed


def _from_sheet(
    facts: NodeFacts, start: datetime, end: datetime, entry: Entry, snapshots: tuple[int, ...]
) -> NodePrice:
    blank = NodePrice(
        start, end, "priced", currency=entry.currency, origin="sheet", snapshot_ids=snapshots
    )
    if entry.price_per_hour is not None:
        return replace(blank, price_per_hour=entry.price_per_hour)
    memory = facts.memory_capacity_bytes
    with localcontext(prec=100):
        gib = None if memory is None else memory / GIB
    shares: list[Decimal] = []
    for name, rate, quantity in (
        ("cpu_core_hour", entry.cpu_core_hour, facts.cpu_capacity_cores),
        ("memory_gib_hour", entry.memory_gib_hour, gib),
        ("gpu_hour", entry.gpu_hour, facts.gpu_capacity or Decimal(0)),
    ):
        if quantity is None:
            reason = f"the sheet has rates, but the node's capacity for {name} is not known"
            return replace(blank, state="unpriced", reason=reason, currency=None)
        if rate is None and quantity:
            reason = f"the sheet's entry has no {name}, and the node has {quantity.normalize():f}"
            return replace(blank, state="unpriced", reason=reason, currency=None)
        shares.append(_rounded(rate or Decimal(0), quantity))
    cpu, memory_price, gpu = shares
    return replace(
        blank,
        price_per_hour=add(shares),
        cpu_price_per_hour=cpu,
        memory_price_per_hour=memory_price,
        gpu_price_per_hour=gpu,
    )


def _from_list(
    start: datetime, end: datetime, key: LookupKey | NoKey, known: Known | None
) -> NodePrice:
    blank = NodePrice(start, end, "unpriced")
    if isinstance(key, NoKey):
        return replace(blank, reason=key.reason)
    if known is None:
        return replace(blank, reason=f"{key.text} has not been looked up yet, or its lookup failed")
    kinds = {part.component.component for part in known.components}
    holding = [part for part in known.components if part.component.holds_at(start)]
    if kinds and kinds == {part.component.component for part in holding}:
        stale = known.stale_since is not None and start >= known.stale_since
        price = _priced(blank, holding)
        return replace(price, state="estimated", reason=known.reason) if stale else price
    earliest = _earliest(known, kinds)
    if earliest and start < max(part.component.start for part in earliest):
        return replace(
            _priced(blank, earliest),
            state="estimated",
            reason="before the first known price; the earliest one is used",
        )
    if known.state == "ambiguous":
        return replace(blank, state="ambiguous", reason=known.reason)
    if known.state == "priced":
        return replace(blank, reason=f"the list has no price of {key.text} that holds then")
    return replace(blank, reason=known.reason)


def _earliest(known: Known, kinds: set[ComponentKind]) -> list[KnownComponent]:
    """The components that hold at the first moment at which all `kinds` have a price."""
    for moment in sorted({part.component.start for part in known.components}):
        holding = [part for part in known.components if part.component.holds_at(moment)]
        if {part.component.component for part in holding} == kinds:
            return holding
    return []


def _priced(blank: NodePrice, parts: Sequence[KnownComponent]) -> NodePrice:
    def total(kind: ComponentKind) -> Decimal:
        return add(p.component.price_per_hour for p in parts if p.component.component == kind)

    is_whole = any(part.component.component == "node" for part in parts)
    return replace(
        blank,
        state="priced",
        price_per_hour=add(part.component.price_per_hour for part in parts),
        cpu_price_per_hour=None if is_whole else total("cpu"),
        memory_price_per_hour=None if is_whole else total("memory"),
        gpu_price_per_hour=None if is_whole else total("gpu"),
        currency=parts[0].component.currency,
        origin="list",
        snapshot_ids=tuple(sorted({part.snapshot_id for part in parts})),
    )


def _rounded(rate: Decimal, quantity: Decimal) -> Decimal:
    """The product at 18 decimals, half away from zero as Postgres rounds."""
    with localcontext(prec=100):
        return (rate * quantity).quantize(SCALE, ROUND_HALF_UP)
