"""What happens in the demo cluster: nodes, pods and their usage at any UTC moment since 2024.

Pure and deterministic: everything is a function of the `Scenario` and of absolute time, with a
weekly rhythm (roll-outs, reclaimed spot nodes, nightly jobs, office hours). No clock, no state.

Times are whole seconds since the epoch, CPU is whole millicores, memory whole bytes, so every
number survives the float64 that Prometheus prints. Events fall on whole minutes.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Literal

MINUTE = 60
HOUR = 3600
DAY = 86400
WEEK = 7 * DAY
BLOCK = 300  # usage changes its rate every five minutes
BIRTH = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())  # a Monday; before it there is nothing
MI = 1024**2
GI = 1024**3
PAGE = 4096

Shape = Literal["office", "shop", "night", "flat"]
Provider = Literal["azure", "gcp"]
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # what Kubernetes builds name suffixes from


# --- the cast -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Nodes of one size. Capacity as the kubelet reports it, a little under the data sheet."""

    name: str
    count: int
    instance_type: str
    cpu_millicores: int
    cpu_allocatable_millicores: int
    memory_bytes: int
    memory_allocatable_bytes: int
    gpus: int = 0
    gpu_model: str = ""
    is_spot: bool = False


@dataclass(frozen=True)
class Container:
    """What one container asks for and roughly uses. `None` = asks for nothing / unlimited."""

    name: str
    cpu_request: int | None = None  # millicores
    memory_request: int | None = None  # bytes
    cpu_limit: int | None = None
    memory_limit: int | None = None
    gpus: int = 0
    kind: Literal["main", "sidecar", "init"] = "main"
    init_minutes: int = 0  # how long a plain init container runs
    cpu_use: int = 1  # millicores at the top of the shape
    memory_use: int = 16 * MI  # bytes at rest
    memory_swing: int = 0  # bytes more at the top of the shape
    shape: Shape = "flat"
    image: str = "registry.example.com/app:1"


@dataclass(frozen=True)
class Cron:
    """A CronJob's timetable, in minutes. Every `fails_every`-th run fails (0 = never)."""

    every: int
    offset: int
    minutes: int
    jitter: int = 0
    fails_every: int = 0
    ttl: int = 180  # finished pods stay listed this long
    tail: int = 0  # cAdvisor still shows the dead cgroup this long
    rotates: bool = True  # every run on the pool's next node


@dataclass(frozen=True)
class Workload:
    """A controller and its pod template."""

    namespace: str
    name: str
    kind: Literal["Deployment", "StatefulSet", "DaemonSet", "CronJob"]
    pool: str  # "" = every pool (daemon sets)
    containers: tuple[Container, ...]
    replicas: int = 1
    day_replicas: int = 0  # more of them in office hours (07:00 to 19:00 UTC, Monday to Friday)
    rolls: tuple[int, ...] = ()  # minutes of the week at which pods are replaced
    first_slot: int = 0  # node of the pool that replica 0 sits on
    cron: Cron | None = None
    host_network: bool = False
    overhead_cpu: int = 0  # runtime-class overhead, millicores
    overhead_memory: int = 0
    start_minutes: int = 1  # from scheduled to the first container running
    is_unschedulable: bool = False
    claim_gib: int = 0  # a volume claim per replica (stateful sets)
    priority_class: str = ""

    @cached_property
    def effective_request(self) -> tuple[int, int, int]:
        """(millicores, bytes, GPUs) by the scheduler's rule: steps of initialisation and steady
        state, whichever is largest per resource, plus the runtime's overhead."""
        result = []
        for resource in ("cpu_request", "memory_request", "gpus"):
            sidecars = largest_step = 0
            steady = 0
            for container in self.containers:
                asks = getattr(container, resource) or 0
                if container.kind == "init":
                    largest_step = max(largest_step, sidecars + asks)
                elif container.kind == "sidecar":
                    sidecars += asks
                else:
                    steady += asks
            result.append(max(steady + sidecars, largest_step))
        cpu, memory, gpus = result
        return cpu + self.overhead_cpu, memory + self.overhead_memory, gpus

    @cached_property
    def asks_for(self) -> tuple[bool, bool, bool]:
        """Whether (cpu, memory, gpu) appear in the effective request at all."""
        return (
            any(c.cpu_request is not None for c in self.containers) or self.overhead_cpu > 0,
            any(c.memory_request is not None for c in self.containers) or self.overhead_memory > 0,
            any(c.gpus for c in self.containers),
        )


@dataclass(frozen=True)
class Namespace:
    name: str
    labels: tuple[tuple[str, str], ...] = ()


# --- what exists ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Node:
    """One virtual machine: exists over [created, deleted) (`deleted` may be far away)."""

    name: str
    uid: str
    pool: Pool
    slot: int
    serial: int  # number of the machine within its scale set
    provider_id: str
    region: str
    zone: str
    ip: str
    created: int
    deleted: int
    labels: tuple[tuple[str, str], ...]

    @property
    def system_uuid(self) -> str:
        return str_uuid("system", self.uid)

    def cpu_counter(self, moment: int) -> int:
        """Millicore-seconds the whole machine used since it was created."""
        table = _week_prefix("office")
        base = self.pool.cpu_millicores * 6 // 10

        def total(at: int) -> int:
            weeks, rest = divmod(at - BIRTH, WEEK)
            block, tail = divmod(rest, BLOCK)
            permille = weeks * table[-1] + table[block]
            rate = _shape("office")[block]
            return (permille * BLOCK + rate * tail) * base // 1000

        return total(moment) - total(self.created)

    def memory_used(self, moment: int) -> int:
        """The machine's working set in bytes."""
        permille = _shape("office")[(moment - BIRTH) % WEEK // BLOCK]
        share = self.pool.memory_bytes // 3 + self.pool.memory_bytes * permille // 4000
        return share // PAGE * PAGE


@dataclass(frozen=True, eq=False)
class Run:
    """One container's life in a pod: processes from `start` to `end`, cgroup seen to `seen_until`."""

    container: Container
    start: int
    end: int
    seen_until: int
    key: int  # seeds the noise

    @cached_property
    def _rates(self) -> array[int]:
        base = self.container.cpu_use
        shape = _shape(self.container.shape)
        first = (self.start - BIRTH) // BLOCK
        last = (self.end - 1 - BIRTH) // BLOCK
        size = len(shape)
        key = self.key
        return array(
            "q",
            [
                base * shape[block % size] * (850 + _noise(key, block) % 301) // 1_000_000
                for block in range(first, last + 1)
            ],
        )

    @cached_property
    def _totals(self) -> array[int]:
        """Millicore-seconds used at the start of each block (of the run, for the first)."""
        totals = array("q", [0])
        total = 0
        moment = self.start
        for rate in self._rates:
            edge = min(moment - (moment - BIRTH) % BLOCK + BLOCK, self.end)
            total += rate * (edge - moment)
            totals.append(total)
            moment = edge
        return totals

    def cpu_counter(self, moment: int) -> int:
        """Millicore-seconds used since the start; constant once the processes have ended."""
        if moment >= self.end:
            return self._totals[-1]
        first = (self.start - BIRTH) // BLOCK
        block = (moment - BIRTH) // BLOCK
        since = max(self.start, BIRTH + block * BLOCK)
        index = block - first
        return self._totals[index] + self._rates[index] * (moment - since)

    def cpu_counters(self, moments: Sequence[int]) -> list[int]:
        """`cpu_counter` of many moments."""
        totals, rates, start, end = self._totals, self._rates, self.start, self.end
        edge = BIRTH + (start - BIRTH) // BLOCK * BLOCK
        lead = start - edge  # the first block began before the container did
        result = []
        for moment in moments:
            if moment >= end:
                result.append(totals[-1])
                continue
            index, rest = divmod(moment - edge, BLOCK)
            result.append(totals[index] + rates[index] * (rest if index else rest - lead))
        return result

    def memory_used(self, moment: int) -> int:
        """Working set in bytes; what is left of it after the end is page cache."""
        container = self.container
        if moment >= self.end:
            return 512 * PAGE
        block = (moment - BIRTH) // BLOCK
        shape = _shape(container.shape)
        swing = container.memory_swing * shape[block % len(shape)] // 1000
        noise = container.memory_use * (_noise(self.key + 7, block) % 61) // 1000
        return (container.memory_use + swing + noise) // PAGE * PAGE


@dataclass(frozen=True, eq=False)
class Pod:
    """One pod. It holds its request over [scheduled, finished), is listed over [created, removed)."""

    workload: Workload
    name: str
    uid: str
    replica: int
    created: int
    scheduled: int | None
    node: Node | None
    running: int  # first main container up
    finished: int  # terminal, or gone
    removed: int
    outcome: Literal["", "Succeeded", "Failed"]
    owner_kind: str  # ReplicaSet, StatefulSet, DaemonSet, Job
    owner_name: str
    runs: tuple[Run, ...]
    labels: tuple[tuple[str, str], ...]
    ip: str

    @property
    def namespace(self) -> str:
        return self.workload.namespace

    def phase(self, moment: int) -> str:
        """Pending, Running, Succeeded or Failed at a moment within [created, removed)."""
        if moment >= self.finished:
            return self.outcome
        return "Running" if moment >= self.running else "Pending"


@dataclass(frozen=True)
class Scenario:
    """The demo cluster. Equal scenarios tell equal stories.

    `node_scale` multiplies the nodes of every pool, `pod_scale` the replicas of every service
    (keep it at or below `node_scale`, or pods ask for more than their nodes have).
    """

    seed: int = 1
    cluster: str = "demo"
    provider: Provider = "azure"
    node_scale: int = 1
    pod_scale: float = 1.0
    scrape_interval_seconds: int = 60
    pools: tuple[Pool, ...] = field(default=(), repr=False)
    workloads: tuple[Workload, ...] = field(default=(), repr=False)
    namespaces: tuple[Namespace, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.pools:
            base = AZURE_POOLS if self.provider == "azure" else GCP_POOLS
            pools = tuple(
                Pool(**{**pool.__dict__, "count": pool.count * self.node_scale}) for pool in base
            )
            object.__setattr__(self, "pools", pools)
        if not self.workloads:
            object.__setattr__(self, "workloads", company(self.provider))
        if not self.namespaces:
            object.__setattr__(self, "namespaces", NAMESPACES)

    def __hash__(self) -> int:
        return hash((self.seed, self.cluster, self.provider, self.node_scale, self.pod_scale))

    # nodes

    @cached_property
    def _pool_by_name(self) -> dict[str, Pool]:
        return {pool.name: pool for pool in self.pools}

    @property
    def region(self) -> str:
        return "eastus" if self.provider == "azure" else "us-central1"

    def nodes(self, start: int, end: int) -> list[Node]:
        """Every node that exists at some time in [start, end), by pool, slot and age."""
        return [
            node
            for pool in self.pools
            for slot in range(pool.count)
            for node in self._machines(pool, slot, start, end)
        ]

    def _machines(self, pool: Pool, slot: int, start: int, end: int) -> list[Node]:
        """The machines that occupy a slot in [start, end), oldest first."""
        if start >= end:
            return []
        if not pool.is_spot:
            return [_permanent(self, pool, slot)] if end > BIRTH else []
        found = []
        for week in range(max(0, (start - BIRTH) // WEEK - 1), (end - BIRTH) // WEEK + 1):
            for node in _spot_machines(self, pool, slot, week):
                if node.created < end and node.deleted > start:
                    found.append(node)
        return found

    # pods

    def pods(self, start: int, end: int) -> list[Pod]:
        """Every pod listed at some time in [start, end), by workload, replica and age."""
        return list(_pods_between(self, start, end))

    def _pods_between(self, start: int, end: int) -> list[Pod]:
        found = []
        first = max(0, (start - BIRTH) // WEEK - 1)
        last = (end - 1 - BIRTH) // WEEK
        for index in range(len(self.workloads)):
            for week in range(first, last + 1):
                for pod in _pods_of_week(self, index, week):
                    if pod.created < end and pod.removed > start:
                        found.append(pod)
        return found


@lru_cache(maxsize=64)
def _pods_between(scenario: Scenario, start: int, end: int) -> tuple[Pod, ...]:
    return tuple(scenario._pods_between(start, end))


# --- shapes and noise -----------------------------------------------------------------------

# Permille of the peak by hour of day (UTC): Monday to Friday, then Saturday and Sunday.
_HOURLY: dict[Shape, tuple[str, str]] = {
    "office": (
        "180 160 150 150 160 200 320 520 760 920 980 1000 880 940 1000 980 900 760 600 460 360 290 240 200",
        "160 150 140 140 140 150 180 220 270 300 320 330 330 320 310 300 290 280 260 240 220 200 180 170",
    ),
    "shop": (
        "220 160 120 100 110 160 280 420 540 620 680 760 820 760 700 680 720 820 940 1000 980 860 600 380",
        "300 220 160 130 130 160 240 380 560 720 840 900 940 960 960 940 940 960 1000 1000 960 840 640 440",
    ),
    "night": (
        "800 1000 1000 900 700 300 100 60 50 50 50 60 80 60 50 50 60 80 100 160 240 340 480 640",
        "700 900 900 800 600 260 90 50 40 40 40 40 50 40 40 40 50 60 80 130 200 280 400 560",
    ),
    "flat": (" ".join(["1000"] * 24), " ".join(["1000"] * 24)),
}


@lru_cache(maxsize=8)
def _shape(name: Shape) -> array[int]:
    """Permille of the peak for each five-minute block of the week, Monday 00:00 UTC first."""
    weekday, weekend = ([int(value) for value in text.split()] for text in _HOURLY[name])
    hours = weekday * 5 + weekend * 2
    per_hour = HOUR // BLOCK
    return array(
        "q",
        [
            hours[hour] + (hours[(hour + 1) % len(hours)] - hours[hour]) * step // per_hour
            for hour in range(len(hours))
            for step in range(per_hour)
        ],
    )


@lru_cache(maxsize=8)
def _week_prefix(name: Shape) -> array[int]:
    totals = array("q", [0])
    for value in _shape(name):
        totals.append(totals[-1] + value)
    return totals


def _noise(key: int, block: int) -> int:
    """A 32-bit integer that looks random in both arguments."""
    x = (key + block * 2654435761) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 2246822519) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 3266489917) & 0xFFFFFFFF
    return x ^ (x >> 16)


def digest(*parts: object) -> bytes:
    """Twenty bytes that stand for `parts`, everywhere and always the same."""
    return hashlib.sha1("\x1f".join(map(str, parts)).encode(), usedforsecurity=False).digest()


def number(*parts: object) -> int:
    return int.from_bytes(digest(*parts)[:4], "big")


def str_uuid(*parts: object) -> str:
    """A version-4 shaped UUID."""
    text = digest(*parts).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) % 4]}{text[17:20]}-{text[20:32]}"


def suffix(length: int, *parts: object) -> str:
    """A name suffix such as Kubernetes generates."""
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest(*parts)[:length])


def in_office_hours_from(week: int) -> Iterator[tuple[int, int]]:
    """[07:00, 19:00) of Monday to Friday of a week."""
    for day in range(5):
        midnight = BIRTH + week * WEEK + day * DAY
        yield midnight + 7 * HOUR, midnight + 19 * HOUR


# --- machines -------------------------------------------------------------------------------

FAR = BIRTH + 100 * 52 * WEEK
RECLAIMS = (  # (minute of the week a spot machine goes, by slot modulo 2), 8 minutes to the next
    (1 * 1440 + 9 * 60 + 41, 3 * 1440 + 14 * 60 + 23),  # Tuesday 09:41, Thursday 14:23
    (6 * 1440 + 2 * 60 + 7,),  # Sunday 02:07
)
REPLACEMENT_MINUTES = 8


@lru_cache(maxsize=4096)
def _permanent(scenario: Scenario, pool: Pool, slot: int) -> Node:
    return _machine(scenario, pool, slot, slot, BIRTH, FAR)


@lru_cache(maxsize=4096)
def _spot_machines(scenario: Scenario, pool: Pool, slot: int, week: int) -> tuple[Node, ...]:
    """The machines of a spot slot that are born in a week (week 0: also the first of all)."""
    reclaims = RECLAIMS[slot % 2]
    per_week = len(reclaims)
    deaths = [
        BIRTH + w * WEEK + minute * MINUTE
        for w in (week - 1, week, week + 1)
        for minute in reclaims
    ]
    found = []
    if week == 0:
        found.append(_machine(scenario, pool, slot, slot, BIRTH, deaths[per_week]))
    for index in range(per_week):
        birth = deaths[per_week + index] + REPLACEMENT_MINUTES * MINUTE
        death = deaths[per_week + index + 1]
        serial = slot + pool.count * (1 + week * per_week + index)
        found.append(_machine(scenario, pool, slot, serial, birth, death))
    return tuple(found)


def _machine(
    scenario: Scenario, pool: Pool, slot: int, serial: int, created: int, deleted: int
) -> Node:
    pool_index = scenario.pools.index(pool)
    uid = str_uuid(scenario.seed, scenario.cluster, "node", pool.name, serial)
    ip = f"10.{240 + pool_index}.{serial // 200 % 256}.{serial % 200 + 4}"
    make = _azure_machine if scenario.provider == "azure" else _gcp_machine
    name, provider_id, zone, labels = make(scenario, pool, slot, serial)
    return Node(
        name=name,
        uid=uid,
        pool=pool,
        slot=slot,
        serial=serial,
        provider_id=provider_id,
        region=scenario.region,
        zone=zone,
        ip=ip,
        created=created,
        deleted=deleted,
        labels=tuple(sorted(labels.items())),
    )


def _common_labels(scenario: Scenario, pool: Pool, name: str, zone: str) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": pool.instance_type,
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": scenario.region,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubetally.dev/pool": pool.name,
        "node.kubernetes.io/instance-type": pool.instance_type,
        "topology.kubernetes.io/region": scenario.region,
        "topology.kubernetes.io/zone": zone,
    } | ({"nvidia.com/gpu.product": pool.gpu_model} if pool.gpus else {})


def _azure_machine(
    scenario: Scenario, pool: Pool, slot: int, serial: int
) -> tuple[str, str, str, dict[str, str]]:
    group = f"mc_{scenario.cluster}_{scenario.cluster}_{scenario.region}"
    number8 = f"{number(scenario.seed, scenario.cluster, 'scale set') % 90_000_000 + 10_000_000}"
    scale_set = f"aks-{pool.name}-{number8}-vmss"
    name = f"{scale_set}{_base36(serial):0>6}"
    provider_id = (
        "azure:///subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/"
        f"{group}/providers/Microsoft.Compute/virtualMachineScaleSets/{scale_set}"
        f"/virtualMachines/{serial}"
    )
    zone = f"{scenario.region}-{slot % 3 + 1}"
    labels = _common_labels(scenario, pool, name, zone) | {
        "agentpool": pool.name,
        "kubernetes.azure.com/agentpool": pool.name,
        "kubernetes.azure.com/cluster": group,
        "kubernetes.azure.com/mode": "system" if pool.name == "system" else "user",
        "kubernetes.azure.com/nodepool-type": "VirtualMachineScaleSets",
        "kubernetes.azure.com/os-sku": "Ubuntu",
        "kubernetes.azure.com/role": "agent",
    }
    if pool.is_spot:
        labels["kubernetes.azure.com/scalesetpriority"] = "spot"
    return name, provider_id, zone, labels


def _gcp_machine(
    scenario: Scenario, pool: Pool, slot: int, serial: int
) -> tuple[str, str, str, dict[str, str]]:
    zone = f"{scenario.region}-{'abc'[slot % 3]}"
    group = digest(scenario.seed, scenario.cluster, pool.name).hex()[:8]
    name = (
        f"gke-{scenario.cluster}-{pool.name}-{group}-{suffix(4, scenario.seed, pool.name, serial)}"
    )
    provider_id = f"gce://{scenario.cluster}-project/{zone}/{name}"
    labels = _common_labels(scenario, pool, name, zone) | {
        "cloud.google.com/gke-boot-disk": "pd-balanced",
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/gke-nodepool": pool.name,
        "cloud.google.com/gke-os-distribution": "cos",
        "cloud.google.com/gke-provisioning": "spot" if pool.is_spot else "standard",
        "cloud.google.com/machine-family": pool.instance_type.split("-")[0],
        "topology.gke.io/zone": zone,
    }
    if pool.is_spot:
        labels["cloud.google.com/gke-spot"] = "true"
    if pool.gpus:
        labels["cloud.google.com/gke-accelerator"] = "nvidia-l4"
        labels["cloud.google.com/gke-accelerator-count"] = str(pool.gpus)
    return name, provider_id, zone, labels


def _base36(value: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while True:
        value, rest = divmod(value, 36)
        text = digits[rest] + text
        if not value:
            return text


# --- pods -----------------------------------------------------------------------------------


@lru_cache(maxsize=2048)
def _pods_of_week(scenario: Scenario, index: int, week: int) -> tuple[Pod, ...]:
    """The pods of a workload that are created in a week."""
    workload = scenario.workloads[index]
    if workload.cron is not None:
        return tuple(_job_pods(scenario, workload, workload.cron, week))
    found: list[Pod] = []
    for replica, (pool, slot) in enumerate(_places(scenario, workload)):
        for start, end in _generations(scenario, workload, replica, week):
            found.extend(_service_pods(scenario, workload, replica, pool, slot, start, end))
    return tuple(found)


def _places(scenario: Scenario, workload: Workload) -> list[tuple[Pool, int]]:
    """Which node slot each replica sits on, in order of replica."""
    if workload.kind == "DaemonSet":
        pools = [p for p in scenario.pools if workload.pool in ("", p.name)]
        return [(pool, slot) for pool in pools for slot in range(pool.count)]
    pool = scenario._pool_by_name[workload.pool]
    count = _replicas(scenario, workload.replicas) + _replicas(scenario, workload.day_replicas)
    return [(pool, (workload.first_slot + n) % pool.count) for n in range(count)]


def _replicas(scenario: Scenario, replicas: int) -> int:
    return max(1, round(replicas * scenario.pod_scale)) if replicas else 0


def _generations(
    scenario: Scenario, workload: Workload, replica: int, week: int
) -> Iterator[tuple[int, int]]:
    """[start, end) of a replica's generations that start in a week.

    A Deployment's new pod overlaps the old one by two minutes; the others leave a minute between.
    """
    steady = _replicas(scenario, workload.replicas)
    if workload.kind != "DaemonSet" and replica >= steady:
        yield from in_office_hours_from(week)
        return
    if not workload.rolls:
        raise ValueError(f"workload {workload.name!r} needs at least one roll a week")
    stagger = replica % 40 * 2 * MINUTE
    rolls = [
        BIRTH + w * WEEK + minute * MINUTE + stagger
        for w in (week, week + 1)
        for minute in workload.rolls
    ]
    before, after = (0, 2 * MINUTE) if workload.kind == "Deployment" else (MINUTE, 0)
    if week == 0:
        yield BIRTH, rolls[0] + after
    for n in range(len(workload.rolls)):
        yield rolls[n] + before, rolls[n + 1] + after


def _service_pods(
    scenario: Scenario,
    workload: Workload,
    replica: int,
    pool: Pool,
    slot: int,
    start: int,
    end: int,
) -> Iterator[Pod]:
    """The pods of one generation: one, or more where their node goes away under them."""
    if workload.is_unschedulable:
        yield _pod(scenario, workload, replica, start, start, None, end)
        return
    for node in scenario._machines(pool, slot, start, end):
        begin, stop = max(start, node.created), min(end, node.deleted)
        if stop - begin < 10 * MINUTE and stop != end:
            continue  # reclaimed before the scheduler came round
        created = begin
        if begin > start and workload.kind != "DaemonSet":
            gone = node.created - (REPLACEMENT_MINUTES - 1) * MINUTE
            created = max(start, gone)  # replaced at once, waits for the new machine
        yield _pod(scenario, workload, replica, start, created, node, stop, scheduled=begin)


def _job_pods(scenario: Scenario, workload: Workload, cron: Cron, week: int) -> Iterator[Pod]:
    begin = BIRTH + week * WEEK
    every = cron.every * MINUTE
    first = -((cron.offset * MINUTE - begin + BIRTH) // every)
    pool = scenario._pool_by_name[workload.pool]
    run = max(0, first)
    while True:
        start = BIRTH + cron.offset * MINUTE + run * every
        if start >= begin + WEEK:
            return
        pick = number(scenario.seed, scenario.cluster, workload.namespace, workload.name, run)
        end = start + (cron.minutes + (pick % (cron.jitter + 1))) * MINUTE
        fails = bool(cron.fails_every) and pick % cron.fails_every == 0
        for offset in range(pool.count):
            slot = (workload.first_slot + (run if cron.rotates else 0) + offset) % pool.count
            machines = scenario._machines(pool, slot, start, end)
            if (
                machines
                and machines[0].created <= start
                and machines[0].deleted >= end + 5 * MINUTE
            ):
                outcome: Literal["Succeeded", "Failed"] = "Failed" if fails else "Succeeded"
                yield _pod(
                    scenario,
                    workload,
                    run,
                    start,
                    start,
                    machines[0],
                    end,
                    scheduled=start,
                    outcome=outcome,
                )
                break
        run += 1


def _pod(
    scenario: Scenario,
    workload: Workload,
    replica: int,
    generation: int,
    created: int,
    node: Node | None,
    finished: int,
    *,
    scheduled: int | None = None,
    outcome: Literal["", "Succeeded", "Failed"] = "",
) -> Pod:
    story = (scenario.seed, scenario.cluster, workload.namespace, workload.name)
    uid = str_uuid(*story, "pod", replica, created)
    labels = {"app.kubernetes.io/name": workload.name}
    removed = finished
    match workload.kind:
        case "Deployment":
            stagger = replica % 40 * 2 * MINUTE
            rollout = 0 if generation == BIRTH else generation - stagger
            owner_kind, owner = "ReplicaSet", f"{workload.name}-{suffix(10, *story, rollout)}"
            if replica >= _replicas(scenario, workload.replicas):
                # the autoscaler adds pods to the replica set that is current
                owner = f"{workload.name}-{suffix(10, *story, _current_roll(workload, generation))}"
            name = f"{owner}-{suffix(5, uid)}"
            labels["pod-template-hash"] = owner.rsplit("-", 1)[1]
        case "StatefulSet":
            owner_kind, owner, name = "StatefulSet", workload.name, f"{workload.name}-{replica}"
            labels["apps.kubernetes.io/pod-index"] = str(replica)
        case "DaemonSet":
            owner_kind, owner, name = (
                "DaemonSet",
                workload.name,
                f"{workload.name}-{suffix(5, uid)}",
            )
            labels["controller-revision-hash"] = suffix(10, *story, "revision")
        case "CronJob":
            owner_kind, owner = "Job", f"{workload.name}-{created // MINUTE}"
            name = f"{owner}-{suffix(5, uid)}"
            labels["batch.kubernetes.io/job-name"] = owner
            assert workload.cron is not None and node is not None
            removed = min(finished + workload.cron.ttl * MINUTE, node.deleted)
    runs: tuple[Run, ...] = ()
    running = removed
    if node is not None and scheduled is not None:
        tail = workload.cron.tail * MINUTE if workload.cron else 0
        runs, running = _runs(workload, uid, scheduled, finished, tail)
    address = number(*story, replica, created)
    return Pod(
        workload=workload,
        name=name,
        uid=uid,
        replica=replica,
        created=created,
        scheduled=scheduled,
        node=node,
        running=running,
        finished=finished,
        removed=removed,
        outcome=outcome,
        owner_kind=owner_kind,
        owner_name=owner,
        runs=runs,
        labels=tuple(sorted(labels.items())),
        ip=(
            node.ip
            if workload.host_network and node
            else f"10.244.{address % 200}.{address // 200 % 250 + 2}"
        ),
    )


def _current_roll(workload: Workload, moment: int) -> int:
    """The roll-out that was the latest at `moment` (replica 0's time), 0 before the first."""
    week = (moment - BIRTH) // WEEK
    rolls = [BIRTH + w * WEEK + m * MINUTE for w in (week - 1, week) for m in workload.rolls]
    past = [roll for roll in rolls if BIRTH < roll <= moment]
    return past[-1] if past else 0


def _runs(
    workload: Workload, uid: str, scheduled: int, finished: int, tail: int
) -> tuple[tuple[Run, ...], int]:
    """The containers' lives, and the moment the first main one is up."""
    runs = []
    moment = scheduled + workload.start_minutes * MINUTE
    for number_, container in enumerate(workload.containers):
        if container.kind == "init":
            end = min(moment + container.init_minutes * MINUTE, finished)
            seen = end
        else:
            end, seen = finished, finished + tail
        if moment >= end:
            continue
        runs.append(Run(container, moment, end, seen, number("run", uid, number_)))
        if container.kind == "init":
            moment = end + MINUTE
        elif container.kind == "sidecar":
            moment += MINUTE
    return tuple(runs), min(moment, finished)


# --- the company ----------------------------------------------------------------------------


def at(day: int, hour: int, minute: int = 0) -> int:
    """Minute of the week; day 0 is Monday."""
    return day * 1440 + hour * 60 + minute


AZURE_POOLS = (
    Pool("system", 2, "Standard_D2s_v3", 2000, 1900, 8129932 * 1024, 5547148 * 1024),
    Pool("general", 3, "Standard_D4s_v5", 4000, 3860, 16375752 * 1024, 12880328 * 1024),
    Pool("memory", 1, "Standard_E4s_v5", 4000, 3860, 32868080 * 1024, 27602432 * 1024),
    Pool("spot", 2, "Standard_D2s_v3", 2000, 1900, 8129932 * 1024, 5547148 * 1024, is_spot=True),
    Pool(
        "gpu",
        2,
        "Standard_NC6s_v3",
        6000,
        5840,
        115387604 * 1024,
        105854100 * 1024,
        gpus=1,
        gpu_model="Tesla-V100-PCIE-16GB",
    ),
)
GCP_POOLS = (
    Pool("system", 2, "e2-standard-2", 2000, 1930, 8148488 * 1024, 6309384 * 1024),
    Pool("general", 3, "e2-standard-4", 4000, 3920, 16393248 * 1024, 13589840 * 1024),
    Pool("memory", 1, "n2-highmem-4", 4000, 3920, 32880808 * 1024, 28765200 * 1024),
    Pool("spot", 2, "e2-standard-2", 2000, 1930, 8148488 * 1024, 6309384 * 1024, is_spot=True),
    Pool(
        "gpu",
        2,
        "g2-standard-8",
        8000,
        7910,
        32870144 * 1024,
        28754536 * 1024,
        gpus=1,
        gpu_model="NVIDIA-L4",
    ),
)

NAMESPACES = (
    Namespace("campaign-summer", (("team", "marketing"), ("env", "prod"))),
    Namespace("checkout", (("team", "checkout"), ("env", "prod"))),
    Namespace("data-platform", (("team", "data"), ("env", "prod"))),
    Namespace("default"),
    Namespace("kube-node-lease"),
    Namespace("kube-public"),
    Namespace("kube-system"),
    Namespace("ml-research", (("team", "ml"), ("env", "research"))),
    Namespace("observability", (("team", "platform"), ("env", "prod"))),
    Namespace("payments", (("team", "payments"), ("env", "prod"), ("cost-center", "4711"))),
    Namespace("sandbox"),  # nobody's
    Namespace("search", (("team", "search"), ("env", "prod"))),
)


def company(provider: Provider) -> tuple[Workload, ...]:
    """Every workload of the demo company."""
    network = (
        Workload(
            "kube-system",
            "azure-cns" if provider == "azure" else "netd",
            "DaemonSet",
            "",
            (
                Container(
                    "cns-container" if provider == "azure" else "netd",
                    40,
                    200 * MI,
                    memory_limit=400 * MI,
                    cpu_use=9,
                    memory_use=48 * MI,
                ),
            ),
            rolls=(at(1, 3, 5),),
            host_network=True,
            start_minutes=0,
            priority_class="system-node-critical",
        ),
        Workload(
            "kube-system",
            "csi-azuredisk-node" if provider == "azure" else "pdcsi-node",
            "DaemonSet",
            "",
            (
                Container("liveness-probe", 10, 20 * MI, cpu_use=1, memory_use=11 * MI),
                Container("node-driver-registrar", 10, 20 * MI, cpu_use=1, memory_use=12 * MI),
                Container("csi-driver", 10, 20 * MI, cpu_use=2, memory_use=22 * MI),
            ),
            rolls=(at(1, 3, 35),),
            host_network=True,
            start_minutes=0,
            priority_class="system-node-critical",
        ),
    )
    return (
        # kube-system
        Workload(
            "kube-system",
            "kube-proxy",
            "DaemonSet",
            "",
            (Container("kube-proxy", 100, cpu_use=3, memory_use=24 * MI),),
            rolls=(at(1, 3, 2),),
            host_network=True,
            start_minutes=0,
            priority_class="system-node-critical",
        ),
        *network,
        Workload(
            "kube-system",
            "nvidia-device-plugin",
            "DaemonSet",
            "gpu",
            (Container("nvidia-device-plugin-ctr", 50, 100 * MI, cpu_use=2, memory_use=30 * MI),),
            rolls=(at(1, 4, 0),),
            start_minutes=0,
        ),
        Workload(
            "kube-system",
            "coredns",
            "Deployment",
            "system",
            (
                Container(
                    "coredns",
                    100,
                    70 * MI,
                    memory_limit=500 * MI,
                    cpu_use=24,
                    memory_use=30 * MI,
                    shape="shop",
                ),
            ),
            replicas=2,
            rolls=(at(2, 4, 10),),
            priority_class="system-cluster-critical",
        ),
        Workload(
            "kube-system",
            "metrics-server",
            "Deployment",
            "system",
            (
                Container(
                    "metrics-server", 44, 55 * MI, 144, 230 * MI, cpu_use=12, memory_use=52 * MI
                ),
            ),
            replicas=2,
            rolls=(at(2, 4, 30),),
            first_slot=1,
            priority_class="system-cluster-critical",
        ),
        # observability
        Workload(
            "observability",
            "node-exporter",
            "DaemonSet",
            "",
            (
                Container(
                    "node-exporter", 50, 50 * MI, 250, 180 * MI, cpu_use=6, memory_use=22 * MI
                ),
            ),
            rolls=(at(0, 6, 0),),
            host_network=True,
            start_minutes=0,
        ),
        Workload(
            "observability",
            "prometheus",
            "StatefulSet",
            "memory",
            (
                Container("init-config-reloader", 10, 50 * MI, kind="init", init_minutes=1),
                Container(
                    "prometheus",
                    500,
                    4 * GI,
                    memory_limit=8 * GI,
                    cpu_use=420,
                    memory_use=3500 * MI,
                    memory_swing=900 * MI,
                    shape="office",
                ),
                Container("config-reloader", 10, 50 * MI, cpu_use=1, memory_use=18 * MI),
            ),
            rolls=(at(5, 5, 0),),
            start_minutes=2,
            claim_gib=128,
        ),
        Workload(
            "observability",
            "grafana",
            "Deployment",
            "general",
            (
                Container(
                    "grafana",
                    100,
                    256 * MI,
                    500,
                    512 * MI,
                    cpu_use=85,
                    memory_use=140 * MI,
                    shape="office",
                ),
            ),
            rolls=(at(0, 7, 20),),
        ),
        Workload(
            "observability",
            "kube-state-metrics",
            "Deployment",
            "system",
            (Container("kube-state-metrics", 50, 128 * MI, cpu_use=14, memory_use=72 * MI),),
            rolls=(at(3, 6, 40),),
        ),
        # checkout: a shop front that follows its customers
        Workload(
            "checkout",
            "storefront",
            "Deployment",
            "general",
            (
                Container(
                    "istio-proxy",
                    100,
                    128 * MI,
                    2000,
                    1 * GI,
                    kind="sidecar",
                    cpu_use=70,
                    memory_use=70 * MI,
                    shape="shop",
                ),
                Container(
                    "web",
                    400,
                    512 * MI,
                    1000,
                    1 * GI,
                    cpu_use=330,
                    memory_use=320 * MI,
                    memory_swing=120 * MI,
                    shape="shop",
                    image="registry.example.com/checkout/storefront:2026.44",
                ),
            ),
            replicas=3,
            day_replicas=1,
            rolls=(at(0, 10, 12), at(2, 13, 40), at(3, 9, 5)),
        ),
        Workload(
            "checkout",
            "cart",
            "Deployment",
            "general",
            (
                Container(
                    "cart",
                    250,
                    384 * MI,
                    1000,
                    768 * MI,
                    cpu_use=190,
                    memory_use=250 * MI,
                    shape="shop",
                ),
            ),
            replicas=2,
            rolls=(at(1, 11, 25), at(3, 15, 50)),
            first_slot=1,
        ),
        Workload(
            "checkout",
            "checkout-db",
            "StatefulSet",
            "memory",
            (
                Container(
                    "postgres",
                    500,
                    2 * GI,
                    memory_limit=4 * GI,
                    cpu_use=380,
                    memory_use=1700 * MI,
                    memory_swing=200 * MI,
                    shape="shop",
                ),
            ),
            replicas=2,
            rolls=(at(6, 4, 30),),
            start_minutes=2,
            claim_gib=64,
        ),
        Workload(
            "checkout",
            "abandoned-carts",
            "CronJob",
            "general",
            (
                Container(
                    "mailer",
                    200,
                    256 * MI,
                    500,
                    512 * MI,
                    cpu_use=160,
                    memory_use=120 * MI,
                    shape="shop",
                ),
            ),
            cron=Cron(every=60, offset=7, minutes=6, jitter=5, fails_every=9),
        ),
        # payments: careful people, with a migration that needs more than the service
        Workload(
            "payments",
            "payments-api",
            "Deployment",
            "general",
            (
                Container(
                    "migrate",
                    500,
                    1 * GI,
                    kind="init",
                    init_minutes=2,
                    cpu_use=350,
                    memory_use=300 * MI,
                ),
                Container(
                    "api",
                    300,
                    512 * MI,
                    1000,
                    1 * GI,
                    cpu_use=150,
                    memory_use=380 * MI,
                    shape="shop",
                ),
                Container("audit-log", 50, 64 * MI, cpu_use=12, memory_use=40 * MI, shape="shop"),
            ),
            replicas=2,
            rolls=(at(1, 8, 30),),
            first_slot=2,
        ),
        Workload(
            "payments",
            "ledger",
            "StatefulSet",
            "memory",
            (
                Container(
                    "ledger",
                    250,
                    1 * GI,
                    1000,
                    2 * GI,
                    cpu_use=120,
                    memory_use=700 * MI,
                    shape="shop",
                ),
            ),
            rolls=(at(6, 3, 0),),
            overhead_cpu=250,  # runs in a sandboxed runtime class
            overhead_memory=120 * MI,
            claim_gib=32,
        ),
        Workload(
            "payments",
            "settlement",
            "CronJob",
            "general",
            (Container("settle", 250, 512 * MI, 1000, 1 * GI, cpu_use=420, memory_use=260 * MI),),
            cron=Cron(every=30, offset=3, minutes=4, jitter=3, fails_every=17, ttl=90),
            first_slot=1,
        ),
        # search: an indexer that takes far more than it asks for
        Workload(
            "search",
            "search-api",
            "Deployment",
            "general",
            (
                Container(
                    "api",
                    300,
                    1 * GI,
                    memory_limit=2 * GI,
                    cpu_use=260,
                    memory_use=800 * MI,
                    memory_swing=150 * MI,
                    shape="shop",
                ),
            ),
            replicas=2,
            day_replicas=1,
            rolls=(at(2, 9, 15),),
        ),
        Workload(
            "search",
            "indexer",
            "Deployment",
            "spot",
            (
                Container(
                    "indexer",
                    150,
                    384 * MI,
                    cpu_use=960,
                    memory_use=420 * MI,
                    memory_swing=600 * MI,
                    shape="office",
                ),
            ),
            rolls=(at(4, 12, 0),),
        ),
        # data-platform
        Workload(
            "data-platform",
            "kafka",
            "StatefulSet",
            "general",
            (
                Container(
                    "kafka",
                    250,
                    1 * GI,
                    memory_limit=2 * GI,
                    cpu_use=200,
                    memory_use=900 * MI,
                    memory_swing=80 * MI,
                    shape="shop",
                ),
            ),
            replicas=3,
            rolls=(at(5, 2, 0),),
            start_minutes=2,
            claim_gib=100,
        ),
        Workload(
            "data-platform",
            "spark-executor",
            "StatefulSet",
            "spot",
            (
                Container(
                    "executor",
                    400,
                    1 * GI,
                    memory_limit=2 * GI,
                    cpu_use=310,
                    memory_use=700 * MI,
                    shape="night",
                ),
            ),
            replicas=3,
            rolls=(at(0, 0, 30),),
        ),
        Workload(
            "data-platform",
            "nightly-etl",
            "CronJob",
            "memory",
            (
                Container(
                    "fetch",
                    200,
                    512 * MI,
                    kind="init",
                    init_minutes=6,
                    cpu_use=140,
                    memory_use=200 * MI,
                ),
                Container("etl", 1000, 3 * GI, 2000, 6 * GI, cpu_use=1450, memory_use=2600 * MI),
            ),
            cron=Cron(
                every=1440, offset=95, minutes=70, jitter=25, fails_every=11, ttl=360, tail=2
            ),
        ),
        Workload(
            "data-platform",
            "hourly-export",
            "CronJob",
            "spot",
            (Container("export", 100, 256 * MI, cpu_use=230, memory_use=150 * MI),),
            cron=Cron(every=60, offset=20, minutes=9, jitter=6, ttl=120),
        ),
        # ml-research
        Workload(
            "ml-research",
            "embedding-server",
            "StatefulSet",
            "gpu",
            (
                Container(
                    "triton",
                    2000,
                    8 * GI,
                    memory_limit=16 * GI,
                    gpus=1,
                    cpu_use=1500,
                    memory_use=6 * GI,
                    memory_swing=1 * GI,
                    shape="shop",
                ),
            ),
            rolls=(at(1, 14, 0),),
            first_slot=1,
            start_minutes=4,
        ),
        Workload(
            "ml-research",
            "train-ranker",
            "CronJob",
            "gpu",
            (
                Container(
                    "trainer",
                    4000,
                    24 * GI,
                    memory_limit=48 * GI,
                    gpus=1,
                    cpu_use=3600,
                    memory_use=21 * GI,
                ),
            ),
            cron=Cron(
                every=1440,
                offset=20 * 60,
                minutes=380,
                jitter=90,
                fails_every=5,
                ttl=600,
                rotates=False,
            ),
            start_minutes=4,
        ),
        Workload(
            "ml-research",
            "notebook",
            "Deployment",
            "memory",
            (
                Container(
                    "jupyter",
                    500,
                    4 * GI,
                    memory_limit=6 * GI,
                    cpu_use=300,
                    memory_use=1500 * MI,
                    shape="office",
                ),
            ),
            replicas=0,
            day_replicas=1,
        ),
        Workload(
            "ml-research",
            "llm-finetune",
            "StatefulSet",
            "gpu",
            (Container("trainer", 8000, 64 * GI, memory_limit=64 * GI, gpus=4),),
            rolls=(at(0, 9, 0),),
            is_unschedulable=True,
        ),
        # campaign-summer: reserved, hardly used
        Workload(
            "campaign-summer",
            "landing-page",
            "Deployment",
            "spot",
            (Container("web", 300, 512 * MI, 500, 512 * MI, cpu_use=3, memory_use=24 * MI),),
            replicas=2,
            rolls=(at(2, 8, 0),),
        ),
        Workload(
            "campaign-summer",
            "coupon-api",
            "Deployment",
            "general",
            (Container("api", 500, 1 * GI, 1000, 1 * GI, cpu_use=2, memory_use=90 * MI),),
            replicas=2,
            rolls=(at(2, 8, 20),),
        ),
        # sandbox: no owner, no requests
        Workload(
            "sandbox",
            "hackathon",
            "Deployment",
            "general",
            (
                Container(
                    "app", cpu_use=140, memory_use=200 * MI, memory_swing=90 * MI, shape="office"
                ),
            ),
            rolls=(at(4, 16, 0),),
            first_slot=2,
        ),
        Workload(
            "sandbox",
            "proof-of-concept",
            "Deployment",
            "general",
            (Container("app", 200, 256 * MI, cpu_use=8, memory_use=60 * MI),),
            rolls=(at(1, 10, 0),),
            first_slot=1,
        ),
    )


# --- small tools ----------------------------------------------------------------------------


def grid(start: int, end: int, step: int) -> range:
    """The multiples of `step` in [start, end)."""
    return range(-(-start // step) * step, end, step)
