"""Every recorded list of nodes, pods, volumes and namespaces is read; what is refused is counted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from kubetally.sources.kubernetes import pages
from kubetally.sources.kubernetes.objects import Page, decode_page
from kubetally.sources.kubernetes.snapshot import collect_snapshot
from kubetally.windows import Window

DATA = Path(__file__).parents[1] / "data" / "k8s"
LATE = datetime(2027, 1, 1, tzinfo=UTC)  # after every recording
CELL = Window(LATE, LATE + timedelta(minutes=5))

DATASET_OF = {
    "nodes": ("node", pages.NODES),
    "pods": ("pod", pages.PODS),
    "pagination": ("pod", pages.PODS),
    "namespaces": ("namespace", pages.NAMESPACES),
    "volumes": ("volume", pages.VOLUMES),
}
FILES = [path for folder in DATASET_OF for path in sorted((DATA / folder).glob("*.json"))]
# Three states of one node, and two of one pod, in one file: a list never has a uid twice.
TWICE = {"gpu-mig-nodes.json": 2, "k9s-init-and-native-sidecar.json": 1}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_recorded_list(path: Path) -> None:
    dataset, resource = DATASET_OF[path.parent.name]
    if "pvc" in path.name:
        resource = pages.CLAIMS

    def one(asked: pages.Resource) -> Iterable[Page]:
        body = path.read_bytes() if asked == resource else b'{"kind": "List"}'
        return [decode_page(body)]

    found = collect_snapshot("recorded", one, window=CELL, cell=CELL)
    assert found.gaps == []
    (batch,) = (each for each in found.batches if each.dataset == dataset)
    listed = len(msgspec.json.decode(path.read_bytes()).get("items") or [])
    reasons = [each.reason for each in batch.rejects]
    assert reasons == ["the list has it twice."] * TWICE.get(path.name, 0)
    assert batch.rows.height + len(batch.rejects) == listed
