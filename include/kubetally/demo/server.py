"""The demo server: Kubernetes, kubelet, Prometheus and cloud price APIs of one scenario, over HTTP.

`DemoServer` runs it in a thread (tests), `python -m kubetally.demo serve` in a process. Everything
listens on one port: the APIs' paths do not collide, and each may also be reached below a prefix of
its own (/prometheus, /kubernetes, /azure, /gcp, /aws). Below /recorded a single recorded price page is
served as it is.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from kubetally.demo import kube_api, price_lists, promql, recorded, recorded_cluster
from kubetally.demo.faults import Faults
from kubetally.demo.scenario import Scenario

Clock = Callable[[], datetime]
PREFIXES = ("/prometheus", "/kubernetes", "/azure", "/gcp", "/aws")
PROMETHEUS = re.compile(
    r"/api/v1/(query|query_range|labels|series|status/buildinfo|label/[^/]+/values)"
)
PRICES = re.compile(r"/v1/services/([0-9A-F-]+)/skus")
OFFERS = re.compile(r"/offers/v1\.0/aws/(\w+)/[\w.]+/([\w-]+)/index\.json")


def wall_clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Reply:
    """An HTTP answer; `body` is bytes as they are sent."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, status: int, body: dict[str, Any] | bytes, **headers: str) -> Reply:
        if not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":")).encode()
        return cls(status, body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    @classmethod
    def text(cls, status: int, body: str) -> Reply:
        return cls(status, body.encode(), "text/plain; charset=utf-8")


class DemoServer:
    """Serves `scenario` as of `clock()` on `host:port` (0 = any free port).

    A context manager: entering starts it in a thread. With `token`, the Kubernetes API wants it as
    bearer token. With `cluster`, the Kubernetes API is that folder's recording instead of the
    scenario's. `recordings` are the folders in which pages asked for below /recorded are looked for.
    `requests` counts what was asked, by path, for tests of retries.
    """

    def __init__(
        self,
        scenario: Scenario | None = None,
        *,
        clock: Clock = wall_clock,
        faults: Faults | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = "",
        recordings: Iterable[Path] = (price_lists.PAGES,),
        cluster: Path | None = None,
    ) -> None:
        self.cluster = cluster
        self.recordings = tuple(recordings)
        self.scenario = scenario or Scenario()
        self.clock = clock
        self.faults = faults or Faults()
        self.token = token
        self.requests: dict[str, int] = {}
        self._seen = 0
        self._expired = 0
        self._lock = threading.Lock()

        class Handler(_Handler):
            demo = self

        self._http = _Listener((host, port), Handler)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> DemoServer:
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def serve_forever(self) -> None:
        """Serves in this thread until interrupted."""
        try:
            self._http.serve_forever()
        finally:
            self._http.server_close()

    # answers

    def answer(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[Reply, str]:
        """The reply to a request and how to spoil it ("", "truncate")."""
        parts = urlsplit(target)
        path = unquote(parts.path).rstrip("/") or "/"
        for prefix in PREFIXES:
            if path.startswith(prefix + "/"):
                path = path.removeprefix(prefix)
        parameters = parse_qs(parts.query, keep_blank_values=True)
        if method == "POST" and "x-amz-target" in headers and "authorization" in headers:
            parameters["aws-query"] = [body.decode("utf-8", "replace")]
            body = b""
        if path == "/demo/faults":
            return self._set_faults(method, body), ""
        if path in ("/-/ready", "/-/healthy"):
            return Reply.text(200, "Prometheus Server is Ready.\n"), ""
        fault = self._next_fault(path)
        if fault == "throttle":
            seconds = self.faults.retry_after_seconds
            status = kube_api.status(
                429,
                "TooManyRequests",
                "Too many requests, please try again later.",
                details={"retryAfterSeconds": seconds},
            )
            return Reply.of(429, status, Retry_After=str(seconds)), ""
        if fault == "error":
            status = kube_api.status(500, "InternalError", "etcdserver: request timed out")
            return Reply.of(500, status), ""
        if fault == "timeout":
            time.sleep(self.faults.timeout_seconds)
        if method == "POST":
            parameters |= parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        return self._route(method, path, parameters, headers), fault

    def _route(
        self,
        method: str,
        path: str,
        parameters: dict[str, list[str]],
        headers: dict[str, str],
    ) -> Reply:
        first = {name: values[0] for name, values in parameters.items()}
        if PROMETHEUS.fullmatch(path):
            return self._prometheus(path, parameters, first)
        host = headers.get("host") or self.url.removeprefix("http://")
        if path.startswith(recorded.PREFIX):
            places = self.recordings
            return Reply(*recorded.answer(path, first, places, f"http://{host}"))
        if "aws-query" in first:
            return Reply.of(*price_lists.aws_products(first["aws-query"]))
        if method != "GET":
            return Reply.of(
                405, kube_api.status(405, "MethodNotAllowed", f"{method} is not allowed")
            )
        if path == "/api/retail/prices":
            return Reply.of(*price_lists.azure_page(f"http://{host}", first))
        service = PRICES.fullmatch(path)
        if service:
            return Reply.of(
                *price_lists.gcp_page(service[1], first, headers.get("x-goog-api-key", ""))
            )
        offer = OFFERS.fullmatch(path)
        if offer:
            return Reply.of(*price_lists.aws_offer(offer[1], offer[2]))
        if path == "/version" or path.startswith(("/api/v1/", "/apis/")):
            return self._kubernetes(path, first, headers)
        return Reply.text(404, "404 page not found\n")

    def _prometheus(
        self, path: str, parameters: dict[str, list[str]], first: dict[str, str]
    ) -> Reply:
        now = self.clock().timestamp()
        visible = promql.Visibility(
            now=int(now),
            late_after=_seconds(self.faults.late_after),
            late_until=_seconds(self.faults.late_until),
            gaps=tuple(
                (int(promql.parse_time(a, "gap")), int(promql.parse_time(b, "gap")))
                for a, b in self.faults.gaps
            ),
        )
        try:
            match path.removeprefix("/api/v1/"):
                case "query":
                    moment = promql.parse_time(first.get("time") or str(now), "time")
                    body = promql.instant(self.scenario, first.get("query", ""), moment, visible)
                case "query_range":
                    start = promql.parse_time(first.get("start", ""), "start")
                    end = promql.parse_time(first.get("end", ""), "end")
                    step = promql.parse_duration(first.get("step", ""))
                    query = first.get("query", "")
                    body = promql.over_range(self.scenario, query, start, end, step, visible)
                case "labels":
                    body = promql.label_names(self.scenario, int(now))
                case "series":
                    start = promql.parse_time(first.get("start") or str(now - 3600), "start")
                    end = min(promql.parse_time(first.get("end") or str(now), "end"), now)
                    queries = parameters.get("match[]", [])
                    body = promql.series_list(self.scenario, queries, int(start), int(end))
                case "status/buildinfo":
                    body = BUILD_INFO
                case other:
                    body = promql.label_values(self.scenario, other.split("/")[1], int(now))
        except promql.QueryError as error:
            return Reply(error.status, error.body())
        return Reply(200, body)

    def _kubernetes(self, path: str, parameters: dict[str, str], headers: dict[str, str]) -> Reply:
        if self.token and headers.get("authorization", "") != f"Bearer {self.token}":
            return Reply.of(401, kube_api.status(401, "Unauthorized", "Unauthorized"))
        if self.cluster is not None:
            code, found, kind = recorded_cluster.answer(self.cluster, path, parameters)
            if isinstance(found, bytes):
                return Reply(code, found, kind)
            return Reply.of(code, found)
        now = int(self.clock().timestamp())
        if parameters.get("continue"):
            with self._lock:
                expired = self._expired < self.faults.expire_continue
                self._expired += expired
            if expired:
                return Reply.of(410, kube_api.expired(parameters["continue"]))
        status, body, content_type = kube_api.answer(
            self.scenario, path, parameters, now, self.faults
        )
        if isinstance(body, str):
            return Reply(status, body.encode(), content_type)
        return Reply.of(status, body)

    def _set_faults(self, method: str, body: bytes) -> Reply:
        if method == "POST":
            try:
                faults = msgspec.json.decode(body or b"{}", type=Faults)
                for text in (
                    faults.late_after,
                    faults.late_until,
                    *(t for g in faults.gaps for t in g),
                ):
                    _seconds(text)
            except (msgspec.DecodeError, promql.QueryError) as error:
                return Reply.of(400, {"error": str(error)})
            with self._lock:
                self.faults, self._seen, self._expired = faults, 0, 0
        return Reply(200, msgspec.json.encode(self.faults))

    def _next_fault(self, path: str) -> str:
        with self._lock:
            self.requests[path] = self.requests.get(path, 0) + 1
            faults = self.faults
            if faults.paths not in path:
                return ""
            self._seen += 1
            for name, every in (
                ("throttle", faults.throttle_every),
                ("error", faults.error_every),
                ("timeout", faults.timeout_every),
                ("truncate", faults.truncate_every),
            ):
                if every and self._seen % every == 0:
                    return name
        return ""


BUILD_INFO = json.dumps(
    {
        "status": "success",
        "data": {
            "version": "2.42.0",
            "revision": "225c61122d88b01d1f0eaaee0e05b6f3e0567ac0",
            "branch": "HEAD",
            "buildUser": "demo",
            "buildDate": "20230201-00:00:00",
            "goVersion": "go1.19.5",
        },
    },
    separators=(",", ":"),
).encode()


def _seconds(text: str) -> int | None:
    return int(promql.parse_time(text, "time")) if text else None


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "kubetally-demo"
    sys_version = ""
    wbufsize = 1 << 16  # one segment for head and body
    disable_nagle_algorithm = True
    timeout = 120
    demo: ClassVar[DemoServer]

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the demo's requests are counted, not logged."""

    def _serve(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply, spoil = self.demo.answer(method, self.path, body, headers)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if spoil == "truncate":
            self.wfile.write(reply.body[: len(reply.body) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_WR)
        else:
            self.wfile.write(reply.body)
