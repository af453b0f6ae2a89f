"""A tiny HTTP server that speaks /api/v1/query over series given in Python."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

Labels = Mapping[str, str]
Samples = Sequence[tuple[float, str]]
Series = tuple[str, Labels, Samples]
_QUERY = re.compile(r"(\w+)(?:\{(.*)\})?\[(\d+)([ms])\]")
_MATCHER = re.compile(r'(\w+)(!?=)"([^"]*)"')


@dataclass
class Reply:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0  # bytes left out at the end, although Content-Length promises them


@dataclass
class Store:
    """Answers from `series`; `spoil(query)` may answer instead."""

    series: list[Series] = field(default_factory=list)
    spoil: Callable[[str], Reply | None] = lambda query: None
    warnings: list[str] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    left_open: bool = False  # as Prometheus 3 has it

    def answer(self, query: str, at: float) -> Reply:
        spoiled = self.spoil(query)
        if spoiled is not None:
            return spoiled
        found = _QUERY.fullmatch(query)
        if found is None:
            error = {"status": "error", "errorType": "bad_data", "error": f"cannot parse {query}"}
            return Reply(400, error)
        name, matchers, number, unit = found.groups()
        start = at - int(number) * {"m": 60, "s": 1}[unit]
        result = []
        for series_name, labels, samples in self.series:
            wanted = [
                (labels.get(label, "") == value) == (operator == "=")
                for label, operator, value in _MATCHER.findall(matchers or "")
            ]
            values = [
                [when, value]
                for when, value in samples
                if start <= when <= at and not (self.left_open and when == start)
            ]
            if series_name == name and all(wanted) and values:
                result.append({"metric": {"__name__": name, **labels}, "values": values})
        body: dict[str, Any] = {
            "status": "success",
            "data": {"resultType": "matrix", "result": result},
        }
        if self.warnings:
            body["warnings"] = self.warnings
        return Reply(200, body)


@contextmanager
def serving(store: Store) -> Iterator[str]:
    """The address of a server of `store`, for as long as the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            params = {name: values[0] for name, values in parse_qs(parts.query).items()}
            store.asked.append(params)
            store.paths.append(parts.path)
            store.headers.append(dict(self.headers.items()))
            reply = store.answer(params.get("query", ""), float(params.get("time", 0)))
            body = reply.body
            if not isinstance(body, bytes):
                body = json.dumps(body, separators=(",", ":")).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) - reply.cut])
            self.wfile.flush()
            self.close_connection = bool(reply.cut)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def connect_to(url: str, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """Defines the connection `prometheus_test`."""
    text = json.dumps({"conn_type": "http", "host": url, **fields})
    monkeypatch.setenv("AIRFLOW_CONN_PROMETHEUS_TEST", text)
