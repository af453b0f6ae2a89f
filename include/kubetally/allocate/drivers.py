"""Drivers: outside figures per owner (heads, seats, revenue) that costs can be shared by.

One CSV file each in include/config/drivers/, named after the driver, with the columns `owner`,
`weight` and, where figures change, `valid_from` and `valid_until` (YYYY-MM-DD, half-open).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from kubetally.config import config_dir
from kubetally.errors import ConfigError

COLUMNS = {"owner", "weight", "valid_from", "valid_until"}


def load_drivers(folder: Path | None = None) -> list[dict[str, Any]]:
    """Every figure: driver, owner, weight (Decimal), start and end (UTC midnights or None).

    Raises ConfigError that names file, line, expectation and remedy.
    """
    found: list[dict[str, Any]] = []
    for path in sorted(((folder or config_dir()) / "drivers").glob("*.csv")):
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            columns = set(reader.fieldnames or ())
            if not {"owner", "weight"} <= columns <= COLUMNS:
                raise ConfigError(
                    f"{path.name}: the columns are {', '.join(sorted(columns)) or 'missing'};"
                    " expected owner, weight and, if figures change, valid_from and valid_until.",
                    remedy="Correct the first line of the file.",
                )
            rows = [_figure(path, reader.line_num, row) for row in reader]
        _refuse_overlaps(path, rows)
        found.extend(rows)
    return found


def sync_drivers(connection: Connection, figures: Iterable[dict[str, Any]], now: datetime) -> None:
    """Makes `figures` the known ones from `now` on; what was known before stays readable."""
    wanted = [tuple(figure.values()) for figure in figures]
    known = {
        tuple(row[1:]): row[0]
        for row in connection.execute(
            text(
                "select share_driver_id, driver, owner, weight, lower(during), upper(during)"
                " from core.share_driver where upper_inf(known)"
            )
        )
    }
    connection.execute(
        text(
            "update core.share_driver"
            " set known = tstzrange(lower(known), greatest(:now, lower(known)))"
            " where share_driver_id = any(:gone)"
        ),
        {"now": now, "gone": [key for row, key in known.items() if row not in set(wanted)]},
    )
    seen = set(connection.execute(text("select distinct driver from core.share_driver")).scalars())
    for driver, owner, weight, start, end in wanted:
        if (driver, owner, weight, start, end) not in known:
            connection.execute(
                text(
                    "insert into core.share_driver (driver, owner, weight, during, known) values"
                    " (:driver, :owner, :weight, tstzrange(:start, :end), tstzrange(:since, null))"
                ),
                {
                    "driver": driver,
                    "owner": owner,
                    "weight": weight,
                    "start": start,
                    "end": end,
                    "since": now if driver in seen else None,
                },
            )


def _figure(path: Path, line: int, row: dict[str, str | None]) -> dict[str, Any]:
    def wrong(column: str, expected: str) -> ConfigError:
        return ConfigError(
            f"{path.name}, line {line}: {column} is {row.get(column)!r}; expected {expected}.",
            remedy="Correct the line.",
        )

    owner = (row["owner"] or "").strip()
    if not owner or owner == "cluster":
        raise wrong("owner", "the name of an owner ('cluster' is reserved)")
    try:
        weight = Decimal(row["weight"] or "")
    except InvalidOperation:
        raise wrong("weight", "a number of 0 or more") from None
    if not weight.is_finite() or weight < 0:
        raise wrong("weight", "a number of 0 or more")
    days: dict[str, datetime | None] = {}
    for column in ("valid_from", "valid_until"):
        try:
            given = row.get(column)
            day = date.fromisoformat(given) if given else None
        except ValueError:
            raise wrong(column, "a date like 2026-11-01") from None
        days[column] = None if day is None else datetime.combine(day, time.min, UTC)
    start, end = days["valid_from"], days["valid_until"]
    if start is not None and end is not None and end <= start:
        raise wrong("valid_until", "a date after valid_from")
    return {"driver": path.stem, "owner": owner, "weight": weight, "start": start, "end": end}


def _refuse_overlaps(path: Path, rows: list[dict[str, Any]]) -> None:
    far = datetime.max.replace(tzinfo=UTC)
    near = datetime.min.replace(tzinfo=UTC)
    ordered = sorted(rows, key=lambda row: (row["owner"], row["start"] or near))
    for one, other in pairwise(ordered):
        if one["owner"] == other["owner"] and (other["start"] or near) < (one["end"] or far):
            raise ConfigError(
                f"{path.name}: two figures of {one['owner']!r} hold at once.",
                remedy="End the earlier one with valid_until.",
            )
