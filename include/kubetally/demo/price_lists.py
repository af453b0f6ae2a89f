"""The price APIs of the demo: recorded pages of Azure, Google and AWS, filtered and cut into pages.

Pure once the pages are read. Two prices are the demo's own (see pages/SOURCES.md): one SKU changes
its price every Wednesday at noon, so that a price changes in the middle of every week, and the spot
price has a predecessor.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from kubetally.demo.scenario import BIRTH, Node, Scenario

PAGES = Path(__file__).parent / "pages"
AZURE_PAGE = 1000
TIMELINE_SKU = "Standard_D4s_v5"
SPOT_SKU = "Standard_D2s_v3"
SPOT_SINCE = datetime(2026, 6, 1, tzinfo=UTC)
GPU_PRICE = Decimal("3.06")  # as include/config/price_sheets/demo.yaml says
COMPUTE_SERVICE, GKE_SERVICE = "6F81-5844-456A", "CCD8-9BF1-090E"
GCP_KEY = "demo-key"
GCP_SINCE = datetime(2026, 7, 30, 7, tzinfo=UTC)  # the hour after the pages' effectiveTime


# --- what a node costs: the demo's own table ------------------------------------------------


def price_per_hour(scenario: Scenario, node: Node, hour: int) -> Decimal | None:
    """USD per hour of a node in the hour that starts at `hour`; None where there is no price."""
    parts = price_parts(scenario, node, hour)
    return None if parts is None else sum((price for price in parts.values()), Decimal(0))


def price_parts(scenario: Scenario, node: Node, hour: int) -> dict[str, Decimal] | None:
    """The price by component: {"node": …}, or cpu, memory and gpu where they are sold apart."""
    moment = datetime.fromtimestamp(hour, UTC)
    if scenario.provider == "gcp":
        return _gcp_parts(node, moment)
    if node.pool.name == "gpu":
        return {"node": GPU_PRICE}
    if node.pool.is_spot:
        return {"node": Decimal("0.018816") if moment >= SPOT_SINCE else Decimal("0.0192")}
    if node.pool.instance_type == TIMELINE_SKU:
        return {"node": timeline_price(moment)}
    return {
        "node": {"Standard_D2s_v3": Decimal("0.096"), "Standard_E4s_v5": Decimal("0.252")}[
            node.pool.instance_type
        ]
    }


def timeline_price(moment: datetime) -> Decimal:
    """The price of `TIMELINE_SKU`: 0.192 in even ISO weeks, 5 % more in odd ones.

    "Week" runs from Wednesday 12:00 UTC to the next Wednesday 12:00 UTC.
    """
    week = (moment - timedelta(days=2, hours=12)).isocalendar().week
    return Decimal("0.192") if week % 2 == 0 else Decimal("0.2016")


def _gcp_parts(node: Node, moment: datetime) -> dict[str, Decimal] | None:
    """By component, as the pages under pages/gcp have them: per vCPU and per GiB."""
    if node.pool.name == "gpu":
        return {"node": GPU_PRICE}
    if moment < GCP_SINCE:
        return None
    family = "spot e2" if node.pool.is_spot else node.pool.instance_type.split("-")[0]
    core, ram = {
        "e2": (Decimal("0.02181159"), Decimal("0.00292353")),
        "n2": (Decimal("0.031611"), Decimal("0.004237")),
        "spot e2": (Decimal("0.01309"), Decimal("0.001754")),
    }[family]
    cores, gib = {"e2-standard-2": (2, 8), "e2-standard-4": (4, 16), "n2-highmem-4": (4, 32)}[
        node.pool.instance_type
    ]
    return {"cpu": cores * core, "memory": gib * ram}


@lru_cache(maxsize=8)
def gcp_timeline(sku: str) -> list[dict[str, Any]]:
    """The dated prices of a SKU, oldest first."""
    page = _read("gcp/reassembled_price_timeline_e2_spot_americas.json")
    for item in page["skus"]:
        if item["skuId"] == sku:
            return list(item["pricingInfo"])
    return []


def _read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((PAGES / name).read_text(encoding="utf-8"))
    return loaded


# --- Azure ----------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def azure_items() -> tuple[dict[str, Any], ...]:
    """Every row of the recorded pages once, plus the demo's own."""
    items: list[dict[str, Any]] = []
    seen: set[str] = set()
    recorded: set[tuple[str, str]] = set()
    paths = sorted(
        (PAGES / "azure").glob("*.json"), key=lambda p: ("reassembled" in p.name, p.name)
    )
    for path in paths:
        reassembled = "reassembled" in path.name
        for item in _read(f"azure/{path.name}").get("Items", ()):
            where = (item["armRegionName"], item["armSkuName"])
            if reassembled and (where in recorded or where == ("eastus", TIMELINE_SKU)):
                continue
            key = json.dumps({k: v for k, v in item.items() if k != "savingsPlan"}, sort_keys=True)
            if key in seen:
                continue
            seen.add(key)
            if _is_plain_linux(item) and not reassembled:
                recorded.add(where)
            if not item["effectiveStartDate"]:
                item = {**item, "effectiveStartDate": "2023-10-01T00:00:00Z"}
            items.append(item)
    spot = next(i for i in items if i["armSkuName"] == SPOT_SKU and _is_linux_spot(i))
    before = {
        "retailPrice": 0.0192,
        "unitPrice": 0.0192,
        "effectiveStartDate": "2023-12-01T00:00:00Z",
    }
    items.append(spot | before | {"effectiveEndDate": "2026-05-31T23:59:00Z"})
    items.extend(_timeline_rows())
    return tuple(items)


def _is_plain_linux(item: dict[str, Any]) -> bool:
    words = f"{item['skuName']} {item['meterName']}"
    return (
        item["type"] == "Consumption"
        and not item["productName"].endswith("Windows")
        and "Spot" not in words
        and "Low Priority" not in words
    )


def _is_linux_spot(item: dict[str, Any]) -> bool:
    return (
        item["armRegionName"] == "eastus"
        and item["type"] == "Consumption"
        and "Spot" in item["skuName"]
        and not item["productName"].endswith("Windows")
    )


def _timeline_rows() -> list[dict[str, Any]]:
    """The weekly price of `TIMELINE_SKU` from 2023-12 to 2030, as rows with start and end dates."""
    template = next(
        item
        for item in _read("azure/reassembled_ondemand_linux_13regions_2026-06-18.json")["Items"]
        if item["armRegionName"] == "eastus" and item["armSkuName"] == TIMELINE_SKU
    )
    rows: list[dict[str, Any]] = []
    moment = datetime(2023, 12, 6, 12, tzinfo=UTC)  # a Wednesday before the cluster was born
    assert moment.timestamp() < BIRTH
    while moment.year < 2031:
        price = float(timeline_price(moment))
        if not rows or rows[-1]["retailPrice"] != price:
            start = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            if rows:
                end = moment - timedelta(minutes=1)  # as the real API writes it: …T23:59:00Z
                rows[-1]["effectiveEndDate"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
            rows.append(
                template
                | {"retailPrice": price, "unitPrice": price, "effectiveStartDate": start}
                | {
                    "meterId": "00000000-0000-4000-8000-00000000d4d4",
                    "productId": "DEMO",
                    "skuId": "DEMO/D4S5",
                }
            )
        moment += timedelta(weeks=1)
    return rows


class FilterError(Exception):
    """An OData filter the real API refuses, too."""


TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z]+(?:/[A-Za-z]+)?)|(?P<text>'(?:[^']|'')*')|(?P<number>-?[0-9]+(?:\.[0-9]+)?)|(?P<mark>[(),]))"
)
FIELDS = {
    **{
        name.lower(): name
        for name in (
            "armRegionName",
            "location",
            "meterId",
            "meterName",
            "productId",
            "skuId",
            "productName",
            "skuName",
            "serviceName",
            "serviceId",
            "serviceFamily",
            "armSkuName",
            "currencyCode",
            "reservationTerm",
            "unitOfMeasure",
            "isPrimaryMeterRegion",
        )
    },
    "pricetype": "type",  # the field is `type` in answers and `priceType` in filters
}
PRICE_TYPES = {"Consumption", "Reservation", "DevTestConsumption", "SavingsPlan"}


def azure_filter(text: str, items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that `$filter` selects: eq, and, or, contains() and parentheses; values are
    case-sensitive. Raises FilterError for anything else."""
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text.rstrip()):
        found = TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise FilterError(text)
        tokens.append((found.lastgroup, found[found.lastgroup]))
        position = found.end()
    if sum(1 for _, value in tokens if value.lower() in ("eq", "contains")) > 20:
        raise FilterError("more than 20 comparisons")
    parser = _Filter(tokens)
    if not tokens:
        return list(items)
    test = parser.either()
    if parser.position != len(tokens):
        raise FilterError(text)
    return [item for item in items if _holds(test, item)]


class _Filter:
    """Recursive descent over the tokens; builds nested tuples."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position][1].lower() if self.position < len(self.tokens) else ""

    def take(self, kind: str = "", value: str = "") -> str:
        if self.position >= len(self.tokens):
            raise FilterError("the filter ends too early")
        found_kind, found = self.tokens[self.position]
        if (kind and found_kind != kind) or (value and found.lower() != value):
            raise FilterError(f"unexpected {found}")
        self.position += 1
        return found

    def either(self) -> tuple[Any, ...]:
        parts = [self.both()]
        while self.peek() == "or":
            self.take()
            parts.append(self.both())
        return ("or", parts)

    def both(self) -> tuple[Any, ...]:
        parts = [self.one()]
        while self.peek() == "and":
            self.take()
            parts.append(self.one())
        return ("and", parts)

    def one(self) -> tuple[Any, ...]:
        if self.peek() == "(":
            self.take()
            inside = self.either()
            self.take(value=")")
            return inside
        if self.peek() == "contains":
            self.take()
            self.take(value="(")
            field = self.field()
            self.take(value=",")
            value = self.text()
            self.take(value=")")
            return ("contains", field, value)
        field = self.field()
        self.take(value="eq")
        kind = self.tokens[self.position][0] if self.position < len(self.tokens) else ""
        value = self.text() if kind == "text" else self.take()
        if field == "type" and value not in PRICE_TYPES:
            raise FilterError(f"priceType {value}")
        return ("eq", field, value)

    def field(self) -> str:
        name = self.take("word").lower()
        if name not in FIELDS:
            raise FilterError(f"unknown field {name}")
        return FIELDS[name]

    def text(self) -> str:
        return self.take("text")[1:-1].replace("''", "'")


def _holds(test: tuple[Any, ...], item: dict[str, Any]) -> bool:
    kind = test[0]
    if kind == "or":
        return any(_holds(part, item) for part in test[1])
    if kind == "and":
        return all(_holds(part, item) for part in test[1])
    found = item.get(test[1], "")
    if isinstance(found, bool):
        found = "true" if found else "false"
    return test[2] in str(found) if kind == "contains" else str(found) == test[2]


def azure_page(base_url: str, parameters: dict[str, str]) -> tuple[int, dict[str, Any] | bytes]:
    """(status, body) of GET /api/retail/prices; page links lead back to `base_url`."""
    version = parameters.get("api-version", "")
    if version and version not in ("2021-10-01-preview", "2023-01-01-preview"):
        return 400, (PAGES / "azure/recorded_error_400_api_version.json").read_bytes()
    currency = parameters.get("currencyCode", "USD").strip("'\"") or "USD"
    try:
        skip = int(parameters.get("$skip", "0"))
        items = azure_filter(parameters.get("$filter", ""), azure_items())
    except (FilterError, ValueError):
        return 400, (PAGES / "azure/recorded_error_400_invalid_odata.json").read_bytes()
    if currency != "USD":
        items = []  # the pages were recorded in USD only
    if parameters.get("meterRegion", "").strip("'\"") == "primary":
        items = [item for item in items if item["isPrimaryMeterRegion"]]
    rows = items[skip : skip + AZURE_PAGE]
    if version != "2023-01-01-preview":
        rows = [{k: v for k, v in row.items() if k != "savingsPlan"} for row in rows]
    link = None
    if len(items) > skip + AZURE_PAGE:
        query = {key: value for key, value in parameters.items() if key != "$skip"}
        query["$skip"] = str(skip + AZURE_PAGE)
        link = f"{base_url}/api/retail/prices?{urlencode(query, quote_via=quote, safe='$')}"
    return 200, {
        "BillingCurrency": currency,
        "CustomerEntityId": "Default",
        "CustomerEntityType": "Retail",
        "Items": rows,
        "NextPageLink": link,
        "Count": len(rows),
    }


# --- Google ---------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def gcp_skus(service: str) -> tuple[dict[str, Any], ...]:
    """Every SKU of a billing service in the recorded pages."""
    if service == GKE_SERVICE:
        return tuple(_read("gcp/recorded_gke_service_skus_asia-southeast2_2025-08-08.json")["skus"])
    if service != COMPUTE_SERVICE:
        return ()
    return tuple(
        sku
        for n in (1, 2, 3)
        for sku in _read(f"gcp/reassembled_compute_skus_page{n}.json")["skus"]
    )


def gcp_page(
    service: str, parameters: dict[str, str], header_key: str = ""
) -> tuple[int, dict[str, Any] | bytes]:
    """(status, body) of GET /v1/services/<service>/skus; the key may come as a header.

    Without startTime and endTime a SKU shows its current price, with them its timeline.
    """
    if parameters.get("key", header_key) != GCP_KEY:
        return 400, (PAGES / "gcp/recorded_error_400_api_key_invalid.json").read_bytes()
    try:
        size = int(parameters.get("pageSize") or 5000)
        token = parameters.get("pageToken") or "demo-0"
        start = int(token.removeprefix("demo-"))
    except ValueError:
        return 400, _gcp_invalid("Invalid page token or page size.")
    if not 0 < size <= 5000:
        return 400, _gcp_invalid("Invalid page size.")
    skus = gcp_skus(service)
    if not skus:
        return 404, {
            "error": {
                "code": 404,
                "message": "Requested entity was not found.",
                "status": "NOT_FOUND",
            }
        }
    rows = list(skus[start : start + size])
    if "startTime" in parameters and "endTime" in parameters:
        try:
            until = datetime.fromisoformat(parameters["endTime"])
        except ValueError:
            return 400, _gcp_invalid("Invalid endTime.")
        rows = [_with_timeline(sku, until) for sku in rows]
    following = start + size
    return 200, {
        "skus": rows,
        "nextPageToken": f"demo-{following}" if following < len(skus) else "",
    }


def _with_timeline(sku: dict[str, Any], until: datetime) -> dict[str, Any]:
    entries = gcp_timeline(sku["skuId"])
    shown = [e for e in entries if datetime.fromisoformat(e["effectiveTime"]) <= until]
    if not shown:
        return sku
    changed = deepcopy(sku)
    changed["pricingInfo"] = shown
    return changed


def _gcp_invalid(message: str) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


# --- AWS ------------------------------------------------------------------------------------

AWS_OFFERS = {
    ("AmazonEC2", "eu-west-1"): "aws/reassembled_offer_AmazonEC2_eu-west-1_2023-02-23.json",
}
AWS_QUERIES = (
    "aws/reassembled_query_AmazonEC2_us-east-1_2026-07-20.json",
    "aws/recorded_query_GetProducts_af-south-1_2024.json",
    "aws/reassembled_query_AmazonEKS_us-east-1_2026-09.json",
)


def aws_offer(service: str, region: str) -> tuple[int, dict[str, Any] | bytes]:
    """(status, body) of GET /offers/v1.0/aws/<service>/<version>/<region>/index.json.

    A region that was recorded in pages of GetProducts is put into the shape of an offer file.
    """
    name = AWS_OFFERS.get((service, region))
    if name:
        return 200, (PAGES / name).read_bytes()
    products: dict[str, Any] = {}
    terms: dict[str, Any] = {}
    for entry in _aws_entries():
        product = entry["product"]
        if (entry["serviceCode"], product["attributes"].get("regionCode")) == (service, region):
            products[product["sku"]] = product
            terms[product["sku"]] = entry["terms"].get("OnDemand", {})
    if not products:
        return 403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    return 200, {
        "formatVersion": "v1.0",
        "offerCode": service,
        "version": "20260720134430",
        "publicationDate": "2026-07-20T13:44:30Z",
        "products": products,
        "terms": {"OnDemand": terms},
    }


def aws_products(body: str) -> tuple[int, dict[str, Any]]:
    """(status, body) of GetProducts, 100 products a page: the filters are equalities of attributes."""
    try:
        asked = json.loads(body)
        wanted = {f["Field"]: f["Value"] for f in asked.get("Filters", [])}
        start = int(asked.get("NextToken") or 0)
        service = asked["ServiceCode"]
    except (ValueError, KeyError, TypeError):
        return 400, {"__type": "InvalidParameterException", "message": "The request is not valid."}
    found = [
        json.dumps(entry, separators=(",", ":"))
        for entry in _aws_entries()
        if entry["serviceCode"] == service
        and all(entry["product"]["attributes"].get(k) == v for k, v in wanted.items())
    ]
    page = found[start : start + 100]
    following = start + len(page)
    return 200, {
        "FormatVersion": "aws_v1",
        "NextToken": str(following) if following < len(found) else None,
        "PriceList": page,
    }


@lru_cache(maxsize=1)
def _aws_entries() -> tuple[dict[str, Any], ...]:
    """Every recorded product with its terms, in the shape of GetProducts."""
    entries = [json.loads(text) for name in AWS_QUERIES for text in _read(name)["PriceList"]]
    for (service, _), name in AWS_OFFERS.items():
        offer = _read(name)
        for sku, product in offer["products"].items():
            terms = {"OnDemand": offer["terms"]["OnDemand"].get(sku, {})}
            entries.append({"product": product, "serviceCode": service, "terms": terms})
    return tuple(entries)
