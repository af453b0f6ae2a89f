"""The demo company: deterministic, plausible, and with every odd character it promises."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

import pytest

from kubetally.demo.scenario import (
    BIRTH,
    DAY,
    GI,
    HOUR,
    MI,
    MINUTE,
    WEEK,
    Container,
    Scenario,
    Workload,
)
from kubetally.demo.truth import OWNERS


def epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


MONDAY = epoch("2026-11-02T00:00")


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return Scenario()


def test_equal_scenarios_tell_equal_stories_and_other_seeds_tell_others() -> None:
    def told(scenario: Scenario) -> list[object]:
        pods = scenario.pods(MONDAY, MONDAY + DAY)
        return [
            (
                pod.uid,
                pod.name,
                pod.created,
                pod.finished,
                [run.cpu_counter(MONDAY + HOUR) for run in pod.runs if run.start <= MONDAY + HOUR],
            )
            for pod in pods
        ]

    assert told(Scenario()) == told(Scenario(seed=1, cluster="demo"))
    assert told(Scenario()) != told(Scenario(seed=2))
    assert told(Scenario()) != told(Scenario(cluster="other"))


def test_what_was_asked_before_does_not_change_the_answer(scenario: Scenario) -> None:
    fresh = Scenario(seed=5)
    late_first = [pod.uid for pod in fresh.pods(MONDAY + 3 * DAY, MONDAY + 4 * DAY)]
    [*fresh.pods(MONDAY, MONDAY + WEEK)]
    assert [pod.uid for pod in fresh.pods(MONDAY + 3 * DAY, MONDAY + 4 * DAY)] == late_first


@pytest.mark.parametrize("day", ["2024-02-29", "2025-07-01", "2026-11-03", "2029-12-31"])
def test_any_day_has_ten_nodes_and_a_hundred_pods(scenario: Scenario, day: str) -> None:
    start = epoch(day)
    for moment in range(start, start + DAY, 2 * HOUR):
        assert 9 <= len(scenario.nodes(moment, moment + 1)) <= 10
        assert 70 <= len(scenario.pods(moment, moment + 1)) <= 100


def test_before_the_cluster_was_born_there_was_nothing(scenario: Scenario) -> None:
    assert scenario.nodes(BIRTH - DAY, BIRTH) == []
    assert scenario.pods(BIRTH - DAY, BIRTH) == []
    assert scenario.pods(BIRTH, BIRTH + HOUR)


@pytest.mark.parametrize("provider", ["azure", "gcp"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_pod_lives_within_its_node_and_on_whole_minutes(seed: int, provider: str) -> None:
    scenario = Scenario(seed=seed, provider=provider)  # type: ignore[arg-type]
    for pod in scenario.pods(MONDAY, MONDAY + WEEK):
        times = [pod.created, pod.finished, pod.removed, pod.running]
        assert all(moment % MINUTE == 0 for moment in times)
        assert pod.created < pod.finished <= pod.removed
        if pod.node is None or pod.scheduled is None:
            assert pod.runs == ()
            continue
        assert pod.node.created <= pod.scheduled < pod.finished <= pod.node.deleted
        assert pod.created <= pod.scheduled <= pod.running <= pod.finished
        for run in pod.runs:
            assert pod.scheduled <= run.start < run.end <= pod.finished
            assert run.end <= run.seen_until <= pod.node.deleted


def test_no_two_pods_share_a_uid_nor_a_name_at_one_time(scenario: Scenario) -> None:
    pods = scenario.pods(MONDAY, MONDAY + WEEK)
    assert len({pod.uid for pod in pods}) == len(pods)
    by_name: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for pod in pods:
        by_name.setdefault((pod.namespace, pod.name), []).append((pod.created, pod.removed))
    for lives in by_name.values():
        for (_, end), (start, _) in pairwise(sorted(lives)):
            assert end <= start


@pytest.mark.parametrize(
    "scenario",
    [Scenario(), Scenario(seed=7, provider="gcp"), Scenario(node_scale=3, pod_scale=3)],
    ids=["azure", "gcp", "three times"],
)
def test_nodes_never_promise_more_than_they_have(scenario: Scenario) -> None:
    events: dict[int, list[tuple[str, int, int, int, int]]] = {}
    pools = {}
    for pod in scenario.pods(MONDAY, MONDAY + WEEK):
        if pod.node is None or pod.scheduled is None:
            continue
        cpu, memory, gpus = pod.workload.effective_request
        pools[pod.node.name] = pod.node.pool
        events.setdefault(pod.scheduled, []).append((pod.node.name, 1, cpu, memory, gpus))
        events.setdefault(pod.finished, []).append((pod.node.name, -1, cpu, memory, gpus))
    held = {name: [0, 0, 0] for name in pools}
    for moment in sorted(events):
        for name, sign, cpu, memory, gpus in sorted(events[moment], key=lambda e: e[1]):
            held[name] = [
                held[name][0] + sign * cpu,
                held[name][1] + sign * memory,
                held[name][2] + sign * gpus,
            ]
        for name, (cpu, memory, gpus) in held.items():
            pool = pools[name]
            assert cpu <= pool.cpu_allocatable_millicores, (name, moment)
            assert memory <= pool.memory_allocatable_bytes, (name, moment)
            assert gpus <= pool.gpus, (name, moment)


def test_a_spot_node_is_reclaimed_on_thursday_at_14_23_and_replaced_eight_minutes_later(
    scenario: Scenario,
) -> None:
    start, end = epoch("2026-11-05T14:00"), epoch("2026-11-05T15:00")
    gone, new = (n for n in scenario.nodes(start, end) if n.pool.is_spot and n.slot == 0)
    assert gone.deleted == epoch("2026-11-05T14:23")
    assert new.created == epoch("2026-11-05T14:31")
    assert gone.uid != new.uid and gone.name != new.name and gone.provider_id != new.provider_id
    lost = [p for p in scenario.pods(start, end) if p.node is gone and p.finished == gone.deleted]
    came = [p for p in scenario.pods(start, end) if p.node is new]
    waiting = [p for p in came if p.scheduled is not None and p.created < p.scheduled]
    assert len(lost) >= 6 and len(came) >= 6 and len(waiting) >= 3
    assert {p.workload.name for p in lost if p.owner_kind != "Job"} == {
        p.workload.name for p in came if p.owner_kind != "Job"
    }


def test_a_roll_out_replaces_pods_under_a_new_replica_set(scenario: Scenario) -> None:
    before = epoch("2026-11-02T10:00")
    after = epoch("2026-11-02T10:30")  # storefront rolls on Monday 10:12

    def steady(moment: int) -> set[tuple[str, str]]:
        return {
            (pod.uid, pod.owner_name)
            for pod in scenario.pods(moment, moment + 1)
            if pod.workload.name == "storefront" and pod.replica < 3
        }

    assert len(steady(before)) == len(steady(after)) == 3
    assert not {uid for uid, _ in steady(before)} & {uid for uid, _ in steady(after)}
    assert len({owner for _, owner in steady(before) | steady(after)}) == 2


def test_stateful_pods_keep_their_name_and_change_their_uid(scenario: Scenario) -> None:
    kafka = [
        p
        for p in scenario.pods(MONDAY, MONDAY + 2 * WEEK)
        if p.workload.name == "kafka" and p.replica == 0
    ]
    assert len(kafka) >= 2
    assert {pod.name for pod in kafka} == {"kafka-0"}
    assert len({pod.uid for pod in kafka}) == len(kafka)


def test_the_company_has_every_character(scenario: Scenario) -> None:
    pods = scenario.pods(MONDAY, MONDAY + 2 * WEEK)
    kinds = {pod.owner_kind for pod in pods}
    assert kinds == {"ReplicaSet", "StatefulSet", "DaemonSet", "Job"}
    assert {"Succeeded", "Failed"} <= {pod.outcome for pod in pods}
    finished = [pod for pod in pods if pod.outcome]
    assert all(
        pod.removed > pod.finished
        for pod in finished
        if pod.node and pod.node.deleted > pod.removed
    )
    assert any(pod.node is None for pod in pods), "one that is never scheduled"
    assert any(not any(pod.workload.asks_for) for pod in pods), "one that asks for nothing"
    assert any(pod.workload.host_network for pod in pods)
    assert any(pod.workload.overhead_cpu for pod in pods)
    assert {"init", "sidecar"} <= {c.kind for pod in pods for c in pod.workload.containers}
    assert any(run.seen_until > run.end for pod in pods for run in pod.runs), "a usage tail"
    assert "sandbox" not in OWNERS and any(pod.namespace == "sandbox" for pod in pods)
    assert any(pod.node and pod.node.pool.gpus and pod.workload.asks_for[2] for pod in pods)
    namespaces = {space.name for space in scenario.namespaces}
    assert {pod.namespace for pod in pods} <= namespaces


def average_millicores(scenario: Scenario, name: str, start: int, end: int) -> float:
    total = 0
    for pod in scenario.pods(start, end):
        if pod.workload.name == name:
            for run in pod.runs:
                first, last = max(start, run.start), min(end, run.end)
                if first < last:
                    total += run.cpu_counter(last) - run.cpu_counter(first)
    return total / (end - start)


def test_load_follows_day_and_week(scenario: Scenario) -> None:
    noon = average_millicores(scenario, "grafana", MONDAY + 11 * HOUR, MONDAY + 12 * HOUR)
    night = average_millicores(scenario, "grafana", MONDAY + 2 * HOUR, MONDAY + 3 * HOUR)
    sunday = MONDAY + 6 * DAY + 11 * HOUR
    weekend = average_millicores(scenario, "grafana", sunday, sunday + HOUR)
    assert noon > 4 * night and noon > 2 * weekend


def test_the_indexer_takes_more_than_it_asks_for_and_the_campaign_hardly_anything(
    scenario: Scenario,
) -> None:
    noon = MONDAY + DAY + 12 * HOUR
    assert average_millicores(scenario, "indexer", noon, noon + HOUR) > 4 * 150
    assert average_millicores(scenario, "coupon-api", noon, noon + HOUR) < 1000 // 100


def test_counters_never_fall_and_survive_a_float(scenario: Scenario) -> None:
    for pod in scenario.pods(MONDAY, MONDAY + HOUR):
        for run in pod.runs:
            times = range(max(run.start, MONDAY), min(run.seen_until, MONDAY + DAY), 60)
            values = run.cpu_counters(times)
            assert values == [run.cpu_counter(moment) for moment in times]
            assert values == sorted(values)
            for value in values[-1:]:
                exact = Decimal(value) / 1000
                assert Decimal(repr(float(exact))) == exact
    assert any(
        run.start > MONDAY for pod in scenario.pods(MONDAY, MONDAY + HOUR) for run in pod.runs
    )


def test_a_counter_starts_at_zero_and_stands_still_after_the_end(scenario: Scenario) -> None:
    etl = next(
        pod
        for pod in scenario.pods(MONDAY, MONDAY + DAY)
        if pod.workload.name == "nightly-etl" and pod.outcome
    )
    main = etl.runs[-1]
    assert main.cpu_counter(main.start) == 0
    assert main.cpu_counter(main.end) == main.cpu_counter(main.end + 60) > 0
    assert main.memory_used(main.end) < main.memory_used(main.end - 1)


MAIN = Container("main", 100, 64 * MI)


@pytest.mark.parametrize(
    ("containers", "overhead", "wanted"),
    [
        ((MAIN, Container("b", 50, 32 * MI)), (0, 0), (150, 96 * MI, 0)),
        ((Container("init", 500, 1 * GI, kind="init"), MAIN), (0, 0), (500, 1 * GI, 0)),
        ((Container("init", 50, 1 * GI, kind="init"), MAIN), (0, 0), (100, 1 * GI, 0)),
        ((Container("side", 30, 16 * MI, kind="sidecar"), MAIN), (0, 0), (130, 80 * MI, 0)),
        (
            # the init step runs beside the sidecar that started before it
            (
                Container("side", 300, 16 * MI, kind="sidecar"),
                Container("init", 200, 16 * MI, kind="init"),
                MAIN,
            ),
            (0, 0),
            (500, 80 * MI, 0),
        ),
        (
            # … but not beside one that starts after it
            (
                Container("init", 200, 16 * MI, kind="init"),
                Container("side", 300, 16 * MI, kind="sidecar"),
                MAIN,
            ),
            (0, 0),
            (400, 80 * MI, 0),
        ),
        ((MAIN,), (250, 120 * MI), (350, 184 * MI, 0)),
        ((Container("gpu", 100, 64 * MI, gpus=2),), (0, 0), (100, 64 * MI, 2)),
        ((Container("none"),), (0, 0), (0, 0, 0)),
    ],
)
def test_the_effective_request_is_the_schedulers(
    containers: tuple[Container, ...], overhead: tuple[int, int], wanted: tuple[int, int, int]
) -> None:
    workload = Workload(
        "n",
        "w",
        "Deployment",
        "general",
        containers,
        overhead_cpu=overhead[0],
        overhead_memory=overhead[1],
    )
    assert workload.effective_request == wanted


def test_scale_multiplies_nodes_and_services() -> None:
    big = Scenario(node_scale=5, pod_scale=5)
    assert len(big.nodes(MONDAY, MONDAY + 1)) == 50
    assert 350 <= len(big.pods(MONDAY, MONDAY + 1)) <= 500
