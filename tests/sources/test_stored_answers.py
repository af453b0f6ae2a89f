"""A folder of query_range answers says what the server they came from would have said."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.demo.server import DemoServer
from kubetally.errors import BadDataError
from kubetally.http import HttpClient
from kubetally.sources import files
from kubetally.sources.prometheus.client import Prometheus
from kubetally.sources.prometheus.collector import Collector
from kubetally.sources.rows import Batch, Collected
from kubetally.sources.stored_answers import StoredAnswers, asked_names
from kubetally.windows import Window

START = datetime(2026, 11, 3, 10, tzinfo=UTC)
HOUR = Window(START, START + timedelta(hours=1))
NOW = HOUR.end + timedelta(days=1)
# So far do samples before and after a window speak into it.
EDGE = timedelta(minutes=6)


def answer(*series: tuple[dict[str, str], dict[int, str]], **more: Any) -> bytes:
    """A matrix; times in minutes after START."""
    result = [
        {
            "metric": labels,
            "values": [[START.timestamp() + 60 * minute, text] for minute, text in values.items()],
        }
        for labels, values in series
    ]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(body | more).encode()


def collect(folder: Path, window: Window = HOUR) -> Collected:
    source = SourceConfig("files", path=str(folder), interval_seconds=60)
    return files.collect(ClusterConfig("stored", (source,)), source, window, now=NOW)


def batch(found: Collected, dataset: str) -> Batch:
    (one,) = (each for each in found.batches if each.dataset == dataset)
    return one


INFO = {"namespace": "shop", "pod": "web", "uid": "u1", "node": "n1", "created_by_kind": "<none>"}
REQUEST = {"namespace": "shop", "pod": "web", "container": "c", "resource": "cpu", "unit": "core"}


def test_pods_and_requests_come_from_their_samples(tmp_path: Path) -> None:
    times = dict.fromkeys(range(10), "1")
    info = answer(({"__name__": "kube_pod_info"} | INFO, times))
    (tmp_path / "query_range-info.json").write_bytes(info)
    # Without a name in the series, the file's name is the metric's.
    request = answer((REQUEST, dict.fromkeys(range(10), "0.5")))
    packed = tmp_path / "kube_pod_container_resource_requests.json.gz"
    packed.write_bytes(gzip.compress(request))
    found = collect(tmp_path)
    assert found.source == "files"
    pods = batch(found, "pod")
    (row,) = pods.rows.to_dicts()
    assert (row["uid"], Decimal(row["cpu_request_cores"])) == ("u1", Decimal("0.5"))
    assert row["end_at"] - row["start_at"] == timedelta(minutes=10)
    assert pods.covered == ((START, START + timedelta(minutes=10)),)


def test_a_folder_of_the_demo_server_s_answers_equals_the_server(tmp_path: Path) -> None:
    """Range answers at the scrape's own step hold the raw samples: all of them must come back."""
    with DemoServer(clock=lambda: NOW) as server:
        http = HttpClient(f"{server.url}/prometheus")
        source = SourceConfig("prometheus", "unused", interval_seconds=60)
        expected = Collector(Prometheus(http), source).collect(HOUR, NOW)
        for name in sorted(asked_names()):
            told = Prometheus(http).samples(
                name,
                int((HOUR.start - EDGE).timestamp() * 1000),
                int((HOUR.end + EDGE).timestamp() * 1000),
            )
            by_series = told.samples.partition_by("series", as_dict=True)
            result = [
                {
                    "metric": labels,
                    "values": [
                        [at / 1000, text]
                        for at, text in by_series[(number,)].select("at", "text").iter_rows()
                    ],
                }
                for number, labels in enumerate(told.labels)
                if (number,) in by_series
            ]
            body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
            (tmp_path / f"{name}.json").write_text(json.dumps(body))
    found = collect(tmp_path)
    assert found.gaps == expected.gaps == []
    for dataset in ("pod", "node", "usage", "namespace", "volume"):
        left, right = batch(expected, dataset), batch(found, dataset)
        columns = left.rows.columns
        assert right.rows.sort(columns).equals(left.rows.sort(columns)), dataset
        assert right.rows.height > 0
        assert right.covered == left.covered


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>", "no answer of a Prometheus"),
        (b'{"status": "error", "errorType": "timeout"}', "failed"),
        (b'{"status": "success", "data": {"resultType": "vector", "result": []}}', "no matrix"),
        (answer(({"__name__": "kube_pod_info"}, {0: "1"})).replace(b'"1"', b"1"), "not [time"),
    ],
)
def test_a_file_that_is_no_matrix_is_a_gap_that_names_it(
    tmp_path: Path, body: bytes, said: str
) -> None:
    (tmp_path / "query_range-1.json").write_bytes(body)
    found = collect(tmp_path)
    assert found.batches == []
    assert all(said in gap.reason and "query_range-1.json" in gap.reason for gap in found.gaps)


def test_one_series_in_two_answers_is_one_and_a_moment_counts_once() -> None:
    stored = StoredAnswers()
    labels = {"__name__": "up", "job": "a"}
    stored.add(
        "query_range-1.json", answer((labels, {0: "1", 1: "1"}), warnings=["a store is down"])
    )
    stored.add("query_range-2.json", answer((labels, {1: "0", 2: "1"})))
    start = int(START.timestamp() * 1000)
    found = stored.samples('up{job="a",job!="b"}', start - 1, start + 3_600_000)
    assert found.labels == [labels]
    assert found.samples.sort("at")["text"].to_list() == ["1", "0", "1"]
    assert found.warnings == ("a store is down",)
    assert stored.samples('up{job!="a"}', start - 1, start + 3_600_000).labels == []
    with pytest.raises(BadDataError, match="only `=` and `!=`"):
        stored.samples('up{job=~"a"}', 0, 1)


RECORDED = Path(__file__).parents[1] / "data" / "k8s" / "prometheus"


@pytest.mark.parametrize("name", json.loads((RECORDED / "constructed-matrices.json").read_text()))
def test_every_constructed_trap_is_read(tmp_path: Path, name: str) -> None:
    trap = json.loads((RECORDED / "constructed-matrices.json").read_text())[name]
    (tmp_path / "query_range.json").write_text(json.dumps(trap))
    day = Window.of_day(datetime(2025, 3, 30).date())
    # What the answers do not hold is a gap that says so; nothing else went wrong.
    for gap in collect(tmp_path, day).gaps:
        assert "no samples" in gap.reason or "has samples" in gap.reason, gap.reason
