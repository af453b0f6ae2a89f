"""Kubernetes quantities: exact, refused with a reason, never a float."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubetally.errors import BadDataError
from kubetally.sources.quantity import parse_quantity, plain, plain_quantity
from oracles.by_hand import cases, peers

QUANTITY_IDS = [case_id for case_id, case in cases().items() if case.get("area") == "quantity"]


@pytest.mark.claims("Q-01", "Q-02", "Q-04", "Q-05", "Q-06", "Q-07", "Q-08")
@pytest.mark.claims("Q-09", "Q-10", "Q-11", "Q-13", "Q-14", "Q-15")
@pytest.mark.parametrize("case_id", QUANTITY_IDS)
def test_values_the_seed_got_wrong_or_died_of(case_id: str) -> None:
    case = cases()[case_id]
    if "reject" in case["expect"]:
        with pytest.raises(BadDataError, match="unknown suffix"):
            parse_quantity(case["given"])
    else:
        assert parse_quantity(case["given"]) == Decimal(case["expect"])


@pytest.mark.claims("O41")
@pytest.mark.parametrize(("text", "exact"), peers()["k8s_quantity"]["cases"].items())
def test_values_of_peers(text: str, exact: str) -> None:
    assert parse_quantity(text) == Decimal(exact)


@pytest.mark.parametrize(
    ("number", "exact"),
    [(2, "2"), (0.1, "0.1"), (1e16, "10000000000000000"), (1e-10, "1e-9"), (-1.5, "-1.5")],
)
def test_a_bare_json_number_is_a_quantity(number: float, exact: str) -> None:
    assert parse_quantity(number) == Decimal(exact)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("Ki", "it has no digits"),
        ("m", "it has no digits"),
        ("E", "it has no digits"),
        (".", "it has no digits"),
        ("+", "it has no digits"),
        ("-", "it has no digits"),
        ("1K", "unknown suffix 'K'"),
        ("100mi", "unknown suffix 'mi'"),
        (" 1", "it does not begin with a number"),
        ("1e200", "its exponent is out of range"),
        ("9" * 200, "longer than 128 characters"),
        (float("nan"), "no digits"),
        (float("inf"), "no digits"),
        (True, "a boolean"),
    ],
)
def test_a_refusal_says_why(text: str | float, reason: str) -> None:
    with pytest.raises(BadDataError, match=reason):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1e3", "1000"),
        ("100m", "0.1"),
        ("0", "0"),
        ("-0", "0"),
        ("1.50", "1.5"),
        ("12E", "12" + "0" * 18),
    ],
)
def test_plain_has_no_exponent_and_no_trailing_zeros(text: str, shown: str) -> None:
    assert plain_quantity(text) == shown


@given(st.integers(-(10**24), 10**24), st.sampled_from(["n", "u", "m", "", "k", "M", "G"]))
def test_every_decimal_integer_is_exact(number: int, suffix: str) -> None:
    power = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9}[suffix]
    value = parse_quantity(f"{number}{suffix}")
    assert value == Decimal(f"{number}e{power}")
    assert Decimal(plain(value)) == value


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_a_refusal(text: str) -> None:
    try:
        value = parse_quantity(text)
    except BadDataError:
        return
    assert value.is_finite()


def test_tens_of_thousands_a_second() -> None:
    texts = [f"{number}m" for number in range(10_000)]
    start = time.process_time()
    for _ in range(3):
        for text in texts:
            parse_quantity(text)
    assert time.process_time() - start < 1.5  # seconds for 30,000, a third of them unseen
