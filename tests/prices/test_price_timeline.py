"""How new knowledge joins old: nothing is lost, nothing overlaps, the same again changes nothing."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from price_pages import utc

from kubetally.prices.quote import Component, covered_by_all, next_hour, one_price
from kubetally.prices.timeline import Statement, ended, joined

NOW = utc(2026, 11, 3, 10, 20)
HOUR_AFTER = utc(2026, 11, 3, 11)


def part(price, start=None, end=None, sku="s", kind="node"):
    return Component(sku, "d", kind, Decimal(1), "h", Decimal(price), "USD", start, end)


def spans(statements):
    return [
        (
            s.component.sku,
            str(s.component.unit_price),
            s.component.valid_from,
            s.component.valid_until,
        )
        for s in statements
    ]


def known(*parts):
    return [Statement(one, 1) for one in parts]


def test_a_dated_price_closes_the_old_one_on_its_date():
    found = joined(known(part("1", utc(2026, 1, 1))), [part("2", utc(2026, 9, 1))], NOW)
    assert spans(found) == [
        ("s", "1", utc(2026, 1, 1), utc(2026, 9, 1)),
        ("s", "2", utc(2026, 9, 1), None),
    ]
    assert [s.snapshot_id for s in found] == [1, None]


def test_an_undated_price_counts_from_the_next_whole_hour():
    found = joined(known(part("1", utc(2026, 1, 1))), [part("2")], NOW)
    assert spans(found) == [
        ("s", "1", utc(2026, 1, 1), HOUR_AFTER),
        ("s", "2", HOUR_AFTER, None),
    ]
    assert spans(joined([], [part("2")], NOW)) == [("s", "2", HOUR_AFTER, None)]


def test_the_same_price_again_changes_nothing():
    old = known(part("1", utc(2026, 1, 1)))
    assert joined(old, [part("1")], NOW) == old
    assert joined(old, [part("1", utc(2026, 9, 1))], NOW) == old
    renamed = replace(part("1", utc(2026, 1, 1)), description="new words")
    assert joined(old, [renamed], NOW) == old


def test_what_was_known_before_the_quote_begins_stays():
    old = known(part("1", utc(2025, 1, 1), utc(2026, 1, 1)), part("2", utc(2026, 1, 1)))
    found = joined(old, [part("3", utc(2026, 9, 1))], NOW)
    assert [price for _, price, _, _ in spans(found)] == ["1", "2", "3"]


def test_a_sku_that_vanished_ends_where_its_successor_begins():
    old = known(part("1", utc(2026, 1, 1), sku="a"))
    found = joined(old, [part("2", utc(2026, 9, 1), sku="b")], NOW)
    assert spans(found) == [
        ("a", "1", utc(2026, 1, 1), utc(2026, 9, 1)),
        ("b", "2", utc(2026, 9, 1), None),
    ]


def test_another_component_is_no_successor():
    old = known(part("1", utc(2026, 1, 1), sku="c", kind="cpu"))
    news = [part("1", utc(2026, 1, 1), sku="c", kind="cpu"), part("5", sku="m", kind="memory")]
    assert spans(joined(old, news, NOW)) == [
        ("c", "1", utc(2026, 1, 1), None),
        ("m", "5", HOUR_AFTER, None),
    ]


def test_an_undated_price_that_has_ended_says_nothing():
    assert joined([], [part("1", None, utc(2026, 1, 1))], NOW) == []


def test_ended_keeps_the_past():
    old = known(part("1", utc(2025, 1, 1), utc(2026, 1, 1)), part("2", utc(2026, 1, 1)))
    assert spans(ended(old, NOW)) == [
        ("s", "1", utc(2025, 1, 1), utc(2026, 1, 1)),
        ("s", "2", utc(2026, 1, 1), HOUR_AFTER),
    ]
    assert ended(ended(old, NOW), NOW + timedelta(days=1)) == ended(old, NOW)


def test_times_are_rounded_up_to_the_whole_hour():
    assert next_hour(NOW) == HOUR_AFTER
    assert next_hour(HOUR_AFTER) == HOUR_AFTER


MONTHS = st.integers(1, 11).map(lambda month: utc(2026, month, 1))
QUOTES = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from("123"), MONTHS | st.none(), MONTHS | st.none()
    ).filter(lambda q: q[2] is None or q[3] is None or q[2] < q[3]),
    max_size=4,
)


@given(st.lists(QUOTES, max_size=5))
def test_after_any_sequence_of_quotes_a_sku_has_one_price_at_a_time(quotes):
    held = []
    for n, quote in enumerate(quotes):
        now = NOW + timedelta(days=n)
        offers = [part(price, start, end, sku) for sku, price, start, end in quote]
        timeline = [
            one for sku in "ab" for one in one_price([o for o in offers if o.sku == sku], now)[0]
        ]
        held = joined(held, timeline, now)
        assert joined(held, timeline, now) == held
        for sku in "ab":
            own = [s.component for s in held if s.component.sku == sku]
            assert all(one.end <= two.start for one, two in pairwise(own))
            assert all(one.valid_from is not None and one.start < one.end for one in own)


@given(QUOTES, QUOTES)
def test_time_that_all_parts_cover_is_the_intersection(left, right):
    timelines = [
        one_price([part(price, start, end, "x") for _, price, start, end in quote], NOW)[0]
        for quote in (left, right)
    ]
    both = covered_by_all(
        [
            [replace(p, component=k) for p in t]
            for k, t in zip(("cpu", "memory"), timelines, strict=True)
        ]
    )
    for month in range(1, 13):
        moment = utc(2026, month, 15)
        expected = all(any(p.holds_at(moment) for p in t) for t in timelines)
        assert len([p for p in both if p.holds_at(moment)]) == (2 if expected else 0)
