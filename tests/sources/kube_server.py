"""A tiny API server for tests: a real HTTP server whose answers the test writes itself."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Reply:
    """One answer. `cut` announces more bytes than are sent; `hang_up` closes without an answer."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang_up: bool = False

    @property
    def bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]


Answer = Callable[[Request], Reply]


@dataclass
class KubeServer:
    """`answer` decides; `requests` remembers."""

    port: int
    scheme: str = "http"
    answer: Answer = lambda request: Reply({"kind": "List", "items": []})
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def kube_config(self, user: dict[str, Any] | None = None) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": user or {"token": "test-token"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[KubeServer]:
    """A running server; with a PEM file of certificate and key it speaks TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(parts.path, dict(parse_qsl(parts.query)), headers)
            server.requests.append(request)
            reply = server.answer(request)
            if reply.hang_up:
                self.close_connection = True
                self.connection.close()
                return
            body = reply.bytes
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) * (2 if reply.cut else 1)))
            self.end_headers()
            self.wfile.write(body)
            if reply.cut:
                self.close_connection = True

        def handle(self) -> None:
            with suppress(ssl.SSLError, OSError):  # the client refused us
                super().handle()

        def log_message(self, *_: object) -> None:
            pass

        def finish(self) -> None:
            with suppress(OSError, ValueError):  # the test closed the connection on purpose
                super().finish()

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        http.socket = context.wrap_socket(http.socket, server_side=True)
    server = KubeServer(http.server_port, "https" if certificate else "http")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
