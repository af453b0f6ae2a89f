"""What a newcomer meets: `make run`, the page, the queries, a day again, a backfill."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import time
import urllib.error
import urllib.request
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import psycopg2
import pytest
from running import Stack

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

PROJECT = Path(__file__).resolve().parents[2]
YESTERDAY = (datetime.now(UTC) - timedelta(days=1)).date()
QUERIES = re.findall(r"```sql\n(.*?)```", (PROJECT / "README.md").read_text("utf-8"), re.DOTALL)
CHROMIUM = Path("/usr/bin/chromium")


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _hash(stack: Stack, day: date = YESTERDAY) -> str:
    found = _rows(stack.local("sql", f"select content_sha256 from data_status where day = '{day}'"))
    return found[0]["content_sha256"]


def test_make_run_ends_with_address_login_and_what_to_look_at(stack: Stack) -> None:
    assert "Ready." in stack.said
    assert stack.address.startswith("http://127.0.0.1:")
    assert len(stack.password) >= 16
    assert "make sql" in stack.said


def test_yesterdays_bill_by_owner_is_the_ground_truth(stack: Stack) -> None:
    from kubetally.demo import truth
    from kubetally.demo.scenario import Scenario

    rows = _rows(
        stack.local(
            "sql",
            "select owner, line, sum(cost) as cost from cost_by_owner_day"
            f" where day = '{YESTERDAY}' group by 1, 2",
        )
    )
    bill = {(row["owner"], row["line"]): Decimal(row["cost"]) for row in rows}
    assert bill == truth.cost_by_owner(Scenario(), YESTERDAY)


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_every_query_of_the_readme_answers(stack: Stack, query: str) -> None:
    assert _rows(stack.local("sql", query)), "the query runs but finds nothing"


def test_the_bi_role_cannot_write(stack: Stack) -> None:
    with pytest.raises(AssertionError, match=r"read-only|permission"):
        stack.local("sql", "delete from mart.cost_hour")


def test_running_it_again_is_quick_and_changes_nothing(stack: Stack) -> None:
    before = _hash(stack)
    said = stack.local("run")
    assert "running already" in said
    assert "backfill" not in said
    assert _hash(stack) == before


def test_a_day_and_a_backfill_give_the_same_hash(stack: Stack) -> None:
    before = _hash(stack)
    assert before in stack.local("day", YESTERDAY.isoformat())
    _create_backfill(stack)
    published = (
        "select count(*) as n from publications"
        f" where start_at = '{YESTERDAY}T00:00:00Z' and kind = 'daily'"
    )
    deadline = time.monotonic() + 300
    while int(_rows(stack.local("sql", published))[0]["n"]) < 3:
        assert time.monotonic() < deadline, "the backfill does not publish"
        time.sleep(2)
    assert _hash(stack) == before


def _create_backfill(stack: Stack) -> None:
    """As the README says. Airflow takes one backfill per DAG and ends the one before with a delay."""
    day = YESTERDAY.isoformat()
    command = f"backfill create --dag-id costs_daily --from-date {day} --to-date {day}"
    deadline = time.monotonic() + 180
    while True:
        try:
            stack.local("airflow", *command.split(), "--reprocess-behavior", "completed")
            return
        except AssertionError as error:
            if "AlreadyRunningBackfill" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(5)


def test_the_live_poll_lands(stack: Stack) -> None:
    query = (
        "select count(distinct dataset) as datasets from ops.load where source = 'kubernetes'"
        " and row_count > 0"
    )
    deadline = time.monotonic() + 420
    with psycopg2.connect(**_owner(stack)) as connection, connection.cursor() as cursor:
        while True:
            cursor.execute(query)
            if cursor.fetchone()[0] >= 4:
                return
            assert time.monotonic() < deadline, "no poll of the Kubernetes API landed"
            time.sleep(5)
            connection.rollback()


def _owner(stack: Stack) -> dict[str, object]:
    line = next(
        line for line in stack.local("env").splitlines() if "AIRFLOW_CONN_KUBETALLY_OWNER=" in line
    )
    found = json.loads(shlex.split(line.removeprefix("export "))[0].split("=", 1)[1])
    return {
        "host": found["host"],
        "port": found["port"],
        "user": found["login"],
        "password": found["password"],
        "dbname": found["schema"],
    }


@pytest.mark.parametrize("path", ["/costs/", "/costs/api/costs", "/costs/static/costs.js"])
def test_the_costs_page_is_behind_airflows_login(stack: Stack, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(stack.address + path, timeout=30)
    assert refused.value.code == 401


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="Debian's chromium is not installed")
def test_the_costs_page_shows_the_bill_in_a_real_browser(stack: Stack) -> None:
    from playwright.sync_api import sync_playwright

    arguments = (
        "--no-sandbox --disable-gpu --disable-quic --no-first-run"
        " --disable-background-networking --disable-component-update --disable-sync"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments.split())
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        elsewhere: list[str] = []
        page.on(
            "request",
            lambda request: (
                elsewhere.append(request.url)
                if not re.match(r"(https?://127\.0\.0\.1[:/]|data:|blob:)", request.url)
                else None
            ),
        )
        page.goto(stack.address)
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", stack.password)
        page.click("button[type=submit]")
        page.get_by_text("Costs", exact=True).first.click()
        costs = page.frame_locator("iframe").first
        costs.locator("body[data-ready='7d/owner']").wait_for(timeout=60_000)
        assert costs.locator("#table-body tr[data-group]").count() >= 8
        for line in ("Idle", "System", "unowned", "team-checkout"):
            assert costs.get_by_text(line, exact=False).first.is_visible(), line
        assert costs.locator(".mark[data-state=complete]").count() >= 1
        assert not elsewhere
        browser.close()
