"""Prometheus' text format and OpenMetrics, as exporters and the kubelet write them.

A strict small parser over bytes: `prometheus_client`'s reads about a tenth as fast, which matters at
several hundred kilobytes a node. A line that is none is a reject with its text; the others count.
Values stay text until they are known to be finite numbers: nothing passes through a float.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from kubetally.sources.rows import Dataset, Reject

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_LINE = 64 * 1024
LARGEST = Decimal(10) ** 30

_LINE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(?:\{(.*)\})?[ \t]*"
    r"([^\s{}#]+)(?:[ \t]+([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?))?(?:[ \t]+#.*)?[ \t]*"
)
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r'\\([\\n"])')


class Sample(NamedTuple):
    """One sample: name, labels, exact value, and its own time where it has one."""

    name: str
    labels: dict[str, str]
    value: Decimal
    sampled_at: datetime | None


def parse(
    body: bytes, names: Collection[str], dataset: Dataset, rejects: list[Reject]
) -> Iterator[Sample]:
    """The samples of the families `names`; NaN is no sample, a line that is not one is a reject.

    OpenMetrics (it ends with `# EOF`) counts times in seconds, the older format in milliseconds.
    """
    text = body.decode("utf-8", "replace")
    in_seconds = text.rstrip().endswith("# EOF")
    for line in text.split("\n"):
        if not line or line[0] == "#" or line.isspace():
            continue
        end = line.find("{")
        name = line[:end] if end > 0 else line.split(maxsplit=1)[0]
        if name.rstrip() not in names and _is_name(name):
            continue
        try:
            sample = _sample(line, in_seconds)
        except (ValueError, InvalidOperation, OverflowError) as error:
            rejects.append(Reject(dataset, name[:512], f"not a sample: {error}.", line[:2000]))
            continue
        if sample is not None and sample.name in names:
            yield sample


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*[ \t]*", text) is not None


def _sample(line: str, in_seconds: bool) -> Sample | None:
    found = _LINE.fullmatch(line.rstrip("\r")) if len(line) <= LONGEST_LINE else None
    if found is None:
        raise ValueError("it is not `name{labels} value`")
    name, labels_text, value_text, time_text = found.groups()
    labels = _labels(labels_text or "")
    if value_text.lower().lstrip("+-") in {"nan", "inf", "infinity"}:
        return None
    value = Decimal(value_text)
    if not value.is_finite() or abs(value) > LARGEST:
        raise ValueError(f"{value_text[:40]} is beyond any counter")
    sampled_at = None
    if time_text is not None:
        seconds = Decimal(time_text) if in_seconds else Decimal(time_text) / 1000
        sampled_at = EPOCH + timedelta(microseconds=int(seconds * 1_000_000))
    return Sample(name, labels, value, sampled_at)


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _LABEL.match(text, position)
        if found is None:
            if text[position:].strip():
                raise ValueError(f"its labels break at {text[position : position + 40]!r}")
            break
        value = found.group(2)
        if "\\" in value:
            value = _ESCAPE.sub(lambda escape: {"n": "\n"}.get(escape[1], escape[1]), value)
        labels[found.group(1)] = value.replace("\0", "\ufffd")
        position = found.end()
    return labels
