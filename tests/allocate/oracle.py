"""An allocator to check the SQL by: plain Python, slow and obvious, exact.

It knows the rows that were landed, in the order in which they landed, and the rules; nothing of the
warehouse. Time is whole microseconds, quantities are fractions, money is whole units of 1e-18.

1. For every moment one load speaks per dataset: of each source the latest that was asked about the
   moment, if it could speak for it; of those the source that comes first.
2. Nodes: what is stated; while nobody speaks, the nodes next to the silence (both sides, or one where
   the other is midnight) are presumed to be there.
3. Pods hold their request while they sit on a node and are not terminal. Usage without a uid belongs
   to the pod of that name whose life in the hour overlaps most, then the nearest.
4. Node cost is cut into pools by largest remainder; each pool into lines by truncation, and the closing
   line takes the rest.
5. A pool with a policy is passed on to those who run workloads: a plus row each, cut by largest
   remainder, and a minus row per pool row. A resource for which nobody has a weight stays.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from allocate.scene import GIB, Price, Row, Said
from kubetally.allocate.models import ModelVersion, Share
from kubetally.allocate.owners import OwnerEntry
from kubetally.windows import Window

Piece = tuple[int, int]
HOUR = 3_600_000_000
DAY = 24 * HOUR
UNITS = 10**18
RESOURCES = ("cpu", "gpu", "memory")
WEIGHTS = {
    "cpu": Fraction("0.031611"),
    "memory": Fraction("0.004237") / GIB,
    "gpu": Fraction("0.95"),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Line:
    """One cost line. Quantities in core-, byte- and GPU-seconds; costs None where unpriced."""

    hour: datetime
    line: str
    node: str
    pod: str
    owner: str
    quantity: Mapping[str, Fraction]
    cost: Mapping[str, Fraction] | None
    is_distribution: bool = False


@dataclass(frozen=True)
class Stated:
    """A row as far as its load speaks for it."""

    row: Row
    span: Piece


@dataclass
class PodHour:
    uid: str
    namespace: str
    node: str
    labels: Mapping[str, str]
    quantity: dict[str, Fraction]
    is_shared: bool = False


@dataclass(frozen=True)
class World:
    """All that was said, who comes first, what nodes cost, who pays and by which model."""

    cluster: str
    said: Sequence[Said]
    precedence: Sequence[str]
    prices: Mapping[str, Price | Sequence[tuple[Window, Price]]]
    owners: Sequence[OwnerEntry] = ()
    model: ModelVersion | None = None
    drivers: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)

    def lines(self, window: Window) -> list[Line]:
        found: list[Line] = []
        for hour in range(micro(window.start), micro(window.end), HOUR):
            found.extend(self._lines_of_hour(hour))
        return found

    # --- who speaks -----------------------------------------------------------------------------

    def stated(self, dataset: Any, within: Piece) -> list[Stated]:
        """The rows of a dataset inside one UTC day, cut to where their load speaks."""
        found: list[Stated] = []
        for said, spans in self._spoken(dataset, within[0] // DAY * DAY):
            for row in said.rows.get(dataset, ()):
                for span in both([(micro(row["start_at"]), micro(row["end_at"]))], spans):
                    found.extend(Stated(row, piece) for piece in both([span], [within]))
        return found

    def covered(self, dataset: Any, day: int) -> list[Piece]:
        return union(piece for _, spans in self._spoken(dataset, day) for piece in spans)

    def _spoken(self, dataset: Any, day: int) -> list[tuple[Said, list[Piece]]]:
        own: list[tuple[Said, list[Piece]]] = []
        for n, said in enumerate(self.said):
            spans = both(pieces(said.covered(dataset)), [(day, day + DAY)])
            for later in self.said[n + 1 :]:
                if later.source == said.source:
                    spans = minus(spans, pieces([(later.window.start, later.window.end)]))
            own.append((said, spans))
        spoken = []
        for said, spans in own:
            for other, better in own:
                if self.precedence.index(other.source) < self.precedence.index(said.source):
                    spans = minus(spans, better)
            spoken.append((said, spans))
        return spoken

    # --- nodes ----------------------------------------------------------------------------------

    def nodes(self, day: int) -> list[Stated]:
        """Every piece of every node's life in the day, stated or presumed."""
        known = self.stated("node", (day, day + DAY))
        found = list(known)
        for start, end in minus([(day, day + DAY)], self.covered("node", day)):
            before = {one.row["uid"]: one.row for one in known if one.span[1] == start}
            after = {one.row["uid"]: one.row for one in known if one.span[0] == end}
            for uid in before.keys() | after.keys():
                if (start == day or uid in before) and (end == day + DAY or uid in after):
                    row = before.get(uid) or after[uid]
                    born = start if row.get("created_at") is None else micro(row["created_at"])
                    begin = min(max(start, born), end)
                    if begin < end:
                        found.append(Stated(row, (begin, end)))
        return found

    def node_called(self, name: str, moment: int) -> str:
        """The uid of the node that bears the name: the last one that took it in this day."""
        day = moment // DAY * DAY
        first: dict[str, int] = {}
        for one in self.stated("node", (day, day + DAY)):
            if one.row["node"] == name:
                uid = one.row["uid"]
                first[uid] = min(first.get(uid, one.span[0]), one.span[0])
        if not first:
            return f"node/{name}"
        bearers = sorted((start, uid) for uid, start in first.items())
        return ([uid for start, uid in bearers if start <= moment] or [bearers[0][1]])[-1]

    def _sat_on(self, one: Stated) -> str:
        """The node at the end of a statement."""
        return self.node_called(one.row["node"], one.span[1] - 1)

    # --- pods -----------------------------------------------------------------------------------

    def pod_hours(self, hour: int) -> list[PodHour]:
        whole = (hour, hour + HOUR)
        statements: dict[str, list[Stated]] = defaultdict(list)
        names: dict[str, tuple[str, str]] = {}
        for one in self.stated("pod", whole):
            statements[one.row["uid"]].append(one)
            names[one.row["uid"]] = (one.row["namespace"], one.row["pod"])
        used: dict[str, list[tuple[Stated, dict[str, Fraction | None]]]] = defaultdict(list)
        for one in self.stated("usage", whole):
            uid = one.row["uid"] or self._meant(one, statements)
            names.setdefault(uid, (one.row["namespace"], one.row["pod"]))
            used[uid].append((one, self._amounts(one)))
        found: list[PodHour] = []
        for uid in sorted(statements.keys() | used.keys()):
            sitting = sorted(
                (one for one in statements[uid] if one.row.get("node")), key=lambda one: one.span
            )
            holding = [one for one in sitting if one.row["phase"] not in ("Succeeded", "Failed")]
            if not holding and not used[uid]:
                continue
            quantity = {
                name: self._allocated(name, holding, used[uid], self._basis(name))
                for name in ("cpu", "memory")
            }
            quantity["gpu"] = sum(
                (Fraction(one.row["gpu_request"] or 0) * seconds([one.span]) for one in holding),
                Fraction(0),
            )
            node = ""
            if holding or sitting:
                node = self._sat_on((holding or sitting)[-1])
            else:
                told = {one.row["node"] for one, _ in used[uid] if one.row.get("node")}
                if told:
                    node = self.node_called(min(told), hour + HOUR - 1)
                    node = "" if node.startswith("node/") else node
            latest = max(statements[uid], key=lambda one: one.span, default=None)
            labels = json.loads(latest.row["labels"] or "{}") if latest else {}
            found.append(PodHour(uid, names[uid][0], node, labels, quantity))
        return found

    def _meant(self, one: Stated, statements: Mapping[str, list[Stated]]) -> str:
        name = (one.row["namespace"], one.row["pod"])
        best: list[tuple[Fraction, int, str]] = []
        for uid, told in statements.items():
            if told and (told[0].row["namespace"], told[0].row["pod"]) == name:
                start, end = min(t.span[0] for t in told), max(t.span[1] for t in told)
                overlap = seconds(both([one.span], [(start, end)]))
                gap = max(one.span[0] - end, start - one.span[1])
                best.append((-overlap, gap, uid))
        return min(best)[2] if best else "/".join(name)

    @staticmethod
    def _amounts(one: Stated) -> dict[str, Fraction | None]:
        """What the row used in the seconds its load speaks for, at 9 decimals."""
        whole = (micro(one.row["start_at"]), micro(one.row["end_at"]))
        amounts: dict[str, Fraction | None] = {}
        for name, column in (
            ("cpu", "cpu_used_core_seconds"),
            ("memory", "memory_used_byte_seconds"),
        ):
            amount = None if one.row[column] is None else Fraction(one.row[column])
            if amount is not None and one.span != whole:
                exact = amount * seconds([one.span]) / seconds([whole])
                amount = Fraction(int(exact * 10**9 + Fraction(1, 2)), 10**9)
            amounts[name] = amount
        return amounts

    @staticmethod
    def _allocated(
        name: str,
        holding: Sequence[Stated],
        used: Sequence[tuple[Stated, Mapping[str, Fraction | None]]],
        basis: str,
    ) -> Fraction:
        """The request where usage is not known; where it is, request, use or the larger of both."""
        column = {"cpu": "cpu_request_cores", "memory": "memory_request_bytes"}[name]
        known = union(one.span for one, amounts in used if amounts[name] is not None)
        amount = sum((amounts[name] or Fraction(0) for _, amounts in used), Fraction(0))
        inside = outside = Fraction(0)
        for one in holding:
            request = Fraction(one.row[column] or 0)
            inside += request * seconds(both([one.span], known))
            outside += request * seconds(minus([one.span], known))
        return outside + {"max": max(inside, amount), "requested": inside, "used": amount}[basis]

    def _basis(self, name: str) -> str:
        if self.model is None:
            return "max"
        basis = self.model.basis
        return basis if isinstance(basis, str) else getattr(basis, name)

    # --- owners ---------------------------------------------------------------------------------

    def is_shared(self, pod: PodHour) -> bool:
        globs = self.model.shared_namespaces if self.model else ()
        return any(fnmatchcase(pod.namespace, glob) for glob in globs)

    def owner(self, pod: PodHour, hour: int) -> str:
        if self.is_shared(pod):
            return "cluster"
        today = (EPOCH + timedelta(microseconds=hour)).date()
        for rule in self.owners:
            if not (rule.valid_from <= today < (rule.valid_until or date.max)):
                continue
            if not fnmatchcase(self.cluster, rule.cluster):
                continue
            if not fnmatchcase(pod.namespace, rule.namespace):
                continue
            if rule.label:
                labels = pod.labels if rule.label_of == "pod" else self._namespace_labels(pod, hour)
                value = labels.get(rule.label, "")
                if not value or not fnmatchcase(value, rule.label_value):
                    continue
                return rule.owner or value
            return rule.owner
        return "unowned"

    def _namespace_labels(self, pod: PodHour, hour: int) -> Mapping[str, str]:
        """The last that was said before the hour's end, else the first that was said after it."""
        day = hour // DAY * DAY
        told = [
            one
            for one in self.stated("namespace", (day, day + DAY))
            if one.row["namespace"] == pod.namespace
        ]
        before = [one for one in told if one.span[0] < hour + HOUR]
        if before:
            return dict(json.loads(max(before, key=lambda one: one.span).row["labels"]))
        if told:
            return dict(json.loads(min(told, key=lambda one: one.span).row["labels"]))
        return {}

    # --- money ----------------------------------------------------------------------------------

    def price(self, uid: str, hour: int) -> Price:
        price = self.prices.get(uid)
        if not isinstance(price, list):
            return price
        return next(
            (amount for window, amount in price if micro(window.start) <= hour < micro(window.end)),
            None,
        )

    def _lines_of_hour(self, hour: int) -> list[Line]:
        moment = EPOCH + timedelta(microseconds=hour)
        day = hour // DAY * DAY
        pods = self.pod_hours(hour)
        pods_known = both(self.covered("pod", day), [(hour, hour + HOUR)])
        lives: dict[str, list[Stated]] = defaultdict(list)
        for one in self.nodes(day):
            for span in both([one.span], [(hour, hour + HOUR)]):
                lives[one.row["uid"]].append(Stated(one.row, span))
        found: list[Line] = []
        for uid, life in lives.items():
            here = [pod for pod in pods if pod.node == uid]
            pods = [pod for pod in pods if pod.node != uid]
            found.extend(self._lines_of_node(hour, moment, uid, life, pods_known, here))
        found.extend(self._pod_line(hour, moment, pod, None) for pod in pods)
        return found + self._distributions(hour, moment, found)

    # --- sharing --------------------------------------------------------------------------------

    def _distributions(self, hour: int, moment: datetime, direct: Sequence[Line]) -> list[Line]:
        if self.model is None:
            return []
        paying = [line for line in direct if line.line == "workload"]
        found: list[Line] = []
        for name, policy in self.model.share.given():
            pools: dict[Any, list[Line]] = defaultdict(list)
            for line in direct:
                is_pool = line.line == name and line.owner == "cluster" and line.cost is not None
                if is_pool and (policy.by == "cluster" or line.node):
                    pools[self._scope(policy.by, line.node, hour)].append(line)
            for scope, pool in pools.items():
                here = [
                    line
                    for line in paying
                    if (policy.by == "cluster" or line.node)
                    and self._scope(policy.by, line.node, hour) == scope
                ]
                found.extend(self._pass_on(moment, name, policy, pool, here, scope))
        return merged(found)

    def _scope(self, by: str, node: str, hour: int) -> str:
        if by == "cluster":
            return ""
        if by == "node":
            return node
        return self.node_pool(node, hour)

    def node_pool(self, node: str, hour: int) -> str:
        """The pool that the node's labels name at the end of its life in the hour."""
        lives = [
            one
            for one in self.nodes(hour // DAY * DAY)
            if one.row["uid"] == node and both([one.span], [(hour, hour + HOUR)])
        ]
        last = max(lives, key=lambda one: one.span[1])
        return str(json.loads(last.row["labels"]).get("eks.amazonaws.com/nodegroup", ""))

    def _pass_on(
        self,
        moment: datetime,
        name: str,
        policy: Share,
        pool: Sequence[Line],
        paying: Sequence[Line],
        scope: str,
    ) -> list[Line]:
        """The plus and minus rows of one pool in one hour."""
        plus: dict[tuple[str, str, str], dict[str, Fraction]] = defaultdict(dict)
        passed_on = []
        for resource in RESOURCES:
            amount = sum((line.cost[resource] for line in pool if line.cost), Fraction(0))
            weights: dict[tuple[str, str, str], Fraction] = {}
            if policy.shares:
                weights = {("", "", who): Fraction(part) for who, part in policy.shares.items()}
            elif policy.driver:
                figures = self.drivers.get(policy.driver, {})
                weights = {("", "", who): Fraction(part) for who, part in figures.items()}
            elif policy.node_pool_owners:
                if scope in policy.node_pool_owners:
                    weights = {("", "", policy.node_pool_owners[scope]): Fraction(1)}
            elif policy.weights == "even":
                weights = {("", "", line.owner): Fraction(1) for line in paying}
            else:
                for line in paying:
                    cost = line.cost or {}
                    weight = sum(cost.values()) if policy.weights == "cost" else cost[resource]
                    weights[line.pod, line.node, line.owner] = Fraction(weight)
            weights = {who: weight for who, weight in weights.items() if weight > 0}
            if amount and weights:
                passed_on.append(resource)
                for who, part in largest_remainder(amount, weights).items():
                    plus[who][resource] = part
        if not passed_on:
            return []
        nothing = dict.fromkeys(RESOURCES, Fraction(0))
        return [
            Line(moment, name, node, pod, owner, nothing, nothing | parts, is_distribution=True)
            for (pod, node, owner), parts in plus.items()
        ] + [
            Line(
                moment,
                name,
                line.node,
                line.pod,
                "cluster",
                nothing,
                nothing | {resource: -(line.cost or {})[resource] for resource in passed_on},
                is_distribution=True,
            )
            for line in pool
        ]

    def _pod_line(
        self, hour: int, moment: datetime, pod: PodHour, cost: Mapping[str, Fraction] | None
    ) -> Line:
        line = "unpriced" if cost is None else "shared" if self.is_shared(pod) else "workload"
        return Line(moment, line, pod.node, pod.uid, self.owner(pod, hour), pod.quantity, cost)

    def _lines_of_node(
        self,
        hour: int,
        moment: datetime,
        uid: str,
        life: Sequence[Stated],
        pods_known: Sequence[Piece],
        pods: Sequence[PodHour],
    ) -> list[Line]:
        if any(one.row["is_virtual"] for one in life):
            return [self._pod_line(hour, moment, pod, None) for pod in pods]
        capacity = {name: integral(life, name, "capacity") for name in RESOURCES}
        there = [Stated(one.row, span) for one in life for span in both([one.span], pods_known)]
        covered = {name: integral(there, name, "capacity") for name in RESOURCES}
        reserved = {
            name: max(covered[name] - integral(there, name, "allocatable"), Fraction(0))
            for name in RESOURCES
        }
        taken = {name: sum((pod.quantity[name] for pod in pods), Fraction(0)) for name in RESOURCES}
        left = {name: covered[name] - reserved[name] - taken[name] for name in RESOURCES}
        unseen = {name: capacity[name] - covered[name] for name in RESOURCES}
        price = self.price(uid, hour)
        if price is None:
            quantity = {name: unseen[name] + reserved[name] + left[name] for name in RESOURCES}
            lines = [Line(moment, "unpriced", uid, "", "cluster", quantity, None)]
            return lines + [self._pod_line(hour, moment, pod, None) for pod in pods]

        length = seconds(one.span for one in life)
        pools = pools_of(price, length, capacity, weights_of(self.model))
        costs: dict[str, dict[str, int]] = defaultdict(dict)
        shares: list[dict[str, int]] = [{} for _ in pods]
        for name, pool in pools.items():
            known_length = seconds(one.span for one in there)
            costs["uncovered"][name] = int(pool * (length - known_length) / length)
            rest = pool = pool - costs["uncovered"][name]
            costs["system"][name] = share(pool, reserved[name], covered[name])
            rest -= costs["system"][name]
            for pod, parts in zip(pods, shares, strict=True):
                parts[name] = share(pool, pod.quantity[name], covered[name])
                rest -= parts[name]
            costs["idle"][name], costs["overcommit"][name] = max(rest, 0), min(rest, 0)
        quantities = {
            "system": reserved,
            "uncovered": unseen,
            "idle": {name: max(left[name], Fraction(0)) for name in RESOURCES},
            "overcommit": {name: min(left[name], Fraction(0)) for name in RESOURCES},
        }
        lines = [
            Line(moment, kind, uid, "", "cluster", quantity, money(costs[kind]))
            for kind, quantity in quantities.items()
            if any(quantity.values()) or any(costs[kind].values())
        ]
        lines += [
            self._pod_line(hour, moment, pod, money(parts))
            for pod, parts in zip(pods, shares, strict=True)
        ]
        return lines


def pools_of(
    price: str | tuple[str, str, str],
    length: Fraction,
    capacity: Mapping[str, Fraction],
    weight_of: Mapping[str, Fraction],
) -> dict[str, int]:
    """The node's cost of `length` seconds in units of 1e-18, cut per resource."""
    if isinstance(price, tuple):
        weights = dict(zip(("cpu", "memory", "gpu"), map(Fraction, price), strict=True))
        per_hour = sum(weights.values())
    else:
        weights = {name: weight_of[name] * capacity[name] for name in RESOURCES}
        per_hour = Fraction(price)
    cost = int(per_hour * length * UNITS / 3600 + Fraction(1, 2))
    whole = sum(weights.values())
    if whole == 0:
        return {"cpu": cost, "gpu": 0, "memory": 0}
    exact = {name: cost * weights[name] / whole for name in RESOURCES}
    pools = {name: int(exact[name]) for name in RESOURCES}
    by_remainder = sorted(RESOURCES, key=lambda name: (pools[name] - exact[name], name))
    for name in by_remainder[: cost - sum(pools.values())]:
        pools[name] += 1
    return pools


def merged(lines: Iterable[Line]) -> list[Line]:
    """Plus rows of one recipient from several scopes as one."""
    kept: dict[tuple[str, ...], Line] = {}
    rows = []
    for line in lines:
        key = (line.line, line.node, line.pod, line.owner)
        if line.owner == "cluster":
            rows.append(line)
        elif key in kept:
            cost = {
                name: (line.cost or {})[name] + (kept[key].cost or {})[name] for name in RESOURCES
            }
            kept[key] = replace(line, cost=cost)
        else:
            kept[key] = line
    return rows + list(kept.values())


def weights_of(model: ModelVersion | None) -> Mapping[str, Fraction]:
    if model is None or model.base_price == "opencost":
        return WEIGHTS
    if model.base_price == "aws":
        return {"cpu": Fraction(9), "memory": Fraction(1, GIB), "gpu": Fraction(90)}
    base = model.base_price
    return {
        "cpu": Fraction(base.cpu_core_hour),
        "memory": Fraction(base.memory_gib_hour) / GIB,
        "gpu": Fraction(base.gpu_hour),
    }


def largest_remainder(
    amount: Fraction, weights: Mapping[tuple[str, str, str], Fraction]
) -> dict[tuple[str, str, str], Fraction]:
    """The amount in units of 1e-18, cut by weight; what truncation leaves goes to the largest rests."""
    units = abs(amount) * UNITS
    whole = sum(weights.values())
    exact = {who: units * weight / whole for who, weight in weights.items()}
    parts = {who: int(part) for who, part in exact.items()}
    order = sorted(weights, key=lambda who: (parts[who] - exact[who], who[0], who[2]))
    for who in order[: int(units) - sum(parts.values())]:
        parts[who] += 1
    sign = 1 if amount > 0 else -1
    return {who: Fraction(sign * part, UNITS) for who, part in parts.items()}


def share(pool: int, part: Fraction, whole: Fraction) -> int:
    return int(pool * part / whole) if whole > 0 else 0


def money(costs: Mapping[str, int]) -> dict[str, Fraction]:
    return {name: Fraction(costs[name], UNITS) for name in RESOURCES}


def integral(life: Iterable[Stated], name: str, kind: str) -> Fraction:
    """Capacity or allocatable over the seconds; what is allocatable falls back to the capacity."""
    total = Fraction(0)
    for one in life:
        amount = one.row.get(COLUMNS[name, kind])
        if amount is None and kind == "allocatable":
            amount = one.row.get(COLUMNS[name, "capacity"])
        total += Fraction(amount or 0) * seconds([one.span])
    return total


COLUMNS = {
    ("cpu", "capacity"): "cpu_capacity_cores",
    ("cpu", "allocatable"): "cpu_allocatable_cores",
    ("memory", "capacity"): "memory_capacity_bytes",
    ("memory", "allocatable"): "memory_allocatable_bytes",
    ("gpu", "capacity"): "gpu_capacity",
    ("gpu", "allocatable"): "gpu_allocatable",
}


# --- pieces of time -------------------------------------------------------------------------------


def micro(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def pieces(spans: Iterable[tuple[datetime, datetime]]) -> list[Piece]:
    return [(micro(start), micro(end)) for start, end in spans]


def union(spans: Iterable[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def both(left: Iterable[Piece], right: Iterable[Piece]) -> list[Piece]:
    right = list(right)
    found = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return sorted((start, end) for start, end in found if start < end)


def minus(left: Iterable[Piece], right: Iterable[Piece]) -> list[Piece]:
    kept = list(left)
    for hole_start, hole_end in right:
        kept = [
            part
            for start, end in kept
            for part in ((start, min(end, hole_start)), (max(start, hole_end), end))
            if part[0] < part[1]
        ]
    return sorted(kept)


def seconds(spans: Iterable[Piece]) -> Fraction:
    return Fraction(sum(end - start for start, end in spans), 1_000_000)


def exact(amount: Decimal | None) -> Fraction | None:
    return None if amount is None else Fraction(amount)
