"""Exchange rates by day: from the configuration or the central bank's file, never guessed."""

from datetime import date
from decimal import Decimal

import pytest
from price_pages import utc

from kubetally.errors import ConfigError
from kubetally.prices.currency import in_currency, parse_rates, rates_file, settled
from kubetally.prices.resolve import NodePrice

YAML = b"""base: EUR
days:
- {date: 2026-10-30, rates: {USD: "1.25", GBP: "0.8"}}
- {date: 2026-11-02, rates: {USD: "1.5", GBP: "0.8"}}
"""
ECB = b"""Date,USD,JPY,BGN,
2026-11-02,1.5,170.5,N/A,
2026-10-30,1.25,171,1.9558,
"""
RATES = parse_rates(YAML, "exchange_rates.yaml")


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (date(2026, 10, 30), "1.25"),
        (date(2026, 11, 1), "1.25"),  # a Sunday
        (date(2026, 11, 2), "1.5"),
        (date(2026, 11, 9), "1.5"),
    ],
)
def test_the_last_rate_before_a_day_without_one_holds_for_a_week(day, expected):
    for rates in (RATES, parse_rates(ECB, "exchange_rates.csv")):
        assert rates.convert(Decimal(1), "EUR", "USD", day) == Decimal(expected)


@pytest.mark.parametrize(
    ("source", "target", "day"),
    [
        ("EUR", "USD", date(2026, 10, 29)),  # none from later
        ("EUR", "USD", date(2026, 11, 10)),  # too old
        ("AUD", "USD", date(2026, 11, 2)),
        ("USD", "AUD", date(2026, 11, 2)),
    ],
)
def test_a_missing_rate_is_an_error_that_names_pair_and_date(source, target, day):
    with pytest.raises(ConfigError) as error:
        RATES.convert(Decimal(1), source, target, day)
    assert f"from {source} to {target} for {day.isoformat()}" in str(error.value)


def test_a_currency_left_out_for_a_day_keeps_its_last_rate():
    rates = parse_rates(ECB, "exchange_rates.csv")
    assert rates.convert(Decimal(1), "EUR", "BGN", date(2026, 11, 2)) == Decimal("1.9558")


def test_pairs_go_through_the_base_and_are_rounded_at_18_decimals():
    day = date(2026, 11, 2)
    assert RATES.convert(Decimal(3), "USD", "GBP", day) == Decimal("1.6")
    assert RATES.convert(Decimal(1), "USD", "EUR", day) == Decimal("0.666666666666666667")
    assert RATES.convert(Decimal("0.1"), "USD", "USD", date(1999, 1, 1)) == Decimal("0.1")


def test_an_invoice_that_settles_as_a_whole_is_converted_once():
    """FOCUS 1.4, invoice detail scenario 2: 3.03 and 0.30 USD are 5.17 AUD, not 4.70 + 0.47."""
    rates = parse_rates(
        b'{base: USD, days: [{date: 2026-11-02, rates: {AUD: "1.5525"}}]}', "x.yaml"
    )
    day = date(2026, 11, 2)
    lines = [Decimal("3.03"), Decimal("0.30")]
    assert settled(lines, "USD", "AUD", day, rates) == Decimal("5.17")
    thirds = [Decimal("0.10")] * 3
    each = sum((settled([line], "USD", "AUD", day, rates) for line in thirds), Decimal(0))
    assert (settled(thirds, "USD", "AUD", day, rates), each) == (Decimal("0.47"), Decimal("0.48"))


def test_prices_are_cut_where_rates_change():
    price = NodePrice(
        utc(2026, 11, 1, 12),
        utc(2026, 11, 2, 6),
        "priced",
        price_per_hour=Decimal(2),
        cpu_price_per_hour=Decimal(1),
        memory_price_per_hour=Decimal(1),
        gpu_price_per_hour=Decimal(0),
        currency="EUR",
        origin="list",
    )
    unpriced = NodePrice(utc(2026, 11, 2, 6), utc(2026, 11, 2, 7), "unpriced", "no rows")
    found = in_currency([price, unpriced], "USD", RATES)
    assert [(p.during_start, p.price_per_hour, p.cpu_price_per_hour) for p in found] == [
        (utc(2026, 11, 1, 12), Decimal("2.5"), Decimal("1.25")),
        (utc(2026, 11, 2), Decimal(3), Decimal("1.5")),
        (utc(2026, 11, 2, 6), None, None),
    ]
    assert [p.currency for p in found] == ["USD", "USD", None]
    assert in_currency([price], "EUR", RATES) == [price]


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"{base: EUR, days: [{date: 2026-11-02, rates: {USD: 1.1}}]}", "r.yaml", "in quotes"),
        (b"{base: EUR, days: [{date: 2026-11-02, rates: {USD: '0'}}]}", "r.yaml", "above zero"),
        (b"{base: EUR}", "r.yaml", "days"),
        (b"Date,USD\nsoon,1.1\n", "r.csv", "soon"),
        (b"Date,USD\n2026-11-02,high\n", "r.csv", "not a number"),
    ],
)
def test_a_wrong_file_is_named(content, name, said):
    with pytest.raises(ConfigError, match=name) as error:
        parse_rates(content, name)
    assert said in str(error.value)


def test_the_bank_s_file_of_the_day_is_understood():
    rates = parse_rates(b"Date, USD, GBP, \n02 November 2026, 1.5, 0.8, \n", "x.csv")
    assert rates.convert(Decimal(1), "EUR", "GBP", date(2026, 11, 2)) == Decimal("0.8")


def test_the_file_is_found_in_the_config_folder(tmp_path):
    assert rates_file(tmp_path) is None
    (tmp_path / "exchange_rates.csv").write_bytes(ECB)
    found = rates_file(tmp_path)
    assert found is not None
    assert found.name == "exchange_rates.csv"
