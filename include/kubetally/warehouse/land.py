"""Landing: one transaction per dataset and UTC day replaces what a source said about a window."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import polars as pl
from sqlalchemy import Connection, Engine, text

from kubetally.config import ClusterConfig
from kubetally.errors import ConfigError
from kubetally.sources.rows import SCHEMAS, Batch, Collected, Gap
from kubetally.warehouse.connect import cluster_key, lock_days, run_file
from kubetally.windows import DAY, Window


@dataclass(frozen=True)
class Landed:
    """Receipt of a landing: counts and load ids, never data."""

    source: str
    rows: int
    rejects: int
    gaps: int
    unchanged: int
    load_ids: tuple[int, ...]

    def receipt(self) -> dict[str, Any]:
        return asdict(self) | {"load_ids": list(self.load_ids)}


def land(engine: Engine, cluster: ClusterConfig, collected: Collected, *, now: datetime) -> Landed:
    """Lands every batch and records every gap of `collected`.

    A batch is cut at UTC midnights; each part is one load. Landing the same content again changes
    nothing. Raises ConfigError when the cluster does not list the source.
    """
    rank = source_rank(cluster, collected.source)
    rows = rejects = unchanged = 0
    load_ids: list[int] = []
    for batch in collected.batches:
        for window in batch.window.chunks(DAY):
            part = clip(batch, window)
            load_id, is_new = _land_part(engine, cluster.name, collected.source, rank, part, now)
            rows += part.rows.height
            rejects += len(part.rejects)
            unchanged += not is_new
            load_ids.append(load_id)
    record_gaps(engine, cluster.name, collected.source, collected.gaps, now=now)
    return Landed(collected.source, rows, rejects, len(collected.gaps), unchanged, tuple(load_ids))


def source_rank(cluster: ClusterConfig, source: str) -> int:
    """Precedence of a source kind in the cluster's list; 0 comes first."""
    for rank, candidate in enumerate(cluster.sources):
        if candidate.kind == source:
            return rank
    raise ConfigError(
        f"Cluster {cluster.name!r} lists no source of kind {source!r}.",
        remedy="Add it under `sources` in include/config/clusters.yaml.",
    )


def clip(batch: Batch, window: Window) -> Batch:
    """The part of `batch` inside `window`. Statements are cut, usage rows lie within one hour."""
    rows = batch.rows.filter((pl.col("start_at") < window.end) & (pl.col("end_at") > window.start))
    if batch.dataset == "usage":
        rows = rows.filter(pl.col("start_at") >= window.start)
    else:
        rows = rows.with_columns(
            pl.max_horizontal("start_at", pl.lit(window.start))
            .cast(SCHEMAS["pod"]["start_at"])
            .alias("start_at"),
            pl.min_horizontal("end_at", pl.lit(window.end))
            .cast(SCHEMAS["pod"]["end_at"])
            .alias("end_at"),
        )
    covered = tuple(
        (max(start, window.start), min(end, window.end))
        for start, end in batch.covered
        if start < window.end and end > window.start
    )
    rejects = batch.rejects if window.start == batch.window.start else ()
    return Batch(batch.dataset, window, rows, covered, batch.payload_sha256, rejects)


def record_gaps(
    engine: Engine, cluster: str, source: str, gaps: Iterable[Gap], *, now: datetime
) -> None:
    """Writes down what could not be read; an acknowledgement already given stays."""
    with engine.begin() as connection:
        key = cluster_key(connection, cluster)
        for gap in gaps:
            connection.execute(
                text(
                    "insert into ops.gap (cluster_key, dataset, source, during, reason, seen_at)"
                    " values (:cluster, :dataset, :source, tstzrange(:start, :end), :reason, :now)"
                    " on conflict (cluster_key, dataset, source, during)"
                    " do update set reason = excluded.reason, seen_at = excluded.seen_at"
                ),
                {
                    "cluster": key,
                    "dataset": gap.dataset,
                    "source": source,
                    "start": gap.window.start,
                    "end": gap.window.end,
                    "reason": gap.reason[:2000],
                    "now": now,
                },
            )


def acknowledge_gap(
    engine: Engine, cluster: str, window: Window, *, reason: str, who: str, now: datetime
) -> int:
    """Says that a window cannot be filled, whatever the dataset; returns how many gaps that settled.

    The window then passes the coverage gate and its money shows on the line `uncovered`.
    """
    with engine.begin() as connection:
        key = cluster_key(connection, cluster)
        settled = 0
        for dataset in ("pod", "node"):
            settled += connection.execute(
                text(
                    "insert into ops.gap (cluster_key, dataset, source, during, reason, seen_at,"
                    " acknowledged_at, acknowledged_by, acknowledgement)"
                    " values (:cluster, :dataset, 'any', tstzrange(:start, :end), 'no data', :now,"
                    " :now, :who, :reason)"
                    " on conflict (cluster_key, dataset, source, during) do update"
                    " set acknowledged_at = :now, acknowledged_by = :who, acknowledgement = :reason"
                ),
                {
                    "cluster": key,
                    "dataset": dataset,
                    "start": window.start,
                    "end": window.end,
                    "now": now,
                    "who": who,
                    "reason": reason,
                },
            ).rowcount
        return settled


def _land_part(
    engine: Engine, cluster: str, source: str, rank: int, part: Batch, now: datetime
) -> tuple[int, bool]:
    table = f"raw.{part.dataset}_interval"
    stable = _stable(part)
    content = hashlib.sha256(_csv(stable))
    content.update(repr(part.covered).encode())
    rows_sha256 = content.hexdigest()
    day = part.window.start.date()
    with engine.begin() as connection:
        connection.execute(
            text("select ops.ensure_partitions(cast(:parent as regclass), :day, :day)"),
            {"parent": table, "day": day},
        )
    with engine.begin() as connection:
        lock_days(connection, cluster, [day])
        key = cluster_key(connection, cluster)
        window = {"start": part.window.start, "end": part.window.end}
        same = connection.execute(
            text(
                "select load_id from ops.load where cluster_key = :cluster and dataset = :dataset"
                " and source = :source and superseded_at is null and during = tstzrange(:start, :end)"
                " and source_rank = :rank and rows_sha256 = :sha"
                " and not exists (select from ops.load as later where later.cluster_key = :cluster"
                "   and later.dataset = :dataset and later.source = :source"
                "   and later.superseded_at is null and later.load_id > load.load_id"
                "   and later.during && tstzrange(:start, :end))"
            ),
            {
                "cluster": key,
                "dataset": part.dataset,
                "source": source,
                "rank": rank,
                "sha": rows_sha256,
            }
            | window,
        ).scalar()
        if same is not None:
            return int(same), False
        load_id = _insert_load(connection, key, source, rank, part, rows_sha256, now)
        _copy(connection, table, load_id, stable)
        _settle(connection, key, part, now)
        for reject in part.rejects:
            connection.execute(
                text(
                    "insert into ops.reject (load_id, object_name, reason, payload)"
                    " values (:load_id, :name, :reason, :payload)"
                ),
                {
                    "load_id": load_id,
                    "name": _text(reject.object_name),
                    "reason": _text(reject.reason),
                    "payload": _text(reject.payload)[:2000],
                },
            )
        return load_id, True


def _insert_load(
    connection: Connection,
    key: int,
    source: str,
    rank: int,
    part: Batch,
    rows_sha256: str,
    now: datetime,
) -> int:
    covered = (
        "{" + ",".join(f'["{a.isoformat()}","{b.isoformat()}")' for a, b in part.covered) + "}"
    )
    return int(
        connection.execute(
            text(
                "insert into ops.load (cluster_key, dataset, source, source_rank, during, covered,"
                " speaks_for, row_count, reject_count, payload_sha256, rows_sha256, landed_at)"
                " values (:cluster, :dataset, :source, :rank, tstzrange(:start, :end),"
                " cast(:covered as tstzmultirange), '{}', :rows, :rejects, :payload, :sha, :now)"
                " returning load_id"
            ),
            {
                "cluster": key,
                "dataset": part.dataset,
                "source": source,
                "rank": rank,
                "start": part.window.start,
                "end": part.window.end,
                "covered": covered,
                "rows": part.rows.height,
                "rejects": len(part.rejects),
                "payload": part.payload_sha256,
                "sha": rows_sha256,
                "now": now,
            },
        ).scalar_one()
    )


def _settle(connection: Connection, key: int, part: Batch, now: datetime) -> None:
    """Decides anew who speaks for the day and deletes the rows of loads that no longer do."""
    day = Window.of_day(part.window.start.date())
    found = run_file(
        connection,
        "land/settle_loads.sql",
        {
            "cluster_key": key,
            "dataset": part.dataset,
            "start": day.start,
            "end": day.end,
            "now": now,
        },
    )
    gone = [row.load_id for row in found if row.is_superseded]
    if gone:
        # A fixed set of five tables; the name cannot come from outside.
        connection.execute(
            text(
                f"delete from raw.{part.dataset}_interval"  # noqa: S608
                " where load_id = any(:gone) and start_at >= :start and start_at < :end"
            ),
            {"gone": gone, "start": day.start, "end": day.end},
        )


def _stable(part: Batch) -> pl.DataFrame:
    """The rows in a stable order, without the NUL characters that Postgres cannot hold."""
    schema = SCHEMAS[part.dataset]
    texts = [name for name, kind in schema.items() if kind == pl.String]
    clean = pl.col(texts).str.replace_all("\x00", "", literal=True)
    clean = clean.str.replace_all("\\u0000", "", literal=True)
    return part.rows.select(list(schema)).with_columns(clean).sort(list(schema), nulls_last=True)


def _csv(rows: pl.DataFrame) -> bytes:
    """CSV as Postgres reads it: an empty field is null, an empty text is quoted."""
    buffer = io.BytesIO()
    rows.write_csv(
        buffer,
        include_header=False,
        null_value="",
        quote_style="necessary",
        datetime_format="%Y-%m-%dT%H:%M:%S%.6fZ",
    )
    return buffer.getvalue()


def _copy(connection: Connection, table: str, load_id: int, rows: pl.DataFrame) -> None:
    driver = connection.connection.driver_connection
    assert driver is not None
    columns = ", ".join(("load_id", *rows.columns))
    payload = _csv(rows.select(pl.lit(load_id).alias("load_id"), *rows.columns))
    with driver.cursor() as cursor:
        cursor.copy_expert(
            f"copy {table} ({columns}) from stdin with (format csv)",
            io.BytesIO(payload),
        )


def _text(value: str) -> str:
    return value.replace("\x00", "")
