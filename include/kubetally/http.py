"""The one place that opens HTTP: timeouts, size cap, retries with Retry-After, no redirects.

Built on `requests`. GETs, and POSTs for queries and notices; the base URL comes from a Connection, never from data.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import requests

from kubetally.errors import BadDataError, SourceError

RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
LONGEST_PAUSE_SECONDS = 60.0
T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer: status, bytes and lower-cased headers."""

    status: int
    body: bytes
    headers: Mapping[str, str]


@dataclass
class HttpClient:
    """GETs below one base URL.

    `headers` may hold credentials: they are sent to `base_url`'s host only and never logged.
    Raises SourceError (after `attempts` tries) for refusals, time-outs, truncated or oversized
    bodies and retryable statuses; other statuses are returned for the caller to explain.
    """

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: tuple[str, str] | None = field(default=None, repr=False)
    verify: bool | str = True
    timeout_seconds: tuple[float, float] = (5.0, 120.0)
    attempts: int = 4
    first_pause_seconds: float = 0.5
    max_bytes: int = 2 * 1024**3
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadDataError(
                f"{self.base_url!r} is not an http(s) address.",
                remedy="Set the connection's host to scheme://host[:port].",
            )
        self._session = requests.Session()
        self._session.trust_env = False

    @property
    def host(self) -> str:
        """Scheme and host for messages; carries no credentials and no query."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Answer:
        """The answer to GET `base_url/path`. `path` may be an absolute URL of the same host."""
        url = self._url(path)
        return self._tried(url, lambda: self._once(url, params))

    def query(self, path: str, body: bytes, headers: Callable[[], Mapping[str, str]]) -> Answer:
        """The answer to a POST that only asks, so that it may be tried again.

        `headers` is asked anew for every try: a signature carries the time.
        """
        url = self._url(path)
        return self._tried(url, lambda: self._once(url, None, body, headers()))

    def stream(self, path: str, consume: Callable[[Iterator[bytes]], T]) -> T:
        """What `consume` makes of the body of GET `base_url/path`, read in parts, never as a whole.

        A body that breaks off is read again from its beginning, so `consume` starts afresh each
        time. Raises BadDataError for a status other than 200, SourceError like `get`.
        """
        url = self._url(path)
        found: list[T] = []

        def once() -> Answer:
            with self._session.get(
                url,
                headers={"Accept-Encoding": "gzip", **self.headers},
                auth=self.auth,
                verify=self.verify,
                timeout=self.timeout_seconds,
                allow_redirects=False,
                stream=True,
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                if response.status_code == 200:
                    found[:] = [consume(_checked_parts(response))]
                return Answer(response.status_code, b"", headers)

        answer = self._tried(url, once)
        if answer.status != 200:
            raise BadDataError(f"{self.host}{urlsplit(url).path} answered {answer.status}.")
        return found[0]

    def _url(self, path: str) -> str:
        url = urljoin(self.base_url.rstrip("/") + "/", path if "://" in path else path.lstrip("/"))
        if urlsplit(url).hostname != urlsplit(self.base_url).hostname:
            raise BadDataError(
                f"{self.host} sent us to another host, {urlsplit(url).hostname}; not followed.",
                remedy="Point the connection at the host that serves the pages.",
            )
        return url

    def _tried(self, url: str, once: Callable[[], Answer]) -> Answer:
        """What `once` answers, after as many tries as it takes and is allowed."""
        shown = f"{self.host}{urlsplit(url).path}"
        problem = ""
        for attempt in range(1, self.attempts + 1):
            pause = min(self.first_pause_seconds * 2 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
            try:
                answer = once()
            except (requests.RequestException, OSError) as error:
                problem = f"{type(error).__name__}"
            else:
                if answer.status not in RETRIED_STATUS:
                    if 300 <= answer.status < 400:
                        raise BadDataError(
                            f"{shown} answered {answer.status}, a redirect; not followed.",
                            remedy="Point the connection at the final address.",
                        )
                    return answer
                problem = f"status {answer.status}"
                pause = max(pause, retry_after_seconds(answer.headers.get("retry-after")))
            if attempt < self.attempts:
                self.sleep(min(pause, LONGEST_PAUSE_SECONDS) * (1 + random.random() / 10))
        raise SourceError(f"{shown} failed {self.attempts} times, last with {problem}.")

    def post_json(self, path: str, payload: Mapping[str, Any]) -> Answer:
        """The answer to one POST of `payload` as JSON to `base_url/path`; not tried again.

        Its path may be a secret (webhooks), so messages name the host only. Raises SourceError when
        no answer comes.
        """
        url = urljoin(self.base_url.rstrip("/") + "/", path)
        if urlsplit(url).netloc != urlsplit(self.base_url).netloc:
            raise BadDataError(f"The address to post to is not on {self.host}.")
        try:
            with self._session.post(
                url,
                json=payload,
                headers=dict(self.headers),
                auth=self.auth,
                verify=self.verify,
                timeout=self.timeout_seconds,
                allow_redirects=False,
                stream=True,
            ) as response:
                body = response.raw.read(self.max_bytes)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status_code, body, headers)
        except (requests.RequestException, OSError) as error:
            # Not chained: the text of the cause quotes the whole address.
            raise SourceError(f"{self.host} did not take it: {type(error).__name__}.") from None

    def _once(
        self,
        url: str,
        params: Mapping[str, Any] | None,
        body: bytes | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> Answer:
        with self._session.request(
            "GET" if body is None else "POST",
            url,
            params=params,
            data=body,
            headers={"Accept-Encoding": "identity", **self.headers, **(extra or {})},
            auth=self.auth,
            verify=self.verify,
            timeout=self.timeout_seconds,
            allow_redirects=False,
            stream=True,
        ) as response:
            parts: list[bytes] = []
            size = 0
            for part in response.iter_content(1 << 20):
                size += len(part)
                if size > self.max_bytes:
                    raise BadDataError(f"{self.host} sent more than {self.max_bytes} bytes.")
                parts.append(part)
            expected = response.headers.get("Content-Length")
            if expected and not response.headers.get("Content-Encoding") and size != int(expected):
                raise requests.exceptions.ChunkedEncodingError("truncated body")
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, b"".join(parts), headers)


def _checked_parts(response: requests.Response) -> Iterator[bytes]:
    """The body in parts; one shorter than it says raises (also where it came compressed)."""
    yield from response.iter_content(1 << 20)
    expected = response.headers.get("Content-Length")
    if expected and response.raw.tell() != int(expected):
        raise requests.exceptions.ChunkedEncodingError("truncated body")


def retry_after_seconds(value: str | None) -> float:
    """The pause a Retry-After header asks for, in seconds or as a date; 0 where it does not."""
    if not value:
        return 0.0
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
