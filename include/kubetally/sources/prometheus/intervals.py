"""Samples to half-open intervals: pure, set-based, exact.

Times are integers of milliseconds since the epoch (the resolution of Prometheus), amounts are
128-bit integers of 1e-9 units; no float ever holds a quantity. Frames:

* samples: `key`, `at`, then what the sample says (`value` or any other columns)
* intervals: key columns, `start`, `end`, then what holds over `[start, end)`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

HOUR_MS = 3_600_000
SCALE = 9
ONE = 10**SCALE


@dataclass(frozen=True)
class Rhythm:
    """How long a sample speaks.

    It holds until the next sample of the same key if that comes within `hold_ms`, else (and after
    the last sample) for `interval_ms`. Two counter readings further apart than `hold_ms` say
    nothing about the time between them.
    """

    interval_ms: int
    hold_ms: int

    @classmethod
    def of(cls, interval_seconds: int) -> Rhythm:
        """Raw scrapes hold for five minutes, as Prometheus' look-back does; samples stored more
        sparsely than that for one and a half of their intervals."""
        return cls(interval_seconds * 1000, max(300_000, interval_seconds * 1500))


def nano(column: str) -> pl.Expr:
    """The decimal strings of `column` as integers of 1e-9, exact up to nine decimals.

    Digits beyond that are rounded half to even; exponents are understood; "NaN", "+Inf", "-Inf"
    and text that is no number become null.
    """
    return pl.col(column).cast(pl.Decimal(38, SCALE), strict=False).to_physical().alias(column)


def decimal_text(amount: pl.Expr, scale: int = SCALE) -> pl.Expr:
    """Integers of 10**-scale as plain decimal strings without superfluous zeros."""
    one = pl.lit(10**scale, dtype=pl.Int128)
    size = amount.abs()
    fraction = (size % one).cast(pl.String).str.zfill(scale).str.strip_chars_end("0")
    text = pl.concat_str(
        pl.when(amount < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        (size // one).cast(pl.String),
        pl.when(fraction == "").then(pl.lit("")).otherwise(pl.lit(".") + fraction),
    )
    return pl.when(amount.is_not_null()).then(text)


def cells(samples: pl.DataFrame, rhythm: Rhythm) -> pl.DataFrame:
    """One interval per sample by the hold rule of `Rhythm`: `key`, `start`, `end`, the rest.

    A sample that is there twice (same key and time) counts once; order does not matter.
    """
    ordered = _ordered(samples)
    following = pl.when(pl.col("key").shift(-1) == pl.col("key")).then(pl.col("at").shift(-1))
    end = (
        pl.when(following - pl.col("at") <= rhythm.hold_ms)
        .then(following)
        .otherwise(pl.col("at") + rhythm.interval_ms)
    )
    rest = [name for name in samples.columns if name not in ("key", "at")]
    return ordered.select("key", pl.col("at").alias("start"), end.alias("end"), *rest)


def _ordered(samples: pl.DataFrame) -> pl.DataFrame:
    """By key and time; what comes twice at one time is taken once, the first that came."""
    repeats = (pl.col("key") == pl.col("key").shift(1)) & (pl.col("at") == pl.col("at").shift(1))
    return samples.sort("key", "at", maintain_order=True).filter(~repeats.fill_null(False))


def merge(intervals: pl.DataFrame) -> pl.DataFrame:
    """Neighbours that touch and say the same become one. Lossless; sorted by what is said, then time."""
    said = [name for name in intervals.columns if name not in ("start", "end")]
    if intervals.is_empty():
        return intervals
    ordered = intervals.sort([*said, "start"], nulls_last=False)
    begins = (pl.col("start") != pl.col("end").shift(1)).fill_null(True)
    for name in said:
        begins |= pl.col(name).ne_missing(pl.col(name).shift(1))
    marked = ordered.with_columns(begins.alias("_begins"))
    first = marked.filter("_begins")
    last = marked.filter(pl.col("_begins").shift(-1, fill_value=True))
    return first.with_columns(last["end"]).select(intervals.columns)


def clip(intervals: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """What of the intervals lies in `[start, end)`."""
    return intervals.filter(pl.col("start") < end, pl.col("end") > start).with_columns(
        pl.col("start").clip(lower_bound=start), pl.col("end").clip(upper_bound=end)
    )


def cut(intervals: pl.DataFrame, step: int) -> pl.DataFrame:
    """Each interval in pieces that end at multiples of `step`."""
    first, last = pl.col("start") // step, (pl.col("end") - 1) // step
    pieces = intervals.with_columns(pl.int_ranges(first, last + 1).alias("_step"))
    return (
        pieces.explode("_step", empty_as_null=False)
        .with_columns(
            pl.max_horizontal("start", pl.col("_step") * step),
            pl.min_horizontal("end", (pl.col("_step") + 1) * step).alias("end"),
        )
        .drop("_step")
    )


def union(intervals: pl.DataFrame, by: Sequence[str] = ()) -> pl.DataFrame:
    """The times at least one interval of each `by` covers: `by`, `start`, `end`, disjoint, sorted."""
    keys = list(by)
    ordered = intervals.select(*keys, "start", "end").sort([*keys, "start"])
    reach = pl.col("end").cum_max()
    reach = (reach.over(keys) if keys else reach).alias("_reach")
    begins = (pl.col("start") > pl.col("_reach").shift(1)).fill_null(True)
    for name in keys:
        begins |= pl.col(name).ne_missing(pl.col(name).shift(1))
    marked = ordered.with_columns(reach).with_columns(begins.alias("_begins"))
    first = marked.filter("_begins")
    last = marked.filter(pl.col("_begins").shift(-1, fill_value=True))
    return first.with_columns(last["_reach"].alias("end")).select(*keys, "start", "end")


def total(intervals: pl.DataFrame, by: Sequence[str], value: str) -> pl.DataFrame:
    """The sum of the `value`s that hold at each time, per `by`; only where one holds at all."""
    keys = list(by)
    steps = (
        pl.concat(
            [
                intervals.select(
                    *keys, pl.col("start").alias("start"), value, pl.lit(1).alias("_n")
                ),
                intervals.select(
                    *keys, pl.col("end").alias("start"), pl.col(value) * -1, pl.lit(-1).alias("_n")
                ),
            ]
        )
        .group_by([*keys, "start"])
        .agg(pl.col(value).sum(), pl.col("_n").sum())
        .sort([*keys, "start"])
        .with_columns(
            pl.col(value).cum_sum().over(keys),
            pl.col("_n").cum_sum().over(keys),
            pl.col("start").shift(-1).over(keys).alias("end"),
        )
        .filter(pl.col("_n") > 0)
    )
    return merge(steps.select(*keys, "start", "end", value))


def greatest(intervals: pl.DataFrame, by: Sequence[str], value: str) -> pl.DataFrame:
    """The largest of the `value`s that hold at each time, per `by`; only where one holds at all."""
    keys = list(by)
    edges = pl.concat(
        [
            intervals.select(*keys, pl.col("start").alias("_from")),
            intervals.select(*keys, pl.col("end").alias("_from")),
        ]
    )
    pieces = (
        edges.unique()
        .sort([*keys, "_from"])
        .with_columns(pl.col("_from").shift(-1).over(keys).alias("_to"))
        .drop_nulls("_to")
        .join(intervals, on=keys, how="inner", nulls_equal=True)
        .filter(pl.col("start") <= pl.col("_from"), pl.col("end") >= pl.col("_to"))
        .group_by([*keys, "_from", "_to"])
        .agg(pl.col(value).max())
    )
    return merge(
        pieces.select(*keys, pl.col("_from").alias("start"), pl.col("_to").alias("end"), value)
    )


def align(base: pl.DataFrame, layers: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """`base` cut wherever a layer changes, with the layers' columns beside it (null where silent).

    All frames are intervals with one `key` column and do not overlap themselves within a key.
    Each layer also gives a boolean column `has_<name>`: whether it says anything at that time.
    """
    frames = [base, *layers.values()]
    sides = [
        f.select("key", pl.col(side).alias("start")) for f in frames for side in ("start", "end")
    ]
    pieces = (
        pl.concat(sides)
        .unique()
        .sort("key", "start")
        .with_columns(pl.col("start").shift(-1).alias("end"))
        .filter(pl.col("key") == pl.col("key").shift(-1))
    )
    beside = [_holding(pieces, layer, name) for name, layer in {"base": base, **layers}.items()]
    return pl.concat([pieces, *beside], how="horizontal").filter("has_base").drop("has_base")


def _holding(pieces: pl.DataFrame, layer: pl.DataFrame, name: str) -> pl.DataFrame:
    """For each piece whether `layer` holds there (`has_<name>`), and what it says."""
    said = [column for column in layer.columns if column not in ("key", "start", "end")]
    rows = layer.select(
        "key", "start", pl.struct(pl.col("key").alias("_key"), "end", *said).alias("_row")
    ).unique(["key", "start"], keep="first", maintain_order=True)
    found = pieces.join(rows, on=["key", "start"], how="left", maintain_order="left").select(
        "key", "start", pl.col("_row").forward_fill()
    )
    row = pl.col("_row").struct
    holds = (row.field("_key") == pl.col("key")) & (pl.col("start") < row.field("end"))
    holds = holds.fill_null(False)
    return found.select(
        holds.alias(f"has_{name}"), *(pl.when(holds).then(row.field(c)).alias(c) for c in said)
    )


def readings(samples: pl.DataFrame, rhythm: Rhythm) -> pl.DataFrame:
    """Counter samples as what was counted between neighbours: `key`, `start`, `end`, `base`, `delta`.

    `value` must be integers. A pair further apart than the hold, or with a falling value (the
    counter began anew), says nothing: the time between is left out, never guessed.
    """
    return (
        _ordered(samples)
        .select(
            "key",
            pl.col("at").alias("start"),
            pl.col("at").shift(-1).alias("end"),
            pl.col("value").alias("base"),
            (pl.col("value").shift(-1) - pl.col("value")).alias("delta"),
            (pl.col("key") == pl.col("key").shift(-1)).alias("_same"),
        )
        .filter(
            pl.col("_same"),
            pl.col("end") - pl.col("start") <= rhythm.hold_ms,
            pl.col("delta") >= 0,
        )
        .drop("_same")
    )


def levels(held: pl.DataFrame) -> pl.DataFrame:
    """Gauge intervals (`value` integers) in the shape of `readings`; amounts are value x milliseconds."""
    span = (pl.col("end") - pl.col("start")).cast(pl.Int128)
    return held.select(
        "key",
        "start",
        "end",
        pl.lit(0, dtype=pl.Int128).alias("base"),
        (pl.col("value").cast(pl.Int128) * span).alias("delta"),
    )


def amounts(slots: pl.DataFrame, pieces: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """What the series of each group counted in each slot: `group`, `start`, `end`, `amount`.

    `slots`: `group`, `start`, `end`, disjoint within a group. `pieces`: as from `readings`.
    `groups`: `key`, `group`. A piece that crosses a slot's edge is cut in proportion to time; the
    cumulative value at each edge is rounded half to even, so that the parts of any cut add up to
    the whole again, and an edge means the same to the slots on both sides.
    """
    totals = pieces.sort("key", "start").with_columns(
        (pl.col("delta").cum_sum().over("key") - pl.col("delta")).alias("before")
    )
    wanted = slots.join(groups, on="group", how="inner")
    return (
        wanted.with_columns(
            (_counted_at(wanted, totals, "end") - _counted_at(wanted, totals, "start")).alias(
                "amount"
            )
        )
        .group_by("group", "start", "end")
        .agg(pl.col("amount").sum())
    )


def _counted_at(wanted: pl.DataFrame, totals: pl.DataFrame, side: str) -> pl.Series:
    """The running total of each row's `key` at its `side`."""
    found = (
        wanted.select("key", pl.col(side).alias("at"))
        .with_row_index("_row")
        .sort("at")
        .join_asof(
            totals.sort("start"),
            left_on="at",
            right_on="start",
            by="key",
            strategy="backward",
            check_sortedness=False,
        )
        .sort("_row")
    )
    span = (pl.col("end") - pl.col("start")).cast(pl.Int128)
    product = pl.col("delta") * (pl.col("at") - pl.col("start")).cast(pl.Int128)
    whole, rest = product // span, product % span
    odd = (pl.col("base") + whole) % 2 != 0
    part = whole + ((rest * 2 > span) | ((rest * 2 == span) & odd)).cast(pl.Int128)
    counted = pl.col("before") + pl.when(pl.col("at") >= pl.col("end")).then(
        pl.col("delta")
    ).otherwise(part)
    return found.select(counted.fill_null(pl.lit(0, dtype=pl.Int128))).to_series()
