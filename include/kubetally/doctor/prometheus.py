"""A Prometheus (Thanos, VictoriaMetrics): are the series there, once, and since when?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kubetally.config import SourceConfig
from kubetally.connections import get_connection
from kubetally.doctor.findings import Finding
from kubetally.errors import BadDataError
from kubetally.http import HttpClient
from kubetally.sources.prometheus.client import connect

ABOUT = "prometheus"
ALLOW_LIST = (
    "Start kube-state-metrics with"
    " --metric-labels-allowlist=pods=[*],namespaces=[*],nodes=[*] (or the labels you need)."
)
HOLD = timedelta(minutes=5)
DAYS_BACK = (400, 365, 270, 180, 120, 90, 60, 45, 30, 15, 7, 3, 1)

Vector = list[tuple[dict[str, str], float]]


def probe(source: SourceConfig, now: datetime) -> Iterator[Finding]:
    """What of a Prometheus a bill rests on. Raises KubetallyError when it does not answer."""
    http = connect(get_connection(source.connection)).http
    ask(http, "vector(1)", now)
    yield Finding("OK", ABOUT, f"{http.host} answers")
    pods = count(http, "kube_pod_info", now)
    if not pods:
        yield Finding(
            "FAIL",
            ABOUT,
            "kube_pod_info is not there: nothing says which pods exist.",
            "Install kube-state-metrics and let this Prometheus scrape it.",
        )
        return
    yield kube_state_metrics(http, now)
    yield from labels(http, now)
    yield usage(http, now)
    yield from copies(http, now)
    yield rhythm(http, source, now)
    yield reach(http, now)


def kube_state_metrics(http: HttpClient, now: datetime) -> Finding:
    """Which kube-state-metrics it is, by its own word or by how it names requests."""
    said = ask(http, "kube_state_metrics_build_info", now)
    versions = sorted({series.get("version", "?") for series, _ in said})
    text = f"kube-state-metrics {', '.join(versions)}" if versions else "kube-state-metrics"
    if count(http, "kube_pod_container_resource_requests", now):
        return Finding("OK", ABOUT, f"{text} names requests as version 2 does")
    if count(http, "kube_pod_container_resource_requests_cpu_cores", now):
        return Finding("OK", ABOUT, f"{text} names requests as version 1 does")
    if count(http, "kube_pod_resource_request", now):
        return Finding("OK", ABOUT, f"{text}; requests come from the scheduler")
    return Finding(
        "WARN",
        ABOUT,
        f"{text} tells of no requests: pods are billed by use alone.",
        "Scrape kube_pod_container_resource_requests, or set requests.",
    )


def labels(http: HttpClient, now: datetime) -> Iterator[Finding]:
    """Whether labels of pods and nodes pass kube-state-metrics' allow-list."""
    for kind, need in (
        ("pod", "owners cannot go by pod labels"),
        ("node", "prices cannot be looked up by labels"),
    ):
        found = ask(http, f"kube_{kind}_labels", now)
        names = {name for series, _ in found for name in series if name.startswith("label_")}
        if names:
            yield Finding("OK", ABOUT, f"{len(names)} labels of {kind}s are there")
        else:
            yield Finding(
                "WARN", ABOUT, f"kube_{kind}_labels carries no label: {need}.", ALLOW_LIST
            )


def usage(http: HttpClient, now: datetime) -> Finding:
    """Whether cAdvisor's series are there."""
    containers = count(http, 'container_cpu_usage_seconds_total{pod!=""}', now)
    if containers:
        return Finding("OK", ABOUT, f"cAdvisor tells of {containers} series of CPU use")
    return Finding(
        "WARN",
        ABOUT,
        "container_cpu_usage_seconds_total is not there: use is not known, requests are billed.",
        "Scrape the kubelets' /metrics/cadvisor.",
    )


def copies(http: HttpClient, now: datetime) -> Iterator[Finding]:
    """Pods that are told of more than once: replicas of the server, or two exporters."""
    series = [series for series, _ in ask(http, "kube_pod_info", now)]
    told = Counter((each.get("namespace"), each.get("pod"), each.get("uid")) for each in series)
    doubled = sum(times > 1 for times in told.values())
    if not doubled:
        yield Finding("OK", ABOUT, "every pod is told of once")
        return
    many = [
        name
        for name in ("prometheus_replica", "replica", "instance", "job", "cluster")
        if len({each.get(name) for each in series}) > 1
    ]
    by = f" They differ by {', '.join(many)}." if many else ""
    yield Finding(
        "WARN",
        ABOUT,
        f"{doubled} pods are told of more than once; each counts once.{by}",
        "Deduplicate replicas in the query layer, and let one kube-state-metrics be scraped.",
    )


def rhythm(http: HttpClient, source: SourceConfig, now: datetime) -> Finding:
    """Whether samples come as often as the configuration says."""
    found = result(http, "kube_node_info[1h]", now)
    samples = max((len(series["values"]) for series in found), default=0)
    seen = 3600 / samples if samples else 0
    said = source.interval_seconds
    if not samples or 0.8 <= seen / said <= 1.25:
        return Finding("OK", ABOUT, f"samples come about every {said} s")
    return Finding(
        "WARN",
        ABOUT,
        f"Samples come about every {seen:.0f} s, interval_seconds says {said}.",
        "Correct it in include/config/clusters.yaml: it decides how long a sample holds. A server"
        " that began less than an hour ago looks like this too.",
    )


def reach(http: HttpClient, now: datetime) -> Finding:
    """The oldest of some moments at which pods were known: what a backfill can reach."""
    for days in DAYS_BACK:
        if count(http, "kube_pod_info", now - timedelta(days=days)):
            day = (now - timedelta(days=days)).date()
            more = " or further" if days == DAYS_BACK[0] else ""
            return Finding("OK", ABOUT, f"a backfill reaches back to {day} ({days} days){more}")
    return Finding(
        "WARN",
        ABOUT,
        "Nothing is kept of a day ago: past days cannot be filled.",
        "Lengthen --storage.tsdb.retention.time, or keep what is polled from now on.",
    )


def count(http: HttpClient, expression: str, at: datetime) -> int:
    """How many series an expression has at a moment."""
    found = ask(http, f"count({expression})", at)
    return int(found[0][1]) if found else 0


def ask(http: HttpClient, expression: str, at: datetime) -> Vector:
    """An instant query's vector. Raises BadDataError when the answer is none."""
    return [
        (dict(series["metric"]), float(series["value"][1]))
        for series in result(http, expression, at)
    ]


def result(http: HttpClient, expression: str, at: datetime) -> list[dict[str, Any]]:
    """An instant query's series: with a `value`, or with `values` where it asks for a range."""
    answer = http.get("api/v1/query", {"query": expression, "time": f"{at.timestamp():.0f}"})
    try:
        content: Any = msgspec.json.decode(answer.body)
        if content["status"] != "success":
            raise BadDataError(f"{http.host} refuses {expression}: {content.get('error')}.")
        series = list(content["data"]["result"])
        for each in series:
            dict(each["metric"])
            for _, text in each["values"] if "values" in each else [each["value"]]:
                float(text)
        return series
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError) as error:
        raise BadDataError(
            f"{http.host} did not answer {expression} in Prometheus' format ({answer.status}).",
            remedy="Check that the connection points at a Prometheus API.",
        ) from error
