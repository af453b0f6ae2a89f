"""Excluded namespaces are hidden in reports; their cost stays in the totals on a line of its own."""

from __future__ import annotations

import msgspec
import pytest

from allocate.scene import A_DAY, NOW, a_day, cluster_of, configure, land_said, query, run_window
from database import Warehouse
from kubetally.allocate.owners import OwnerEntry, excluding_rules, sync_owners
from kubetally.config import ClusterConfig
from kubetally.warehouse.connect import engine
from oracles.by_hand import cases

OWNERS = (OwnerEntry(namespace="*", owner="everyone"),)


def cluster(name: str = "c", **filters: tuple[str, ...]) -> ClusterConfig:
    return msgspec.structs.replace(cluster_of(name), **filters)


def published(found: ClusterConfig) -> dict[tuple[str, str | None], object]:
    """Cost of pods by owner and namespace, as the views show it."""
    land_said(found, a_day())
    configure()
    with engine("publisher").begin() as connection:
        sync_owners(connection, OWNERS, NOW, (found,))
    run_window(found)
    shown = query(
        "select owner, namespace, sum(cost) as cost from bi.cost_hour"
        " where line = 'workload' and cluster = :cluster group by owner, namespace order by 1, 2",
        cluster=found.name,
    )
    by_day = query(
        "select owner, namespace, sum(cost) as cost from bi.cost_day"
        " where line = 'workload' and cluster = :cluster group by owner, namespace order by 1, 2",
        cluster=found.name,
    )
    assert by_day == shown
    return {(row.owner, row.namespace): row.cost for row in shown}


def test_the_cost_stays_and_the_name_goes(warehouse: Warehouse) -> None:
    whole = published(cluster("all"))
    hidden = published(cluster("some", exclude_namespaces=("la*",)))
    assert set(whole) == {("everyone", "shop"), ("everyone", "lab")}
    assert hidden == {
        ("everyone", "shop"): whole["everyone", "shop"],
        ("excluded", None): whole["everyone", "lab"],
    }
    totals = query(
        "select cluster, sum(cost) as cost from bi.cost_hour group by cluster order by 1"
    )
    assert totals[0].cost == totals[1].cost
    workloads = query(
        "select distinct pod, workload_name from bi.cost_hour where owner = 'excluded'"
    )
    assert [tuple(row) for row in workloads] == [(None, None)]
    assert A_DAY.seconds == 86400
    assert hidden_names("all") == {"shop", "lab"}
    assert hidden_names("some") == {"shop", None}


def hidden_names(name: str) -> set[str | None]:
    """The namespaces that views of usage name; all of them agree."""
    found = [
        {
            row[0]
            for row in query(f"select namespace from bi.{view} where cluster = :name", name=name)  # noqa: S608
        }
        for view in ("requests_and_usage_hour", "requests_and_usage_day", "efficiency_day")
    ]
    shares = query(
        "select namespace from bi.capacity_share_hour where cluster = :name and not is_non_allocatable",
        name=name,
    )
    found.append({row[0] for row in shares})
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.mark.parametrize(
    ("include", "exclude", "namespace", "is_hidden"),
    [
        (("*",), ("kube-*",), "kube-system", True),
        (("*",), ("kube-*",), "my-kube-system", False),
        (("*",), ("kube-system",), "kube-system-2", False),
        (("*",), ("team-?",), "team-a", True),
        (("*",), ("team-[ab]",), "team-c", False),
        (("*",), ("*",), "anything", True),
        (("team-*",), (), "team-a", False),
        (("team-*",), (), "shop", True),
        (("team-*", "shop"), (), "shop", False),
        (("team-*", "shop"), (), "shop-2", True),
        (("team-*",), ("team-b",), "team-b", True),
        (("*",), ("a.b",), "axb", False),
    ],
)
def test_globs_are_whole_names_and_exclusion_wins(
    warehouse: Warehouse,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    namespace: str,
    is_hidden: bool,
) -> None:
    rules = excluding_rules(cluster(include_namespaces=include, exclude_namespaces=exclude))
    matches = [
        query(
            "select cast(:name as text) ~ :pattern as m",
            name=namespace,
            pattern=rule["namespace_pattern"],
        )[0].m
        for rule in rules
    ]
    assert any(matches) is is_hidden


@pytest.mark.claims("AL-21")
def test_a_pattern_matches_the_namespace_and_not_the_other_way_round(warehouse: Warehouse) -> None:
    given = cases()["AL-21"]["given"]
    (rule,) = excluding_rules(cluster(exclude_namespaces=tuple(given["excluded"])))
    (found,) = query(
        "select cast(:name as text) ~ :pattern as m",
        name=given["namespace"],
        pattern=rule["namespace_pattern"],
    )
    assert ("excluded" if found.m else "shown") == cases()["AL-21"]["expect"]


def test_nobody_may_call_an_owner_excluded() -> None:
    with pytest.raises(ValueError, match="reserved"):
        OwnerEntry(namespace="x", owner="excluded")
