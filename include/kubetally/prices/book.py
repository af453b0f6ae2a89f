"""The price book in the warehouse: what was listed when, and since when that is known.

Rows are bitemporal: `during` says when a price holds, `known` when the book held that opinion.
History is never edited: a changed opinion closes the old `known` range and adds rows. Every
function works in the caller's transaction; the caller commits.
"""

from __future__ import annotations

import csv
import hashlib
import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from sqlalchemy import Connection, text

from kubetally.config import ClusterConfig, config_dir
from kubetally.errors import ConfigError, KubetallyError
from kubetally.prices import fetch
from kubetally.prices.key import LookupKey, NodeFacts, lookup_key
from kubetally.prices.quote import (
    Ambiguous,
    Component,
    ComponentKind,
    Priced,
    Quote,
    Snapshot,
    Unpriced,
    next_hour,
)
from kubetally.prices.resolve import Known, KnownComponent, NodePrice, hourly_rate, resolve
from kubetally.prices.sheet import Sheet, parse
from kubetally.prices.timeline import Statement, ended, joined
from kubetally.warehouse.connect import lock
from kubetally.windows import Window, iso

STALE = "the provider lists no price any more; the last known one is kept"
AWS_NOT_READ = "AWS list prices are not read yet; give a sheet"
SOURCES: Mapping[str, Callable[[], fetch.PriceSource]] = {
    "azure": fetch.AzurePrices.from_connection,
    "gcp": fetch.GcpPrices.from_connection,
}


@dataclass(frozen=True)
class Remembered:
    """What `remember` did: the lookup's state now, and whether a known price or state changed."""

    state: Literal["priced", "unpriced", "ambiguous"]
    is_new: bool
    is_changed: bool


@dataclass(frozen=True)
class _Lookup:
    state: Literal["priced", "unpriced", "ambiguous"]
    reason: str
    known_from: datetime
    looked_up_at: datetime


def remember(
    connection: Connection, key: str, quote: Quote, snapshot: Snapshot | None, now: datetime
) -> Remembered:
    """Writes what was found for `key`. The same content again adds nothing.

    A provider that lists nothing any more does not take a known price away: it goes stale. An
    ambiguous quote ends the known price at the next whole hour.
    """
    if isinstance(quote, Priced) and snapshot is None:
        raise ValueError("a price needs the snapshot it was read from")
    rows = _current_prices(connection, [key]).get(key, {})
    before = _current_lookups(connection, [key]).get(key)
    held = list(rows.values())
    now = _after_all_knowledge(connection, key, now)
    state: Literal["priced", "unpriced", "ambiguous"]
    match quote:
        case Priced(components=components, reason=reason):
            state, after = "priced", joined(held, components, now)
        case Ambiguous(reason=reason):
            state, after = "ambiguous", ended(held, now)
        case Unpriced(reason=reason):
            state, after = "unpriced", held
            if any(statement.component.holds_at(now) for statement in held):
                state, reason = "priced", STALE
    changed = _write_prices(connection, key, rows, after, snapshot, now)
    if before is None or (before.state, before.reason) != (state, reason):
        _write_lookup(connection, key, state, reason, snapshot, now)
        changed = True
    else:
        connection.execute(
            text(
                "update core.price_lookup set looked_up_at = :now"
                " where lookup_key = :key and upper_inf(known) and looked_up_at < :now"
            ),
            {"key": key, "now": now},
        )
    return Remembered(state, before is None, changed and before is not None)


def read(connection: Connection, keys: Iterable[str], as_of: datetime) -> dict[str, Known]:
    """What the book knew about `keys` at `as_of`. Keys it knew nothing about are left out."""
    wanted = sorted(set(keys))
    lookups = connection.execute(
        text(
            "select lookup_key, state, reason, lower(known) as known_from from core.price_lookup"
            " where lookup_key = any(cast(:keys as text[])) and known @> cast(:as_of as timestamptz)"
        ),
        {"keys": wanted, "as_of": as_of},
    ).all()
    prices = connection.execute(
        text(
            "select lookup_key, sku, description, component, quantity, unit, unit_price, currency,"
            " lower(during) as starts, upper(during) as ends, snapshot_id from core.price"
            " where lookup_key = any(cast(:keys as text[])) and known @> cast(:as_of as timestamptz)"
            " order by lookup_key, component, sku, during"
        ),
        {"keys": wanted, "as_of": as_of},
    ).all()
    parts: dict[str, list[KnownComponent]] = {}
    for row in prices:
        parts.setdefault(row.lookup_key, []).append(
            KnownComponent(_component(row), row.snapshot_id)
        )
    return {
        row.lookup_key: Known(
            state=row.state,
            reason=row.reason,
            components=tuple(parts.get(row.lookup_key, ())),
            stale_since=next_hour(row.known_from) if row.reason == STALE else None,
        )
        for row in lookups
    }


def ensure(
    connection: Connection,
    keys: Iterable[LookupKey],
    *,
    now: datetime,
    max_age: timedelta,
    sources: Mapping[str, Callable[[], fetch.PriceSource]] = SOURCES,
) -> dict[str, Any]:
    """Looks up every key that the book does not know or last looked up longer than `max_age` ago.

    Holds an advisory lock until the caller's transaction ends, so that two runs do not fetch the
    same. A failing provider or key leaves what is known in place and does not stop the others.
    Returns counts, percentages of all `keys` and the reasons of the failures.
    """
    wanted = {key.text: key for key in keys}
    lock(connection, "prices")
    known = _current_lookups(connection, wanted)
    due = [
        key
        for name, key in sorted(wanted.items())
        if name not in known or now - known[name].looked_up_at > max_age
    ]
    opened: dict[str, fetch.PriceSource | KubetallyError] = {}
    failures: dict[str, str] = {}
    changed: list[str] = []
    for key in due:
        try:
            quote, snapshot = _look_up(key, now, sources, opened)
            with connection.begin_nested():
                done = remember(connection, key.text, quote, snapshot, now)
        except KubetallyError as error:
            failures[key.text] = str(error)
            continue
        if done.is_changed:
            changed.append(key.text)
    states = Counter(lookup.state for lookup in _current_lookups(connection, wanted).values())
    unknown = len(wanted) - sum(states.values())
    counts = {state: states.get(state, 0) for state in ("priced", "unpriced", "ambiguous")}
    return {
        "keys": len(wanted),
        "looked_up": len(due) - len(failures),
        "fresh": len(wanted) - len(due),
        "failed": len(failures),
        "changed": len(changed),
        **counts,
        "not_known": unknown,
        "percent": {
            state: round(100 * count / len(wanted), 1) if wanted else 0.0
            for state, count in {**counts, "not_known": unknown, "changed": len(changed)}.items()
        },
        "changed_keys": changed[:50],
        "failures": dict(sorted(failures.items())[:50]),
    }


def stage_node_prices(
    connection: Connection,
    stage_id: int,
    nodes: Mapping[int, NodeFacts],
    cluster: ClusterConfig,
    window: Window,
    as_of: datetime,
) -> int:
    """Fills core.node_price of one stage: every node, the whole of `window`, no gap, no overlap.

    Uses the book and the sheet as they were known at `as_of`. Returns the number of rows.
    """
    sheet = sheet_as_of(connection, cluster.price_sheet, as_of) if cluster.price_sheet else None
    rate = hourly_rate(cluster.hourly_rate)
    keys = {
        node: lookup_key(facts, provider=cluster.provider, region=cluster.region)
        for node, facts in nodes.items()
    }
    texts = [key.text for key in keys.values() if isinstance(key, LookupKey)]
    known = read(connection, texts, as_of)
    rows: list[tuple[int, NodePrice]] = []
    for node, facts in sorted(nodes.items()):
        key = keys[node]
        about = known.get(key.text) if isinstance(key, LookupKey) else None
        prices = resolve(facts, window, key=key, known=about, sheet=sheet, hourly_rate=rate)
        rows.extend((node, price) for price in prices)
    _copy(connection, stage_id, rows)
    return len(rows)


def sheet_as_of(connection: Connection, name: str, as_of: datetime) -> Sheet:
    """The price sheet `name` as it was at `as_of`; a changed file is kept as a new snapshot.

    A file counts as known from when it was written (its modification time), so that editing a
    sheet does not change hours that were computed before. The first version ever seen counts
    for all time.
    """
    path = config_dir() / name
    try:
        content = path.read_bytes()
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError as error:
        raise ConfigError(
            f"The price sheet {name} cannot be read: {error.strerror}.",
            remedy="Correct `price_sheet` in clusters.yaml; it is relative to the config folder.",
        ) from error
    parse(content, path.name)  # a broken sheet is an error now, not when it is needed
    versions = connection.execute(
        text(
            "select snapshot_id, fetched_at, sha256, payload from core.price_snapshot"
            " where provider = 'sheet' and split_part(url, '#', 1) = :name order by fetched_at"
        ),
        {"name": name},
    ).all()
    kept = [(row.fetched_at, row.snapshot_id, zlib.decompress(row.payload)) for row in versions]
    if not versions or versions[-1].sha256 != hashlib.sha256(content).hexdigest():
        seen: datetime = connection.execute(text("select now()")).scalar_one().astimezone(UTC)
        is_newer = not kept or kept[-1][0] < written <= seen
        known_from = written if is_newer else seen
        snapshot = Snapshot("sheet", f"{name}#{iso(known_from)}", known_from, content)
        kept.append((known_from, keep_snapshot(connection, snapshot), content))
    _, snapshot_id, chosen = next((v for v in reversed(kept) if v[0] <= as_of), kept[0])
    return parse(chosen, path.name, snapshot_id)


def _look_up(
    key: LookupKey,
    now: datetime,
    sources: Mapping[str, Callable[[], fetch.PriceSource]],
    opened: dict[str, fetch.PriceSource | KubetallyError],
) -> tuple[Quote, Snapshot | None]:
    if key.provider not in sources:
        reason = AWS_NOT_READ if key.provider == "aws" else "the provider has no list that is read"
        return Unpriced(reason), None
    if key.provider not in opened:
        try:
            opened[key.provider] = sources[key.provider]()
        except KubetallyError as error:
            opened[key.provider] = error
    source = opened[key.provider]
    if isinstance(source, KubetallyError):
        raise source
    return source.quote(key, now)


def _current_prices(connection: Connection, keys: Iterable[str]) -> dict[str, dict[int, Statement]]:
    """What the book holds now: statements by key and price_id."""
    rows = connection.execute(
        text(
            "select lookup_key, price_id, sku, description, component, quantity, unit, unit_price,"
            " currency, lower(during) as starts, upper(during) as ends, snapshot_id"
            " from core.price where lookup_key = any(cast(:keys as text[])) and upper_inf(known)"
        ),
        {"keys": list(keys)},
    )
    found: dict[str, dict[int, Statement]] = {}
    for row in rows:
        statement = Statement(_component(row), row.snapshot_id)
        found.setdefault(row.lookup_key, {})[row.price_id] = statement
    return found


def _current_lookups(connection: Connection, keys: Iterable[str]) -> dict[str, _Lookup]:
    rows = connection.execute(
        text(
            "select lookup_key, state, reason, lower(known) as known_from, looked_up_at"
            " from core.price_lookup"
            " where lookup_key = any(cast(:keys as text[])) and upper_inf(known)"
        ),
        {"keys": list(keys)},
    )
    return {
        row.lookup_key: _Lookup(row.state, row.reason, row.known_from, row.looked_up_at)
        for row in rows
    }


def _after_all_knowledge(connection: Connection, key: str, now: datetime) -> datetime:
    """`now`, or the first moment after the book last changed its mind about `key`."""
    latest: datetime | None = connection.execute(
        text(
            "select max(lower(known)) from ("
            " select known from core.price where lookup_key = :key union all"
            " select known from core.price_lookup where lookup_key = :key) as all_knowledge"
        ),
        {"key": key},
    ).scalar_one()
    if latest is None or latest < now:
        return now
    return latest.astimezone(UTC) + timedelta(microseconds=1)


def _write_prices(
    connection: Connection,
    key: str,
    rows: Mapping[int, Statement],
    after: Sequence[Statement],
    snapshot: Snapshot | None,
    now: datetime,
) -> bool:
    wanted = {statement.fact for statement in after}
    kept = {statement.fact for statement in rows.values() if statement.fact in wanted}
    closed = [price_id for price_id, statement in rows.items() if statement.fact not in wanted]
    added = [statement for statement in after if statement.fact not in kept]
    if closed:
        connection.execute(
            text(
                "update core.price set known = tstzrange(lower(known), :now)"
                " where price_id = any(cast(:ids as bigint[]))"
            ),
            {"ids": closed, "now": now},
        )
    for statement in added:
        part = statement.component
        source = statement.snapshot_id
        if source is None:
            assert snapshot is not None
            source = keep_snapshot(connection, snapshot)
        connection.execute(
            text(
                "insert into core.price (lookup_key, sku, description, component, quantity, unit,"
                " unit_price, currency, during, known, snapshot_id) values (:key, :sku,"
                " :description, :component, :quantity, :unit, :unit_price, :currency,"
                " tstzrange(:starts, :ends), tstzrange(:now, null), :snapshot_id)"
            ),
            {
                "key": key,
                "sku": part.sku,
                "description": part.description,
                "component": part.component,
                "quantity": part.quantity,
                "unit": part.unit,
                "unit_price": part.unit_price,
                "currency": part.currency,
                "starts": part.valid_from,
                "ends": part.valid_until,
                "now": now,
                "snapshot_id": source,
            },
        )
    return bool(closed or added)


def _write_lookup(
    connection: Connection,
    key: str,
    state: str,
    reason: str,
    snapshot: Snapshot | None,
    now: datetime,
) -> None:
    connection.execute(
        text(
            "update core.price_lookup set known = tstzrange(lower(known), :now)"
            " where lookup_key = :key and upper_inf(known)"
        ),
        {"key": key, "now": now},
    )
    connection.execute(
        text(
            "insert into core.price_lookup (lookup_key, state, reason, known, looked_up_at,"
            " snapshot_id) values (:key, :state, :reason, tstzrange(:now, null), :now, :snapshot_id)"
        ),
        {
            "key": key,
            "state": state,
            "reason": reason,
            "now": now,
            "snapshot_id": None if snapshot is None else keep_snapshot(connection, snapshot),
        },
    )


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


def _copy(connection: Connection, stage_id: int, rows: Sequence[tuple[int, NodePrice]]) -> None:
    lines = io.StringIO()
    writer = csv.writer(lines)
    for node, price in rows:
        ids = ",".join(str(one) for one in price.snapshot_ids)
        writer.writerow(
            (
                stage_id,
                node,
                f"[{price.during_start.isoformat()},{price.during_end.isoformat()})",
                price.state,
                price.reason,
                *(
                    _plain(amount)
                    for amount in (
                        price.price_per_hour,
                        price.cpu_price_per_hour,
                        price.memory_price_per_hour,
                        price.gpu_price_per_hour,
                    )
                ),
                price.currency,
                price.origin,
                f"{{{ids}}}",
            )
        )
    lines.seek(0)
    driver = connection.connection.driver_connection
    assert driver is not None
    with driver.cursor() as cursor:
        cursor.copy_expert(
            "copy core.node_price (stage_id, node_key, during, state, reason, price_per_hour,"
            " cpu_price_per_hour, memory_price_per_hour, gpu_price_per_hour, currency, origin,"
            " snapshot_ids) from stdin (format csv, force_not_null (reason))",
            lines,
        )


def _plain(amount: Decimal | None) -> str:
    return "" if amount is None else f"{amount:f}"


def _component(row: Any) -> Component:
    kind: ComponentKind = row.component
    return Component(
        sku=row.sku,
        description=row.description,
        component=kind,
        quantity=row.quantity,
        unit=row.unit,
        unit_price=row.unit_price,
        currency=row.currency,
        valid_from=None if row.starts is None else row.starts.astimezone(UTC),
        valid_until=None if row.ends is None else row.ends.astimezone(UTC),
    )
