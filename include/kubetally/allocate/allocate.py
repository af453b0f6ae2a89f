"""Allocation of a staged window: node prices, direct cost lines, then each shared pool; a statement each.

Hours do not depend on each other, so a long window is cut among a few connections that work at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, Engine, text

from kubetally.allocate.drivers import load_drivers, sync_drivers
from kubetally.allocate.models import CASCADE, demand_models, load_models, sync_models
from kubetally.allocate.outages import load_outages, sync_outages
from kubetally.allocate.owners import load_owners, sync_owners
from kubetally.config import ClusterConfig, clusters
from kubetally.consolidate.stage import Stage, demand_staged, node_facts, spans_by_as_of
from kubetally.prices.book import stage_node_prices
from kubetally.warehouse.connect import lock, run_file
from kubetally.windows import HOUR, Window


def sync_config(engine: Engine, *, now: datetime) -> None:
    """Brings owners, cost models, drivers and outages from include/config/ into the warehouse, dated."""
    with engine.begin() as connection:
        lock(connection, "config")
        sync_models(connection, load_models(), now)
        sync_drivers(connection, load_drivers(), now)
        sync_outages(connection, load_outages(), now, clusters())
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


CONNECTIONS = 2
"""How many parts of a window are allocated at once; more only helps a server with cores to spare."""
PART_HOURS = 6


def allocate(engine: Engine, stage: Stage, cluster: ClusterConfig) -> int:
    """Writes the stage's cost lines for every cost model of the cluster; returns their number.

    Safe to repeat; what is published already stays as it is.
    """
    with engine.begin() as connection:
        if not demand_staged(connection, stage):
            written = connection.execute(
                text(f"select count(*) from mart.cost_hour where {_IN_STAGE}"),  # noqa: S608
                _hours(stage, stage.window),
            )
            return int(written.scalar_one())
        demand_models(connection, stage.stage_id, cluster)
        models = [_model(connection, name) for name in cluster.cost_models]
    parts = list(stage.window.chunks(PART_HOURS * HOUR))
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return sum(pool.map(lambda part: _allocate_part(engine, stage, part, models), parts))


_IN_STAGE = "stage_id = :stage_id and hour >= :start and hour < :end"


def _hours(stage: Stage, part: Window) -> dict[str, object]:
    return {"stage_id": stage.stage_id, "start": part.start, "end": part.end}


class _Model(NamedTuple):
    """What the versions of one cost model need: SQL files for direct lines, and which pools to pass on."""

    name: str
    files: list[str]
    shared_lines: list[str]


_FILE_OF_KIND = {
    "resource": "allocate/cost_hour.sql",
    "charge_back": "allocate/charge_back.sql",
}


def _model(connection: Connection, cost_model: str) -> _Model:
    kinds = connection.execute(
        text("select distinct kind from core.cost_model where cost_model = :cost_model"),
        {"cost_model": cost_model},
    ).scalars()
    lines = connection.execute(
        text(
            "select distinct line from core.share_policy join core.cost_model using (cost_model_key)"
            " where cost_model = :cost_model"
        ),
        {"cost_model": cost_model},
    ).scalars()
    files = sorted(_FILE_OF_KIND[kind] for kind in kinds)
    return _Model(cost_model, files, sorted(lines, key=CASCADE.index))


def _allocate_part(engine: Engine, stage: Stage, part: Window, models: Sequence[_Model]) -> int:
    hours = _hours(stage, part)
    rows = 0
    with engine.begin() as connection:
        # Rows just written have no statistics; a merge on the hour alone would compare all with all.
        connection.execute(text("set local enable_mergejoin = off"))
        connection.execute(text("set local enable_nestloop = off"))
        connection.execute(text("set local work_mem = '64MB'"))
        connection.execute(text(f"delete from mart.cost_hour where {_IN_STAGE}"), hours)  # noqa: S608
        for model in models:
            names = hours | {"cluster_key": stage.cluster_key, "cost_model": model.name}
            for file in model.files:
                rows += run_file(connection, file, names).rowcount
        run_file(connection, "allocate/virtual_pods.sql", hours)
        pools = set(
            connection.execute(
                text(
                    "select distinct line from mart.cost_hour"  # noqa: S608
                    f" where {_IN_STAGE} and owner = 'cluster' and cost is not null"
                ),
                hours,
            ).scalars()
        )
        for model in models:
            names = hours | {"cluster_key": stage.cluster_key, "cost_model": model.name}
            for line in filter(pools.__contains__, model.shared_lines):
                rows += run_file(connection, "allocate/share.sql", names | {"line": line}).rowcount
    return rows
