"""A recorded cluster over HTTP: a folder of dumps served as the API server would have.

Lists come from `<plural>.json`, page by page; usage from `metrics.k8s.io-pods*.json`; what kubelets
say, through the node proxy, from `cadvisor.prom.txt`, `resource.prom.txt` and `stats-summary.json`
(one node's) or `cadvisor@<node>.prom.txt` and so on. What the folder does not hold is a 404.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from kubetally.demo import kube_api

LIST = re.compile(r"/(?:api/v1|apis/(metrics\.k8s\.io)/v1beta1)/([a-z]+)")
KUBELET_FILES = {
    "metrics/cadvisor": ("cadvisor", ".prom.txt"),
    "metrics/resource": ("resource", ".prom.txt"),
    "stats/summary": ("stats-summary", ".json"),
}
PAGE_LIMIT = 500


def answer(
    folder: Path, path: str, parameters: dict[str, str]
) -> tuple[int, dict[str, Any] | bytes, str]:
    """(status, body, content type) of a GET."""
    proxied = kube_api.PROXY.fullmatch(path)
    if proxied:
        return _kubelet(folder, proxied[1], proxied[2])
    listed = LIST.fullmatch(path)
    if listed:
        stem = f"{listed[1]}-{listed[2]}" if listed[1] else listed[2]
        file = folder / f"{stem}.json"
        if listed[1]:
            file = next(iter(sorted(folder.glob(f"{stem}*.json"))), file)
        if file.is_file():
            return 200, _page(_read(file), parameters), "application/json"
    return _missing(path)


def _page(whole: dict[str, Any], parameters: dict[str, str]) -> dict[str, Any]:
    items = whole.get("items") or []
    start = int(parameters.get("continue") or 0)
    end = start + int(parameters.get("limit") or PAGE_LIMIT)
    metadata = {"resourceVersion": "1"}
    if end < len(items):
        metadata |= {"continue": str(end)}
    return {**whole, "metadata": metadata, "items": items[start:end]}


def _kubelet(folder: Path, node: str, what: str) -> tuple[int, dict[str, Any] | bytes, str]:
    nodes = _read(folder / "nodes.json").get("items") or []
    names = [each["metadata"]["name"] for each in nodes]
    if node in names and what in KUBELET_FILES:
        stem, suffix = KUBELET_FILES[what]
        candidates = [folder / f"{stem}@{node}{suffix}"]
        if len(names) == 1:
            candidates.append(folder / f"{stem}{suffix}")
        for file in candidates:
            if file.is_file():
                return 200, file.read_bytes(), kube_api.TEXT
    return _missing(node)


def _missing(what: str) -> tuple[int, dict[str, Any] | bytes, str]:
    body = kube_api.status(404, "NotFound", f"the recording does not hold {what}")
    return 404, body, "application/json"


@lru_cache(maxsize=32)
def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_bytes()) if file.is_file() else {}
    return found
