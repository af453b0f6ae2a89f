"""Which SKUs of the Google catalogue bill a machine, and how much of each."""

import json
from decimal import Decimal

import pytest
from price_pages import AT, COMPUTE_PAGES, DECOYS, gcp_skus, key, node, page, utc

from kubetally.errors import BadDataError
from kubetally.prices import gcp
from kubetally.prices.gcp_machines import needs
from kubetally.prices.key import LookupKey, NoKey, lookup_key
from kubetally.prices.quote import Ambiguous, Priced, Unpriced
from oracles.by_hand import cases

CATALOG = gcp.Catalog.of(gcp_skus(*COMPUTE_PAGES, DECOYS))
OPENCOST = "gcp/recorded_opencost_compute_skus_page.json"


def sku(description, nanos, sku_id="S-1", **changed):
    """An on-demand core SKU in us-central1 with one undated price."""
    body = {
        "skuId": sku_id,
        "description": description,
        "category": {"usageType": changed.get("usage_type", "OnDemand")},
        "serviceRegions": ["us-central1"],
        "pricingInfo": changed.get(
            "pricing",
            [
                {
                    "pricingExpression": {
                        "usageUnit": changed.get("unit", "h"),
                        "tieredRates": [
                            {
                                "unitPrice": {
                                    "currencyCode": changed.get("currency", "USD"),
                                    "nanos": nanos,
                                }
                            }
                        ],
                    }
                }
            ],
        ),
    }
    return gcp.decode_page(json.dumps({"skus": [body]}).encode()).skus[0]


def dated(price_nanos, when):
    return {
        "effectiveTime": when,
        "pricingExpression": {
            "usageUnit": "h",
            "tieredRates": [{"unitPrice": {"currencyCode": "USD", "nanos": price_nanos}}],
        },
    }


def price(machine, region="us-central1", market="on_demand", os="linux"):
    found = gcp.match(CATALOG, key("gcp", region, machine, os, market), AT)
    assert isinstance(found, Priced), found
    return found.price_per_hour(AT)


@pytest.mark.parametrize(
    ("machine", "expected", "rule"),
    [
        ("e2-standard-4", "0.13402284", "e2: Instance Core and Ram"),
        ("n1-custom-4-8192", None, "custom N1 RAM is not in these pages"),
        ("n2-custom-4-8192", "0.168264", "grafana/cloudcost-exporter #496: custom +5 %"),
        ("n2d-standard-4", "0.168984", "N2D, not N2"),
        ("c2d-standard-4", "0.181596", "opencost #2797: C2D AMD Instance Core"),
        ("g2-standard-4", "0.706832255", "opencost #2215: the GPU is a SKU of its own"),
        ("m2-ultramem-208", "42.111936", "doitintl/gcpinstances.info #22: upgrade premium"),
        ("m1-ultramem-40", "6.2931", "Memory-optimized"),
        ("n1-ultramem-40", "6.2931", "the first M1 machines were called N1"),
    ],
)
def test_machine_prices(machine, expected, rule):
    if expected is None:
        found = gcp.match(CATALOG, key("gcp", "us-central1", machine), AT)
        assert isinstance(found, Unpriced)
        assert "Custom Instance Ram" in found.reason
    else:
        assert price(machine) == Decimal(expected), rule


def test_decoys_at_999_never_win():
    """Sole tenancy, reserved, premium and other families' custom SKUs (opencost PR 3947)."""
    decoys = {
        s.sku_id
        for s in gcp_skus(DECOYS)
        if s.pricing_info[0].pricing_expression.tiered_rates[0].unit_price.units == "999"
    }
    assert len(decoys) == 20
    for machine in (
        "n1-standard-4",
        "n2-standard-4",
        "n2d-standard-4",
        "c2-standard-8",
        "m1-ultramem-40",
        "n2-custom-4-8192",
        "custom-4-8192",
        "e2-custom-4-8192",
        "n2d-custom-4-8192",
    ):
        found = gcp.match(CATALOG, key("gcp", "us-central1", machine), AT)
        used = {part.sku for part in found.components} if isinstance(found, Priced) else set()
        assert not used & decoys, machine


@pytest.mark.parametrize(
    ("machine", "vcpus", "gib"),
    [
        ("e2-micro", "0.25", "1"),  # opencost PR 535: the node reports two CPUs
        ("e2-small", "0.5", "2"),
        ("e2-medium", "1", "4"),
        ("n1-standard-4", "4", "15"),
        ("n1-highcpu-16", "16", "14.4"),
        ("c4-standard-4", "4", "15"),
        ("c3d-highcpu-30", "30", "59"),
        ("n2-highmem-128", "128", "864"),
        ("n2-custom-4-8192", "4", "8"),
        ("custom-2-7680", "2", "7.5"),
        ("e2-custom-small-3072", "0.5", "3"),
        ("a2-megagpu-16g", "96", "1360"),
    ],
)
def test_quantities_come_from_the_name_of_the_type(machine, vcpus, gib):
    wanted = needs(key("gcp", "us-central1", machine))
    assert not isinstance(wanted, NoKey)
    amounts = {need.component: need.quantity for need in wanted if need.component != "gpu"}
    assert amounts == {"cpu": Decimal(vcpus), "memory": Decimal(gib)}


def test_every_recorded_machine_type_has_the_size_google_gives_it():
    rounding = {"f1-micro", "g1-small"}  # whole machines: no quantities
    types = json.loads(page("gcp/recorded_machine_types_europe-west1-b.json"))["items"]
    for machine in types:
        if machine["name"] in rounding:
            continue
        wanted = needs(key("gcp", "europe-west1", machine["name"]))
        assert not isinstance(wanted, NoKey), machine["name"]
        gib = sum(need.quantity for need in wanted if need.component == "memory")
        assert abs(gib - Decimal(machine["memoryMb"]) / 1024) < Decimal("0.001"), machine["name"]
        if not machine.get("isSharedCpu"):
            assert wanted[0].quantity == machine["guestCpus"], machine["name"]


def test_memory_above_the_limit_is_extended_memory():
    wanted = needs(key("gcp", "us-central1", "n2-custom-2-20480-ext"))
    assert not isinstance(wanted, NoKey)
    assert [(need.heads[0], need.quantity) for need in wanted] == [
        ("N2 Custom Instance Core", 2),
        ("N2 Custom Instance Ram", 16),
        ("N2 Custom Extended Instance Ram", 4),
    ]


@pytest.mark.parametrize(
    "machine",
    [
        "c4-standard-12-lssd",
        "a3-megagpu-8g",
        "a4-highgpu-8g",
        "x9-standard-4",
        "n2-odd-4",
        "c2d-custom-4-8192",
    ],
)
def test_a_type_that_cannot_be_priced_whole_is_unpriced_with_the_reason(machine):
    found = gcp.match(CATALOG, key("gcp", "us-central1", machine), AT)
    assert isinstance(found, Unpriced)
    assert "sheet" in found.reason


def ssd_catalog(*more):
    return [
        sku("C4 Instance Core running in Iowa", 30_000_000, "C"),
        sku("C4 Instance Ram running in Iowa", 3_000_000, "R", unit="GiBy.h"),
        sku("SSD backed Local Storage in Iowa", 80_000_000, "L", unit="GiBy.mo"),
        *more,
    ]


def test_bundled_local_ssd_is_added_per_month_of_730_hours():
    """google-cloud-pricing-cost-calculator #394: a price without the local SSD is too low."""
    own = sku("C4 Instance Local SSD running in Iowa", 160_000_000, "S", unit="GiBy.mo")
    wanted = key("gcp", "us-central1", "c4-standard-16-lssd")
    found = gcp.match(ssd_catalog(own), wanted, AT)
    assert isinstance(found, Priced)
    parts = {part.sku: part.price_per_hour for part in found.components}
    assert parts["C"] == Decimal("0.48")
    assert parts["R"] == Decimal("0.18")  # 60 GiB
    assert abs(parts["S"] - Decimal("0.16") * 2 * 375 / 730) < Decimal("1e-15")


def test_another_family_s_local_ssd_is_no_stand_in():
    """C4's costs twice the common one."""
    found = gcp.match(ssd_catalog(), key("gcp", "us-central1", "c4-standard-16-lssd"), AT)
    assert isinstance(found, Unpriced)
    assert "C4 Instance Local SSD" in found.reason


@pytest.mark.parametrize(
    ("machine", "vcpus", "gib", "gpu", "disks"),
    [
        ("a3-highgpu-8g", 208, 1872, ("Nvidia H100 80GB GPU", 8), 16),
        ("a2-ultragpu-2g", 24, 340, ("Nvidia Tesla A100 80GB GPU", 2), 2),
        ("a2-megagpu-16g", 96, 1360, ("Nvidia Tesla A100 GPU", 16), 0),
        ("c3-standard-44-lssd", 44, 176, None, 8),
        ("z3-highmem-88", 88, 704, None, 96),
        ("m4-megamem-56", 56, 744, None, 0),
    ],
)
def test_machines_that_bundle_more_than_cores_and_memory(machine, vcpus, gib, gpu, disks):
    wanted = needs(key("gcp", "us-central1", machine))
    assert not isinstance(wanted, NoKey)
    assert [need.quantity for need in wanted[:2]] == [vcpus, gib]
    gpus = [(need.heads[0], need.quantity) for need in wanted if need.component == "gpu"]
    assert gpus == ([gpu] if gpu else [])
    ssd = [need.quantity * 730 / 375 for need in wanted if need.component == "disk"]
    assert [round(count) for count in ssd] == ([disks] if disks else [])


def test_the_largest_m4_has_skus_of_its_own():
    wanted = needs(key("gcp", "us-central1", "m4-ultramem-224"))
    assert not isinstance(wanted, NoKey)
    assert [need.heads[0] for need in wanted] == [
        "M4Ultramem224 Instance Core",
        "M4Ultramem224 Instance Ram",
    ]


def test_the_spot_sku_of_local_ssd_may_call_itself_on_demand():
    wanted = key("gcp", "us-central1", "c3-standard-4-lssd", market="spot")
    skus = [
        sku("Spot Preemptible C3 Instance Core running in Iowa", 10, "C", usage_type="Preemptible"),
        sku(
            "Spot Preemptible C3 Instance Ram running in Iowa",
            10,
            "R",
            usage_type="Preemptible",
            unit="GiBy.h",
        ),
        sku(
            "SSD backed Local Storage attached to Spot Preemptible VMs in Iowa",
            10,
            "L",
            unit="GiBy.mo",
        ),
    ]
    found = gcp.match(skus, wanted, AT)
    assert isinstance(found, Priced)
    assert {part.sku for part in found.components} == {"C", "R", "L"}


GKE = "gcp/recorded_gke_service_skus_asia-southeast2_2025-08-08.json"


@pytest.mark.parametrize(
    ("market", "cpu", "memory"),
    [("on_demand", "0.0598", "0.0066193"), ("spot", "0.018", "0.0019858")],
)
def test_pods_of_an_autopilot_cluster_have_rates_per_vcpu_and_gib(market, cpu, memory):
    """The CPU SKU is priced per mCPU: `displayQuantity` 1000 is for display only."""
    facts = node(region="asia-southeast2", os="linux", capacity_type=market, is_virtual=True)
    wanted = lookup_key(facts, provider="gcp")
    assert isinstance(wanted, LookupKey)
    found = gcp.match(gcp_skus(GKE), wanted, AT)
    assert isinstance(found, Priced)
    rates = {part.component: part.price_per_hour for part in found.components}
    assert rates == {
        "cpu": Decimal(cpu),
        "memory": Decimal(memory),
        "disk": Decimal("0.0000737"),
    }


def test_months_asked_for_complete_a_timeline():
    """The catalogue shows the present price; a past month shows those in force then."""
    now = sku(
        "E2 Instance Core running in Iowa", 0, "A", pricing=[dated(3, "2026-07-22T00:00:00Z")]
    )
    march = sku(
        "E2 Instance Core running in Iowa",
        0,
        "A",
        pricing=[dated(1, "2025-09-01T00:00:00Z"), dated(2, "2026-03-15T10:00:00Z")],
    )
    july = sku(
        "E2 Instance Core running in Iowa",
        0,
        "A",
        pricing=[dated(2, "2026-03-15T10:00:00Z"), dated(3, "2026-07-22T00:00:00Z")],
    )
    (merged,) = gcp.with_history(gcp.with_history([now], [march]), [july])
    (need, _) = needs(key("gcp", "us-central1", "e2-standard-2"))
    spans = [
        (p.unit_price * 10**9, p.valid_from, p.valid_until) for p in gcp.timeline(merged, need)
    ]
    assert spans == [
        (1, utc(2025, 9, 1), utc(2026, 3, 15, 10)),
        (2, utc(2026, 3, 15, 10), utc(2026, 7, 22)),
        (3, utc(2026, 7, 22), None),
    ]


def test_spot_needs_spot_skus_and_falls_back_to_nothing():
    assert price("e2-standard-4", market="spot") == Decimal("0.080424")
    found = gcp.match(CATALOG, key("gcp", "us-central1", "t2d-standard-4", market="spot"), AT)
    assert isinstance(found, Unpriced)
    assert "Spot Preemptible T2D AMD Instance Core" in found.reason


def test_the_spot_name_before_2022_is_understood():
    skus = [
        sku("Preemptible E2 Instance Core running in Iowa", 1, "A", usage_type="Preemptible"),
        sku(
            "Preemptible E2 Instance Ram running in Iowa",
            1,
            "B",
            usage_type="Preemptible",
            unit="GiBy.h",
        ),
    ]
    found = gcp.match(skus, key("gcp", "us-central1", "e2-standard-2", market="spot"), AT)
    assert isinstance(found, Priced)


def test_windows_adds_the_licence_per_vcpu():
    linux, windows = price("n2-standard-8"), price("n2-standard-8", os="windows")
    assert windows - linux == Decimal("0.046") * 8


def test_components_are_told_apart():
    labels = {
        "cloud.google.com/gke-accelerator": "nvidia-tesla-t4",
        "cloud.google.com/gke-accelerator-count": "1",
    }
    wanted = lookup_key(
        node(instance_type="n1-standard-4", region="us-central1", os="linux", labels=labels),
        provider="gcp",
    )
    assert isinstance(wanted, LookupKey)
    found = gcp.match(CATALOG, wanted, AT)
    assert isinstance(found, Priced)
    assert {part.component: part.price_per_hour for part in found.components} == {
        "cpu": Decimal("0.126444"),
        "memory": Decimal("0.063555"),
        "gpu": Decimal("0.35"),
    }


@pytest.mark.claims("PR-02")
def test_units_and_nanos_are_added_exactly():
    """vantage-sh/ec2instances.info #880, kubecost #2069."""
    money = gcp.Money(currency_code="USD", units="2", nanos=933908000)
    assert money.amount == Decimal("2.933908")
    case = cases()["PR-02"]
    assert gcp.Money(currency_code="USD", **case["given"]).amount == Decimal(case["expect"])
    assert gcp.Money(currency_code="USD", units="", nanos=1).amount == Decimal("0.000000001")


def test_another_currency_stays_what_it_is():
    found = gcp.match(gcp_skus(OPENCOST), key("gcp", "us-central1", "e2-standard-2"), AT)
    assert isinstance(found, Priced)
    assert {part.currency for part in found.components} == {"IDR"}


def test_mixed_currencies_are_not_added():
    skus = [
        sku("E2 Instance Core running in Iowa", 10, "A", currency="IDR"),
        sku("E2 Instance Ram running in Iowa", 10, "B", unit="GiBy.h"),
    ]
    found = gcp.match(skus, key("gcp", "us-central1", "e2-standard-2"), AT)
    assert isinstance(found, Unpriced)
    assert "currencies" in found.reason


def test_two_skus_with_one_description_are_fine_only_if_they_cost_the_same():
    """Memory-optimized in Singapore: 4EA6-5E74-B349 and B428-ABC6-FFED."""
    ram = sku("E2 Instance Ram running in Iowa", 5, "R", unit="GiBy.h")
    same = [sku("E2 Instance Core running in Iowa", 10, i) for i in ("B", "A")]
    found = gcp.match([*same, ram], key("gcp", "us-central1", "e2-standard-2"), AT)
    assert isinstance(found, Priced)
    assert {part.sku for part in found.components} == {"A", "R"}
    other = sku("E2 Instance Core running in Iowa", 11, "C")
    found = gcp.match([*same, other, ram], key("gcp", "us-central1", "e2-standard-2"), AT)
    assert isinstance(found, Ambiguous)
    assert "C 0.000000011" in found.reason


def test_the_unit_is_gib_hours_or_nothing():
    skus = [
        sku("E2 Instance Core running in Iowa", 10, "A"),
        sku("E2 Instance Ram running in Iowa", 10, "B", unit="GBy.h"),
    ]
    found = gcp.match(skus, key("gcp", "us-central1", "e2-standard-2"), AT)
    assert isinstance(found, Unpriced)


def test_a_zero_price_is_no_price():
    skus = [
        sku("E2 Instance Core running in Iowa", 0, "A"),
        sku("E2 Instance Ram running in Iowa", 10, "B", unit="GiBy.h"),
    ]
    assert isinstance(gcp.match(skus, key("gcp", "us-central1", "e2-standard-2"), AT), Unpriced)


@pytest.mark.parametrize(
    ("usage", "expected"), [("0", "0.12"), ("1023.9", "0.12"), ("1024", "0.11"), ("20000", "0.08")]
)
def test_tiers_are_chosen_by_usage(usage, expected):
    (egress, _) = gcp_skus("gcp/recorded_misc_skus_tiered_egress_and_commit1yr.json")
    rates = egress.pricing_info[0].pricing_expression.tiered_rates
    money = gcp.unit_price(rates, Decimal(usage))
    assert money is not None
    assert money.amount == Decimal(expected)


def test_a_node_s_sku_with_tiers_is_not_guessed():
    tiers = dated(10, "2026-01-01T00:00:00Z")
    rates = tiers["pricingExpression"]["tieredRates"]
    rates.append({"startUsageAmount": 100, "unitPrice": {"currencyCode": "USD", "nanos": 5}})
    skus = [
        sku("E2 Instance Core running in Iowa", 0, "A", pricing=[tiers]),
        sku("E2 Instance Ram running in Iowa", 10, "B", unit="GiBy.h"),
    ]
    assert isinstance(gcp.match(skus, key("gcp", "us-central1", "e2-standard-2"), AT), Unpriced)


def test_the_timeline_gives_the_price_in_force_then():
    skus = gcp_skus("gcp/reassembled_price_timeline_e2_spot_americas.json")
    found = gcp.match(skus, key("gcp", "us-central1", "e2-standard-4", market="spot"), AT)
    assert isinstance(found, Priced)
    for when, expected in (
        (utc(2023, 6, 1), "0.040206852"),
        (utc(2024, 10, 1), "0.053584"),
        (utc(2026, 7, 1), "0.067016"),
        (utc(2026, 8, 1), "0.080424"),
    ):
        assert found.price_per_hour(when) == Decimal(expected)
    assert found.at(utc(2023, 1, 1)) == ()


def test_only_time_that_all_skus_cover_is_priced():
    skus = [
        sku(
            "E2 Instance Core running in Iowa",
            0,
            "A",
            pricing=[dated(10, "2026-01-01T00:00:00Z"), dated(20, "2026-03-01T05:30:00Z")],
        ),
        sku("E2 Instance Ram running in Iowa", 10, "B", unit="GiBy.h"),
    ]
    found = gcp.match(skus, key("gcp", "us-central1", "e2-standard-2"), AT)
    assert isinstance(found, Priced)
    cores = [p for p in found.components if p.component == "cpu"]
    assert [(p.valid_from, p.valid_until) for p in cores] == [
        (utc(2026, 1, 1), utc(2026, 3, 1, 6)),
        (utc(2026, 3, 1, 6), None),
    ]
    assert min(p.start for p in found.components if p.component == "memory") == utc(2026, 1, 1)


def test_a_page_in_another_shape_is_an_error():
    for body in (b'{"skus":[{"skuId":"x"}]}', b'{"error":{}}', b'{"skus":['):
        with pytest.raises(BadDataError, match="not in the known form"):
            gcp.decode_page(body)
