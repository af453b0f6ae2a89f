"""The live Kubernetes API: what the cluster is now, stated over the polling cell that holds now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.errors import KubetallyError
from kubetally.sources.kubernetes.client import connect
from kubetally.sources.kubernetes.objects import Page
from kubetally.sources.kubernetes.pages import Resource, list_pages
from kubetally.sources.kubernetes.snapshot import DATASETS, collect_snapshot
from kubetally.sources.rows import Collected, Gap
from kubetally.windows import Window, iso

SOURCE = "kubernetes"
LONGEST_CELL = timedelta(hours=1)


def collect(
    cluster: ClusterConfig, source: SourceConfig, window: Window, *, now: datetime
) -> Collected:
    """Namespaces, nodes, pods, volumes and usage (metrics.k8s.io) over the polling cell `window`.

    The API knows the present only: a window that does not hold `now`, give or take one cell of
    lateness, comes back as gaps. So does every list that cannot be read; the others land.
    """
    problem = not_the_present(window, now)
    if not problem:
        try:
            client = connect(source.connection, source.context)
        except KubetallyError as error:
            problem = str(error)
    if problem:
        return Collected(SOURCE, gaps=[Gap(dataset, window, problem) for dataset in DATASETS])

    def pages(resource: Resource) -> Iterable[Page]:
        return list_pages(client.get, resource)

    try:
        return collect_snapshot(SOURCE, pages, window=window, cell=window)
    finally:
        client.close()


def not_the_present(window: Window, now: datetime) -> str:
    """Why a live answer cannot speak for `window`; empty where it can."""
    length = window.end - window.start
    if length > LONGEST_CELL:
        return (
            f"A live API cannot answer for {window}: one look holds for a polling cell, at most "
            "an hour. Read whole days from Prometheus or files."
        )
    if not window.start <= now < window.end + length:
        return (
            f"A live API knows the present only ({iso(now)}), not {window}. Read the past from "
            "Prometheus or files."
        )
    return ""
