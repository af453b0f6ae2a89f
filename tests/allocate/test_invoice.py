"""Two hours of three nodes, worked out by hand: what every line must say, and that nothing is left."""

from __future__ import annotations

from decimal import Decimal

import pytest

from allocate.scene import (
    GIB,
    Said,
    at,
    cluster_of,
    configure,
    hours,
    land_said,
    lines_of,
    node,
    pod,
    publish_stage,
    published_lines,
    span,
    stage_window,
    usage,
)
from kubetally.allocate.owners import OwnerEntry

WINDOW = hours("10:00", "12:00")
KNOWN = span("10:00", "10:48")  # the pod list is unknown from 10:48 to 11:00
BOTH = span("10:00", "12:00")
ELEVEN = span("11:00", "12:00")

NODES = [
    node("node-a", BOTH, cpu_allocatable_cores="3.5", memory_allocatable_bytes=str(14 * GIB)),
    node(
        "node-b",
        span("10:00", "10:30"),
        cpu_capacity_cores="2",
        memory_capacity_bytes=str(8 * GIB),
    ),
    node("node-c", span("10:00", "11:00")),
]
# node-a 0.24 an hour, node-b 0.06, node-c unknown
PRICES = {
    "uid-node-a": ("0.16", "0.08", "0"),
    "uid-node-b": ("0.04", "0.02", "0"),
    "uid-node-c": None,
}
PODS = [
    pod("web", KNOWN, node="node-a", cpu_request_cores="1", memory_request_bytes=str(2 * GIB)),
    pod("burst", KNOWN, node="node-a", cpu_request_cores="0.5", memory_request_bytes=str(GIB)),
    pod("gap", KNOWN, node="node-a", cpu_request_cores="1"),
    pod("done", KNOWN, node="node-a", cpu_request_cores="1", phase="Succeeded"),
    pod("waiting", KNOWN, node=None, cpu_request_cores="8", phase="Pending"),
    pod(
        "trial",
        span("10:00", "10:30"),
        namespace="lab",
        node="node-b",
        cpu_request_cores="1",
        memory_request_bytes=str(4 * GIB),
    ),
    pod("lost", KNOWN, node="node-c", cpu_request_cores="1"),
    pod("hog", ELEVEN, node="node-a", cpu_request_cores="2"),
]
USAGE = [
    usage("web", KNOWN, cpu="1440", memory=str(GIB * 2880)),  # half a core, 1 GiB
    usage("burst", KNOWN, cpu="2160", memory=str(2 * GIB * 2880)),  # 0.75 cores, 2 GiB
    usage("gap", span("10:00", "10:24"), cpu="2880"),  # 2 cores, known for 24 minutes
    usage("hog", ELEVEN, cpu="21600"),  # 6 cores on a node of 4
]
SAID = Said(
    WINDOW,
    {"pod": PODS, "node": NODES, "usage": USAGE},
    silent={"pod": [span("10:48", "11:00")]},
)

# hour, line, node, pod, owner, core-seconds, GiB-seconds, CPU cost, memory cost
INVOICE = [
    ("10:00", "idle", "node-a", "", "cluster", 720, 28800, "0.008", "0.040"),
    ("10:00", "system", "node-a", "", "cluster", 1440, 5760, "0.016", "0.008"),
    ("10:00", "uncovered", "node-a", "", "cluster", 2880, 11520, "0.032", "0.016"),
    ("10:00", "workload", "node-a", "burst", "team-shop", 2160, 5760, "0.024", "0.008"),
    ("10:00", "workload", "node-a", "gap", "team-shop", 4320, 0, "0.048", "0"),
    ("10:00", "workload", "node-a", "web", "team-shop", 2880, 5760, "0.032", "0.008"),
    ("10:00", "idle", "node-b", "", "cluster", 1800, 7200, "0.010", "0.005"),
    ("10:00", "workload", "node-b", "trial", "unowned", 1800, 7200, "0.010", "0.005"),
    ("10:00", "unpriced", "node-c", "", "cluster", 14400 - 2880, 57600, None, None),
    ("10:00", "unpriced", "node-c", "lost", "team-shop", 2880, 0, None, None),
    ("11:00", "idle", "node-a", "", "cluster", 0, 50400, "0", "0.07"),
    ("11:00", "overcommit", "node-a", "", "cluster", -9000, 0, "-0.10", "0"),
    ("11:00", "system", "node-a", "", "cluster", 1800, 7200, "0.02", "0.01"),
    ("11:00", "workload", "node-a", "hog", "team-shop", 21600, 0, "0.24", "0"),
]


@pytest.fixture
def scene(warehouse):
    configure([OwnerEntry(namespace="shop", owner="team-shop")])
    cluster = cluster_of("invoice")
    land_said(cluster, SAID)
    return stage_window(cluster, WINDOW, PRICES)


def test_the_invoice_reads_as_worked_out_by_hand(scene):
    found = [
        (
            line.hour,
            line.line,
            line.node.removeprefix("uid-"),
            line.pod.removeprefix("uid-"),
            line.owner,
            line.cpu_core_seconds,
            line.memory_byte_seconds / GIB,
            line.cpu_cost,
            line.memory_cost,
        )
        for line in lines_of(scene)
    ]
    wanted = [
        (at(hour), line, node, pod, owner, cpu, memory, *(c and Decimal(c) for c in costs))
        for hour, line, node, pod, owner, cpu, memory, *costs in INVOICE
    ]
    assert found == wanted


def test_the_lines_add_up_to_what_the_nodes_cost(scene):
    total = sum(line.cost for line in lines_of(scene) if line.cost is not None)
    assert total == Decimal("0.24") * 2 + Decimal("0.06") / 2


def test_what_is_published_is_what_was_staged(scene):
    published = publish_stage(scene)
    assert (published.hours, published.rows) == (2, len(INVOICE))
    assert published_lines("invoice") == lines_of(scene)


# Prices per hour in units of 1e-19, ten of which are the smallest unit of money; and who gets the units.
TIES = {
    "half a unit each: CPU comes first": ((5, 5, 0), (1, 0, 0)),
    "GPU comes before memory": ((0, 5, 5), (0, 0, 1)),
    "CPU comes before GPU": ((5, 0, 5), (1, 0, 0)),
    "two units for three thirds": ((5, 5, 5), (1, 0, 1)),
    "the larger remainder comes first": ((1, 5, 4), (0, 1, 0)),
    "whole units stay where they are": ((10, 15, 5), (1, 1, 1)),
}


@pytest.mark.parametrize("tenths, units", TIES.values(), ids=TIES)
def test_a_cost_is_cut_by_largest_remainder_and_ties_by_name(warehouse, tenths, units):
    configure()
    cluster = cluster_of("tie")
    land_said(cluster, Said(hours("10:00", "11:00"), {"node": [node("n", span("10:00", "11:00"))]}))
    price = tuple(f"{amount}e-19" for amount in tenths)
    (idle,) = lines_of(stage_window(cluster, hours("10:00", "11:00"), {"uid-n": price}))
    found = (idle.cpu_cost, idle.memory_cost, idle.gpu_cost)
    assert found == tuple(Decimal(n).scaleb(-18) for n in units)
