"""The SQL allocation against an independent allocator in plain Python, on random clusters: equal, exactly.

KUBETALLY_EXAMPLES=2000 looks longer.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from allocate import oracle
from allocate.clusters import Case, cases
from allocate.scene import (
    Said,
    cluster_of,
    configure,
    land_said,
    lines_of,
    stage_window,
)
from kubetally.allocate.models import CostModel
from kubetally.windows import HOUR, Window

numbers = itertools.count()
EXAMPLES = int(os.environ.get("KUBETALLY_EXAMPLES", "90"))


def random_clusters(share=1):
    """KUBETALLY_EXAMPLES random clusters, or their `share`-th part."""
    return settings(
        max_examples=max(EXAMPLES // share, 1),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def as_oracle(lines):
    """The warehouse's lines in the oracle's words."""
    return [
        oracle.Line(
            line.hour,
            line.line,
            line.node,
            line.pod,
            line.owner,
            {
                "cpu": Fraction(line.cpu_core_seconds),
                "gpu": Fraction(line.gpu_seconds),
                "memory": Fraction(line.memory_byte_seconds),
            },
            None
            if line.cost is None
            else {
                "cpu": Fraction(line.cpu_cost),
                "gpu": Fraction(line.gpu_cost),
                "memory": Fraction(line.memory_cost),
            },
            line.is_distribution,
        )
        for line in lines
    ]


def key(line):
    return line.hour, line.node, line.line, line.pod, line.is_distribution, line.owner


def in_order(lines):
    return sorted(lines, key=key)


def assert_same(found, wanted):
    """Names the lines that differ, not the hundreds that do not."""
    differences = [f"found  {line}" for line in found if line not in wanted]
    differences += [f"wanted {line}" for line in wanted if line not in found]
    assert not differences, "\n".join(sorted(differences, key=lambda text: text[7:]))
    assert len(found) == len(wanted)


def fresh_cluster():
    return cluster_of(f"c{next(numbers)}", "prometheus", "kubernetes")


def staged(case: Case, said, window: Window | None = None, cluster=None):
    """The lines of a window after landing `said` in order, in a cluster of its own."""
    cluster = cluster or fresh_cluster()
    world = case.world
    configure(world.owners, CostModel("resource", (world.model,)), world.drivers)
    for one in said:
        land_said(cluster, one)
    return lines_of(stage_window(cluster, window or case.window, case.world.prices))


@random_clusters()
@given(case=cases())
def test_sql_and_oracle_agree_on_every_line(pooled, case):
    cluster = fresh_cluster()
    world = replace(case.world, cluster=cluster.name)
    found = in_order(as_oracle(staged(case, world.said, cluster=cluster)))
    wanted = in_order(world.lines(case.window))
    assert_same(found, wanted)


@random_clusters(3)
@given(case=cases())
def test_lines_of_a_node_hour_add_up_to_its_price(pooled, case):
    """Without the oracle's allocation: only how long a node was there and what an hour of it costs."""
    lines = staged(case, case.world.said)
    assert all(count == 1 for count in Counter(map(key, lines)).values())
    totals: dict = defaultdict(Fraction)
    for line in lines:
        if line.cost is not None and not line.is_distribution:
            totals[line.node, oracle.micro(line.hour)] += Fraction(line.cost)
    exact = {
        (uid, hour): per_hour * length / 3600
        for uid, hour, length in node_hours(case)
        if (per_hour := price_per_hour(case.world.price(uid, hour))) is not None
    }
    assert totals.keys() <= exact.keys()
    for place, cost in exact.items():
        assert abs(totals[place] - cost) <= Fraction(1, 2 * oracle.UNITS)


def node_hours(case):
    """(uid, hour, seconds) of every node that is somebody's cost."""
    for hour in range(oracle.micro(case.window.start), oracle.micro(case.window.end), oracle.HOUR):
        lives: dict = defaultdict(list)
        for one in case.world.nodes(hour // oracle.DAY * oracle.DAY):
            for span in oracle.both([one.span], [(hour, hour + oracle.HOUR)]):
                lives[one.row["uid"]].append((span, one.row["is_virtual"]))
        for uid, life in lives.items():
            if not any(is_virtual for _, is_virtual in life):
                yield uid, hour, oracle.seconds(span for span, _ in life)


def price_per_hour(price):
    return (
        None if price is None else sum(map(Fraction, [price] if isinstance(price, str) else price))
    )


@random_clusters(3)
@given(case=cases(), data=st.data())
def test_a_window_in_pieces_gives_the_same_lines(pooled, case, data):
    """Hourly runs and the daily one are one pipeline at two window sizes."""
    count = case.window.seconds // 3600
    cut = case.window.start + data.draw(st.integers(1, max(count - 1, 1))) * HOUR
    cluster = fresh_cluster()
    whole = staged(case, case.world.said, cluster=cluster)
    if not case.window.start < cut < case.window.end:
        return
    first = stage_window(cluster, Window(case.window.start, cut), case.world.prices)
    second = stage_window(cluster, Window(cut, case.window.end), case.world.prices)
    assert_same(lines_of(first) + lines_of(second), whole)


def hourly(said: Said) -> list[Said]:
    return [said.within(window) for window in said.window.chunks(timedelta(hours=1))]


@random_clusters(3)
@given(case=cases(), data=st.data())
def test_how_the_rows_arrived_does_not_matter(pooled, case, data):
    """By hours or in one, shuffled, twice, the second source first or last: the same lines."""
    latest = {
        said.source: said for said in case.world.said if said.window == case.world.said[0].window
    }
    once = staged(case, list(latest.values()))
    parts = [part for said in latest.values() for part in hourly(said)]
    shuffled = data.draw(st.permutations(parts))
    again = shuffled[: data.draw(st.integers(0, 2))]
    assert_same(staged(case, [*shuffled, *again]), once)
