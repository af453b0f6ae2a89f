"""Notices: over a real HTTP server and a real SMTP session, silent until configured, never in the way."""

from __future__ import annotations

import json
import logging
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from kubetally.errors import GateError
from kubetally.quality.notify import LONGEST_ERROR, GateNotifier, build_message

START = datetime(2026, 11, 3, tzinfo=UTC)
END = datetime(2026, 11, 4, tzinfo=UTC)
ERROR = GateError(
    "Gate raw failed for demo [2026-11-03T00:00:00Z, 2026-11-04T00:00:00Z): 1 of 19 checks."
)


def context(**more: Any) -> dict[str, Any]:
    """What Airflow hands a task's on_failure_callback, as far as it is looked at."""
    return {
        "task_instance": SimpleNamespace(
            dag_id="costs_daily",
            task_id="costs_of_cluster.check_raw",
            run_id="scheduled__2026-11-04",
            try_number=1,
            map_index=0,
            log_url="http://localhost:8080/dags/costs_daily",
        ),
        "task": SimpleNamespace(op_kwargs={"cluster": "demo"}),
        "data_interval_start": START,
        "data_interval_end": END,
        "exception": ERROR,
        **more,
    }


class Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers), json.loads(body)))  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Location", "http://localhost/elsewhere")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Any]:
    """A webhook that keeps what it is sent in `seen` and answers `status`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        server.seen, server.status = [], 200  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class Mailbox(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        data, in_body = b"", False
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            if in_body:
                if line == b".\r\n":
                    self.server.mails.append(data)  # type: ignore[attr-defined]
                    in_body = False
                    self.wfile.write(b"250 kept\r\n")
                data += line
                continue
            command = line.split()[0].upper()
            if command == b"DATA":
                data, in_body = b"", True
                self.wfile.write(b"354 go on\r\n")
            elif command == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.server.commands.append(line.decode().strip())  # type: ignore[attr-defined]
                self.wfile.write(b"250 fine\r\n")


@pytest.fixture
def mailbox() -> Iterator[Any]:
    """An SMTP server without TLS that keeps `mails` and `commands`."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as server:
        server.mails, server.commands = [], []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_KUBETALLY_WEBHOOK", raising=False)
    monkeypatch.delenv("AIRFLOW_CONN_KUBETALLY_SMTP", raising=False)


def configure(monkeypatch: pytest.MonkeyPatch, name: str, value: dict[str, Any] | str) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    monkeypatch.setenv(f"AIRFLOW_CONN_KUBETALLY_{name}", text)


def test_nothing_is_sent_and_nothing_breaks_while_nothing_is_configured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    GateNotifier()(context())
    assert "There is no connection 'kubetally_webhook'" in caplog.text
    assert "There is no connection 'kubetally_smtp'" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_webhook_gets_what_failed_where_and_why(
    monkeypatch: pytest.MonkeyPatch, hook: Any
) -> None:
    configure(
        monkeypatch,
        "WEBHOOK",
        {"conn_type": "http", "host": f"http://127.0.0.1:{hook.server_port}/in"},
    )
    GateNotifier()(context())
    [(path, headers, sent)] = hook.seen
    assert path == "/in"
    assert headers["Content-Type"] == "application/json" and "Authorization" not in headers
    assert sent == {
        "text": "Kubetally: costs_daily.costs_of_cluster.check_raw failed for demo"
        f" [2026-11-03T00:00:00Z, 2026-11-04T00:00:00Z)\n{ERROR}",
        "dag": "costs_daily",
        "task": "costs_of_cluster.check_raw",
        "run": "scheduled__2026-11-04",
        "try": 1,
        "map_index": 0,
        "cluster": "demo",
        "window": "[2026-11-03T00:00:00Z, 2026-11-04T00:00:00Z)",
        "error": str(ERROR),
        "log_url": "http://localhost:8080/dags/costs_daily",
    }


@pytest.mark.parametrize(
    ("connection", "path", "header"),
    [
        ({"host": "http://127.0.0.1:{port}/services/a/b?c=d"}, "/services/a/b?c=d", None),
        (
            {"host": "127.0.0.1", "port": "{port}", "schema": "http", "extra": {"path": "/a"}},
            "/a",
            None,
        ),
        ({"host": "127.0.0.1", "port": "{port}", "schema": "http"}, "/", None),
        ("http://127.0.0.1:{port}/services%2Fa", "/services/a", None),
        (
            {"host": "http://127.0.0.1:{port}/", "password": "s3cret"},
            "/",
            ("Authorization", "Bearer s3cret"),
        ),
        (
            {"host": "http://127.0.0.1:{port}/", "login": "me", "password": "pw"},
            "/",
            ("Authorization", "Basic bWU6cHc="),
        ),
        (
            {"host": "http://127.0.0.1:{port}/", "extra": {"headers": {"X-Key": "k"}}},
            "/",
            ("X-Key", "k"),
        ),
    ],
)
def test_every_way_to_write_the_webhook_down(
    monkeypatch: pytest.MonkeyPatch,
    hook: Any,
    connection: dict[str, Any] | str,
    path: str,
    header: tuple[str, str] | None,
) -> None:
    text = connection if isinstance(connection, str) else json.dumps(connection)
    configure(monkeypatch, "WEBHOOK", text.replace("{port}", str(hook.server_port)))
    GateNotifier()(context())
    [(seen_path, headers, _)] = hook.seen
    assert seen_path == path
    assert header is None or headers[header[0]] == header[1]


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_refuses_is_logged_without_its_address_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, hook: Any, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    hook.status = status
    configure(monkeypatch, "WEBHOOK", {"host": f"http://127.0.0.1:{hook.server_port}/T0K3N"})
    GateNotifier()(context())
    assert len(hook.seen) == 1  # neither followed nor tried again
    assert f"answered {status}" in caplog.text and "T0K3N" not in caplog.text


def test_a_webhook_that_is_away_is_logged_without_its_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kubetally")
    configure(monkeypatch, "WEBHOOK", {"host": "http://127.0.0.1:9/T0K3N", "password": "s3cret"})
    GateNotifier()(context())
    assert "The notice to kubetally_webhook was not sent" in caplog.text
    assert not [
        record
        for record in caplog.records
        if record.name.startswith("kubetally")
        and ("T0K3N" in record.getMessage() or record.exc_info)
    ]
    assert "s3cret" not in caplog.text


def test_mail_goes_to_everybody_named(monkeypatch: pytest.MonkeyPatch, mailbox: Any) -> None:
    configure(
        monkeypatch,
        "SMTP",
        {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": mailbox.server_address[1],
            "extra": {
                "to": "costs@example.com, oncall@example.com",
                "from_email": "kubetally@example.com",
                "disable_ssl": True,
                "disable_tls": True,
            },
        },
    )
    GateNotifier()(context())
    [raw] = mailbox.mails
    mail = message_from_bytes(raw, policy=policy.default)
    assert mail["To"] == "costs@example.com, oncall@example.com"
    assert mail["From"] == "kubetally@example.com"
    assert mail["Subject"].startswith(
        "Kubetally: costs_daily.costs_of_cluster.check_raw failed for demo"
    )
    body = mail.get_content()
    assert "cluster demo" in body and str(ERROR) in body
    assert [command for command in mailbox.commands if command.lower().startswith("rcpt")] == [
        "rcpt TO:<costs@example.com>",
        "rcpt TO:<oncall@example.com>",
    ]


def test_mail_is_never_sent_in_clear_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch, mailbox: Any, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = "127.0.0.1", mailbox.server_address[1]
    extra = {"to": "costs@example.com", "disable_ssl": True, "timeout": 2}
    configure(monkeypatch, "SMTP", {"host": host, "port": port, "extra": extra})
    GateNotifier()(context())
    assert mailbox.mails == [] and "kubetally_smtp was not sent" in caplog.text


def test_mail_without_recipients_says_what_to_add(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configure(monkeypatch, "SMTP", {"host": "127.0.0.1", "extra": {}})
    GateNotifier()(context())
    assert '{"to": "costs@example.com"}' in caplog.text


def test_one_channel_failing_does_not_silence_the_other(
    monkeypatch: pytest.MonkeyPatch, mailbox: Any
) -> None:
    configure(monkeypatch, "WEBHOOK", {"host": "http://127.0.0.1:9/"})
    extra = {"to": "costs@example.com", "disable_ssl": True, "disable_tls": True}
    configure(
        monkeypatch,
        "SMTP",
        {"host": "127.0.0.1", "port": mailbox.server_address[1], "extra": extra},
    )
    GateNotifier()(context())
    assert len(mailbox.mails) == 1


class TestMessage:
    def test_errors_are_cut(self) -> None:
        sent = build_message(context(exception=GateError("x" * 5000)))
        assert len(sent["error"]) == LONGEST_ERROR

    def test_foreign_errors_are_named_and_credentials_in_addresses_masked(self) -> None:
        error = ConnectionError("cannot reach postgresql://me:pw@db:5432/wh")
        sent = build_message(context(exception=error))
        assert sent["error"] == "ConnectionError: cannot reach postgresql://***@db:5432/wh"

    def test_secrets_airflow_knows_are_masked(self) -> None:
        from airflow.sdk.log import mask_secret

        mask_secret("hunter2-hunter2")
        sent = build_message(context(exception=ValueError("denied for hunter2-hunter2")))
        assert "hunter2" not in json.dumps(sent)

    def test_a_dag_callback_without_task_or_exception_still_makes_sense(self) -> None:
        run = SimpleNamespace(run_id="r", data_interval_start=START, data_interval_end=END)
        sent = build_message(
            {"dag": SimpleNamespace(dag_id="reports"), "dag_run": run, "reason": "task_failure"}
        )
        assert (sent["dag"], sent["task"], sent["run"]) == ("reports", "", "r")
        assert sent["error"] == "task_failure" and sent["window"].startswith("[2026-11-03")

    def test_the_runs_parameter_names_the_cluster_where_no_argument_does(self) -> None:
        sent = build_message(
            context(task=SimpleNamespace(op_kwargs={}), params={"cluster": "prod"})
        )
        assert sent["cluster"] == "prod"

    def test_a_sparse_context_is_enough(self) -> None:
        assert build_message({})["error"] == "no reason was given"


def test_importing_the_notifier_loads_nothing_heavy() -> None:
    code = (
        "import sys; heavy = {'pandas', 'polars', 'great_expectations', 'sqlalchemy', 'requests', 'kubernetes'};"
        "import airflow.sdk; airflow.sdk.BaseNotifier; before = set(sys.modules);"
        "import kubetally.quality.notify; added = set(sys.modules) - before;"
        "print(sorted(heavy & {name.split('.')[0] for name in added}))"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert found.stdout.strip().splitlines()[-1] == "[]"
