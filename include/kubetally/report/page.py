"""The Costs page: a small FastAPI app with one page, its JSON and its downloads.

It has no login of its own: whoever mounts it passes `dependencies` that let people in (the Airflow
plugin does). It reads the `bi` views as the read-only role and writes nothing.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Query, Request, Response, params
from fastapi.responses import FileResponse, JSONResponse
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, ProgrammingError
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from kubetally.errors import KubetallyError
from kubetally.report import queries
from kubetally.report.periods import Period, PeriodName, period
from kubetally.report.queries import Grouping, Scope
from kubetally.report.summary import (
    cost_groups,
    day_states,
    hours_published,
    is_comparable,
    plain,
)
from kubetally.windows import iso

log = logging.getLogger(__name__)
HERE = Path(__file__).parent
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
Name = Annotated[str, Query(max_length=253)]


class Choice:
    """What a person chose: `range`, `cluster`, `model` and `currency`; all may be left out."""

    def __init__(
        self,
        range: PeriodName = "7d",
        cluster: Name = "",
        model: Name = "",
        currency: Name = "",
    ) -> None:
        self.range = range
        self.cluster = cluster
        self.model = model
        self.currency = currency


def create_app(dependencies: Sequence[params.Depends] = ()) -> FastAPI:
    """The app, to be mounted below a path that ends with a slash; its links are relative."""
    app = FastAPI(
        title="Kubetally costs",
        dependencies=list(dependencies),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(GZipMiddleware, minimum_size=2000)
    app.add_api_route("/", _page, methods=["GET"], response_class=FileResponse)
    app.add_api_route("/static/{path:path}", _static_file, methods=["GET"])
    app.add_api_route("/api/options", _options, methods=["GET"])
    app.add_api_route("/api/costs", _costs, methods=["GET"])
    app.add_api_route("/api/costs.csv", _download, methods=["GET"])
    app.add_exception_handler(KubetallyError, _explain_setting)
    app.add_exception_handler(DBAPIError, _explain_database)

    @app.middleware("http")
    async def _harden(
        request: Request, proceed: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await proceed(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return app


async def _page() -> FileResponse:
    return FileResponse(HERE / "templates" / "page.html", media_type="text/html; charset=utf-8")


async def _static_file(path: str, request: Request) -> Response:
    # Served by a route, not mounted: a mount would be out of the reach of `dependencies`.
    return await StaticFiles(directory=HERE / "static").get_response(path, request.scope)


def _options() -> dict[str, Any]:
    with queries.reading() as connection:
        found = queries.scopes(connection)
    return {
        "clusters": sorted({row.cluster for row in found}),
        "models": sorted({row.cost_model for row in found}),
        "currencies": sorted({row.currency for row in found if row.currency}),
    }


def _costs(choice: Annotated[Choice, Depends(Choice)], by: Grouping = "owner") -> dict[str, Any]:
    with queries.reading() as connection:
        scope, chosen = _settle(connection, choice)
        if chosen is None:
            return _nothing_yet(connection, choice)
        days, before = chosen.days, chosen.before
        states = queries.status(connection, scope.cluster, days)
        states_before = queries.status(connection, scope.cluster, before)
        until = queries.data_until(connection, scope.cluster)
        return {
            "empty": None,
            "cluster": scope.cluster,
            "model": scope.cost_model,
            "currency": scope.currency,
            "by": by,
            "range": choice.range,
            "data_until": iso(until.data_until),
            "published_at": iso(until.published_at),
            "days": [day.isoformat() for day in days.all()],
            "before": [day.isoformat() for day in before.all()],
            "hours": hours_published(states),
            "hours_before": hours_published(states_before),
            **cost_groups(
                queries.costs(connection, scope, days, by),
                queries.costs(connection, scope, before, by)
                if is_comparable(states, states_before)
                else [],
                chosen,
            ),
            "status": day_states(states, days.all()),
            "unpriced": [plain(row) for row in queries.unpriced(connection, scope, days)],
            "gaps": [plain(row) for row in queries.gaps(connection, scope.cluster, days)],
        }


def _download(choice: Annotated[Choice, Depends(Choice)]) -> Response:
    with queries.reading() as connection:
        scope, chosen = _settle(connection, choice)
        rows = queries.download(connection, scope, chosen.days) if chosen else []
    name = "-".join(part for part in ("costs", scope.cluster, choice.range) if part)
    if chosen:
        name = f"costs-{scope.cluster or 'all'}-{chosen.days.start}-to-{chosen.days.all()[-1]}"
    return Response(
        csv_text(rows),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{_ascii(name)}.csv"'},
    )


def csv_text(rows: Sequence[Any]) -> str:
    """Rows as CSV at full precision with a header; empty cells are null. Nothing for no rows."""
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0]._fields)
    writer.writerows([plain(row).values() for row in rows])
    return out.getvalue()


def _settle(connection: Connection, choice: Choice) -> tuple[Scope, Period | None]:
    """The scope with defaults filled in, and the period; None when nothing is published in it."""
    found = [
        row
        for row in queries.scopes(connection)
        if choice.cluster in ("", row.cluster) and choice.model in ("", row.cost_model)
    ]
    model = choice.model or min((row.cost_model for row in found), default="")
    found = [row for row in found if row.cost_model == model]
    currency = choice.currency or min((row.currency for row in found if row.currency), default="")
    scope = Scope(choice.cluster, model, currency)
    last_day = max(
        (row.last_day for row in found if row.currency in (currency, None)), default=None
    )
    return scope, period(choice.range, last_day) if last_day else None


def _nothing_yet(connection: Connection, choice: Choice) -> dict[str, Any]:
    """Why there is nothing to show: nobody asked for it, nothing landed, or nothing passed."""
    reason: Literal["no_match", "nothing_landed", "not_published"]
    if queries.scopes(connection):
        reason = "no_match"
    elif queries.first_day_landed(connection) is None:
        reason = "nothing_landed"
    else:
        reason = "not_published"
    return {
        "empty": reason,
        "cluster": choice.cluster,
        "failed_checks": [plain(row) for row in queries.failed_checks(connection)],
    }


async def _explain_setting(_: Request, error: Exception) -> JSONResponse:
    log.warning("Costs page: %s", error)
    return JSONResponse({"error": str(error), "remedy": ""}, status_code=503)


async def _explain_database(_: Request, error: Exception) -> JSONResponse:
    """Says what is wrong in words; the driver's own message stays in the log."""
    log.warning("Costs page: the warehouse could not be read", exc_info=error)
    if isinstance(error, ProgrammingError):
        problem = "The warehouse has not got the views this page reads."
        remedy = "Run `make migrate`, or start it with `make run`."
    elif "statement timeout" in str(getattr(error, "orig", "")):
        problem = f"The warehouse took longer than {queries.TIMEOUT_SECONDS} seconds to answer."
        remedy = "Choose a shorter range, or try again when it is less busy."
    else:
        problem = "The warehouse does not answer."
        remedy = (
            "Check that its Postgres is running (`make run` starts the local one) and that the"
            " connection kubetally_bi leads to it."
        )
    return JSONResponse({"error": problem, "remedy": remedy}, status_code=503)


def _ascii(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
