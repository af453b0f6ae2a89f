"""A run in a process of its own that stops where it is told to, so that a test can kill it there.

    python run.py CLUSTER STEP PLACE BARRIER

STEP: `land` (a day with other usage), `stage`, or `publish` (a staged window: newest of the cluster).
PLACE: a function of the product, `module:function`; the run creates the file BARRIER when it is about
to leave it, and waits there for ever. `-` = nowhere.
The stopping is patched in here; the product knows nothing of it.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allocate.scene import (
    A_DAY,
    DAY_PRICES,
    a_day,
    cluster_of,
    land_said,
    publish_stage,
    query,
    run_window,
    stage_window,
)
from kubetally.consolidate.stage import find
from kubetally.warehouse.connect import engine


def stop_in(place: str, barrier: Path) -> None:
    module_name, name = place.split(":")
    module = importlib.import_module(module_name)
    original: Callable[..., Any] = getattr(module, name)

    def stopping(*arguments: Any, **named: Any) -> Any:
        original(*arguments, **named)
        barrier.touch()
        while True:
            time.sleep(1)

    setattr(module, name, stopping)


def main(cluster_name: str, step: str, place: str, barrier: str) -> None:
    if place != "-":
        stop_in(place, Path(barrier))
    cluster = cluster_of(cluster_name)
    if step == "land":
        land_said(cluster, a_day(cpu_used="9000"))
    elif step == "stage":
        stage_window(cluster, A_DAY, DAY_PRICES)
    elif step == "publish":
        (newest,) = query(
            "select max(stage_id) from ops.stage join core.cluster using (cluster_key)"
            " where cluster = :cluster",
            cluster=cluster_name,
        )
        with engine("publisher").connect() as connection:
            stage = find(connection, newest[0])
        publish_stage(stage)
    elif step == "run":
        while not Path(barrier).exists():
            time.sleep(0.005)
        print(run_window(cluster).content_sha256)
    else:
        raise SystemExit(f"no step {step!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
