"""The published costs of the demo cluster equal its ground truth, to the last digit."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from decimal import Decimal

import pytest
from sqlalchemy import text

from database import Warehouse
from kubetally import pipeline
from kubetally.demo import truth
from kubetally.demo.server import DemoServer
from kubetally.windows import Window

WEDNESDAY = date(2026, 11, 25)  # a price changes at noon
TUESDAY = date(2026, 11, 24)  # a spot node is reclaimed at 09:41


@pytest.mark.slow
@pytest.mark.parametrize("day", [WEDNESDAY, TUESDAY], ids=["price change", "node reclaimed"])
def test_every_line_of_a_day_equals_the_truth(
    day: date, warehouse: Warehouse, demo_server: DemoServer, pipeline_env: dict[str, str]
) -> None:
    window = Window.of_day(day)
    published = pipeline.run_window("demo", window, "daily")
    assert published["hours"] == 24

    expected: dict[tuple[object, ...], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 3)
    for line in truth.costs(demo_server.scenario, window):
        key = (line.hour, line.line, line.node, line.pod_uid, line.owner)
        parts = (line.cpu_cost, line.memory_cost, line.gpu_cost)
        expected[key] = [held + part for held, part in zip(expected[key], parts, strict=True)]
    with warehouse.engine.connect() as connection:
        rows = connection.execute(
            text(
                "select cost_hour.hour, line, node.node, pod.uid as pod_uid, owner, cpu_cost,"
                " memory_cost, gpu_cost from mart.cost_hour"
                " join ops.published_hour using (stage_id, hour)"
                " left join core.node using (node_key) left join core.pod using (pod_key)"
            )
        ).all()
    found: dict[tuple[object, ...], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 3)
    for row in rows:
        key = (row.hour, row.line, row.node, row.pod_uid or "", row.owner)
        parts = (row.cpu_cost, row.memory_cost, row.gpu_cost)
        found[key] = [held + part for held, part in zip(found[key], parts, strict=True)]
    zero = [Decimal(0)] * 3
    differing = {
        key: (found.get(key), expected.get(key))
        for key in {*found, *expected}
        if found.get(key, zero) != expected.get(key, zero)
    }
    assert not differing
    assert len(found) > 2000


@pytest.mark.slow
def test_the_last_full_days_bill_by_owner_is_the_truths(
    warehouse: Warehouse, demo_server: DemoServer, pipeline_env: dict[str, str]
) -> None:
    pipeline.run_window("demo", Window.of_day(WEDNESDAY), "daily")
    with warehouse.engine_as("bi").connect() as connection:
        rows = connection.execute(
            text(
                "select owner, line, sum(cost) as cost from cost_by_owner_day"
                " where cluster = 'demo' and day = :day group by owner, line"
            ),
            {"day": WEDNESDAY},
        ).all()
    bill = {(row.owner, row.line): row.cost for row in rows}
    assert bill == truth.cost_by_owner(demo_server.scenario, WEDNESDAY)
    assert {line for _, line in bill} >= {"workload", "idle", "system", "overcommit"}
    assert ("unowned", "workload") in bill
