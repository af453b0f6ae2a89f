"""Looks over every source of a cluster; one that fails or answers junk costs only its own lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.doctor import kubernetes, prices, prometheus
from kubetally.doctor.findings import Finding, failure
from kubetally.errors import KubetallyError
from kubetally.sources.collect import read
from kubetally.sources.rows import Collected
from kubetally.windows import HOUR, Window, floor


def examine(cluster: ClusterConfig, warehouse: Engine, *, now: datetime) -> Iterator[Finding]:
    """Findings in the order of the configuration, as they come: each source, what it would bring,
    then prices. Nothing is written anywhere."""
    nodes: list[dict[str, Any]] = []
    for source in cluster.sources:
        yield from _guarded(source.kind, lambda source=source: _probe(source, now))  # type: ignore[misc]
        if source.kind == "kubelet":
            continue
        window = trial_window(source, now)
        try:
            collected = read(cluster, source, window, now=now)
        except KubetallyError as error:
            yield failure(source.kind, error)
            continue
        yield from brought(source.kind, collected, window)
        nodes = nodes or [
            row
            for batch in collected.batches
            if batch.dataset == "node"
            for row in batch.rows.to_dicts()
        ]
    yield from _guarded("prices", lambda: prices.probe(warehouse, cluster, nodes, now))


def trial_window(source: SourceConfig, now: datetime) -> Window:
    """The last whole hour of what knows the past, the running cell of what does not."""
    if source.is_backfillable:
        return Window(floor(now, HOUR) - HOUR, floor(now, HOUR))
    cell = timedelta(seconds=source.interval_seconds)
    return Window(floor(now, cell), floor(now, cell) + cell)


def brought(about: str, collected: Collected, window: Window) -> Iterator[Finding]:
    """What a collection of one window would land: rows, gaps and rejects."""
    for batch in collected.batches:
        yield Finding("OK", about, f"{batch.rows.height} rows of {batch.dataset} for {window}")
        if batch.rejects:
            first = batch.rejects[0]
            yield Finding(
                "WARN",
                about,
                f"{len(batch.rejects)} {batch.dataset} objects are left out, the first:"
                f" {first.object_name}: {first.reason}",
            )
    for reason in dict.fromkeys(gap.reason for gap in collected.gaps):
        datasets = ", ".join(gap.dataset for gap in collected.gaps if gap.reason == reason)
        yield Finding("WARN", about, f"A gap in {datasets}: {reason}")


def _probe(source: SourceConfig, now: datetime) -> Iterable[Finding]:
    if source.kind == "prometheus":
        return prometheus.probe(source, now)
    if source.kind == "kubernetes":
        return kubernetes.probe_api(source)
    if source.kind == "kubelet":
        return kubernetes.probe_kubelet(source)
    return ()


def _guarded(about: str, probe: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from probe()
    except KubetallyError as error:
        yield failure(about, error)
