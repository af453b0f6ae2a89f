"""The demo company's day passes every gate: no check cries wolf over a day without faults."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from kubetally.allocate.allocate import allocate, price_nodes, sync_config
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate.stage import begin, consolidate
from kubetally.demo.scenario import Scenario
from kubetally.demo.server import DemoServer
from kubetally.quality.gate import run_gate
from kubetally.sources import prometheus
from kubetally.warehouse.land import land
from kubetally.windows import Window

DAY = Window.of_day(date(2026, 11, 4))
NOW = DAY.end + timedelta(hours=3)
SOURCE = SourceConfig("prometheus", "kubetally_demo_prometheus", interval_seconds=60)
# No price lists here: every machine costs the cluster's rate.
CLUSTER = ClusterConfig("demo", (SOURCE,), hourly_rate="0.5")


def test_a_demo_day_passes_every_gate(warehouse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with DemoServer(Scenario(), clock=lambda: NOW) as server:
        monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_DEMO_PROMETHEUS", f'{{"host": "{server.url}"}}')
        land(
            warehouse.engine_as("loader"),
            CLUSTER,
            prometheus.collect(CLUSTER, SOURCE, DAY, now=NOW),
            now=NOW,
        )
    raw = run_gate("raw", CLUSTER, DAY, stage_id=None, now=NOW)
    publisher = warehouse.engine_as("publisher")
    sync_config(publisher, now=NOW)
    stage = begin(publisher, CLUSTER, DAY, "daily", now=NOW)
    consolidate(publisher, stage)
    core = run_gate("core", CLUSTER, DAY, stage_id=stage.stage_id, now=NOW)
    price_nodes(publisher, stage, CLUSTER)
    allocate(publisher, stage, CLUSTER)
    costs = run_gate("costs", CLUSTER, DAY, stage_id=stage.stage_id, now=NOW)
    assert (raw.warnings, core.warnings, costs.warnings) == ((), (), ())
