"""What a node of a case costs, found the way the product finds it: over HTTP, book rule, resolution."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from kubetally.demo.price_lists import PAGES
from kubetally.demo.recorded import NOTHING, find
from kubetally.demo.server import DemoServer
from kubetally.http import HttpClient
from kubetally.prices.fetch import AzurePrices, GcpPrices, PriceSource
from kubetally.prices.fetch_aws import AwsOfferFiles, AwsProducts
from kubetally.prices.key import LookupKey, NodeFacts, lookup_key
from kubetally.prices.quote import Priced
from kubetally.prices.resolve import Known, KnownComponent, NodePrice, resolve
from kubetally.prices.sheet import parse
from kubetally.windows import Window

Case = dict[str, Any]
PROVIDERS = {"AZ": "azure", "GCP": "gcp", "AWS": "aws"}
NOW = datetime(2026, 11, 3, 10, tzinfo=UTC)
OWN = Path(__file__).resolve().parents[1] / "data" / "pricing"


def folders() -> tuple[Path, ...]:
    """Where recorded pages are looked for: the project's, then beside the cases that are given."""
    given = os.environ.get("KUBETALLY_ORACLES")
    beside: list[Path] = []
    if given:
        for level in list(Path(given).resolve().parents)[:3]:
            beside += [level / "data" / "pricing", level / "pricing"]
    return (PAGES, OWN, *beside)


@cache
def server() -> DemoServer:
    """One demo server for all cases; its thread ends with the process."""
    return DemoServer(recordings=folders()).__enter__()


def moment(text: str) -> datetime:
    """`2024-10-01`: the end of that day; `2021-12`: the middle of the month; `-`: any time."""
    found = re.match(r"(\d{4})-(\d\d)(?:-(\d\d))?", text)
    if not found:
        return NOW
    return datetime(int(found[1]), int(found[2]), int(found[3] or 15), 23, tzinfo=UTC)


def facts(case: Case) -> NodeFacts:
    gpus = re.search(r"\+ (\d+)x", case["capacity"])
    return NodeFacts(
        cluster="c",
        uid="u",
        node=case["id"],
        labels=case["labels"],
        gpu_capacity=Decimal(gpus[1]) if gpus else None,
    )


def has_page(case: Case) -> bool:
    name = case["fixture"].replace("page*", "page1")
    return find(name, folders()) is not None


def source(case: Case) -> PriceSource:
    """The product's price source, pointed at the recorded page of the case (or at an empty one)."""
    provider = PROVIDERS[case["cloud"]]
    name = case["fixture"] if has_page(case) else f"{provider}/{NOTHING}"
    client = HttpClient(f"{server().url}/recorded/{name}", attempts=1)
    if provider == "azure":
        return AzurePrices(client, currency=case["currency"])
    if provider == "gcp":
        return GcpPrices(client)
    if "query" in name:
        return AwsProducts(client, "AKIDEXAMPLE", "not-a-secret")
    return AwsOfferFiles(client)


def list_price(case: Case) -> NodePrice:
    """The price of the case's node by its recorded page, or the state it stays in."""
    at = moment(case["price_date"])
    node = facts(case)
    key = lookup_key(node, provider=PROVIDERS[case["cloud"]])
    known = None
    if isinstance(key, LookupKey):
        quote, _ = source(case).quote(key, at)
        parts = quote.components if isinstance(quote, Priced) else ()
        state = "priced" if isinstance(quote, Priced) else "unpriced"
        known = Known(state, quote.reason, tuple(KnownComponent(part, 1) for part in parts))
    (price,) = resolve(node, Window.of_hour(at), key=key, known=known)
    return price


def sheet_price(case: Case) -> NodePrice:
    """The price by a sheet, for machine types of which only the total was published."""
    machine = case["labels"]["node.kubernetes.io/instance-type"]
    text = (
        f'prices: [{{match: {{instance_type: "{machine}"}}, currency: {case["currency"]},'
        f' price_per_hour: "{case["expected_hourly_exact"]}"}}]'
    )
    node = facts(case)
    key = lookup_key(node, provider=PROVIDERS[case["cloud"]])
    at = moment(case["price_date"])
    (price,) = resolve(node, Window.of_hour(at), key=key, sheet=parse(text.encode(), "sheet.yaml"))
    return price


def check(case: Case) -> None:
    """The expected price to the last digit; null stays without a price; 999 never wins."""
    found = list_price(case)
    if case["expected_hourly_exact"] is None:
        assert found.state in ("unpriced", "ambiguous"), found
        assert found.price_per_hour is None
        assert found.reason
        return
    expected = Decimal(case["expected_hourly_exact"])
    if not has_page(case):
        assert found.price_per_hour is None, "nothing was recorded, so nothing may be found"
        found = sheet_price(case)
    # A case may give a month in which the price begins; what it asks for is the amount.
    assert found.state in ("priced", "estimated"), found
    assert found.price_per_hour == expected
    assert found.currency == case["currency"]
