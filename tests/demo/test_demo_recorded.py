"""Recorded price pages over HTTP: as they were recorded, with links that lead back."""

import json
from pathlib import Path

import pytest
import requests

from kubetally.demo.price_lists import PAGES
from kubetally.demo.server import DemoServer

DATA = Path(__file__).resolve().parents[1] / "data" / "pricing"


@pytest.fixture(scope="module")
def server():
    with DemoServer(recordings=(PAGES, DATA)) as found:
        yield found


def test_azure_s_page_is_served_byte_for_byte_but_for_its_link(server):
    name = "azure/francecentral_vm_2021-12_page1.json"
    base = f"{server.url}/recorded/{name}"
    found = requests.get(f"{base}/api/retail/prices?$filter=whatever", timeout=5)
    recorded = (PAGES / name).read_bytes()
    link = json.loads(found.content)["NextPageLink"]
    assert link.startswith(f"{base}/api/retail/prices?")
    assert json.loads(found.content)["Items"] == json.loads(recorded)["Items"]
    second = requests.get(link, timeout=5).json()
    assert (
        second["Items"] == json.loads((PAGES / name.replace("page1", "page2")).read_text())["Items"]
    )
    assert not second["NextPageLink"]


def test_a_next_page_that_was_not_recorded_is_empty(server):
    base = f"{server.url}/recorded/azure/unfiltered_first_page_2026-08-22.json"
    first = requests.get(f"{base}/api/retail/prices", timeout=5).json()
    assert requests.get(first["NextPageLink"], timeout=5).json()["Count"] == 0


def test_google_s_pages_follow_each_other_and_end_with_the_decoys(server):
    base = f"{server.url}/recorded/gcp/reassembled_compute_skus_page*.json/v1/services/X/skus"
    token, pages = "", []
    while not pages or token:
        page = requests.get(base, params={"pageToken": token} if token else {}, timeout=5).json()
        pages.append(page)
        token = page["nextPageToken"]
    assert len(pages) == 4
    assert len(pages[-1]["skus"]) > 20


@pytest.mark.parametrize(
    "path",
    [
        "/recorded/azure/none.json/api/retail/prices",
        "/recorded/aws/../azure/x.json/",
        "/recorded/gcp/none.json",
        "/recorded/x",
        "/recorded/azure/..%2F..%2Fserver.py.json/x",
    ],
)
def test_what_was_not_recorded_is_not_found(server, path):
    assert requests.get(server.url + path, timeout=5).status_code == 404


def test_aws_offers_and_products(server):
    offer = f"{server.url}/aws/offers/v1.0/aws/AmazonEC2/current/eu-west-1/index.json"
    name = "aws/reassembled_offer_AmazonEC2_eu-west-1_2023-02-23.json"
    assert requests.get(offer, timeout=5).content == (PAGES / name).read_bytes()
    queried = requests.get(offer.replace("eu-west-1", "us-east-1"), timeout=5).json()
    assert len(queried["products"]) == 17
    missing = requests.get(offer.replace("eu-west-1", "mars-north-1"), timeout=5)
    assert missing.status_code == 403
    headers = {
        "X-Amz-Target": "AWSPriceListService.GetProducts",
        "Authorization": "AWS4-HMAC-SHA256 x",
    }
    filters = [{"Type": "TERM_MATCH", "Field": "instanceType", "Value": "m5.large"}]
    body = json.dumps({"ServiceCode": "AmazonEC2", "Filters": filters})
    found = requests.post(server.url + "/", data=body, headers=headers, timeout=5).json()
    assert len(found["PriceList"]) > 30
    assert all(json.loads(text)["serviceCode"] == "AmazonEC2" for text in found["PriceList"])
    eks = json.dumps({"ServiceCode": "AmazonEKS"})
    assert (
        len(requests.post(server.url, data=eks, headers=headers, timeout=5).json()["PriceList"])
        == 2
    )
    assert requests.post(server.url, data="{", headers=headers, timeout=5).status_code == 400
