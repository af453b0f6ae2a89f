"""`explain` names every candidate and why it was kept or dropped."""

from price_pages import AT, COMPUTE_PAGES, azure_items, gcp_skus, node

from kubetally.prices.explain import explain
from kubetally.prices.sheet import parse

FACTS = node(instance_type="Standard_D2s_v3", region="eastus", os="linux")


def test_every_azure_row_has_a_verdict():
    items = azure_items("recorded_eastus_D2s_v3_all_types_preview.json")
    text = explain(FACTS, AT, provider="azure", azure_items=items)
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
    text = explain(facts, AT, provider="gcp", gcp_skus=gcp_skus(*COMPUTE_PAGES))
    assert "Needs 4 x E2 Instance Core (OnDemand)" in text
    assert "Needs 16 x E2 Instance Ram (OnDemand)" in text
    assert "The list says: 0.13402284 per hour" in text


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
        "Sheet entry 1: dropped: is for other nodes",
        "Sheet entry 2: dropped: is not valid then",
        "Sheet entry 3: matches",
        "Counts: 3.5 USD per hour (priced, origin sheet)",
    ]


def test_a_node_without_a_key_says_why():
    assert "No list price: the node says no instance type" in explain(node(), AT, provider="azure")
