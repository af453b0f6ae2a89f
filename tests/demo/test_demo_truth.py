"""The ground truth is what the server served, integrated; and its lines add up to the node's cost."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import Any

import pytest
import requests
import yaml

from kubetally.config import config_dir
from kubetally.demo import truth
from kubetally.demo.__main__ import main
from kubetally.demo.price_lists import GPU_PRICE, price_per_hour, timeline_price
from kubetally.demo.scenario import GI, HOUR, Container, Pool, Scenario, Workload, at
from kubetally.demo.server import DemoServer
from kubetally.windows import Window


def epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def window(start: str, end: str) -> Window:
    return Window(
        datetime.fromisoformat(start).replace(tzinfo=UTC),
        datetime.fromisoformat(end).replace(tzinfo=UTC),
    )


# --- brute force over the served samples ----------------------------------------------------


class Served:
    """Samples as a client sees them, tick by tick (a tick divides the scrape interval and the hour,
    so nothing happens within one). Knows nothing of the scenario's insides."""

    def __init__(self, server: DemoServer, hours: Window, step: int) -> None:
        self.url, self.step, self.tick = server.url, step, gcd(step, 60)
        self.start = int(hours.start.timestamp())
        self.end = int(hours.end.timestamp())

    def series(self, selector: str) -> list[tuple[dict[str, str], list[tuple[int, Fraction]]]]:
        margin = 600
        length = self.end - self.start + 2 * margin
        answer = requests.post(
            f"{self.url}/api/v1/query",
            data={"query": f"{selector}[{length}s]", "time": str(self.end + margin)},
            timeout=60,
        ).json()
        return [
            (one["metric"], [(int(t), Fraction(v)) for t, v in one["values"]])
            for one in answer["data"]["result"]
        ]

    def gauge(self, samples: list[tuple[int, Fraction]]) -> dict[int, Fraction]:
        """Value x seconds per tick."""
        found = {}
        for n, (moment, value) in enumerate(samples):
            until = moment + self.step
            if n + 1 < len(samples) and samples[n + 1][0] - moment <= 300:
                until = samples[n + 1][0]
            for tick in range(max(moment, self.start), min(until, self.end), self.tick):
                found[tick] = value * self.tick
        return found

    def counter(self, samples: list[tuple[int, Fraction]]) -> dict[int, Fraction]:
        """Increase per tick."""
        found = {}
        for (t0, v0), (t1, v1) in pairwise(samples):
            assert v1 >= v0
            if t1 - t0 <= 300:
                increase = (v1 - v0) * self.tick / (t1 - t0)
                for tick in range(max(t0, self.start), min(t1, self.end), self.tick):
                    found[tick] = increase
        return found


Totals = dict[tuple[int, str, str], dict[str, Fraction]]


def brute_force(served: Served) -> Totals:
    """(hour, namespace, pod) → what was allocated and used, from the samples alone."""
    request: dict[tuple[str, str], dict[str, dict[int, Fraction]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    used: dict[tuple[str, str], dict[str, dict[int, Fraction]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(Fraction))
    )
    terminal: dict[tuple[str, str], set[int]] = defaultdict(set)
    for labels, samples in served.series('kube_pod_status_phase{phase=~"Succeeded|Failed"}'):
        over = {tick for tick, value in served.gauge(samples).items() if value}
        terminal[labels["namespace"], labels["pod"]] |= over
    for labels, samples in served.series("kube_pod_resource_request"):
        if "node" in labels:
            pod = (labels["namespace"], labels["pod"])
            request[pod][labels["resource"]].update(served.gauge(samples))
    for metric, resource, read in (
        ("container_cpu_usage_seconds_total", "cpu", served.counter),
        ("container_memory_working_set_bytes", "memory", served.gauge),
    ):
        for labels, samples in served.series(f'{metric}{{container!=""}}'):
            pod = (labels["namespace"], labels["pod"])
            for tick, value in read(samples).items():
                used[pod][resource][tick] += value
    totals: Totals = {}
    for pod in set(request) | set(used):
        for hour in range(served.start, served.end, HOUR):
            row = totals.setdefault((hour, *pod), {})
            for resource in ("cpu", "memory"):
                covered = uncovered = usage = Fraction(0)
                for tick in range(hour, hour + HOUR, served.tick):
                    asked = request[pod][resource].get(tick, Fraction(0))
                    if tick in terminal[pod]:
                        asked = Fraction(0)
                    if tick in used[pod][resource]:
                        covered += asked
                        usage += used[pod][resource][tick]
                    else:
                        uncovered += asked
                row[f"{resource} allocated"] = uncovered + max(covered, usage)
                row[f"{resource} used"] = usage
            row["gpu allocated"] = sum(
                (
                    request[pod]["nvidia.com/gpu"].get(s, Fraction(0))
                    for s in range(hour, hour + HOUR, served.tick)
                ),
                Fraction(0),
            )
    return {key: row for key, row in totals.items() if any(row.values())}


def told(scenario: Scenario, hours: Window) -> Totals:
    totals: Totals = defaultdict(lambda: defaultdict(Fraction))
    for one in truth.pod_hours(scenario, hours):
        row = totals[int(one.hour.timestamp()), one.pod.namespace, one.pod.name]
        row["cpu allocated"] += one.cpu_allocated
        row["memory allocated"] += one.memory_allocated
        row["gpu allocated"] += one.gpu_allocated
        row["cpu used"] += one.cpu_used
        row["memory used"] += one.memory_used
    return {key: dict(row) for key, row in totals.items() if any(row.values())}


@pytest.mark.parametrize(
    ("hours", "why"),
    [
        (("2026-11-05T14:00", "2026-11-05T15:00"), "a spot node is reclaimed and replaced"),
        (
            ("2026-11-03T02:00", "2026-11-03T04:00"),
            "the nightly job ends with a tail; daemons roll",
        ),
        (("2026-11-02T10:00", "2026-11-02T11:00"), "a roll-out"),
        (("2026-11-07T02:00", "2026-11-07T03:00"), "stateful pods are recreated under their name"),
    ],
)
def test_the_truth_is_what_was_served(hours: tuple[str, str], why: str) -> None:
    scenario, span = Scenario(), window(*hours)
    with DemoServer(scenario, clock=lambda: span.end + timedelta(hours=1)) as server:
        seen = brute_force(Served(server, span, 60))
    same_name_twice = {  # one name, two uids in the hour: max() is per uid, the samples cannot tell
        (pod.namespace, pod.name)
        for pod in scenario.pods(int(span.start.timestamp()), int(span.end.timestamp()))
        if pod.owner_kind == "StatefulSet"
        and int(span.start.timestamp()) < pod.created < int(span.end.timestamp())
    }
    wanted = told(scenario, span)
    assert set(seen) == set(wanted)
    compared = 0
    for key, row in wanted.items():
        if key[1:] in same_name_twice:
            assert seen[key]["cpu used"] == row["cpu used"]
            continue
        assert seen[key] == row, key
        compared += 1
    assert compared > 70


@pytest.mark.parametrize("step", [30, 45, 300])
def test_the_truth_follows_the_scrape_interval(step: int) -> None:
    scenario = Scenario(scrape_interval_seconds=step)
    span = window("2026-11-05T14:00", "2026-11-05T15:00")
    with DemoServer(scenario, clock=lambda: span.end + timedelta(hours=1)) as server:
        seen = brute_force(Served(server, span, step))
    wanted = told(scenario, span)
    assert set(seen) == set(wanted)
    for key, row in wanted.items():
        if "spark-executor" not in key[2]:
            assert seen[key] == row, key


def test_an_interval_over_the_edge_of_an_hour_is_split_at_nine_decimals() -> None:
    scenario = Scenario(scrape_interval_seconds=70)
    span = window("2026-11-04T09:00", "2026-11-04T10:00")
    with DemoServer(scenario, clock=lambda: span.end + timedelta(hours=1)) as server:
        seen = brute_force(Served(server, span, 70))
    wanted = told(scenario, span)
    odd = 0
    for key, row in wanted.items():
        assert abs(seen[key]["cpu used"] - row["cpu used"]) <= Fraction(4, 10**9)
        assert (row["cpu used"] * 10**9).denominator == 1
        assert seen[key]["memory used"] == row["memory used"]
        odd += seen[key]["cpu used"] != row["cpu used"]
    assert odd, "nothing was rounded: the case does not test what it says"


# --- by hand --------------------------------------------------------------------------------

ONE_NODE = Pool("general", 1, "Standard_D4s_v5", 4000, 3000, 16 * GI, 12 * GI)
TINY = Scenario(
    pools=(ONE_NODE,),
    workloads=(
        Workload(
            "checkout",
            "reserved",
            "Deployment",
            "general",
            (Container("c", 1000, 4 * GI, cpu_use=0, memory_use=0),),
            rolls=(at(0, 0),),
        ),
        Workload(
            "nobody",
            "silent",
            "Deployment",
            "general",
            (Container("c", None, None, cpu_use=0, memory_use=0),),
            rolls=(at(0, 0),),
        ),
    ),
)


def test_a_node_of_one_reserved_pod_by_hand() -> None:
    # Wednesday 4 November 2026, 10:00: week 45 begins at 12:00, so the price is still week 44's
    lines = truth.costs(TINY, window("2026-11-04T10:00", "2026-11-04T11:00"))
    by_line = {line.line: line for line in lines}
    assert [line.line for line in lines] == ["workload", "system", "idle"]
    # weights: 4 cores x 0.031611 = 0.126444; 16 GiB x 0.004237 = 0.067792; together 0.194236
    cpu = Decimal("0.192") * Decimal("0.126444") / Decimal("0.194236")
    memory = Decimal("0.192") - cpu
    near = Decimal("1e-17")
    assert by_line["workload"].owner == "team-checkout"
    assert abs((by_line["workload"].cpu_cost or 0) - cpu / 4) < near
    assert abs((by_line["workload"].memory_cost or 0) - memory / 4) < near
    assert abs((by_line["system"].cost or 0) - Decimal("0.048")) < 2 * near
    assert abs((by_line["idle"].cost or 0) - Decimal("0.096")) < 3 * near
    assert sum(line.cost or 0 for line in lines) == Decimal("0.192")


def test_the_price_changes_on_wednesday_at_noon() -> None:
    def price(text: str) -> Decimal | None:
        node = TINY.nodes(epoch(text), epoch(text) + 1)[0]
        return price_per_hour(TINY, node, epoch(text))

    assert price("2026-11-04T11:00") == Decimal("0.192")  # week 44
    assert price("2026-11-04T12:00") == Decimal("0.2016")  # week 45
    assert price("2026-11-11T11:00") == Decimal("0.2016")
    assert price("2026-11-11T12:00") == Decimal("0.192")
    # 2026 has a week 53, and week 1 follows it: both odd, no change
    assert timeline_price(datetime(2027, 1, 6, 12, tzinfo=UTC)) == Decimal("0.2016")


# --- invariants -----------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["azure", "gcp"])
def test_lines_add_to_the_nodes_cost_exactly(provider: str) -> None:
    scenario = Scenario(provider=provider)  # type: ignore[arg-type]
    span = window("2026-11-05T12:00", "2026-11-05T16:00")
    sums: dict[tuple[datetime, str], Fraction] = defaultdict(Fraction)
    for line in truth.costs(scenario, span):
        assert line.cost is not None and line.cpu_cost is not None
        assert line.memory_cost is not None and line.gpu_cost is not None
        parts = Fraction(line.cpu_cost) + Fraction(line.memory_cost) + Fraction(line.gpu_cost)
        assert parts == Fraction(line.cost)
        assert (line.line == "overcommit") == (line.cost < 0)
        sums[line.hour, line.node] += parts
    wanted = {
        (n.hour, n.node.name): Fraction(n.cost or 0) for n in truth.node_hours(scenario, span)
    }
    assert sums == wanted
    assert len(wanted) == 4 * 10 + 1  # the replacement shares an hour with the node it replaces


def test_the_reclaimed_node_is_billed_to_the_second() -> None:
    span = window("2026-11-05T14:00", "2026-11-05T15:00")
    spot = [n for n in truth.node_hours(Scenario(), span) if n.node.pool.is_spot]
    assert [n.seconds for n in spot] == [23 * 60, 29 * 60, 3600]
    assert spot[0].cost == (Decimal("0.018816") * 23 / 60).quantize(Decimal("1e-18"))


def test_days_are_the_sum_of_their_hours() -> None:
    scenario, day = Scenario(), date(2026, 11, 5)
    whole = truth.cost_by_owner(scenario, day)
    hours = [
        line
        for part in Window.of_day(day).chunks(timedelta(hours=1))
        for line in truth.costs(scenario, part)
    ]
    assert truth.add_up(hours) == whole
    assert ("unowned", "workload") in whole and ("cluster", "overcommit") in whole
    assert {owner for owner, _ in whole} == {*truth.OWNERS.values(), "cluster", "unowned"}


def test_an_idle_but_reserved_namespace_pays_for_what_it_reserved() -> None:
    span = window("2026-11-03T10:00", "2026-11-03T11:00")
    for one in truth.pod_hours(Scenario(), span):
        if one.pod.namespace == "campaign-summer":
            assert one.cpu_allocated == one.cpu_requested > 50 * one.cpu_used


def test_finished_and_unscheduled_pods_hold_nothing() -> None:
    scenario, span = Scenario(), window("2026-11-03T10:00", "2026-11-03T11:00")
    billed = {one.pod.uid for one in truth.pod_hours(scenario, span)}
    start, end = int(span.start.timestamp()), int(span.end.timestamp())
    over = [
        p
        for p in scenario.pods(start, end)
        if p.outcome and max(r.seen_until for r in p.runs) < start
    ]
    waiting = [p for p in scenario.pods(start, end) if p.node is None]
    assert len(over) >= 3 and len(waiting) == 1
    assert not billed & {pod.uid for pod in over + waiting}


def test_a_node_without_a_price_is_unpriced_not_free() -> None:
    scenario = Scenario(provider="gcp")
    lines = truth.costs(scenario, window("2026-07-29T10:00", "2026-07-29T11:00"))
    unpriced = [line for line in lines if line.line == "unpriced"]
    assert len({line.node for line in unpriced}) == 8  # all but the two of the custom sheet
    assert all(line.cost is None and line.cpu_cost is None for line in unpriced)
    assert any(line.pod_uid for line in unpriced)


# --- what is written down twice -------------------------------------------------------------


def configured(name: str) -> Any:
    return yaml.safe_load((config_dir() / name).read_text(encoding="utf-8"))


def test_owners_agree_with_the_configuration() -> None:
    entries = configured("owners.yaml")["owners"]
    for space in Scenario().namespaces:
        found = next((e["owner"] for e in entries if fnmatchcase(space.name, e["namespace"])), None)
        assert found == truth.OWNERS.get(space.name), space.name
    assert all(entry["valid_from"] <= date(2024, 1, 1) for entry in entries)


def test_the_gpu_price_agrees_with_the_price_sheet() -> None:
    (entry,) = configured("price_sheets/demo.yaml")["prices"]
    assert Decimal(entry["price_per_hour"]) == GPU_PRICE
    assert entry["match"]["labels"] == {"kubetally.dev/pool": "gpu"}
    labelled = [
        n
        for n in Scenario().nodes(epoch("2026-11-03"), epoch("2026-11-03") + 1)
        if ("kubetally.dev/pool", "gpu") in n.labels
    ]
    assert len(labelled) == 2 and all(node.pool.gpus for node in labelled)


def test_the_command_line_prints_owners_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["truth", "--day", "2026-11-03"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "owner,line,cost,currency"
    assert main(["truth", "--day", "2026-11-03", "--json"]) == 0
    as_json = json.loads(capsys.readouterr().out)
    assert [",".join((r["owner"], r["line"], r["cost"], r["currency"])) for r in as_json] == rows[
        1:
    ]
    # 2x0.096 + 3x0.192 (the week's price) + 0.252 + 2x0.018816 + 2x3.06, 24 h,
    # less the 8 minutes without the spot node that goes on Tuesday at 09:41
    per_hour = (
        2 * Decimal("0.096")
        + 3 * Decimal("0.192")
        + Decimal("0.252")
        + 2 * Decimal("0.018816")
        + 2 * GPU_PRICE
    )
    missing = (Decimal("0.018816") * 8 / 60).quantize(Decimal("1e-15"))
    assert abs(sum(Decimal(row["cost"]) for row in as_json) - (per_hour * 24 - missing)) < Decimal(
        "1e-14"
    )
