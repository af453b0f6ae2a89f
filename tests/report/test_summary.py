"""What the Costs page shows: groups in order, shares, changes, states of days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from kubetally.report.periods import Days, Period
from kubetally.report.summary import cost_groups, text_of

MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)
PERIOD = Period(Days(MONDAY, date(2026, 3, 4)), Days(date(2026, 2, 28), MONDAY))


@dataclass(frozen=True)
class Row:
    day: date
    kind: str
    name: str
    owner: str
    cost: Decimal | None


def row(day: date, kind: str, name: str, cost: str | None, owner: str = "cluster") -> Row:
    return Row(day, kind, name, owner, None if cost is None else Decimal(cost))


ROWS = [
    row(MONDAY, "line", "overcommit", "-0.5"),
    row(MONDAY, "line", "idle", "2"),
    row(MONDAY, "line", "system", "1"),
    row(MONDAY, "owner", "small", "1.5", "small"),
    row(MONDAY, "owner", "big", "3", "big"),
    row(TUESDAY, "owner", "big", "3", "big"),
    row(MONDAY, "unowned", "unowned", "5", "unowned"),
    row(MONDAY, "unpriced", "unpriced", None, "small"),
]


def test_teams_by_cost_then_unowned_then_lines_in_their_order() -> None:
    groups = cost_groups(ROWS, [], PERIOD)["groups"]
    assert [group["name"] for group in groups] == [
        "big",
        "small",
        "unowned",
        "system",
        "idle",
        "overcommit",
        "unpriced",
    ]


def test_days_without_a_line_are_null_and_unpriced_has_no_cost() -> None:
    groups = {group["name"]: group for group in cost_groups(ROWS, [], PERIOD)["groups"]}
    assert groups["big"]["days"] == ["3", "3"]
    assert groups["small"]["days"] == ["1.5", None]
    unpriced = groups["unpriced"]
    assert (unpriced["cost"], unpriced["shown"], unpriced["share"]) == (None, None, None)


def test_the_parts_add_up_to_the_total() -> None:
    found = cost_groups(ROWS, [], PERIOD)
    assert found["total"]["cost"] == "15.0"
    assert {name: part["cost"] for name, part in found["parts"].items()} == {
        "teams": "7.5",
        "unowned": "5",
        "idle": "2",
        "other": "0.5",
    }
    assert found["total"]["days"] == ["12.0", "3"]


def test_unowned_namespaces_count_as_unowned() -> None:
    rows = [row(MONDAY, "namespace", "sandbox", "4", "unowned")]
    assert cost_groups(rows, [], PERIOD)["parts"]["unowned"]["cost"] == "4"


def test_changes_are_against_the_period_before() -> None:
    before = [row(date(2026, 3, 1), "owner", "big", "4", "big")]
    found = cost_groups(ROWS, before, PERIOD)
    groups = {group["name"]: group for group in found["groups"]}
    assert (groups["big"]["before"], groups["big"]["change"]) == ("4", "2")
    assert groups["big"]["change_share"] == "0.500000"
    assert (groups["small"]["before"], groups["small"]["change_share"]) == ("0", None)


def test_a_group_that_is_gone_still_shows_what_it_was() -> None:
    before = [row(date(2026, 3, 1), "owner", "gone", "4", "gone")]
    groups = {group["name"]: group for group in cost_groups(ROWS, before, PERIOD)["groups"]}
    assert (groups["gone"]["cost"], groups["gone"]["change"]) == ("0", "-4")


def test_without_a_period_before_nothing_is_compared() -> None:
    found = cost_groups(ROWS, [], PERIOD)
    assert found["total"]["change"] is None
    assert all(group["change"] is None for group in found["groups"])


def test_a_free_cluster_has_no_shares() -> None:
    found = cost_groups([row(MONDAY, "owner", "a", "0", "a")], [], PERIOD)
    assert found["groups"][0]["share"] is None


def test_numbers_leave_without_exponent() -> None:
    assert text_of(Decimal("0E-18")) == "0.000000000000000000"
    assert text_of(Decimal("1E+3")) == "1000"
