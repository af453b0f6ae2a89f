"""Allocation of a staged window: node prices, then every cost line in one statement per model."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Engine, text

from kubetally.allocate.models import demand_models, load_models, sync_models
from kubetally.allocate.owners import load_owners, sync_owners
from kubetally.config import ClusterConfig, clusters
from kubetally.consolidate.stage import Stage, demand_staged, node_facts, spans_by_as_of
from kubetally.prices.book import stage_node_prices
from kubetally.warehouse.connect import lock, run_file
from kubetally.windows import Window


def sync_config(engine: Engine, *, now: datetime) -> None:
    """Brings owners and cost models from include/config/ into the warehouse, dated."""
    with engine.begin() as connection:
        lock(connection, "config")
        sync_models(connection, load_models(), now)
        sync_owners(connection, load_owners(), now, clusters())


def price_nodes(engine: Engine, stage: Stage, cluster: ClusterConfig) -> None:
    """Resolves what every staged node costs, with the knowledge pinned for each hour.

    Safe to repeat; what is published already stays as it is.
    """
    with engine.begin() as connection:
        if not demand_staged(connection, stage):
            return
        connection.execute(
            text("delete from core.node_price where stage_id = :stage_id"),
            {"stage_id": stage.stage_id},
        )
        spans = list(spans_by_as_of(connection, stage))
        for part, facts in node_facts(connection, stage, cluster).items():
            for as_of, span in spans:
                start, end = max(part.start, span.start), min(part.end, span.end)
                if start < end:
                    window = Window(start, end)
                    stage_node_prices(connection, stage.stage_id, facts, cluster, window, as_of)


def allocate(engine: Engine, stage: Stage, cluster: ClusterConfig) -> int:
    """Writes the stage's cost lines for every cost model of the cluster; returns their number.

    Safe to repeat; what is published already stays as it is.
    """
    hours = {
        "stage_id": stage.stage_id,
        "start": stage.window.start,
        "end": stage.window.end,
    }
    in_stage = "stage_id = :stage_id and hour >= :start and hour < :end"
    with engine.begin() as connection:
        if not demand_staged(connection, stage):
            written = connection.execute(
                text(f"select count(*) from mart.cost_hour where {in_stage}"),  # noqa: S608
                hours,
            )
            return int(written.scalar_one())
        demand_models(connection, stage.stage_id, cluster)
        connection.execute(text("set local enable_nestloop = off"))
        connection.execute(text(f"delete from mart.cost_hour where {in_stage}"), hours)  # noqa: S608
        rows = 0
        for name in cluster.cost_models:
            rows += run_file(
                connection,
                "allocate/cost_hour.sql",
                {
                    "stage_id": stage.stage_id,
                    "cluster_key": stage.cluster_key,
                    "cost_model": name,
                },
            ).rowcount
        run_file(connection, "allocate/virtual_pods.sql", hours)
        return rows
