"""Cents, for display only: parts are rounded so that they add up to the total that is shown."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal, localcontext
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Any)
CENT = Decimal("0.01")


def to_cents(amount: Decimal) -> Decimal:
    """`amount` to the cent, halves away from zero."""
    with localcontext(prec=100):
        return amount.quantize(CENT, ROUND_HALF_UP)


def share_out(amounts: Mapping[Key, Decimal], total: Decimal | None = None) -> dict[Key, Decimal]:
    """Every amount to the cent, by largest remainder (ties by key), adding up to `total` exactly.

    `total` is the rounded sum, or that sum as it is shown elsewhere: its floor or ceiling in cents.
    An amount moves by less than a cent. Raises ValueError when no such rounding gives `total`.
    """
    with localcontext(prec=100):
        floors = {key: amount.quantize(CENT, ROUND_FLOOR) for key, amount in amounts.items()}
        rests = {key: amounts[key] - floors[key] for key in amounts}
        if total is None:
            total = to_cents(sum(amounts.values(), Decimal(0)))
        left = int((total - sum(floors.values(), Decimal(0))) / CENT)
        takers = sorted((key for key in amounts if rests[key]), key=lambda key: (-rests[key], key))
        if not 0 <= left <= len(takers):
            raise ValueError(f"{total} is not the sum of the amounts, rounded")
        return floors | {key: floors[key] + CENT for key in takers[:left]}
