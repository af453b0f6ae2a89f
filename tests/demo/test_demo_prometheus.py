"""The demo's Prometheus answers as a real one does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from kubetally.demo import promql, series
from kubetally.demo.faults import Faults
from kubetally.demo.scenario import Scenario
from kubetally.demo.server import DemoServer

NOW = datetime(2026, 11, 5, 14, 26, 12, tzinfo=UTC)
T = int(NOW.timestamp())
LAST = T - 12  # the latest scrape
RECORDED = Path(__file__).parents[1] / "data/demo"


@pytest.fixture(scope="module")
def server() -> Iterator[DemoServer]:
    with DemoServer(clock=lambda: NOW) as running:
        yield running


def ask(server: DemoServer, path: str = "query", **parameters: Any) -> Any:
    return requests.get(f"{server.url}/api/v1/{path}", params=parameters, timeout=30).json()


def result(server: DemoServer, query: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = ask(server, query=query, **parameters)
    assert answer["status"] == "success", answer
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


# --- samples ----------------------------------------------------------------------------------


def test_a_range_selector_gives_raw_samples_closed_at_both_ends(server: DemoServer) -> None:
    (one,) = result(server, 'kube_node_created{node=~".*system.*0000"}[5m]', time=LAST - 60)
    assert [moment for moment, _ in one["values"]] == [LAST - 60 * n for n in (6, 5, 4, 3, 2, 1)]
    assert {value for _, value in one["values"]} == {"1704067200"}


def test_an_instant_query_gives_the_latest_sample_at_the_asked_time(server: DemoServer) -> None:
    (one,) = result(server, 'kube_node_created{node=~".*system.*0000"}')
    assert one["value"] == [pytest.approx(T), "1704067200"]
    answer = ask(server, query="up", time=LAST - 30.5)
    assert answer["data"]["result"][0]["value"][0] == LAST - 30.5


def test_what_has_not_happened_yet_is_not_there(server: DemoServer) -> None:
    (one,) = result(server, 'up{job="kube-scheduler"}[10m]', time=T + 300)
    assert one["values"][-1][0] == LAST
    assert result(server, "up", time=T + 3600) == []


def test_a_series_that_ended_is_stale_at_the_next_scrape(server: DemoServer) -> None:
    died = int(datetime(2026, 11, 5, 14, 23, tzinfo=UTC).timestamp())
    names = {one["metric"]["node"] for one in result(server, "kube_node_info", time=died - 1)}
    left = {one["metric"]["node"] for one in result(server, "kube_node_info", time=died)}
    assert len(names - left) == 1


def test_query_range_repeats_the_latest_sample_at_every_step(server: DemoServer) -> None:
    answer = ask(
        server,
        "query_range",
        query='up{job="kube-scheduler"}',
        start=LAST - 90,
        end=LAST,
        step="30s",
    )
    (one,) = answer["data"]["result"]
    assert one["values"] == [[LAST - n, "1"] for n in (90, 60, 30, 0)]


def test_post_is_get(server: DemoServer) -> None:
    url = f"{server.url}/api/v1/query"
    query = {"query": "kube_pod_info", "time": str(LAST)}
    got = requests.get(url, params=query, timeout=30).content
    assert requests.post(url, data=query, timeout=30).content == got


def test_counters_only_grow_and_have_at_most_three_decimals(server: DemoServer) -> None:
    for one in result(server, "container_cpu_usage_seconds_total[1h]", time=LAST):
        values = [float(value) for _, value in one["values"]]
        assert values == sorted(values)
        assert all(re.fullmatch(r"\d+(\.\d{0,2}[1-9])?", value) for _, value in one["values"])


def test_the_phase_is_told_by_five_series_of_which_one_is_1(server: DemoServer) -> None:
    by_pod: dict[str, list[tuple[str, str]]] = {}
    for one in result(server, "kube_pod_status_phase"):
        labels = one["metric"]
        by_pod.setdefault(labels["uid"], []).append((labels["phase"], one["value"][1]))
    assert len(by_pod) > 70
    for phases in by_pod.values():
        assert {phase for phase, _ in phases} == set(series.PHASES)
        assert [value for _, value in phases].count("1") == 1


def test_completed_pods_keep_their_requests_in_kube_state_metrics_but_not_in_the_schedulers(
    server: DemoServer,
) -> None:
    over = {
        one["metric"]["pod"]
        for one in result(server, 'kube_pod_status_phase{phase=~"Succeeded|Failed"}')
        if one["value"][1] == "1"
    }
    assert len(over) >= 5
    requested = {
        one["metric"]["pod"] for one in result(server, "kube_pod_container_resource_requests")
    }
    scheduled = {one["metric"]["pod"] for one in result(server, "kube_pod_resource_request")}
    assert over <= requested and not over & scheduled


def test_labels_with_an_empty_value_do_not_exist(server: DemoServer) -> None:
    for query in (
        "kube_pod_info",
        "container_cpu_usage_seconds_total",
        "kube_pod_resource_request",
    ):
        assert all(value for one in result(server, query) for value in one["metric"].values())
    (waiting,) = result(server, 'kube_pod_info{pod="llm-finetune-0"}')
    assert "node" not in waiting["metric"]
    levels = result(server, 'container_cpu_usage_seconds_total{container=""}')
    roots = [one for one in levels if one["metric"]["id"] == "/"]
    assert len(roots) == 9 and len(levels) > 70
    assert all("container" not in one["metric"] for one in levels)


def test_a_pods_cgroup_is_a_little_more_than_its_containers(server: DemoServer) -> None:
    sums: dict[tuple[str, str], list[float]] = {}
    for one in result(server, 'container_cpu_usage_seconds_total{pod!=""}'):
        labels = one["metric"]
        pair = sums.setdefault((labels["namespace"], labels["pod"]), [0.0, 0.0])
        pair["container" in labels] += float(one["value"][1])
    assert all(containers <= whole for whole, containers in sums.values())


def test_host_network_pods_show_the_traffic_of_the_node(server: DemoServer) -> None:
    received = result(server, "container_network_receive_bytes_total")
    by_node = {
        one["metric"]["node"]: one["value"][1] for one in received if one["metric"]["id"] == "/"
    }
    proxies = [one for one in received if one["metric"].get("pod", "").startswith("kube-proxy")]
    assert proxies
    assert all(one["value"][1] == by_node[one["metric"]["node"]] for one in proxies)


# --- shapes against a recorded exposition -----------------------------------------------------


def recorded_labels(file: str) -> dict[str, tuple[set[str], set[str]]]:
    """Metric → label keys in a recorded exposition: all of them, and those that have a value."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for line in (RECORDED / file).read_text(encoding="utf-8").splitlines():
        match = re.match(r"(\w+)\{(.*)\} ", line)
        if match:
            every, filled = found.setdefault(match[1], (set(), set()))
            every.update(re.findall(r'(\w+)="', match[2]))
            filled.update(re.findall(r'(\w+)="[^"]', match[2]))
    return found


TARGET = {"__name__", "job", "instance", "metrics_path"}  # what scraping adds


def test_series_carry_the_labels_of_the_recorded_cluster(server: DemoServer) -> None:
    recorded = recorded_labels("kube-state-metrics.prom.txt")
    cadvisor = recorded_labels("cadvisor.prom.txt")
    compared = 0
    for name in series.names():
        added = set(TARGET)
        if name in cadvisor:
            added.add("node")  # from the kubelet's target
        every, filled = recorded.get(name) or cadvisor.get(name) or (set(), set())
        if not every:
            continue
        compared += 1
        shown: set[str] = set()
        for one in result(server, name):
            shown |= {label for label in one["metric"] if not label.startswith("label_")}
        assert shown - added <= every, name
        if name not in NARROWER:
            free = {label for label in filled if label.startswith(("label_", "annotation_"))}
            assert filled - free <= shown, name
    assert compared > 25


NARROWER = {
    "kube_node_info",
    "kube_persistentvolume_info",
    "kube_pod_container_info",
    "kube_persistentvolume_claim_ref",
}


# --- the selector language --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ('kube_node_info{node=~"aks-general-.*"}', 3),
        ('kube_node_info{node=~"general"}', 0),  # anchored
        ('kube_node_info{node!~"aks-(general|system|memory|spot)-.*"}', 2),
        ('kube_node_info{node!=""}', 9),
        ("kube_node_info { }", 9),
        ("{__name__='kube_node_info',}", 9),
        ('{__name__=~"kube_node_(info|created)"}', 18),
        ('kube_node_info{nosuchlabel=""}', 9),
        ("nothing_of_this_name", 0),
    ],
)
def test_selectors_select(server: DemoServer, query: str, count: int) -> None:
    assert len(result(server, query)) == count
    counted = result(server, f"count({query})")
    assert [one["value"][1] for one in counted] == ([str(count)] if count else [])


@pytest.mark.parametrize(
    "query",
    [
        "",
        "sum(rate(x[5m]))",
        "{}",
        'kube_node_info{node="a"',
        "up[5m",
        'up{a=~"("}',
        "up offset 5m",
        '{a=~".*"}',
    ],
)
def test_what_is_not_understood_is_refused_as_prometheus_refuses_it(
    server: DemoServer, query: str
) -> None:
    got = requests.get(f"{server.url}/api/v1/query", params={"query": query}, timeout=30)
    assert got.status_code == 400
    body = got.json()
    assert (body["status"], body["errorType"]) == ("error", "bad_data")
    assert body["error"]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"start": 0, "end": 11_001 * 60, "step": 60},
            "exceeded maximum resolution of 11,000 points",
        ),
        ({"start": 100, "end": 0, "step": 60}, "end timestamp must not be before start time"),
        ({"start": 0, "end": 100, "step": 0}, "zero or negative query resolution"),
        ({"start": 0, "end": 100, "step": "x"}, "to a valid duration"),
        ({"start": "x", "end": 100, "step": 1}, "to a valid timestamp"),
    ],
)
def test_ranges_that_cannot_be_are_refused(
    server: DemoServer, parameters: dict[str, Any], text: str
) -> None:
    answer = ask(server, "query_range", query="up", **parameters)
    assert answer["status"] == "error" and text in answer["error"]


def test_eleven_thousand_and_one_points_pass(server: DemoServer) -> None:
    answer = ask(
        server,
        "query_range",
        query='up{job="kube-scheduler"}',
        start=LAST - 660_000,
        end=LAST,
        step=60,
    )
    assert len(answer["data"]["result"][0]["values"]) == 11_001


def test_the_small_endpoints_answer(server: DemoServer) -> None:
    assert ask(server, "status/buildinfo")["data"]["version"] == "2.42.0"
    assert {"namespace", "pod", "uid", "__name__"} <= set(ask(server, "labels")["data"])
    assert "kube_pod_info" in ask(server, "label/__name__/values")["data"]
    assert "payments" in ask(server, "label/namespace/values")["data"]
    listed = ask(server, "series", **{"match[]": "kube_node_info"})["data"]
    assert len(listed) == 10  # the last hour saw one go
    assert requests.get(f"{server.url}/-/ready", timeout=30).status_code == 200
    assert ask(server, query="1")["data"]["resultType"] == "scalar"
    assert requests.get(f"{server.url}/prometheus/api/v1/query?query=up", timeout=30).ok


# --- samples that are missing or late ---------------------------------------------------------


def times(faults: Faults, clock: datetime = NOW) -> list[int]:
    with DemoServer(clock=lambda: clock, faults=faults) as server:
        (one,) = result(server, 'up{job="kube-scheduler"}[10m]', time=LAST)
        return [LAST - int(moment) for moment, _ in one["values"]]


def test_a_gap_has_no_samples() -> None:
    gap = (iso(LAST - 480), iso(LAST - 120))
    assert times(Faults(gaps=(gap,))) == [600, 540, 120, 60, 0]


def test_late_samples_arrive_later() -> None:
    late = Faults(late_after=iso(LAST - 300), late_until=iso(LAST + 3600))
    assert times(late) == [600, 540, 480, 420, 360, 300]
    assert len(times(late, datetime.fromtimestamp(LAST + 3600, UTC))) == 11


def iso(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def test_equal_questions_get_equal_bytes() -> None:
    def body(scenario: Scenario) -> bytes:
        visible = promql.Visibility(T)
        return promql.instant(scenario, '{__name__=~".+"}[30m]', LAST, visible)

    assert body(Scenario()) == body(Scenario())
    assert body(Scenario()) != body(Scenario(seed=9))
