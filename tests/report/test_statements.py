"""Statements add up, to the last digit in CSV and to the shown cent in HTML; same content, same bytes."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from kubetally.report.statements import (
    Line,
    file_name,
    reports_folder,
    statement_sets,
    write_statements,
)
from kubetally.warehouse.connect import engine
from sample_company import Company

MARCH = date(2026, 3, 1)
DURING = datetime(2026, 3, 8, 16, tzinfo=UTC)
AFTER = datetime(2026, 4, 2, tzinfo=UTC)
ZERO = Decimal(0)


def line(owner: str, cost: str | None, **more: str) -> Line:
    money = None if cost is None else Decimal(cost)
    rest = None if cost is None else ZERO
    given = {"namespace": "shop", "workload_kind": "Deployment", "workload_name": "api"} | more
    return Line(
        cost_model="resource",
        currency=None if cost is None else given.pop("currency", "USD"),
        cluster=given.pop("cluster", "one"),
        owner=owner,
        line=given.pop("line", "workload" if cost is not None else "unpriced"),
        **given,
        cpu_core_hours=Decimal(1),
        memory_gib_hours=Decimal(1),
        gpu_hours=ZERO,
        storage_gib_hours=ZERO,
        network_gib=ZERO,
        load_balancer_hours=ZERO,
        cpu_cost=money and money - money / 3,
        memory_cost=money and money / 3,
        gpu_cost=rest,
        storage_cost=rest,
        network_cost=rest,
        load_balancer_cost=rest,
        other_cost=rest,
        cost=money,
    )


def test_owners_and_the_cluster_add_up_to_the_shown_total() -> None:
    (found,) = statement_sets(
        [
            line("a", "0.333"),
            line("b", "0.333"),
            line("cluster", "0.333", line="idle", namespace=""),
        ]
    )
    assert (found.total, found.shown) == (Decimal("0.999"), Decimal("1.00"))
    assert [(s.owner, s.shown) for s in found.owners] == [
        ("a", Decimal("0.34")),
        ("b", Decimal("0.33")),
    ]
    assert found.cluster_lines.shown == Decimal("0.33")


amounts = st.decimals(min_value=0, max_value=1000, places=18)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["a", "b", "c", "unowned", "cluster"]), st.integers(0, 9)),
        amounts,
        min_size=1,
    )
)
def test_every_level_adds_up_to_the_one_above(costs: dict[tuple[str, int], Decimal]) -> None:
    lines = [
        replace(line(owner, "0", workload_name=f"w{n}"), cost=cost, cpu_cost=cost, memory_cost=ZERO)
        for (owner, n), cost in costs.items()
    ]
    (found,) = statement_sets(lines)
    statements = [*found.owners, found.cluster_lines]
    assert found.total == sum(costs.values())
    assert sum(s.total for s in statements) == found.total
    assert sum(s.shown for s in statements) == found.shown
    for statement in statements:
        assert sum((row.shown for row in statement.lines), ZERO) == statement.shown
        for row in statement.lines:
            assert sum(row.resources.values(), ZERO) == row.shown


def test_a_statement_per_model_and_currency_and_unpriced_in_each() -> None:
    sets = statement_sets(
        [line("a", "1"), line("a", "2", currency="EUR", cluster="two"), line("a", None)]
    )
    assert [(s.folder, s.total, len(s.owners[0].unpriced)) for s in sets] == [
        ("resource-EUR", 2, 1),
        ("resource-USD", 1, 1),
    ]


def test_costs_without_any_price_still_make_a_statement() -> None:
    (found,) = statement_sets([line("a", None)])
    assert (found.folder, found.total, len(found.lines)) == ("resource-unpriced", 0, 1)


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ("team-checkout", "team-checkout"),
        ("R&D / core", r"R-D-core-[0-9a-f]{8}"),
        ("../../etc/passwd", r"etc-passwd-[0-9a-f]{8}"),
        ("..", r"[0-9a-f]{8}"),
        ("Zürich", r"Z-rich-[0-9a-f]{8}"),
    ],
)
def test_file_names_are_safe_and_differ(owner: str, expected: str) -> None:
    assert re.fullmatch(expected, file_name(owner))
    assert file_name("R&D") != file_name("R D")


def test_the_folder_is_a_setting() -> None:
    assert reports_folder({"KUBETALLY_REPORTS": "s3://reports"}) == "s3://reports"
    assert reports_folder({}).endswith("/.kubetally/reports")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def exact(rows: list[dict[str, str]]) -> Decimal:
    return sum((Decimal(row["cost"]) for row in rows if row["cost"]), ZERO)


def test_the_files_add_up_to_the_warehouse(at_company: Company, tmp_path: Path) -> None:
    written = write_statements(engine("bi"), MARCH, str(tmp_path), now=DURING)
    folder = tmp_path / "2026-03" / "resource-USD"
    assert written[-1] == str(folder / "index.html")
    assert sorted(written) == sorted(str(path) for path in folder.rglob("*") if path.is_file())
    with at_company.engine_as("bi_reader").connect() as connection:
        total = connection.execute(
            text("select sum(cost) from bi.cost_month where month = '2026-03-01'")
        ).scalar_one()
    rows = read(folder / "total.csv")
    assert exact(rows) == total
    owned = {path.stem: read(path) for path in (folder / "owners").glob("*.csv")}
    assert set(owned) == {
        "ml-research",
        "platform",
        "team-checkout",
        "team-payments",
        "team-search",
        "unowned",
    }
    own = [row for row in rows if row["owner"] == "cluster"]
    assert sum(map(exact, owned.values()), ZERO) + exact(own) == total
    assert {row["line"] for row in own} == {"idle", "system", "uncovered", "unpriced"}


def test_the_pages_say_what_is_missing(at_company: Company, tmp_path: Path) -> None:
    write_statements(engine("bi"), MARCH, str(tmp_path), now=DURING)
    folder = tmp_path / "2026-03" / "resource-USD"
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert "1 March \N{EN DASH} 8 March 2026, month to date" in index
    assert "5 of 8 days are complete" in index
    assert "node edge-1 (bare-metal) had no price for 24 hours" in index
    assert "The monitoring stack was being moved; nothing was recorded." in index
    checkout = (folder / "owners" / "team-checkout.html").read_text(encoding="utf-8")
    assert "Not priced" in checkout and "kiosk" in checkout
    for page in (index, checkout):
        assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def test_a_month_that_is_over_counts_all_its_days(at_company: Company, tmp_path: Path) -> None:
    write_statements(engine("bi"), MARCH, str(tmp_path), now=AFTER)
    index = (tmp_path / "2026-03" / "resource-USD" / "index.html").read_text(encoding="utf-8")
    assert "1 March \N{EN DASH} 31 March 2026 " in index and "month to date" not in index
    assert "5 of 31 days are complete" in index


def test_the_same_content_gives_the_same_bytes(at_company: Company, tmp_path: Path) -> None:
    def content(folder: Path, now: datetime) -> dict[str, bytes]:
        write_statements(engine("bi"), MARCH, str(folder), now=now)
        return {
            str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()
        }

    first = content(tmp_path / "a", DURING)
    assert content(tmp_path / "a", DURING) == first
    assert content(tmp_path / "b", DURING.replace(hour=23)) == first


def test_files_of_owners_who_have_none_any_more_go(at_company: Company, tmp_path: Path) -> None:
    owners = tmp_path / "2026-03" / "resource-USD" / "owners"
    owners.mkdir(parents=True)
    (owners / "team-before.html").write_text("old")
    (owners / "notes.txt").write_text("kept")
    write_statements(engine("bi"), MARCH, str(tmp_path), now=DURING)
    names = {path.name for path in owners.iterdir()}
    assert "team-before.html" not in names
    assert "notes.txt" in names
    assert not [name for name in names if name.startswith(".")]


def test_a_month_without_costs_writes_nothing(at_company: Company, tmp_path: Path) -> None:
    assert write_statements(engine("bi"), date(2025, 1, 1), str(tmp_path), now=AFTER) == []
    assert list(tmp_path.iterdir()) == []


def test_an_object_store_gets_the_same_files(at_company: Company, tmp_path: Path) -> None:
    there, here = tmp_path / "store", tmp_path / "folder"
    write_statements(engine("bi"), MARCH, f"file://{there}", now=DURING)
    write_statements(engine("bi"), MARCH, str(here), now=DURING)
    for path in here.rglob("*.*"):
        assert (there / path.relative_to(here)).read_bytes() == path.read_bytes()
