"""AWS prices over a real socket: the streamed offer file and the signed query."""

import gzip
import json
import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from price_pages import AT, key, page
from price_server import Server

from kubetally.demo.server import DemoServer
from kubetally.errors import BadDataError, SourceError
from kubetally.prices.fetch_aws import (
    AwsOfferFiles,
    AwsProducts,
    from_connection,
    signed_headers,
)
from kubetally.prices.quote import Priced, Unpriced

OFFER = page("aws/reassembled_offer_AmazonEC2_eu-west-1_2023-02-23.json")
M5 = key("aws", "eu-west-1", "m5.large")
T3 = key("aws", "eu-west-1", "t3.medium")
PATH = "/offers/v1.0/aws/AmazonEC2/current/eu-west-1/index.json"


@pytest.fixture
def server():
    found = Server()
    yield found
    found.close()


def test_a_region_s_file_is_read_once_for_all_types_announced(server):
    server.answer = lambda *_: (200, OFFER, {})
    source = AwsOfferFiles(server.client())
    source.announce([M5, T3, key("aws", "eu-west-1", "m5.large", "windows")])
    prices = []
    for wanted in (M5, T3, key("aws", "eu-west-1", "m5.large", "windows")):
        quote, snapshot = source.quote(wanted, AT)
        assert isinstance(quote, Priced)
        assert snapshot is not None
        assert snapshot.url == server.url + PATH
        assert json.loads(snapshot.payload)["offerCode"] == "AmazonEC2"
        prices.append(quote.price_per_hour(AT))
    assert prices == [Decimal("0.107"), Decimal("0.0456"), Decimal("0.199")]
    assert [path for path, _, _ in server.asked] == [PATH]


def test_a_type_that_was_not_announced_costs_another_pass(server):
    server.answer = lambda *_: (200, OFFER, {})
    source = AwsOfferFiles(server.client())
    for wanted in (M5, T3, M5):
        assert isinstance(source.quote(wanted, AT)[0], Priced)
    assert len(server.asked) == 2


def test_spot_asks_nothing(server):
    quote, snapshot = AwsOfferFiles(server.client()).quote(
        key("aws", "eu-west-1", "m5.large", market="spot"), AT
    )
    assert isinstance(quote, Unpriced)
    assert snapshot is None
    assert server.asked == []


def test_a_compressed_body_is_unpacked_and_a_truncated_one_read_again(server):
    packed = gzip.compress(OFFER)
    answers = [
        (200, packed[:-100], {"Content-Encoding": "gzip", "Content-Length": str(len(packed))}),
        (503, b"", {"Retry-After": "1"}),
        (200, packed, {"Content-Encoding": "gzip"}),
    ]
    server.answer = lambda *_: answers.pop(0)
    client = server.client(attempts=3, timeout_seconds=(1, 0.5))
    quote, _ = AwsOfferFiles(client).quote(M5, AT)
    assert isinstance(quote, Priced)
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ((500, b"", {}), SourceError, "status 500"),
        ((429, b"", {}), SourceError, "status 429"),
        ((403, b"<Error/>", {}), BadDataError, "answered 403"),
        ((302, b"", {"Location": "https://evil.example/"}), BadDataError, "redirect"),
        ((200, OFFER[:-50], {}), BadDataError, "known form"),
        ((200, OFFER[:-50], {"Content-Length": str(len(OFFER))}), SourceError, "failed 2 times"),
        ((200, b"<html>busy</html>", {}), BadDataError, "known form"),
        ((200, b'{"items": []}', {}), BadDataError, "no products"),
    ],
)
def test_a_file_that_cannot_be_read_whole_is_an_error_and_asked_for_once(
    server, answer, error, said
):
    server.answer = lambda *_: answer
    source = AwsOfferFiles(server.client(attempts=2, timeout_seconds=(1, 0.3)))
    asked = 0
    for wanted in (M5, T3):
        with pytest.raises(error, match=said):
            source.quote(wanted, AT)
        asked = asked or len(server.asked)
    assert len(server.asked) == asked, "the failure is remembered for the region"


def test_the_signature_is_that_of_the_published_test_suite():
    """aws-sig-v4-test-suite: get-vanilla and post-vanilla."""
    for method, signature in (
        ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    ):
        headers = signed_headers(
            host="example.amazonaws.com",
            body=b"",
            access_key="AKIDEXAMPLE",
            secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            at=datetime(2015, 8, 30, 12, 36, tzinfo=UTC),
            service="service",
            method=method,
        )
        assert headers["authorization"].endswith(f"Signature={signature}")


def products(server, **options):
    return AwsProducts(server.client(attempts=1), "AKIDEXAMPLE", "not-a-secret", **options)


def test_get_products_is_followed_to_its_last_token(server):
    body = json.loads(page("aws/reassembled_query_AmazonEC2_us-east-1_2026-07-20.json"))

    def answer(_path, _query, headers):
        asked = json.loads(headers["body"])
        first = "NextToken" not in asked
        rows = body["PriceList"][:2] if first else body["PriceList"][2:]
        token = "next" if first else None
        return 200, json.dumps({**body, "PriceList": rows, "NextToken": token}).encode(), {}

    server.answer = answer
    quote, snapshot = products(server).quote(key("aws", "us-east-1", "m5.large"), AT)
    assert isinstance(quote, Priced)
    assert quote.price_per_hour(AT) == Decimal("0.096")
    assert len(server.asked) == 2
    first = json.loads(server.asked[0][2]["body"])
    assert first["ServiceCode"] == "AmazonEC2"
    assert {f["Field"]: f["Value"] for f in first["Filters"]} == {
        "regionCode": "us-east-1",
        "instanceType": "m5.large",
    }
    assert re.match(
        r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/", server.asked[0][2]["authorization"]
    )
    assert snapshot is not None
    assert "not-a-secret" not in snapshot.url + repr(products(server))


def test_tokens_without_end_and_refusals_are_errors(server):
    body = page("aws/reassembled_query_AmazonEC2_us-east-1_2026-07-20.json")
    server.answer = lambda *_: (
        200,
        json.dumps({**json.loads(body), "NextToken": "x"}).encode(),
        {},
    )
    wanted = key("aws", "us-east-1", "m5.large")
    with pytest.raises(BadDataError, match="does not end"):
        products(server).quote(wanted, AT)
    server.answer = lambda *_: (400, b'{"__type": "X", "message": "The token is expired"}', {})
    with pytest.raises(BadDataError, match="The token is expired"):
        products(server).quote(wanted, AT)


@pytest.mark.parametrize(("login", "kind"), [("", AwsOfferFiles), ("AKIDEXAMPLE", AwsProducts)])
def test_the_connection_decides_how_prices_are_read(monkeypatch, login, kind):
    with DemoServer() as demo:
        connection = {"conn_type": "http", "host": demo.url, "login": login, "password": "x"}
        monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_AWS_PRICES", json.dumps(connection))
        source = from_connection()
        assert isinstance(source, kind)
        for machine, region, expected in (
            ("m5.large", "eu-west-1", "0.107"),
            ("m5.large", "us-east-1", "0.096"),
        ):
            quote, _ = source.quote(key("aws", region, machine), AT)
            assert isinstance(quote, Priced)
            assert quote.price_per_hour(AT) == Decimal(expected)
