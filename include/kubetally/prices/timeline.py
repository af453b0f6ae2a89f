"""How new knowledge about one key's prices joins what is known: pure, so that it can be tested.

A quote speaks for the time from its first validity on; what was known before that stays. A price
without a provider's date counts from the hour it was first seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kubetally.prices.quote import Component, next_hour


@dataclass(frozen=True)
class Statement:
    """A component and the snapshot that says so; None = the snapshot just read."""

    component: Component
    snapshot_id: int | None

    @property
    def fact(self) -> tuple[object, ...]:
        part = self.component
        return (*part.terms, part.start, part.end)


def joined(
    known: Sequence[Statement], quoted: Iterable[Component], now: datetime
) -> list[Statement]:
    """`known` with `quoted` laid over it, in order; equal neighbours are merged.

    A SKU that the quote no longer names ends where the SKU that took its place begins, or now.
    """
    news = [_dated(part, known, now) for part in quoted if not _is_over(part, now)]
    takes_over: dict[tuple[str, str], datetime] = {}
    for part in news:
        own = (part.component, part.sku)
        takes_over[own] = min(part.start, takes_over.get(own, part.start))
    known_skus = {(old.component.component, old.component.sku) for old in known}
    result: list[Statement] = [Statement(part, None) for part in news]
    for old in known:
        own = (old.component.component, old.component.sku)
        successors = [
            start
            for (kind, sku), start in takes_over.items()
            if kind == own[0] and (kind, sku) not in known_skus
        ]
        end = takes_over.get(own) or min(successors, default=next_hour(now))
        if old.component.start < end:
            cut = (
                replace(old.component, valid_until=end)
                if end < old.component.end
                else old.component
            )
            result.append(replace(old, component=cut))
    as_before = {old.fact: old for old in known}
    return [as_before.get(statement.fact, statement) for statement in _merged(result)]


def ended(known: Sequence[Statement], now: datetime) -> list[Statement]:
    """`known` up to the next whole hour: from then on nothing is certain."""
    return joined(known, (), now)


def _dated(part: Component, known: Sequence[Statement], now: datetime) -> Component:
    """`part` with a beginning: its own, else where the same price is known from, else now."""
    if part.valid_from is not None:
        return part
    for old in known:
        if old.component.terms == part.terms and old.component.valid_until is None:
            return replace(part, valid_from=old.component.valid_from)
    return replace(part, valid_from=next_hour(now))


def _is_over(part: Component, now: datetime) -> bool:
    """Nobody says when it began, and it has ended: nothing can be said about any hour."""
    return part.valid_from is None and part.end <= next_hour(now)


def _merged(statements: Sequence[Statement]) -> list[Statement]:
    """Neighbours that say the same become one, told by the older snapshot."""
    result: list[Statement] = []
    for statement in sorted(
        statements, key=lambda s: (s.component.component, s.component.sku, s.component.start)
    ):
        last = result[-1] if result else None
        if (
            last is not None
            and last.component.terms == statement.component.terms
            and last.component.end >= statement.component.start
        ):
            result[-1] = replace(
                last,
                component=replace(last.component, valid_until=statement.component.valid_until),
                snapshot_id=last.snapshot_id
                if last.snapshot_id is not None
                else statement.snapshot_id,
            )
        else:
            result.append(statement)
    return result
