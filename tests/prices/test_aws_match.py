"""Which product of the AWS price list is a node's price, in both shapes of the list."""

import json
from decimal import Decimal

import pytest
from price_pages import AT, key, node, page, utc

from kubetally.errors import BadDataError
from kubetally.prices import aws
from kubetally.prices.key import LookupKey, lookup_key
from kubetally.prices.quote import Ambiguous, Priced, Unpriced

OFFER = page("aws/reassembled_offer_AmazonEC2_eu-west-1_2023-02-23.json")
QUERY = page("aws/reassembled_query_AmazonEC2_us-east-1_2026-07-20.json")
GET_PRODUCTS = page("aws/recorded_query_GetProducts_af-south-1_2024.json")
LINUX = key("aws", "eu-west-1", "m5.large")
ALL = aws.read_offer_file([OFFER], lambda _: True).offers
M5 = [offer for offer in ALL if offer.product.says("instanceType") == "m5.large"]


def price(offers, wanted, at=AT):
    found = aws.match(offers, wanted, at)
    assert isinstance(found, Priced), found
    return found.price_per_hour(at)


@pytest.mark.parametrize(
    ("machine", "os", "expected"),
    [
        ("m5.large", "linux", "0.107"),
        ("m5.large", "windows", "0.199"),
        ("t3.medium", "linux", "0.0456"),
        ("m6g.large", "linux", "0.086"),
        ("g4dn.xlarge", "linux", "0.587"),
    ],
)
def test_the_shared_machine_without_extras_wins(machine, os, expected):
    for order in (ALL, ALL[::-1]):
        assert price(order, key("aws", "eu-west-1", machine, os)) == Decimal(expected)


def test_every_decoy_of_a_real_type_is_dropped_for_a_named_reason():
    reasons = {
        offer.product.sku: aws.why_not(offer, LINUX) for offer in M5 if aws.why_not(offer, LINUX)
    }
    assert len(reasons) == len(M5) - 1
    for said in ("tenancy Dedicated", "tenancy Host", "SQL Std", "is for Windows", "is for RHEL"):
        assert any(said in reason for reason in reasons.values()), said
    for said in ("AllocatedCapacityReservation", "UnusedCapacityReservation"):
        assert any(said in reason for reason in reasons.values()), said


def test_the_windows_machine_with_a_licence_of_one_s_own_is_another_product():
    windows = key("aws", "eu-west-1", "m5.large", "windows")
    own = [o for o in M5 if o.product.says("licenseModel") == "Bring your own license"]
    used = [o for o in own if o.product.says("capacitystatus") == "Used"]
    assert used
    for offer in own:
        assert aws.why_not(offer, windows)


def test_spot_is_unpriced_and_never_the_on_demand_price():
    """opencost #882: 0.007 for an m4.2xlarge on spot."""
    found = aws.match(ALL, key("aws", "eu-west-1", "m5.large", market="spot"), AT)
    assert isinstance(found, Unpriced)
    assert "no spot prices" in found.reason


def test_a_reservation_nobody_uses_is_no_price_of_a_node():
    """The recorded page holds an UnusedCapacityReservation and a disk."""
    offers, token = aws.decode_products_page(GET_PRODUCTS)
    assert token == ""
    found = aws.match(offers, key("aws", "af-south-1", "c5ad.2xlarge"), AT)
    assert isinstance(found, Unpriced)
    assert "none of the 2 products" in found.reason


def test_both_shapes_give_the_same_offers():
    entries = [
        json.dumps(
            {
                "product": json.loads(OFFER)["products"][offer.product.sku],
                "serviceCode": "AmazonEC2",
                "terms": {"OnDemand": json.loads(OFFER)["terms"]["OnDemand"][offer.product.sku]},
            }
        )
        for offer in M5
    ]
    body = json.dumps({"FormatVersion": "aws_v1", "PriceList": entries, "NextToken": "t"}).encode()
    offers, token = aws.decode_products_page(body)
    assert token == "t"
    assert offers == M5


def test_prices_differ_by_region_and_the_page_s_dates_are_kept():
    offers, _ = aws.decode_products_page(QUERY)
    wanted = key("aws", "us-east-1", "m5.large")
    assert price(offers, wanted) == Decimal("0.096")
    found = aws.match(offers, wanted, AT)
    assert isinstance(found, Priced)
    assert {part.valid_from for part in found.components} == {utc(2026, 7, 20, 14)}
    assert isinstance(aws.match(offers, LINUX, AT), Unpriced)


def changed(**fields):
    """The right product of m5.large with attributes, price or unit changed."""
    body = json.loads(OFFER)
    sku = "FP7Z96TTU3VFSX2H"
    product, terms = body["products"][sku], body["terms"]["OnDemand"][sku]
    for name, value in fields.items():
        if name == "price":
            next(iter(next(iter(terms.values()))["priceDimensions"].values()))["pricePerUnit"] = (
                value
            )
        elif name == "unit":
            next(iter(next(iter(terms.values()))["priceDimensions"].values()))["unit"] = value
        elif name == "sku":
            product["sku"] = value
        else:
            product["attributes"][name] = value
    file = {"products": {sku: product}, "terms": {"OnDemand": {sku: terms}}}
    return aws.read_offer_file([json.dumps(file).encode()], lambda _: True).offers[0]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"marketoption": "Spot"}, "marketoption Spot"),
        ({"locationType": "AWS Local Zone"}, "AWS Local Zone"),
        ({"price": {"USD": "0.0000000000"}}, "is free"),
        ({"unit": "GB-Mo"}, "no price per hour"),
        ({"regionCode": "eu-west-2"}, "region eu-west-2"),
        ({"instanceType": "m5.xlarge"}, "is for m5.xlarge"),
    ],
)
def test_what_is_not_a_plain_machine_is_dropped(fields, reason):
    assert reason in aws.why_not(changed(**fields), LINUX)


def test_china_is_priced_in_its_own_currency():
    found = aws.match([changed(price={"CNY": "0.9"})], LINUX, AT)
    assert isinstance(found, Priced)
    assert [(p.unit_price, p.currency) for p in found.components] == [(Decimal("0.9"), "CNY")]


def test_two_different_prices_are_ambiguous():
    found = aws.match([changed(), changed(sku="OTHER", price={"USD": "0.2"})], LINUX, AT)
    assert isinstance(found, Ambiguous)
    assert "0.2 (OTHER)" in found.reason


def test_only_what_is_wanted_is_kept_of_a_file_and_the_extract_reads_like_the_file():
    keep = aws.of_instance_types(["m5.large"])
    file = aws.read_offer_file((OFFER[at : at + 1000] for at in range(0, len(OFFER), 1000)), keep)
    assert (file.products_seen, len(file.offers), file.size_bytes) == (104, len(M5), len(OFFER))
    again = aws.read_offer_file([file.extract(keep)], keep)
    assert again.offers == file.offers
    assert json.loads(file.extract(keep))["sha256OfTheWholeFile"] == file.sha256


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (OFFER[:-10], "not in the known form"),
        (OFFER[:40_000], "not in the known form"),
        (b"{}", "no products and no terms"),
        (b'{"products": {}, "terms": {"OnDemand": {}}}', "has no products"),
        (b'{"terms": {"OnDemand": {}}, "products": {}}', "terms before its products"),
        (b'{"products": {"A": {"attributes": {}}}, "terms": {}}', "sku"),
        (b'{"products": {"A": {"sku": 5}}, "terms": {}}', "sku"),
        (OFFER.replace(b'"0.1070000000"', b'"cheap"'), "'cheap' is not a price"),
        (OFFER.replace(b"2023-02-01T00:00:00Z", b"last week"), "last week"),
        (OFFER.replace(b"priceDimensions", b"prices"), "priceDimensions"),
    ],
)
def test_a_truncated_or_changed_file_is_an_error(body, said):
    with pytest.raises(BadDataError, match="offer file") as error:
        aws.read_offer_file([body], lambda _: True)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "body", [b'{"PriceList": ["{"]}', b'{"Prices": []}', b'{"PriceList": ["{}"]}', b"busy"]
)
def test_a_changed_page_of_products_is_an_error(body):
    with pytest.raises(BadDataError, match="AWS price page is not in the known form"):
        aws.decode_products_page(body)


def fargate(usagetype, amount, unit="hours"):
    product = aws.Product(
        sku=usagetype, attributes={"usagetype": usagetype, "regionCode": "us-east-1"}
    )
    dimension = aws.Dimension(unit=unit, price_per_unit={"USD": amount})
    term = aws.Term(effective_date="2024-01-01T00:00:00Z", price_dimensions={"x": dimension})
    return aws.Offer(product, (term,))


def test_fargate_has_rates_per_vcpu_and_gib_and_other_architectures_are_told_apart():
    """Usage types as documented; the rates are made up, none were recorded."""
    offers = [
        fargate("USE1-Fargate-vCPU-Hours:perCPU", "0.04"),
        fargate("USE1-Fargate-GB-Hours", "0.005", "GB-Hours"),
        fargate("USE1-Fargate-ARM-vCPU-Hours:perCPU", "0.9"),
        fargate("USE1-Fargate-ARM-GB-Hours", "0.9"),
        fargate("USE1-Fargate-EphemeralStorage-GB-Hours", "0.9"),
    ]
    wanted = lookup_key(node(region="us-east-1", is_virtual=True), provider="aws")
    assert isinstance(wanted, LookupKey)
    found = aws.match(offers, wanted, AT)
    assert isinstance(found, Priced)
    rates = {part.component: part.unit_price for part in found.components}
    assert rates == {"cpu": Decimal("0.04"), "memory": Decimal("0.005")}
    assert isinstance(aws.match(offers[:1], wanted, AT), Unpriced)
