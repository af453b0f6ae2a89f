"""OpenCost's custom-pricing files load unchanged and price the nodes they name."""

from decimal import Decimal
from pathlib import Path

import pytest
from price_pages import PROJECT, node, utc

from kubetally.errors import ConfigError
from kubetally.prices.fees import Asked, find_fee
from kubetally.prices.key import NoKey
from kubetally.prices.resolve import resolve
from kubetally.prices.sheet import load, parse
from kubetally.windows import Window

FOLDER = PROJECT / "tests/data/opencost"
HOUR = Window(utc(2026, 11, 3, 10), utc(2026, 11, 3, 11))
NODE = "gke-standard-cluster-1-pool-1-91dc432d-cg69"


def price(file: str, **facts):
    facts = {"cpu_capacity_cores": Decimal(2), "memory_capacity_bytes": Decimal(8 * 2**30), **facts}
    found = resolve(node(**facts), HOUR, key=NoKey("custom"), sheet=load(FOLDER / file))
    return found[0].price_per_hour


@pytest.mark.parametrize(
    "path",
    sorted([*FOLDER.glob("*.json"), *FOLDER.glob("*.csv")]),
    ids=lambda path: path.name,
)
def test_every_file_loads(path: Path):
    sheet = load(path)
    assert sheet.entries or sheet.fees


def test_rates_per_core_and_gib_and_spot_ones_for_spot_nodes():
    assert price("default.json") == Decimal("0.031611") * 2 + Decimal("0.004237") * 8
    spot = Decimal("0.006655") * 2 + Decimal("0.000892") * 8
    assert price("default.json", capacity_type="spot") == spot
    assert price("aws.json", labels={"kops.k8s.io/instancegroup": "spotinstance-nodes"}) == spot
    gpus = price("default.json", gpu_capacity=Decimal(2))
    assert gpus == Decimal("0.031611") * 2 + Decimal("0.004237") * 8 + Decimal("0.95") * 2


def test_a_gpu_without_a_rate_makes_the_node_unpriced():
    """gcp.json has no GPU price; OpenCost takes 0."""
    assert price("gcp.json", gpu_capacity=Decimal(1)) is None


def test_storage_balancers_and_egress_are_fees():
    fees = load(FOLDER / "alibaba.json").fees
    at = HOUR.start
    for kind, name, expected in (
        ("storage", "any", "0.00005479452"),
        ("load_balancer", "any", "0.007"),
        ("egress", "internet", "0.123"),
        ("egress", "zone", "0.02"),
    ):
        fee = find_fee(fees, Asked(kind, name), at)  # type: ignore[arg-type]
        assert fee is not None
        assert fee.price == Decimal(expected)


@pytest.mark.parametrize(
    ("file", "facts", "expected"),
    [
        ("pricing_schema.csv", {"node": NODE}, "0.1337"),
        ("pricing_schema.csv", {"node": "another"}, None),
        (
            "pricing_schema.csv",
            {
                "node": NODE,
                "gpu_capacity": Decimal(2),
                "labels": {"gpu.nvidia.com/class": "Quadro_RTX_4001"},
            },
            "1.7337",
        ),
        (
            "pricing_schema_mixed_gpu_ondemand.csv",
            {
                "labels": {"TestClusterUsage": "Reserved", "nvidia.com/gpu_type": "a100-reserved"},
                "gpu_capacity": Decimal(3),
            },
            "3.654795",
        ),
        (
            "pricing_schema_mixed_gpu_ondemand.csv",
            {"labels": {"TestClusterUsage": "OnDemand"}},
            "0.90411",
        ),
        ("pricing_schema_region.csv", {"provider_id": NODE, "region": "regiontwo"}, "0.1338"),
        ("pricing_schema_region.csv", {"provider_id": NODE, "region": "elsewhere"}, "0.1339"),
        (
            "pricing_schema_case.csv",
            {
                "provider_id": "azure:///subscriptions/123a7sd-asd-1234-578a9-123abcdef/resourcegroups"
                "/case_12_stage_test7/providers/Microsoft.Compute/virtualMachineScaleSets"
                "/vmss-agent-worker0-12stagetest7-ezggnore/virtualMachines/7",
                "region": "eastus2",
            },
            "0.13370357",
        ),
        (
            "pricing_schema_case.csv",
            {
                "provider_id": "azure:///x/8",
                "instance_type": "Standard_F32s_v2",
                "region": "eastus2",
            },
            "0.13370357",
        ),
    ],
)
def test_the_csv_prices_single_nodes_and_adds_their_gpus(file, facts, expected):
    assert price(file, **facts) == (expected and Decimal(expected))


@pytest.mark.parametrize(
    ("file", "name", "expected"),
    [
        ("pricing_schema_pv.csv", "pvc-08e1f205-d7a9-4430-90fc-7b3965a18c4d", "0.1337"),
        ("pricing_schema_pv_storageclass.csv", "storageClass0", "0.1338"),
    ],
)
def test_the_csv_s_volumes_are_fees_per_gib_hour(file, name, expected):
    fee = find_fee(load(FOLDER / file).fees, Asked("storage", name), HOUR.start)
    assert fee is not None
    assert (fee.price, fee.per) == (Decimal(expected), "gib_hour")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.json", '{"CPU": "cheap"}', "not a number"),
        ("x.json", "[]", "an object was expected"),
        ("x.json", '{"provider": "custom"}', "no price that is known"),
        (
            "x.csv",
            "AssetClass,InstanceID,InstanceIDField,MarketPriceHourly\nnode,a,status.phase,1\n",
            "status.phase",
        ),
        (
            "x.csv",
            "AssetClass,InstanceID,InstanceIDField,MarketPriceHourly\nnode,a,metadata.name,x\n",
            "line 2",
        ),
    ],
)
def test_a_broken_file_is_named(name, text, said):
    with pytest.raises(ConfigError, match=name) as error:
        parse(text.encode(), name)
    assert said in str(error.value)
