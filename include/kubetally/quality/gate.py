"""A gate: every check of one stage over one window, its verdicts on record, and a stop if one is critical."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, text

from kubetally.config import ClusterConfig
from kubetally.consolidate.stage import fingerprint
from kubetally.errors import GateError, StaleStageError
from kubetally.quality.checks import load_checks, run_check
from kubetally.quality.suites import run_suites
from kubetally.quality.verdict import Gate, Verdict
from kubetally.warehouse import connect
from kubetally.windows import Window

log = logging.getLogger(__name__)
LONGEST_MESSAGE = 4000


@dataclass(frozen=True)
class GateVerdict:
    """What a gate that let the window pass has to say."""

    gate: Gate
    cluster: str
    window: Window
    passed: int
    warned: int
    warnings: tuple[str, ...]  # names of the checks that warned

    def receipt(self) -> dict[str, Any]:
        """Counts and names, small enough for XCom."""
        return {
            "gate": self.gate,
            "cluster": self.cluster,
            "window": str(self.window),
            "passed": self.passed,
            "warned": self.warned,
            "warnings": list(self.warnings[:10]),
        }


def run_gate(
    gate: Gate, cluster: ClusterConfig, window: Window, *, stage_id: int | None, now: datetime
) -> GateVerdict:
    """Runs every check of the gate and writes every verdict to ops.check_result.

    Reads committed data only and changes none but the verdicts, which stay whatever comes of it.
    Raises GateError when a critical check fails, naming checks, window, cluster, counts and some
    offending rows; StaleStageError when it failed because newer loads speak for the window than
    the ones that were staged.
    """
    engine = connect.engine("quality", f"kubetally/gate/{gate}")
    with engine.connect() as connection:
        connection.execution_options(isolation_level="REPEATABLE READ")
        key = _cluster_key(connection, gate, cluster, window)
        parameters = {
            "cluster_key": key,
            "stage_id": stage_id,
            "start": window.start,
            "end": window.end,
        }
        # A fresh stage has no statistics, so nested loops look cheap and are not.
        connection.execute(text("set local enable_nestloop = off"))
        verdicts = [run_check(connection, check, parameters) for check in load_checks(gate)]
        needed = frozenset(
            connect.run_file(
                connection, "checks/slices/unacknowledged_datasets.sql", parameters
            ).scalars()
        )
        is_stale = stage_id is not None and _is_stale(connection, stage_id, key, window)
        connection.rollback()
    verdicts += run_suites(gate, connect.url("quality"), parameters, needed)
    record(engine, gate, key, window, stage_id, verdicts, now=now)
    return _judge(gate, cluster.name, window, verdicts, is_stale=is_stale)


def _cluster_key(connection: Connection, gate: Gate, cluster: ClusterConfig, window: Window) -> int:
    found = connection.execute(
        text("select cluster_key from core.cluster where cluster = :cluster"),
        {"cluster": cluster.name},
    ).scalar()
    if found is None:
        raise GateError(
            f"Gate {gate} failed for {cluster.name} {window}: nothing of this cluster has ever landed.",
            remedy="Collect the window first; check the cluster's sources in clusters.yaml.",
        )
    return int(found)


def _is_stale(connection: Connection, stage_id: int, key: int, window: Window) -> bool:
    """Whether the loads that speak for the window are others than those the stage came from."""
    staged = connection.execute(
        text("select loads_sha256 from ops.stage where stage_id = :stage_id"),
        {"stage_id": stage_id},
    ).scalar()
    return staged != fingerprint(connection, key, window)


def record(
    engine: Engine,
    gate: Gate,
    cluster_key: int,
    window: Window,
    stage_id: int | None,
    verdicts: Sequence[Verdict],
    *,
    now: datetime,
) -> None:
    """Writes the verdicts in a transaction of their own, so that a failed gate leaves them behind."""
    with engine.begin() as connection:
        connection.execute(
            text(
                "insert into ops.check_result (checked_at, cluster_key, during, stage_id, gate,"
                " check_name, engine, severity, passed, expected, observed, offending_count, sample)"
                " values (:now, :cluster, tstzrange(:start, :end), :stage_id, :gate, :check, :engine,"
                " :severity, :passed, :expected, :observed, :offending, cast(:sample as jsonb))"
            ),
            [
                {
                    "now": now,
                    "cluster": cluster_key,
                    "start": window.start,
                    "end": window.end,
                    "stage_id": stage_id,
                    "gate": gate,
                    "check": verdict.check,
                    "engine": verdict.engine,
                    "severity": verdict.severity,
                    "passed": verdict.passed,
                    "expected": verdict.expected,
                    "observed": verdict.observed,
                    "offending": verdict.offending,
                    "sample": f"[{', '.join(verdict.sample)}]" if verdict.sample else None,
                }
                for verdict in verdicts
            ],
        )


def _judge(
    gate: Gate, cluster: str, window: Window, verdicts: Sequence[Verdict], *, is_stale: bool
) -> GateVerdict:
    """The gate's verdict from those of its checks. Raises GateError or StaleStageError."""
    warnings = [verdict for verdict in verdicts if not verdict.passed and not verdict.stops]
    for verdict in warnings:
        log.warning("Gate %s, %s %s: %s", gate, cluster, window, verdict)
    stops = [verdict for verdict in verdicts if verdict.stops]
    if stops and is_stale:
        raise StaleStageError(
            f"New data landed for {cluster} {window} after it was staged, and gate {gate} no longer"
            f" agrees with it ({', '.join(verdict.check for verdict in stops)}).",
            remedy="Stage and audit the window again.",
        )
    if stops:
        told = "".join(f"\n- {verdict}" for verdict in stops)
        remedies = " ".join(dict.fromkeys(verdict.remedy for verdict in stops if verdict.remedy))
        raise GateError(
            f"Gate {gate} failed for {cluster} {window}: {len(stops)} of {len(verdicts)} checks are"
            f" critical and failed. Published data is untouched.{told}"[:LONGEST_MESSAGE]
            + "\n",
            remedy=f"{remedies} All verdicts stand in ops.check_result.".strip(),
        )
    counts = Counter(verdict.passed for verdict in verdicts)
    return GateVerdict(
        gate=gate,
        cluster=cluster,
        window=window,
        passed=counts[True],
        warned=counts[False],
        warnings=tuple(verdict.check for verdict in warnings),
    )
