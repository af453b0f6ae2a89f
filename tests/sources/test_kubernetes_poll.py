"""The live API over real HTTP: paging, refusals, retries, partial failure, and what is never invented."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kube_server import KubeServer, Reply, Request, serving

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.connections import Connection
from kubetally.errors import BadDataError, ConfigError, SourceError
from kubetally.http import Answer
from kubetally.sources import kubernetes
from kubetally.sources.kubernetes import client, pages, poll
from kubetally.sources.kubernetes.objects import Page, decode_page
from kubetally.sources.kubernetes.snapshot import DATASETS, collect_snapshot
from kubetally.sources.rows import SCHEMAS, Batch, Collected
from kubetally.windows import Window
from oracles.by_hand import cases

DATA = Path(__file__).parents[1] / "data" / "k8s"
RBAC = Path(__file__).parents[2] / "include" / "config" / "rbac" / "kubetally-reader.yaml"
ERRORS = json.loads((DATA / "errors" / "kubernetes-api.json").read_text())

CELL = Window(datetime(2026, 11, 3, 10, 0, tzinfo=UTC), datetime(2026, 11, 3, 10, 5, tzinfo=UTC))
NOW = CELL.end + timedelta(seconds=3)
SOURCE = SourceConfig("kubernetes", "kubetally_test_kubernetes", interval_seconds=300)
CLUSTER = ClusterConfig("test", (SOURCE,))


@pytest.fixture(scope="module", autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Airflow, which brings the provider, keeps its files out of the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_HOME", str(tmp_path_factory.mktemp("airflow")))
        yield


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeServer]:
    """An API server behind the connection of CLUSTER; pauses between tries take no time."""
    at_once = partial(pages.list_pages, sleep=lambda _: None)
    monkeypatch.setattr(poll, "list_pages", at_once)
    with serving() as found:
        define(monkeypatch, extra={"kube_config": json.dumps(found.kube_config())})
        yield found


def define(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_KUBETALLY_TEST_KUBERNETES",
        json.dumps({"conn_type": "kubernetes", **fields}),
    )


def collect(window: Window = CELL, now: datetime = NOW) -> Collected:
    return kubernetes.collect(CLUSTER, SOURCE, window, now=now)


def batch(collected: Collected, dataset: str) -> Batch:
    (found,) = (each for each in collected.batches if each.dataset == dataset)
    return found


def gap(collected: Collected, dataset: str) -> str:
    (found,) = (each for each in collected.gaps if each.dataset == dataset)
    return found.reason


def pod(name: str, namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}",
            "creationTimestamp": "2026-11-03T09:00:00Z",
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            **spec,
        },
        "status": {"phase": "Running"},
    }


def a_list(items: Any, kind: str = "PodList", token: str = "") -> dict[str, Any]:
    return {"kind": kind, "metadata": {"continue": token} if token else {}, "items": items}


def metrics(*readings: tuple[str, str, dict[str, str]]) -> dict[str, Any]:
    return a_list(
        [
            {
                "metadata": {"name": name, "namespace": namespace},
                "containers": [{"name": "c", "usage": usage}],
            }
            for namespace, name, usage in readings
        ],
        "PodMetricsList",
    )


def only(path: str, *replies: Reply) -> Any:
    """Answers `path` with the replies in turn (the last one again and again), the rest emptily."""
    left = list(replies)

    def answer(request: Request) -> Reply:
        if request.path != path:
            return Reply(a_list([], "List"))
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


# -- pages ---------------------------------------------------------------------------------------


def test_pages_follow_the_continue_token(server: KubeServer) -> None:
    page_1 = Reply(a_list([pod("a"), pod("b")], token="next+/="))
    server.answer = only(pages.PODS.path, page_1, Reply(a_list([pod("c")])))
    found = collect()
    assert batch(found, "pod").rows["pod"].to_list() == ["a", "b", "c"]
    queries = [each.query for each in server.requests if each.path == pages.PODS.path]
    assert queries == [{"limit": "500"}, {"limit": "500", "continue": "next+/="}]


@pytest.mark.claims("C33")
def test_an_expired_continue_token_restarts_the_list(server: KubeServer) -> None:
    case = cases()["C33"]
    expired = Reply(ERRORS["410-expired-continue"]["body"], 410)
    server.answer = only(
        pages.PODS.path,
        Reply(a_list([pod(name) for name in case["input"]["page1"]], token="t1")),
        expired,
        Reply(a_list([pod(name) for name in case["input"]["second_try"][:2]], token="t2")),
        Reply(a_list([pod(name) for name in case["input"]["second_try"][2:]])),
    )
    found = batch(collect(), "pod")
    assert found.rows["pod"].to_list() == case["right"]["pods"]
    assert found.rejects == ()


def test_a_list_that_always_expires_becomes_a_gap(server: KubeServer) -> None:
    def answer(request: Request) -> Reply:
        if request.query.get("continue"):
            return Reply(ERRORS["410-expired-continue"]["body"], 410)
        return Reply(a_list([pod("a")], token="t"))

    server.answer = answer
    found = collect()
    assert "expired (410) 4 times" in gap(found, "pod")
    starts = [
        r for r in server.requests if r.path == pages.PODS.path and not r.query.get("continue")
    ]
    assert len(starts) == 1 + pages.RESTARTS


def test_a_token_that_comes_twice_does_not_loop(server: KubeServer) -> None:
    server.answer = only(pages.NODES.path, Reply(a_list([], "NodeList", token="same")))
    assert "one continue token twice" in gap(collect(), "node")


@pytest.mark.parametrize("status", ["429", "503-metrics-api", "504"])
def test_a_busy_server_is_asked_again(server: KubeServer, status: str) -> None:
    recorded = ERRORS[status]
    body = recorded.get("body") or recorded["body_text"].encode()
    busy = Reply(body, recorded["status"], recorded["headers"])
    server.answer = only(pages.PODS.path, busy, busy, Reply(a_list([pod("a")])))
    assert batch(collect(), "pod").rows.height == 1


def test_retry_after_is_kept_to_and_bounded() -> None:
    slept: list[float] = []
    answers = iter(
        [
            Answer(429, b"", {"retry-after": "7"}),
            Answer(429, b"", {"retry-after": "86400"}),
            Answer(200, b'{"kind":"PodList"}', {}),
        ]
    )
    found = list(pages.list_pages(lambda *_: next(answers), pages.PODS, sleep=slept.append))
    assert len(found) == 1
    assert 7 <= slept[0] <= 7.7
    assert 60 <= slept[1] <= 66


def test_a_body_that_breaks_off_is_fetched_again(server: KubeServer) -> None:
    cut_short = Reply(ERRORS["200-truncated"]["body_text"].encode())
    cut_line = Reply(a_list([pod("a")]), cut=True)
    hang_up = Reply(hang_up=True)
    server.answer = only(pages.PODS.path, cut_short, cut_line, hang_up, Reply(a_list([pod("a")])))
    assert batch(collect(), "pod").rows.height == 1


def test_a_server_that_never_answers_well_is_a_gap_with_the_last_reason(server: KubeServer) -> None:
    server.answer = only(pages.PODS.path, Reply({"kind": "Status"}, 500))
    found = collect()
    assert "failed 4 times, last with: status 500" in gap(found, "pod")
    assert {each.dataset for each in found.batches} == set(DATASETS) - {"pod"}


@pytest.mark.parametrize(
    ("recorded", "path", "words"),
    [
        ("401", pages.NODES.path, "does not accept our credentials"),
        ("403", pages.NODES.path, 'apiGroups: [""], resources: ["nodes"], verbs: ["list"]'),
        ("404-metrics-api", pages.POD_METRICS.path, "Install metrics-server"),
        ("200-html-login", pages.NODES.path, "not at a login page"),
    ],
)
def test_a_refusal_says_what_to_do(
    server: KubeServer, recorded: str, path: str, words: str
) -> None:
    answer = ERRORS[recorded]
    body = answer.get("body") or answer["body_text"].encode()
    server.answer = only(path, Reply(body, answer["status"], answer["headers"]))
    dataset = "node" if path == pages.NODES.path else "usage"
    assert words in gap(collect(), dataset)
    assert sum(each.path == path for each in server.requests) == 1, "asking again cannot help"


def test_a_redirect_is_not_followed_with_our_token(server: KubeServer) -> None:
    with serving() as thief:
        moved = Reply(b"", 302, {"Location": f"{thief.url}/api/v1/nodes"})
        server.answer = only(pages.NODES.path, moved)
        assert "a redirect; not followed" in gap(collect(), "node")
        assert thief.requests == []


# -- what a poll states --------------------------------------------------------------------------


@pytest.mark.claims("C32")
def test_a_list_that_fails_is_a_gap_and_never_zeros(server: KubeServer) -> None:
    assert cases()["C32"]["input"] == {"namespaces": "timeout", "nodes": "ok", "pods": "ok"}

    def answer(request: Request) -> Reply:
        if request.path == pages.NAMESPACES.path:
            return Reply(ERRORS["504"]["body"], 504)
        if request.path == pages.PODS.path:
            return Reply(a_list([pod("a")]))
        return Reply(a_list([], "List"))

    server.answer = answer
    found = collect()
    assert [each.dataset for each in found.gaps] == ["namespace"]
    assert batch(found, "pod").rows.height == 1


def test_a_poll_covers_its_cell_with_the_columns_of_the_contract(server: KubeServer) -> None:
    server.answer = only(pages.PODS.path, Reply(a_list([pod("a")])))
    found = collect()
    assert found.source == "kubernetes"
    for each in found.batches:
        assert dict(each.rows.schema) == SCHEMAS[each.dataset]
        assert each.covered == ((CELL.start, CELL.end),)
        assert len(each.payload_sha256) == 64
    row = batch(found, "pod").rows.row(0, named=True)
    assert (row["start_at"], row["end_at"]) == (CELL.start, CELL.end)
    assert row["cpu_request_cores"] == "1"


@pytest.mark.parametrize(
    ("window", "now"),
    [
        (Window(CELL.start - timedelta(days=1), CELL.end - timedelta(days=1)), NOW),
        (CELL, CELL.end + timedelta(minutes=5)),
        (CELL, CELL.start - timedelta(seconds=1)),
        (Window.of_day(CELL.start.date()), NOW),
    ],
)
def test_the_present_is_never_served_as_the_past(
    server: KubeServer, window: Window, now: datetime
) -> None:
    found = collect(window, now)
    assert found.batches == []
    assert [each.dataset for each in found.gaps] == list(DATASETS)
    assert all("live API" in each.reason for each in found.gaps)
    assert server.requests == []


@pytest.mark.claims("C12", "DUR-07")
def test_one_pod_name_in_two_namespaces_is_two_pods(server: KubeServer) -> None:
    case = cases()["C12"]
    given = case["input"]["pods"]

    def answer(request: Request) -> Reply:
        if request.path == pages.PODS.path:
            return Reply(a_list([pod(each["name"], each["ns"]) for each in given]))
        if request.path == pages.POD_METRICS.path:
            return Reply(metrics(*((p["ns"], p["name"], {"cpu": str(p["cpu_h"])}) for p in given)))
        return Reply(a_list([], "List"))

    server.answer = answer
    found = collect()
    assert batch(found, "pod").rows["uid"].n_unique() == 2
    used = {
        row["namespace"]: (row["uid"], Decimal(row["cpu_used_core_seconds"]) / 300)
        for row in batch(found, "usage").rows.iter_rows(named=True)
    }
    assert used == {ns: (f"{ns}-database-0", cores) for ns, cores in case["right"].items()}


def test_one_odd_object_is_rejected_with_a_reason_and_the_rest_lands(server: KubeServer) -> None:
    odd = [
        {"metadata": {"name": "bad-quantity", "namespace": "x", "uid": "1"}, "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "1K"}}}]}},
        {"metadata": {"name": "wrong-type", "namespace": "x", "uid": "2"}, "spec": {"containers": "none"}},
        {"metadata": {"name": "", "namespace": "x", "uid": "3"}},
        {"spec": {}},
        None,
        pod("a"),
    ]  # fmt: skip
    server.answer = only(pages.PODS.path, Reply(a_list([pod("a"), *odd, pod("b")])))
    found = batch(collect(), "pod")
    assert found.rows["pod"].to_list() == ["a", "b"]
    assert [(each.object_name, each.reason.split(".")[0][:40]) for each in found.rejects] == [
        ("x/bad-quantity", "'1K' is not a Kubernetes quantity: unkno"),
        ("x/wrong-type", "Expected `array | null`, got `str` - at "),
        ("x/3", "the pod has no name or no namespace"),
        ("?", "Object missing required field `metadata`"),
        ("?", "Expected `object`, got `null`"),
        ("team-a/a", "the list has it twice"),
    ]
    assert all(len(each.payload) <= 2000 for each in found.rejects)


def test_usage_told_by_name_belongs_to_the_pod_that_lives_on(server: KubeServer) -> None:
    """A StatefulSet's old pod and its successor share a name (kubernetes/kubernetes#107291)."""
    old = pod("redis-0")
    old["metadata"]["uid"] = "u1"
    old["status"] = {
        "phase": "Failed",
        "containerStatuses": [
            {"name": "c", "state": {"terminated": {"finishedAt": "2026-11-03T10:02:00Z"}}}
        ],
    }
    new = pod("redis-0")
    new["metadata"]["uid"] = "u2"
    new["status"]["startTime"] = "2026-11-03T10:03:00Z"

    def answer(request: Request) -> Reply:
        if request.path == pages.PODS.path:
            return Reply(a_list([new, old]))
        if request.path == pages.POD_METRICS.path:
            return Reply(metrics(("team-a", "redis-0", {"cpu": "1"})))
        return Reply(a_list([], "List"))

    server.answer = answer
    row = batch(collect(), "usage").rows.row(0, named=True)
    assert (row["uid"], row["cpu_used_core_seconds"]) == ("u2", "120")


def test_usage_is_kept_by_name_where_the_pods_are_not_known(server: KubeServer) -> None:
    def answer(request: Request) -> Reply:
        if request.path == pages.PODS.path:
            return Reply(ERRORS["403"]["body"], 403)
        if request.path == pages.POD_METRICS.path:
            return Reply(metrics(("team-a", "web-1", {"cpu": "250m"})))
        return Reply(a_list([], "List"))

    server.answer = answer
    row = batch(collect(), "usage").rows.row(0, named=True)
    assert (row["uid"], row["pod"], row["cpu_used_core_seconds"]) == (None, "web-1", "75")


# -- connections ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"username": "ada", "password": "pw"}, "Basic YWRhOnB3"),
    ],
)
def test_kubeconfig_credentials_reach_the_server(
    server: KubeServer, monkeypatch: pytest.MonkeyPatch, user: dict[str, str], header: str
) -> None:
    define(monkeypatch, extra={"kube_config": json.dumps(server.kube_config(user))})
    collect()
    assert {each.headers["authorization"] for each in server.requests} == {header}


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({"password": "abc\n"}, "Bearer abc"),
        ({"login": "ada", "password": "pw"}, "Basic YWRhOnB3"),
    ],
)
def test_a_connection_with_a_host_needs_no_kubeconfig(
    server: KubeServer, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], header: str
) -> None:
    define(monkeypatch, host=server.url, **fields)
    collect()
    assert {each.headers["authorization"] for each in server.requests} == {header}


def test_a_kubeconfig_file_and_its_context(
    server: KubeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(server.kube_config() | {"current-context": "gone"}))
    define(monkeypatch, extra={"kube_config_path": str(path)})
    source = SourceConfig("kubernetes", SOURCE.connection, context="test")
    found = kubernetes.collect(CLUSTER, source, CELL, now=NOW)
    assert found.gaps == []


def test_certificates_of_a_host_connection_become_its_kubeconfig() -> None:
    extra = {"ca_cert": "CA", "client_cert": "CERT", "client_key": "KEY"}
    config = client.kube_config_of(Connection("c", host="10.0.0.1", port=6443, extra=extra))
    assert config is not None
    assert config["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": "Q0E=",
    }
    assert config["users"][0]["user"] == {
        "client-certificate-data": "Q0VSVA==",
        "client-key-data": "S0VZ",
    }
    assert client.kube_config_of(Connection("c", host="h", extra={"in_cluster": True})) is None


def test_a_connection_that_leads_nowhere_is_a_gap_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_KUBETALLY_TEST_KUBERNETES", raising=False)
    found = collect()
    assert len(found.gaps) == len(DATASETS)
    assert "no connection 'kubetally_test_kubernetes'" in found.gaps[0].reason


def test_a_broken_kubeconfig_is_reported_without_its_content(
    server: KubeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(monkeypatch, extra={"kube_config": "token: [s3cr3t-token"})
    with pytest.raises(ConfigError) as problem:
        client.connect(SOURCE.connection)
    assert "s3cr3t" not in str(problem.value)


def test_tls_verification_is_never_switched_off_silently(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = Connection("c", host="https://127.0.0.1:1", password="t")
    define(monkeypatch, host=config.host, password="t")
    with caplog.at_level(logging.WARNING, logger="kubetally"):
        assert client.connect(SOURCE.connection)._api.configuration.verify_ssl
        assert not caplog.records
        define(monkeypatch, host=config.host, password="t", extra={"disable_verify_ssl": True})
        client.connect(SOURCE.connection)
        assert "switched OFF" in caplog.text
        caplog.clear()
        define(monkeypatch, host=config.host, password="t")
        assert client.connect(SOURCE.connection)._api.configuration.verify_ssl
        assert not caplog.records


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PEM file with a fresh self-signed certificate for 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubetally-test")])
    today = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(
        made.public_bytes(Encoding.PEM)
        + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return path


def test_an_unknown_certificate_is_refused_and_a_custom_ca_is_accepted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(certificate) as server:
        define(monkeypatch, host=server.url, password="secret-token")
        refused = collect()
        assert refused.batches == []
        assert "certificate is not trusted" in refused.gaps[0].reason
        assert server.requests == [], "the token never left"
        pem = certificate.read_text().split("-----BEGIN PRIVATE")[0]
        define(monkeypatch, host=server.url, password="secret-token", extra={"ca_cert": pem})
        assert collect().gaps == []


def test_the_shipped_cluster_role_grants_exactly_what_is_listed() -> None:
    (role,) = (
        each for each in yaml.safe_load_all(RBAC.read_text()) if each["kind"] == "ClusterRole"
    )
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    read = (
        pages.NAMESPACES,
        pages.NODES,
        pages.PODS,
        pages.VOLUMES,
        pages.CLAIMS,
        pages.SERVICES,
        pages.POD_METRICS,
    )
    assert granted == {(each.group, each.plural, "list") for each in read}


# -- junk ----------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("name", "namespace", "uid", "labels", "requests", "cpu", "nodeName", "phase", "items"),
        *("containers", "resources", "conditions", "creationTimestamp", "capacity", "usage"),
        *("metadata", "spec", "status", "providerID", "claimRef", "storage", "ownerReferences"),
    ]
)
objects = st.recursive(
    json_values | st.sampled_from(["1", "100m", "2026-11-03T10:01:00Z", "Ready", "1Gi"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=25,
)
manifests = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": st.just("a") | json_values,
                "namespace": st.just("b") | json_values,
                "uid": st.text(max_size=3) | json_values,
                "labels": st.dictionaries(st.text(max_size=3), st.text(max_size=3)) | json_values,
            },
        ),
        "spec": objects,
        "status": objects,
        "containers": st.lists(objects, max_size=2),
    },
)


@pytest.mark.parametrize("escape", [r"\u0000", r"\ud800", r"\udfff\ud800"])
def test_text_no_database_can_hold_costs_at_most_its_object(escape: str) -> None:
    body = json.dumps(a_list([pod("a"), pod("b")])).replace('"b"', f'"b{escape}"').encode()
    found = collect_snapshot("test", lambda _: [decode_page(body)], window=CELL, cell=CELL)
    rows = batch(found, "pod").rows
    assert rows["pod"].to_list() == ["a", "b" + "\ufffd" * escape.count(r"\u")]
    assert "\0" not in rows.write_csv()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(manifests | objects, max_size=5) | objects, st.binary(max_size=40))
def test_junk_never_stops_a_collect(items: Any, noise: bytes) -> None:
    body = json.dumps({"kind": "List", "items": items}).encode()

    def junk(resource: pages.Resource) -> Iterator[Page]:
        if len(noise) % 5 == 0:
            return iter([decode_page(noise)])
        return iter([decode_page(body)])

    found = collect_snapshot("test", junk, window=CELL, cell=CELL)
    assert {each.dataset for each in (*found.batches, *found.gaps)} == set(DATASETS)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.sampled_from([200, 200, 200, 404, 410, 418, 500]))
def test_junk_answers_end_as_a_named_error(body: bytes, status: int) -> None:
    answer = Answer(status, body, {})
    try:
        list(pages.list_pages(lambda *_: answer, pages.PODS, sleep=lambda _: None))
    except (BadDataError, SourceError) as error:
        assert "pods" in str(error) or "Kubernetes list" in str(error)
