"""Allocation of a staged window: node prices, then every cost line in one statement per model."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Engine, text

from kubetally.allocate.models import load_models, model_keys, sync_models
from kubetally.allocate.owners import load_owners, sync_owners
from kubetally.config import ClusterConfig
from kubetally.consolidate.stage import Stage, node_facts, spans_by_as_of
from kubetally.prices.book import stage_node_prices
from kubetally.warehouse.connect import lock, run_file


def sync_config(engine: Engine, *, now: datetime) -> None:
    """Brings owners and cost models from include/config/ into the warehouse, dated."""
    with engine.begin() as connection:
        lock(connection, "config")
        sync_models(connection, load_models(), now)
        sync_owners(connection, load_owners(), now)


def price_nodes(engine: Engine, stage: Stage, cluster: ClusterConfig) -> None:
    """Resolves what every staged node costs, with the knowledge pinned for each hour."""
    with engine.begin() as connection:
        facts = node_facts(connection, stage, cluster)
        for as_of, window in list(spans_by_as_of(connection, stage)):
            stage_node_prices(connection, stage.stage_id, facts, cluster, window, as_of)


def allocate(engine: Engine, stage: Stage, cluster: ClusterConfig) -> int:
    """Writes the stage's cost lines for every cost model of the cluster; returns their number."""
    with engine.begin() as connection:
        connection.execute(text("set local enable_nestloop = off"))
        rows = 0
        for key in model_keys(connection, cluster, stage.window):
            rows += run_file(
                connection,
                "allocate/cost_hour.sql",
                {
                    "stage_id": stage.stage_id,
                    "cluster_key": stage.cluster_key,
                    "cost_model_key": key,
                },
            ).rowcount
        return rows
