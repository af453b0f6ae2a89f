"""The nodes of node_prices.json get exactly the price that their recorded page holds."""

import json
import re
from datetime import datetime
from decimal import Decimal

import pytest
from price_pages import AT, COMPUTE_PAGES, DECOYS, azure_items, gcp_skus, node, page, utc

from kubetally.prices import azure, gcp
from kubetally.prices.key import LookupKey, lookup_key
from kubetally.prices.quote import Priced
from kubetally.prices.resolve import resolve
from kubetally.prices.sheet import parse
from kubetally.windows import Window

PROVIDERS = {"AZ": "azure", "GCP": "gcp", "AWS": "aws"}
CASES = json.loads(page("node_prices.json"))["cases"]
LISTED = [case for case in CASES if case["fixture"].startswith(("azure/", "gcp/"))]
TOTALS_ONLY = [case for case in CASES if case["fixture"].startswith("(total only")]


def moment(text: str) -> datetime:
    """`2024-10-01`, `2021-12` or `-`: the end of the day, the middle of the month, any time."""
    found = re.match(r"(\d{4})-(\d\d)(?:-(\d\d))?", text)
    return utc(int(found[1]), int(found[2]), int(found[3] or 15), 23) if found else AT


def facts(case):
    gpus = re.search(r"\+ (\d+)x", case["capacity"])
    return node(labels=case["labels"], gpu_capacity=Decimal(gpus[1]) if gpus else None)


def quote(case):
    provider, at = PROVIDERS[case["cloud"]], moment(case["price_date"])
    key = lookup_key(facts(case), provider=provider)
    assert isinstance(key, LookupKey), key
    name = case["fixture"]
    if provider == "azure":
        names = [name.removeprefix("azure/")]
        if "_page1" in name:
            names.append(names[0].replace("_page1", "_page2"))
        return azure.match(azure_items(*names), key, at), at
    alone = "recorded" in name or "timeline" in name
    return gcp.match(gcp_skus(*([name] if alone else [*COMPUTE_PAGES, DECOYS])), key, at), at


@pytest.mark.parametrize("case", LISTED, ids=lambda case: case["id"])
def test_the_recorded_page_gives_the_expected_price_to_the_last_digit(case):
    found, at = quote(case)
    if case["expected_hourly_exact"] is None:
        assert not isinstance(found, Priced)
        return
    assert isinstance(found, Priced), found
    assert found.price_per_hour(at) == Decimal(case["expected_hourly_exact"])
    assert {part.currency for part in found.components} == {case["currency"]}


def test_no_row_is_lost():
    assert (len(LISTED), len(TOTALS_ONLY), len(CASES)) == (55, 5, 66)


@pytest.mark.parametrize("case", TOTALS_ONLY, ids=lambda case: case["id"])
def test_a_type_without_a_recorded_page_is_unpriced_and_can_be_priced_by_a_sheet(case):
    machine = case["labels"]["node.kubernetes.io/instance-type"]
    at = moment(case["price_date"])
    key = lookup_key(facts(case), provider="gcp")
    assert isinstance(key, LookupKey)
    assert not isinstance(gcp.match(gcp_skus(*COMPUTE_PAGES, DECOYS), key, at), Priced)
    sheet = parse(
        f"""prices: [{{match: {{instance_type: {machine}}},
                      price_per_hour: "{case["expected_hourly_exact"]}"}}]""".encode(),
        "sheet.yaml",
    )
    (price,) = resolve(facts(case), Window.of_hour(at), key=key, sheet=sheet)
    assert price.price_per_hour == Decimal(case["expected_hourly_exact"])
