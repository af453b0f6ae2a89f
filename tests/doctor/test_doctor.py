"""The doctor on the demo company as it is, and on servers that lack what a bill needs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from kubetally.__main__ import main
from kubetally.config import ClusterConfig, SourceConfig
from kubetally.demo.scenario import Scenario
from kubetally.demo.server import DemoServer
from kubetally.doctor import kubernetes, prices, prometheus
from kubetally.doctor.examine import brought, examine, trial_window
from kubetally.doctor.findings import Finding, as_json, as_text, has_failed
from kubetally.errors import BadDataError, SourceError
from kubetally.sources.rows import Batch, Collected, Gap, Reject, frame
from kubetally.warehouse.connect import engine
from kubetally.windows import HOUR, Window
from sources.kube_server import Reply, serving
from sources.prometheus_server import connect_to

NOW = datetime(2026, 11, 5, 10, 30, tzinfo=UTC)
PROMETHEUS = SourceConfig("prometheus", "prometheus_test", interval_seconds=60)
KUBERNETES = SourceConfig("kubernetes", "kubernetes_test", interval_seconds=300)
KUBELET = SourceConfig("kubelet", "kubernetes_test", interval_seconds=60)


@pytest.fixture(autouse=True)
def airflow_home(tmp_path, monkeypatch):
    """Airflow, which brings the provider, keeps its files out of the home folder."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


def seen(findings, state):
    return [finding.seen for finding in findings if finding.state == state]


def point_at(server, monkeypatch):
    connection = {"conn_type": "kubernetes", "extra": {"kube_config": server.kube_config()}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_TEST", json.dumps(connection))


# --- the whole ------------------------------------------------------------------------------------


def test_the_demo_cluster_is_in_order_and_its_nodes_unpriced(warehouse, monkeypatch):
    with DemoServer(Scenario(), clock=lambda: NOW) as server:
        connect_to(server.url, monkeypatch)
        found = list(examine(ClusterConfig("demo", (PROMETHEUS,)), engine("publisher"), now=NOW))
    assert not has_failed(found)
    text = as_text(found)
    for said in ("answers", "a backfill reaches back", "rows of pod for", "every 60 s"):
        assert said in text, text
    assert any("nodes have no price" in line for line in seen(found, "WARN"))


def test_a_source_that_is_down_costs_only_its_own_lines(warehouse, monkeypatch):
    connect_to("http://127.0.0.1:9", monkeypatch)
    with serving() as server:
        point_at(server, monkeypatch)
        cluster = ClusterConfig("c", (PROMETHEUS, KUBERNETES))
        found = list(examine(cluster, engine("publisher"), now=NOW))
    assert {finding.about for finding in found if finding.state == "FAIL"} == {"prometheus"}
    assert "may list nodes" in seen(found, "OK")


def test_the_command_says_what_it_found_and_fails(warehouse, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KUBETALLY_CONFIG_DIR", str(tmp_path))
    (tmp_path / "clusters.yaml").write_text(
        "clusters: [{name: c, sources: [{kind: prometheus, connection: prometheus_test}]}]"
    )
    connect_to("http://127.0.0.1:9", monkeypatch)
    assert main(["doctor", "c"]) == 1
    assert "FAIL  prometheus" in capsys.readouterr().out
    assert main(["doctor", "c", "--json"]) == 1
    assert {each["state"] for each in json.loads(capsys.readouterr().out)} >= {"FAIL"}
    assert main(["doctor", "nowhere"]) == 1
    assert "configured: c" in capsys.readouterr().err


def test_what_is_tried_is_the_last_hour_or_the_running_cell():
    assert trial_window(PROMETHEUS, NOW) == Window(NOW - 1.5 * HOUR, NOW - HOUR / 2)
    assert trial_window(KUBERNETES, NOW) == Window(NOW, NOW + timedelta(minutes=5))


def test_gaps_and_rejects_are_told_once_each():
    window = Window(NOW, NOW + HOUR)
    reject = Reject("pod", "shop/odd", "it asks for 'many'.", "")
    batch = Batch("pod", window, frame("pod", []), ((NOW, NOW + HOUR),), "0" * 64, (reject,))
    gaps = [Gap("usage", window, "late"), Gap("node", window, "late")]
    found = list(brought("files", Collected("files", [batch], gaps), window))
    assert [finding.state for finding in found] == ["OK", "WARN", "WARN"]
    assert "shop/odd" in found[1].seen
    assert "usage, node" in found[2].seen


def test_findings_as_text_have_their_remedies_below():
    text = as_text([Finding("FAIL", "kubernetes", "No.", "Do\nthat."), Finding("OK", "x", "fine")])
    assert text.splitlines() == [
        "FAIL  kubernetes   No.",
        "      → Do",
        "        that.",
        "OK    x            fine",
        "1 in order, 0 to look at, 1 to mend",
    ]
    assert json.loads(as_json([Finding("OK", "x", "fine")]))[0]["seen"] == "fine"


# --- Kubernetes -----------------------------------------------------------------------------------


def api(server, monkeypatch, answer):
    server.answer = answer
    point_at(server, monkeypatch)
    return list(kubernetes.probe_api(KUBERNETES))


def refused(*plurals):
    def answer(request):
        if request.path.rsplit("/", 1)[1] in plurals:
            return Reply({"kind": "Status", "message": "forbidden"}, 403)
        return Reply({"kind": "List", "items": []})

    return answer


def test_missing_rules_come_as_yaml(monkeypatch):
    with serving() as server:
        found = api(server, monkeypatch, refused("nodes", "services"))
    assert len(seen(found, "OK")) == len(kubernetes.NEEDED) - 2
    assert found[-1].remedy.splitlines()[1:] == [
        "rules:",
        '  - apiGroups: [""]',
        "    resources: [nodes, services]",
        "    verbs: [list]",
    ]
    assert all(request.query == {"limit": "1"} for request in server.requests)


def test_refused_usage_is_named_with_its_group(monkeypatch):
    def answer(request):
        return Reply({}, 403) if "metrics.k8s.io" in request.path else Reply({"items": []})

    with serving() as server:
        found = api(server, monkeypatch, answer)
    assert 'apiGroups: ["metrics.k8s.io"]' in found[-1].remedy


@pytest.mark.parametrize("status", [404, 503])
def test_a_cluster_without_metrics_server_is_only_warned_of(monkeypatch, status):
    def answer(request):
        return Reply({}, status) if "metrics.k8s.io" in request.path else Reply({"items": []})

    with serving() as server:
        found = api(server, monkeypatch, answer)
    assert not has_failed(found)
    assert len(seen(found, "WARN")) == 1


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply({}, 401), "credentials"),
        (Reply(b"<html>log in</html>"), "no JSON"),
        (Reply(hang_up=True), "nodes"),
        (Reply({}, 500), "500"),
    ],
)
def test_other_answers_are_failures_that_say_what_came(monkeypatch, reply, said):
    with serving() as server:
        found = api(server, monkeypatch, lambda _: reply)
    assert has_failed(found)
    assert said in found[0].seen


def test_kubelets_are_asked_through_the_api_server(monkeypatch):
    def answer(request):
        if request.path == "/api/v1/nodes":
            return Reply({"items": [{"metadata": {"name": "node-a"}}]})
        return Reply(
            {},
            {"metrics/cadvisor": 403, "stats/summary": 502}.get(
                request.path.split("/proxy/")[-1], 200
            ),
        )

    with serving() as server:
        server.answer = answer
        point_at(server, monkeypatch)
        found = list(kubernetes.probe_kubelet(KUBELET))
    assert [finding.state for finding in found] == ["FAIL", "OK", "WARN"]
    assert "kubetally-kubelet.yaml" in found[0].remedy


# --- Prometheus -----------------------------------------------------------------------------------

HEALTHY = {
    "vector(1)": [({}, 1)],
    "count(kube_pod_info)": [({}, 40)],
    "kube_state_metrics_build_info": [({"version": "v2.15.0"}, 1)],
    "count(kube_pod_container_resource_requests)": [({}, 80)],
    "kube_pod_labels": [({"pod": "web", "label_team": "red"}, 1)],
    "kube_node_labels": [({"node": "n", "label_topology_kubernetes_io_region": "eu"}, 1)],
    'count(container_cpu_usage_seconds_total{pod!=""})': [({}, 55)],
    "kube_pod_info": [({"uid": "u"}, 1), ({"uid": "v"}, 1)],
    "kube_node_info[1h]": [({}, 60)],
}


def told(monkeypatch, kept_days=30, **changes):
    """Findings about a server that gives HEALTHY with changes; `None` takes an answer away."""
    answers = HEALTHY | changes.get("answers", {})

    def answer(request):
        query, moment = request.query["query"], float(request.query["time"])
        is_kept = moment >= (NOW - timedelta(days=kept_days)).timestamp()
        result = [
            {"metric": labels, "values": [[moment, "1"]] * value}
            if query.endswith("]")
            else {"metric": labels, "value": [moment, str(value)]}
            for labels, value in (answers.get(query) or () if is_kept else ())
        ]
        return Reply({"status": "success", "data": {"resultType": "vector", "result": result}})

    with serving() as server:
        server.answer = answer
        connect_to(server.url, monkeypatch)
        return list(prometheus.probe(PROMETHEUS, NOW))


def test_a_healthy_server(monkeypatch):
    found = told(monkeypatch)
    assert {finding.state for finding in found} == {"OK"}
    assert "kube-state-metrics v2.15.0 names requests as version 2 does" in seen(found, "OK")
    assert "a backfill reaches back to 2026-10-06 (30 days)" in seen(found, "OK")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"kube_pod_labels": [({"pod": "web"}, 1)]}, "owners cannot go by pod labels"),
        ({"kube_node_labels": None}, "prices cannot be looked up"),
        ({'count(container_cpu_usage_seconds_total{pod!=""})': None}, "use is not known"),
        ({"count(kube_pod_container_resource_requests)": None}, "no requests"),
        ({"kube_node_info[1h]": [({}, 120)]}, "every 30 s"),
        (
            {
                "kube_pod_info": [({"instance": "a"}, 1), ({"instance": "b"}, 1)],
            },
            "They differ by instance.",
        ),
    ],
)
def test_what_lacks_is_warned_of(monkeypatch, answers, said):
    found = told(monkeypatch, answers=answers)
    (warning,) = seen(found, "WARN")
    assert said in warning
    assert not has_failed(found)


def test_names_of_version_1_are_known(monkeypatch):
    answers = {
        "count(kube_pod_container_resource_requests)": None,
        "count(kube_pod_container_resource_requests_cpu_cores)": [({}, 8)],
        "kube_state_metrics_build_info": None,
    }
    assert "kube-state-metrics names requests as version 1 does" in seen(
        told(monkeypatch, answers=answers), "OK"
    )


def test_a_server_without_pods_fails_at_once(monkeypatch):
    found = told(monkeypatch, answers={"count(kube_pod_info)": None})
    assert [finding.state for finding in found] == ["OK", "FAIL"]
    assert "kube-state-metrics" in found[1].remedy


def test_a_server_that_began_today_cannot_fill_the_past(monkeypatch):
    (warning,) = seen(told(monkeypatch, kept_days=0.5), "WARN")
    assert "past days cannot be filled" in warning


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"<html>"),
        Reply({"status": "error", "error": "no"}),
        Reply({"status": "success", "data": {"result": [{"value": "odd"}]}}),
        Reply({}, 404),
    ],
)
def test_junk_ends_as_a_named_error(monkeypatch, reply):
    with serving() as server:
        server.answer = lambda _: reply
        connect_to(server.url, monkeypatch)
        with pytest.raises((BadDataError, SourceError)):
            list(prometheus.probe(PROMETHEUS, NOW))


# --- prices ---------------------------------------------------------------------------------------


def priced(warehouse_engine, rows, **settings):
    cluster = ClusterConfig("c", (PROMETHEUS,), **settings)
    return list(prices.probe(warehouse_engine, cluster, rows, NOW))


NODE = {"uid": "u", "node": "n", "labels": "{}", "instance_type": "odd", "is_virtual": False}


def test_nodes_without_price_are_counted_by_reason(warehouse):
    found = priced(engine("publisher"), [NODE, NODE | {"uid": "v", "node": "m"}])
    assert seen(found, "WARN")[0].startswith("2 of 2 nodes have no price: ")


def test_a_rate_prices_every_node(warehouse):
    found = priced(engine("publisher"), [NODE], hourly_rate="0.5")
    assert seen(found, "OK") == ["all 1 nodes have a price"]


def test_without_nodes_there_is_nothing_to_price(warehouse):
    assert "No node is known" in priced(engine("publisher"), [])[0].seen
