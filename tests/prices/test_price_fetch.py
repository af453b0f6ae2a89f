"""The price APIs over a real socket: pagination to its end, throttling, refusals, no half answers."""

import json
import logging
from collections.abc import Iterator
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from price_pages import AT, COMPUTE_PAGES, DECOYS, azure_items, key, node, page, utc
from price_server import Server

from kubetally.demo.server import DemoServer
from kubetally.errors import BadDataError, ConfigError, KubetallyError, SourceError
from kubetally.http import HttpClient
from kubetally.prices.fetch import AzurePrices, GcpPrices, _same_host, months_between
from kubetally.prices.key import LookupKey, lookup_key
from kubetally.prices.quote import Priced, Unpriced

SECRET = "AIza-not-a-real-key"
D2S = key("azure", "eastus", "Standard_D2s_v3")
E2 = key("gcp", "us-central1", "e2-standard-4")


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def azure_body(items, link=None):
    return json.dumps({"Items": items, "NextPageLink": link, "Count": len(items)}).encode()


ROWS = json.loads(page("azure/recorded_eastus_D2s_v3_all_types_preview.json"))["Items"]


def two_azure_pages(server, last_link=None):
    """The recorded rows on two pages, linked the way the API does."""

    def answer(_path, query, _headers):
        if "$skip" in query:
            return 200, azure_body(ROWS[5:], last_link), {}
        return 200, azure_body(ROWS[:5], f"{server.url}/api/retail/prices?$filter=x&$skip=5"), {}

    return answer


@pytest.mark.parametrize("end", [None, ""])
def test_azure_pages_are_followed_to_the_end_marker(server, end):
    server.answer = two_azure_pages(server, end)
    quote, snapshot = AzurePrices(server.client()).quote(D2S, AT)
    assert isinstance(quote, Priced)
    assert str(quote.price_per_hour(AT)) == "0.096"
    assert len(server.asked) == 2
    assert len(snapshot.payload.splitlines()) == 2


def test_azure_is_asked_by_arm_names(server):
    server.answer = two_azure_pages(server)
    _, snapshot = AzurePrices(server.client()).quote(D2S, AT)
    path, query, _ = server.asked[0]
    assert path == "/api/retail/prices"
    assert query["$filter"] == (
        "armRegionName eq 'eastus' and armSkuName eq 'Standard_D2s_v3'"
        " and serviceName eq 'Virtual Machines' and priceType eq 'Consumption'"
    )
    assert snapshot.url.startswith(server.url)


def test_variants_of_one_type_share_one_query(server):
    server.answer = two_azure_pages(server)
    source = AzurePrices(server.client())
    for os, market in (("linux", "on_demand"), ("windows", "on_demand"), ("linux", "spot")):
        source.quote(key("azure", "eastus", "Standard_D2s_v3", os, market), AT)
    assert len(server.asked) == 2


def test_a_spelling_the_api_does_not_know_is_looked_up_in_the_region(server):
    """opencost PR 2208: Standard_NC4as_t4_v3 returns nothing, Standard_NC4as_T4_v3 does."""

    def answer(_path, query, _headers):
        wanted = query["$filter"]
        if "armSkuName" not in wanted or "'Standard_D2s_v3'" in wanted:
            return 200, azure_body(ROWS), {}
        return 200, page("azure/recorded_empty_count0.json"), {}

    server.answer = answer
    quote, _ = AzurePrices(server.client()).quote(key("azure", "eastus", "standard_d2S_V3"), AT)
    assert isinstance(quote, Priced)
    assert len(server.asked) == 3


def test_an_unknown_type_is_unpriced_never_zero(server):
    server.answer = lambda *_: (200, page("azure/recorded_empty_count0.json"), {})
    quote, snapshot = AzurePrices(server.client()).quote(
        key("azure", "eastus", "Standard_Yok_v99"), AT
    )
    assert isinstance(quote, Unpriced)
    assert "no rows" in quote.reason
    assert b'"Count":0' in snapshot.payload


def test_a_link_with_the_port_spelled_out_is_the_same_host(server):
    client = HttpClient("https://prices.example")
    assert _same_host(client, "https://prices.example:443/api?$skip=1").endswith("$skip=1")
    for other in ("http://prices.example/api", "http://prices.example:443/api"):
        with pytest.raises(BadDataError, match="another host"):
            _same_host(client, other)


@pytest.mark.parametrize(
    "link", ["https://evil.example/x", "http://127.0.0.1:9/x", "//evil.example/x"]
)
def test_a_next_page_on_another_host_is_not_followed(server, link):
    server.answer = lambda *_: (200, azure_body(ROWS, link), {})
    with pytest.raises(BadDataError, match="another host"):
        AzurePrices(server.client()).quote(D2S, AT)
    assert len(server.asked) == 1


def test_a_redirect_is_not_followed(server):
    server.answer = lambda *_: (302, b"", {"Location": "https://evil.example/"})
    with pytest.raises(BadDataError, match="redirect"):
        AzurePrices(server.client()).quote(D2S, AT)


def test_pagination_that_goes_round_in_a_circle_is_an_error(server):
    server.answer = lambda *_: (200, azure_body(ROWS, f"{server.url}/api/retail/prices?a=1"), {})
    with pytest.raises(BadDataError, match="a page twice"):
        AzurePrices(server.client()).quote(D2S, AT)
    assert len(server.asked) == 2


def test_pagination_without_end_is_an_error(server):
    def answer(_path, query, _headers):
        n = int(query.get("$skip", "0"))
        return 200, azure_body(ROWS, f"{server.url}/api/retail/prices?$skip={n + 1}"), {}

    server.answer = answer
    with pytest.raises(BadDataError, match="more than 7 pages"):
        AzurePrices(server.client(), most_pages=7).quote(D2S, AT)
    assert len(server.asked) == 7


def test_throttling_is_waited_out(server):
    """azure-cost-calculator #555: HTTP 429 lost the lookup."""
    pauses: list[float] = []
    answers = [(429, b"", {"Retry-After": "9"}), (503, b"busy", {}), (429, b"slow down", {})]

    def answer(*_):
        return answers.pop(0) if answers else (200, azure_body(ROWS), {})

    server.answer = answer
    client = HttpClient(server.url, attempts=5, sleep=pauses.append)
    quote, _ = AzurePrices(client).quote(D2S, AT)
    assert isinstance(quote, Priced)
    assert len(pauses) == 3
    assert pauses[0] >= 9


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_stays_broken_is_a_source_error(server, status):
    server.answer = lambda *_: (status, b"", {})
    with pytest.raises(SourceError, match=f"status {status}"):
        AzurePrices(server.client(attempts=2)).quote(D2S, AT)


def test_a_provider_that_keeps_failing_is_not_asked_for_every_key(server):
    server.answer = lambda *_: (500, b"", {})
    source = AzurePrices(server.client(attempts=1))
    for n in range(6):
        with pytest.raises(SourceError):
            source.quote(key("azure", "eastus", f"Standard_D{n}s_v3"), AT)
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("azure/recorded_error_400_invalid_odata.json", "Invalid OData parameters supplied"),
        ("azure/recorded_error_400_api_version.json", "Unsupported API version"),
        ("azure/recorded_error_400_invalid_parameters.json", "Invalid parameters supplied"),
    ],
)
def test_a_refusal_says_what_the_api_said(server, name, said):
    server.answer = lambda *_: (400, page(name), {})
    with pytest.raises(BadDataError, match=said):
        AzurePrices(server.client()).quote(D2S, AT)


def test_a_truncated_second_page_loses_the_whole_lookup(server):
    good = two_azure_pages(server)

    def answer(path, query, headers):
        status, body, extra = good(path, query, headers)
        if "$skip" not in query:
            return status, body, extra
        return status, body[:-40], {"Content-Length": str(len(body))}

    server.answer = answer
    with pytest.raises(SourceError):
        AzurePrices(server.client(attempts=2, timeout_seconds=(1, 0.3))).quote(D2S, AT)
    server.answer = lambda path, query, headers: (
        (200, good(path, query, headers)[1][:-40], {})
        if "$skip" in query
        else good(path, query, headers)
    )
    with pytest.raises(BadDataError, match="known form"):
        AzurePrices(server.client(attempts=1)).quote(D2S, AT)


def gcp_pages(_path, query, headers):
    if headers.get("x-goog-api-key") != SECRET:
        return 400, page("gcp/recorded_error_400_api_key_invalid.json"), {}
    names = [*COMPUTE_PAGES, DECOYS]
    index = int(query.get("pageToken", "0"))
    body = json.loads(page(names[index]))
    body["nextPageToken"] = str(index + 1) if index + 1 < len(names) else ""
    return 200, json.dumps(body).encode(), {}


def gcp(server, secret=SECRET, **options):
    client = HttpClient(
        server.url, headers={"X-Goog-Api-Key": secret}, sleep=lambda _: None, **options
    )
    return GcpPrices(client, api_key=secret)


def test_the_catalogue_is_read_to_its_last_page_once(server):
    server.answer = gcp_pages
    source = gcp(server)
    for machine in ("e2-standard-4", "n2-standard-4"):
        quote, _ = source.quote(key("gcp", "us-central1", machine), AT)
        assert isinstance(quote, Priced)
    assert [query.get("pageToken") for _, query, _ in server.asked] == [None, "1", "2", "3"]
    assert all(query["pageSize"] == "5000" for _, query, _ in server.asked)
    assert server.asked[0][0] == "/v1/services/6F81-5844-456A/skus"


def test_the_api_key_is_in_no_address_message_or_log_line(server, caplog):
    server.answer = gcp_pages
    with caplog.at_level(logging.DEBUG):
        _, snapshot = gcp(server).quote(E2, AT)
        server.answer = lambda *_: (
            403,
            json.dumps({"error": {"message": f"key {SECRET} is blocked"}}).encode(),
            {},
        )
        with pytest.raises(BadDataError) as refused:
            gcp(server).quote(E2, AT)
        server.answer = lambda *_: (500, SECRET.encode(), {})
        with pytest.raises(SourceError) as broken:
            gcp(server, attempts=1).quote(E2, AT)
    for text in (
        snapshot.url,
        str(refused.value),
        str(broken.value),
        caplog.text,
        repr(gcp(server)),
    ):
        assert SECRET not in text
    assert "is blocked" in str(refused.value)


def test_an_invalid_key_is_said_plainly(server):
    server.answer = gcp_pages
    with pytest.raises(BadDataError, match="API key not valid"):
        gcp(server, secret="wrong").quote(E2, AT)


def test_a_failed_catalogue_fails_every_key_once(server):
    server.answer = lambda *_: (500, b"", {})
    source = gcp(server, attempts=2)
    for _ in range(4):
        with pytest.raises(SourceError):
            source.quote(E2, AT)
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [(b'{"skus":[]}', "without a single SKU"), (b'{"items":[]}', "known form")],
)
def test_a_catalogue_in_another_shape_is_an_error(server, body, said):
    server.answer = lambda *_: (200, body, {})
    with pytest.raises(BadDataError, match=said):
        gcp(server).quote(E2, AT)


def test_page_tokens_without_end_are_an_error(server):
    def answer(_path, query, _headers):
        body = json.loads(page(COMPUTE_PAGES[0]))
        body["nextPageToken"] = str(int(query.get("pageToken", "0")) + 1)
        return 200, json.dumps(body).encode(), {}

    server.answer = answer
    source = gcp(server)
    source.most_pages = 4
    with pytest.raises(BadDataError, match="more than 4 pages"):
        source.quote(E2, AT)


def test_the_connections_name_the_servers(server, monkeypatch):
    for name, password in (("AZURE", ""), ("GCP", SECRET)):
        monkeypatch.setenv(
            f"AIRFLOW_CONN_KUBETALLY_{name}_PRICES",
            json.dumps({"conn_type": "http", "host": server.url, "password": password}),
        )
    server.answer = lambda path, query, headers: (
        gcp_pages(path, query, headers) if path.startswith("/v1") else (200, azure_body(ROWS), {})
    )
    assert isinstance(AzurePrices.from_connection().quote(D2S, AT)[0], Priced)
    assert isinstance(GcpPrices.from_connection().quote(E2, AT)[0], Priced)


def test_an_address_that_is_none_is_a_clear_error(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_AZURE_PRICES", json.dumps({"host": "ftp://x"}))
    with pytest.raises(KubetallyError, match="http"):
        AzurePrices.from_connection()
    monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_AZURE_PRICES", "{")
    with pytest.raises(ConfigError, match="JSON"):
        AzurePrices.from_connection()


def test_every_recorded_page_is_readable():
    for name in ("francecentral_vm_2021-12_page1.json", "unfiltered_first_page_2026-08-22.json"):
        assert azure_items(name)


def test_another_currency_is_asked_for_and_an_answer_in_the_wrong_one_refused(server):
    (row,) = json.loads(page("azure/msdocs_sample_item_eur.json"))["Items"]
    server.answer = lambda *_: (200, azure_body([row]), {})
    wanted = key("azure", row["armRegionName"], row["armSkuName"])
    items, snapshot = AzurePrices(server.client(), currency="EUR").items(wanted, AT)
    assert [item.currency_code for item in items] == ["EUR"]
    assert server.asked[0][1]["currencyCode"] == "'EUR'"
    assert "currencyCode" in snapshot.url
    with pytest.raises(BadDataError, match="asked for prices in USD and answered in EUR"):
        AzurePrices(server.client()).items(wanted, AT)


def test_google_is_asked_for_the_currency_of_the_connection(server, monkeypatch):
    server.answer = gcp_pages
    connection = {"conn_type": "http", "host": server.url, "password": SECRET}
    connection["extra"] = {"currency": "eur"}
    monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_GCP_PRICES", json.dumps(connection))
    GcpPrices.from_connection().quote(E2, AT)
    assert {query["currencyCode"] for _, query, _ in server.asked} == {"EUR"}
    connection["extra"] = {"currency": "euro"}
    monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_GCP_PRICES", json.dumps(connection))
    with pytest.raises(ConfigError, match="'EURO'"):
        GcpPrices.from_connection()


def test_each_month_lies_inside_one_month_of_los_angeles():
    found = months_between(utc(2026, 11, 20), utc(2027, 1, 5))
    assert found == [
        (utc(2026, 11, 1, 8), utc(2026, 12, 1, 6, 59, 59)),
        (utc(2026, 12, 1, 8), utc(2027, 1, 1, 6, 59, 59)),
        (utc(2027, 1, 1, 8), utc(2027, 2, 1, 6, 59, 59)),
    ]
    west = ZoneInfo("America/Los_Angeles")
    long = months_between(utc(2019, 1, 1), utc(2026, 11, 3))
    assert len(long) == 24
    for start, end in long:
        assert start.astimezone(west).month == end.astimezone(west).month


def test_a_spot_price_of_the_past_is_asked_for_month_by_month():
    """The demo's catalogue shows the present price, and the timeline for a month that is asked for."""
    spot = key("gcp", "us-central1", "e2-standard-4", market="spot")
    with DemoServer() as demo:
        source = GcpPrices(HttpClient(demo.url, headers={"X-Goog-Api-Key": "demo-key"}))
        quote, _ = source.quote(spot, AT)
        assert isinstance(quote, Priced)
        assert quote.at(utc(2026, 7, 1)) == ()
        before = sum(demo.requests.values())
        source.announce([spot], utc(2026, 6, 1))
        for _ in range(2):
            quote, snapshot = source.quote(spot, AT)
        assert isinstance(quote, Priced)
        assert quote.price_per_hour(utc(2026, 7, 1)) == Decimal("0.067016")
        assert quote.price_per_hour(AT) == Decimal("0.080424")
        assert "startTime=2026-06-01" in snapshot.url
        asked = sum(demo.requests.values()) - before
        assert asked == 1 + 6, "the present and six months, once"
        calm, _ = source.quote(key("gcp", "us-central1", "e2-standard-4"), AT)
        assert isinstance(calm, Priced)


def test_autopilot_rates_are_read_from_the_kubernetes_service():
    facts = node(region="asia-southeast2", is_virtual=True)
    wanted = lookup_key(facts, provider="gcp")
    assert isinstance(wanted, LookupKey)
    with DemoServer() as demo:
        source = GcpPrices(HttpClient(demo.url, headers={"X-Goog-Api-Key": "demo-key"}))
        quote, snapshot = source.quote(wanted, AT)
    assert isinstance(quote, Priced)
    assert "CCD8-9BF1-090E" in snapshot.url


def test_pods_on_azure_s_virtual_nodes_are_unpriced_without_asking(server):
    wanted = lookup_key(node(region="eastus", is_virtual=True), provider="azure")
    assert isinstance(wanted, LookupKey)
    quote, snapshot = AzurePrices(server.client()).quote(wanted, AT)
    assert isinstance(quote, Unpriced)
    assert (snapshot, server.asked) == (None, [])
