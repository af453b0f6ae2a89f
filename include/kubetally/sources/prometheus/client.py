"""The Prometheus HTTP API: raw samples of a selector, whoever serves it (Thanos, VictoriaMetrics).

Raw samples come from an instant query with a range selector, `metric[70m]` at `time=T`. A range
query (`/api/v1/query_range`) re-stamps samples on its steps and repeats the last one for up to
five minutes: both would be billed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import polars as pl

from kubetally.connections import Connection
from kubetally.errors import BadDataError, ConfigError, SourceError
from kubetally.http import HttpClient

# Time-outs in a row, each after its retries, after which the server counts as down.
FAILURES_UNTIL_DOWN = 2
SMALLEST_RANGE_SECONDS = 60
# A longer range that fails for good (time-outs, 503) may just be too much for the server.
PATIENT_RANGE_SECONDS = 2 * 3600
_MANY = re.compile(r"too many|more than|exceed|maximum|limit", re.IGNORECASE)
_EXPLAINED = {
    401: "the credentials were refused: set the connection's login and password, or a bearer token",
    403: "access is forbidden: the account may not query (OpenShift: cluster-monitoring-view)",
    404: "there is no Prometheus API below this address: check the path in the connection's host",
    405: "the API does not take GET: point the connection at the query front end",
    413: "the answer is too large for a proxy in between",
}


class RawSeries(msgspec.Struct, gc=False):
    """One series as it came; `values` stay bytes until polars splits them, all at once."""

    metric: dict[str, str] = {}
    values: msgspec.Raw = msgspec.Raw(b"[]")


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""
    error_type: str = ""
    warnings: list[str] | None = None


_ANSWER = msgspec.json.Decoder(_Answer)
_SERIES = msgspec.json.Decoder(list[RawSeries])


@dataclass(frozen=True)
class Samples:
    """Series as they came, and their samples: `series` (index into `labels`), `at` (ms), `text`."""

    labels: list[dict[str, str]]
    samples: pl.DataFrame
    warnings: tuple[str, ...] = ()


EMPTY = pl.DataFrame(schema={"series": pl.UInt32, "at": pl.Int64, "text": pl.String})


class Server(Protocol):
    """Whoever can be asked for samples: a Prometheus, or answers stored before."""

    def samples(self, selector: str, start_ms: int, end_ms: int) -> Samples: ...

    def count_now(self, selector: str) -> int | None: ...


@dataclass
class Prometheus:
    """Asks one server. Raises SourceError when it does not answer, BadDataError when it refuses."""

    http: HttpClient
    failures: int = field(default=0, init=False)

    def samples(self, selector: str, start_ms: int, end_ms: int) -> Samples:
        """Every sample of `selector` with `start_ms < at < end_ms`, in no particular order.

        Both ends are open whatever the server thinks of them (Prometheus 2 includes both, 3 leaves
        out the start). A range that is too much for the server is asked for in halves.
        """
        parts = self._in_parts(selector, start_ms, end_ms)
        labels: list[dict[str, str]] = []
        frames: list[pl.DataFrame] = []
        warnings: list[str] = []
        for part in parts:
            offset = pl.lit(len(labels), dtype=pl.UInt32)
            frames.append(part.samples.with_columns(pl.col("series") + offset))
            labels.extend(part.labels)
            warnings.extend(w for w in part.warnings if w not in warnings)
        found = pl.concat(frames).filter(pl.col("at") > start_ms, pl.col("at") < end_ms)
        return Samples(labels, found, tuple(warnings))

    def count_now(self, selector: str) -> int | None:
        """How many series `selector` has at present; None when the server will not say."""
        try:
            answer = self._ask({"query": f"count({selector})"})
            if answer.data is None:
                return None
            found = msgspec.json.decode(answer.data.result)
            return int(float(found[0]["value"][1])) if found else 0
        except (
            BadDataError,
            SourceError,
            LookupError,
            TypeError,
            ValueError,
            msgspec.MsgspecError,
        ):
            return None

    def _in_parts(self, selector: str, start_ms: int, end_ms: int) -> list[Samples]:
        start, end = start_ms // 1000, -(-end_ms // 1000)
        try:
            return [self._range(selector, end, end - start)]
        except BadDataError as error:
            if end - start < 2 * SMALLEST_RANGE_SECONDS or not _MANY.search(str(error)):
                raise
        except SourceError:
            if end - start < PATIENT_RANGE_SECONDS or self.failures >= FAILURES_UNTIL_DOWN:
                raise
        middle = (start + (end - start) // 2) * 1000
        # The middle itself belongs to both halves; a sample that comes twice counts once.
        return [
            *self._in_parts(selector, start_ms, middle),
            *self._in_parts(selector, middle, end_ms),
        ]

    def _range(self, selector: str, at: int, seconds: int) -> Samples:
        span = f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"
        answer = self._ask({"query": f"{selector}[{span}]", "time": str(at)})
        data = answer.data
        if data is None or data.result_type != "matrix":
            found = "nothing" if data is None else repr(data.result_type)
            raise BadDataError(f"{selector}: expected a matrix of samples, found {found}.")
        return Samples(*decode_matrix(data.result, selector), tuple(answer.warnings or ()))

    def _ask(self, params: dict[str, str]) -> _Answer:
        if self.failures >= FAILURES_UNTIL_DOWN:
            raise SourceError(f"{self.http.host} stopped answering; not asked again.")
        try:
            got = self.http.get("api/v1/query", params)
        except SourceError:
            self.failures += 1
            raise
        self.failures = 0
        try:
            answer = _ANSWER.decode(got.body)
        except msgspec.MsgspecError as error:
            if got.status != 200:
                raise BadDataError(_refusal(self.http.host, params["query"], got.status)) from error
            raise BadDataError(
                f"{self.http.host} did not answer {params['query']} in Prometheus' format: {error}.",
                remedy="Check that the connection points at a Prometheus API.",
            ) from error
        if got.status != 200 or answer.status != "success":
            said = f"{answer.error_type}: {answer.error}".strip(": ")
            raise BadDataError(_refusal(self.http.host, params["query"], got.status, said))
        return answer


def decode_matrix(
    result: bytes | msgspec.Raw, selector: str = ""
) -> tuple[list[dict[str, str]], pl.DataFrame]:
    """The bare `result` of a matrix answer: label sets, and samples as `series`, `at` (ms), `text`.

    Raises BadDataError when a sample is not `[time, "value"]`.
    """
    try:
        series = _SERIES.decode(result)
        raws = [bytes(one.values) for one in series]
        if any(b" " in raw or b"\n" in raw for raw in raws):
            raws = [msgspec.json.format(raw, indent=-1) for raw in raws]
    except msgspec.MsgspecError as error:
        raise BadDataError(f"{selector}: not a matrix of series: {error}.") from error
    labels = [one.metric for one in series]
    if not raws:
        return labels, EMPTY
    # [[1730592000,"0.5"],[1730592060,"0.5"]] split at quotes is time, value, time, value, …
    tokens = (
        pl.DataFrame({"series": pl.Series(range(len(raws)), dtype=pl.UInt32), "raw": raws})
        .with_columns(pl.col("raw").cast(pl.String))
        .filter(pl.col("raw") != "[]")
        .with_columns(pl.col("raw").str.strip_suffix('"]]').str.split('"'))
        .with_columns((pl.col("raw").list.len() % 2 == 1).alias("odd"))
    )
    texts = tokens["raw"].explode(empty_as_null=False)
    if tokens["odd"].any():
        named = labels[tokens.filter("odd")["series"][0]]
        raise BadDataError(f'{selector}: a sample of {named} is not [time, "value"].')
    samples = pl.DataFrame(
        {
            "series": tokens.select(
                pl.col("series")
                .repeat_by(pl.col("raw").list.len() // 2)
                .explode(empty_as_null=False)
            ).to_series(),
            "at": texts.gather_every(2).str.strip_chars("[],").cast(pl.Float64, strict=False),
            "text": texts.gather_every(2, 1),
        }
    ).with_columns((pl.col("at") * 1000).round().cast(pl.Int64))
    odd = samples.filter(pl.col("at").is_null())
    if not odd.is_empty():
        raise BadDataError(
            f'{selector}: a sample of {labels[odd["series"][0]]} is not [time, "value"].'
        )
    return labels, samples


def connect(connection: Connection) -> Prometheus:
    """A client for an Airflow HTTP connection.

    A bearer token comes from extra `bearer_token`, or from the password when there is no login;
    login and password together are basic authentication. Extra `verify` is the path of a CA file,
    extra `headers` (an object) are sent along, for example X-Scope-OrgID.
    """
    extra = connection.extra
    headers = _headers(connection, extra.get("headers"))
    token = str(extra.get("bearer_token") or ("" if connection.login else connection.password))
    if token:
        headers["Authorization"] = f"Bearer {token}"
    basic = (connection.login, connection.password) if connection.login and not token else None
    return Prometheus(
        HttpClient(
            connection.base_url,
            headers=headers,
            auth=basic,
            verify=_verify(connection, extra.get("verify")),
        )
    )


def _verify(connection: Connection, given: Any) -> bool | str:
    if given in (None, "", True) or str(given).lower() == "true":
        return True
    if given is False or str(given).lower() in {"false", "0", "no"}:
        raise ConfigError(
            f"Connection {connection.conn_id!r} switches certificate checks off.",
            remedy="Set extra `verify` to the path of the CA file that signed the certificate.",
        )
    return str(given)


def _headers(connection: Connection, given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ConfigError(
            f"Connection {connection.conn_id!r}: extra `headers` must be an object of strings.",
            remedy='For example {"headers": {"X-Scope-OrgID": "team-a"}}.',
        )
    return {str(name): str(value) for name, value in given.items()}


def _refusal(host: str, query: str, status: int, said: str = "") -> str:
    why = said or _EXPLAINED.get(status, "")
    if said and status in _EXPLAINED:
        why = f"{said}; {_EXPLAINED[status]}"
    return f"{host} refused {query} with {status}{f' ({why})' if why else ''}."
