"""From the demo's price APIs to core.node_price: every node-hour costs what the demo says it does."""

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from price_pages import NodeFacts, utc
from sqlalchemy import text

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.demo.price_lists import GCP_KEY, price_parts
from kubetally.demo.scenario import Scenario
from kubetally.demo.server import DemoServer
from kubetally.prices import book
from kubetally.prices.key import LookupKey, lookup_key
from kubetally.windows import Window

WEEK = Window(utc(2026, 11, 2), utc(2026, 11, 10))  # holds a Wednesday noon: the price changes
NOW = utc(2026, 11, 10, 6)


def facts(one) -> NodeFacts:
    return NodeFacts(
        cluster="demo",
        uid=one.uid,
        node=one.name,
        provider_id=one.provider_id,
        labels=dict(one.labels),
        cpu_capacity_cores=Decimal(one.pool.cpu_millicores) / 1000,
        memory_capacity_bytes=Decimal(one.pool.memory_bytes),
        gpu_capacity=Decimal(one.pool.gpus),
    )


@pytest.mark.parametrize("provider", ["azure", "gcp"])
def test_every_node_hour_of_the_demo_costs_what_the_demo_says(warehouse, monkeypatch, provider):
    scenario = Scenario(provider=provider)
    start, end = int(WEEK.start.timestamp()), int(WEEK.end.timestamp())
    machines = dict(enumerate(scenario.nodes(start, end), start=1))
    nodes = {number: facts(machine) for number, machine in machines.items()}
    cluster = ClusterConfig(
        "demo", (SourceConfig("prometheus", "x"),), price_sheet="price_sheets/demo.yaml"
    )
    keys = [found for one in nodes.values() if isinstance(found := lookup_key(one), LookupKey)]
    with DemoServer(scenario) as server, warehouse.engine.begin() as connection:
        for name, password in (("azure", ""), ("gcp", GCP_KEY)):
            monkeypatch.setenv(
                f"AIRFLOW_CONN_KUBETALLY_{name.upper()}_PRICES",
                json.dumps({"conn_type": "http", "host": server.url, "password": password}),
            )
        summary = book.ensure(connection, keys, now=NOW, max_age=timedelta(hours=20))
        book.stage_node_prices(connection, 1, nodes, cluster, WEEK, NOW)
        found = {
            (row.node_key, int(row.hour.timestamp())): row
            for row in connection.execute(
                text(
                    "select node_key, hour, state, price_per_hour, cpu_price_per_hour,"
                    " memory_price_per_hour, gpu_price_per_hour from core.node_price,"
                    " generate_series(lower(during), upper(during) - interval '1 hour',"
                    " interval '1 hour') as hour where stage_id = 1"
                )
            )
        }
    assert summary["failed"] == 0, summary
    assert len(found) == len(machines) * 8 * 24
    prices = set()
    for (number, hour), row in found.items():
        expected = price_parts(scenario, machines[number], hour)
        assert expected is not None
        assert (row.state, row.price_per_hour) == ("priced", sum(expected.values()))
        if "cpu" in expected:
            assert row.cpu_price_per_hour == expected["cpu"]
            assert row.memory_price_per_hour == expected["memory"]
        else:
            assert row.cpu_price_per_hour is None
        prices.add(row.price_per_hour)
    if provider == "azure":
        assert {Decimal("0.192"), Decimal("0.2016")} <= prices
