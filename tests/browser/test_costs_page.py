"""The Costs page in a real Chromium: it shows the warehouse's numbers and talks to nobody else."""

from __future__ import annotations

import csv
import re
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect, sync_playwright
from sqlalchemy import text

from kubetally.report.page import create_app
from sample_company import Company, days

pytestmark = pytest.mark.browser
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The app alone, open to everybody: inside Airflow the plugin passes the dependency that is not."""
    server = uvicorn.Server(
        uvicorn.Config(create_app(), host="127.0.0.1", port=0, log_level="warning")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and time.monotonic() < until:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


class Visit:
    """A page, and everything that went wrong or elsewhere while it was open."""

    def __init__(self, browser: Browser, **context: Any) -> None:
        self.context = browser.new_context(locale="en-US", **context)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        self.page.on(
            "console",
            lambda message: (
                message.type in ("error", "warning") and self.problems.append(message.text)
            ),
        )
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on(
            "request", lambda request: self.hosts.add(urlsplit(request.url).hostname or "")
        )

    def open(self, address: str, ready: str) -> Page:
        self.page.goto(address)
        self.wait(ready)
        return self.page

    def wait(self, ready: str) -> None:
        self.page.wait_for_selector(f"body[data-ready='{ready}']:not(.loading)")

    def assert_clean(self) -> None:
        assert self.problems == []
        assert self.hosts == {"127.0.0.1"}


@pytest.fixture
def visit(at_company: Company, browser: Browser) -> Iterator[Visit]:
    found = Visit(browser, viewport=WIDE, accept_downloads=True)
    yield found
    found.context.close()


def amount(shown: str) -> Decimal:
    return Decimal(re.sub(r"[^0-9.-]", "", shown))


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"#table-body tr > :nth-child({number})").all_inner_texts()


def published(company: Company, first: str) -> Decimal:
    with company.engine_as("bi_reader").connect() as connection:
        found = connection.execute(
            text("select sum(cost) from bi.cost_day where day >= :first"), {"first": first}
        ).scalar_one()
    return Decimal(found)


def area_in_chart(page: Page, group: str) -> int:
    """How many pixels of the chart have exactly the colour that the table gives the group."""
    found: int = page.evaluate(
        """(group) => {
            const swatch = document.querySelector(`tr[data-group="${group}"] .swatch`);
            const [red, green, blue] = getComputedStyle(swatch).backgroundColor.match(/\\d+/g).map(Number);
            const canvas = document.querySelector("#chart canvas");
            const copy = new OffscreenCanvas(canvas.width, canvas.height);
            const drawn = copy.getContext("2d", { willReadFrequently: true });
            drawn.drawImage(canvas, 0, 0);
            const { data } = drawn.getImageData(0, 0, canvas.width, canvas.height);
            let area = 0;
            for (let n = 0; n < data.length; n += 4) {
                if (data[n] === red && data[n + 1] === green && data[n + 2] === blue) area += 1;
            }
            return area;
        }""",
        group,
    )
    return found


def test_it_shows_the_published_costs(visit: Visit, address: str, company: Company) -> None:
    page = visit.open(address, "7d/owner")
    rows = column(page, 1)
    assert rows == [
        "ml-research",
        "team-checkout",
        "platform",
        "team-payments",
        "team-search",
        "Unowned",
        "System",
        "Idle",
        "Uncovered",
        "Unpriced",
    ]
    total = published(company, "2026-03-02")
    costs = [amount(cell) for cell in column(page, 2) if cell != "unknown"]
    assert sum(costs) == round(total, 2) == amount(page.locator("#table-total").inner_text())
    assert page.locator("#table-total").get_attribute("title") == f"Exactly {total} USD"
    cards = page.locator(".card .amount").all_inner_texts()
    assert amount(cards[0]) == sum(map(amount, cards[1:]))
    expect(page.locator("#compared")).to_contain_text("159 published hours now, 168 then")
    visit.assert_clean()


def test_it_draws_a_bar_for_every_group_in_its_colour(visit: Visit, address: str) -> None:
    page = visit.open(address, "7d/owner")
    page.wait_for_timeout(500)  # the bars grow
    groups = page.locator("#table-body tr").evaluate_all(
        "rows => rows.map(row => row.dataset.group)"
    )
    areas = {group: area_in_chart(page, group) for group in groups if group != "unpriced/unpriced"}
    assert min(areas.values()) > 0
    # Areas are proportional to costs: idle is 196.40 and ml-research 409.64.
    assert 0.42 < areas["line/idle"] / areas["owner/ml-research"] < 0.54
    page.get_by_role("button", name="Idle").click()
    page.wait_for_timeout(500)
    assert area_in_chart(page, "line/idle") == 0
    assert area_in_chart(page, "owner/ml-research") > areas["owner/ml-research"]
    visit.assert_clean()


def test_a_bar_tells_its_parts(visit: Visit, address: str) -> None:
    page = visit.open(address, "7d/owner")
    page.wait_for_timeout(500)
    box = page.locator("#chart").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.6)
    tip = page.locator(".chart-tip")
    expect(tip).to_be_visible()
    expect(tip).to_contain_text("Wed, Mar 4 · gaps")
    cells = [amount(cell) for cell in tip.locator("td.number").all_inner_texts()]
    assert abs(sum(cells[:-1]) - cells[-1]) <= Decimal("0.05")
    visit.assert_clean()


def test_by_namespace(visit: Visit, address: str, company: Company) -> None:
    page = visit.open(address, "7d/owner")
    total = page.locator("#table-total").inner_text()
    page.get_by_text("Namespace", exact=True).click()
    visit.wait("7d/namespace")
    assert column(page, 1)[:7] == [
        "ml-research",
        "checkout",
        "payments",
        "observability",
        "search",
        "sandbox",
        "kube-system",
    ]
    expect(page.locator("tr[data-group='namespace/sandbox'] .tag")).to_have_text("unowned")
    assert page.locator("#table-total").inner_text() == total
    assert "by=namespace" in page.url
    visit.assert_clean()


@pytest.mark.parametrize(
    ("label", "ready", "first", "bars"),
    [
        ("14 days", "14d/owner", "2026-02-23", 14),
        ("30 days", "30d/owner", "2026-02-07", 30),
        ("This month", "month-to-date/owner", "2026-03-01", 8),
    ],
)
def test_periods(
    visit: Visit, address: str, company: Company, label: str, ready: str, first: str, bars: int
) -> None:
    page = visit.open(address, "7d/owner")
    page.get_by_text(label, exact=True).click()
    visit.wait(ready)
    assert amount(page.locator("#table-total").inner_text()) == round(published(company, first), 2)
    assert page.locator(".mark").count() == bars
    visit.assert_clean()


def test_an_address_can_be_passed_on(visit: Visit, address: str) -> None:
    page = visit.open(f"{address}?range=14d&by=namespace&cluster=prod-eu", "14d/namespace")
    assert page.locator(".mark").count() == len(days())
    visit.assert_clean()


def test_every_day_says_how_complete_it_is(visit: Visit, address: str) -> None:
    page = visit.open(address, "7d/owner")
    states = page.locator(".mark").evaluate_all("marks => marks.map(mark => mark.dataset.state)")
    assert states == ["complete", "complete", "gaps", "complete", "unpriced", "complete", "partial"]
    page.locator(".mark[data-state=gaps]").hover()
    expect(page.locator("#tip")).to_contain_text("21 node-hours without data (12.5%)")
    page.locator(".mark[data-state=partial]").hover()
    expect(page.locator("#tip")).to_contain_text("15 of 24 hours published, 15 of them provisional")
    notes = page.locator("#notes")
    expect(notes).to_contain_text("Node edge-1 (bare-metal) had no price for 24 hours")
    expect(notes).to_contain_text("The monitoring stack was being moved")
    visit.assert_clean()


def test_the_keyboard_is_enough(visit: Visit, address: str) -> None:
    page = visit.open(address, "7d/owner")
    page.locator("input[name=range][value='7d']").focus()
    page.keyboard.press("ArrowRight")
    visit.wait("14d/owner")
    page.locator(".mark[data-state=unpriced]").focus()
    expect(page.locator("#tip")).to_contain_text("24 node-hours without a price")
    page.keyboard.press("Escape")
    expect(page.locator("#tip")).to_be_hidden()
    idle = page.get_by_role("button", name="Idle")
    idle.focus()
    page.keyboard.press("Space")
    expect(idle).to_have_attribute("aria-pressed", "false")
    visit.assert_clean()


def test_the_download_has_the_exact_numbers(
    visit: Visit, address: str, company: Company, tmp_path: Path
) -> None:
    page = visit.open(address, "7d/owner")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    assert download.value.suggested_filename == "costs-all-2026-03-02-to-2026-03-08.csv"
    file = tmp_path / "costs.csv"
    download.value.save_as(file)
    with file.open(newline="") as lines:
        found = sum(Decimal(row["cost"] or 0) for row in csv.DictReader(lines))
    assert found == published(company, "2026-03-02")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_fits_the_screen_and_follows_the_theme(
    at_company: Company, browser: Browser, address: str, scheme: Any, viewport: Any
) -> None:
    found = Visit(browser, viewport=viewport, color_scheme=scheme)
    page = found.open(address, "7d/owner")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("html").get_attribute("data-theme") == scheme
    red = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
    assert (int(red) < 128) == (scheme == "dark")
    found.assert_clean()
    found.context.close()


def test_the_theme_chosen_in_airflow_counts(visit: Visit, address: str) -> None:
    """Airflow keeps its theme in the storage of the same origin."""
    page = visit.open(address, "7d/owner")
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.reload()
    visit.wait("7d/owner")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    visit.assert_clean()


def test_an_empty_warehouse_says_what_to_do_next(
    warehouse: Any, browser: Browser, address: str
) -> None:
    found = Visit(browser, viewport=WIDE)
    page = found.open(address, "empty")
    expect(page.get_by_role("status")).to_contain_text("The warehouse is empty")
    expect(page.get_by_role("status")).to_contain_text("include/config/clusters.yaml")
    expect(page.locator("#controls")).to_be_hidden()
    found.assert_clean()
    found.context.close()


def test_a_warehouse_that_is_down_is_explained_and_can_come_back(
    at_company: Company, browser: Browser, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = at_company.connections()["AIRFLOW_CONN_KUBETALLY_BI"]
    monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_BI", "postgres://bi:s3cret@127.0.0.1:1/none")
    found = Visit(browser, viewport=WIDE)
    page = found.open(address, "error")
    expect(page.get_by_role("status")).to_contain_text("The warehouse does not answer.")
    expect(page.locator("body")).not_to_contain_text("s3cret")
    monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_BI", right)
    page.get_by_role("button", name="Try again").click()
    found.wait("7d/owner")
    expect(page.locator("#table-total")).to_be_visible()
    found.context.close()
