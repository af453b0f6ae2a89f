"""Which price counts for a node, hour by hour."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from price_pages import key, node, utc

from kubetally.errors import ConfigError
from kubetally.prices.key import NoKey, lookup_key
from kubetally.prices.quote import Component
from kubetally.prices.resolve import Known, KnownComponent, hourly_rate, resolve
from kubetally.prices.sheet import parse
from kubetally.windows import Window
from oracles.by_hand import cases

KEY = key("azure", "eastus", "Standard_D2s_v3")
NODE = node(
    instance_type="Standard_D2s_v3",
    region="eastus",
    os="linux",
    cpu_capacity_cores=Decimal(2),
    memory_capacity_bytes=Decimal(8 * 1024**3),
)
DAY = Window(utc(2026, 11, 3), utc(2026, 11, 4))


def part(price, start, end=None, kind="node", quantity=1, snapshot=7, currency="USD"):
    return KnownComponent(
        Component("s", "d", kind, Decimal(quantity), "h", Decimal(price), currency, start, end),
        snapshot,
    )


def known(*parts, state="priced", reason="", stale_since=None):
    return Known(state, reason, parts, stale_since)


def prices(window=DAY, facts=NODE, **arguments):
    return [
        (p.during_start.hour, p.state, p.price_per_hour and str(p.price_per_hour), p.origin)
        for p in resolve(facts, window, **{"key": KEY, **arguments})
    ]


SHEET = parse(
    b"""prices:
    - {price_per_hour: "9", valid_from: 2026-11-03T06:00:00Z, valid_until: 2026-11-03T12:00:00Z}
    - {price_per_hour: "8", valid_from: 2026-11-03T10:00:00Z, valid_until: 2026-11-03T18:00:00Z}""",
    "sheet.yaml",
    snapshot_id=3,
)
LIST = known(part("0.1", utc(2026, 1, 1), utc(2026, 11, 3, 20)), part("0.2", utc(2026, 11, 3, 20)))


def test_sheet_before_list_before_cluster_rate():
    rate = Decimal("0.5")
    assert prices(sheet=SHEET, known=LIST, hourly_rate=rate) == [
        (0, "priced", "0.1", "list"),
        (6, "priced", "9", "sheet"),
        (12, "priced", "8", "sheet"),
        (18, "priced", "0.1", "list"),
        (20, "priced", "0.2", "list"),
    ]
    assert prices(sheet=SHEET, hourly_rate=rate) == [
        (0, "priced", "0.5", "cluster_rate"),
        (6, "priced", "9", "sheet"),
        (12, "priced", "8", "sheet"),
        (18, "priced", "0.5", "cluster_rate"),
    ]


def test_a_price_names_its_snapshots():
    found = resolve(NODE, DAY, key=KEY, known=LIST, sheet=SHEET)
    assert [price.snapshot_ids for price in found] == [(7,), (3,), (3,), (7,), (7,)]


@pytest.mark.parametrize(
    ("arguments", "state", "reason"),
    [
        ({}, "unpriced", "not been looked up"),
        ({"key": NoKey("no region")}, "unpriced", "no region"),
        ({"known": known(state="unpriced", reason="no rows")}, "unpriced", "no rows"),
        ({"known": known(state="ambiguous", reason="two rows")}, "ambiguous", "two rows"),
        ({"known": known(part("1", utc(2020, 1, 1), utc(2021, 1, 1)))}, "unpriced", "holds then"),
    ],
)
def test_without_a_price_the_reason_is_kept_and_nothing_is_zero(arguments, state, reason):
    (found,) = resolve(NODE, DAY, **{"key": KEY, **arguments})
    assert (found.state, found.price_per_hour, found.currency) == (state, None, None)
    assert reason in found.reason
    assert (found.during_start, found.during_end) == (DAY.start, DAY.end)


@pytest.mark.claims("PR-04")
def test_a_node_without_labels_is_kept_unpriced_and_stops_nothing():
    """kubeledger PR 100: a KeyError stopped the polling."""
    bare = node(labels=cases()["PR-04"]["given"]["node_labels"])
    (found,) = resolve(bare, DAY, key=lookup_key(bare))
    assert (found.state, found.price_per_hour) == ("unpriced", None)
    assert found.reason


def test_before_the_first_known_price_it_is_estimated_and_says_so():
    first = known(part("0.1", utc(2026, 11, 3, 5)))
    assert prices(known=first) == [(0, "estimated", "0.1", "list"), (5, "priced", "0.1", "list")]


def test_a_stale_price_is_shown_as_estimated():
    stale = known(
        part("0.1", utc(2026, 1, 1)), reason="not listed any more", stale_since=utc(2026, 11, 3, 9)
    )
    assert prices(known=stale) == [(0, "priced", "0.1", "list"), (9, "estimated", "0.1", "list")]


def test_an_ambiguous_key_keeps_the_price_it_had_before():
    was = known(
        part("0.1", utc(2026, 1, 1), utc(2026, 11, 3, 9)), state="ambiguous", reason="two rows"
    )
    assert prices(known=was) == [(0, "priced", "0.1", "list"), (9, "ambiguous", None, None)]


def test_component_prices_add_up_or_are_all_unknown():
    start = utc(2026, 1, 1)
    whole, split = (
        resolve(NODE, DAY, key=KEY, known=found)[0]
        for found in (
            known(part("0.1", start)),
            known(
                part("0.03", start, kind="cpu", quantity=2),
                part("0.046", start, kind="cpu", quantity=2),
                part("0.004", start, kind="memory", quantity=8, snapshot=9),
            ),
        )
    )
    assert (whole.cpu_price_per_hour, whole.memory_price_per_hour, whole.gpu_price_per_hour) == (
        None,
        None,
        None,
    )
    assert (split.cpu_price_per_hour, split.memory_price_per_hour, split.gpu_price_per_hour) == (
        Decimal("0.152"),
        Decimal("0.032"),
        Decimal(0),
    )
    assert split.price_per_hour == Decimal("0.184")
    assert split.snapshot_ids == (7, 9)


def test_a_price_with_a_part_missing_is_no_price():
    start = utc(2026, 1, 1)
    gap = known(
        part("0.03", start, kind="cpu"),
        part("0.004", start, utc(2026, 11, 3, 7), kind="memory"),
    )
    assert prices(known=gap) == [(0, "priced", "0.034", "list"), (7, "unpriced", None, None)]


def test_rates_are_multiplied_by_capacity_and_rounded_at_18_decimals():
    rates = parse(
        b'prices: [{cpu_core_hour: "0.031611", memory_gib_hour: "0.004237"}]', "sheet.yaml"
    )
    (found,) = resolve(NODE, DAY, key=KEY, sheet=rates)
    assert found.cpu_price_per_hour == Decimal("0.063222")
    assert found.memory_price_per_hour == Decimal("0.033896")
    assert found.gpu_price_per_hour == 0
    assert found.price_per_hour == Decimal("0.097118")
    odd = node(cpu_capacity_cores=Decimal(2), memory_capacity_bytes=Decimal(8_123_456_789))
    (found,) = resolve(odd, DAY, key=KEY, sheet=rates)
    assert found.memory_price_per_hour == Decimal("0.032055272175923921")
    assert found.price_per_hour == found.cpu_price_per_hour + found.memory_price_per_hour


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"cpu_capacity_cores": Decimal(2)}, "capacity for memory_gib_hour is not known"),
        (
            {
                "cpu_capacity_cores": Decimal(2),
                "memory_capacity_bytes": Decimal(1),
                "gpu_capacity": Decimal(1),
            },
            "no gpu_hour",
        ),
    ],
)
def test_a_rate_that_is_missing_makes_the_node_unpriced_not_cheaper(facts, reason):
    rates = parse(b'prices: [{cpu_core_hour: "1", memory_gib_hour: "1"}]', "sheet.yaml")
    (found,) = resolve(node(**facts), DAY, key=KEY, sheet=rates)
    assert (found.state, found.price_per_hour) == ("unpriced", None)
    assert reason in found.reason


@pytest.mark.parametrize("text", ["x", "-1", "NaN", "Infinity"])
def test_a_wrong_hourly_rate_is_refused(text):
    with pytest.raises(ConfigError, match="hourly_rate"):
        hourly_rate(text)


def test_an_hourly_rate_is_a_decimal():
    assert hourly_rate("0.25") == Decimal("0.25")
    assert hourly_rate("") is None


HOURS = st.integers(-5, 30).map(lambda n: DAY.start + timedelta(hours=n))
SPANS = st.tuples(HOURS, HOURS).map(sorted).filter(lambda pair: pair[0] < pair[1])


@given(
    spans=st.lists(SPANS, max_size=4),
    state=st.sampled_from(["priced", "unpriced", "ambiguous"]),
    stale=st.none() | HOURS,
)
def test_the_whole_window_is_covered_without_gap_or_overlap(spans, state, stale):
    parts = [part("1", start, end) for start, end in spans]
    found = resolve(
        NODE, DAY, key=KEY, known=known(*parts, state=state, stale_since=stale), sheet=SHEET
    )
    edges = [DAY.start, *(price.during_end for price in found)]
    assert [price.during_start for price in found] == edges[:-1]
    assert edges[-1] == DAY.end
    assert all((price.price_per_hour is None) == (price.origin is None) for price in found)


def test_the_order_of_precedence_as_the_readme_has_it():
    """Within a sheet: the first entry with a price that matches, from top to bottom; then the list;
    then the cluster's rate."""
    sheet = parse(
        b"""prices:
        - {match: {node: n-1}, price_per_hour: "1"}
        - {match: {instance_type: standard_d2s*}, price_per_hour: "2"}
        - {match: {labels: {pool: blue}}, price_per_hour: "3"}
        - {match: {cluster: c}, price_per_hour: "4"}""",
        "sheet.yaml",
    )

    def price(**facts):
        facts = node(**{"node": "n-9", "cluster": "d", **facts})
        found = resolve(facts, DAY, key=KEY, known=LIST, sheet=sheet, hourly_rate=Decimal(9))
        return found[0].price_per_hour

    blue = {"pool": "blue"}
    assert price(node="n-1", instance_type="Standard_D2s_v3", labels=blue, cluster="c") == 1
    assert price(instance_type="Standard_D2s_v3", labels=blue, cluster="c") == 2
    assert price(labels=blue, cluster="c") == 3
    assert price(cluster="c") == 4
    assert price() == Decimal("0.1")


def adjusted(text, known=LIST, facts=NODE, **arguments):
    sheet = parse(text.encode(), "sheet.yaml", snapshot_id=3)
    found = resolve(
        facts, DAY, key=arguments.pop("key", KEY), known=known, sheet=sheet, **arguments
    )
    return found[0]


def test_discounts_and_markups_multiply_and_are_told():
    found = adjusted(
        'prices: [{discount_percent: "20"}, {discount_percent: "5", markup_percent: "10"}]'
    )
    assert found.price_per_hour == Decimal("0.1") * Decimal("0.8") * Decimal("0.95") * Decimal(
        "1.1"
    )
    assert (found.state, found.origin, found.snapshot_ids) == ("priced", "sheet", (3, 7))
    assert found.reason == "20 % off, 5 % off, 10 % on top of the list by the sheet"


def test_percentages_adjust_only_what_stands_below_them():
    below = adjusted('prices: [{discount_percent: "50"}, {price_per_hour: "4"}]')
    above = adjusted('prices: [{price_per_hour: "4"}, {discount_percent: "50"}]')
    assert (below.price_per_hour, above.price_per_hour) == (2, 4)


def test_percentages_adjust_the_parts_and_the_cluster_s_rate_but_make_no_price():
    start = utc(2026, 1, 1)
    split = known(part("0.03", start, kind="cpu", quantity=2), part("0.004", start, kind="memory"))
    found = adjusted('prices: [{markup_percent: "50"}]', known=split)
    assert (found.cpu_price_per_hour, found.memory_price_per_hour) == (
        Decimal("0.09"),
        Decimal("0.006"),
    )
    assert found.price_per_hour == Decimal("0.096")
    rate = adjusted('prices: [{discount_percent: "10"}]', known=None, hourly_rate=Decimal(2))
    assert rate.price_per_hour == Decimal("1.8")
    none = adjusted('prices: [{discount_percent: "10"}]', known=None)
    assert (none.state, none.price_per_hour) == ("unpriced", None)


def test_a_spot_node_may_be_priced_by_a_discount_on_the_on_demand_price():
    spot = key("aws", "eu-west-1", "m5.large", market="spot")
    facts = node(instance_type="m5.large", region="eu-west-1", os="linux", capacity_type="spot")
    unlisted = known(state="unpriced", reason="no spot prices")
    text = 'prices: [{match: {capacity_type: spot}, discount_percent: "65", of: on_demand}]'
    arguments = {"known": unlisted, "facts": facts, "key": spot}
    found = adjusted(text, known_on_demand=known(part("0.107", utc(2026, 1, 1))), **arguments)
    assert found.price_per_hour == Decimal("0.107") * Decimal("0.35")
    assert "65 % off of the on-demand price by the sheet" in found.reason
    without = adjusted(text, **arguments)
    assert (without.state, without.price_per_hour) == ("unpriced", None)
    plain = adjusted('prices: [{discount_percent: "65"}]', known_on_demand=LIST, **arguments)
    assert plain.price_per_hour is None, "only `of: on_demand` looks there"


def test_a_virtual_node_has_rates_for_its_pods_and_no_price():
    virtual = node(is_virtual=True, region="us-east-1", cpu_capacity_cores=Decimal(2))
    text = """prices:
    - {price_per_hour: "9"}
    - {cpu_core_hour: "0.04", memory_gib_hour: "0.004"}"""
    found = adjusted(text, facts=virtual, known=None, hourly_rate=Decimal(9))
    assert (found.state, found.origin, found.price_per_hour) == ("priced", "sheet", None)
    assert (found.cpu_price_per_hour, found.memory_price_per_hour) == (
        Decimal("0.04"),
        Decimal("0.004"),
    )
    start = utc(2026, 1, 1)
    rates = known(
        part("0.0000598", start, kind="cpu", quantity=1000),
        part("0.0066193", start, kind="memory"),
        part("0.0000737", start, kind="disk"),
    )
    (listed,) = resolve(virtual, DAY, key=KEY, known=rates, hourly_rate=Decimal(9))
    assert (listed.price_per_hour, listed.cpu_price_per_hour) == (None, Decimal("0.0598"))
    assert listed.memory_price_per_hour == Decimal("0.0066193")
    (nothing,) = resolve(virtual, DAY, key=KEY, hourly_rate=Decimal(9))
    assert (nothing.state, nothing.cpu_price_per_hour) == ("unpriced", None)


def test_what_is_bundled_is_part_of_the_price_only():
    start = utc(2026, 1, 1)
    found = known(
        part("0.03", start, kind="cpu"),
        part("0.01", start, kind="memory"),
        part("0.05", start, kind="disk"),
    )
    (price,) = resolve(NODE, DAY, key=KEY, known=found)
    assert price.price_per_hour == Decimal("0.09")
    assert (price.cpu_price_per_hour, price.gpu_price_per_hour) == (Decimal("0.03"), 0)
