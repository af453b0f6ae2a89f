"""The Kubernetes API and kubelet endpoints of the demo cluster, for one moment."""

from __future__ import annotations

from typing import Any

from kubetally.demo.faults import Faults
from kubetally.demo.scenario import Scenario


class Snapshots:
    """Placeholder."""


def status(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    """A failure as the API server words it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **more,
        "code": code,
    }


def expired(token: str) -> dict[str, Any]:
    return status(410, "Expired", "The provided continue parameter is too old")


def answer(
    scenario: Scenario,
    path: str,
    parameters: dict[str, str],
    now: int,
    faults: Faults,
    snapshots: Snapshots,
) -> tuple[int, dict[str, Any] | str, str]:
    return 404, "404 page not found\n", "text/plain; charset=utf-8"
