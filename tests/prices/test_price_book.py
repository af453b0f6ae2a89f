"""The price book in Postgres: bitemporal, idempotent, never edited."""

import json
import os
import threading
import time
import zlib
from datetime import timedelta
from decimal import Decimal

import pytest
from price_pages import AT, COMPUTE_PAGES, azure_items, gcp_skus, key, node, utc
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from kubetally.config import ClusterConfig, SourceConfig
from kubetally.errors import ConfigError, SourceError
from kubetally.prices import azure, book, gcp, kept_files
from kubetally.prices.key import LookupKey, lookup_key
from kubetally.prices.quote import Ambiguous, Component, Priced, Snapshot, Unpriced
from kubetally.windows import Window

KEY = "azure/eastus/standard_d2s_v3/linux/on_demand"
NOW = utc(2026, 11, 3, 10, 20)
DAY = Window(utc(2026, 11, 3), utc(2026, 11, 4))


def snapshot(content="page 1", at=NOW):
    return Snapshot("azure", "https://prices.example/api?x", at, content.encode())


JANUARY = utc(2026, 1, 1)


def priced(price, start=JANUARY, end=None, sku="m-1"):
    return Priced(
        (Component(sku, "d", "node", Decimal(1), "1 Hour", Decimal(price), "USD", start, end),)
    )


@pytest.fixture
def connection(warehouse):
    with warehouse.engine.connect() as found:
        yield found


def rows(connection, table):
    return connection.execute(text(f"select * from core.{table}")).mappings().all()


def price_at(connection, moment, as_of):
    known = book.read(connection, [KEY], as_of).get(KEY)
    holding = [p for p in known.components if p.component.holds_at(moment)] if known else []
    return [str(part.component.unit_price) for part in holding]


def test_the_same_content_again_adds_nothing(connection):
    book.remember(connection, KEY, priced("0.096"), snapshot(), NOW)
    before = rows(connection, "price"), rows(connection, "price_snapshot")
    for content in ("page 1", "page 1 with other bytes"):
        later = NOW + timedelta(days=1)
        done = book.remember(connection, KEY, priced("0.096"), snapshot(content, later), later)
        assert not done.is_new
        assert not done.is_changed
    assert (rows(connection, "price"), rows(connection, "price_snapshot")) == before
    (lookup,) = rows(connection, "price_lookup")
    assert lookup["looked_up_at"] == NOW + timedelta(days=1)


def test_a_changed_price_keeps_what_was_known_before(connection):
    """A price learned late does not change what an hour computed earlier was based on."""
    later = NOW + timedelta(days=5)
    book.remember(connection, KEY, priced("0.1"), snapshot(), NOW)
    done = book.remember(connection, KEY, priced("0.2", utc(2026, 11, 1)), snapshot("2"), later)
    assert done.is_changed
    hour = utc(2026, 11, 2)
    assert price_at(connection, hour, NOW + timedelta(days=1)) == ["0.1"]
    assert price_at(connection, hour, later) == ["0.2"]
    assert price_at(connection, utc(2026, 10, 31), later) == ["0.1"]
    assert price_at(connection, hour, NOW - timedelta(seconds=1)) == []


def test_without_a_provider_s_date_the_old_price_holds_until_the_next_hour(connection):
    book.remember(connection, KEY, priced("0.1", None), snapshot(), NOW)
    later = utc(2026, 11, 4, 8, 1)
    book.remember(connection, KEY, priced("0.2", None), snapshot("2"), later)
    assert price_at(connection, utc(2026, 11, 4, 8), later) == ["0.1"]
    assert price_at(connection, utc(2026, 11, 4, 9), later) == ["0.2"]
    assert price_at(connection, utc(2026, 11, 3, 10), later) == []


def test_history_is_only_closed_never_edited(connection):
    def facts():
        found = connection.execute(
            text(
                "select price_id, unit_price, lower(during) as starts, upper(during) as ends,"
                " lower(known) as known_from, snapshot_id from core.price order by price_id"
            )
        )
        return [tuple(row) for row in found]

    history = []
    for day, price in enumerate(("0.1", "0.2", "0.1", "0.3")):
        when = NOW + timedelta(days=day)
        book.remember(connection, KEY, priced(price, None), snapshot(str(day)), when)
        assert facts()[: len(history)] == history
        history = facts()
    assert len(history) == 7


@pytest.mark.parametrize("step", [timedelta(0), timedelta(hours=-1)])
def test_knowledge_stays_in_order_when_the_clock_does_not_move_on(connection, step):
    for n, price in enumerate(("0.1", "0.2", "0.3")):
        book.remember(connection, KEY, priced(price), snapshot(str(n)), NOW + n * step)
    assert price_at(connection, utc(2026, 5, 1), NOW) == ["0.1"]
    assert price_at(connection, utc(2026, 5, 1), NOW + timedelta(seconds=1)) == ["0.3"]
    empty = connection.execute(text("select count(*) from core.price where isempty(known)"))
    assert empty.scalar_one() == 0


def test_a_price_that_is_no_longer_listed_goes_stale_and_comes_back(connection):
    """azure-rest-api-specs #13858: the API left out whole families for a while."""
    book.remember(connection, KEY, priced("0.1"), snapshot(), NOW)
    gone = NOW + timedelta(days=1)
    for n in range(2):
        done = book.remember(
            connection, KEY, Unpriced("no rows"), snapshot("empty"), gone + timedelta(hours=n)
        )
        assert done.state == "priced"
    known = book.read(connection, [KEY], gone + timedelta(hours=3))[KEY]
    assert known.reason == book.STALE
    assert known.stale_since == utc(2026, 11, 4, 11)
    back = gone + timedelta(days=1)
    book.remember(connection, KEY, priced("0.1"), snapshot(), back)
    assert book.read(connection, [KEY], back)[KEY].stale_since is None
    assert len(rows(connection, "price")) == 1


def test_an_ambiguous_lookup_ends_the_price_but_not_its_past(connection):
    book.remember(connection, KEY, priced("0.1"), snapshot(), NOW)
    later = NOW + timedelta(days=1)
    two = Ambiguous(priced("0.1").components + priced("0.2").components, "0.1 or 0.2")
    assert book.remember(connection, KEY, two, snapshot("2"), later).state == "ambiguous"
    known = book.read(connection, [KEY], later)[KEY]
    assert (known.state, known.reason) == ("ambiguous", "0.1 or 0.2")
    assert price_at(connection, utc(2026, 11, 4, 10), later) == ["0.1"]
    assert price_at(connection, utc(2026, 11, 4, 11), later) == []


def test_unpriced_is_remembered_with_its_reason(connection):
    book.remember(connection, KEY, Unpriced("no rows"), None, NOW)
    known = book.read(connection, [KEY], NOW)[KEY]
    assert (known.state, known.reason, known.components) == ("unpriced", "no rows", ())


def test_the_snapshot_is_kept_whole_and_compressed(connection):
    book.remember(connection, KEY, priced("0.1"), snapshot("x" * 9000), NOW)
    (kept,) = rows(connection, "price_snapshot")
    assert zlib.decompress(kept["payload"]) == b"x" * 9000
    assert kept["sha256"] == snapshot("x" * 9000).sha256
    (price,) = rows(connection, "price")
    assert price["snapshot_id"] == kept["snapshot_id"]


def test_two_prices_of_one_sku_cannot_hold_at_once(connection):
    book.remember(connection, KEY, priced("0.1"), snapshot(), NOW)
    with pytest.raises(IntegrityError), connection.begin_nested():
        connection.execute(
            text(
                "insert into core.price (lookup_key, sku, description, component, quantity, unit,"
                " unit_price, currency, during, known, snapshot_id) select lookup_key, sku,"
                " description, component, quantity, unit, 9, currency, during, known, snapshot_id"
                " from core.price"
            )
        )


def test_recorded_quotes_come_back_as_they_were(connection):
    d2s = key("azure", "eastus", "Standard_D2s_v3", market="spot")
    e2 = key("gcp", "us-central1", "e2-standard-4", market="spot")
    quotes = {
        d2s: azure.match(azure_items("recorded_eastus_D2s_v3_all_types_preview.json"), d2s, AT),
        e2: gcp.match(gcp_skus("gcp/reassembled_price_timeline_e2_spot_americas.json"), e2, AT),
    }
    for wanted, quote in quotes.items():
        book.remember(connection, wanted.text, quote, snapshot(wanted.text), NOW)
    known = book.read(connection, [wanted.text for wanted in quotes], NOW)
    for wanted, quote in quotes.items():
        assert isinstance(quote, Priced)
        assert {p.component for p in known[wanted.text].components} == set(quote.components)


class Scripted:
    """A price source that answers from a dict and counts what it was asked."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def announce(self, keys, since=None):
        self.announced = [key.text for key in keys]
        self.since = since

    def quote(self, wanted: LookupKey, now):
        self.asked.append(wanted.text)
        answer = self.answers[wanted.instance_type.removeprefix("standard_")]
        if isinstance(answer, Exception):
            raise answer
        return answer, snapshot(wanted.text, now)


def keys(*machines, provider="azure"):
    return [key(provider, "eastus", f"Standard_{machine}") for machine in machines]


def ensure(connection, wanted, source, now=NOW, **sources):
    return book.ensure(
        connection,
        wanted,
        now=now,
        max_age=timedelta(hours=20),
        sources={"azure": lambda: source, **sources},
    )


def test_only_what_is_unknown_or_old_is_looked_up(connection):
    source = Scripted(d1=priced("1"), d2=priced("2"))
    first = ensure(connection, keys("d1", "d1", "d2"), source)
    assert (first["keys"], first["looked_up"], first["fresh"]) == (2, 2, 0)
    again = ensure(connection, keys("d1", "d2"), source, NOW + timedelta(hours=20))
    assert (again["looked_up"], again["fresh"]) == (0, 2)
    later = ensure(connection, keys("d1", "d2"), source, NOW + timedelta(hours=21))
    assert (later["looked_up"], later["changed"]) == (2, 0)
    assert len(source.asked) == 4


def test_one_failing_provider_does_not_stop_the_others_and_takes_nothing_away(connection):
    source = Scripted(
        d1=priced("1"), d2=Unpriced("no rows"), d3=Ambiguous((), "two"), d4=SourceError("busy")
    )
    wanted = [
        *keys("d1", "d2", "d3", "d4"),
        key("gcp", "us-central1", "e2-small"),
        key("aws", "eu-west-1", "m5.large"),
    ]

    def refuse():
        raise ConfigError("There is no connection 'kubetally_gcp_prices'.")

    found = ensure(connection, wanted, source, gcp=refuse)
    assert {
        name: found[name]
        for name in ("keys", "priced", "unpriced", "ambiguous", "failed", "not_known")
    } == {
        "keys": 6,
        "priced": 1,
        "unpriced": 2,
        "ambiguous": 1,
        "failed": 2,
        "not_known": 2,
    }
    assert found["percent"]["priced"] == 16.7
    assert set(found["failures"].values()) == {
        "busy",
        "There is no connection 'kubetally_gcp_prices'.",
    }
    source.answers["d1"] = SourceError("down")
    later = NOW + timedelta(days=2)
    ensure(connection, keys("d1"), source, later)
    d1 = keys("d1")[0].text
    assert book.read(connection, [d1], later)[d1].state == "priced"
    unread = "aws/eu-west-1/m5.large/linux/on_demand"
    assert "no list that is read" in book.read(connection, [unread], later)[unread].reason
    json.dumps(found)


def test_a_changed_price_is_counted_and_named(connection):
    source = Scripted(d1=priced("1"), d2=priced("2"))
    ensure(connection, keys("d1", "d2"), source)
    source.answers["d1"] = priced("1.5", utc(2026, 11, 4))
    found = ensure(connection, keys("d1", "d2"), source, NOW + timedelta(days=1))
    assert found["changed_keys"] == ["azure/eastus/standard_d1/linux/on_demand"]
    assert found["percent"]["changed"] == 50.0


def test_two_runs_at_once_do_not_fetch_the_same(warehouse):
    source = Scripted(d1=priced("1"))
    started, summaries = threading.Event(), []

    def second():
        started.set()
        with warehouse.engine.begin() as other:
            summaries.append(ensure(other, keys("d1"), source))

    with warehouse.engine.begin() as one:
        summaries.append(ensure(one, keys("d1"), source))
        thread = threading.Thread(target=second)
        thread.start()
        started.wait()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join(20)
    assert len(source.asked) == 1
    assert [found["looked_up"] for found in summaries] == [1, 0]


def test_the_loader_s_rights_suffice(warehouse):
    with warehouse.engine_as("loader").begin() as connection:
        source = Scripted(d1=priced("1"))
        ensure(connection, keys("d1"), source)
        source.answers["d1"] = priced("2", utc(2026, 11, 1))
        ensure(connection, keys("d1"), source, NOW + timedelta(days=1))


SHEET = """prices:
- match: {labels: {pool: gpu}}
  price_per_hour: "3.06"
  valid_from: 2026-11-03T12:00:00Z
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBETALLY_CONFIG_DIR", str(tmp_path))

    def write(content, when):
        path = tmp_path / "sheet.yaml"
        path.write_text(content)
        os.utime(path, (when.timestamp(), when.timestamp()))

    write(SHEET, utc(2026, 6, 1))
    return write


def cluster(**fields):
    source = SourceConfig("prometheus", "c")
    return ClusterConfig("c", (source,), provider="azure", region="eastus", **fields)


NODES = {
    11: node(node="a", instance_type="Standard_D2s_v3", os="linux"),
    12: node(node="b", instance_type="Standard_NC6s_v3", os="linux", labels={"pool": "gpu"}),
    13: node(node="c"),
}


def staged(connection, stage_id=5):
    found = connection.execute(
        text(
            "select node_key, extract(hour from lower(during))::int, state, price_per_hour::text,"
            " origin, reason from core.node_price where stage_id = :stage order by 1, during"
        ),
        {"stage": stage_id},
    )
    return [tuple(row) for row in found]


def test_node_prices_are_staged_for_the_whole_window(connection, config):
    d2s = lookup_key(NODES[11], provider="azure", region="eastus")
    assert isinstance(d2s, LookupKey)
    book.remember(connection, d2s.text, priced("0.1", utc(2026, 11, 3, 6)), snapshot(), NOW)
    count = book.stage_node_prices(
        connection, 5, NODES, cluster(price_sheet="sheet.yaml"), DAY, NOW
    )
    assert count == 5
    assert [row[:5] for row in staged(connection)] == [
        (11, 0, "estimated", "0.1", "list"),
        (11, 6, "priced", "0.1", "list"),
        (12, 0, "unpriced", None, None),
        (12, 12, "priced", "3.06", "sheet"),
        (13, 0, "unpriced", None, None),
    ]
    assert "no instance type" in staged(connection)[-1][-1]
    gaps = connection.execute(
        text(
            "select node_key from core.node_price where stage_id = 5 group by node_key"
            " having range_agg(during) <> cast('{[2026-11-03 00:00Z,2026-11-04 00:00Z)}' as tstzmultirange)"
            " or count(*) <> (select count(distinct lower(during)) from core.node_price as other"
            " where other.stage_id = 5 and other.node_key = core.node_price.node_key)"
        )
    ).all()
    assert gaps == []


def test_a_cluster_s_hourly_rate_is_the_last_resort(connection):
    book.stage_node_prices(connection, 5, NODES, cluster(hourly_rate="0.25"), DAY, NOW)
    assert {row[2:5] for row in staged(connection)} == {("priced", "0.25", "cluster_rate")}


def test_a_price_row_leads_to_its_snapshots(connection, config):
    d2s = lookup_key(NODES[11], provider="azure", region="eastus")
    assert isinstance(d2s, LookupKey)
    book.remember(connection, d2s.text, priced("0.1"), snapshot(), NOW)
    book.stage_node_prices(connection, 5, NODES, cluster(price_sheet="sheet.yaml"), DAY, NOW)
    found = connection.execute(
        text(
            "select price.node_key, snapshot.provider from core.node_price as price"
            " join core.price_snapshot as snapshot on snapshot.snapshot_id = any(price.snapshot_ids)"
            " order by 1"
        )
    )
    assert [tuple(row) for row in found] == [(11, "azure"), (12, "sheet")]


def test_an_edited_sheet_does_not_change_hours_computed_before_it(connection, config):
    """An ordinary re-run uses the knowledge pinned then; a new run sees the edit."""
    arguments = (NODES, cluster(price_sheet="sheet.yaml"), DAY)
    book.stage_node_prices(connection, 1, *arguments, NOW)
    config(SHEET.replace("3.06", "4"), NOW + timedelta(days=1))
    book.stage_node_prices(connection, 2, *arguments, NOW)
    book.stage_node_prices(connection, 3, *arguments, NOW + timedelta(days=2))
    config(SHEET, NOW + timedelta(days=3))
    book.stage_node_prices(connection, 4, *arguments, NOW + timedelta(days=2))
    book.stage_node_prices(connection, 5, *arguments, NOW + timedelta(days=4))
    prices = [
        next(row[3] for row in staged(connection, stage) if row[4] == "sheet")
        for stage in (1, 2, 3, 4, 5)
    ]
    assert prices == ["3.06", "3.06", "4", "4", "3.06"]
    assert len(rows(connection, "price_snapshot")) == 3


def test_a_sheet_with_an_old_time_stamp_is_known_from_now_on(connection, config):
    arguments = (NODES, cluster(price_sheet="sheet.yaml"), DAY)
    book.stage_node_prices(connection, 1, *arguments, NOW)
    config(SHEET.replace("3.06", "4"), utc(2026, 1, 1))
    book.stage_node_prices(connection, 2, *arguments, NOW)
    assert {row[3] for row in staged(connection, 2) if row[4] == "sheet"} == {"3.06"}


def test_a_missing_sheet_is_named(connection, config):
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        book.stage_node_prices(connection, 1, NODES, cluster(price_sheet="none.yaml"), DAY, NOW)


def test_the_publisher_s_rights_suffice_to_stage(warehouse, config):
    with warehouse.engine_as("publisher").begin() as connection:
        book.stage_node_prices(connection, 5, NODES, cluster(price_sheet="sheet.yaml"), DAY, NOW)


def test_five_thousand_nodes_are_staged_in_seconds(connection):
    """Most nodes share a few keys; the prices are cached."""
    nodes = {
        n: node(uid=f"u{n}", node=f"n{n}", instance_type=f"Standard_D{n % 200}s_v5", os="linux")
        for n in range(5000)
    }
    quote = priced("0.1")
    for n in range(200):
        text_key = f"azure/eastus/standard_d{n}s_v5/linux/on_demand"
        book.remember(connection, text_key, quote, snapshot(), NOW)
    start = time.perf_counter()
    assert book.stage_node_prices(connection, 9, nodes, cluster(), DAY, NOW) == 5000
    assert time.perf_counter() - start < 5


def test_compute_pages_price_five_thousand_keys_in_seconds():
    catalog = gcp.Catalog.of(gcp_skus(*COMPUTE_PAGES))
    machines = [
        key("gcp", region, f"{family}-standard-{size}", market=market)
        for region in ("us-central1", "europe-west1", "europe-west3", "asia-south1")
        for family in ("e2", "n1", "n2", "n2d", "c2d")
        for size in (2, 4, 8, 16, 32)
        for market in ("on_demand", "spot")
    ]
    start = time.perf_counter()
    for _ in range(25):
        for wanted in machines:
            gcp.match(catalog, wanted, AT)
    assert len(machines) * 25 == 5000
    assert time.perf_counter() - start < 5


def test_a_sudden_change_is_told_with_both_snapshots_and_kept(connection):
    book.remember(connection, KEY, priced("0.1"), snapshot("1"), NOW)
    later = NOW + timedelta(days=1)
    done = book.remember(connection, KEY, priced("0.131", utc(2026, 11, 4)), snapshot("2"), later)
    (jump,) = done.jumps
    assert (str(jump.before), str(jump.after), jump.at) == ("0.1", "0.131", utc(2026, 11, 4))
    assert jump.snapshot_before != jump.snapshot_after
    assert price_at(connection, utc(2026, 11, 4), later) == ["0.131"]
    calm = book.remember(
        connection, KEY, priced("0.16", utc(2026, 11, 6)), snapshot("3"), NOW + timedelta(days=3)
    )
    assert calm.is_changed
    assert calm.jumps == ()


def test_the_summary_names_sudden_changes(connection):
    source = Scripted(d1=priced("1"), d2=priced("1"))
    ensure(connection, keys("d1", "d2"), source)
    source.answers["d1"] = priced("2", utc(2026, 11, 4))
    found = ensure(connection, keys("d1", "d2"), source, NOW + timedelta(days=1))
    assert list(found["sudden_changes"]) == ["azure/eastus/standard_d1/linux/on_demand"]
    assert "1 (snapshot" in found["sudden_changes"]["azure/eastus/standard_d1/linux/on_demand"]
    assert len(source.announced) == 2


class Catalogue(Scripted):
    """A list that shows the present price, and with `since` the past ones too."""

    def quote(self, wanted, now):
        self.asked.append((wanted.text, self.since))
        present = priced("0.3", utc(2026, 7, 1)).components
        past = priced("0.2", utc(2026, 2, 1), utc(2026, 7, 1)).components
        return Priced((*(past if self.since else ()), *present)), snapshot(
            str(len(self.asked)), now
        )


def test_a_backfill_asks_a_list_without_a_past_for_it_once(connection):
    source = Catalogue()
    wanted = [key("gcp", "us-central1", "e2-standard-4", market="spot")]
    name = wanted[0].text

    def price(moment):
        found = book.read(connection, [name], NOW + timedelta(days=9))[name]
        return [
            str(p.component.unit_price) for p in found.components if p.component.holds_at(moment)
        ]

    def run(since=None):
        return book.ensure(
            connection,
            wanted,
            now=NOW,
            max_age=timedelta(days=9),
            since=since,
            sources={"gcp": lambda: source},
        )

    run()
    assert price(utc(2026, 3, 9)) == []
    for since in (utc(2026, 3, 9), utc(2026, 3, 20), utc(2026, 8, 1), utc(2026, 5, 2)):
        run(since)
    assert source.asked == [(name, None), (name, utc(2026, 3, 1))]
    assert price(utc(2026, 3, 9)) == ["0.2"]
    assert price(utc(2026, 8, 1)) == ["0.3"]


RATES = """base: EUR
days:
- {date: 2026-11-02, rates: {USD: "1.25", GBP: "0.8"}}
"""


def test_prices_come_in_the_cost_model_s_currency_where_rates_are_configured(
    connection, config, tmp_path
):
    sheet = SHEET.replace('price_per_hour: "3.06"', 'price_per_hour: "4"\n  currency: EUR')
    config(sheet, utc(2026, 6, 1))
    connection.execute(
        text(
            "insert into core.cost_model (cost_model, version, kind, currency, cpu_weight, memory_weight,"
            " gpu_weight, definition, during, known) values ('resource', 'v', 'resource', 'USD', 1, 1, 1,"
            " '{}', '(,)', '(,)')"
        )
    )
    arguments = (NODES, cluster(price_sheet="sheet.yaml"), DAY, NOW)
    book.stage_node_prices(connection, 1, *arguments)
    assert [row[3] for row in staged(connection, 1) if row[4] == "sheet"] == ["4"]
    (tmp_path / "exchange_rates.yaml").write_text(RATES)
    book.stage_node_prices(connection, 2, *arguments)
    (row,) = [row for row in staged(connection, 2) if row[4] == "sheet"]
    assert Decimal(row[3]) == 5
    assert row[5] == "1 EUR = 1.25 USD on 2026-11-03"
    kinds = connection.execute(
        text(
            "select array_agg(distinct provider order by provider) from core.price_snapshot"
            " join core.node_price on snapshot_id = any(snapshot_ids) where stage_id = 2"
        )
    ).scalar_one()
    assert kinds == ["rates", "sheet"]
    (tmp_path / "exchange_rates.yaml").write_text(RATES.replace("2026-11-02", "2026-10-02"))
    with pytest.raises(ConfigError, match="no exchange rate from EUR to USD for 2026-11-03"):
        book.stage_node_prices(connection, 3, *arguments[:3], NOW + timedelta(days=400))


def test_fees_are_kept_like_sheets(connection, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBETALLY_CONFIG_DIR", str(tmp_path))
    assert kept_files.fees_as_of(connection, NOW) == ((), None)
    (tmp_path / "fees.yaml").write_text('fees: [{kind: egress, price: "1", per: gib}]')
    fees, first = kept_files.fees_as_of(connection, NOW)
    (tmp_path / "fees.yaml").write_text('fees: [{kind: egress, price: "2", per: gib}]')
    assert kept_files.fees_as_of(connection, NOW) == (fees, first)
    later, second = kept_files.fees_as_of(connection, NOW + timedelta(days=9999))
    assert (later[0].price, second != first) == (2, True)
