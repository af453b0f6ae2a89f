"""Great Expectations suites, in code: shape, nulls, ranges and uniqueness of the window's slice.

Never money: sums may come back as float; exact rules are SQL checks. GX works through a connection
of its own, so it sees committed rows only, and its import costs seconds: it happens inside.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import URL, BigInteger, DateTime, Dialect, Integer, bindparam, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from kubetally.quality.verdict import Gate, Severity, Verdict
from kubetally.warehouse.connect import statement

# A fresh stage has no statistics, so nested loops look cheap and are not.
SESSION = (
    "-c TimeZone=UTC -c statement_timeout=1800000 -c default_transaction_read_only=on"
    " -c enable_nestloop=off"
)
PARAMETER_TYPES: Mapping[str, TypeEngine[Any]] = {
    "cluster_key": Integer(),
    "stage_id": BigInteger(),
    "start": DateTime(timezone=True),
    "end": DateTime(timezone=True),
}
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
LINES = (
    "workload",
    "system",
    "idle",
    "overcommit",
    "uncovered",
    "shared",
    "unmounted",
    "unpriced",
    "recovery",
    "correction",
)


@dataclass(frozen=True)
class Rule:
    """One expectation by its GX class name, before GX is imported."""

    expectation: str
    arguments: Mapping[str, Any]
    expects: str
    severity: Severity = "critical"


@dataclass(frozen=True)
class Slice:
    """The part of the warehouse a suite looks at: a query in include/sql/checks/slices/."""

    name: str
    rules: tuple[Rule, ...]
    needs: frozenset[str] = field(
        default_factory=frozenset
    )  # datasets without which it may be empty


def _some_rows() -> Rule:
    return Rule("ExpectTableRowCountToBeBetween", {"min_value": 1}, "at least one row")


def _columns(*names: str) -> Rule:
    return Rule(
        "ExpectTableColumnsToMatchSet",
        {"column_set": list(names), "exact_match": False},
        f"the columns {', '.join(names)}",
    )


def _unique(*names: str) -> Rule:
    return Rule(
        "ExpectCompoundColumnsToBeUnique",
        {"column_list": list(names), "ignore_row_if": "never"},
        f"one row per {', '.join(names)}",
    )


def _known(column: str, severity: Severity = "critical") -> Rule:
    return Rule(
        "ExpectColumnValuesToNotBeNull", {"column": column}, f"a {column} in every row", severity
    )


def _between(column: str, low: int, high: int, severity: Severity = "critical") -> Rule:
    return Rule(
        "ExpectColumnValuesToBeBetween",
        {"column": column, "min_value": low, "max_value": high},
        f"{column} between {low} and {high}",
        severity,
    )


def _one_of(column: str, values: Sequence[str], severity: Severity = "critical") -> Rule:
    return Rule(
        "ExpectColumnValuesToBeInSet",
        {"column": column, "value_set": list(values)},
        f"{column} among {', '.join(values)}",
        severity,
    )


SUITES: Mapping[Gate, tuple[Slice, ...]] = {
    "raw": (
        Slice(
            "raw_pods",
            (
                _some_rows(),
                _unique("uid", "start_at"),
                _known("cpu_request_cores", "warning"),
                _known("memory_request_bytes", "warning"),
                _one_of("phase", PHASES, "warning"),
            ),
            frozenset({"pod"}),
        ),
        Slice(
            "raw_nodes",
            (
                _some_rows(),
                _unique("uid", "start_at"),
                _known("cpu_capacity_cores", "warning"),
                _known("memory_capacity_bytes", "warning"),
                _between("cpu_capacity_cores", 0, 10_000, "warning"),
            ),
            frozenset({"node"}),
        ),
    ),
    "core": (
        Slice(
            "core_pod_hours",
            (
                _some_rows(),
                _unique("hour", "pod_key"),
                _between("seconds", 0, 3600),
                _between("cpu_used_covered_seconds", 0, 3600),
                _between("memory_used_covered_seconds", 0, 3600),
                _known("node_key", "warning"),
            ),
            frozenset({"pod"}),
        ),
        Slice(
            "core_node_hours",
            (
                _some_rows(),
                _unique("hour", "node_key"),
                _between("seconds", 0, 3600),
                _between("covered_seconds", 0, 3600),
            ),
            frozenset({"node"}),
        ),
        Slice("core_container_hours", (_unique("hour", "pod_key", "container"),)),
    ),
    "costs": (
        Slice(
            "cost_lines",
            (
                _some_rows(),
                _columns("hour", "cost_model_key", "revision", "line", "owner", "currency", "cost"),
                _unique("hour", "cost_model_key", "line", "node_key", "pod_key", "pool"),
                _one_of("line", LINES),
                Rule(
                    "ExpectColumnValueLengthsToBeBetween",
                    {"column": "owner", "min_value": 1},
                    "an owner on every line",
                ),
                Rule(
                    "ExpectColumnValueLengthsToEqual",
                    {"column": "currency", "value": 3},
                    "a currency of three letters where there is one",
                ),
                _between("revision", 1, 1_000_000),
            ),
            frozenset({"pod", "node"}),
        ),
    ),
}


def run_suites(
    gate: Gate, url: URL, parameters: Mapping[str, Any], needed: frozenset[str]
) -> list[Verdict]:
    """Validates the gate's slices; `needed` are the datasets of which the window must hold rows.

    First only yes or no is asked; what failed is asked again for the offending values.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # no phoning home, whatever the version
    import great_expectations as gx

    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_postgres(
        "warehouse",
        connection_string=url.render_as_string(hide_password=False),
        kwargs={"connect_args": {"options": SESSION, "application_name": f"kubetally/gate/{gate}"}},
        create_temp_table=False,
    )
    verdicts: list[Verdict] = []
    for part in SUITES[gate]:
        rules = [
            rule
            for rule in part.rules
            if rule.expectation != "ExpectTableRowCountToBeBetween" or part.needs <= needed
        ]
        asset = source.add_query_asset(part.name, query=query(part.name, parameters))
        batch = asset.add_batch_definition_whole_table("window").get_batch()
        passed = [bool(found.success) for found in _validate(gx, batch, rules, "BOOLEAN_ONLY")]
        failed = [rule for rule, good in zip(rules, passed, strict=True) if not good]
        details = iter(_validate(gx, batch, failed, "SUMMARY") if failed else [])
        verdicts.extend(
            _verdict(part, rule, None if good else next(details))
            for rule, good in zip(rules, passed, strict=True)
        )
    return verdicts


def query(name: str, parameters: Mapping[str, Any]) -> str:
    """The slice's query with its parameters written in by SQLAlchemy: GX binds none.

    They are numbers and times of our own; SQLAlchemy renders them by type.
    """
    lines = statement(f"checks/slices/{name}.sql").splitlines()
    plain = "\n".join(line for line in lines if not line.startswith("--"))
    clause = text(plain)
    names = set(clause.compile().params)
    bound = clause.bindparams(
        *(bindparam(each, parameters[each], PARAMETER_TYPES[each]) for each in sorted(names))
    )
    dialect: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    compiled = bound.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    return str(compiled)


def _validate(gx: Any, batch: Any, rules: Sequence[Rule], result_format: str) -> list[Any]:
    """One result per rule, in the order of the rules."""
    expectations = [
        getattr(gx.expectations, rule.expectation)(severity=rule.severity, **rule.arguments)
        for rule in rules
    ]
    result = batch.validate(
        gx.ExpectationSuite(batch.id or "window", expectations=expectations),
        result_format=result_format,
    )
    return list(result.results)


def _verdict(part: Slice, rule: Rule, failure: Any | None) -> Verdict:
    observed, offending, sample = (
        _findings(failure) if failure is not None else ("as expected", 0, ())
    )
    subject = rule.arguments.get("column") or ",".join(rule.arguments.get("column_list", ()))
    return Verdict(
        check=f"{part.name}.{rule.expectation}" + (f"({subject})" if subject else ""),
        engine="gx",
        severity=rule.severity,
        passed=failure is None,
        expected=rule.expects,
        observed=observed,
        offending=offending,
        sample=sample,
    )


def _findings(failure: Any) -> tuple[str, int, tuple[str, ...]]:
    found: Mapping[str, Any] = failure.result or {}
    raised = [
        str(info.get("exception_message", "")).splitlines()[0][:300]
        for info in _exceptions(failure.exception_info)
    ]
    if raised:
        return f"the check could not run: {raised[0]}", 0, ()
    offending = int(found.get("unexpected_count") or 0)
    values = tuple(
        json.dumps(value, default=str) for value in found.get("partial_unexpected_list", ())[:5]
    )
    if "unexpected_count" in found:
        return f"{offending} of {found.get('element_count')} rows", offending, values
    return f"{found.get('observed_value')}", offending, values


def _exceptions(info: Any) -> list[Mapping[str, Any]]:
    """GX gives one record, or one per metric."""
    if not isinstance(info, Mapping):
        return []
    records = [info] if "raised_exception" in info else list(info.values())
    return [each for each in records if isinstance(each, Mapping) and each.get("raised_exception")]
