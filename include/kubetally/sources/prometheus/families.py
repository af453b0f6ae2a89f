"""Answers to statements: whose samples these are, which are doubled, and how long they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import polars as pl

from kubetally.sources.prometheus.client import Samples
from kubetally.sources.prometheus.intervals import Rhythm, cells, clip, merge, nano, union
from kubetally.sources.prometheus.queries import Query, Selector
from kubetally.sources.rows import Reject

_CANONICAL = msgspec.json.Encoder(order="sorted").encode
_EXPORTED = frozenset(
    {
        f"exported_{name}"
        for name in ("namespace", "pod", "container", "node", "uid", "persistentvolumeclaim")
    }
)
_NO_SAMPLE = ("NaN", "+Inf", "-Inf", "Inf")
NO_SAMPLES = pl.DataFrame(schema={"series": pl.UInt32, "at": pl.Int64, "value": pl.Int128})
INTERVALS = {"start": pl.Int64, "end": pl.Int64}


@dataclass(frozen=True)
class Heard:
    """What one query was told for one chunk, cleaned.

    `series`: `series`, the query's labels ("" = not set) and `kept` (free labels as JSON).
    `samples`: `series`, `at`, `value` (128-bit integers of 1e-9; for states only those that hold).
    """

    query: Query
    series: pl.DataFrame
    samples: pl.DataFrame
    digest: str
    rejects: tuple[Reject, ...] = ()


def hear(query: Query, told: Sequence[tuple[Selector, Samples]]) -> Heard:
    """The samples of all selectors as one family, in an order that does not depend on the server's.

    A series that several exporters or replicas tell of is counted once: the teller with the most
    samples is believed for as long as it speaks, the others before and after. They are reported,
    never added.
    """
    if not any(answer.labels for _, answer in told):
        return Heard(query, _series(query, []), NO_SAMPLES, "")
    named: dict[bytes, tuple[dict[str, str], str]] = {}
    frames: list[pl.DataFrame] = []
    canons: list[bytes] = []
    for choice, (selector, answer) in enumerate(told):
        texts = [_CANONICAL(labels) for labels in answer.labels]
        frames.append(
            answer.samples.with_columns(pl.col("series") + pl.lit(len(canons), dtype=pl.UInt32))
        )
        for text, labels in zip(texts, answer.labels, strict=True):
            if text not in named:
                named[text] = (_labels(selector, labels), f"{choice}")
        canons.extend(texts)
    order = {text: rank for rank, text in enumerate(sorted(named))}
    ranks = pl.Series([order[text] for text in canons], dtype=pl.UInt32)
    raw = pl.concat(frames)
    raw = raw.with_columns(ranks.gather(raw["series"]).alias("series")).sort(
        "series", "at", maintain_order=True
    )
    told_of = [named[text][0] for text in order]
    rejects: list[Reject] = []
    samples = _numbers(query, raw, told_of, rejects)
    series = _series(query, told_of)
    samples = _told_once(query, series, samples, told_of, [named[t][1] for t in order], rejects)
    return Heard(query, series, samples, _digest(order, raw), tuple(rejects))


@dataclass
class Family:
    """What one query says over a whole window; grows by a chunk at a time.

    `covered`: where it has any sample at all. `is_known`: whether every chunk was answered fully.
    """

    query: Query
    parts: list[pl.DataFrame] = field(default_factory=list)
    covers: list[pl.DataFrame] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    failed: bool = False

    def add(
        self, heard: Heard, start: int, end: int, rhythm: Rhythm, *, complete: bool
    ) -> pl.DataFrame:
        """Take in a chunk and give its statements; an incomplete answer states what it states, but silence in it says
        nothing, so it covers nothing."""
        self.note(heard)
        if heard.samples.is_empty():
            return _silence(self.query)
        held = clip(statements(heard, rhythm), start, end)
        self.parts.append(held)
        if complete:
            self.covers.append(union(held))
        return held

    def note(self, heard: Heard) -> None:
        self.digests.append(heard.digest)
        self.rejects.extend(heard.rejects)

    @property
    def intervals(self) -> pl.DataFrame:
        """The subject's labels, `start`, `end`, then the state's labels, `kept` or `value`."""
        if not self.parts:
            return _silence(self.query)
        return merge(pl.concat(self.parts))

    @property
    def covered(self) -> pl.DataFrame:
        if not self.covers:
            return pl.DataFrame(schema=INTERVALS)
        return union(pl.concat(self.covers))


def statements(heard: Heard, rhythm: Rhythm) -> pl.DataFrame:
    """Samples as merged intervals per subject; one state at a time, the same wherever cut."""
    query = heard.query
    subject = list(query.subject)
    said = [*query.state, *(["kept"] if query.keeps else [])]
    subjects = heard.series.select(subject).unique(maintain_order=True).with_row_index("key")
    keyed = heard.series.join(subjects, on=subject, how="left").select("series", "key", *said)
    if query.kind == "state":
        states = keyed.select(said).unique(maintain_order=True).with_row_index("value")
        keyed = (
            keyed.join(states, on=said, how="left") if said else keyed.with_columns(value=pl.lit(0))
        ).select("series", "key", "value")
        samples = heard.samples.drop("value").join(keyed, on="series", how="left")
    else:
        samples = heard.samples.join(keyed.select("series", "key"), on="series", how="left")
    held = merge(cells(samples.select("key", "at", "value"), rhythm))
    if query.kind == "state":
        held = held.join(states, on="value", how="left") if said else held
        held = held.drop("value")
    return held.join(subjects, on="key", how="left").select(
        *subject, "start", "end", *([*said] if query.kind == "state" else ["value"])
    )


def _silence(query: Query) -> pl.DataFrame:
    """`statements` of nothing."""
    said: dict[str, pl.DataType | type[pl.DataType]]
    if query.kind == "state":
        said = dict.fromkeys([*query.state, *(["kept"] if query.keeps else [])], pl.String)
    else:
        said = {"value": pl.Int128}
    return pl.DataFrame(schema={**dict.fromkeys(query.subject, pl.String), **INTERVALS, **said})


def _labels(selector: Selector, labels: dict[str, str]) -> dict[str, str]:
    """Labels under the query's own names; what Prometheus set aside as `exported_…` is the truth."""
    if selector.adds or selector.renames:
        labels = {selector.renames.get(name, name): text for name, text in labels.items()}
        labels.update(selector.adds)
    if not _EXPORTED.isdisjoint(labels):
        labels = dict(labels)
        for name in _EXPORTED & labels.keys():
            labels[name.removeprefix("exported_")] = labels.pop(name)
    return labels


def _series(query: Query, labels: list[dict[str, str]]) -> pl.DataFrame:
    names = sorted(query.known - {"__name__"})
    columns: dict[str, pl.Series] = {
        name: pl.Series(name, [one.get(name, "") for one in labels], dtype=pl.String)
        for name in names
    }
    if query.keeps:
        columns["kept"] = pl.Series(
            "kept", [_kept(query.keeps, one) for one in labels], dtype=pl.String
        )
    return pl.DataFrame({"series": pl.Series(range(len(labels)), dtype=pl.UInt32), **columns})


def _kept(prefix: str, labels: dict[str, str]) -> str:
    free = {
        name.removeprefix(prefix): text for name, text in labels.items() if name.startswith(prefix)
    }
    return _CANONICAL(free).decode()


def _numbers(
    query: Query, raw: pl.DataFrame, labels: list[dict[str, str]], rejects: list[Reject]
) -> pl.DataFrame:
    """Texts as integers of 1e-9. NaN and infinities are no samples; a state holds while it is 1."""
    samples = raw.select("series", "at", nano("text").alias("value"), "text")
    none = samples.filter(pl.col("value").is_null() & ~pl.col("text").is_in(_NO_SAMPLE))
    for series, text in none.unique("series", maintain_order=True).select("series", "text").rows():
        rejects.append(
            Reject(
                query.dataset, _shown(labels[series]), f"a sample is {text[:100]!r}, not a number"
            )
        )
    samples = samples.drop("text").drop_nulls("value")
    if query.kind == "state":
        return samples.filter(pl.col("value") == 10**9)
    return samples


def _told_once(
    query: Query,
    series: pl.DataFrame,
    samples: pl.DataFrame,
    labels: list[dict[str, str]],
    choices: list[str],
    rejects: list[Reject],
) -> pl.DataFrame:
    """Without the samples that a second exporter or replica tells of the same subject and time.

    Who tells is what the labels say beyond the query's own. The uid is left out of the comparison:
    some exporters do not give it.
    """
    subject = [name for name in query.subject if name != "uid"]
    crowded = series.join(samples.select("series").unique(), on="series", how="semi").filter(
        pl.len().over(subject) > 1
    )
    if crowded.is_empty():
        return samples
    tellers = pl.Series(
        [_teller(query, labels[s], choices[s]) for s in crowded["series"]], dtype=pl.String
    )
    crowded = (
        crowded.select("series", pl.struct(subject).rank("dense").alias("subject"))
        .with_columns(tellers.alias("teller"))
        .filter(pl.col("teller").n_unique().over("subject") > 1)
    )
    if crowded.is_empty():
        return samples
    doubted = samples.join(crowded, on="series", how="inner")
    rank = (
        doubted.group_by("subject", "teller")
        .len()
        .sort(["subject", "len", "teller"], descending=[False, True, False])
        .with_columns(pl.int_range(pl.len()).over("subject").alias("rank"))
    )
    kept = doubted.join(rank.select("subject", "teller", "rank"), on=["subject", "teller"])
    for believed in range(int(rank["rank"].max() or 0)):  # type: ignore[arg-type]
        spans = (
            kept.filter(pl.col("rank") == believed)
            .group_by("subject")
            .agg(pl.col("at").min().alias("from"), pl.col("at").max().alias("to"))
        )
        kept = (
            kept.join(spans, on="subject", how="left")
            .filter(
                (pl.col("rank") <= believed)
                | pl.col("from").is_null()
                | (pl.col("at") < pl.col("from"))
                | (pl.col("at") > pl.col("to"))
            )
            .drop("from", "to")
        )
    lost = (
        doubted.join(kept.select("series", "at"), on=["series", "at"], how="anti")
        .group_by("teller")
        .agg(
            pl.len().alias("samples"),
            pl.col("series").n_unique().alias("many"),
            pl.col("series").min(),
        )
        .sort("teller")
    )
    for teller, count, many, example in lost.rows():
        rejects.append(
            Reject(
                query.dataset,
                f"{query.name} told by {teller[1:] or 'another metric'}",
                f"{count} samples of {many} series are already told by another exporter or"
                " replica; they were not counted a second time",
                _shown(labels[example])[:2000],
            )
        )
    return pl.concat(
        [
            samples.join(crowded.select("series"), on="series", how="anti"),
            kept.select(samples.columns),
        ]
    )


def _teller(query: Query, labels: dict[str, str], choice: str) -> str:
    known = query.known
    others = sorted(
        f"{name}={text}"
        for name, text in labels.items()
        if name not in known and not (query.keeps and name.startswith(query.keeps))
    )
    return choice + ",".join(others)


def _shown(labels: dict[str, str]) -> str:
    name = labels.get("__name__", "")
    return name + _CANONICAL({k: v for k, v in labels.items() if k != "__name__"}).decode()


def _digest(order: Iterable[bytes], raw: pl.DataFrame) -> str:
    """SHA-256 over sorted series and their samples: the same content gives the same one."""
    again = pl.all_horizontal(pl.all() == pl.all().shift(1)).fill_null(False)
    once = raw.filter(~again)
    sha = hashlib.sha256(b"\n".join(order))
    for column in ("series", "at"):
        sha.update(once[column].to_numpy().tobytes())
    sha.update((once.select(pl.col("text").str.join("\n")).item() or "").encode())
    return sha.hexdigest()
