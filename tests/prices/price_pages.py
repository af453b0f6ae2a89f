"""Reads the recorded price pages and shortens the making of nodes and keys for the price tests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubetally.prices import azure, gcp
from kubetally.prices.key import LookupKey, NodeFacts, lookup_key

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = (
    PROJECT / "include/kubetally/demo/pages",
    PROJECT / "tests/data/pricing",
)
COMPUTE_PAGES = [f"gcp/reassembled_compute_skus_page{n}.json" for n in (1, 2, 3)]
DECOYS = "gcp/reassembled_decoy_skus_placeholder_price.json"
AT = datetime(2026, 11, 3, 10, tzinfo=UTC)


def page(name: str) -> bytes:
    """The bytes of one page, e.g. `azure/recorded_empty_count0.json`."""
    for folder in FOLDERS:
        if (folder / name).exists():
            return (folder / name).read_bytes()
    raise FileNotFoundError(name)


def azure_items(*names: str) -> list[azure.Item]:
    return [item for name in names for item in azure.decode_page(page(f"azure/{name}")).Items]


def gcp_skus(*names: str) -> list[gcp.Sku]:
    return [sku for name in names for sku in gcp.decode_page(page(name)).skus]


def node(**facts: Any) -> NodeFacts:
    """A node called n-1 that says what is given."""
    return NodeFacts(**{"cluster": "c", "uid": "u-1", "node": "n-1", **facts})


def key(
    provider: str, region: str, machine: str, os: str = "linux", market: str = "on_demand"
) -> LookupKey:
    found = lookup_key(
        node(instance_type=machine, region=region, os=os, capacity_type=market), provider=provider
    )
    assert isinstance(found, LookupKey), found
    return found


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]
