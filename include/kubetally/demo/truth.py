"""The ground truth of the demo cluster: what was held and used each hour, and what that cost.

Plain Python with integers and fractions; shares nothing with the sources, the SQL or the price
matcher, only the scenario and its price table. It integrates what the server's Prometheus serves:

- A gauge sample holds until the next one of its series (one scrape interval for the last).
- Two consecutive counter samples tell the use between them; after the last sample nothing is known.
- A pod's allocated quantity is its request over the seconds usage does not cover, plus the larger
  of request and use over the seconds it does.
- A node-hour's cost is cut into pools per resource by weight, and each pool into lines by quantity,
  truncated at 18 decimals; the closing line (idle, or overcommit when negative) takes the residue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from kubetally.demo.price_lists import price_parts
from kubetally.demo.scenario import HOUR, Node, Pod, Run, Scenario, grid
from kubetally.windows import Window

Resource = Literal["cpu", "memory", "gpu"]
RESOURCES: tuple[Resource, ...] = ("cpu", "gpu", "memory")  # in order of name
Interval = tuple[int, int]

SCALE = 10**18  # money is whole units of 1e-18
WEIGHTS: dict[Resource, Fraction] = {  # per core, per GiB, per GPU
    "cpu": Fraction("0.031611"),
    "memory": Fraction("0.004237"),
    "gpu": Fraction("0.95"),
}
GIB = 1024**3
HOLD = 300  # seconds a sample may wait for the next one

OWNERS = {
    "campaign-summer": "marketing",
    "checkout": "team-checkout",
    "data-platform": "data-platform",
    "kube-system": "platform",
    "ml-research": "ml-research",
    "observability": "platform",
    "payments": "team-payments",
    "search": "team-search",
}


@dataclass(frozen=True)
class PodHour:
    """A pod on its node in one hour. Quantities in core-, byte- and GPU-seconds, exact."""

    hour: datetime
    pod: Pod
    node: Node
    held_seconds: int
    cpu_requested: Fraction
    memory_requested: Fraction
    gpu_requested: Fraction
    cpu_used: Fraction
    memory_used: Fraction
    cpu_used_covered_seconds: int
    memory_used_covered_seconds: int
    cpu_allocated: Fraction
    memory_allocated: Fraction
    gpu_allocated: Fraction


@dataclass(frozen=True)
class NodeHour:
    """A node in one hour. `cost` is None where it has no price."""

    hour: datetime
    node: Node
    seconds: int
    price_per_hour: Decimal | None
    cost: Decimal | None


@dataclass(frozen=True)
class CostLine:
    """One line of the bill. `cost` is None on `unpriced` lines."""

    hour: datetime
    line: str  # workload, system, idle, overcommit, unpriced
    node: str
    pod_uid: str
    namespace: str
    owner: str
    cpu_cost: Decimal | None
    memory_cost: Decimal | None
    gpu_cost: Decimal | None
    cost: Decimal | None


# --- quantities -------------------------------------------------------------------------------


def pod_hours(scenario: Scenario, window: Window) -> list[PodHour]:
    """Every pod and hour of the window in which the pod held or used something."""
    start, end = _bounds(window)
    found = []
    for pod in scenario.pods(start - HOUR, end + HOUR):
        if pod.node is None or pod.scheduled is None:
            continue
        last = max([pod.finished, *(run.seen_until for run in pod.runs)])
        first_hour = max(start, pod.scheduled // HOUR * HOUR)
        for hour in range(first_hour, min(end, last + scenario.scrape_interval_seconds), HOUR):
            one = _pod_hour(scenario, pod, pod.node, hour)
            if one is not None:
                found.append(one)
    return found


def _pod_hour(scenario: Scenario, pod: Pod, node: Node, hour: int) -> PodHour | None:
    step = scenario.scrape_interval_seconds
    cpu_request, memory_request, gpus = pod.workload.effective_request
    assert pod.scheduled is not None
    held = _clip([_gauge_cover(pod.scheduled, pod.finished, step)], hour)
    cpu_covered: list[Interval] = []
    memory_covered: list[Interval] = []
    cpu_used = memory_used = Fraction(0)
    for run in pod.runs:
        cpu_covered += _clip([_counter_cover(run, step)], hour)
        memory_covered += _clip([_gauge_cover(run.start, run.seen_until, step)], hour)
        cpu_used += _cpu_used(run, step, hour)
        memory_used += _memory_used(run, step, hour)
    cpu_covered, memory_covered = _union(cpu_covered), _union(memory_covered)
    if not held and not cpu_covered and not memory_covered:
        return None
    cores = Fraction(cpu_request, 1000)
    seconds = _length(held)
    cpu_both = _length(_overlap(held, cpu_covered))
    memory_both = _length(_overlap(held, memory_covered))
    return PodHour(
        hour=datetime.fromtimestamp(hour, UTC),
        pod=pod,
        node=node,
        held_seconds=seconds,
        cpu_requested=cores * seconds,
        memory_requested=Fraction(memory_request * seconds),
        gpu_requested=Fraction(gpus * seconds),
        cpu_used=cpu_used,
        memory_used=memory_used,
        cpu_used_covered_seconds=_length(cpu_covered),
        memory_used_covered_seconds=_length(memory_covered),
        cpu_allocated=cores * (seconds - cpu_both) + max(cores * cpu_both, cpu_used),
        memory_allocated=memory_request * (seconds - memory_both)
        + max(Fraction(memory_request * memory_both), memory_used),
        gpu_allocated=Fraction(gpus * seconds),
    )


def _gauge_cover(start: int, end: int, step: int) -> Interval:
    """What the samples of a gauge present in [start, end) cover: up to one interval after the last."""
    samples = grid(start, end, step)
    return (samples[0], samples[-1] + step) if samples else (0, 0)


def _counter_cover(run: Run, step: int) -> Interval:
    """What the samples of a counter cover: from the first to the last."""
    samples = grid(run.start, run.seen_until, step)
    return (samples[0], samples[-1]) if samples and step <= HOLD else (0, 0)


def _cpu_used(run: Run, step: int, hour: int) -> Fraction:
    """Core-seconds between the hour's edges, each cumulative edge rounded to 9 decimals."""
    first, last = _counter_cover(run, step)
    begin, end = max(first, hour), min(last, hour + HOUR)
    if begin >= end:
        return Fraction(0)

    def total(moment: int) -> Fraction:
        before = moment // step * step
        low = Fraction(run.cpu_counter(before), 1000)
        if before == moment:
            return low
        high = Fraction(run.cpu_counter(before + step), 1000)
        return Fraction(round((low + (high - low) * (moment - before) / step) * 10**9), 10**9)

    return total(end) - total(begin)


def _memory_used(run: Run, step: int, hour: int) -> Fraction:
    """Byte-seconds of the samples' values over the seconds each of them holds in the hour."""
    first, last = _gauge_cover(run.start, run.seen_until, step)
    begin, end = max(first, hour), min(last, hour + HOUR)
    total = 0
    for sample in range(begin // step * step, end, step):
        held = min(sample + step, end) - max(sample, begin)
        total += run.memory_used(sample) * held
    return Fraction(total)


def node_hours(scenario: Scenario, window: Window) -> list[NodeHour]:
    """Every node and hour of the window in which the node existed, with its cost."""
    start, end = _bounds(window)
    found = []
    for node in scenario.nodes(start - HOUR, end + HOUR):
        for hour in range(max(start, node.created // HOUR * HOUR), end, HOUR):
            seconds = _node_seconds(scenario, node, hour)
            if seconds:
                parts = price_parts(scenario, node, hour)
                price = None if parts is None else sum(parts.values(), Decimal(0))
                cost = None if price is None else money(_node_cost(price, seconds))
                moment = datetime.fromtimestamp(hour, UTC)
                found.append(NodeHour(moment, node, seconds, price, cost))
    return found


def _node_seconds(scenario: Scenario, node: Node, hour: int) -> int:
    cover = _gauge_cover(
        max(node.created, hour - 10 * HOUR),
        min(node.deleted, hour + 10 * HOUR),
        scenario.scrape_interval_seconds,
    )
    return _length(_clip([cover], hour))


# --- money ------------------------------------------------------------------------------------


def money(units: int) -> Decimal:
    """Units of 1e-18 as a Decimal with 18 decimals."""
    return Decimal((1 if units < 0 else 0, tuple(map(int, str(abs(units)))), -18))


def units(amount: Decimal) -> int:
    """The opposite of `money`."""
    scaled = Fraction(amount) * SCALE
    if scaled.denominator != 1:
        raise ValueError(f"{amount} has more than 18 decimals")
    return scaled.numerator


def _node_cost(price: Decimal, seconds: int) -> int:
    """Units of 1e-18, half away from zero."""
    exact = Fraction(price) * seconds * SCALE / HOUR
    return int(exact + Fraction(1, 2))


def _pools(node: Node, cost: int, parts: dict[str, Decimal]) -> dict[Resource, int]:
    """The cost cut per resource by largest remainder; ties by the resource's name."""
    if "node" in parts:
        amounts: dict[Resource, Fraction] = {
            "cpu": Fraction(node.pool.cpu_millicores, 1000),
            "memory": Fraction(node.pool.memory_bytes, GIB),
            "gpu": Fraction(node.pool.gpus),
        }
        weights = {name: WEIGHTS[name] * amounts[name] for name in RESOURCES}
    else:
        weights = {name: Fraction(parts.get(name, Decimal(0))) for name in RESOURCES}
    whole = sum(weights.values())
    exact = {name: cost * weights[name] / whole for name in RESOURCES}
    pools = {name: int(exact[name]) for name in RESOURCES}
    left = cost - sum(pools.values())
    by_remainder = sorted(RESOURCES, key=lambda name: (pools[name] - exact[name], name))
    for name in by_remainder[:left]:
        pools[name] += 1
    return pools


def costs(scenario: Scenario, window: Window) -> list[CostLine]:
    """Every cost line of the window: per node-hour they add up to the node's cost exactly."""
    by_place: dict[tuple[datetime, str], list[PodHour]] = defaultdict(list)
    for one in pod_hours(scenario, window):
        by_place[one.hour, one.node.uid].append(one)
    lines: list[CostLine] = []
    for node_hour in node_hours(scenario, window):
        here = by_place[node_hour.hour, node_hour.node.uid]
        lines.extend(_lines(scenario, node_hour, here))
    return lines


def _lines(scenario: Scenario, place: NodeHour, pods: list[PodHour]) -> Iterator[CostLine]:
    node, pool = place.node, place.node.pool

    def line(kind: str, amounts: dict[Resource, int] | None, pod: Pod | None = None) -> CostLine:
        namespace = pod.namespace if pod else ""
        parts = {n: None if amounts is None else money(amounts.get(n, 0)) for n in RESOURCES}
        return CostLine(
            hour=place.hour,
            line=kind,
            node=node.name,
            pod_uid=pod.uid if pod else "",
            namespace=namespace,
            owner=OWNERS.get(namespace, "unowned") if pod else "cluster",
            cpu_cost=parts["cpu"],
            memory_cost=parts["memory"],
            gpu_cost=parts["gpu"],
            cost=None if amounts is None else money(sum(amounts.values())),
        )

    prices = price_parts(scenario, node, int(place.hour.timestamp()))
    if prices is None or place.cost is None:
        yield line("unpriced", None)
        for pod_hour in pods:
            yield line("unpriced", None, pod_hour.pod)
        return
    capacity: dict[Resource, Fraction] = {
        "cpu": Fraction(pool.cpu_millicores, 1000) * place.seconds,
        "memory": Fraction(pool.memory_bytes * place.seconds),
        "gpu": Fraction(pool.gpus * place.seconds),
    }
    allocatable: dict[Resource, Fraction] = {
        "cpu": Fraction(pool.cpu_allocatable_millicores, 1000) * place.seconds,
        "memory": Fraction(pool.memory_allocatable_bytes * place.seconds),
        "gpu": capacity["gpu"],
    }
    system: dict[Resource, int] = {}
    closing: dict[Resource, int] = {}
    workload: dict[str, dict[Resource, int]] = {one.pod.uid: {} for one in pods}
    for name, amount in _pools(node, units(place.cost), prices).items():
        total = capacity[name]
        if total == 0:
            system[name], closing[name] = 0, amount
            continue
        system[name] = int(amount * (total - allocatable[name]) / total)
        closing[name] = amount - system[name]
        for one in pods:
            quantity = _allocated(one, name)
            workload[one.pod.uid][name] = int(amount * quantity / total)
            closing[name] -= workload[one.pod.uid][name]
    for one in pods:
        if any(_allocated(one, name) for name in RESOURCES):
            yield line("workload", workload[one.pod.uid], one.pod)
    yield line("system", system)
    idle = {name: amount for name, amount in closing.items() if amount >= 0}
    overcommit = {name: amount for name, amount in closing.items() if amount < 0}
    yield line("idle", idle)
    if overcommit:
        yield line("overcommit", overcommit)


def _allocated(one: PodHour, resource: Resource) -> Fraction:
    return {"cpu": one.cpu_allocated, "memory": one.memory_allocated, "gpu": one.gpu_allocated}[
        resource
    ]


def cost_by_owner(scenario: Scenario, day: date) -> dict[tuple[str, str], Decimal | None]:
    """(owner, line) → cost of a UTC day; None for what has no price."""
    return add_up(costs(scenario, Window.of_day(day)))


def add_up(lines: Iterable[CostLine]) -> dict[tuple[str, str], Decimal | None]:
    """(owner, line) → cost, exact whatever the size."""
    totals: dict[tuple[str, str], int | None] = {}
    for line in lines:
        key = (line.owner, line.line)
        so_far = totals.get(key, 0)
        totals[key] = None if line.cost is None or so_far is None else so_far + units(line.cost)
    return {key: None if n is None else money(n) for key, n in sorted(totals.items())}


# --- intervals --------------------------------------------------------------------------------


def _bounds(window: Window) -> Interval:
    if not window.is_whole_hours:
        raise ValueError(f"{window} is not made of whole hours")
    return int(window.start.timestamp()), int(window.end.timestamp())


def _clip(intervals: Iterable[Interval], hour: int) -> list[Interval]:
    clipped = ((max(a, hour), min(b, hour + HOUR)) for a, b in intervals)
    return [(a, b) for a, b in clipped if a < b]


def _union(intervals: list[Interval]) -> list[Interval]:
    united: list[Interval] = []
    for start, end in sorted(intervals):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


def _overlap(left: list[Interval], right: list[Interval]) -> list[Interval]:
    return [(max(a, c), min(b, d)) for a, b in left for c, d in right if max(a, c) < min(b, d)]


def _length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in intervals)
