"""Collects one cluster and window from its configured sources and lands what they say."""

from __future__ import annotations

import logging
from datetime import datetime

from sqlalchemy import Engine

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.errors import KubetallyError
from kubetally.sources.archive import archive
from kubetally.sources.rows import COST_DATASETS, Collected, Dataset, Gap
from kubetally.warehouse.land import Landed, land
from kubetally.windows import Window

log = logging.getLogger(__name__)


def collect_and_land(
    engine: Engine, cluster: ClusterConfig, window: Window, *, live: bool, now: datetime
) -> list[Landed]:
    """Reads the live sources (or those that know the past) and lands each by itself.

    A source that fails as a whole leaves a gap for every dataset and does not stop the others.
    """
    receipts: list[Landed] = []
    for source in cluster.sources:
        if source.is_backfillable == live:
            continue
        try:
            collected = read(cluster, source, window, now=now)
        except KubetallyError as error:
            log.warning("%s, source %s, %s: %s", cluster.name, source.kind, window, error)
            gaps = [Gap(dataset, window, str(error)) for dataset in datasets_of(source.kind)]
            collected = Collected(source.kind, gaps=gaps)
        for gap in collected.gaps:
            log.warning(
                "%s, %s of %s, %s: %s",
                cluster.name,
                gap.dataset,
                source.kind,
                gap.window,
                gap.reason,
            )
        receipts.append(land(engine, cluster, collected, now=now))
        archive(cluster.name, collected)
    return receipts


def datasets_of(kind: str) -> tuple[Dataset, ...]:
    """The datasets a kind of source is expected to bring."""
    if kind == "kubelet":
        return ("container_stats",)
    return COST_DATASETS if kind == "prometheus" else (*COST_DATASETS, "load_balancer")


def read(
    cluster: ClusterConfig, source: SourceConfig, window: Window, *, now: datetime
) -> Collected:
    """What one source says about the window."""
    if source.kind == "prometheus":
        from kubetally.sources import prometheus

        return prometheus.collect(cluster, source, window, now=now)
    if source.kind == "kubernetes":
        from kubetally.sources import kubernetes

        return kubernetes.collect(cluster, source, window, now=now)
    if source.kind == "kubelet":
        from kubetally.sources import kubelet

        return kubelet.collect(cluster, source, window, now=now)
    from kubetally.sources import files

    return files.collect(cluster, source, window, now=now)
