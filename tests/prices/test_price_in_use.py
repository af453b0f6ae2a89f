"""Which keys a window's nodes need, and that only those are looked up, each once."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from sqlalchemy import text

import scenes
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.demo.server import DemoServer
from kubetally.prices.in_use import look_up_in_use
from kubetally.sources.kubernetes.facts import is_virtual
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import land

SPOT_SHEET = """prices:
- {match: {capacity_type: spot}, discount_percent: "65", of: on_demand}
"""


@pytest.fixture
def cluster(warehouse, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBETALLY_CONFIG_DIR", str(tmp_path))
    (tmp_path / "sheet.yaml").write_text(SPOT_SHEET)
    land(engine("loader"), scenes.CLUSTER, scenes.collected(), now=scenes.NOW)
    with warehouse.engine.begin() as connection:
        for name, machine, provider, region, market in (
            ("node-a", "Standard_D2s_v3", "azure:///x", "eastus", "on_demand"),
            ("node-b", "m5.large", "aws:///eu-west-1a/i-1", "eu-west-1", "spot"),
        ):
            connection.execute(
                text(
                    "update raw.node_interval set instance_type = :machine, provider_id = :provider,"
                    " region = :region, capacity_type = :market where node = :name"
                ),
                {
                    "name": name,
                    "machine": machine,
                    "provider": provider,
                    "region": region,
                    "market": market,
                },
            )
    return ClusterConfig(
        "scene", (SourceConfig("prometheus", "kubetally_scene"),), price_sheet="sheet.yaml"
    )


def look_up(cluster, now=scenes.NOW):
    return look_up_in_use(
        engine("loader"), cluster, scenes.WINDOW, now=now, max_age=timedelta(hours=20)
    )


def test_the_keys_in_use_are_looked_up_once_and_a_failing_provider_stops_no_other(
    warehouse, cluster, monkeypatch
):
    with DemoServer() as demo:
        good = json.dumps({"conn_type": "http", "host": demo.url})
        monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_AWS_PRICES", good)
        broken = json.dumps({"conn_type": "http", "host": f"{demo.url}/nowhere"})
        monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_AZURE_PRICES", broken)
        found = look_up(cluster)
        # the spot machine, the on-demand price its discount is taken of, and the Azure one that failed
        assert {
            name: found[name] for name in ("keys", "priced", "unpriced", "failed", "not_known")
        } == {
            "keys": 3,
            "priced": 1,
            "unpriced": 1,
            "failed": 1,
            "not_known": 1,
        }
        assert found["percent"] == {
            "priced": 33.3,
            "unpriced": 33.3,
            "ambiguous": 0.0,
            "not_known": 33.3,
            "changed": 0.0,
        }
        assert list(found["failures"]) == ["azure/eastus/standard_d2s_v3/linux/on_demand"]
        monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_AZURE_PRICES", good)
        asked = demo.requests.copy()
        again = look_up(cluster, scenes.NOW + timedelta(hours=1))
        assert (again["looked_up"], again["fresh"], again["priced"]) == (1, 2, 2)
        news = {path: count - asked.get(path, 0) for path, count in demo.requests.items()}
        assert {path: count for path, count in news.items() if count} == {"/api/retail/prices": 1}
    with warehouse.engine.connect() as connection:
        stored = connection.execute(
            text("select provider, count(*) from core.price_snapshot group by provider order by 1")
        ).all()
    assert [tuple(row) for row in stored] == [("aws", 1), ("azure", 1)]


def test_autopilot_s_machines_are_virtual():
    assert is_virtual({}, "gce://project/europe-west1-b/gk3-autopilot-1-default-pool-5d1f-x")
    assert not is_virtual({}, "gce://project/europe-west1-b/gke-standard-1-default-pool-5d1f-x")
