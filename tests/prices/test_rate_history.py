"""Rates by month: the value in force, exactly as it is written, or an error."""

from decimal import Decimal

import pytest
from price_pages import PROJECT

from kubetally.errors import ConfigError
from kubetally.prices.rate_history import parse_history
from oracles.by_hand import cases

PATH = PROJECT / "tests/data/nerc-rates/rates.yaml"
HISTORY = parse_history(PATH.read_text(), PATH.name)


@pytest.mark.claims("INV-11")
def test_a_rate_changes_with_its_month():
    given, expected = cases()["INV-11"]["given"], cases()["INV-11"]["expect"]
    found = [HISTORY.amount_at(given["item"], month) for month in given["months"]]
    assert found == [Decimal(value) for value in expected]


@pytest.mark.claims("INV-12")
def test_thirteen_decimals_survive_and_are_never_written_scientifically():
    given, expected = cases()["INV-12"]["given"], cases()["INV-12"]["expect"]
    assert [HISTORY.text_at(given["item"], month) for month in given["months"]] == expected
    amounts = [HISTORY.amount_at(given["item"], month) for month in given["months"]]
    assert [f"{amount:f}" for amount in amounts] == expected


@pytest.mark.claims("INV-13")
def test_a_month_without_a_value_stops_with_an_error_and_is_not_zero():
    given = cases()["INV-13"]["given"]
    for month in given["months"]:
        with pytest.raises(ConfigError, match="has no value in 2024-12"):
            HISTORY.amount_at(given["item"], month)
    with pytest.raises(ConfigError, match="no such item"):
        HISTORY.amount_at("GPU of tomorrow", "2025-06")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {name: x}", "history"),
        ("- {name: x, history: [{value: '1', from: 2023}]}", "not months"),
        ("- {name: x, history: [{value: 0.013, from: 2023-06}]}", "write it in quotes"),
        ("x: [", "not a list of rates"),
    ],
)
def test_a_wrong_file_is_named(text, said):
    with pytest.raises(ConfigError, match=r"rates\.yaml") as error:
        parse_history(text, "rates.yaml")
    assert said in str(error.value)


def test_a_value_that_is_no_number_is_said():
    history = parse_history("- {name: x, history: [{value: dear, from: 2023-06}]}", "rates.yaml")
    assert history.text_at("x", "2023-07") == "dear"
    with pytest.raises(ConfigError, match="not a number"):
        history.amount_at("x", "2023-07")
