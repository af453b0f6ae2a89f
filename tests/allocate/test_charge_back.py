"""The three models of kube-opex-analytics: by the hour, once per cluster, nothing lost."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocate import oracle
from allocate.clusters import cases
from allocate.scene import (
    GIB,
    Said,
    cluster_of,
    configure,
    hours,
    land_said,
    lines_of,
    node,
    pod,
    publish_stage,
    query,
    span,
    stage_window,
    usage,
)
from allocate.test_oracle import node_hours, price_per_hour
from kubetally.allocate.models import BasePrice, ChargeBackVersion, CostModel, ModelVersion
from kubetally.allocate.owners import OwnerEntry
from kubetally.windows import HOUR
from oracles.by_hand import cases as by_hand

DAY = hours("00:00", "24:00")
WHOLE = span("00:00", "24:00")
ONLY_CPU = BasePrice(Decimal(1), Decimal(0), Decimal(0))
OWNERS = (OwnerEntry(namespace="?", owner="team"),)
numbers = itertools.count()


def charge_back(**settings):
    version = ChargeBackVersion(
        **{"valid_from": date(2020, 1, 1), "currency": "USD", "base_price": ONLY_CPU} | settings
    )
    return CostModel("resource", (version,))


def used(namespace, percent_by_hour, cores=10):
    """Usage rows of the pod of a namespace, in percent of the cluster's cores by hour."""
    for n, percent in enumerate(percent_by_hour):
        if percent is not None:
            start = DAY.start + n * HOUR
            yield usage(
                namespace,
                (start, start + HOUR),
                cpu=str(Decimal(percent) * cores * 36),
                namespace=namespace,
            )


def publish_day(shares, price="1", node_rows=None, pods=None, **settings):
    """One node of 10 cores, and a pod per namespace that uses a part of it; published."""
    configure(OWNERS, charge_back(**settings))
    cluster = cluster_of("c")
    rows = node_rows or [node("n", WHOLE, cpu_capacity_cores="10", cpu_allocatable_cores="9")]
    pods = pods or [pod(name, WHOLE, namespace=name, node="n") for name in shares]
    usages = [row for name, percents in shares.items() for row in used(name, percents)]
    land_said(cluster, Said(DAY, {"node": rows, "pod": pods, "usage": usages}))
    publish_stage(stage_window(cluster, DAY, {"uid-n": price}))


def day_shares(column):
    rows = query(
        f"select stack, is_non_allocatable, {column} from bi.capacity_share_day"
        " where resource = 'cpu'",
        "bi",
    )
    return {(row[0], row[1]): row[2] for row in rows}


def costs_by(column="namespace"):
    rows = query(
        f"select coalesce({column}, line), sum(cost) from bi.cost_day group by 1",
        "bi",
    )
    return {row[0]: row[1] for row in rows}


@pytest.mark.claims("AL-10")
def test_ratio(warehouse):
    wanted = by_hand()["AL-10"]["expect"]
    publish_day({"a": [30] * 24, "b": [10] * 24})
    assert day_shares("used_ratio") == {
        ("a", False): Decimal(wanted["A"]),
        ("b", False): Decimal(wanted["B"]),
        ("non-allocatable", True): Decimal(wanted["non_allocatable"]),
    }


@pytest.mark.claims("AL-11")
def test_charge_back_once_per_cluster(warehouse):
    case = by_hand()["AL-11"]
    publish_day(
        {"a": [30] * 24, "b": [10] * 24}, price=case["given"]["rate"], base_price="opencost"
    )
    by_name = query(
        "select coalesce(namespace, line), sum(cpu_cost) / sum(sum(cpu_cost)) over (), sum(cost)"
        " from bi.cost_day group by 1",
        "bi",
    )
    total = Decimal(case["expect"]["total"])
    assert {row[0]: round(row[1] * total, 2) for row in by_name if row[0] != "idle"} == {
        "a": Decimal(case["expect"]["A"]),
        "b": Decimal(case["expect"]["B"]),
        "system": Decimal(case["expect"]["non_allocatable"]),
    }
    assert sum(row[2] for row in by_name) == total


@pytest.mark.claims("AL-12")
def test_cumulative_ratio(warehouse):
    publish_day({"a": [10] * 24})
    wanted = by_hand()["AL-12"]["expect"]["A"]
    assert day_shares("used_cumulative_ratio")["a", False] == Decimal(wanted)


@pytest.mark.claims("AL-13")
def test_the_hour_is_what_is_shared_not_the_day(warehouse):
    publish_day(
        {"a": [50] + [0] * 23, "b": [10] * 24},
        node_rows=[node("n", WHOLE, cpu_capacity_cores="10")],
    )
    wanted = by_hand()["AL-13"]["expect"]
    assert {name: round(cost, 6) for name, cost in costs_by().items()} == {
        "a": Decimal(wanted["A"]),
        "b": Decimal(wanted["B"]),
    }


@pytest.mark.claims("AL-15")
def test_what_nodes_keep_for_themselves(warehouse):
    publish_day(
        {"a": [10] * 24},
        node_rows=[
            node(
                "n",
                WHOLE,
                cpu_capacity_cores="4",
                cpu_allocatable_cores="3.92",
                memory_capacity_bytes=str(16 * GIB),
                memory_allocatable_bytes=str(29 * GIB // 2),
            )
        ],
    )
    wanted = by_hand()["AL-15"]["expect"]
    found = query(
        "select distinct resource, used_percent from bi.capacity_share_hour where is_non_allocatable",
        "bi",
    )
    assert dict(map(tuple, found)) == {
        "cpu": Decimal(wanted["cpu"]),
        "memory": Decimal(wanted["mem"]),
    }


@pytest.mark.claims("AL-16", "AL-17")
@pytest.mark.parametrize("percent", [10, 0])
def test_requests_add_up_by_the_hour_used_or_not(warehouse, percent):
    publish_day(
        {"a": [percent] * 24},
        pods=[pod("a", WHOLE, namespace="a", node="n", cpu_request_cores="2")],
        basis="requested",
    )
    shares = day_shares("requested_cumulative_ratio")
    assert shares["a", False] == Decimal(by_hand()["AL-16"]["expect"])
    assert shares["a", False] == Decimal(by_hand()["AL-17"]["expect"])
    assert round(costs_by()["a"], 15) == 16  # two of three parts each hour


@pytest.mark.claims("AL-25")
def test_a_namespace_called_non_allocatable_stays_apart(warehouse):
    publish_day({"non-allocatable": [30] * 24})
    assert day_shares("used_cumulative_ratio") == {
        ("non-allocatable", False): 720,
        ("non-allocatable", True): 240,
    }
    assert {name: round(cost, 6) for name, cost in costs_by().items()} == {
        "non-allocatable": 18,
        "system": 6,
    }


@pytest.mark.claims("AL-26")
def test_cost_follows_core_hours_when_capacity_changes(warehouse):
    case = by_hand()["AL-26"]
    version = ModelVersion(
        valid_from=date(2020, 1, 1), currency="USD", base_price=ONLY_CPU, basis="used"
    )
    configure(OWNERS, CostModel("resource", (version,)))
    cluster = cluster_of("c")
    window = hours("10:00", "12:00")
    first, second = span("10:00", "11:00"), span("11:00", "12:00")
    land_said(
        cluster,
        Said(
            window,
            {
                "node": [
                    node("n", first, cpu_capacity_cores="10"),
                    node("n", second, cpu_capacity_cores="100"),
                ],
                "pod": [pod("a", (first[0], second[1]), namespace="a", node="n")],
                "usage": [
                    usage("a", hour, cpu=str(5 * 3600), namespace="a") for hour in (first, second)
                ],
            },
        ),
    )
    ten, hundred = window.chunks(HOUR)
    lines = lines_of(stage_window(cluster, window, {"uid-n": [(ten, "10"), (hundred, "100")]}))
    assert sum(line.cost for line in lines if line.pod) == Decimal(case["expect"]["A"])


# --- against plain Python -------------------------------------------------------------------------


def shared_by_hand(world, hour):
    """What each pod and the nodes themselves pay of each resource in an hour, in units of 1e-18."""
    day = hour // oracle.DAY * oracle.DAY
    pods = world.pod_hours(hour)
    known = oracle.both(world.covered("pod", day), [(hour, hour + oracle.HOUR)])
    pools = dict.fromkeys(oracle.RESOURCES, 0)
    weights = {name: defaultdict(Fraction) for name in oracle.RESOURCES}
    lives = defaultdict(list)
    for one in world.nodes(day):
        for piece in oracle.both([one.span], [(hour, hour + oracle.HOUR)]):
            lives[one.row["uid"]].append(oracle.Stated(one.row, piece))
    for uid, life in lives.items():
        price = world.price(uid, hour)
        if price is None or any(one.row["is_virtual"] for one in life):
            continue
        there = [
            oracle.Stated(one.row, piece)
            for one in life
            for piece in oracle.both([one.span], known)
        ]
        length, seen = (oracle.seconds(one.span for one in part) for part in (life, there))
        capacity = {name: oracle.integral(life, name, "capacity") for name in oracle.RESOURCES}
        whole = oracle.pools_of(price, length, capacity, oracle.WEIGHTS)
        for name, pool in whole.items():
            pools[name] += pool - int(pool * (length - seen) / length)
            kept = oracle.integral(there, name, "capacity")
            kept -= oracle.integral(there, name, "allocatable")
            weights[name]["", "", "system"] += max(kept, 0)
            for held in pods:
                if held.node == uid:
                    weights[name][held.uid, "", ""] += held.quantity[name]
    return {
        name: oracle.largest_remainder(Fraction(pools[name], oracle.UNITS), some)
        for name, every in weights.items()
        if pools[name] and (some := {who: part for who, part in every.items() if part > 0})
    }


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases(), basis=st.sampled_from(("used", "requested", "max")))
def test_charge_back_equals_plain_python(pooled, case, basis):
    cluster = cluster_of(f"charge-back-{next(numbers)}", "prometheus", "kubernetes")
    world = replace(case.world, cluster=cluster.name, model=plain_model(basis))
    configure(world.owners, charge_back(base_price="opencost", basis=basis))
    for said in world.said:
        land_said(cluster, said)
    found = lines_of(stage_window(cluster, case.window, world.prices))
    for n in range(case.window.seconds // 3600):
        hour = case.window.start + timedelta(hours=n)
        wanted = shared_by_hand(world, oracle.micro(hour))
        for name, parts in wanted.items():
            paid = {
                (line.pod, "", "" if line.pod else line.line): Fraction(
                    getattr(line, f"{name}_cost")
                )
                for line in found
                if line.hour == hour and line.line in ("workload", "system")
            }
            assert {who: cost for who, cost in paid.items() if cost} == {
                who: cost for who, cost in parts.items() if cost
            }
    assert_conserved(case, found)


def plain_model(basis):
    return ModelVersion(
        valid_from=date(2020, 1, 1), currency="USD", base_price="opencost", basis=basis
    )


def assert_conserved(case, found):
    """Without the shares: only how long nodes were there and what an hour of them costs."""
    totals = defaultdict(Fraction)
    for line in found:
        if line.cost is not None:
            totals[oracle.micro(line.hour)] += Fraction(line.cost)
    wanted = defaultdict(Fraction)
    count = 0
    for uid, hour, length in node_hours(case):
        if (per_hour := price_per_hour(case.world.price(uid, hour))) is not None:
            wanted[hour] += per_hour * length / 3600
            count += 1
    for hour, cost in wanted.items():
        assert abs(totals[hour] - cost) <= Fraction(count, oracle.UNITS)
