"""The few calls of Airflow's REST API that a local run makes, with a token of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any

import requests

from kubetally.errors import KubetallyError

TIMEOUT_SECONDS = (3.0, 30.0)


class ApiError(KubetallyError):
    """Airflow's API refused a call; `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Api:
    """Airflow's REST API at `base_url`, as `user`. Loopback only: no proxy, no redirects."""

    base_url: str
    user: str
    password: str = field(repr=False)
    _session: requests.Session = field(default_factory=requests.Session, repr=False)
    _token: str = field(default="", repr=False)

    def health(self) -> dict[str, Any]:
        """/monitor/health as it is; empty while nothing answers."""
        try:
            answer = self._send("GET", "/api/v2/monitor/health", None, {})
        except requests.RequestException:
            return {}
        found: dict[str, Any] = answer.json() if answer.ok else {}
        return found

    def dags(self) -> dict[str, dict[str, Any]]:
        """Every DAG that was parsed and is not stale, by id."""
        found = self.get("/dags", limit=500, exclude_stale=True)
        return {dag["dag_id"]: dag for dag in found["dags"]}

    def import_errors(self, since: datetime) -> list[str]:
        """`file: last line of the traceback` for every DAG file that did not load since then."""
        found = self.get("/importErrors", limit=100)["import_errors"]
        return [
            f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}"
            for error in found
            if datetime.fromisoformat(error["timestamp"]) >= since
        ]

    def unpause(self, dag_id: str) -> None:
        self.call("PATCH", f"/dags/{dag_id}?update_mask=is_paused", {"is_paused": False})

    def trigger(self, dag_id: str) -> str:
        """Starts a run now; its id."""
        return str(
            self.call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"]
        )

    def backfill(self, dag_id: str, first: date, last: date, *, again: bool) -> int:
        """Creates a backfill over the days `first`…`last`; `again` re-runs finished days too.

        Raises ApiError with status 409 while another backfill of this DAG is active.
        """
        body = {
            "dag_id": dag_id,
            "from_date": _midnight(first),
            "to_date": _midnight(last),
            "reprocess_behavior": "completed" if again else "failed",
            "max_active_runs": 4,
        }
        return int(self.call("POST", "/backfills", body)["id"])

    def backfill_is_over(self, backfill_id: int) -> bool:
        return self.get(f"/backfills/{backfill_id}")["completed_at"] is not None

    def active_backfills(self, dag_id: str) -> list[int]:
        found = self.get("/backfills", dag_id=dag_id, limit=100)["backfills"]
        return [int(entry["id"]) for entry in found if entry["completed_at"] is None]

    def runs(self, dag_id: str, first: date, last: date) -> dict[date, dict[str, Any]]:
        """The newest run of each day `first`…`last` by logical date."""
        found = self.get(
            f"/dags/{dag_id}/dagRuns",
            logical_date_gte=_midnight(first),
            logical_date_lte=_midnight(last),
            order_by="run_after",
            limit=500,
        )
        return {datetime.fromisoformat(r["logical_date"]).date(): r for r in found["dag_runs"]}

    def failed_tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Task instances in state failed, those that failed on their own account."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        found: list[dict[str, Any]] = self.get(path, state="failed", limit=100)["task_instances"]
        return found

    def log_lines(self, task: dict[str, Any], count: int = 15) -> list[str]:
        """The last lines of a task instance's log."""
        path = (
            f"/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}"
            f"/taskInstances/{task['task_id']}/logs/{task['try_number']}"
        )
        content = self.get(path, map_index=task["map_index"], full_content=True)["content"]
        lines: list[str] = []
        for entry in content:
            if isinstance(entry, str):
                lines += entry.splitlines()
                continue
            lines.append(str(entry.get("event", "")))
            for error in entry.get("error_detail") or []:
                lines.append(f"{error.get('exc_type')}: {error.get('exc_value')}")
        return [line for line in lines if line.strip() and not line.startswith("::")][-count:]

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self.call("GET", path, None, **query)

    def call(self, method: str, path: str, body: Any, **query: Any) -> dict[str, Any]:
        """`method` on /api/v2`path`. Raises ApiError with what Airflow said."""
        if not self._token:
            self._log_in()
        answer = self._send(method, f"/api/v2{path}", body, query)
        if answer.status_code == 401:  # tokens end after a day, or with a new secret
            self._log_in()
            answer = self._send(method, f"/api/v2{path}", body, query)
        if not answer.ok:
            raise ApiError(
                f"Airflow answered {answer.status_code} to {method} {path}: {answer.text[:500]}",
                answer.status_code,
            )
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found

    def _log_in(self) -> None:
        self._token = ""
        body = {"username": self.user, "password": self.password}
        answer = self._send("POST", "/auth/token", body, {})
        if not answer.ok:
            raise ApiError(
                f"Airflow refused the login of {self.user} ({answer.status_code}).",
                answer.status_code,
            )
        self._token = str(answer.json()["access_token"])

    def _send(self, method: str, path: str, body: Any, query: dict[str, Any]) -> requests.Response:
        self._session.trust_env = False
        return self._session.request(
            method,
            f"{self.base_url}{path}",
            json=body,
            params=query,
            headers={"Authorization": f"Bearer {self._token}"} if self._token else {},
            timeout=TIMEOUT_SECONDS,
            allow_redirects=False,
        )


def _midnight(day: date) -> str:
    return datetime.combine(day, time.min, UTC).isoformat().replace("+00:00", "Z")
