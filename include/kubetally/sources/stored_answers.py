"""Stored answers of `query_range` (or of range selectors) as a server that can be asked again.

What the answers hold is found by metric name and by the plain `=` and `!=` matchers this project asks
with, so everything the Prometheus source knows about series, holds and doubled exporters applies. A series
without `__name__` (the result of a function) is what its file is called, where that is a metric's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import polars as pl

from kubetally.errors import BadDataError
from kubetally.sources.prometheus.client import EMPTY, Samples, decode_matrix
from kubetally.sources.prometheus.queries import table

METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(!?=)\s*"([^"\\]*)"\s*,?')


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    warnings: list[str] | None = None


def asked_names() -> frozenset[str]:
    """The metrics the Prometheus source asks for."""
    return frozenset(
        selector.promql.partition("{")[0]
        for query in table(None).values()
        for selectors in query.choices
        for selector in selectors
    )


class StoredAnswers:
    """Answers by metric name. Warnings a server gave (a store was missing) stay with their metric."""

    def __init__(self) -> None:
        self._told: dict[str, list[tuple[dict[str, str], pl.DataFrame]]] = {}
        self._warnings: dict[str, list[str]] = {}

    def add(self, name: str, body: bytes) -> None:
        """Takes in the answer in the file called `name`. Raises BadDataError where it is none."""
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadDataError(f"{name} is no answer of a Prometheus: {error}.") from error
        if answer.status != "success" or answer.data is None:
            raise BadDataError(f"{name} is an answer that failed ({answer.status}).")
        if answer.data.result_type != "matrix":
            raise BadDataError(
                f"{name} is a {answer.data.result_type or 'nothing'}, no matrix.",
                remedy="Store answers of query_range, or of a range selector.",
            )
        labels, samples = decode_matrix(answer.data.result, name)
        stem = name.split(".")[0]
        by_series = samples.partition_by("series", as_dict=True)
        for number, found in enumerate(labels):
            metric = found.get("__name__") or stem
            told = found | {"__name__": metric}
            self._told.setdefault(metric, []).append((told, by_series.get((number,), EMPTY)))
            self._warnings.setdefault(metric, []).extend(answer.warnings or ())

    def samples(self, selector: str, start_ms: int, end_ms: int) -> Samples:
        """As the server's: every sample of `selector` with `start_ms < at < end_ms`.

        One series in several answers is one series; a moment that two of them tell counts once.
        """
        metric, _, rest = selector.partition("{")
        matches = _matcher(rest.removesuffix("}"), selector)
        joined: dict[tuple[tuple[str, str], ...], list[pl.DataFrame]] = {}
        for labels, samples in self._told.get(metric, ()):
            if matches(labels):
                joined.setdefault(tuple(sorted(labels.items())), []).append(samples)
        frames = [
            pl.concat(parts)
            .filter(pl.col("at") > start_ms, pl.col("at") < end_ms)
            .unique("at", keep="last", maintain_order=True)
            .with_columns(pl.lit(number, dtype=pl.UInt32).alias("series"))
            for number, parts in enumerate(joined.values())
        ]
        warnings = tuple(dict.fromkeys(self._warnings.get(metric, ())))
        return Samples([dict(key) for key in joined], pl.concat(frames or [EMPTY]), warnings)

    def count_now(self, selector: str) -> int | None:
        """Nothing: what is stored has no present."""
        return None


def _matcher(text: str, selector: str) -> Callable[[dict[str, str]], bool]:
    wanted: list[tuple[str, str, str]] = []
    position = 0
    while position < len(text):
        found = _MATCHER.match(text, position)
        if found is None:
            raise BadDataError(f"{selector}: only `=` and `!=` can be asked of stored answers.")
        wanted.append((found[1], found[2], found[3]))
        position = found.end()
    return lambda labels: all(
        (labels.get(name, "") == value) is (operator == "=") for name, operator, value in wanted
    )
