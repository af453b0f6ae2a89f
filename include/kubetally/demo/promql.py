"""The corner of the Prometheus HTTP API that a reader of raw samples needs.

Pure: (scenario, parameters, now, late, gaps) in, a JSON body out. Understood are selectors
`name{label="v", other=~"re", third!=""}` with an optional `[range]`, `count(selector)` and numbers;
everything else is answered as Prometheus answers a query it cannot parse. Ranges are closed at both
ends, as Prometheus 2 has them. Series end with a staleness marker, so an instant query never sees
a series that the latest scrape did not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kubetally.demo import series
from kubetally.demo.scenario import Scenario, grid

POINTS_LIMIT = 11_000
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
SELECTOR = re.compile(
    r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*(\{.*\})?\s*(?:\[\s*([0-9dhms]+)\s*\])?\s*", re.S
)
MATCHER = re.compile(
    r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*(,|$)"""
)
COUNT = re.compile(r"\s*count\s*\((.*)\)\s*", re.S)
NUMBER = re.compile(r"\s*(?:vector\(\s*)?([0-9]+(?:\.[0-9]+)?)\s*\)?\s*")


class QueryError(Exception):
    """A query Prometheus would refuse: HTTP status, errorType and text."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "bad_data") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    def body(self) -> bytes:
        return json.dumps(
            {"status": "error", "errorType": self.kind, "error": str(self)}, separators=(",", ":")
        ).encode()


@dataclass(frozen=True)
class Visibility:
    """Which samples can be seen: none after `now`; late ones only once they have arrived.

    Samples newer than `late_after` are hidden until `late_until`; `gaps` are windows [start, end)
    without any sample.
    """

    now: int
    late_after: int | None = None
    late_until: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()

    def shows(self, moment: int) -> bool:
        if moment > self.now:
            return False
        is_late = self.late_after is not None and moment > self.late_after
        if is_late and (self.late_until is None or self.now < self.late_until):
            return False
        return not any(start <= moment < end for start, end in self.gaps)


@dataclass(frozen=True)
class Selector:
    """A parsed vector selector."""

    name: str | None
    matchers: tuple[tuple[str, str, str], ...]
    range_seconds: int | None

    def matches(self, labels: dict[str, str]) -> bool:
        for label, operator, wanted in self.matchers:
            found = labels.get(label, "")
            if operator == "=":
                fits = found == wanted
            elif operator == "!=":
                fits = found != wanted
            else:
                fits = (re.fullmatch(wanted, found) is not None) == (operator == "=~")
            if not fits:
                return False
        return True

    def names(self) -> list[str]:
        """The metrics it can select."""
        if self.name is not None:
            return [self.name]
        return [name for name in series.names() if self.matches_name(name)]

    def matches_name(self, name: str) -> bool:
        only = tuple(m for m in self.matchers if m[0] == "__name__")
        return Selector(None, only, None).matches({"__name__": name})


def parse(query: str) -> Selector:
    """The selector a query consists of. Raises QueryError for everything else."""
    if not query.strip():
        raise QueryError(
            'invalid parameter "query": unknown position: parse error: no expression found in input'
        )
    found = SELECTOR.fullmatch(query)
    if found is None or (found[1] is None and found[2] is None):
        raise QueryError(
            f'invalid parameter "query": 1:1: parse error: unexpected input {query.strip()[:40]!r}'
        )
    matchers: list[tuple[str, str, str]] = []
    if found[2] is not None:
        rest = found[2][1:-1].strip()
        while rest:
            part = MATCHER.match(rest)
            if part is None:
                raise QueryError(
                    f'invalid parameter "query": 1:1: parse error: unexpected character inside braces: {rest[:1]!r}'
                )
            text = re.sub(r"\\(.)", _unescape, part[3][1:-1])
            if part[2] in ("=~", "!~"):
                try:
                    re.compile(text)
                except re.error as error:
                    raise QueryError(
                        f'invalid parameter "query": error parsing regexp: {error}'
                    ) from error
            matchers.append((part[1], part[2], text))
            rest = rest[part.end() :].strip()
    if found[1] is None and all(_matches_empty(matcher) for matcher in matchers):
        raise QueryError(
            'invalid parameter "query": 1:1: parse error: vector selector must contain at least one non-empty matcher'
        )
    return Selector(
        found[1], tuple(matchers), None if found[3] is None else int(parse_duration(found[3]))
    )


def _unescape(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(found[1], found[1])


def _matches_empty(matcher: tuple[str, str, str]) -> bool:
    return Selector(None, (matcher,), None).matches({})


def parse_duration(text: str) -> float:
    """Seconds of a duration (`90`, `1.5`, `5m`, `1h30m`). Raises QueryError."""
    try:
        return float(text)
    except ValueError:
        found = DURATION.fullmatch(text)
        if found is None or not text:
            raise QueryError(
                f'invalid parameter "step": cannot parse "{text}" to a valid duration'
            ) from None
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds


def parse_time(text: str, name: str) -> float:
    """Seconds since the epoch, from seconds or RFC 3339. Raises QueryError."""
    try:
        return float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise QueryError(
                f'invalid parameter "{name}": cannot parse "{text}" to a valid timestamp'
            ) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def instant(scenario: Scenario, query: str, moment: float, visible: Visibility) -> bytes:
    """The body of /api/v1/query: a vector, or a matrix of raw samples for a range selector."""
    literal = NUMBER.fullmatch(query)
    if literal:
        if "vector" in query:
            return _success(
                "vector", [f'{{"metric":{{}},"value":[{_time(moment)},"{literal[1]}"]}}']
            )
        return _success("scalar", None, f'[{_time(moment)},"{literal[1]}"]')
    counting = COUNT.fullmatch(query)
    selector = parse(counting[1] if counting else query)
    step = scenario.scrape_interval_seconds
    rows = []
    if selector.range_seconds is not None:
        if counting:
            raise QueryError(
                'invalid parameter "query": 1:7: parse error: expected type instant vector in '
                "aggregation expression, got range vector"
            )
        start = int(-(-(moment - selector.range_seconds) // 1))
        times = [t for t in grid(start, int(moment) + 1, step) if visible.shows(t)]
        printer = _Printer(times)
        for one in _selected(scenario, selector, times):
            inside = _inside(times, one.start, one.end)
            if inside:
                rows.append(printer.row(one, inside, inside))
        return _success("matrix", rows)
    sample = int(moment) // step * step
    if not visible.shows(sample):
        sample = _last_visible(visible, sample, step)
    if sample >= 0:
        for one in _selected(scenario, selector, [sample]):
            if one.start <= sample < one.end:
                value = one.values if isinstance(one.values, str) else one.values([sample])[0]
                rows.append(f'{{"metric":{one.json},"value":[{_time(moment)},"{value}"]}}')
    if counting:
        count = len(rows)
        rows = [f'{{"metric":{{}},"value":[{_time(moment)},"{count}"]}}'] if count else []
    return _success("vector", rows)


def over_range(
    scenario: Scenario, query: str, start: float, end: float, step: float, visible: Visibility
) -> bytes:
    """The body of /api/v1/query_range: the value of every series at start, start + step, … end."""
    if step <= 0:
        raise QueryError(
            'invalid parameter "step": zero or negative query resolution step widths are not '
            "accepted. Try a positive integer"
        )
    if end < start:
        raise QueryError('invalid parameter "end": end timestamp must not be before start time')
    if int((end - start) / step) > POINTS_LIMIT:
        raise QueryError(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the "
            "query resolution (?step=XX)"
        )
    counting = COUNT.fullmatch(query)
    selector = parse(counting[1] if counting else query)
    if selector.range_seconds is not None:
        raise QueryError(
            'invalid parameter "query": invalid expression type "range vector" for range query, '
            "must be Scalar or instant Vector"
        )
    scrape = scenario.scrape_interval_seconds
    moments: list[float] = []
    samples: list[int] = []
    for n in range(int((end - start) / step) + 1):
        moment = start + n * step
        sample = int(moment) // scrape * scrape
        if not visible.shows(sample):
            sample = _last_visible(visible, sample, scrape)
        if sample >= 0:
            moments.append(moment)
            samples.append(sample)
    printer = _Printer(moments)
    rows = []
    counts: dict[float, int] = {}
    for one in _selected(scenario, selector, samples):
        picked = [(m, s) for m, s in zip(moments, samples, strict=True) if one.start <= s < one.end]
        if counting:
            for moment, _ in picked:
                counts[moment] = counts.get(moment, 0) + 1
        elif picked:
            whole = len(picked) == len(moments)
            rows.append(
                printer.row(
                    one,
                    samples if whole else [s for _, s in picked],
                    moments if whole else [m for m, _ in picked],
                )
            )
    if counts:
        pairs = ",".join(f'[{_time(m)},"{n}"]' for m, n in sorted(counts.items()))
        rows = [f'{{"metric":{{}},"values":[{pairs}]}}']
    return _success("matrix", rows)


def label_names(scenario: Scenario, now: int) -> bytes:
    """The body of /api/v1/labels."""
    found: set[str] = set()
    for name in series.names():
        for one in series.series(scenario, name, now, now):
            found.update(one.labels)
    return _plain(sorted(found))


def label_values(scenario: Scenario, label: str, now: int) -> bytes:
    """The body of /api/v1/label/<name>/values."""
    if label == "__name__":
        return _plain(series.names())
    found = {
        one.labels[label]
        for name in series.names()
        for one in series.series(scenario, name, now, now)
        if label in one.labels
    }
    return _plain(sorted(found))


def series_list(scenario: Scenario, queries: Sequence[str], start: int, end: int) -> bytes:
    """The body of /api/v1/series."""
    if not queries:
        raise QueryError("no match[] parameter provided")
    found = []
    for query in queries:
        selector = parse(query)
        found += [one.json for one in _selected(scenario, selector, [start, end])]
    return b'{"status":"success","data":[' + ",".join(found).encode() + b"]}"


def _plain(data: object) -> bytes:
    return json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()


def _selected(scenario: Scenario, selector: Selector, times: Sequence[int]) -> list[series.Series]:
    if not times:
        return []
    return [
        one
        for name in selector.names()
        for one in series.series(scenario, name, times[0], times[-1])
        if selector.matches(one.labels)
    ]


def _inside(times: list[int], start: int, end: int) -> list[int]:
    if times and start <= times[0] and times[-1] < end:
        return times
    return [t for t in times if start <= t < end]


def _last_visible(visible: Visibility, sample: int, step: int) -> int:
    """The newest sample within the look-back of five minutes that can be seen, else -1."""
    for candidate in range(sample, sample - 300, -step):
        if visible.shows(candidate):
            return candidate
    return -1


class _Printer:
    """Prints matrix rows; what many rows share is printed once."""

    def __init__(self, moments: Sequence[float]) -> None:
        self.moments = moments
        self.stamps = [_time(m) for m in moments]
        self.constant: dict[str, str] = {}

    def row(self, one: series.Series, samples: Sequence[int], moments: Sequence[float]) -> str:
        values = one.values if isinstance(one.values, str) else one.values(samples)
        is_whole = moments is self.moments
        stamps = self.stamps if is_whole else [_time(m) for m in moments]
        if not isinstance(values, str):
            pairs = "],[".join([f'{m},"{v}"' for m, v in zip(stamps, values, strict=True)])
        elif is_whole and values in self.constant:
            pairs = self.constant[values]
        else:
            pairs = f',"{values}"],['.join(stamps) + f',"{values}"'
            if is_whole:
                self.constant[values] = pairs
        return f'{{"metric":{one.json},"values":[[{pairs}]]}}'


def _time(moment: float) -> str:
    """Seconds with at most three decimals, whole where they are."""
    if moment == int(moment):
        return str(int(moment))
    return f"{moment:.3f}"


def _success(kind: str, rows: list[str] | None, data: str = "") -> bytes:
    result = data if rows is None else "[" + ",".join(rows) + "]"
    return f'{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}'.encode()
