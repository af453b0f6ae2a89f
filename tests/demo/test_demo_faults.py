"""Faults happen when they are asked for, and look on the wire as real ones do."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from http.client import HTTPConnection

import msgspec
import pytest
import requests

from kubetally.demo.faults import Faults
from kubetally.demo.server import DemoServer
from kubetally.errors import SourceError
from kubetally.http import HttpClient

NOW = datetime(2026, 11, 5, 15, 0, tzinfo=UTC)


def statuses(server: DemoServer, count: int, path: str = "/api/v1/nodes") -> list[int]:
    return [requests.get(server.url + path, timeout=10).status_code for _ in range(count)]


@pytest.mark.parametrize(
    ("faults", "wanted"),
    [
        (Faults(throttle_every=3), [200, 200, 429, 200, 200, 429]),
        (Faults(error_every=2), [200, 500, 200, 500, 200, 500]),
        (Faults(throttle_every=3, error_every=2), [200, 500, 429, 500, 200, 429]),
        (Faults(error_every=1, paths="/pods"), [200] * 6),
        (Faults(), [200] * 6),
    ],
)
def test_every_nth_request_fails(faults: Faults, wanted: list[int]) -> None:
    with DemoServer(clock=lambda: NOW, faults=faults) as server:
        assert statuses(server, 6) == wanted
        assert server.requests == {"/api/v1/nodes": 6}


def test_throttling_says_when_to_come_back() -> None:
    with DemoServer(
        clock=lambda: NOW, faults=Faults(throttle_every=1, retry_after_seconds=7)
    ) as server:
        got = requests.get(f"{server.url}/api/v1/pods", timeout=10)
        assert got.headers["Retry-After"] == "7"
        assert got.json()["reason"] == "TooManyRequests"


@pytest.mark.parametrize(
    "faults", [Faults(throttle_every=2), Faults(error_every=2), Faults(truncate_every=2)]
)
def test_the_products_client_gets_through(faults: Faults) -> None:
    pauses: list[float] = []
    with DemoServer(clock=lambda: NOW, faults=faults) as server:
        client = HttpClient(server.url, sleep=pauses.append)
        answers = [client.get("/api/v1/query", {"query": "kube_pod_info"}) for _ in range(4)]
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert len(pauses) == 3


def test_a_truncated_body_is_shorter_than_it_promised() -> None:
    with DemoServer(clock=lambda: NOW, faults=Faults(truncate_every=1)) as server:
        client = HttpClient(server.url, attempts=2, sleep=lambda _: None)
        with pytest.raises(SourceError, match=r"ChunkedEncodingError|ConnectionError"):
            client.get("/api/v1/nodes")


def test_a_slow_answer_comes_late_but_whole() -> None:
    with DemoServer(
        clock=lambda: NOW, faults=Faults(timeout_every=1, timeout_seconds=0.4)
    ) as server:
        begun = time.monotonic()
        assert statuses(server, 1) == [200]
        assert time.monotonic() - begun >= 0.4
        with pytest.raises(requests.Timeout):
            requests.get(f"{server.url}/api/v1/nodes", timeout=0.1)


def test_faults_are_set_and_taken_back_at_run_time() -> None:
    with DemoServer(clock=lambda: NOW) as server:
        url = f"{server.url}/demo/faults"
        assert statuses(server, 1) == [200]
        set_to = requests.post(url, json={"error_every": 1, "paths": "/nodes"}, timeout=10)
        assert set_to.status_code == 200
        assert msgspec.convert(set_to.json(), Faults) == Faults(error_every=1, paths="/nodes")
        assert requests.get(url, timeout=10).json() == set_to.json()
        assert statuses(server, 1) == [500]
        requests.post(url, json={}, timeout=10)
        assert statuses(server, 1) == [200]


@pytest.mark.parametrize(
    "body", ['{"nonsense": 1}', "not json", '{"error_every": -1}', '{"late_after": "yesterday"}']
)
def test_a_fault_nobody_knows_is_refused_and_changes_nothing(body: str) -> None:
    with DemoServer(clock=lambda: NOW, faults=Faults(throttle_every=9)) as server:
        got = requests.post(f"{server.url}/demo/faults", data=body, timeout=10)
        assert got.status_code == 400 and got.json()["error"]
        assert server.faults == Faults(throttle_every=9)


def test_connections_are_kept_alive() -> None:
    with DemoServer(clock=lambda: NOW) as server:
        connection = HTTPConnection(server.url.removeprefix("http://"), timeout=10)
        sockets = set()
        for _ in range(3):
            connection.request("GET", "/version")
            got = connection.getresponse()
            assert (got.status, got.version) == (200, 11)
            got.read()
            sockets.add(id(connection.sock))
        assert len(sockets) == 1 and connection.sock is not None
        connection.close()
