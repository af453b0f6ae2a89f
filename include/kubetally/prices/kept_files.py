"""What prices were read from, kept for ever: pages of lists, and files of the config folder by version.

Works in the caller's transaction; the caller commits.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, text

from kubetally.config import config_dir
from kubetally.errors import ConfigError
from kubetally.prices.currency import Rates, parse_rates, rates_file
from kubetally.prices.fees import FEES, Fee, parse_fees
from kubetally.prices.quote import Snapshot
from kubetally.prices.sheet import Sheet, parse
from kubetally.windows import iso


def sheet_as_of(connection: Connection, name: str, as_of: datetime) -> Sheet:
    """The price sheet `name` as it was at `as_of`. Raises ConfigError for a broken or missing one."""
    remedy = "Correct `price_sheet` in clusters.yaml; it is relative to the config folder."
    content, snapshot_id = file_as_of(connection, "sheet", name, as_of, parse, remedy)
    return parse(content, Path(name).name, snapshot_id)


def rates_as_of(connection: Connection, as_of: datetime) -> Rates | None:
    """The configured exchange rates as they were at `as_of`; None where none are configured."""
    path = rates_file()
    if path is None:
        return None
    content, snapshot_id = file_as_of(connection, "rates", path.name, as_of, parse_rates)
    return parse_rates(content, path.name, snapshot_id)


def fees_as_of(connection: Connection, as_of: datetime) -> tuple[tuple[Fee, ...], int | None]:
    """The configured fees as they were at `as_of`, and their snapshot; none where none are."""
    if not (config_dir() / FEES).exists():
        return (), None
    content, snapshot_id = file_as_of(
        connection, "fees", FEES, as_of, lambda found, name: parse_fees(found.decode(), name)
    )
    return parse_fees(content.decode(), FEES), snapshot_id


def file_as_of(
    connection: Connection,
    kind: str,
    name: str,
    as_of: datetime,
    check: Callable[[bytes, str], object],
    remedy: str = "",
) -> tuple[bytes, int]:
    """The bytes of a file of the config folder as they were at `as_of`, and their snapshot.

    A changed file is kept as a new snapshot. It counts as known from when it was written (its
    modification time), so that editing it does not change hours that were computed before. The
    first version ever seen counts for all time. `check` raises for a file that is broken now.
    """
    path = config_dir() / name
    try:
        content = path.read_bytes()
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError as error:
        raise ConfigError(
            f"The file {name} cannot be read: {error.strerror}.", remedy=remedy
        ) from error
    check(content, path.name)  # a broken file is an error now, not when it is needed
    versions = connection.execute(
        text(
            "select snapshot_id, fetched_at, sha256, payload from core.price_snapshot"
            " where provider = :kind and split_part(url, '#', 1) = :name order by fetched_at"
        ),
        {"kind": kind, "name": name},
    ).all()
    kept = [(row.fetched_at, row.snapshot_id, zlib.decompress(row.payload)) for row in versions]
    if not versions or versions[-1].sha256 != hashlib.sha256(content).hexdigest():
        seen: datetime = connection.execute(text("select now()")).scalar_one().astimezone(UTC)
        is_newer = not kept or kept[-1][0] < written <= seen
        known_from = written if is_newer else seen
        snapshot = Snapshot(kind, f"{name}#{iso(known_from)}", known_from, content)
        kept.append((known_from, keep_snapshot(connection, snapshot), content))
    _, snapshot_id, chosen = next((v for v in reversed(kept) if v[0] <= as_of), kept[0])
    return chosen, snapshot_id


def keep_snapshot(connection: Connection, snapshot: Snapshot) -> int:
    """The id of `snapshot`, which is stored (compressed) if these bytes are new at this address."""
    found = {
        "provider": snapshot.provider,
        "url": snapshot.url,
        "sha256": snapshot.sha256,
    }
    select = text(
        "select snapshot_id from core.price_snapshot"
        " where provider = :provider and url = :url and sha256 = :sha256"
    )
    present = connection.execute(select, found).scalar_one_or_none()
    if present is not None:
        return int(present)
    connection.execute(
        text(
            "insert into core.price_snapshot (provider, url, fetched_at, sha256, payload)"
            " values (:provider, :url, :fetched_at, :sha256, :payload) on conflict do nothing"
        ),
        {**found, "fetched_at": snapshot.fetched_at, "payload": zlib.compress(snapshot.payload, 6)},
    )
    return int(connection.execute(select, found).scalar_one())
