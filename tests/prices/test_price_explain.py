"""`explain` names every candidate and why it was kept or dropped."""

import pytest
from price_pages import AT, COMPUTE_PAGES, DECOYS, azure_items, gcp_skus, node, page

from kubetally.errors import BadDataError
from kubetally.prices.explain import Rows, explain, rows_of
from kubetally.prices.sheet import parse

FACTS = node(instance_type="Standard_D2s_v3", region="eastus", os="linux")


def test_every_azure_row_has_a_verdict():
    items = azure_items("recorded_eastus_D2s_v3_all_types_preview.json")
    text = explain(FACTS, AT, provider="azure", rows=Rows(azure=items))
    lines = text.splitlines()
    assert "Lookup key: azure/eastus/standard_d2s_v3/linux/on_demand" in lines
    verdicts = [line for line in lines if ": kept" in line or ": dropped" in line]
    assert len(verdicts) == len(items) == 9
    assert sum(": kept" in line for line in verdicts) == 1
    for reason in ("Low Priority", "DevTestConsumption", "Windows", "spot price"):
        assert any(reason in line for line in verdicts)
    assert "The list says: 0.096 per hour" in lines
    assert lines[-1].startswith("Counts: unpriced: azure/eastus")


def test_the_skus_of_a_google_machine_are_listed():
    facts = node(instance_type="e2-standard-4", region="us-central1", os="linux")
    text = explain(facts, AT, provider="gcp", rows=Rows(gcp=gcp_skus(*COMPUTE_PAGES, DECOYS)))
    assert "Needs 4 x E2 Instance Core (OnDemand)" in text
    assert "Needs 16 x E2 Instance Ram (OnDemand)" in text
    assert "The list says: 0.13402284 per hour" in text
    assert sum(line.endswith(": kept") for line in text.splitlines()) == 2
    for reason in ("is for europe-west1", "usage type Preemptible"):
        assert reason in text
    custom = node(instance_type="custom-4-8192", region="us-central1", os="linux")
    text = explain(custom, AT, provider="gcp", rows=Rows(gcp=gcp_skus(*COMPUTE_PAGES, DECOYS)))
    assert (
        "N2D AMD Custom Instance Core running in Iowa: dropped: is another product"
        in text.replace("Americas", "Iowa")
    )


def test_sheet_entries_are_judged_in_order():
    sheet = parse(
        b"""prices:
        - {match: {node: other}, price_per_hour: "1"}
        - {price_per_hour: "2", valid_until: 2026-01-01}
        - {price_per_hour: "3.50"}""",
        "sheet.yaml",
    )
    lines = explain(FACTS, AT, provider="azure", sheet=sheet).splitlines()
    assert lines[2:] == [
        "The price book has not looked it up.",
        "Sheet entry 1: dropped: is for other nodes",
        "Sheet entry 2: dropped: is not valid then",
        "Sheet entry 3: matches",
        "Counts: 3.5 USD per hour (priced, origin sheet)",
    ]


def test_a_node_without_a_key_says_why():
    assert "No list price: the node says no instance type" in explain(node(), AT, provider="azure")


def test_every_aws_product_has_a_verdict():
    offer = page("aws/reassembled_offer_AmazonEC2_eu-west-1_2023-02-23.json")
    rows = rows_of("aws", offer)
    facts = node(instance_type="m5.large", region="eu-west-1", os="linux")
    lines = explain(facts, AT, provider="aws", rows=rows).splitlines()
    verdicts = [line for line in lines if line.endswith(": kept") or ": dropped" in line]
    assert len(verdicts) == len(rows.aws) == 104
    assert sum(line.endswith(": kept") for line in verdicts) == 1
    assert "The list says: 0.107 per hour" in lines


def test_a_snapshot_of_several_pages_is_read_back_even_if_they_are_indented():
    one = page("azure/francecentral_vm_2021-12_page1.json")
    two = page("azure/francecentral_vm_2021-12_page2.json")
    assert len(rows_of("azure", one + b"\n" + two).azure) == 194
    assert len(rows_of("gcp", page(COMPUTE_PAGES[0]) + b"\n" + page(DECOYS)).gcp) > 90
    with pytest.raises(BadDataError, match="not made of JSON pages"):
        rows_of("azure", one + b"\n" + two[:-9])


def test_rates_of_pods_and_percentages_are_told():
    virtual = node(is_virtual=True, region="us-east-1", provider_id="aws:///a/b/fargate")
    sheet = parse(
        b"""prices: [{discount_percent: "10"}, {cpu_core_hour: "0.04", memory_gib_hour: "0.004"}]""",
        "sheet.yaml",
    )
    lines = explain(virtual, AT, sheet=sheet).splitlines()
    assert "Sheet entry 1: matches, adjusts what counts below it" in lines
    assert lines[-1].startswith(
        "Counts: 0.036 USD per core-hour and 0.0036 per GiB-hour of its pods"
    )
