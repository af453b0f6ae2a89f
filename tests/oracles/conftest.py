"""Counts oracle cases by area and by-hand claims, and prints them when such tests ran."""

from __future__ import annotations

from collections import Counter

import pytest

PASSED: Counter[str] = Counter()
FAILED: Counter[str] = Counter()
CLAIM_COUNTS: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.passed:
        return
    for name, value in report.user_properties:
        if name == "oracle_area":
            (PASSED if report.passed else FAILED)[str(value)] += 1
        if name == "claim_counts" and report.when == "call":
            CLAIM_COUNTS.append(str(value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not PASSED and not FAILED and not CLAIM_COUNTS:
        return
    terminalreporter.section("oracles")
    for area in sorted(PASSED | FAILED):
        terminalreporter.write_line(
            f"{area:24} {PASSED[area]:5} passed {FAILED[area]:5} failed",
            red=bool(FAILED[area]),
        )
    for line in CLAIM_COUNTS:
        terminalreporter.write_line(line)
