"""What a cluster costs beside its nodes: dated, in order of precedence, never a default."""

from decimal import Decimal

import pytest
from price_pages import PROJECT, utc

from kubetally.errors import ConfigError
from kubetally.prices.fees import Asked, Fee, find_fee, load_fees, parse_fees

AT = utc(2026, 11, 3, 10)
CONFIGURED = load_fees(PROJECT / "include/config")


def price(*asked, at=AT, **more):
    fee = find_fee(CONFIGURED, Asked(*asked, **more), at)
    return None if fee is None else fee.price


@pytest.mark.parametrize(
    ("kind", "name", "provider", "region", "expected"),
    [
        ("control_plane", "aks/free", "azure", "eastus", "0"),
        ("control_plane", "aks/standard", "azure", "eastus", "0.10"),
        ("control_plane", "aks/premium", "azure", "eastus", "0.60"),
        ("control_plane", "gke/zonal", "gcp", "europe-west1", "0.10"),
        ("control_plane", "gke/autopilot", "gcp", "europe-west1", "0.10"),
        ("control_plane", "gke/extended", "gcp", "europe-west1", "0.60"),
        ("control_plane", "eks/standard", "aws", "us-east-1", "0.10"),
        ("control_plane", "eks/extended", "aws", "us-east-1", "0.60"),
        ("storage", "pd-balanced", "gcp", "us-central1", "0.10"),
        ("storage", "gp3", "aws", "eu-west-1", "0.088"),
        ("load_balancer", "nat", "aws", "eu-west-1", "0.048"),
    ],
)
def test_the_configured_fees_are_those_that_were_recorded(kind, name, provider, region, expected):
    assert price(kind, name, provider=provider, region=region) == Decimal(expected)


def test_what_is_not_configured_is_not_known_and_not_zero():
    assert price("storage", "gp3", provider="aws", region="ap-south-2") is None
    assert price("control_plane", "oke/basic", provider="oracle") is None


@pytest.mark.parametrize(
    ("usage", "expected"), [("0", "0.12"), ("1023", "0.12"), ("1024", "0.11"), ("10240", "0.08")]
)
def test_tiers_follow_the_month_s_usage(usage, expected):
    found = price(
        "egress", "internet-to-africa", provider="gcp", region="us-central1", usage=Decimal(usage)
    )
    assert found == Decimal(expected)


@pytest.mark.parametrize(
    ("size", "expected"),
    [("100", "19.71"), ("128", "19.71"), ("20", "5.28"), ("129", None), ("40", None)],
)
def test_a_disk_sold_in_sizes_costs_the_next_larger_one(size, expected):
    found = price(
        "storage", "premium-ssd", provider="azure", region="eastus", size_gib=Decimal(size)
    )
    assert found == (expected and Decimal(expected))


def test_the_first_that_matches_counts_and_dates_are_half_open():
    fees = parse_fees(
        """fees:
        - {kind: storage, name: "fast*", price: "0.2", per: gib_month, valid_until: 2026-01-01}
        - {kind: storage, name: "fast*", price: "0.3", per: gib_month, valid_from: 2026-01-01}
        - {kind: storage, price: "0.05", per: gib_month}""",
        "fees.yaml",
    )
    for at, name, expected in (
        (utc(2025, 12, 31, 23), "Fast-1", "0.2"),
        (utc(2026, 1, 1), "fast-1", "0.3"),
        (utc(2026, 1, 1), "slow", "0.05"),
    ):
        fee = find_fee(fees, Asked("storage", name), at)
        assert fee is not None
        assert fee.price == Decimal(expected)


def test_a_month_is_spread_over_its_own_hours():
    fee = Fee("storage", "x", Decimal("0.10"), "gib_month")
    assert fee.price_per_hour(Decimal(744)) == Decimal("0.000134408602150538")
    assert fee.price_per_hour(Decimal(730)) == Decimal("0.000136986301369863")
    assert Fee("control_plane", "x", Decimal("0.1"), "hour").price_per_hour(
        Decimal(744)
    ) == Decimal("0.1")
    with pytest.raises(ConfigError, match="traffic"):
        Fee("egress", "x", Decimal("0.1"), "gib").price_per_hour(Decimal(744))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{kind: storage, per: gib_month}", "`price`"),
        ("{kind: storage, price: 0.1, per: gib_month}", "in quotes"),
        ("{kind: rent, price: '1', per: hour}", "rent"),
        ("{kind: storage, price: '1', per: year}", "year"),
        ("{kind: storage, price: '1', per: hour, currency: usd}", "code like USD"),
        ("{kind: storage, price: '1', per: gib_month, up_to_gib: 5}", "as a whole"),
        (
            "{kind: storage, price: '1', per: hour, valid_from: 2026-02-01, valid_until: 2026-01-01}",
            "not after",
        ),
    ],
)
def test_a_wrong_fee_is_refused_with_file_and_reason(entry, said):
    with pytest.raises(ConfigError, match=r"fees\.yaml") as error:
        parse_fees(f"fees: [{entry}]", "fees.yaml")
    assert said in str(error.value)
