"""The rules of time: what samples say, for how long, and that cutting loses nothing."""

from __future__ import annotations

from collections import defaultdict
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubetally.sources.prometheus.intervals import (
    HOUR_MS,
    ONE,
    Rhythm,
    align,
    amounts,
    cells,
    clip,
    cut,
    decimal_text,
    greatest,
    levels,
    merge,
    nano,
    readings,
    total,
    union,
)

MINUTE = 60_000
RHYTHM = Rhythm.of(60)
SAMPLES = {"key": pl.UInt32, "at": pl.Int64, "value": pl.Int128}
INTERVALS = {"key": pl.UInt32, "start": pl.Int64, "end": pl.Int64}


def samples(*rows: tuple[int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SAMPLES, orient="row")


def minutes(frame: pl.DataFrame) -> list[tuple[float, ...]]:
    """Rows with start and end in minutes."""
    return frame.with_columns(pl.col("start", "end") / MINUTE).rows()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0.1", 100_000_000),
        ("1.253376e+07", 12_533_760 * ONE),
        ("1.2533760e7", 12_533_760 * ONE),
        ("1e-09", 1),
        ("4488533.01952", 4_488_533_019_520_000),
        ("0.1234567885", 123_456_788),  # half to even
        ("0.1234567895", 123_456_790),
        ("9007199254740993", 9_007_199_254_740_993 * ONE),  # 2^53 + 1
        ("-3.5", -3_500_000_000),
        (".5", 500_000_000),
        ("NaN", None),
        ("+Inf", None),
        ("-Inf", None),
        ("", None),
        ("twelve", None),
    ],
)
def test_sample_texts_become_exact_integers(text: str, wanted: int | None) -> None:
    frame = pl.DataFrame({"text": [text]}).select(nano("text"))
    assert frame["text"].to_list() == [wanted]


@given(st.decimals(min_value=-(10**12), max_value=10**12, allow_nan=False, places=9))
def test_texts_come_back_as_plain_decimals(value: Decimal) -> None:
    frame = pl.DataFrame({"text": [f"{value:E}", f"{value:f}"]}).select(nano("text"))
    for text in frame.select(decimal_text(pl.col("text"))).to_series():
        assert Decimal(text) == value
        assert "E" not in text and not (text.endswith("0") and "." in text)


@pytest.mark.parametrize(
    ("rule", "given_samples", "wanted"),
    [
        (
            "a sample holds until the next one",
            [(0, 1, 5), (0, 2, 5), (0, 3, 7)],
            [(0, 1, 3, 5), (0, 3, 4, 7)],
        ),
        ("the last one holds one interval", [(0, 1, 5)], [(0, 1, 2, 5)]),
        ("five minutes is still the same run", [(0, 0, 5), (0, 5, 5)], [(0, 0, 6, 5)]),
        (
            "a longer silence is not covered",
            [(0, 0, 5), (0, 5.001, 5)],
            [(0, 0, 1, 5), (0, 5.001, 6.001, 5)],
        ),
        ("what comes twice counts once", [(0, 0, 5), (0, 0, 5), (0, 1, 5)], [(0, 0, 2, 5)]),
        ("order does not matter", [(0, 2, 5), (0, 0, 5), (0, 1, 5)], [(0, 0, 3, 5)]),
        (
            "keys do not touch each other",
            [(1, 1, 5), (0, 0, 5)],
            [(0, 0, 1, 5), (1, 1, 2, 5)],
        ),
        (
            "a value that comes back is a statement of its own",
            [(0, 0, 5), (0, 1, 6), (0, 2, 5)],
            [(0, 0, 1, 5), (0, 2, 3, 5), (0, 1, 2, 6)],
        ),
    ],
)
def test_gauge_samples_hold(
    rule: str, given_samples: list[tuple[int, float, int]], wanted: list[tuple[float, ...]]
) -> None:
    frame = samples(*((key, round(at * MINUTE), value) for key, at, value in given_samples))
    held = merge(cells(frame, RHYTHM)).select("key", "start", "end", "value")
    assert sorted(minutes(held)) == sorted(wanted), rule


def test_sparse_stored_samples_hold_one_and_a_half_intervals() -> None:
    quarter = Rhythm.of(900)
    frame = samples((0, 0, 5), (0, 15 * MINUTE, 5), (0, 37 * MINUTE, 5), (0, 60 * MINUTE, 5))
    held = merge(cells(frame, quarter))
    assert minutes(held.select("key", "start", "end")) == [(0, 0, 52), (0, 60, 75)]


@pytest.mark.parametrize(
    ("rule", "given_samples", "wanted"),
    [
        ("a pair covers the time between", [(0, 1, 100), (0, 2, 130)], [(0, 1, 2, 100, 30)]),
        ("one reading alone says nothing", [(0, 1, 100)], []),
        (
            "a falling value is a new beginning, never a delta",
            [(0, 0, 100), (0, 1, 130), (0, 2, 4), (0, 3, 34)],
            [(0, 0, 1, 100, 30), (0, 2, 3, 4, 30)],
        ),
        (
            "no delta over a silence",
            [(0, 0, 100), (0, 6, 130), (0, 7, 131)],
            [(0, 6, 7, 130, 1)],
        ),
        ("no delta across series", [(0, 0, 100), (1, 1, 130)], []),
        ("nothing used is a statement too", [(0, 0, 5), (0, 1, 5)], [(0, 0, 1, 5, 0)]),
        ("twice the same reading is one", [(0, 0, 5), (0, 0, 5), (0, 1, 6)], [(0, 0, 1, 5, 1)]),
    ],
)
def test_counter_pairs(
    rule: str, given_samples: list[tuple[int, int, int]], wanted: list[tuple[float, ...]]
) -> None:
    frame = samples(*((key, at * MINUTE, value) for key, at, value in given_samples))
    assert minutes(readings(frame, RHYTHM)) == wanted, rule


def test_an_hour_edge_cuts_in_proportion_and_rounds_the_cumulative_value_half_to_even() -> None:
    # Readings 20 s before and 40 s after the hour: a third of the use lies before it.
    frame = samples((0, HOUR_MS - 20_000, 10), (0, HOUR_MS + 40_000, 11))
    assert counted(frame, HOUR_MS - HOUR_MS, HOUR_MS) == {0: 0}  # 10 + 1/3 of 1e-9 is 10
    assert counted(frame, HOUR_MS, 2 * HOUR_MS) == {0: 1}
    for base, before in ((10, 0), (11, 1)):  # 10.5 goes to 10, 11.5 to 12
        frame = samples((0, HOUR_MS - 30_000, base), (0, HOUR_MS + 30_000, base + 1))
        assert counted(frame, 0, HOUR_MS) == {0: before}
        assert counted(frame, HOUR_MS, 2 * HOUR_MS) == {0: 1 - before}


def test_amounts_beyond_64_bits_are_exact() -> None:
    frame = samples(*((0, minute * MINUTE, 2**60 * ONE) for minute in range(60)))
    held = levels(cells(frame, RHYTHM))
    slots = clip(union(held, ["key"]).rename({"key": "group"}), 0, HOUR_MS)
    groups = pl.DataFrame({"key": [0], "group": [0]}, schema={"key": pl.UInt32, "group": pl.UInt32})
    assert amounts(slots, held, groups)["amount"].to_list() == [2**60 * ONE * HOUR_MS]


def counted(frame: pl.DataFrame, start: int, end: int) -> dict[int, int]:
    """The use of each key between `start` and `end`."""
    pieces = readings(frame, RHYTHM)
    slots = clip(union(pieces, ["key"]).rename({"key": "group"}), start, end)
    groups = frame.select("key", pl.col("key").alias("group")).unique()
    return dict(
        amounts(cut(slots, HOUR_MS), pieces, groups)
        .group_by("group")
        .agg(pl.col("amount").sum())
        .rows()
    )


@pytest.mark.parametrize(
    ("intervals", "wanted"),
    [
        ([(0, 0, 2), (0, 2, 3)], [(0, 3)]),
        ([(0, 0, 2), (1, 1, 3), (0, 5, 6)], [(0, 3), (5, 6)]),
        ([(0, 0, 9), (1, 1, 2), (0, 3, 4)], [(0, 9)]),
        ([], []),
    ],
)
def test_union_is_the_time_that_anything_covers(
    intervals: list[tuple[int, int, int]], wanted: list[tuple[int, int]]
) -> None:
    frame = pl.DataFrame(intervals, schema=INTERVALS, orient="row")
    assert union(frame).rows() == wanted


def test_containers_add_up_over_time_and_init_containers_do_not() -> None:
    frame = pl.DataFrame(
        [(0, 0, 10, 1), (0, 5, 15, 2), (0, 20, 30, 4)],
        schema={**INTERVALS, "value": pl.Int128},
        orient="row",
    )
    assert sorted(total(frame, ["key"], "value").rows()) == [
        (0, 0, 5, 1),
        (0, 5, 10, 3),
        (0, 10, 15, 2),
        (0, 20, 30, 4),
    ]
    assert sorted(greatest(frame, ["key"], "value").rows()) == [
        (0, 0, 5, 1),
        (0, 5, 15, 2),
        (0, 20, 30, 4),
    ]


def test_layers_speak_only_while_they_hold() -> None:
    base = pl.DataFrame([(0, 0, 10), (1, 0, 4)], schema=INTERVALS, orient="row")
    layer = pl.DataFrame(
        [(0, 2, 5, "a"), (0, 5, 6, None), (1, 3, 9, "b"), (2, 0, 1, "c")],
        schema={**INTERVALS, "said": pl.String},
        orient="row",
    )
    assert align(base, {"layer": layer}).rows() == [
        (0, 0, 2, False, None),
        (0, 2, 5, True, "a"),
        (0, 5, 6, True, None),
        (0, 6, 10, False, None),
        (1, 0, 3, False, None),
        (1, 3, 4, True, "b"),
    ]


# --- properties, against a slow and obvious oracle ----------------------------------------------

moments = st.integers(0, 3 * HOUR_MS)
histories = st.dictionaries(
    st.tuples(st.integers(0, 2), moments), st.integers(0, 10**13), max_size=60
)
dense = st.builds(
    lambda start, gaps, steps: {
        (0, start + sum(gaps[: n + 1])): sum(steps[: n + 1]) for n in range(len(gaps))
    },
    st.integers(0, HOUR_MS),
    st.lists(st.integers(1, 400_000), max_size=40),
    st.lists(st.integers(-5, 10**11), min_size=40, max_size=40),
)
History = dict[tuple[int, int], int]


def oracle_counter(history: History, start: int, end: int) -> dict[int, Fraction]:
    """Per key what was counted in [start, end), pair by pair, in plain Python."""
    found: dict[int, Fraction] = defaultdict(Fraction)
    for key in {key for key, _ in history}:
        times = sorted(at for k, at in history if k == key)
        for t0, t1 in pairwise(times):
            v0, v1 = history[key, t0], history[key, t1]
            if t1 - t0 > 300_000 or v1 < v0 or t1 <= start or t0 >= end:
                continue

            def at(moment: int, t0: int = t0, t1: int = t1, v0: int = v0, v1: int = v1) -> int:
                if moment <= t0:
                    return v0
                if moment >= t1:
                    return v1
                with localcontext() as context:
                    context.prec = 60
                    exact = Decimal(v0) + Decimal((v1 - v0) * (moment - t0)) / Decimal(t1 - t0)
                    return int(exact.quantize(Decimal(1), ROUND_HALF_EVEN))

            found[key] += at(end) - at(start)
    return {key: amount for key, amount in found.items() if amount}


@settings(max_examples=80, deadline=None)
@given(st.one_of(histories, dense), st.integers(0, 2))
def test_counters_agree_with_the_oracle_hour_by_hour(history: History, hour: int) -> None:
    frame = samples(*((key, at, value) for (key, at), value in history.items()))
    start = hour * HOUR_MS
    got = {key: n for key, n in counted(frame, start, start + HOUR_MS).items() if n}
    assert got == oracle_counter(history, start, start + HOUR_MS)


@settings(max_examples=60, deadline=None)
@given(st.one_of(histories, dense), st.lists(moments, min_size=1, max_size=4))
def test_the_parts_of_any_cut_add_up_to_the_whole(history: History, cuts: list[int]) -> None:
    frame = samples(*((key, at, value) for (key, at), value in history.items()))
    pieces = readings(frame, RHYTHM)
    whole = pieces.group_by("key").agg(pl.col("delta").sum())
    edges = [0, *sorted({*cuts, HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS, 4 * HOUR_MS})]
    parts: dict[int, int] = defaultdict(int)
    for start, end in pairwise(edges):
        for key, amount in (counted(frame, start, end) if start < end else {}).items():
            parts[key] += amount
            assert amount >= 0
    assert {k: v for k, v in parts.items() if v} == {k: v for k, v in whole.rows() if v}


@settings(max_examples=80, deadline=None)
@given(st.one_of(histories, dense), moments, st.randoms(use_true_random=False))
def test_gauges_agree_with_the_oracle_at_every_moment(
    history: History, moment: int, random: object
) -> None:
    rows = [(key, at, value % 3) for (key, at), value in history.items()]
    random.shuffle(rows)  # type: ignore[attr-defined]
    held = merge(cells(samples(*rows), RHYTHM))
    for key in (0, 1, 2):
        times = sorted(at for k, at, _ in rows if k == key)
        before = [at for at in times if at <= moment]
        after = [at for at in times if at > moment]
        wanted = []
        if before:
            last = before[-1]
            end = last + MINUTE
            if after and after[0] - last <= 300_000:
                end = after[0]
            if moment < end:
                wanted = [next(v for k, at, v in rows if (k, at) == (key, last))]
        got = held.filter(pl.col("key") == key, pl.col("start") <= moment, pl.col("end") > moment)[
            "value"
        ].to_list()
        assert got == wanted


@settings(max_examples=60, deadline=None)
@given(st.one_of(histories, dense))
def test_each_hour_can_be_told_from_the_samples_around_it(history: History) -> None:
    """What lies in an hour does not depend on samples further than the hold away from it."""
    rows = [(key, at, value % 3) for (key, at), value in history.items()]
    hold = RHYTHM.hold_ms
    everything = merge(cells(samples(*rows), RHYTHM))
    for start in (0, HOUR_MS, 2 * HOUR_MS):
        end = start + HOUR_MS
        near = [row for row in rows if start - hold < row[1] < end + hold]
        said = clip(merge(cells(samples(*near), RHYTHM)), start, end)
        assert said.rows() == clip(everything, start, end).rows()
