"""The price book in the warehouse: what was listed when, and since when that is known.

Rows are bitemporal: `during` says when a price holds, `known` when the book held that opinion.
History is never edited: a changed opinion closes the old `known` range and adds rows. Every
function works in the caller's transaction; the caller commits.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from sqlalchemy import Connection, text

from kubetally.config import ClusterConfig
from kubetally.errors import KubetallyError
from kubetally.prices import fetch, fetch_aws
from kubetally.prices.currency import in_currency
from kubetally.prices.kept_files import keep_snapshot, rates_as_of, sheet_as_of
from kubetally.prices.key import LookupKey, NodeFacts, lookup_key
from kubetally.prices.quote import (
    Ambiguous,
    Component,
    ComponentKind,
    Priced,
    Quote,
    Snapshot,
    Unpriced,
    add,
    next_hour,
)
from kubetally.prices.resolve import (
    Known,
    KnownComponent,
    NodePrice,
    hourly_rate,
    on_demand,
    resolve,
)
from kubetally.prices.timeline import Statement, ended, joined
from kubetally.warehouse.connect import lock
from kubetally.windows import Window, iso

STALE = "the provider lists no price any more; the last known one is kept"
SUDDEN_CHANGE = Decimal("0.3")  # relative to the price before
SOURCES: Mapping[str, Callable[[], fetch.PriceSource]] = {
    "azure": fetch.AzurePrices.from_connection,
    "gcp": fetch.GcpPrices.from_connection,
    "aws": fetch_aws.from_connection,
}


@dataclass(frozen=True)
class Jump:
    """A price that changed by more than `SUDDEN_CHANGE`: both amounts and where each was read."""

    at: datetime
    before: Decimal
    after: Decimal
    snapshot_before: int
    snapshot_after: int

    def __str__(self) -> str:
        return (
            f"{self.before.normalize():f} (snapshot {self.snapshot_before}) → "
            f"{self.after.normalize():f} (snapshot {self.snapshot_after}) from {iso(self.at)}"
        )


@dataclass(frozen=True)
class Remembered:
    """What `remember` did: the lookup's state now, and whether a known price or state changed."""

    state: Literal["priced", "unpriced", "ambiguous"]
    is_new: bool
    is_changed: bool
    jumps: tuple[Jump, ...] = ()


@dataclass(frozen=True)
class _Lookup:
    state: Literal["priced", "unpriced", "ambiguous"]
    reason: str
    known_from: datetime
    looked_up_at: datetime
    asked_since: datetime | None


def remember(
    connection: Connection,
    key: str,
    quote: Quote,
    snapshot: Snapshot | None,
    now: datetime,
    since: datetime | None = None,
) -> Remembered:
    """Writes what was found for `key`. The same content again adds nothing.

    `since`: the provider was asked for the prices from then on. A provider that lists nothing any more does not take a known price away: it goes stale. An
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
    asked = min(
        (moment for moment in (since, before.asked_since if before else None) if moment),
        default=None,
    )
    if before is None or (before.state, before.reason) != (state, reason):
        _write_lookup(connection, key, state, reason, snapshot, now, asked)
        changed = True
    else:
        connection.execute(
            text(
                "update core.price_lookup set looked_up_at = greatest(looked_up_at, :now),"
                " asked_since = :asked where lookup_key = :key and upper_inf(known)"
            ),
            {"key": key, "now": now, "asked": asked},
        )
    jumps = _jumps(connection, key, held, now) if changed and held else ()
    return Remembered(state, before is None, changed and before is not None, jumps)


def _jumps(
    connection: Connection, key: str, held: Sequence[Statement], now: datetime
) -> tuple[Jump, ...]:
    """Where the new timeline departs from the old one by more than `SUDDEN_CHANGE`, or jumps itself."""
    after = list(_current_prices(connection, [key]).get(key, {}).values())
    old_facts = {statement.fact for statement in held}
    found: list[Jump] = []
    for start in sorted({s.component.start for s in after if s.fact not in old_facts}):
        rival = _total_at(held, start) or _total_at(after, start - timedelta(hours=1))
        total = _total_at(after, start)
        if not rival or not total or rival[1] != total[1] or rival[0] == 0:
            continue
        if abs(total[0] - rival[0]) > SUDDEN_CHANGE * rival[0]:
            found.append(Jump(start, rival[0], total[0], rival[2], total[2]))
    return tuple(found)


def _total_at(statements: Sequence[Statement], moment: datetime) -> tuple[Decimal, str, int] | None:
    """The price per hour at `moment`, its currency and its newest snapshot."""
    holding = [s for s in statements if s.component.holds_at(moment)]
    if not holding:
        return None
    return (
        add(s.component.price_per_hour for s in holding),
        holding[0].component.currency,
        max(s.snapshot_id or 0 for s in holding),
    )


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
    since: datetime | None = None,
    sources: Mapping[str, Callable[[], fetch.PriceSource]] = SOURCES,
) -> dict[str, Any]:
    """Looks up every key that the book does not know or last looked up longer than `max_age` ago.

    With `since`, a key whose known prices all begin later is looked up once more, from then on.

    Holds an advisory lock until the caller's transaction ends, so that two runs do not fetch the
    same. A failing provider or key leaves what is known in place and does not stop the others.
    Returns counts, percentages of all `keys` and the reasons of the failures.
    """
    wanted = {key.text: key for key in keys}
    lock(connection, "prices")
    known = _current_lookups(connection, wanted)
    since = since and since.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    with_history = [name for name, key in wanted.items() if key.provider in fetch.WITH_HISTORY]
    begins_late = _begins_after(connection, with_history, since) if since else set()
    due = [
        key
        for name, key in sorted(wanted.items())
        if name not in known
        or now - known[name].looked_up_at > max_age
        or (name in begins_late and since and (known[name].asked_since or now) > since)
    ]
    opened: dict[str, fetch.PriceSource | KubetallyError] = {}
    failures: dict[str, str] = {}
    changed: list[str] = []
    sudden: dict[str, str] = {}
    for key in due:
        try:
            quote, snapshot = _look_up(key, now, due, since, sources, opened)
            with connection.begin_nested():
                done = remember(connection, key.text, quote, snapshot, now, since)
        except KubetallyError as error:
            failures[key.text] = str(error)
            continue
        if done.is_changed:
            changed.append(key.text)
        if done.jumps:
            sudden[key.text] = "; ".join(str(jump) for jump in done.jumps)
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
        "sudden_changes": dict(sorted(sudden.items())[:50]),
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

    Uses the book, the sheet and the exchange rates as they were known at `as_of`. Where rates are
    configured, prices are in the currency of the cluster's cost models. Returns the number of rows.
    Raises ConfigError when an exchange rate is missing.
    """
    sheet = sheet_as_of(connection, cluster.price_sheet, as_of) if cluster.price_sheet else None
    rate = hourly_rate(cluster.hourly_rate)
    exchange = rates_as_of(connection, as_of)
    currency = _common_currency(connection, cluster, window, as_of) if exchange else ""
    keys = {
        node: lookup_key(facts, provider=cluster.provider, region=cluster.region)
        for node, facts in nodes.items()
    }
    listed = [key for key in keys.values() if isinstance(key, LookupKey)]
    known = read(connection, [k.text for key in listed for k in (key, on_demand(key))], as_of)
    rows: list[tuple[int, NodePrice]] = []
    for node, facts in sorted(nodes.items()):
        key = keys[node]
        about = key if isinstance(key, LookupKey) else None
        prices = resolve(
            facts,
            window,
            key=key,
            known=known.get(about.text) if about else None,
            sheet=sheet,
            hourly_rate=rate,
            known_on_demand=known.get(on_demand(about).text) if about else None,
        )
        if exchange and currency:
            prices = in_currency(prices, currency, exchange)
        rows.extend((node, price) for price in prices)
    _copy(connection, stage_id, rows)
    return len(rows)


def _common_currency(
    connection: Connection, cluster: ClusterConfig, window: Window, as_of: datetime
) -> str:
    """The one currency of the cluster's cost models, "" if they have several or none."""
    found = connection.execute(
        text(
            "select distinct currency from core.cost_model where cost_model = any(:names)"
            " and during && tstzrange(:start, :end) and known @> cast(:as_of as timestamptz)"
        ),
        {
            "names": list(cluster.cost_models),
            "start": window.start,
            "end": window.end,
            "as_of": as_of,
        },
    ).scalars()
    currencies = list(found)
    return str(currencies[0]) if len(currencies) == 1 else ""


def _look_up(
    key: LookupKey,
    now: datetime,
    due: Sequence[LookupKey],
    since: datetime | None,
    sources: Mapping[str, Callable[[], fetch.PriceSource]],
    opened: dict[str, fetch.PriceSource | KubetallyError],
) -> tuple[Quote, Snapshot | None]:
    if key.provider not in sources:
        return Unpriced("the provider has no list that is read; give a sheet"), None
    if key.provider not in opened:
        try:
            opening = sources[key.provider]()
            opening.announce([one for one in due if one.provider == key.provider], since)
            opened[key.provider] = opening
        except KubetallyError as error:
            opened[key.provider] = error
    source = opened[key.provider]
    if isinstance(source, KubetallyError):
        raise source
    return source.quote(key, now)


def _begins_after(connection: Connection, keys: Iterable[str], since: datetime) -> set[str]:
    """The keys that have a price, but none that holds at `since`: all of them begin later."""
    rows = connection.execute(
        text(
            "select lookup_key from core.price"
            " where lookup_key = any(cast(:keys as text[])) and upper_inf(known)"
            " group by lookup_key having min(lower(during)) > :since"
        ),
        {"keys": list(keys), "since": since},
    )
    return set(rows.scalars())


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
            "select lookup_key, state, reason, lower(known) as known_from, looked_up_at, asked_since"
            " from core.price_lookup"
            " where lookup_key = any(cast(:keys as text[])) and upper_inf(known)"
        ),
        {"keys": list(keys)},
    )
    return {
        row.lookup_key: _Lookup(
            row.state, row.reason, row.known_from, row.looked_up_at, row.asked_since
        )
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
    asked: datetime | None,
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
            " snapshot_id, asked_since) values (:key, :state, :reason, tstzrange(:now, null), :now,"
            " :snapshot_id, :asked)"
        ),
        {
            "key": key,
            "state": state,
            "reason": reason,
            "now": now,
            "asked": asked,
            "snapshot_id": None if snapshot is None else keep_snapshot(connection, snapshot),
        },
    )


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
