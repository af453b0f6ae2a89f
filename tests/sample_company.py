"""A small company's two weeks in the warehouse, through the product's own stages.

Nothing here is random: hours follow a fixed day/night curve. Teams and namespaces are made up. On
purpose: a namespace nobody owns, three hours without pod data that were acknowledged, a machine
without a price, a node that goes away mid-hour, and a last day of which fifteen hours exist.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import Engine, NullPool, create_engine

from kubetally.allocate.allocate import allocate, price_nodes, sync_config
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.consolidate.stage import begin, consolidate
from kubetally.local.postgres import Server
from kubetally.sources.rows import Batch, Collected, Dataset, Gap, frame
from kubetally.warehouse.connect import engine
from kubetally.warehouse.land import acknowledge_gap, land
from kubetally.warehouse.publish import publish
from kubetally.windows import HOUR, Window

CONFIG = Path(__file__).parent / "data" / "company"
CLUSTER = ClusterConfig(
    name="prod-eu",
    sources=(SourceConfig(kind="prometheus", connection="unused"),),
    price_sheet="price_sheets/company.yaml",
)
FIRST_DAY = date(2026, 2, 23)
LAST_DAY = date(2026, 3, 8)
HOURS_OF_LAST_DAY = 15
SILENT = Window(datetime(2026, 3, 4, 2, tzinfo=UTC), datetime(2026, 3, 4, 5, tzinfo=UTC))
UNPRICED_DAY = date(2026, 3, 6)
NODE_GONE = datetime(2026, 3, 5, 13, 30, tzinfo=UTC)
GIB = 1024**3
ROLES = {
    "owner": "kubetally_owner",
    "loader": "kubetally_loader",
    "publisher": "kubetally_publisher",
    "quality": "kubetally_quality",
    "bi": "bi_reader",
}

# name, pool, machine, capacity type, cores, GiB, GPUs
NODES = [
    *[(f"general-{n}", "general", "Standard_D4s_v5", "on_demand", 4, 16, 0) for n in range(1, 5)],
    *[(f"spot-{n}", "spot", "Standard_D8s_v5", "spot", 8, 32, 0) for n in range(1, 3)],
    ("gpu-1", "gpu", "Standard_NC6s_v3", "on_demand", 6, 112, 1),
]
EDGE = ("edge-1", "edge", "bare-metal", "on_demand", 4, 8, 0)

# namespace, kind, workload, node, replicas, cores, GiB, GPUs, use by night, use by day
WORKLOADS = [
    ("checkout", "Deployment", "cart", "general-1", 2, "0.5", 1, 0, "0.15", "0.7"),
    ("checkout", "Deployment", "orders", "general-2", 2, "0.5", 2, 0, "0.1", "0.6"),
    ("payments", "StatefulSet", "ledger", "general-2", 1, "1", 4, 0, "0.3", "0.8"),
    ("payments", "Deployment", "gateway", "general-3", 2, "0.25", 1, 0, "0.9", "1.3"),
    ("search", "StatefulSet", "index", "spot-1", 3, "1.5", 6, 0, "0.2", "0.9"),
    ("search", "Deployment", "query", "spot-2", 4, "1", 2, 0, "0.1", "0.5"),
    ("ml-research", "Job", "training", "gpu-1", 1, "3", 48, 1, "0.9", "0.9"),
    ("ml-research", "Deployment", "notebooks", "spot-2", 1, "2", 8, 0, "0.02", "0.4"),
    ("observability", "StatefulSet", "prometheus", "general-3", 1, "1", 6, 0, "0.6", "0.7"),
    ("observability", "DaemonSet", "node-exporter", "general-1", 1, "0.1", 1, 0, "0.1", "0.1"),
    ("kube-system", "Deployment", "coredns", "general-1", 2, "0.1", 1, 0, "0.3", "0.5"),
    ("kube-system", "DaemonSet", "kube-proxy", "general-4", 1, "0.1", 1, 0, "0.2", "0.2"),
    ("sandbox", "Deployment", "tryout", "general-4", 1, "0.5", 2, 0, "0.01", "0.05"),
]
EDGE_WORKLOAD = ("checkout", "Deployment", "kiosk", "edge-1", 1, "1", 2, 0, "0.2", "0.5")

_filled: list[Company] = []


def days() -> list[date]:
    return [FIRST_DAY + timedelta(days=n) for n in range((LAST_DAY - FIRST_DAY).days + 1)]


def fill() -> None:
    """Lands, stages, prices, allocates and publishes every day of the sample."""
    loader, publisher = engine("loader"), engine("publisher")
    sync_config(publisher, now=datetime(2026, 2, 1, tzinfo=UTC))
    acknowledge_gap(
        loader,
        CLUSTER.name,
        SILENT,
        reason="The monitoring stack was being moved; nothing was recorded.",
        who="on-call",
        now=SILENT.end,
    )
    for day in days():
        is_last = day == LAST_DAY
        whole = Window.of_day(day)
        window = Window(whole.start, whole.start + HOURS_OF_LAST_DAY * HOUR) if is_last else whole
        now = window.end + timedelta(minutes=20)
        land(loader, CLUSTER, collected(window), now=now)
        stage = begin(publisher, CLUSTER, window, "hourly" if is_last else "daily", now=now)
        consolidate(publisher, stage)
        price_nodes(publisher, stage, CLUSTER)
        allocate(publisher, stage, CLUSTER)
        publish(publisher, stage, now=now, who="sample")


def collected(window: Window) -> Collected:
    """What a monitoring stack would have told about `window`."""
    day = window.start.date()
    covered: tuple[tuple[datetime, datetime], ...] = ((window.start, window.end),)
    gaps: list[Gap] = []
    if window.start < SILENT.end and window.end > SILENT.start:
        covered = ((window.start, SILENT.start), (SILENT.end, window.end))
        gaps = [Gap("pod", SILENT, "connection refused")]
    nodes = [*NODES, *([EDGE] if day == UNPRICED_DAY else [])]
    workloads = [*WORKLOADS, *([EDGE_WORKLOAD] if day == UNPRICED_DAY else [])]
    rows: dict[Dataset, list[dict[str, object]]] = {
        "node": [_node(node, window) for node in nodes if _life(node[0], window)],
        "namespace": [
            {"start_at": window.start, "end_at": window.end, "namespace": name, "labels": "{}"}
            for name in sorted({workload[0] for workload in workloads})
        ],
        "pod": [
            row for workload in workloads for row in _pods(workload, window) if row is not None
        ],
        "usage": [
            row for workload in workloads for row in _usage(workload, window, covered) if row
        ],
    }
    batches = [
        Batch(
            dataset,
            window,
            frame(dataset, found),
            ((window.start, window.end),) if dataset in ("node", "namespace") else covered,
            hashlib.sha256(repr(found).encode()).hexdigest(),
        )
        for dataset, found in rows.items()
    ]
    return Collected("prometheus", batches, gaps)


def _life(node: str, window: Window) -> tuple[datetime, datetime] | None:
    end = min(window.end, NODE_GONE) if node == "spot-1" else window.end
    return (window.start, end) if window.start < end else None


def _node(node: tuple[str, str, str, str, int, int, int], window: Window) -> dict[str, object]:
    name, pool, machine, capacity_type, cores, gib, gpus = node
    life = _life(name, window)
    assert life is not None
    return {
        "start_at": life[0],
        "end_at": life[1],
        "uid": f"uid-{name}",
        "node": name,
        "region": "westeurope",
        "zone": "westeurope-1",
        "instance_type": machine,
        "os": "linux",
        "capacity_type": capacity_type,
        "cpu_capacity_cores": str(cores),
        "cpu_allocatable_cores": str(Decimal(cores) - Decimal("0.2")),
        "memory_capacity_bytes": str(gib * GIB),
        "memory_allocatable_bytes": str(gib * GIB * 9 // 10),
        "gpu_capacity": str(gpus),
        "gpu_allocatable": str(gpus),
        "is_ready": True,
        "is_virtual": False,
        "labels": f'{{"agentpool": "{pool}"}}',
    }


def _pods(workload: tuple[object, ...], window: Window) -> Iterator[dict[str, object] | None]:
    namespace, kind, name, node, replicas, cores, gib, gpus, _, _ = workload
    life = _life(str(node), window)
    for replica in range(int(str(replicas))):
        yield life and {
            "start_at": life[0],
            "end_at": life[1],
            "uid": f"uid-{namespace}-{name}-{replica}",
            "namespace": namespace,
            "pod": f"{name}-{replica}",
            "node": node,
            "phase": "Running",
            "workload_kind": kind,
            "workload_name": name,
            "cpu_request_cores": cores,
            "memory_request_bytes": str(int(str(gib)) * GIB),
            "gpu_request": str(gpus),
            "labels": "{}",
        }


def _usage(
    workload: tuple[object, ...], window: Window, covered: tuple[tuple[datetime, datetime], ...]
) -> Iterator[dict[str, object] | None]:
    namespace, _, name, node, replicas, cores, gib, _, night, day = workload
    life = _life(str(node), window)
    if life is None or name == "coredns":  # nobody measures coredns
        return
    for hour in window.chunks(HOUR):
        end = min(hour.end, life[1])
        if end <= hour.start or not any(a <= hour.start and end <= b for a, b in covered):
            continue
        is_day = 7 <= hour.start.hour < 19 and hour.start.weekday() < 5
        level = Decimal(str(day if is_day else night))
        seconds = int((end - hour.start).total_seconds())
        for replica in range(int(str(replicas))):
            yield {
                "start_at": hour.start,
                "end_at": end,
                "uid": f"uid-{namespace}-{name}-{replica}",
                "namespace": namespace,
                "pod": f"{name}-{replica}",
                "container": "main",
                "node": node,
                "cpu_used_core_seconds": str(Decimal(str(cores)) * level * seconds),
                "memory_used_byte_seconds": str(int(str(gib)) * GIB * seconds * 6 // 10),
            }


@dataclass(frozen=True)
class Company:
    """A database that holds the sample."""

    server: Server
    database: str

    def url(self, role: str) -> str:
        """SQLAlchemy URL (psycopg2) as the Postgres role `role`; passwords as in conftest.py."""
        return self.server.url(self.database, role, f"test-{role}", driver="psycopg2")

    def engine_as(self, role: str) -> Engine:
        return create_engine(self.url(role), poolclass=NullPool)

    def connections(self) -> dict[str, str]:
        """The AIRFLOW_CONN_… variables that lead the product's code here."""
        return {
            f"AIRFLOW_CONN_KUBETALLY_{name.upper()}": json.dumps(
                {
                    "conn_type": "postgres",
                    "host": "127.0.0.1",
                    "port": self.server.port,
                    "login": role,
                    "password": f"test-{role}",
                    "schema": self.database,
                }
            )
            for name, role in ROLES.items()
        }


def settings(connections: dict[str, str]) -> dict[str, str]:
    """The environment in which the product's code meets the sample."""
    return connections | {"KUBETALLY_CONFIG_DIR": str(CONFIG)}


@pytest.fixture(scope="session")
def company(postgres_server: Server, template_database: str) -> Company:
    """Two published weeks of the sample company, for reading only; filled once per session."""
    found = Company(postgres_server, "kubetally_sample_company")
    if found not in _filled:
        admin = psycopg2.connect(postgres_server.superuser_url)
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute(
                f'create database "{found.database}" template "{template_database}" owner kubetally_owner'
            )
        admin.close()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings(found.connections()).items():
                patch.setenv(name, value)
            fill()
        _filled.append(found)
    return found


@pytest.fixture
def at_company(company: Company, monkeypatch: pytest.MonkeyPatch) -> Company:
    """The sample company, with the AIRFLOW_CONN_KUBETALLY_… connections set to it."""
    for name, value in settings(company.connections()).items():
        monkeypatch.setenv(name, value)
    return company
