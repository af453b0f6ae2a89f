"""Which price counts for a node, hour by hour: the order of precedence, written down once.

1. `sheet`: the cluster's price sheet (negotiated, custom): its first entry with a price.
2. `list`: the provider's list price as the price book knew it.
3. `cluster_rate`: the cluster's one hourly rate.
4. Nothing: `unpriced` or `ambiguous` with the reason. Never zero, never a built-in default.

Percentages of the sheet adjust what these give: all that stand before the entry whose price counts,
one after the other. A virtual node has no price; what counts for it are rates for its pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from itertools import pairwise
from typing import Literal

from kubetally.errors import ConfigError
from kubetally.prices.entry import Entry
from kubetally.prices.key import LookupKey, NodeFacts, NoKey
from kubetally.prices.quote import Component, ComponentKind, add
from kubetally.prices.sheet import Sheet
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
    prices are all known or all None; what is missing to `price_per_hour` is bundled with the node.
    Of a virtual node the price is None and the cpu and memory prices are rates: per core and per GiB
    that its pods ask for.
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
    known_on_demand: Known | None = None,
) -> list[NodePrice]:
    """The node's prices over the whole of `window`, in order, without gap or overlap.

    `known_on_demand` is what the book knows about `on_demand(key)`; a sheet may take percentages of
    it for a spot node.
    """
    entries = sheet.for_node(facts) if sheet else ()
    edges = {window.start, window.end}
    for entry in entries:
        edges |= {entry.valid_from, entry.valid_until}
    for book in (known, known_on_demand):
        for part in book.components if book else ():
            edges |= {part.component.start, part.component.end}
        if book and book.stale_since:
            edges.add(book.stale_since)
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
            known_on_demand,
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


def on_demand(key: LookupKey) -> LookupKey:
    """The key of the same machine without the risk of losing it."""
    return replace(key, capacity_type="on_demand")


def takes_on_demand(facts: NodeFacts, sheet: Sheet | None) -> bool:
    """Whether the sheet prices the (spot) node by percentages of the on-demand price."""
    return (
        sheet is not None
        and facts.market == "spot"
        and any(entry.of_on_demand for entry in sheet.for_node(facts))
    )


def _price_at(
    facts: NodeFacts,
    start: datetime,
    end: datetime,
    entries: Sequence[Entry],
    sheet_snapshot_id: int | None,
    key: LookupKey | NoKey,
    known: Known | None,
    known_on_demand: Known | None,
    rate: Decimal | None,
    currency: str,
) -> NodePrice:
    snapshots = () if sheet_snapshot_id is None else (sheet_snapshot_id,)
    adjustments: list[Entry] = []
    for entry in entries:
        if not entry.valid_from <= start < entry.valid_until:
            continue
        if entry.is_adjustment:
            if not entry.of_on_demand or facts.market == "spot":
                adjustments.append(entry)
        elif not facts.is_virtual or entry.price_per_hour is None:
            price = _from_sheet(facts, start, end, entry, snapshots)
            return _adjusted(price, adjustments, snapshots)
    if any(entry.of_on_demand for entry in adjustments) and isinstance(key, LookupKey):
        key, known = on_demand(key), known_on_demand
    listed = _from_list(start, end, key, known)
    if facts.is_virtual:
        return _adjusted(_per_pod(listed), adjustments, snapshots)
    if listed.price_per_hour is None and rate is not None:
        listed = NodePrice(
            start,
            end,
            "priced",
            reason=f"the cluster's hourly rate; {listed.reason}",
            price_per_hour=rate,
            currency=currency,
            origin="cluster_rate",
        )
    return _adjusted(listed, adjustments, snapshots)


def _per_pod(listed: NodePrice) -> NodePrice:
    """Rates of pods as the list has them: no price of the node, and none of GPUs."""
    if listed.cpu_price_per_hour is None:
        return listed
    return replace(listed, price_per_hour=None, gpu_price_per_hour=None)


def _adjusted(
    price: NodePrice, adjustments: Sequence[Entry], snapshots: tuple[int, ...]
) -> NodePrice:
    """`price` after all percentages: 20 % and 5 % off is 0.8 x 0.95 of it, at 18 decimals."""
    if not adjustments or price.currency is None:
        return price
    factor = Decimal(1)
    words: list[str] = []
    with localcontext(prec=100):
        for entry in adjustments:
            if entry.discount_percent is not None:
                factor *= (100 - entry.discount_percent) / 100
                words.append(f"{entry.discount_percent.normalize():f} % off")
            if entry.markup_percent is not None:
                factor *= (100 + entry.markup_percent) / 100
                words.append(f"{entry.markup_percent.normalize():f} % on top")
    of = (
        "the on-demand price" if any(e.of_on_demand for e in adjustments) else f"the {price.origin}"
    )
    reason = f"{', '.join(words)} of {of} by the sheet"
    cpu, memory, gpu, whole = (
        None if amount is None else _rounded(amount, factor)
        for amount in (
            price.cpu_price_per_hour,
            price.memory_price_per_hour,
            price.gpu_price_per_hour,
            price.price_per_hour,
        )
    )
    return replace(
        price,
        reason=f"{reason}; {price.reason}" if price.reason else reason,
        price_per_hour=whole,
        cpu_price_per_hour=cpu,
        memory_price_per_hour=memory,
        gpu_price_per_hour=gpu,
        origin="sheet",
        snapshot_ids=tuple(sorted({*price.snapshot_ids, *snapshots})),
    )


def _from_sheet(
    facts: NodeFacts, start: datetime, end: datetime, entry: Entry, snapshots: tuple[int, ...]
) -> NodePrice:
    blank = NodePrice(
        start, end, "priced", currency=entry.currency, origin="sheet", snapshot_ids=snapshots
    )

    def missing(reason: str) -> NodePrice:
        return replace(blank, state="unpriced", reason=reason, currency=None)

    if facts.is_virtual:
        if entry.cpu_core_hour is None or entry.memory_gib_hour is None:
            return missing("the sheet's entry has no rate for both CPU and memory of pods")
        return replace(
            blank,
            cpu_price_per_hour=entry.cpu_core_hour,
            memory_price_per_hour=entry.memory_gib_hour,
            gpu_price_per_hour=entry.gpu_hour_of(facts),
        )
    gpus = facts.gpu_capacity or Decimal(0)
    gpu_rate = entry.gpu_hour_of(facts)
    if entry.price_per_hour is not None:
        whole = entry.price_per_hour
        if gpu_rate and gpus:
            whole = add((whole, _rounded(gpu_rate, gpus)))
        return replace(blank, price_per_hour=whole)
    memory = facts.memory_capacity_bytes
    with localcontext(prec=100):
        gib = None if memory is None else memory / GIB
    shares: list[Decimal] = []
    for name, rate, quantity in (
        ("cpu_core_hour", entry.cpu_core_hour, facts.cpu_capacity_cores),
        ("memory_gib_hour", entry.memory_gib_hour, gib),
        ("gpu_hour", gpu_rate, gpus),
    ):
        if quantity is None:
            return missing(f"the sheet has rates, but the node's capacity for {name} is not known")
        if rate is None and quantity:
            model = (
                f" of {facts.stated_gpu_model}" if name == "gpu_hour" and entry.gpu_rates else ""
            )
            return missing(
                f"the sheet's entry has no {name}{model}, and the node has {quantity.normalize():f}"
            )
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
