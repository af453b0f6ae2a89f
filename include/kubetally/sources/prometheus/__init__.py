"""Prometheus (Thanos, VictoriaMetrics) as a source: past or present hours from stored samples.

`queries.py` names every series that is read, `client.py` asks for them, `families.py` turns answers
into statements, `intervals.py` holds the rules of time, `datasets.py` and `usage.py` the rows.
"""

from __future__ import annotations

from datetime import datetime

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.connections import get_connection
from kubetally.sources.prometheus.client import connect
from kubetally.sources.prometheus.collector import Collector
from kubetally.sources.rows import Collected
from kubetally.windows import Window

__all__ = ["collect"]


def collect(
    cluster: ClusterConfig, source: SourceConfig, window: Window, *, now: datetime
) -> Collected:
    """Everything the Prometheus behind `source.connection` says about `cluster` in `window`.

    What a moment says depends on the samples within five minutes of it, so windows compose: two
    hours asked for apart say what they say together (where exporters are doubled, either may be
    believed at a window's edge). A window that has not ended is
    cut at `now`. Rows are cut at the window; usage rows at whole hours. A query that fails leaves a
    gap for its dataset, the others go on. Raises ConfigError when the connection is wrong.
    """
    return Collector(connect(get_connection(source.connection)), source).collect(window, now)
