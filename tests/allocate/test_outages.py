"""Outages: the public format, the union, and what was known when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from allocate.scene import NOW, cluster_of, query
from kubetally.allocate.outages import Outage, Timeframe, load_outages, sync_outages
from kubetally.errors import ConfigError
from kubetally.warehouse.connect import engine
from oracles.by_hand import cases

LATER = NOW + timedelta(days=1)
PUBLIC = """
- url: https://status.example.com/maintenance
  timeframes:
    - from: "2025-10-14T12:00:00Z"
      until: "2025-10-14T21:00:00Z"
      affected_services:
        - ocp-prod
"""


def moment(text_):
    return datetime.fromisoformat(text_)


def outage(*frames, service="prod"):
    """An outage of (from, until) pairs."""
    times = [(start, end) for start, end in frames]
    return Outage(
        "https://status.example.com", tuple(Timeframe(s, (service,), e) for s, e in times)
    )


def known(*outages, clusters=(), now=NOW):
    with engine("publisher").begin() as connection:
        sync_outages(connection, outages, now, clusters)


def down(start, end, *, cluster="prod", as_of=NOW):
    """The spans of the union in a window."""
    rows = query(
        "select lower(part), upper(part) from unnest(core.outages(:cluster, :as_of, :start, :end))"
        " as part",
        cluster=cluster,
        as_of=as_of,
        start=start,
        end=end,
    )
    return [tuple(row) for row in rows]


def load(tmp_path, content):
    (tmp_path / "outages").mkdir(exist_ok=True)
    (tmp_path / "outages" / "example.yaml").write_text(content, encoding="utf-8")
    return load_outages(tmp_path)


@pytest.mark.claims("IGN-02", "IGN-04", "IGN-05", "IGN-06", "IGN-07")
@pytest.mark.parametrize("case_id", ["IGN-02", "IGN-04", "IGN-05", "IGN-06", "IGN-07"])
def test_what_is_left_of_a_life_after_the_outages(warehouse, case_id):
    life = cases()[case_id]["given"]["pod"]
    day = life["start"][:11]
    known(
        *(
            outage((moment(f"{day}{start}Z"), moment(f"{day}{end}Z")))
            for start, end in cases()[case_id]["given"]["windows"]
        )
    )
    start, end = moment(life["start"]), moment(life["end"])
    ((seconds,),) = query(
        "select core.seconds(tstzmultirange(tstzrange(:start, :end))"
        " - core.outages('prod', :now, :start, :end))",
        start=start,
        end=end,
        now=NOW,
    )
    assert seconds / 3600 == Decimal(cases()[case_id]["expect"])


@pytest.mark.claims("IGN-08")
def test_an_outage_on_the_last_day_of_a_report_counts(warehouse, tmp_path):
    known(*load(tmp_path, PUBLIC))
    day = datetime(2025, 10, 14, tzinfo=UTC)
    ((start, end),) = down(day, day + timedelta(days=1), cluster="ocp-prod")
    assert end - start == timedelta(hours=int(cases()["IGN-08"]["expect"].split()[0]))


@pytest.mark.claims("IGN-09")
def test_outages_are_clipped_to_what_is_asked(warehouse):
    given_, expect = cases()["IGN-09"]["given"], cases()["IGN-09"]["expect"]
    known(outage(tuple(map(moment, given_["outage"]))))
    first, last = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in given_["query"])
    assert down(first, last + timedelta(days=1)) == [tuple(map(moment, expect))]


@pytest.mark.claims("IGN-10")
@pytest.mark.parametrize(
    ("start", "said"),
    [
        (cases()["IGN-10"]["given"]["outage_from"], "must be UTC"),
        ("2024-06-01T09:00:00", "timezone"),
        ("2025-10-14T22:00:00Z", "after `from`"),
        ("soon", "RFC3339"),
    ],
)
@pytest.mark.parametrize("quote", ['"', ""])
def test_times_that_are_not_utc_or_run_backwards_are_refused(tmp_path, start, said, quote):
    content = PUBLIC.replace('"2025-10-14T12:00:00Z"', f"{quote}{start}{quote}")
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, content)
    assert "example.yaml" in str(refused.value)
    assert "timeframes" in str(refused.value)
    if quote or start != "soon":
        assert said in str(refused.value)


def test_an_outage_without_end_lasts(warehouse, tmp_path):
    known(*load(tmp_path, PUBLIC.replace('      until: "2025-10-14T21:00:00Z"\n', "")))
    day = datetime(2026, 1, 1, tzinfo=UTC)
    assert down(day, day + timedelta(days=1), cluster="ocp-prod") == [
        (day, day + timedelta(days=1))
    ]


def test_a_cluster_answers_to_its_name_and_to_the_services_it_lists(warehouse, tmp_path):
    clusters = (cluster_of("east", outage_services=("ocp-prod",)), cluster_of("west"))
    known(*load(tmp_path, PUBLIC), clusters=clusters)
    day = datetime(2025, 10, 14, tzinfo=UTC)
    assert [
        len(down(day, day + timedelta(days=1), cluster=name))
        for name in ("east", "west", "ocp-prod")
    ] == [1, 0, 0]


def test_what_was_known_stays_known(warehouse):
    start = datetime(2026, 11, 3, tzinfo=UTC)
    hour = timedelta(hours=1)
    first = outage((start, start + hour))
    known(first)
    known(first, outage((start + 2 * hour, start + 3 * hour)), now=LATER)
    known(now=LATER + hour)
    spans = [
        len(down(start, start + 24 * hour, as_of=as_of))
        for as_of in (NOW - 99 * hour, NOW, LATER, LATER + hour)
    ]
    assert spans == [1, 1, 2, 0]


BEGIN = datetime(2026, 11, 3, tzinfo=UTC)
minutes = st.integers(0, 1500).map(lambda n: BEGIN + timedelta(minutes=n))
pairs = st.tuples(minutes, minutes).map(sorted).filter(lambda pair: pair[0] < pair[1])


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(frames=st.lists(pairs, max_size=6), window=pairs)
def test_the_union_is_that_of_single_minutes(pooled, frames, window):
    with engine("owner").begin() as connection:
        connection.execute(text("delete from core.outage"))
    known(*([outage(*frames)] if frames else []))
    minute = timedelta(minutes=1)
    wanted = sum(
        any(start <= now < end for start, end in frames)
        for now in (window[0] + n * minute for n in range((window[1] - window[0]) // minute))
    )
    found = down(*window)
    assert sum((end - start) // minute for start, end in found) == wanted
    assert all(one[1] < other[0] for one, other in pairwise(found))
