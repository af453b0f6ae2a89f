"""The Costs page's JSON and download: exact money as text, defaults, helpful errors, nobody let in."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from fastapi import Depends, HTTPException
from sqlalchemy import text
from starlette.testclient import TestClient

from kubetally.report.page import create_app
from sample_company import HOURS_OF_LAST_DAY, Company


@pytest.fixture
def client(at_company: Company) -> Iterator[TestClient]:
    with TestClient(create_app()) as found:
        yield found


def costs(client: TestClient, **choice: str) -> dict[str, Any]:
    answer = client.get("/api/costs", params=choice)
    assert answer.status_code == 200, answer.text
    return answer.json()


def total_of(company: Company, first: str, last: str) -> Decimal:
    with company.engine_as("bi_reader").connect() as connection:
        found = connection.execute(
            text("select sum(cost) from bi.cost_day where day between :first and :last"),
            {"first": first, "last": last},
        ).scalar_one()
    return Decimal(found)


def test_the_total_is_exact_and_the_groups_add_up_to_it(
    client: TestClient, company: Company
) -> None:
    found = costs(client)
    total = total_of(company, "2026-03-02", "2026-03-08")
    assert Decimal(found["total"]["cost"]) == total
    assert sum(Decimal(group["cost"] or 0) for group in found["groups"]) == total
    assert sum(Decimal(day) for day in found["total"]["days"]) == total
    shown = sum(Decimal(group["shown"] or 0) for group in found["groups"])
    assert shown == Decimal(found["total"]["shown"]) == round(total, 2)
    assert Decimal(found["total"]["before"]) == total_of(company, "2026-02-23", "2026-03-01")


def test_money_is_text(client: TestClient) -> None:
    def numbers(value: Any) -> Iterator[float]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for part in value:
                yield from numbers(part)
        if isinstance(value, float):
            yield value

    assert list(numbers(costs(client, range="30d"))) == []


def test_both_groupings_have_the_same_total_and_parts(client: TestClient) -> None:
    by_owner, by_namespace = costs(client), costs(client, by="namespace")
    assert by_owner["total"] == by_namespace["total"]
    assert by_owner["parts"] == by_namespace["parts"]
    assert {g["name"] for g in by_namespace["groups"] if g["kind"] == "namespace"} == {
        "checkout",
        "kube-system",
        "ml-research",
        "observability",
        "payments",
        "sandbox",
        "search",
    }
    (sandbox,) = [g for g in by_namespace["groups"] if g["name"] == "sandbox"]
    assert sandbox["owners"] == ["unowned"]
    assert sandbox["cost"] == by_owner["parts"]["unowned"]["cost"]


def test_defaults_are_told(client: TestClient) -> None:
    found = costs(client)
    assert (found["model"], found["currency"], found["range"]) == ("resource", "USD", "7d")
    assert found["data_until"] == "2026-03-08T15:00:00Z"
    assert (found["hours"], found["hours_before"]) == (6 * 24 + HOURS_OF_LAST_DAY, 7 * 24)
    assert client.get("/api/options").json() == {
        "clusters": ["prod-eu"],
        "models": ["resource"],
        "currencies": ["USD"],
    }


def test_what_is_missing_is_told(client: TestClient) -> None:
    found = costs(client, range="30d")
    states = [day["state"] for day in found["status"]]
    assert states[:16] == ["missing"] * 16
    assert states[-5:] == ["gaps", "complete", "unpriced", "complete", "partial"]
    assert [item["node"] for item in found["unpriced"]] == ["edge-1"]
    assert {gap["dataset"] for gap in found["gaps"]} == {"pod"}
    assert found["total"]["before"] is None


def test_nothing_matches(client: TestClient) -> None:
    assert costs(client, cluster="no-such")["empty"] == "no_match"


@pytest.mark.parametrize(
    "choice", [{"range": "all"}, {"by": "pod"}, {"cluster": "x" * 300}, {"model": "x" * 300}]
)
def test_odd_choices_are_refused(client: TestClient, choice: dict[str, str]) -> None:
    assert client.get("/api/costs", params=choice).status_code == 422


def test_the_download_is_exact(client: TestClient, company: Company) -> None:
    answer = client.get("/api/costs.csv", params={"range": "month-to-date", "cluster": "prod-eu"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert (
        'filename="costs-prod-eu-2026-03-01-to-2026-03-08.csv"'
        in answer.headers["content-disposition"]
    )
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert sum(Decimal(row["cost"] or 0) for row in rows) == total_of(
        company, "2026-03-01", "2026-03-08"
    )
    assert {row["currency"] for row in rows if row["cost"] == ""} == {""}


@pytest.mark.parametrize(
    "path", ["/", "/api/options", "/api/costs", "/api/costs.csv", "/static/costs.js", "/nothing"]
)
def test_whoever_mounts_the_page_decides_who_gets_in(path: str) -> None:
    def nobody() -> None:
        raise HTTPException(401)

    status = TestClient(create_app([Depends(nobody)])).get(path).status_code
    assert status == (404 if path == "/nothing" else 401)


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc", "/static/../page.py"])
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_the_page_only_reads(client: TestClient, method: str) -> None:
    assert client.request(method, "/api/costs").status_code == 405


@pytest.mark.parametrize(
    "path", ["/", "/static/costs.css", "/static/vendor/echarts/echarts.min.js"]
)
def test_pages_forbid_foreign_and_inline_code(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy


def test_an_empty_warehouse_says_so(warehouse: Any) -> None:
    found = costs(TestClient(create_app()))
    assert (found["empty"], found["failed_checks"]) == ("nothing_landed", [])


def test_a_warehouse_that_is_down_is_explained_without_its_password(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_KUBETALLY_BI",
        json.dumps(
            {
                "conn_type": "postgres",
                "host": "127.0.0.1",
                "port": 1,
                "login": "bi",
                "password": "s3cret",
                "schema": "x",
            }
        ),
    )
    answer = TestClient(create_app()).get("/api/costs")
    assert answer.status_code == 503
    assert answer.json()["error"] == "The warehouse does not answer."
    assert "kubetally_bi" in answer.json()["remedy"]
    assert "s3cret" not in answer.text + caplog.text


def test_a_warehouse_without_the_views_is_explained(
    warehouse: Any,
) -> None:
    with warehouse.engine.begin() as connection:
        connection.execute(text("drop view bi.cost_day cascade"))
    answer = TestClient(create_app()).get("/api/costs")
    assert answer.status_code == 503
    assert "make migrate" in answer.json()["remedy"]
