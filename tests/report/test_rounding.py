"""Cents add up to the total that is shown, and no amount moves by a cent or more."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubetally.report.rounding import CENT, share_out, to_cents


@pytest.mark.parametrize(
    ("amounts", "total", "shown"),
    [
        # Three thirds of a euro: the first by key takes the cent that is left.
        ({"a": "0.333", "b": "0.333", "c": "0.333"}, None, {"a": "0.34", "b": "0.33", "c": "0.33"}),
        ({"c": "0.333", "b": "0.333", "a": "0.333"}, None, {"a": "0.34", "b": "0.33", "c": "0.33"}),
        # The largest remainder takes it, whatever the size of the amount.
        ({"big": "100.001", "small": "0.009"}, None, {"big": "100.00", "small": "0.01"}),
        # Credits round like everything else.
        ({"idle": "10.006", "over": "-3.003"}, None, {"idle": "10.00", "over": "-3.00"}),
        ({"idle": "10.008", "over": "-3.002"}, None, {"idle": "10.01", "over": "-3.00"}),
        # A total shown elsewhere may be the floor or the ceiling of the sum.
        ({"a": "1.004", "b": "1.004"}, "2.00", {"a": "1.00", "b": "1.00"}),
        ({"a": "1.004", "b": "1.004"}, "2.01", {"a": "1.01", "b": "1.00"}),
        # What is whole cents already stays.
        (
            {"a": "1.50", "b": "0.004", "c": "0.004"},
            "1.51",
            {"a": "1.50", "b": "0.01", "c": "0.00"},
        ),
        ({}, None, {}),
    ],
)
def test_cents_go_to_the_largest_remainders(
    amounts: dict[str, str], total: str | None, shown: dict[str, str]
) -> None:
    found = share_out(
        {key: Decimal(amount) for key, amount in amounts.items()},
        (total and Decimal(total)) or None,
    )
    assert found == {key: Decimal(amount) for key, amount in shown.items()}


def test_a_total_that_is_not_the_sum_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3\.00 is not the sum"):
        share_out({"a": Decimal("1.004"), "b": Decimal("1.004")}, Decimal("3.00"))


@pytest.mark.parametrize(
    ("exact", "shown"), [("0.005", "0.01"), ("-0.005", "-0.01"), ("0.0049999", "0.00")]
)
def test_halves_round_away_from_zero(exact: str, shown: str) -> None:
    assert to_cents(Decimal(exact)) == Decimal(shown)


amount = st.decimals(min_value=-(10**12), max_value=10**12, places=18)


@given(st.dictionaries(st.text(max_size=3), amount, max_size=20))
def test_shown_parts_add_up_to_the_shown_total(amounts: dict[str, Decimal]) -> None:
    shown = share_out(amounts)
    assert sum(shown.values()) == to_cents(sum(amounts.values(), Decimal(0)))
    assert all(abs(shown[key] - amounts[key]) < CENT for key in amounts)
