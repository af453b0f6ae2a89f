"""The source against a real Prometheus server: blocks made by promtool, integrals made by hand."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_server import connect_to

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.sources import prometheus
from kubetally.sources.rows import Collected
from kubetally.windows import HOUR, Window

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL) and not os.environ.get("KUBETALLY_REQUIRE_PROMETHEUS"),
    reason="prometheus and promtool are not installed (Debian: apt-get install prometheus)",
)

START = datetime(2025, 3, 30, 10, tzinfo=UTC)
T0 = int(START.timestamp())
WINDOW = Window(START, START + 2 * HOUR)
SOURCE = SourceConfig("prometheus", "prometheus_test", interval_seconds=60)
CLUSTER = ClusterConfig("real", (SOURCE,))


def minutes(first: int, last: int) -> range:
    return range(first, last)


def exposition() -> str:
    """Three hours around the window, one scrape a minute, 13 s past the full minute."""
    lines: dict[str, list[str]] = {}

    def put(metric: str, labels: str, minute: int, value: str) -> None:
        lines.setdefault(metric, []).append(f"{metric}{{{labels}}} {value} {T0 + 60 * minute + 13}")

    web = 'namespace="a",pod="web-0",uid="u1"'
    job = 'namespace="a",pod="job-x",uid="u2"'
    for minute in minutes(-30, 150):
        put("kube_node_info", 'node="n1",system_uuid="s-1",job="ksm"', minute, "1")
        put("kube_node_status_capacity", 'node="n1",resource="cpu",unit="core"', minute, "4")
        put("kube_namespace_created", 'namespace="a"', minute, "1.743e+09")
        put(
            "kube_persistentvolume_capacity_bytes",
            'persistentvolume="pv-1"',
            minute,
            "1.073741824e+09",
        )
        put("kube_pod_info", web + ',node="n1"', minute, "1")
        request = "0.5" if minute < 45 else "0.75"
        put(
            "kube_pod_container_resource_requests",
            web + ',container="app",resource="cpu"',
            minute,
            request,
        )
        put(
            "container_memory_working_set_bytes",
            'namespace="a",pod="web-0",container="app"',
            minute,
            "1e+09",
        )
    for minute in minutes(-30, 150):
        if minute not in range(20, 30):  # the kubelet was not scraped
            put(
                "container_cpu_usage_seconds_total",
                'namespace="a",pod="web-0",container="app"',
                minute,
                str(1000 + 6 * minute),
            )
    for minute in minutes(100, 107):  # a short job that ran into a reset
        put("kube_pod_info", job + ',node="n1"', minute, "1")
        put(
            "kube_pod_container_resource_requests",
            job + ',container="run",resource="cpu"',
            minute,
            "2",
        )
        put(
            "container_cpu_usage_seconds_total",
            'namespace="a",pod="job-x",container="run"',
            minute,
            str(90 * ((minute - 100) % 4)),
        )
    text = []
    for metric, samples in sorted(lines.items()):
        kind = "counter" if metric.endswith("_total") else "gauge"
        text += [
            f"# TYPE {metric.removesuffix('_total')} {kind}",
            *sorted(samples, key=series_then_time),
        ]
    return "\n".join([*text, "# EOF", ""])


def series_then_time(line: str) -> tuple[str, int]:
    labels, _, moment = line.rsplit(" ", 2)
    return labels, int(moment)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "metrics.txt").write_text(exposition())
    (folder / "prometheus.yml").write_text("{}")
    blocks = [PROMTOOL or "promtool", "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run([*blocks, "metrics.txt", "data"], cwd=folder, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                PROMETHEUS or "prometheus",
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url, folder / "log")
        with pytest.MonkeyPatch.context() as patch:
            connect_to(url, patch)
            yield prometheus.collect(CLUSTER, SOURCE, WINDOW, now=START + 10 * HOUR)
    finally:
        server.terminate()
        server.wait(timeout=20)


def wait_until_ready(url: str, log: Path) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"Prometheus did not start: {log.read_text()[-2000:]}")


def rows(collected: Collected, dataset: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows as (start and end in seconds since the window's start, columns…)."""
    frame = next(b.rows for b in collected.batches if b.dataset == dataset)
    second = timedelta(seconds=1)
    return [
        (*((row[side] - START) / second for side in ("start_at", "end_at")), *map(row.get, columns))
        for row in frame.to_dicts()
    ]


def test_everything_is_answered_and_covered(collected: Collected) -> None:
    assert [gap.reason for gap in collected.gaps] == []
    for batch in collected.batches:
        assert batch.covered == ((WINDOW.start, WINDOW.end),)
        assert batch.rejects == ()


def test_requests_change_at_the_scrape_that_saw_it(collected: Collected) -> None:
    assert rows(collected, "pod", "uid", "cpu_request_cores", "memory_request_bytes") == [
        (0, 45 * 60 + 13, "u1", "0.5", "0"),
        (45 * 60 + 13, 7200, "u1", "0.75", "0"),
        # Seen in scrapes 100 to 106; the last holds one more minute.
        (100 * 60 + 13, 107 * 60 + 13, "u2", "2", "0"),
    ]


def test_usage_equals_the_integral_made_by_hand(collected: Collected) -> None:
    columns = ("pod", "cpu_used_core_seconds", "memory_used_byte_seconds")
    rate = 6 / 60  # core-seconds a second
    told = rows(collected, "usage", *columns)
    whole = [row for row in told if row[2] == "web-0"]
    first_hole, second_hole = 19 * 60 + 13, 30 * 60 + 13
    # 0.1 cores all along; readings stand 13 s past the minute, so the edges are proportional.
    assert whole == [
        (0, first_hole, "web-0", "115.3", "1153000000000"),
        (first_hole, second_hole, "web-0", None, "660000000000"),
        (second_hole, 3600, "web-0", "178.7", "1787000000000"),
        (3600, 7200, "web-0", "360", "3600000000000"),
    ]
    assert [float(row[3]) for row in whole if row[3]] == [
        pytest.approx(rate * (end - start)) for start, end, _, cpu, _ in whole if cpu
    ]
    # 0 90 180 270 | 0 90 180: no delta across the reset, which leaves its minute open.
    assert [row for row in told if row[2] == "job-x"] == [
        (100 * 60 + 13, 103 * 60 + 13, "job-x", "270", None),
        (104 * 60 + 13, 106 * 60 + 13, "job-x", "180", None),
    ]


def test_nodes_and_volumes_span_the_window(collected: Collected) -> None:
    assert rows(collected, "node", "uid", "cpu_capacity_cores") == [(0, 7200, "s-1", "4")]
    assert rows(collected, "volume", "volume", "capacity_bytes") == [
        (0, 7200, "pv-1", "1073741824")
    ]
