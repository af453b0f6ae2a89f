"""What each task of the cost DAGs calls: one function per stage, receipts in and out.

The order is collect → gate raw → look up prices → consolidate → gate core → allocate → gate costs →
publish. Every function opens its own connections, so that a task can be run again by itself.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from kubetally import config
from kubetally.allocate.allocate import allocate as allocate_stage
from kubetally.allocate.allocate import price_nodes, sync_config
from kubetally.consolidate import stage as staging
from kubetally.errors import StaleStageError
from kubetally.prices.in_use import look_up_in_use
from kubetally.quality.gate import run_gate
from kubetally.sources.collect import collect_and_land
from kubetally.warehouse import publish as publishing
from kubetally.warehouse.connect import engine
from kubetally.windows import Window

log = logging.getLogger(__name__)
Gate = Literal["raw", "core", "costs"]
RESTAGES = 3
PRICES_STAY_FRESH = timedelta(hours=20)


def collect(cluster: str, window: Window, *, live: bool = False) -> dict[str, Any]:
    """Sources → raw. Returns counts per source."""
    found = config.cluster(cluster)
    landed = collect_and_land(engine("loader"), found, window, live=live, now=_now())
    return {receipt.source: receipt.receipt() for receipt in landed}


def check(gate: Gate, cluster: str, window: Window, stage_id: int | None = None) -> dict[str, Any]:
    """Runs a gate. Raises GateError when a critical check fails.

    A stage that newer data has overtaken is left to `publish`, which stages and audits it anew.
    """
    found = config.cluster(cluster)
    try:
        return run_gate(gate, found, window, stage_id=stage_id, now=_now()).receipt()
    except StaleStageError as error:
        log.warning("%s", error)
        return {"overtaken": True}


def look_up_prices(cluster: str, window: Window) -> dict[str, Any]:
    """Makes sure the price book knows the machines of the window."""
    return look_up_in_use(engine("loader"), config.cluster(cluster), window, now=_now())


def refresh_prices(cluster: str) -> dict[str, Any]:
    """Asks the price lists again for the machines the cluster used during the last two days."""
    now = _now()
    window = Window(now - timedelta(days=2), now)
    return look_up_in_use(
        engine("loader"), config.cluster(cluster), window, now=now, max_age=PRICES_STAY_FRESH
    )


def write_statements() -> dict[str, Any]:
    """Statements of yesterday's month, and of the one before during its first week."""
    from kubetally.report.statements import reports_folder
    from kubetally.report.statements import write_statements as write

    yesterday = (_now() - timedelta(days=1)).date()
    months = {yesterday.replace(day=1), (yesterday - timedelta(days=7)).replace(day=1)}
    folder = reports_folder()
    written = [
        str(path)
        for month in sorted(months)
        for path in write(engine("bi"), month, folder, now=_now())
    ]
    return {"folder": folder, "files": len(written)}


def consolidate(
    cluster: str, window: Window, kind: staging.Kind, restate_reason: str = ""
) -> dict[str, Any]:
    """Raw → core, in a stage of its own. Returns its id and row counts."""
    publisher = engine("publisher")
    sync_config(publisher, now=_now())
    stage = staging.begin(
        publisher,
        config.cluster(cluster),
        window,
        kind,
        now=_now(),
        restate_reason=restate_reason,
    )
    return {"stage_id": stage.stage_id, **staging.consolidate(publisher, stage)}


def allocate(stage_id: int) -> dict[str, Any]:
    """Core → costs, in the same stage. Returns row counts."""
    publisher = engine("publisher")
    stage = _stage(stage_id)
    cluster = config.cluster(stage.cluster)
    price_nodes(publisher, stage, cluster)
    return {"stage_id": stage_id, "cost_rows": allocate_stage(publisher, stage, cluster)}


def publish(stage_id: int, who: str = "") -> dict[str, Any]:
    """Makes the stage current. Data that landed since the audit is staged and audited first."""
    stage = _stage(stage_id)
    for _ in range(RESTAGES):
        try:
            published = publishing.publish(engine("publisher"), stage, now=_now(), who=who)
        except StaleStageError:
            stage = _stage(_restage(stage))
            continue
        return {
            "cluster": stage.cluster,
            "window": str(stage.window),
            "hours": published.hours,
            "rows": published.rows,
            "content_sha256": published.content_sha256,
        }
    raise StaleStageError(
        f"Data for {stage.cluster} {stage.window} kept arriving while it was staged {RESTAGES} times.",
        remedy="Run the window again once its sources are quiet.",
    )


def run_window(
    cluster: str, window: Window, kind: staging.Kind, restate_reason: str = "", who: str = ""
) -> dict[str, Any]:
    """The whole pipeline over one window in this process, as the DAG runs it task by task."""
    collect(cluster, window)
    check("raw", cluster, window)
    look_up_prices(cluster, window)
    stage_id = consolidate(cluster, window, kind, restate_reason)["stage_id"]
    check("core", cluster, window, stage_id)
    allocate(stage_id)
    check("costs", cluster, window, stage_id)
    return publish(stage_id, who)


def _restage(stale: staging.Stage) -> int:
    check("raw", stale.cluster, stale.window)
    look_up_prices(stale.cluster, stale.window)
    fresh = consolidate(stale.cluster, stale.window, stale.kind, stale.reason)
    stage_id = int(fresh["stage_id"])
    check("core", stale.cluster, stale.window, stage_id)
    allocate(stage_id)
    check("costs", stale.cluster, stale.window, stage_id)
    return stage_id


def _stage(stage_id: int) -> staging.Stage:
    with engine("publisher").connect() as connection:
        return staging.find(connection, stage_id)


def _now() -> datetime:
    return datetime.now(UTC)
