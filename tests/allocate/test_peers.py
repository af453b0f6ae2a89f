"""Worked examples of other tools, run through the real stages: what is right of them must come out.

The mock set of OpenCost: twelve pods in two clusters. What it counts for volumes, network and load
balancers (3 a pod) is carried here by GPUs: like those, they leave nothing idle.
"""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest

from allocate.scene import (
    GIB,
    RESOURCE_MODEL,
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
from kubetally.allocate.models import BasePrice, CostModel, ModelVersion, Share, Shares
from kubetally.allocate.owners import OwnerEntry
from kubetally.sources.kubernetes.facts import node_rows, pod_rows
from kubetally.sources.kubernetes.objects import Node, Pod
from kubetally.windows import Window
from oracles.by_hand import cases, peers

HOUR = hours("10:00", "11:00")
TEN = span("10:00", "11:00")
MOCK = peers()["opencost_mock_set"]
THIRD = "1.666666666666666667"
NODES = {
    "cluster1": {"c1nodes": ("11", "31", 6)},
    "cluster2": {f"node{n}": (f"3{THIRD[1:]}", f"3{THIRD[1:]}", 2) for n in (1, 2, 3)},
}


def model(**settings):
    version = replace_version(RESOURCE_MODEL.versions[0], settings)
    return CostModel("resource", (version,))


def replace_version(version, settings):
    values = {name: getattr(version, name) for name in version.__struct_fields__}
    return ModelVersion(**values | settings)


def publish_mock(**settings):
    """Both clusters of the mock set, published for one hour."""
    configure(model=model(**settings))
    for cluster_name, nodes in NODES.items():
        cluster = cluster_of(cluster_name)
        here = [one for one in MOCK["allocations"] if one["cluster"] == cluster_name]
        land_said(
            cluster,
            Said(
                HOUR,
                {
                    "node": [
                        node(
                            name,
                            TEN,
                            cpu_capacity_cores=cpu,
                            memory_capacity_bytes=str(Decimal(memory) * GIB),
                            gpu_capacity=str(gpus),
                        )
                        for name, (cpu, memory, gpus) in nodes.items()
                    ],
                    "pod": [mock_pod(one) for one in here],
                },
            ),
        )
        prices = {
            f"uid-{name}": (cpu, memory, str(4 * gpus))
            for name, (cpu, memory, gpus) in nodes.items()
        }
        publish_stage(stage_window(cluster, HOUR, prices))


def mock_pod(one):

    return pod(
        one["name"],
        TEN,
        namespace=one["namespace"],
        node=one["node"],
        cpu_request_cores=str(one["cpu"]),
        memory_request_bytes=str(one["ram"] * GIB),
        gpu_request="1",
        labels=json.dumps(one.get("labels", {})),
        workload_kind=one.get("controller_kind"),
        workload_name=one.get("controller"),
    )


def costs(sql, **parameters):
    """The two columns of a query as a dict, rounded to the four decimals the examples give."""
    return {row[0]: round(row[1], 4) for row in query(sql, "bi", **parameters)}


def expected(case_id, key="expect"):
    case = next(case for case in MOCK["cases"] if case["id"] == case_id)
    names = {"__idle__": "idle", "__unallocated__": None}
    return {names.get(name, name): round(Decimal(cost), 4) for name, cost in case[key].items()}


BY = (
    "select case when line = 'idle' then 'idle' else {} end, sum(cost) from bi.cost_hour group by 1"
)


@pytest.mark.claims("O1", "O2", "O3")
@pytest.mark.parametrize(
    ("case_id", "column"), [("1a", "cluster"), ("1b", "namespace"), ("1e", "workload_kind")]
)
def test_costs_by_any_column_with_idle_apart(warehouse, case_id, column):
    publish_mock()
    assert costs(BY.format(column)) == expected(case_id)


@pytest.mark.claims("O4")
def test_costs_by_two_labels(warehouse):
    publish_mock()
    found = costs(
        "select concat_ws('/', coalesce(labels ->> 'app', 'unallocated'), case when labels ? 'app'"
        " then coalesce(labels ->> 'env', 'unallocated') end), sum(cost) from bi.cost_hour"
        " join bi.pod_label_hour using (cluster, hour, pod_uid) group by 1"
    )
    assert found == {
        "app1/env1": 16,
        "app2/env2": 12,
        "app2/unallocated": 12,
        "unallocated": 42,
    }


IDLE_SHARED = Shares(idle=Share(by="cluster"))


@pytest.mark.claims("O5")
def test_idle_shared_by_resource_within_each_cluster(warehouse):
    publish_mock(share=IDLE_SHARED)
    by_namespace = "select namespace, sum(cost) from bi.cost_hour group by 1 having sum(cost) <> 0"
    assert costs(by_namespace) == expected("3a")
    idle_of_c1 = query(
        "select sum(cpu_cost), sum(memory_cost) from bi.cost_hour where pod = 'c1' and line = 'idle'"
    )
    assert [round(cost, 4) for cost in idle_of_c1[0]] == [Decimal("0.8333"), Decimal("10.3125")]


@pytest.mark.claims("O9")
def test_a_slice_of_what_was_shared_is_that_slice_of_the_whole(warehouse):
    publish_mock(share=IDLE_SHARED)
    found = costs(
        "select case when line = 'idle' then 'idle' else cluster end, sum(cost) from bi.cost_hour"
        " where namespace = 'ns2' group by 1"
    )
    assert found == expected("5d")


ACROSS = (
    "select coalesce(namespace, line), sum(cost) from bi.share_across_clusters('resource',"
    " '2026-11-03 10:00Z', '2026-11-03 11:00Z', {}) group by 1 having sum(cost) <> 0"
)


@pytest.mark.claims("O6", "O7", "O8")
@pytest.mark.parametrize(
    ("case_id", "shared"),
    [
        ("4a", "array['ns3'], how => 'even'"),
        ("4b", "array['ns3']"),
        ("4c", """shared_labels => '{"app": "app1"}', how => 'even'"""),
        ("4d", "overhead => 7 * 24"),
    ],
)
def test_sharing_across_clusters_with_idle_apart(warehouse, case_id, shared):
    publish_mock()
    assert costs(ACROSS.replace("{}", shared)) == expected(case_id)


@pytest.mark.claims("O10", "O11")
@pytest.mark.parametrize(
    ("case_id", "shared"), [("6g", "array['ns1']"), ("6i", "overhead => 7 * 24")]
)
def test_sharing_across_clusters_after_idle_was_shared(warehouse, case_id, shared):
    publish_mock(share=IDLE_SHARED)
    assert costs(ACROSS.replace("{}", shared)) == expected(case_id)


@pytest.mark.claims("O12")
def test_what_a_shared_namespace_passes_on_carries_its_own_idle_in_proportion(warehouse):
    publish_mock(share=IDLE_SHARED)
    found = costs(
        "select case when line = 'idle' then 'idle' else namespace end, sum(cost)"
        " from bi.share_across_clusters('resource', '2026-11-03 10:00Z', '2026-11-03 11:00Z',"
        " array['ns1']) where namespace = 'ns2' group by 1"
    )
    assert found == expected("6e-bug", "correct")


def test_sharing_across_clusters_loses_and_makes_nothing(warehouse):
    publish_mock(share=IDLE_SHARED)
    for shared in ("array['ns1']", "array['ns1', 'ns2', 'ns3']", "how => 'even'"):
        total = query(ACROSS.replace("{}", shared).replace("coalesce(namespace, line)", "1"))
        assert total == query("select 1, sum(cost) from bi.cost_hour")


@pytest.mark.claims("O13")
def test_idle_by_node(warehouse):
    publish_mock()
    found = costs(
        "select case when line = 'idle' then node else namespace end, sum(cost) from bi.cost_hour"
        " group by 1"
    )
    assert found == expected("6k")


# --- one cluster, worked out ----------------------------------------------------------------------


def lines(nodes, pods, prices, used=(), owners=(), window=HOUR, **settings):
    """The cost lines of an hour of one cluster."""
    configure(owners, model(**settings))
    cluster = cluster_of("c")
    land_said(cluster, Said(window, {"node": nodes, "pod": pods, "usage": list(used)}))
    return lines_of(stage_window(cluster, window, prices))


def total(found, column="cost", **where):
    return sum(
        getattr(line, column)
        for line in found
        if all(getattr(line, name) == value for name, value in where.items())
    )


@pytest.mark.claims("O14")
def test_idle_of_a_resource_nobody_has_stays_where_it_is(warehouse):
    case = peers()["undistributable_idle"]
    found = lines(
        [
            node(
                "n",
                TEN,
                cpu_capacity_cores="12",
                memory_capacity_bytes=str(7 * GIB),
                gpu_capacity="12",
            )
        ],
        [pod("w", TEN, node="n", cpu_request_cores="2", memory_request_bytes=str(GIB))],
        {"uid-n": ("12", "7", "12")},
        share=Shares(idle=Share(by="cluster")),
    )
    columns = {"cpu": "cpu_cost", "gpu": "gpu_cost", "ram": "memory_cost"}
    workload = {name: total(found, column, owner="unowned") for name, column in columns.items()}
    left = {name: total(found, column, owner="cluster") for name, column in columns.items()}
    assert workload == {name: Decimal(cost) for name, cost in case["expect"]["workload"].items()}
    assert left == {name: Decimal(cost) for name, cost in case["expect"]["idle_left"].items()}


@pytest.mark.claims("O15", "O16", "O24")
@pytest.mark.parametrize(
    ("cores", "gib", "gpus", "price", "base", "unit"),
    [
        (
            case["cpu"],
            case["ram_gib"],
            case["gpu"],
            case["node_price"],
            BasePrice(*(Decimal(case["base"].get(name, "0.95")) for name in ("cpu", "ram", "gpu"))),
            case["expect"],
        )
        for case in peers()["node_price_split"]["cases"]
    ]
    + [
        (
            4,
            16,
            0,
            peers()["aws_scad"]["instance"]["amortised_per_hour"],
            "aws",
            {
                "cpu": peers()["aws_scad"]["expect"]["vcpu_hour"],
                "ram": peers()["aws_scad"]["expect"]["gib_hour"],
            },
        )
    ],
    ids=["all three", "no GPU", "AWS 9:1"],
)
def test_a_node_price_is_cut_by_base_prices_and_re_adds(
    warehouse, cores, gib, gpus, price, base, unit
):
    found = lines(
        [
            node(
                "n",
                TEN,
                cpu_capacity_cores=str(cores),
                memory_capacity_bytes=str(gib * GIB),
                gpu_capacity=str(gpus),
            )
        ],
        [],
        {"uid-n": price},
        base_price=base,
    )
    per_unit = {
        "cpu": total(found, "cpu_cost") / cores,
        "ram": total(found, "memory_cost") / gib,
        "gpu": total(found, "gpu_cost") / max(gpus, 1),
    }
    for name, cost in unit.items():
        assert round(per_unit[name], 10) == round(Decimal(cost), 10)
    assert total(found) == Decimal(price)


@pytest.mark.claims("O21")
def test_shares_of_a_node(warehouse):
    case = peers()["parc"]
    window = hours("10:00", "13:00")
    three = span("10:00", "13:00")
    found = lines(
        [node("n", three)],
        [pod(name, three, node="n") for name in case["pod_core_hours"]],
        {"uid-n": ("4", "0", "0")},
        [
            usage(name, (hour.start, hour.end), cpu=str(Decimal(core_hours) * 1200))
            for name, core_hours in case["pod_core_hours"].items()
            for hour in window.chunks(HOUR.end - HOUR.start)
        ],
        window=window,
        basis="used",
    )
    for name, percent in case["expect_pct"].items():
        assert round(100 * total(found, pod=f"uid-{name}") / 12, 4) == Decimal(percent)


def idle_scene(by):
    case = peers()["kubecost_idle"]["nodes"]
    names = {"a": ["w1", "w2", "w3", "w4"], "b": ["w5"]}
    return lines(
        [
            node(
                name,
                TEN,
                cpu_capacity_cores=str(case["node1"]["capacity"]),
                memory_capacity_bytes="0",
            )
            for name in names
        ],
        [
            pod(name, TEN, node=place, cpu_request_cores="1")
            for place, here in names.items()
            for name in here
        ],
        {f"uid-{name}": ("6", "0", "0") for name in names},
        share=Shares(idle=Share(by=by)),
    )


@pytest.mark.claims("O22")
@pytest.mark.parametrize("by", ["node", "cluster"])
def test_idle_by_node_or_by_cluster(warehouse, by):
    case = peers()["kubecost_idle"]
    found = idle_scene(by)
    wanted = case["by_node"] if by == "node" else dict.fromkeys(case["by_node"], None)
    for name, cost in wanted.items():
        expected_cost = Decimal(cost or case["by_cluster"]["each"])
        assert round(total(found, pod=f"uid-{name}"), 10) == expected_cost
    assert total(found) == Decimal(case["sum"])


@pytest.mark.claims("O23")
def test_efficiency_is_weighed_by_cost(warehouse):
    case = peers()["kubecost_efficiency"]
    configure(model=model())
    cluster = cluster_of("c")
    rows = {
        "node": [node("n", TEN, cpu_capacity_cores="2", memory_capacity_bytes=str(GIB))],
        "pod": [
            pod(
                "w",
                TEN,
                node="n",
                cpu_request_cores=str(case["request"]["cpu"]),
                memory_request_bytes=str(case["request"]["ram"] * GIB),
            )
        ],
        "usage": [
            usage(
                "w",
                TEN,
                cpu=str(Decimal(case["usage"]["cpu"]) * 3600),
                memory=str(Decimal(case["usage"]["ram"]) * GIB * 3600),
            )
        ],
    }
    land_said(cluster, Said(HOUR, rows))
    price = (str(2 * Decimal(case["price"]["cpu"])), case["price"]["ram"], "0")
    publish_stage(stage_window(cluster, HOUR, {"uid-n": price}))
    ((efficiency, waste),) = query("select efficiency, waste from bi.efficiency_cost_day", "bi")
    assert efficiency == round(Decimal(case["expect"]), 6)
    assert round(waste, 6) == 21 - Decimal("5.5")


@pytest.mark.claims("C34")
def test_mig_slices_are_parts_of_their_card(warehouse):
    given = cases()["C34"]["input"]
    (resource, slices), *_ = given["requests"].items()
    cell = Window(*TEN)
    node_item = msgspec.convert(
        {
            "metadata": {
                "name": "n",
                "uid": "uid-n",
                "labels": {"nvidia.com/gpu.count": str(given["label nvidia.com/gpu.count"])},
                "creationTimestamp": "2026-11-01T00:00:00Z",
            },
            "status": {"capacity": {"cpu": "8", "memory": "1Gi", resource: "7"}},
        },
        Node,
    )
    pod_item = msgspec.convert(
        {
            "metadata": {
                "name": "p",
                "namespace": "shop",
                "uid": "uid-p",
                "creationTimestamp": "2026-11-01T00:00:00Z",
            },
            "spec": {
                "nodeName": "n",
                "containers": [{"name": "c", "resources": {"requests": {resource: str(slices)}}}],
            },
            "status": {"phase": "Running", "startTime": "2026-11-01T00:00:00Z"},
        },
        Pod,
    )
    rows = {"node": node_rows(node_item, cell), "pod": pod_rows(pod_item, cell).rows}
    configure(model=model())
    cluster = cluster_of("c")
    land_said(cluster, Said(HOUR, rows))
    found = lines_of(stage_window(cluster, HOUR, {"uid-n": ("0", "0", "7")}))
    share = Fraction(total(found, "gpu_cost", pod="uid-p")) / 7
    assert share == Fraction(cases()["C34"]["right"]["gpu_fraction"])


TEAMS = (OwnerEntry(namespace="a", owner="A"), OwnerEntry(namespace="b", owner="B"))


@pytest.mark.claims("O25")
def test_a_pool_passed_on_by_direct_cost(warehouse):
    found = lines(
        [node("n", TEN, cpu_capacity_cores="200", memory_capacity_bytes="0")],
        [
            pod("x", TEN, namespace="a", node="n", cpu_request_cores="25"),
            pod("y", TEN, namespace="b", node="n", cpu_request_cores="75"),
        ],
        {"uid-n": ("200", "0", "0")},
        owners=TEAMS,
        share=Shares(idle=Share(by="cluster", weights="cost")),
    )
    passed_on = {
        owner: total(found, owner=owner, is_distribution=True) for owner in ("A", "B", "cluster")
    }
    assert passed_on == {"A": 25, "B": 75, "cluster": -100}


@pytest.mark.claims("O26")
def test_idle_gpus_of_each_model_go_to_those_who_use_that_model(warehouse):
    pools = peers()["koku_distribution"]["cases"][1]
    found = lines(
        [
            node(
                name,
                TEN,
                cpu_capacity_cores="0",
                memory_capacity_bytes="0",
                gpu_capacity="20",
                labels=f'{{"karpenter.sh/nodepool": "{name}"}}',
            )
            for name in ("A100", "H100")
        ],
        [
            pod("x", TEN, namespace="a", node="A100", gpu_request="10"),
            pod("y", TEN, namespace="a", node="H100", gpu_request="1"),
            pod("z", TEN, namespace="b", node="H100", gpu_request="9"),
        ],
        {"uid-A100": ("0", "0", "60"), "uid-H100": ("0", "0", "140")},
        owners=TEAMS,
        share=Shares(idle=Share(by="node_pool")),
    )
    passed_on = {
        owner: total(found, owner=owner, is_distribution=True) for owner in ("A", "B", "cluster")
    }
    assert passed_on == {
        "A": Decimal(pools["expect"]["a"]),
        "B": Decimal(pools["expect"]["b"]),
        "cluster": Decimal(pools["expect"]["pools"]),
    }


@pytest.mark.claims("O27")
@pytest.mark.parametrize("weights", ["resource", "cost", "even"])
def test_a_pool_without_users_stays_under_its_name(warehouse, weights):
    found = lines(
        [node("n", TEN)],
        [],
        {"uid-n": "100"},
        share=Shares(idle=Share(by="cluster", weights=weights)),
    )
    assert {(line.line, line.owner, line.is_distribution) for line in found} == {
        ("idle", "cluster", False)
    }
    assert total(found) == 100
