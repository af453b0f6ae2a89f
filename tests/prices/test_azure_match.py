"""Which row of an Azure price page is a node's price: every decoy that has ever been taken for it."""

from decimal import Decimal

import msgspec
import pytest
from price_pages import AT, azure_items, key, page, utc

from kubetally.errors import BadDataError
from kubetally.prices import azure
from kubetally.prices.quote import Ambiguous, Priced, Unpriced
from oracles.by_hand import cases

D2S = ("recorded_eastus_D2s_v3_all_types_preview.json",)
FRANCE = ("francecentral_vm_2021-12_page1.json", "francecentral_vm_2021-12_page2.json")
UNFILTERED = ("unfiltered_first_page_2026-08-22.json",)
CLOUD_SERVICES = ("australiacentral_B16als_v2_cloudservices_trap.json",)
LINUX = key("azure", "eastus", "Standard_D2s_v3")


def item(**fields):
    """A plain on-demand Linux row of Standard_D2s_v3 in eastus, with `fields` changed."""
    return azure.Item(
        **{
            "retail_price": Decimal("0.096"),
            "currency_code": "USD",
            "arm_region_name": "eastus",
            "arm_sku_name": "Standard_D2s_v3",
            "service_name": "Virtual Machines",
            "product_name": "Virtual Machines DSv3 Series",
            "sku_name": "D2s v3",
            "meter_name": "D2s v3",
            "meter_id": "m-1",
            "type": "Consumption",
            "unit_of_measure": "1 Hour",
            "effective_start_date": "2017-12-15T00:00:00Z",
            **fields,
        }
    )


def price(items, wanted, at=AT):
    found = azure.match(items, wanted, at)
    assert isinstance(found, Priced), found
    return found.price_per_hour(at)


@pytest.mark.parametrize(
    ("names", "wanted", "expected"),
    [
        pytest.param(D2S, LINUX, "0.096", id="seed: skuName filter gave 0.0"),
        pytest.param(
            D2S,
            key("azure", "eastus", "Standard_D2s_v3", market="spot"),
            "0.018816",
            id="opencost #3226 #3259: Spot, not Low Priority 0.019, not 0.096",
        ),
        pytest.param(
            D2S,
            key("azure", "eastus", "Standard_D2s_v3", "windows"),
            "0.188",
            id="not DevTest 0.096",
        ),
        pytest.param(
            ("recorded_eastus_D2als_v7_all_types_preview.json",),
            key("azure", "eastus", "Standard_D2als_v7"),
            "0.0804",
            id="opencost PR 3531: a reservation total is no hourly price",
        ),
        pytest.param(
            FRANCE,
            key("azure", "francecentral", "Standard_E4-2s_v3"),
            "0.312",
            id="infracost #756: a constrained size costs its parent",
        ),
        pytest.param(
            FRANCE,
            key("azure", "francecentral", "standard_d2s_V3"),
            "0.112",
            id="opencost PR 2208: case of the label",
        ),
        pytest.param(
            FRANCE,
            key("azure", "francecentral", "Standard_B1s"),
            "0.0118",
            id="infracost #1626: the free meter is no price",
        ),
    ],
)
def test_the_right_row_of_a_recorded_page_wins(names, wanted, expected):
    assert price(azure_items(*names), wanted) == Decimal(expected)


@pytest.mark.claims("PR-03")
def test_spot_windows_and_linux_rows_of_one_type_are_told_apart():
    """kube-opex-analytics: the last row won."""
    case = cases()["PR-03"]
    rows = [
        item(
            sku_name=row["skuName"],
            type=row["type"],
            product_name=row.get("productName", "Virtual Machines DSv3 Series"),
            retail_price=Decimal(row["price"]),
        )
        for row in case["given"]["azure"]
    ]
    wanted = key("azure", "eastus", "Standard_D2s_v3", case["given"]["node_os"])
    for order in (rows, rows[::-1]):
        assert price(order, wanted) == Decimal(case["expect"])


def test_azure_spot_without_spot_rows_is_unpriced_not_on_demand():
    found = azure.match(
        azure_items(*FRANCE), key("azure", "francecentral", "Standard_B2s", market="spot"), AT
    )
    assert isinstance(found, Unpriced)
    assert "spot" in found.reason


def test_cloud_services_rows_never_win():
    """karpenter-provider-azure's table flips between 0.390 and 0.206 because of them."""
    wanted = key("azure", "australiacentral", "Standard_B16als_v2")
    rows = azure_items(*CLOUD_SERVICES)
    decoys = [row for row in rows if "Cloud" in row.product_name and row.type == "Consumption"]
    assert decoys
    assert all(azure.why_not(row, wanted) for row in decoys)
    for order in (rows, rows[::-1]):
        assert price(order, wanted) not in {row.retail_price for row in decoys}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"arm_sku_name": "Standard_D4s_v3"}, "is for Standard_D4s_v3"),
        ({"arm_sku_name": ""}, "no instance type"),
        ({"arm_region_name": "westus"}, "region westus"),
        ({"service_name": "Cloud Services"}, "belongs to"),
        ({"type": "Reservation", "reservation_term": "1 Year"}, "whole term"),
        ({"type": "DevTestConsumption"}, "DevTestConsumption"),
        ({"product_name": "Basv2 Series Cloud Services"}, "Cloud Services"),
        ({"product_name": "Easv5 Series CloudServices"}, "Cloud Services"),
        ({"product_name": "Dsv3 Series Dedicated Host"}, "Dedicated Host"),
        ({"sku_name": "D2s v3 Low Priority"}, "Low Priority"),
        ({"meter_name": "DC48adsv6 Low Priority"}, "Low Priority"),
        ({"product_name": "Virtual Machines DSv3 Series Windows"}, "Windows"),
        ({"meter_name": "D2s v3 Spot"}, "spot price"),
        ({"sku_name": "Standard_D4s_v5 Spot"}, "spot price"),
        ({"meter_name": "D2s v3 - Free"}, "free"),
        ({"retail_price": Decimal("0.0")}, "free or has no price"),
        ({"unit_of_measure": "1/Month"}, "per 1/Month"),
        ({"tier_minimum_units": Decimal(100)}, "tier"),
        (
            {
                "effective_start_date": "2026-10-01T00:00:00Z",
                "effective_end_date": "2026-09-30T23:59:00Z",
            },
            "ends before",
        ),
    ],
)
def test_every_decoy_is_dropped_for_a_named_reason(changed, reason):
    decoy = item(**changed)
    assert reason in azure.why_not(decoy, LINUX)
    assert price([decoy, item()], LINUX) == Decimal("0.096")
    assert isinstance(azure.match([decoy], LINUX, AT), Unpriced)


@pytest.mark.parametrize(
    "kept",
    [
        {"product_name": "DCasv5-series Linux"},
        {"product_name": " Virtual Machines DSv3 Series "},  # infracost/cloud-pricing-api PR 105
        {"meter_name": "D2 v2/DS2 v2"},
        {"arm_region_name": "EastUS", "arm_sku_name": "standard_D2S_v3 "},
    ],
)
def test_odd_names_of_the_right_row_are_kept(kept):
    assert azure.why_not(item(**kept), LINUX) == ""


def test_the_primary_region_flag_says_nothing():
    """The right row of D2s_v3 has it false; with meterRegion='primary' only Spot rows come back."""
    rows = azure_items("recorded_eastus_D2s_v3_meterRegion_primary.json")
    assert isinstance(azure.match(rows, LINUX, AT), Unpriced)


def test_two_prices_at_once_are_ambiguous_whatever_their_order():
    rows = [item(), item(retail_price=Decimal("0.2"), meter_id="m-2")]
    for order in (rows, rows[::-1]):
        found = azure.match(order, LINUX, AT)
        assert isinstance(found, Ambiguous)
        assert [part.unit_price for part in found.candidates] == [Decimal("0.096"), Decimal("0.2")]
        assert "0.096" in found.reason
        assert "0.2" in found.reason


def test_the_same_price_twice_is_one_price():
    assert price([item(), item(meter_id="m-2")], LINUX) == Decimal("0.096")


def test_no_recorded_type_of_a_whole_region_is_ambiguous():
    rows = azure_items(*FRANCE)
    for machine in {row.arm_sku_name for row in rows if row.arm_sku_name}:
        for os in ("linux", "windows"):
            for market in ("on_demand", "spot"):
                found = azure.match(rows, key("azure", "francecentral", machine, os, market), AT)
                assert not isinstance(found, Ambiguous), found


def test_effective_dates_make_a_timeline_on_whole_hours():
    """`T23:59:00Z` is how the API writes the end of a day."""
    rows = [
        item(
            retail_price=Decimal("0.1"),
            effective_start_date="2026-01-01T00:00:00Z",
            effective_end_date="2026-08-31T23:59:00Z",
        ),
        item(effective_start_date="2026-09-01T00:00:00Z", meter_id="m-2"),
    ]
    found = azure.match(rows, LINUX, AT)
    assert isinstance(found, Priced)
    assert found.price_per_hour(utc(2026, 8, 31, 23)) == Decimal("0.1")
    assert found.price_per_hour(utc(2026, 9, 1)) == Decimal("0.096")
    assert found.at(utc(2025, 12, 31, 23)) == ()


def test_recorded_end_dates_are_kept():
    ended = [row for row in azure_items(*UNFILTERED) if row.effective_end_date]
    assert ended
    for row in ended:
        part = azure.component(row)
        assert part.valid_until is not None
        assert part.valid_until.minute == part.valid_until.second == 0


def test_a_later_price_of_the_same_meter_takes_over_from_an_open_one():
    rows = [item(), item(retail_price=Decimal("0.1"), effective_start_date="2026-12-01T00:00:00Z")]
    found = azure.match(rows, LINUX, AT)
    assert isinstance(found, Priced)
    assert found.price_per_hour(AT) == Decimal("0.096")
    assert found.price_per_hour(utc(2026, 12, 1)) == Decimal("0.1")


def test_a_price_keeps_its_own_currency():
    (row,) = azure_items("msdocs_sample_item_eur.json")
    assert azure.component(row).currency == "EUR"


def test_prices_are_decoded_from_their_text_not_through_float():
    body = msgspec.json.encode({"Items": [], "Count": 0})
    row = page("azure/recorded_eastus_B1s_all_types_preview.json")
    assert azure.decode_page(body).Items == []
    for found in azure.decode_page(row).Items:
        assert isinstance(found.retail_price, Decimal)
        assert str(found.retail_price).encode() in row


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"Items":[', "truncated"),
        (b"<html>busy</html>", "malformed"),
        (b'{"Count":0}', "Items"),
        (b'{"Items":[{"armSkuName":"x"}],"Count":1}', "retailPrice"),
        (b'{"Items":[],"Count":3}', "Count 3"),
    ],
)
def test_a_changed_or_truncated_page_is_an_error(body, said):
    with pytest.raises(BadDataError, match=said):
        azure.decode_page(body)


def test_a_start_date_that_is_none_is_an_error():
    row = page("azure/recorded_northeurope_B1s_consumption.json")
    with pytest.raises(BadDataError, match="soon"):
        azure.decode_page(row.replace(b"T00:00:00Z", b" soon"))
