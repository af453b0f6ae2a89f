"""Owners and cost models are dated data, and what was believed stays readable."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase

import msgspec
import pytest
import sqlalchemy
from hypothesis import given, settings
from hypothesis import strategies as st

from allocate.scene import (
    A_DAY,
    DAY_PRICES,
    NOW,
    RESOURCE_MODEL,
    Said,
    a_day,
    cluster_of,
    configure,
    hours,
    land_said,
    lines_of,
    namespace,
    pod,
    query,
    span,
    stage_window,
)
from kubetally.allocate.globs import regex
from kubetally.allocate.models import BasePrice, CostModel, ModelVersion, load_models
from kubetally.allocate.owners import OwnerEntry, load_owners, sync_owners
from kubetally.config import PROJECT
from kubetally.errors import ConfigError
from kubetally.warehouse.connect import engine

LATER = NOW + timedelta(days=1)
LATEST = NOW + timedelta(days=2)


def version(cpu="0.03", valid_from=date(2020, 1, 1)):
    return ModelVersion(valid_from, "USD", BasePrice(Decimal(cpu), Decimal("0.004"), Decimal(1)))


def model(*versions):
    return CostModel("resource", versions)


def believed(as_of):
    """(cpu weight, from, until) of the versions as they were known at a moment."""
    rows = query(
        "select cpu_weight, lower(during), upper(during) from core.cost_model where known @> :as_of"
        " order by during",
        as_of=as_of,
    )
    return [(str(row[0]), row[1].date(), row[2] and row[2].date()) for row in rows]


# --- models ---------------------------------------------------------------------------------------


def test_the_first_thing_known_of_a_model_counts_for_all_time(warehouse):
    configure(model=model(version()))
    assert believed(NOW - timedelta(days=999)) == [("0.03", date(2020, 1, 1), None)]


def test_the_same_file_again_adds_nothing(warehouse):
    configure(model=model(version()))
    configure(model=model(version()), now=LATER)
    assert query("select count(*) from core.cost_model") == [(1,)]


def test_a_new_version_ends_the_one_before_it(warehouse):
    configure(model=model(version()))
    configure(model=model(version(), version("0.05", date(2026, 12, 1))), now=LATER)
    assert believed(NOW) == [("0.03", date(2020, 1, 1), None)]
    assert believed(LATER) == [
        ("0.03", date(2020, 1, 1), date(2026, 12, 1)),
        ("0.05", date(2026, 12, 1), None),
    ]


def test_an_edited_version_replaces_and_an_undone_edit_comes_back(warehouse):
    configure(model=model(version()))
    configure(model=model(version("0.05")), now=LATER)
    configure(model=model(version()), now=LATEST)
    assert [believed(moment)[0][0] for moment in (NOW, LATER, LATEST)] == ["0.03", "0.05", "0.03"]


def test_an_hour_is_allocated_once_however_often_the_model_was_edited(warehouse):
    configure(model=model(version()))
    configure(model=model(version("0.05")), now=LATER)
    cluster = cluster_of("c")
    land_said(cluster, a_day())
    lines = lines_of(stage_window(cluster, A_DAY, DAY_PRICES, now=LATEST))
    total = sum(line.cost for line in lines)
    assert total == Decimal("0.192") * 24 + Decimal("0.0866") * Decimal("13.5")


def test_a_model_that_says_nothing_about_an_hour_is_an_error(warehouse):
    configure(model=model(version(valid_from=date(2026, 11, 4))))
    cluster = cluster_of("c")
    land_said(cluster, a_day())
    with pytest.raises(
        ConfigError, match=r"'resource' of cluster 'c' has no version for 2026-11-03T00:00:00Z"
    ):
        stage_window(cluster, A_DAY, DAY_PRICES)


def test_a_model_nobody_wrote_is_an_error(warehouse):
    configure()
    cluster = cluster_of("c", cost_models=("resource", "typo"))
    land_said(cluster, a_day())
    with pytest.raises(ConfigError, match="'typo'"):
        stage_window(cluster, A_DAY, DAY_PRICES)


BAD_MODELS = {
    "a version is missing": ("cost_model: m\nversions: []\n", "at least one version"),
    "dates fall": (
        "cost_model: m\nversions:\n"
        + 2
        * "  - {valid_from: 2020-01-01, kind: resource, currency: USD, base_price:"
        " {cpu_core_hour: '1', memory_gib_hour: '1', gpu_hour: '1'}}\n",
        "rising `valid_from`",
    ),
    "a price is negative": (
        "cost_model: m\nversions:\n  - {valid_from: 2020-01-01, kind: resource, currency: USD,"
        " base_price: {cpu_core_hour: '-1', memory_gib_hour: '1', gpu_hour: '1'}}\n",
        "not negative",
    ),
    "nothing weighs anything": (
        "cost_model: m\nversions:\n  - {valid_from: 2020-01-01, kind: resource, currency: USD,"
        " base_price: {cpu_core_hour: '0', memory_gib_hour: '0', gpu_hour: '1'}}\n",
        "cannot both weigh nothing",
    ),
    "a key is unknown": ("cost_model: m\nversion: []\n", "version"),
}


@pytest.mark.parametrize("text, message", BAD_MODELS.values(), ids=BAD_MODELS)
def test_a_bad_model_file_is_named(tmp_path, text, message):
    (tmp_path / "cost_models").mkdir()
    (tmp_path / "cost_models" / "mine.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"mine\.yaml: .*{message}"):
        load_models(tmp_path)


def test_two_files_with_one_model_are_refused(tmp_path):
    text = (PROJECT / "include/config/cost_models/resource.yaml").read_text()
    (tmp_path / "cost_models").mkdir()
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / "cost_models" / name).write_text(text)
    with pytest.raises(
        ConfigError, match=r"b\.yaml: the cost model 'resource' is defined in another"
    ):
        load_models(tmp_path)


def test_the_model_that_comes_with_kubetally_is_the_one_the_tests_use():
    assert load_models(PROJECT / "include" / "config")["resource"] == RESOURCE_MODEL


# --- owners ---------------------------------------------------------------------------------------

GLOBS = [
    "shop",
    "shop-*",
    "*-eu",
    "s?op",
    "[sk]*",
    "[!s]*",
    "a.b",
    "a+b",
    "(x)",
    "*",
    "x[",
    "[]",
    "[!]",
    "[]a]",
]
GLOBS += [
    "team\\d",
    "[\\d]",
    "[^a]",
    "[a-]",
    "[z-a]",
    "[!z-a]",
    "[a-c]",
    "[[:alpha:]]",
    "[!]a]",
    "x[!",
    "",
]
NAMES = [
    "shop",
    "shop-eu",
    "sop",
    "kube",
    "aXb",
    "a.b",
    "a+b",
    "aab",
    "(x)",
    "x",
    "x[",
    "[]",
    "[!]",
    "",
    "d",
    "5",
]
NAMES += ["team\\d", "team1", "a", "b", "z", "-", "^", "]", "\\", ":]", "a]", "x[!"]


def matches(connection, glob, name):
    return connection.execute(
        sqlalchemy.text("select :name ~ :pattern"), {"name": name, "pattern": regex(glob)}
    ).scalar_one()


def test_postgres_reads_a_glob_as_fnmatch_does(warehouse):
    with engine("publisher").connect() as connection:
        differ = [
            (glob, name)
            for glob in GLOBS
            for name in NAMES
            if matches(connection, glob, name) != fnmatchcase(name, glob)
        ]
    assert differ == []


CHARACTERS = "ab*?-.+^$|(){}\\ []!"


@settings(max_examples=300)
@given(st.text(alphabet=CHARACTERS, max_size=6), st.text(alphabet=CHARACTERS, max_size=4))
def test_a_translated_glob_matches_what_the_glob_matches(glob, name):
    assert bool(re.fullmatch(regex(glob), name)) == fnmatchcase(name, glob)


def test_owners_that_change_are_remembered_with_when_they_were_known(warehouse):
    first = [OwnerEntry(namespace="shop", owner="red")]
    second = [OwnerEntry(namespace="shop", owner="blue"), OwnerEntry(namespace="*", owner="rest")]
    for entries, moment in ((first, NOW), (second, LATER), (first, LATEST)):
        configure(entries, now=moment)

    def known(moment):
        rows = query(
            "select owner from core.owner_rule where known @> :moment order by position",
            moment=moment,
        )
        return [row[0] for row in rows]

    assert (known(NOW), known(LATER), known(LATEST)) == (["red"], ["blue", "rest"], ["red"])
    with engine("publisher").begin() as connection:
        assert not sync_owners(connection, tuple(first), LATEST + timedelta(days=1))


def test_an_owner_applies_for_its_dates(warehouse):
    configure(
        [
            OwnerEntry(namespace="shop", owner="early", valid_until=date(2026, 11, 3)),
            OwnerEntry(
                namespace="shop",
                owner="now",
                valid_from=date(2026, 11, 3),
                valid_until=date(2026, 11, 4),
            ),
            OwnerEntry(namespace="*", owner="late", valid_from=date(2026, 11, 4)),
        ]
    )
    cluster = cluster_of("c")
    land_said(cluster, a_day())
    lines = lines_of(stage_window(cluster, A_DAY, DAY_PRICES))
    assert {line.owner for line in lines if line.pod} == {"now", "unowned"}


def test_an_hour_belongs_to_whom_its_last_label_names(warehouse):
    """Validity changes on the hour: a pod, or a namespace, that changes hands within one."""
    configure(
        [
            OwnerEntry(namespace="shop", label="team"),
            OwnerEntry(label="team", label_of="namespace"),
        ]
    )
    cluster = cluster_of("c")
    window = hours("10:00", "13:00")
    before, after = span("10:00", "11:20"), span("11:20", "13:00")
    rows = {
        "pod": [
            pod("mine", before, node="n", labels='{"team": "red"}'),
            pod("mine", after, node="n", labels='{"team": "blue"}'),
            pod("theirs", span("10:00", "13:00"), node="n", namespace="lab"),
        ],
        "namespace": [
            namespace("lab", before, '{"team": "green"}'),
            namespace("lab", after, '{"team": "gold"}'),
        ],
    }
    land_said(cluster, Said(window, rows))
    owners = {
        (line.pod, line.hour.hour): line.owner
        for line in lines_of(stage_window(cluster, window, {}))
    }
    assert owners == {
        ("uid-mine", 10): "red",
        ("uid-mine", 11): "blue",
        ("uid-mine", 12): "blue",
        ("uid-theirs", 10): "green",
        ("uid-theirs", 11): "gold",
        ("uid-theirs", 12): "gold",
    }


BAD_OWNERS = {
    "nobody": "{namespace: shop}",
    "reserved": "{namespace: shop, owner: unowned}",
    "ends before it begins": "{namespace: a, owner: b, valid_from: 2026-01-02, valid_until: 2026-01-02}",
    "a typo": "{namespaces: shop, owner: b}",
}


@pytest.mark.parametrize("entry", BAD_OWNERS.values(), ids=BAD_OWNERS)
def test_a_bad_owner_rule_is_refused_with_file_and_place(tmp_path, entry):
    (tmp_path / "owners.yaml").write_text(f"owners:\n  - {entry}\n")
    with pytest.raises(
        ConfigError, match=r"owners\.yaml: .*\$\.owners\[0\]|owners\.yaml: .*owners"
    ):
        load_owners(tmp_path)


def test_without_a_file_nobody_owns_anything(tmp_path):
    assert load_owners(tmp_path) == ()


def test_entries_are_read_as_they_are_written(tmp_path):
    (tmp_path / "owners.yaml").write_text(
        "owners:\n  - {label: team, label_of: namespace, label_value: 'a*', valid_from: 2026-01-01}\n"
    )
    (entry,) = load_owners(tmp_path)
    assert msgspec.structs.asdict(entry) == {
        "namespace": "*",
        "cluster": "*",
        "owner": "",
        "label": "team",
        "label_value": "a*",
        "label_of": "namespace",
        "valid_from": date(2026, 1, 1),
        "valid_until": None,
    }
