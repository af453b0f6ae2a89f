"""A backfilled month that spans a price change, with a node nobody can price and a virtual one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from price_pages import utc
from sqlalchemy import Engine, text

from kubetally.allocate.allocate import allocate, price_nodes, sync_config
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate.stage import begin, consolidate
from kubetally.prices import book
from kubetally.prices.quote import Component, Priced, Snapshot, Unpriced
from kubetally.quality.checks import load_checks, run_check
from kubetally.report.statements import write_statements
from kubetally.sources.rows import Batch, Collected, frame
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import land
from kubetally.warehouse.publish import publish
from kubetally.windows import Window

GIB = 1024**3
MARCH = [date(2026, 3, day) for day in range(1, 32)]
CHANGE = utc(2026, 3, 15, 10)
NOW = utc(2026, 4, 2)
BEFORE, AFTER = Decimal("0.096"), Decimal("0.144")
FARGATE = {"eks.amazonaws.com/compute-type": "fargate"}
# name, machine, provider id, cores, GiB, labels
NODES = (
    ("plain", "Standard_D2s_v3", "azure:///x", 2, 8, {}),
    ("odd", "Standard_Yok_v99", "azure:///x", 2, 8, {}),
    ("fargate-1", "", "aws:///us-east-1a/x/fargate-1", 2, 4, FARGATE),
)
# name, node, cores, GiB
PODS = (("web", "plain", "0.5", 2), ("lost", "odd", "1", 1), ("task", "fargate-1", "0.2", 1))
PROVISIONED = '{"CapacityProvisioned": "0.25vCPU 1GB"}'
SHEET = """prices:
- match: {labels: {eks.amazonaws.com/compute-type: fargate}}
  cpu_core_hour: "0.04048"
  memory_gib_hour: "0.004445"
"""


def collected(day: date) -> Collected:
    window = Window.of_day(day)
    span = {"start_at": window.start, "end_at": window.end}
    nodes = [
        span
        | {
            "uid": f"uid-{name}",
            "node": name,
            "provider_id": provider_id,
            "region": "eastus",
            "instance_type": machine,
            "os": "linux",
            "cpu_capacity_cores": str(cores),
            "cpu_allocatable_cores": str(cores),
            "memory_capacity_bytes": str(gib * GIB),
            "memory_allocatable_bytes": str(gib * GIB),
            "gpu_capacity": "0",
            "gpu_allocatable": "0",
            "is_ready": True,
            "is_virtual": name.startswith("fargate"),
            "labels": str(labels).replace("'", '"'),
        }
        for name, machine, provider_id, cores, gib, labels in NODES
    ]
    pods = [
        span
        | {
            "uid": f"uid-{name}",
            "namespace": "shop",
            "pod": name,
            "node": node,
            "phase": "Running",
            "workload_kind": "Deployment",
            "workload_name": name,
            "cpu_request_cores": cores,
            "memory_request_bytes": str(gib * GIB),
            "gpu_request": "0",
            "labels": "{}",
            "annotations": PROVISIONED if name == "task" else "{}",
        }
        for name, node, cores, gib in PODS
    ]
    namespaces = [span | {"namespace": "shop", "labels": "{}"}]
    spoken = ((window.start, window.end),)
    found = {"node": nodes, "pod": pods, "usage": [], "namespace": namespaces}
    batches = [
        Batch(dataset, window, frame(dataset, rows), spoken, "0" * 64, ())  # type: ignore[arg-type]
        for dataset, rows in found.items()
    ]
    return Collected("prometheus", batches)


def quote(price: Decimal, start: datetime, end: datetime | None) -> Component:
    return Component("m-1", "D2s v3", "node", Decimal(1), "1 Hour", price, "USD", start, end)


@pytest.fixture
def cluster(warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterConfig:
    (tmp_path / "sheet.yaml").write_text(SHEET)
    (tmp_path / "cost_models").mkdir()
    here = Path(__file__).parents[2] / "include/config/cost_models/resource.yaml"
    (tmp_path / "cost_models/resource.yaml").write_bytes(here.read_bytes())
    (tmp_path / "clusters.yaml").write_text(
        "clusters: [{name: month, price_sheet: sheet.yaml,"
        " sources: [{kind: prometheus, connection: unused}]}]"
    )
    monkeypatch.setenv("KUBETALLY_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("KUBETALLY_DEMO", "0")
    timeline = Priced(
        (
            quote(BEFORE, utc(2026, 1, 1), CHANGE),
            quote(AFTER, CHANGE, None),
        )
    )
    snapshot = Snapshot("azure", "https://prices.example/api", NOW, b"page")
    with warehouse.engine.begin() as connection:
        key = "azure/eastus/standard_{}/linux/on_demand"
        early = utc(2026, 2, 20)
        book.remember(connection, key.format("d2s_v3"), timeline, snapshot, early)
        book.remember(connection, key.format("yok_v99"), Unpriced("no rows"), None, early)
    return ClusterConfig("month", (SourceConfig("prometheus", "unused"),), price_sheet="sheet.yaml")


def run_day(cluster: ClusterConfig, day: date, reason: str = "") -> int:
    publisher = engine("publisher")
    stage = begin(publisher, cluster, Window.of_day(day), "daily", now=NOW, restate_reason=reason)
    consolidate(publisher, stage)
    price_nodes(publisher, stage, cluster)
    allocate(publisher, stage, cluster)
    publish(publisher, stage, now=NOW)
    return stage.stage_id


def hours(owner: Engine) -> dict[tuple[str, datetime], Decimal | None]:
    """Published cost by node and hour."""
    with owner.connect() as connection:
        rows = connection.execute(
            text(
                "select node.node, cost_hour.hour, sum(cost_hour.cost) as cost from mart.cost_hour"
                " join ops.published_hour using (stage_id, hour) join core.node using (node_key)"
                " group by node.node, cost_hour.hour"
            )
        ).all()
    return {(row.node, row.hour.astimezone(UTC)): row.cost for row in rows}


@pytest.mark.slow
def test_a_month_with_a_price_change_an_unpriced_node_and_pods_without_a_node(
    warehouse, cluster: ClusterConfig, tmp_path: Path
) -> None:
    loader, owner = engine("loader"), warehouse.engine
    sync_config(engine("publisher"), now=utc(2026, 2, 1))
    for day in MARCH:
        land(loader, cluster, collected(day), now=NOW)
    stages = {day: run_day(cluster, day) for day in MARCH}

    # both prices in the right hours; the lines of every node-hour add up to its price exactly
    found = hours(owner)
    assert len(found) == len(NODES) * 31 * 24
    for (name, hour), cost in found.items():
        if name == "plain":
            assert cost == (BEFORE if hour < CHANGE else AFTER), hour
        elif name == "odd":
            assert cost is None
        else:  # 0.25 vCPU and 1 GiB were provisioned, whatever was asked for
            assert cost == Decimal("0.04048") / 4 + Decimal("0.004445")
    with owner.connect() as connection:
        (jump,) = [day for day in MARCH if not verdict(connection, stages[day], day, SUDDEN).passed]
        assert jump == CHANGE.date()
        assert all(
            verdict(connection, stages[day], day, BALANCED).passed for day in (MARCH[0], jump)
        )
        # the unpriced node: in the gate, in the report, in the bill's notes, never zero
        gate = verdict(connection, stages[jump], jump, "unpriced_nodes")
        assert (gate.passed, gate.severity, gate.offending) == (False, "warning", 1)
        report = connection.execute(
            text("select distinct node, price_state, reason, hours from bi.unpriced")
        ).all()
        assert [tuple(row) for row in report] == [("odd", "unpriced", "no rows", 24)]
        costs = connection.execute(
            text("select min(cost), count(*) filter (where line = 'unpriced') from bi.cost_hour")
        ).one()
        assert costs[0] > 0
        assert costs[1] == 2 * 31 * 24  # the pod and the rest of the node
    files = write_statements(engine("bi"), date(2026, 3, 1), str(tmp_path / "bills"), now=NOW)
    bills = {Path(str(file)).name: Path(str(file)).read_text() for file in files}
    html = [content for name, content in bills.items() if name.endswith(".html")]
    assert html
    note = "node odd (Standard_Yok_v99) had no price for 744 hours"
    assert any(note in content for content in html), "the bill says what has no price"

    # re-running an old day after a price was learned late gives the old number; repricing is an
    # explicit act with a reason, and a new revision
    late = Priced((quote(Decimal("0.5"), utc(2026, 3, 1), None),))
    with owner.begin() as connection:
        key = "azure/eastus/standard_d2s_v3/linux/on_demand"
        snapshot = Snapshot("azure", "https://prices.example/api", NOW, b"page 2")
        done = book.remember(connection, key, late, snapshot, NOW + timedelta(seconds=1))
        assert len(done.jumps) == 1
        assert done.jumps[0].before == BEFORE
        assert done.jumps[0].after == Decimal("0.5")
    day = MARCH[3]
    noon = ("plain", utc(2026, 3, 4, 12))
    run_day(cluster, day)
    assert hours(owner)[noon] == BEFORE
    publisher = engine("publisher")
    later = NOW + timedelta(days=1)
    stage = begin(
        publisher, cluster, Window.of_day(day), "daily", now=later, restate_reason="late price"
    )
    consolidate(publisher, stage)
    price_nodes(publisher, stage, cluster)
    allocate(publisher, stage, cluster)
    publish(publisher, stage, now=later)
    assert hours(owner)[noon] == Decimal("0.5")
    with owner.connect() as connection:
        revisions = connection.execute(
            text(
                "select distinct published_hour.revision, publication.reason from ops.published_hour"
                " join ops.publication using (publication_id) where hour = :noon"
            ),
            {"noon": noon[1]},
        ).all()
    assert [tuple(row) for row in revisions] == [(2, "late price")]


SUDDEN, BALANCED = "sudden_price_changes", "unbalanced_node_hours"


def verdict(connection, stage_id: int, day: date, name: str):
    checks = {check.name: check for check in load_checks("costs")}
    window = Window.of_day(day)
    parameters = {
        "cluster_key": connection.execute(
            text("select cluster_key from core.cluster where cluster = 'month'")
        ).scalar_one(),
        "stage_id": stage_id,
        "start": window.start,
        "end": window.end,
    }
    return run_check(connection, checks[name], parameters)
