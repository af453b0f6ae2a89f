"""Asks every query, a few hours at a time, and puts the batches together; memory holds one answer at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import polars as pl

from kubetally.config import SourceConfig
from kubetally.errors import KubetallyError
from kubetally.sources.prometheus import datasets
from kubetally.sources.prometheus.client import Samples, Server
from kubetally.sources.prometheus.families import INTERVALS, Family, Heard, hear
from kubetally.sources.prometheus.intervals import Rhythm, union
from kubetally.sources.prometheus.queries import Query, Selector, table
from kubetally.sources.prometheus.usage import usage_of
from kubetally.sources.rows import COST_DATASETS, SCHEMAS, Batch, Collected, Dataset, Gap, Reject
from kubetally.windows import HOUR, Window, floor

DATASETS = COST_DATASETS
_MILLISECOND = timedelta(milliseconds=1)

# One answer is asked to hold at most about this many samples (some 200 MB while it is read).
MOST_SAMPLES = 1_500_000
MOST_HOURS = 24

# The query that says what exists; the others only say more about it.
EXISTENCE: dict[Dataset, tuple[str, ...]] = {
    "pod": ("pod_info",),
    "node": ("node_info",),
    "namespace": ("namespace_created",),
    "volume": ("volume_capacity", "claim_info"),
    "usage": ("cpu_used", "memory_used"),
}
_ROWS: dict[Dataset, Callable[[datasets.Families], datasets.Rows]] = {
    "pod": datasets.pods,
    "node": datasets.nodes,
    "namespace": datasets.namespaces,
    "volume": datasets.volumes,
}
_USAGE = EXISTENCE["usage"]
NO_PODS = pl.DataFrame(schema=dict.fromkeys(("namespace", "pod", "uid"), pl.String))


@dataclass
class Collector:
    """One collection of one window from one server."""

    server: Server
    source: SourceConfig
    overrides: Mapping[str, str] | None = None
    _gaps: list[Gap] = field(default_factory=list, init=False)
    _largest: int = field(default=0, init=False)

    def collect(self, window: Window, now: datetime) -> Collected:
        """The batches and gaps of `window`, up to `now`."""
        queries = table(self.overrides)
        collected = Collected("prometheus")
        if window.start >= now:
            collected.gaps = [Gap(d, window, "the window has not begun") for d in DATASETS]
            return collected
        asked = window if window.end <= now else Window(window.start, now)
        rhythm = Rhythm.of(self.source.interval_seconds)
        families = {name: Family(query) for name, query in queries.items()}
        usage: list[pl.DataFrame] = []
        usage_covers = [pl.DataFrame(schema=INTERVALS)]
        start, hours = asked.start, 1
        while start < asked.end:
            chunk = Window(start, min(floor(start, HOUR) + hours * HOUR, asked.end))
            rows, covered = self._hear_chunk(chunk, families, rhythm)
            usage.append(rows)
            usage_covers.append(covered)
            start, hours = chunk.end, self._hours_at_once(chunk)
        for dataset, build in _ROWS.items():
            telling = [families[name].covered for name in EXISTENCE[dataset]]
            self._land(
                collected,
                dataset,
                asked,
                families,
                union(pl.concat(telling)),
                partial(build, families),
            )
        used = partial(_used, usage)
        self._land(collected, "usage", asked, families, union(pl.concat(usage_covers)), used)
        collected.gaps = _joined(self._gaps)
        return collected

    def _hours_at_once(self, chunk: Window) -> int:
        """How many hours to ask for next, by the largest answer so far: few requests, flat memory."""
        hours = max(1, chunk.seconds // 3600)
        return max(1, min(MOST_HOURS, hours * MOST_SAMPLES // max(1, self._largest)))

    def _hear_chunk(
        self, chunk: Window, families: Mapping[str, Family], rhythm: Rhythm
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Ask everything about one chunk; the usage rows of it and what they cover."""
        start, end = _ms(chunk.start), _ms(chunk.end)
        self._largest = 0
        heard: dict[str, Heard] = {}
        pods = NO_PODS
        for name, family in families.items():
            answer = self._ask(family.query, chunk, rhythm)
            if answer is None:
                family.failed = True
                continue
            one, is_complete = answer
            if name in _USAGE:
                family.note(one)
                heard[name] = one
                continue
            held = family.add(one, start, end, rhythm, complete=is_complete)
            if name == "pod_info":
                pods = held.select("namespace", "pod", "uid")
        return usage_of(heard.get("cpu_used"), heard.get("memory_used"), pods, start, end, rhythm)

    def _ask(self, query: Query, chunk: Window, rhythm: Rhythm) -> tuple[Heard, bool] | None:
        """What one query is told for one chunk, and whether the answer was complete.

        Older names are asked only where the newer ones do not fill the chunk.
        """
        start, end = _ms(chunk.start) - rhythm.hold_ms, _ms(chunk.end) + rhythm.hold_ms
        told: list[tuple[Selector, Samples]] = []
        warnings: list[str] = []
        try:
            for selectors in query.choices:
                for selector in selectors:
                    samples = self.server.samples(selector.promql, start, end)
                    told.append((selector, samples))
                    self._largest = max(self._largest, samples.samples.height)
                    warnings.extend(samples.warnings)
                if selectors is not query.choices[-1] and _fills(told, chunk, rhythm):
                    break
            heard = hear(query, told)
        except KubetallyError as error:
            self._gaps.append(Gap(query.dataset, chunk, f"{query.name}: {error}"))
            return None
        for warning in dict.fromkeys(warnings):
            self._gaps.append(
                Gap(query.dataset, chunk, f"{query.name}: the answer is incomplete: {warning}")
            )
        return heard, not warnings

    def _land(
        self,
        collected: Collected,
        dataset: Dataset,
        window: Window,
        families: Mapping[str, Family],
        covered: pl.DataFrame,
        build: Callable[[], datasets.Rows],
    ) -> None:
        mine = [family for family in families.values() if family.query.dataset == dataset]
        telling = [families[name] for name in EXISTENCE[dataset]]
        if covered.is_empty() and not any(part.height for f in telling for part in f.parts):
            if not all(family.failed for family in telling):
                self._gaps.append(Gap(dataset, window, self._why_empty(telling)))
            return
        if dataset == "pod":
            self._miss_requests(window, families)
        try:
            rows, rejects = build()
        except (KubetallyError, pl.exceptions.PolarsError) as error:
            self._gaps.append(Gap(dataset, window, f"the answers do not fit together: {error}"))
            return
        sha = hashlib.sha256()
        for family in mine:
            for digest in family.digests:
                sha.update(f"{family.query.name} {digest}\n".encode())
        collected.batches.append(
            Batch(
                dataset,
                window,
                rows,
                tuple((_time(start), _time(end)) for start, end in covered.rows()),
                sha.hexdigest(),
                _once([*(reject for family in mine for reject in family.rejects), *rejects]),
            )
        )

    def _miss_requests(self, window: Window, families: Mapping[str, Family]) -> None:
        """Pods whose requests nobody tells are landed without; that is a gap, not a zero."""
        telling = [families["container_request"], families["pod_request"]]
        if all(family.covered.is_empty() and not family.failed for family in telling):
            names = " nor ".join(family.query.choices[0][0].promql for family in telling)
            self._gaps.append(
                Gap("pod", window, f"neither {names} has samples: requests not known")
            )

    def _why_empty(self, telling: Iterable[Family]) -> str:
        reasons = []
        for family in telling:
            selector = family.query.choices[0][0].promql
            there = self.server.count_now(selector)
            if there:
                reasons.append(
                    f"{selector} has no samples in this window, though it has {there} series now:"
                    " it was not collected yet, or is past the retention"
                )
            else:
                reasons.append(
                    f"{selector} has no samples: check that kube-state-metrics and the kubelets"
                    " are scraped by this Prometheus"
                )
        return "; ".join(reasons)


def _used(chunks: list[pl.DataFrame]) -> datasets.Rows:
    return pl.concat([pl.DataFrame(schema=pl.Schema(SCHEMAS["usage"])), *chunks]), []


def _fills(told: Iterable[tuple[Selector, Samples]], chunk: Window, rhythm: Rhythm) -> bool:
    """Whether samples of some series leave no part of the chunk open."""
    at = pl.concat([samples.samples["at"] for _, samples in told]).unique().sort()
    if at.is_empty():
        return False
    steps = at.diff().fill_null(0)
    reaches = at[0] <= _ms(chunk.start) and at[-1] + rhythm.interval_ms >= _ms(chunk.end)
    return reaches and bool((steps <= rhythm.hold_ms).all())


def _joined(gaps: Iterable[Gap]) -> list[Gap]:
    """Gaps of one dataset and reason that touch, as one."""
    joined: list[Gap] = []
    for gap in sorted(gaps, key=lambda g: (g.dataset, g.reason, g.window)):
        last = joined[-1] if joined else None
        if (
            last
            and (last.dataset, last.reason) == (gap.dataset, gap.reason)
            and gap.window.start <= last.window.end
        ):
            end = max(last.window.end, gap.window.end)
            joined[-1] = Gap(gap.dataset, Window(last.window.start, end), gap.reason)
        else:
            joined.append(gap)
    return joined


def _once(rejects: Iterable[Reject]) -> tuple[Reject, ...]:
    """The first reject of each object and kind of reason; numbers differ from hour to hour."""
    return tuple({(r.object_name, r.reason.lstrip("0123456789 ")): r for r in rejects}.values())


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, tz=UTC) + (ms % 1000) * _MILLISECOND
