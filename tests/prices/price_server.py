"""A server of a test's own for the price APIs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from kubetally.http import HttpClient


class Server:
    """Answers GETs and POSTs (their body is the header `body`) with `answer(path, query, headers) -> (status, body, headers)` and counts them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.answer: Callable[..., tuple[int, bytes, dict[str, str]]] = lambda *_: (404, b"", {})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.serve({})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.serve({"body": body.decode()})

            def serve(self, more: dict[str, str]) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                headers |= more
                outer.asked.append((parts.path, query, headers))
                status, body, extra = outer.answer(parts.path, query, headers)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **extra}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def client(self, **options: object) -> HttpClient:
        return HttpClient(self.url, sleep=lambda _: None, **options)  # type: ignore[arg-type]

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
