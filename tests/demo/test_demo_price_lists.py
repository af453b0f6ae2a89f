"""The demo's price APIs answer as Azure's and Google's do, and say what the truth reckons with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from kubetally.demo import price_lists
from kubetally.demo.scenario import Scenario
from kubetally.demo.server import DemoServer
from kubetally.prices import azure, gcp
from kubetally.prices.key import NodeFacts, lookup_key
from kubetally.prices.quote import Priced

ONE_SKU = (
    "armRegionName eq 'eastus' and armSkuName eq '{}' and serviceName eq 'Virtual Machines' "
    "and priceType eq 'Consumption'"
)


@pytest.fixture(scope="module")
def server() -> Iterator[DemoServer]:
    with DemoServer() as running:
        yield running


def prices(server: DemoServer, query: str = "", **more: str) -> requests.Response:
    parameters = {"$filter": query, **more} if query else more
    return requests.get(f"{server.url}/api/retail/prices", params=parameters, timeout=30)


# --- Azure ------------------------------------------------------------------------------------


def test_one_sku_comes_with_all_its_traps(server: DemoServer) -> None:
    body = prices(server, ONE_SKU.format("Standard_D2s_v3")).json()
    assert list(body) == [
        "BillingCurrency",
        "CustomerEntityId",
        "CustomerEntityType",
        "Items",
        "NextPageLink",
        "Count",
    ]
    assert body["Count"] == len(body["Items"]) == 7
    names = {item["skuName"] for item in body["Items"]}
    assert names == {"D2s v3", "D2s v3 Spot", "D2s v3 Low Priority"}
    assert {item["productName"].endswith("Windows") for item in body["Items"]} == {True, False}


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (ONE_SKU.format("standard_d2s_v3"), 0),  # values are case-sensitive
        ("armskuname eq 'Standard_E4s_v5' and ARMREGIONNAME eq 'eastus'", 1),  # fields are not
        ("armRegionName eq 'nowhere'", 0),
        (
            "contains(meterName, 'Low Priority') and armSkuName eq 'Standard_D2s_v3' and location eq 'US East'",
            3,
        ),
        (
            "(armSkuName eq 'Standard_B1s' or armSkuName eq 'Standard_E4s_v5') and armRegionName eq 'eastus'",
            4,
        ),
        ("priceType eq 'Reservation' and armSkuName eq 'Standard_D2als_v7'", 2),
        ("priceType eq 'SavingsPlan'", 0),
    ],
)
def test_filters_select(server: DemoServer, query: str, count: int) -> None:
    got = prices(server, query)
    assert (got.status_code, got.json()["Count"]) == (200, count)


@pytest.mark.parametrize(
    "query",
    [
        "priceType eq 'Spot'",
        "armSkuName in ('a','b')",
        "nosuchfield eq 'x'",
        "armSkuName eq",
        "armSkuName eq 'a' and",
        "not contains(skuName, 'Spot')",
        " or ".join("armSkuName eq 'x'" for _ in range(21)),
    ],
)
def test_filters_the_real_api_refuses_are_refused(server: DemoServer, query: str) -> None:
    got = prices(server, query)
    assert got.status_code == 400
    assert got.json() == {
        "Error": {"Code": "BadRequest", "Message": "Invalid OData parameters supplied"}
    }


def test_an_unknown_version_is_refused_and_savings_plans_need_the_preview(
    server: DemoServer,
) -> None:
    assert prices(server, **{"api-version": "2023-01-01"}).json()["Error"]["Message"] == (
        "Unsupported API version"
    )
    query = ONE_SKU.format("Standard_D2s_v3")
    plain = prices(server, query).json()["Items"]
    preview = prices(server, query, **{"api-version": "2023-01-01-preview"}).json()["Items"]
    assert not any("savingsPlan" in item for item in plain)
    assert any("savingsPlan" in item for item in preview)


def test_pages_follow_each_other_on_the_servers_own_host(server: DemoServer) -> None:
    seen: list[dict[str, Any]] = []
    body = prices(server).json()
    pages = 0
    while True:
        seen += body["Items"]
        pages += 1
        link = body["NextPageLink"]
        if not link:
            break
        assert urlsplit(link).netloc == urlsplit(server.url).netloc
        body = requests.get(link, timeout=30).json()
    assert pages == 2
    assert seen == [
        {k: v for k, v in item.items() if k != "savingsPlan"} for item in price_lists.azure_items()
    ]


def test_no_row_is_served_twice() -> None:
    rows = [
        json.dumps({k: v for k, v in item.items() if k != "savingsPlan"}, sort_keys=True)
        for item in price_lists.azure_items()
    ]
    assert len(set(rows)) == len(rows)
    assert all(item["effectiveStartDate"] for item in price_lists.azure_items())


def test_the_timeline_has_one_price_at_every_moment() -> None:
    rows = [
        item
        for item in price_lists.azure_items()
        if item["armSkuName"] == price_lists.TIMELINE_SKU and item["armRegionName"] == "eastus"
    ]
    minute = timedelta(minutes=1)
    for row, following in pairwise(rows):
        end = datetime.fromisoformat(row["effectiveEndDate"])
        assert end + minute == datetime.fromisoformat(following["effectiveStartDate"])
        assert {row["retailPrice"], following["retailPrice"]} == {0.192, 0.2016}
        assert (end + minute).isoweekday() == 3 and (end + minute).hour == 12
    assert "effectiveEndDate" not in rows[-1]
    assert datetime.fromisoformat(rows[0]["effectiveStartDate"]).year == 2023


MOMENTS = [
    datetime(2024, 2, 29, 5, tzinfo=UTC),
    datetime(2026, 5, 31, 23, tzinfo=UTC),  # the last hour of the old spot price
    datetime(2026, 6, 1, 0, tzinfo=UTC),
    datetime(2026, 11, 4, 11, tzinfo=UTC),  # the last hour before the week's change
    datetime(2026, 11, 4, 12, tzinfo=UTC),
    datetime(2029, 8, 15, 12, tzinfo=UTC),
]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda m: m.strftime("%F %H:00"))
@pytest.mark.parametrize("provider", ["azure", "gcp"])
def test_what_is_served_is_what_the_truth_reckons_with(
    server: DemoServer, provider: str, moment: datetime
) -> None:
    """The product's matcher, on the served pages, finds the price the truth has in its own table."""
    scenario = Scenario(provider=provider)  # type: ignore[arg-type]
    at = int(moment.timestamp())
    compared = 0
    for node in scenario.nodes(at, at + 1):
        if node.pool.name == "gpu":
            continue  # the custom sheet's
        key = lookup_key(
            NodeFacts(
                cluster="demo",
                uid=node.uid,
                node=node.name,
                provider_id=node.provider_id,
                labels=dict(node.labels),
            )
        )
        if provider == "azure":
            query = ONE_SKU.format(node.pool.instance_type)
            quote = azure.match(azure.decode_page(prices(server, query).content).Items, key, moment)
        else:
            url = f"{server.url}/v1/services/{gcp.COMPUTE_SERVICE}/skus"
            headers = {"X-Goog-Api-Key": price_lists.GCP_KEY}
            body = requests.get(url, headers=headers, timeout=30).content
            quote = gcp.match(gcp.Catalog.of(gcp.decode_page(body).skus), key, moment)
        wanted = price_lists.price_per_hour(scenario, node, at)
        if isinstance(quote, Priced):
            found = quote.price_per_hour(moment)
            assert (found or None) == wanted, node.name
        else:
            assert wanted is None, (node.name, quote)
        compared += 1
    assert compared == 8


# --- Google -----------------------------------------------------------------------------------


def skus(server: DemoServer, service: str, **parameters: str) -> requests.Response:
    return requests.get(f"{server.url}/v1/services/{service}/skus", params=parameters, timeout=30)


@pytest.mark.parametrize("key", [{}, {"key": "wrong"}])
def test_a_bad_key_is_refused_as_recorded(server: DemoServer, key: dict[str, str]) -> None:
    got = skus(server, price_lists.COMPUTE_SERVICE, **key)
    recorded = price_lists.PAGES / "gcp/recorded_error_400_api_key_invalid.json"
    assert (got.status_code, got.json()) == (400, json.loads(recorded.read_text(encoding="utf-8")))


def test_google_pages_follow_their_tokens(server: DemoServer) -> None:
    found: list[str] = []
    token = ""
    for _ in range(10):
        body = skus(
            server,
            price_lists.COMPUTE_SERVICE,
            key=price_lists.GCP_KEY,
            pageSize="100",
            pageToken=token,
        ).json()
        found += [sku["skuId"] for sku in body["skus"]]
        token = body["nextPageToken"]
        if not token:
            break
    assert len(found) == len(set(found)) == 227
    fees = skus(server, price_lists.GKE_SERVICE, key=price_lists.GCP_KEY).json()
    assert len(fees["skus"]) == 35 and fees["nextPageToken"] == ""
    assert skus(server, "0000-0000-0000", key=price_lists.GCP_KEY).status_code == 404


def test_a_timeline_is_served_where_a_time_range_is_asked_for(server: DemoServer) -> None:
    def entries(**times: str) -> list[dict[str, Any]]:
        body = skus(server, price_lists.COMPUTE_SERVICE, key=price_lists.GCP_KEY, **times).json()
        sku = next(sku for sku in body["skus"] if sku["skuId"] == "F179-E1EA-D97A")
        found: list[dict[str, Any]] = sku["pricingInfo"]
        return found

    assert len(entries()) == 1
    dated = entries(startTime="2026-07-01T00:00:00Z", endTime="2026-07-31T00:00:00Z")
    assert len(dated) > 5
    assert [e["effectiveTime"] for e in dated] == sorted(e["effectiveTime"] for e in dated)
    nanos = dated[-1]["pricingExpression"]["tieredRates"][0]["unitPrice"]["nanos"]
    assert Decimal(nanos) / 10**9 == Decimal("0.01309")
