"""Random small clusters for property tests: everything odd that a source may say, never nonsense.

One subject never has two statements at one time within one load; everything else goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from allocate.oracle import World
from allocate.scene import DAY, GIB, Price, Row, Said, Span
from kubetally.allocate.models import (
    CASCADE,
    BasePrice,
    ModelVersion,
    ResourceBasis,
    Share,
    Shares,
)
from kubetally.allocate.owners import OwnerEntry
from kubetally.windows import HOUR, Window

Draw = Callable[[st.SearchStrategy[Any]], Any]

CPUS = ("4", "2", "0.94", "3.92", "7", "64", "1.333", "0")
MEMORIES = (str(16 * GIB), str(8 * GIB), "16373829632", "1", "7516192769", "0")
GPUS = ("0", "0", "0", "1", "8")
CPU_REQUESTS = ("0", "0.5", "1", "0.333", "2.5", "6")
MEMORY_REQUESTS = ("0", str(GIB), "123456789", str(20 * GIB))
GPU_REQUESTS = ("0", "0", "0", "1", "3")
AMOUNTS = ("0", "1", "17.123456789", "1800", "3600.000000001", "40000")
PRICES: tuple[Price, ...] = (
    "0.096",
    "0.24",
    "1",
    "0",
    "0.123456789012345678",
    "3.0600000001",
    ("0.16", "0.08", "0"),
    ("0.0333333333", "0.0049", "0.95"),
    ("0.1", "0", "0"),
    ("0.1", "0.1", "0.1"),
    ("0.1", "0.1", "0"),
)
NAMESPACES = ("shop", "shop-eu", "lab", "kube-system")
LABELS = ("{}", '{"team": "red"}', '{"team": "blue"}', '{"team": "", "tier": "web"}')
OWNERS = {
    "none": (),
    "by namespace": (
        OwnerEntry(namespace="shop*", owner="team-shop", valid_until=date(2026, 11, 4)),
        OwnerEntry(namespace="shop-??", owner="team-eu"),
        OwnerEntry(namespace="[!s]*", cluster="nowhere", owner="nobody"),
        OwnerEntry(namespace="[k]ube-*", owner="platform"),
    ),
    "by label": (
        OwnerEntry(label="team", label_value="r*"),
        OwnerEntry(label="team", label_of="namespace", owner="by-namespace-label"),
        OwnerEntry(namespace="lab", owner="research", valid_from=date(2026, 11, 4)),
        OwnerEntry(label="tier", label_of="namespace"),
    ),
}


@dataclass(frozen=True)
class Case:
    world: World
    window: Window


@st.composite
def cases(draw: Draw) -> Case:
    """A cluster, what its sources said around a window, and the window: 1 to 26 hours."""
    length = draw(st.sampled_from((2, 1, 3, 2, 1, 5, 26)))
    start = DAY + timedelta(hours=draw(st.sampled_from((10, 1, 0, 21, 22, 23))))
    window = Window(start, start + length * HOUR)
    told = Window(
        window.start - draw(st.sampled_from((0, 1, 2))) * HOUR,
        window.end + draw(st.sampled_from((0, 1))) * HOUR,
    )
    times = moments(told)
    names = draw(
        st.sampled_from((("n1", "n2"), ("n1", "n2", "n3", "n1"), ("n1",), ("n1", "n1", "n2")))
    )
    nodes = [
        row for n, name in enumerate(names) for row in draw(node_lives(f"node-{n}", name, told))
    ]
    places = (*names, *names, *names, "ghost", None)
    pods: list[Row] = []
    used: list[Row] = []
    for n in range(draw(st.sampled_from((2, 3, 4, 6, 1, 0)))):
        subject = {
            "uid": f"pod-{n}",
            "namespace": draw(st.sampled_from(NAMESPACES)),
            "pod": f"p{draw(st.sampled_from((n, n, 0)))}",
        }
        place = draw(st.sampled_from(places))
        if draw(st.integers(0, 5)):
            pods += draw(pod_lives(subject, place, told))
        used += draw(usages(subject, place, told))
    namespaces = [
        row
        for name in NAMESPACES[:2]
        for row in draw(namespace_lives(name, told))
        if draw(st.booleans())
    ]
    first = Said(
        told,
        {"pod": pods, "node": nodes, "usage": no_overlap(used), "namespace": namespaces},
        silent={
            dataset: draw(st.lists(st.tuples(times, times).map(in_order), max_size=2))
            for dataset in draw(st.sets(st.sampled_from(("pod", "node", "usage", "namespace"))))
        },
    )
    said = [first, *draw(other_words(first, window))]
    said = draw(st.permutations(said)) if len(said) > 1 else said
    changes = window.start + (length // 2) * HOUR
    prices = {f"node-{n}": draw(price_over(window, changes)) for n in range(len(names))}
    owners = OWNERS[draw(st.sampled_from(sorted(OWNERS)))]
    world = World(
        "", said, ("prometheus", "kubernetes"), prices, owners, draw(models), draw(headcounts)
    )
    return Case(world, window)


SHARING_OWNERS = ("team-shop", "research", "red", "somebody-without-pods")
weights_by_owner = st.dictionaries(
    st.sampled_from(SHARING_OWNERS),
    st.sampled_from(("0", "1", "2", "7.25", "0.333333333333333333333")).map(Decimal),
    min_size=1,
)
headcounts = st.fixed_dictionaries({"heads": weights_by_owner, "seats": weights_by_owner})
shares = st.one_of(
    st.builds(
        Share,
        by=st.sampled_from(("node", "node_pool", "cluster")),
        weights=st.sampled_from(("", "resource", "cost", "even")),
    ),
    st.builds(
        Share,
        by=st.sampled_from(("node", "node_pool", "cluster")),
        shares=weights_by_owner.filter(lambda given: any(given.values())),
    ),
    st.builds(
        Share,
        by=st.sampled_from(("node", "node_pool", "cluster")),
        driver=st.sampled_from(("heads", "seats", "unheard-of")),
    ),
    st.builds(
        Share,
        by=st.just("node_pool"),
        node_pool_owners=st.dictionaries(
            st.sampled_from(("", "blue", "green")), st.sampled_from(SHARING_OWNERS), min_size=1
        ),
    ),
)
bases = st.sampled_from(("max", "max", "requested", "used"))
models = st.builds(
    ModelVersion,
    valid_from=st.just(date(2020, 1, 1)),
    currency=st.just("USD"),
    base_price=st.sampled_from(
        ("opencost", "opencost", "aws", BasePrice(Decimal(1), Decimal(0), Decimal(0)))
    ),
    basis=st.one_of(bases, st.builds(ResourceBasis, cpu=bases, memory=bases)),
    shared_namespaces=st.sampled_from(((), (), ("kube-*",), ("lab", "shop-??"), ("*",))),
    share=st.builds(Shares, **{line: st.one_of(st.none(), shares) for line in CASCADE}),
)


def price_over(window: Window, changes: datetime) -> st.SearchStrategy[Any]:
    one = st.integers(0, 9).flatmap(lambda n: st.sampled_from(PRICES) if n else st.none())
    if not window.start < changes < window.end:
        return one
    two = st.tuples(one, one).map(
        lambda pair: [
            (Window(window.start, changes), pair[0]),
            (Window(changes, window.end), pair[1]),
        ]
    )
    return one | two


def moments(window: Window) -> st.SearchStrategy[datetime]:
    """Moments of the window: on hours, minutes, seconds, and rarely odd microseconds."""
    length = window.seconds
    return st.one_of(
        st.integers(0, length // 3600).map(lambda n: window.start + timedelta(hours=n)),
        st.integers(0, length // 300).map(lambda n: window.start + timedelta(minutes=5 * n)),
        st.integers(0, max(length - 1, 0)).map(
            lambda n: window.start + timedelta(seconds=n, microseconds=n % 7)
        ),
    )


def in_order(pair: tuple[datetime, datetime]) -> Span:
    start, end = sorted(pair)
    return start, end if start < end else start + timedelta(minutes=1)


@st.composite
def lives(draw: Draw, window: Window) -> list[Span]:
    """A life in the window in up to three pieces, adjacent or with holes between them."""
    if draw(st.integers(0, 1)):
        edges = [window.start, window.end]
    else:
        edges = sorted(draw(st.sets(moments(window), min_size=2, max_size=4)))
    if len(edges) == 2 and draw(st.booleans()):
        edges = sorted({*edges, draw(moments(Window(*edges)))})
    spans = list(pairwise(edges))
    if len(spans) > 2 and draw(st.booleans()):
        del spans[1]
    return spans


@st.composite
def node_lives(draw: Draw, uid: str, name: str, told: Window) -> list[Row]:
    spans = draw(lives(told))
    stays = draw(st.booleans())
    facts: Row = {}
    rows = []
    for start, end in spans:
        if not facts or not stays:
            facts = draw(node_facts)
        rows.append({"uid": uid, "node": name, "start_at": start, "end_at": end, **facts})
    born = draw(st.sampled_from((None, spans[0][0], told.start - HOUR)))
    return [row | {"created_at": born} for row in rows]


PHASES = ("Running", "Running", None, "Pending")
LAST_PHASES = ("Running", "Succeeded", "Failed")
ALLOCATABLE = (None, None, "0", "0.5", "1000000000")
node_facts = st.fixed_dictionaries(
    {
        "cpu_capacity_cores": st.sampled_from(CPUS),
        "cpu_allocatable_cores": st.sampled_from((None, "0", "0.5", "3.5", "64")),
        "memory_capacity_bytes": st.sampled_from(MEMORIES),
        "memory_allocatable_bytes": st.sampled_from(ALLOCATABLE),
        "gpu_capacity": st.sampled_from((*GPUS, None)),
        "gpu_allocatable": st.sampled_from((None, "0", "1")),
        "is_ready": st.booleans(),
        "is_virtual": st.integers(0, 19).map(lambda n: n == 19),
        "labels": st.sampled_from(
            (
                "{}",
                '{"eks.amazonaws.com/nodegroup": "blue"}',
                '{"eks.amazonaws.com/nodegroup": "green"}',
            )
        ),
    }
)


@st.composite
def pod_lives(draw: Draw, subject: Row, place: str | None, told: Window) -> list[Row]:
    spans = draw(lives(told))
    rows = []
    for n, (start, end) in enumerate(spans):
        is_last = n == len(spans) - 1
        rows.append(
            {
                **subject,
                "start_at": start,
                "end_at": end,
                "node": place,
                "phase": draw(st.sampled_from(LAST_PHASES if is_last and n else PHASES))
                if place
                else "Pending",
                "cpu_request_cores": draw(st.sampled_from((*CPU_REQUESTS, None))),
                "memory_request_bytes": draw(st.sampled_from(MEMORY_REQUESTS)),
                "gpu_request": draw(st.sampled_from(GPU_REQUESTS)),
                "labels": draw(st.sampled_from((*LABELS, None))),
                "annotations": "{}",
            }
        )
    return rows


@st.composite
def usages(draw: Draw, subject: Row, place: str | None, told: Window) -> list[Row]:
    """Rows of one or two containers; each lies within an hour, with or without uid."""
    rows = []
    has_uid = draw(st.booleans())
    node = place if draw(st.booleans()) and place else None
    count = told.seconds // 3600
    for container in ("main", "side")[: draw(st.integers(0, 2))]:
        for hour in sorted(draw(st.sets(st.integers(0, count - 1), max_size=3))):
            begin = told.start + hour * HOUR
            for start, end in draw(lives(Window(begin, begin + HOUR))):
                rows.append(
                    {
                        **subject,
                        "uid": subject["uid"] if has_uid else None,
                        "start_at": start,
                        "end_at": end,
                        "container": container,
                        "node": node,
                        "cpu_used_core_seconds": draw(st.sampled_from((*AMOUNTS, None))),
                        "memory_used_byte_seconds": draw(
                            st.sampled_from((None, "0", "1073741824", "98765432123456.789"))
                        ),
                    }
                )
    return rows


def no_overlap(rows: Sequence[Row]) -> list[Row]:
    """Without rows that would speak of one container twice: two pods may bear one name."""
    taken: dict[tuple[Any, ...], list[Span]] = {}
    kept = []
    for row in rows:
        key = (row["uid"] or row["namespace"], row["pod"], row["container"])
        spans = taken.setdefault(key, [])
        if all(row["end_at"] <= start or row["start_at"] >= end for start, end in spans):
            spans.append((row["start_at"], row["end_at"]))
            kept.append(row)
    return one_node_per_name(kept)


def one_node_per_name(rows: Sequence[Row]) -> list[Row]:
    nodes: dict[tuple[str, str], Any] = {}
    return [
        row | {"node": nodes.setdefault((row["namespace"], row["pod"]), row["node"])}
        for row in rows
    ]


@st.composite
def namespace_lives(draw: Draw, name: str, told: Window) -> list[Row]:
    return [
        {
            "uid": f"ns-{name}",
            "namespace": name,
            "start_at": start,
            "end_at": end,
            "labels": draw(st.sampled_from(LABELS)),
            "annotations": "{}",
        }
        for start, end in draw(lives(told))
    ]


@st.composite
def other_words(draw: Draw, first: Said, window: Window) -> list[Said]:
    """What a second source says of the same objects, and what the first one says later."""
    said = []
    if draw(st.integers(0, 3)) == 0:
        said.append(
            replace(
                first,
                source="kubernetes",
                rows=differently(first),
                silent={"pod": [in_order((window.start, window.start + HOUR / 2))]},
            )
        )
    if draw(st.integers(0, 3)) == 0:
        hour = Window(window.start, window.start + HOUR)
        said.append(replace(first.within(hour), rows=differently(first.within(hour))))
    return said


def differently(said: Said) -> dict[Any, list[Row]]:
    """The same objects, asking for more: another source, or the same one having learned better."""
    more = {"cpu_request_cores": "1.5", "cpu_capacity_cores": "5", "cpu_used_core_seconds": "777.7"}
    return {
        dataset: [
            row | {name: value for name, value in more.items() if name in row} for row in rows
        ]
        for dataset, rows in said.rows.items()
    }
