"""Price sheets: which entry counts, and errors that name file, key and remedy."""

from decimal import Decimal

import pytest
from price_pages import PROJECT, node, utc

from kubetally.errors import ConfigError
from kubetally.prices.quote import EARLIEST, LATEST
from kubetally.prices.sheet import load, parse


def sheet(text, name="sheet.yaml"):
    return parse(text.encode(), name)


GPU = node(
    node="gpu-pool-7",
    instance_type="Standard_NC6s_v3",
    region="eastus",
    os="linux",
    labels={"kubetally.dev/pool": "gpu"},
)


@pytest.mark.parametrize(
    ("match", "is_match"),
    [
        ("{}", True),
        ("{labels: {kubetally.dev/pool: gpu}}", True),
        ("{labels: {kubetally.dev/pool: gpu, other: x}}", False),
        ("{node: gpu-pool-*}", True),
        ("{node: 'GPU-pool-?'}", True),
        ("{node: gpu-pool}", False),
        ("{instance_type: standard_nc*}", True),
        ("{instance_type: standard_nc*, region: westus}", False),
        ("{region: east*}", True),
        ("{os: linux, capacity_type: on_demand}", True),
        ("{capacity_type: spot}", False),
        ("{os: windows}", False),
        ("{cluster: c}", True),
        ("{cluster: prod-*}", False),
        ("{provider_id: 'azure:///*'}", False),
        ("{gpu_model: 'tesla*'}", False),
    ],
)
def test_all_that_is_given_must_match(match, is_match):
    found = sheet(f'prices: [{{match: {match}, price_per_hour: "3.06"}}]')
    assert bool(found.for_node(GPU)) is is_match


def test_the_demo_s_sheet_prices_its_gpu_pool():
    found = load(PROJECT / "include/config/price_sheets/demo.yaml")
    (entry,) = found.for_node(GPU)
    assert entry.price_per_hour == Decimal("3.06")
    assert (entry.valid_from, entry.valid_until) == (utc(2020, 1, 1), LATEST)


def test_dates_start_at_utc_midnight_and_times_are_rounded_up_to_the_hour():
    found = sheet(
        """prices:
        - {price_per_hour: "1", valid_from: 2026-01-01, valid_until: 2026-02-01T10:30:00Z}
        - {price_per_hour: "2", valid_from: '2026-02-01T12:00:00+01:00', valid_until: null}
        - {price_per_hour: 3}"""
    )
    assert [(e.valid_from, e.valid_until) for e in found.entries] == [
        (utc(2026, 1, 1), utc(2026, 2, 1, 11)),
        (utc(2026, 2, 1, 11), LATEST),
        (EARLIEST, LATEST),
    ]


def test_a_csv_sheet_says_the_same_as_a_yaml_one():
    rows = sheet(
        "node,labels,price_per_hour,cpu_core_hour,memory_gib_hour,currency,valid_from\n"
        "gpu-*,kubetally.dev/pool=gpu;a=b,3.06,,,EUR,2020-01-01\n"
        ",,,0.03,0.004,,\n",
        "sheet.csv",
    )
    assert rows == sheet(
        """prices:
        - match: {node: gpu-*, labels: {kubetally.dev/pool: gpu, a: b}}
          price_per_hour: "3.06"
          currency: EUR
          valid_from: 2020-01-01
        - {cpu_core_hour: "0.03", memory_gib_hour: "0.004"}"""
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prices: [{price_per_hour: 3.06}]", "in quotes"),
        ('prices: [{price_per_hour: "3,06"}]', "not a number"),
        ('prices: [{price_per_hour: "-1"}]', "negative"),
        ('prices: [{price_per_hour: "NaN"}]', "not a price"),
        ("prices: [{price_per_hour: true}]", "in quotes"),
        ("prices: [{}]", "needs `price_per_hour`, rates"),
        ('prices: [{price_per_hour: "1", cpu_core_hour: "1"}]', "not both"),
        ('prices: [{price: "1"}]', "unknown field `price`"),
        ('prices: [{discount_percent: "101"}]', "at most 100"),
        ('prices: [{discount_percent: "5", price_per_hour: "1"}]', "not both"),
        ('prices: [{discount_percent: "5", cpu_core_hour: "1"}]', "not both"),
        ('prices: [{price_per_hour: "1", of: on_demand}]', "percentages are taken of"),
        ("prices: [{gpu_hour_by_model: {T4: 0.35}}]", "in quotes"),
        ("fees: [{kind: storage, per: hour}]", "`price`"),
        ('prices: [{match: {pool: x}, price_per_hour: "1"}]', "unknown field `pool`"),
        ('prices: [{price_per_hour: "1", currency: usd}]', "code like USD"),
        ('prices: [{price_per_hour: "1", valid_from: soon}]', "`valid_from`"),
        ('prices: [{price_per_hour: "1", valid_from: 2026-01-01 10:00:00}]', "no time zone"),
        (
            'prices: [{price_per_hour: "1", valid_from: 2026-02-01, valid_until: 2026-01-01}]',
            "not after",
        ),
        ("prices: [", "not valid YAML"),
    ],
)
def test_a_wrong_sheet_is_refused_with_file_and_reason(text, said):
    with pytest.raises(ConfigError, match=r"sheet\.yaml") as error:
        sheet(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("price\n1\n", "unknown columns price"),
        ("", "none given"),
        ("price_per_hour\n1,2\n", "more cells"),
        ("price_per_hour,labels\n1,a\n", "name=value"),
        ("price_per_hour\n1\nx\n", "line 3"),
    ],
)
def test_a_wrong_csv_sheet_is_refused_with_file_and_reason(text, said):
    with pytest.raises(ConfigError, match=r"sheet\.csv") as error:
        sheet(text, "sheet.csv")
    assert said in str(error.value)


def test_a_missing_sheet_is_named():
    with pytest.raises(ConfigError, match=r"none\.yaml cannot be read"):
        load(PROJECT / "include/config/price_sheets/none.yaml")


def test_a_csv_sheet_may_hold_percentages():
    found = sheet("cluster,discount_percent,of\nprod-*,60,on_demand\n", "sheet.csv")
    (entry,) = found.entries
    assert (entry.discount_percent, entry.of_on_demand) == (Decimal(60), True)


def test_a_sheet_may_hold_fees():
    found = sheet('fees: [{kind: load_balancer, price: "0.02", per: hour}]')
    assert [(fee.kind, fee.price) for fee in found.fees] == [("load_balancer", Decimal("0.02"))]


def test_gpu_hours_may_differ_by_model():
    found = sheet(
        """prices:
        - {cpu_core_hour: "0", memory_gib_hour: "0", gpu_hour: "1",
           gpu_hour_by_model: {"*T4*": "0.35", "NVIDIA-H100*": "9"}}"""
    )
    (entry,) = found.entries
    for model, expected in (("nvidia-tesla-t4", "0.35"), ("nvidia-h100-80gb", "9"), ("L4", "1")):
        assert entry.gpu_hour_of(node(gpu_model=model)) == Decimal(expected)
    assert entry.gpu_hour_of(node()) == Decimal(1)
