"""Container counters and gauges to amounts per hour."""

from __future__ import annotations

import polars as pl

from kubetally.sources.prometheus.families import Heard
from kubetally.sources.prometheus.intervals import (
    HOUR_MS,
    SCALE,
    Rhythm,
    align,
    amounts,
    cells,
    clip,
    cut,
    decimal_text,
    levels,
    readings,
    union,
)
from kubetally.sources.rows import SCHEMAS, TIME

# /kubepods/burstable/pod<uid>/…, kubepods-burstable-pod<uid with _>.slice
_POD_UID = r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})"
_WHO = ["namespace", "pod", "container", "uid", "node"]
_MILLI = 3  # amounts of gauges are per millisecond


def usage_of(
    cpu: Heard | None,
    memory: Heard | None,
    pods: pl.DataFrame,
    start: int,
    end: int,
    rhythm: Rhythm,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Usage rows of one chunk, cut at whole hours, and the times they cover.

    `pods` (`namespace`, `pod`, `uid`) are the pods known to exist: a uid read from a cgroup's name
    counts only when it is one of them (a mirror pod's cgroup carries another one). A row where only
    one of CPU and memory is known leaves the other null. Rows of one container do not overlap.
    """
    nothing = pl.DataFrame(schema={"key": pl.UInt32, "start": pl.Int64, "end": pl.Int64})
    who = [_containers(heard, pods) for heard in (cpu, memory)]
    groups = (
        pl.concat([one.select(_WHO) for one in who]).unique().sort(_WHO).with_row_index("group")
    )
    members = [one.join(groups, on=_WHO).select("key", "group") for one in who]

    counted = nothing.with_columns(base=pl.lit(0, pl.Int128), delta=pl.lit(0, pl.Int128))
    held = counted
    if cpu is not None:
        counted = readings(_keyed(cpu, members[0]), rhythm)
    if memory is not None:
        held = levels(cells(_keyed(memory, members[1]), rhythm))

    covers = [
        union(pieces.join(member, on="key").select("start", "end", key="group"), ["key"])
        for pieces, member in zip((counted, held), members, strict=True)
    ]
    slots = align(
        cut(clip(union(pl.concat(covers), ["key"]), start, end), HOUR_MS),
        {"cpu": covers[0], "memory": covers[1]},
    ).rename({"key": "group"})
    for name, pieces, member in (("cpu", counted, members[0]), ("memory", held, members[1])):
        mine = slots.filter(f"has_{name}").select("group", "start", "end")
        slots = slots.join(
            amounts(mine, pieces, member).rename({"amount": f"{name}_amount"}),
            on=["group", "start", "end"],
            how="left",
        )
    rows = (
        slots.join(groups, on="group", how="left")
        .sort("namespace", "pod", "container", "start", "uid", "node")
        .select(
            (pl.col("start") * 1000).cast(TIME).alias("start_at"),
            (pl.col("end") * 1000).cast(TIME).alias("end_at"),
            _stated("uid"),
            "namespace",
            "pod",
            "container",
            _stated("node"),
            decimal_text(pl.col("cpu_amount"), SCALE).alias("cpu_used_core_seconds"),
            decimal_text(pl.col("memory_amount"), SCALE + _MILLI).alias("memory_used_byte_seconds"),
        )
    )
    covered = clip(union(pl.concat([counted, held]).select("start", "end")), start, end)
    return rows.select(list(SCHEMAS["usage"])), covered


def _containers(heard: Heard | None, pods: pl.DataFrame) -> pl.DataFrame:
    """`key` (the series) and whose it is; without per-CPU series where there is a total."""
    if heard is None:
        return pl.DataFrame(schema={"key": pl.UInt32, **dict.fromkeys(_WHO, pl.String)})
    series = heard.series.filter(pl.col("pod") != "", pl.col("container") != "")
    if "cpu" in series.columns:
        is_total = pl.col("cpu").is_in(["", "total"])
        cgroup = ["namespace", "pod", "container", "id", "node"]
        series = series.filter(is_total | ~is_total.any().over(cgroup))
    found = series.select(
        "series",
        "namespace",
        "pod",
        "container",
        "node",
        pl.col("id").str.extract(_POD_UID).str.replace_all("_", "-").fill_null("").alias("uid"),
    ).join(
        pods.select("namespace", "pod", "uid", pl.lit(True).alias("known")).unique(),
        on=["namespace", "pod", "uid"],
        how="left",
    )
    return found.select(
        pl.col("series").alias("key"),
        "namespace",
        "pod",
        "container",
        pl.when(pl.col("known")).then("uid").otherwise(pl.lit("")).alias("uid"),
        "node",
    )


def _keyed(heard: Heard, members: pl.DataFrame) -> pl.DataFrame:
    samples = heard.samples.rename({"series": "key"})
    return samples.join(members.select("key"), on="key", how="semi")


def _stated(column: str) -> pl.Expr:
    return pl.when(pl.col(column) != "").then(column).alias(column)
