"""How fast, and in how much memory, a cluster's pod list becomes raw rows.

Each measurement runs in a process of its own over the same generated pages of 500 pods. Beside ours runs
the plain way: `json.loads` and Python loops over dicts, quantities as floats, which reads fewer fields.
Run it as `python benchmarks/api_list.py [pods …]` on a quiet machine: seconds are of the wall clock.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from kubetally.sources.kubernetes.objects import Page, decode_page
from kubetally.sources.kubernetes.pages import METRICS_GROUP, PODS, Resource
from kubetally.sources.kubernetes.snapshot import collect_snapshot
from kubetally.windows import Window

PAGE_PODS = 500
ROUNDS = 3
CELL = Window(datetime(2026, 11, 3, 10, 0, tzinfo=UTC), datetime(2026, 11, 3, 10, 5, tzinfo=UTC))
PAGE_MARK = "pg-pg"
SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "": 1}


def pod(number: int) -> dict[str, Any]:
    """A pod as an API server of 1.33 lists it; every 11th one is a finished job's."""
    deployment, replica = divmod(number, 7)
    app = f"checkout-{deployment % 40}"
    namespace = f"team-{deployment % 25}"
    hashed = f"{deployment * 2654435761 % 2**32:08x}"
    name = f"{app}-{hashed}-{replica}{PAGE_MARK}{number:03d}"
    finished = number % 11 == 0
    requests = {"cpu": f"{50 * (1 + deployment % 8)}m", "memory": f"{64 * (1 + deployment % 8)}Mi"}
    limits = {"memory": f"{128 * (1 + deployment % 8)}Mi"}
    started = (CELL.start - timedelta(hours=1 + number % 700)).strftime("%Y-%m-%dT%H:%M:%SZ")
    terminated = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started}

    def container(title: str) -> dict[str, Any]:
        return {
            "name": title,
            "image": f"registry.example.com/shop/{title}:1.{deployment % 30}.0",
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [
                {"name": "LOG_LEVEL", "value": "info"},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}},
            ],
            "resources": {"requests": requests, "limits": limits},
            "volumeMounts": [
                {
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    "name": f"kube-api-access-{number:05d}",
                    "readOnly": True,
                }
            ],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }

    def status(title: str) -> dict[str, Any]:
        return {
            "name": title,
            "state": {"terminated": terminated}
            if finished
            else {"running": {"startedAt": started}},
            "lastState": {},
            "ready": not finished,
            "restartCount": 0,
            "image": f"registry.example.com/shop/{title}:1.{deployment % 30}.0",
            "imageID": f"registry.example.com/shop/{title}@sha256:{hashed * 8}",
            "containerID": f"containerd://{hashed * 8}",
            "started": not finished,
            "allocatedResources": requests,
            "resources": {"requests": requests, "limits": limits},
        }

    return {
        "metadata": {
            "name": name,
            "generateName": f"{app}-{hashed}-",
            "namespace": namespace,
            "uid": f"{hashed}-0000-4000-8000-{PAGE_MARK}{number:07d}",
            "resourceVersion": str(10_000_000 + number),
            "creationTimestamp": started,
            "labels": {
                "app.kubernetes.io/instance": app,
                "app.kubernetes.io/name": "checkout",
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": hashed,
                "team": f"team-{deployment % 25}",
            },
            "annotations": {
                "checksum/config": hashed * 8,
                "prometheus.io/port": "8080",
                "prometheus.io/scrape": "true",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-{hashed}",
                    "uid": f"{hashed}-1111-4000-8000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "volumes": [
                {
                    "name": f"kube-api-access-{number:05d}",
                    "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
                }
            ],
            "containers": [container("web"), container("proxy")],
            "restartPolicy": "Never" if finished else "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": f"ip-10-{number % 8}-{number % 250}.eu-central-1.compute.internal",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Succeeded" if finished else "Running",
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": started,
                }
                for kind in (
                    "PodReadyToStartContainers",
                    "Initialized",
                    "Ready",
                    "ContainersReady",
                    "PodScheduled",
                )
            ],
            "hostIP": f"10.{number % 8}.0.{number % 250}",
            "podIP": f"10.128.{number % 250}.{number % 200}",
            "startTime": started,
            "containerStatuses": [status("web"), status("proxy")],
            "qosClass": "Burstable",
        },
    }


@cache
def template() -> bytes:
    items = [pod(number) for number in range(PAGE_PODS)]
    return json.dumps({"kind": "PodList", "items": items}, separators=(",", ":")).encode()


def pod_pages(pods: int) -> Iterator[bytes]:
    """The pod list, page by page; the pages differ in names and uids."""
    for page in range(pods // PAGE_PODS):
        yield template().replace(PAGE_MARK.encode(), f"{page:05x}".encode())


def ours(pods: int) -> int:
    """Rows of every kind of the typed, page-by-page way."""

    def pages(wanted: Resource) -> Iterator[Page]:
        if wanted is PODS:
            for number, body in enumerate(pod_pages(pods)):
                yield decode_page(body, is_first=number == 0, outline_pods=True)
        elif wanted.group != METRICS_GROUP:
            yield decode_page(json.dumps({"kind": "List", "items": []}).encode())

    collected = collect_snapshot("benchmark", pages, window=CELL, cell=CELL)
    return sum(b.rows.height for b in collected.batches if b.dataset == "pod")


def plain(pods: int) -> int:
    """The plain way: every page through `json.loads`, every pod through loops over dicts."""
    found: dict[str, dict[str, Any]] = {}
    for body in pod_pages(pods):
        for item in json.loads(body)["items"]:
            metadata, spec, status = item["metadata"], item["spec"], item["status"]
            entry: dict[str, Any] = {
                "name": f"{metadata['name']}.{metadata['namespace']}",
                "namespace": metadata["namespace"],
                "id": metadata["uid"],
                "node": spec.get("nodeName"),
                "state": "PodNotScheduled",
                "cpu": 0.0,
                "memory": 0.0,
            }
            for condition in status.get("conditions", []):
                if condition["status"] == "True":
                    entry["state"] = condition["type"]
                    break
            for container in spec.get("containers", []):
                requests = container.get("resources", {}).get("requests", {})
                entry["cpu"] += as_float(requests.get("cpu", "0"))
                entry["memory"] += as_float(requests.get("memory", "0"))
            found[entry["name"]] = entry
    return len(found)


def as_float(text: str) -> float:
    """A quantity the way quick scripts read it."""
    position = len(text)
    while position and not text[position - 1].isdigit():
        position -= 1
    return float(text[:position]) * SUFFIXES[text[position:]]


def generate_only(pods: int) -> int:
    """What making the pages costs; taken off the others."""
    return sum(1 for _ in pod_pages(pods)) * PAGE_PODS


@dataclass(frozen=True, order=True)
class Measured:
    """One run in a process of its own; the fastest is the smallest."""

    seconds: float
    cpu_seconds: float
    peak_mebibytes: float
    rows: int


def measure(way: Callable[[int], int], pods: int) -> Measured:
    """The best of several runs: what else runs on the machine only adds."""
    return min(_measured(way, pods) for _ in range(ROUNDS))


def _measured(way: Callable[[int], int], pods: int) -> Measured:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_run, args=(way.__name__, pods, queue))
    process.start()
    result: Measured = queue.get(timeout=1800)
    process.join()
    return result


def _run(way: str, pods: int, queue: Any) -> None:
    run: Callable[[int], int] = globals()[way]
    run(PAGE_PODS)  # imports, caches and allocators are warm
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, cpu_started = time.perf_counter(), time.process_time()
    rows = run(pods)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    queue.put(Measured(seconds, cpu_seconds, (peak - before) / 1024, rows))


def main(sizes: tuple[int, ...] = (10_000, 100_000)) -> None:
    size = len(next(pod_pages(PAGE_PODS))) / PAGE_PODS
    print(f"Pod list of {size:,.0f} bytes a pod, pages of {PAGE_PODS}; best of {ROUNDS}")
    for pods in sizes:
        pages = measure(generate_only, pods)
        found = {way.__name__: measure(way, pods) for way in (plain, ours)}
        spent = {
            name: (one.seconds - pages.seconds, one.cpu_seconds - pages.cpu_seconds)
            for name, one in found.items()
        }
        for name, one in found.items():
            seconds, cpu_seconds = spent[name]
            print(
                f"{pods:>9,} pods  {name:<6} {seconds:6.2f} s  {pods / seconds:8,.0f} pods/s"
                f"  {cpu_seconds:6.2f} CPU s  peak +{one.peak_mebibytes:6.1f} MiB"
            )
        ratios = [mine / others for mine, others in zip(spent["plain"], spent["ours"], strict=True)]
        print(f"{pods:>9,} pods  ratio {ratios[0]:.1f} by the clock, {ratios[1]:.1f} by CPU time")


if __name__ == "__main__":
    main(tuple(int(size) for size in sys.argv[1:]) or (10_000, 100_000))
