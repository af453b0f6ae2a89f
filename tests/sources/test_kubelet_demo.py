"""Two looks at the demo cluster's kubelets become an hour in the warehouse; a broken node costs only itself."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from database import Warehouse
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate.stage import begin, consolidate
from kubetally.demo.faults import Faults
from kubetally.demo.server import DemoServer
from kubetally.sources import kubelet, kubernetes
from kubetally.sources.rows import Collected
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import land
from kubetally.windows import Window

CONNECTION = "kubetally_demo_kubelets"
START = datetime(2026, 11, 3, 10, 30, tzinfo=UTC)
CELLS = [
    Window(START + n * timedelta(minutes=5), START + (n + 1) * timedelta(minutes=5))
    for n in range(3)
]
HOUR = Window.of_hour(START)
CLUSTER = ClusterConfig(
    "demo",
    tuple(SourceConfig(kind, CONNECTION) for kind in ("kubernetes", "kubelet")),
)


@pytest.fixture(autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path_factory.mktemp("airflow")))


def look(cell: Window, patch: pytest.MonkeyPatch, faults: Faults | None = None) -> list[Collected]:
    now = cell.start + timedelta(seconds=7)
    with DemoServer(clock=lambda: now, faults=faults) as server:
        host = {"conn_type": "kubernetes", "host": f"{server.url}/kubernetes", "password": "token"}
        patch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(host))
        return [
            source.collect(CLUSTER, config, cell, now=now)
            for source, config in zip((kubernetes, kubelet), CLUSTER.sources, strict=True)
        ]


def test_looks_become_hours(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    for cell in CELLS:
        for collected in look(cell, monkeypatch):
            assert collected.gaps == []
            land(engine("loader"), CLUSTER, collected, now=cell.end)
    publisher = engine("publisher")
    stage = begin(publisher, CLUSTER, HOUR, "hourly", now=HOUR.end)
    assert consolidate(publisher, stage)["container_stats_hour"] > 0
    with publisher.connect() as connection:
        row = connection.execute(
            text(
                "select count(*) filter (where pod_key is null) as strangers,"
                " count(cpu_used_core_seconds) as used, sum(cpu_used_core_seconds) as cores,"
                " count(network_receive_bytes) as networks, sum(resets) as resets,"
                " max(covered_seconds) as longest, count(memory_limit_byte_seconds) as limited,"
                " count(*) filter (where memory_working_set_max_bytes > 0) as filled"
                " from core.container_stats_hour where stage_id = :stage_id"
            ),
            {"stage_id": stage.stage_id},
        ).one()
        doubled = connection.execute(
            text(
                "select count(*) from core.container_stats_hour where stage_id = :stage_id"
                " and container <> '' and network_receive_bytes is not null"
            ),
            {"stage_id": stage.stage_id},
        ).scalar()
    assert row.strangers == 0
    assert row.used > 10 and row.cores > 0
    assert row.networks > 0 and row.filled > 10
    assert 300 < row.longest <= 900
    assert doubled == 0


def test_a_broken_kubelet_costs_only_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = look(CELLS[0], monkeypatch)[1].batches[0]
    broken = look(CELLS[0], monkeypatch, Faults(broken_node="first"))[1].batches[0]
    (reject,) = broken.rejects
    left = whole.rows.filter(whole.rows["node"] != reject.object_name)
    assert 0 < left.height < whole.rows.height
    columns = left.columns
    assert broken.rows.sort(columns).equals(left.sort(columns))
