"""The one place that talks to the price APIs of Azure and Google (for AWS: `fetch_aws`).

Base addresses come from the connections `kubetally_azure_prices` and `kubetally_gcp_prices` (its
password is the API key, sent as a header, so that it is in no address, message or log line). Their
extra `currency` asks for prices in another currency than USD.
A lookup is either read whole, to the provider's end marker, or fails; there is no half of one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import SplitResult, quote, urlencode, urljoin, urlsplit

from kubetally.connections import Connection, get_connection
from kubetally.errors import BadDataError, ConfigError, KubetallyError, SourceError
from kubetally.http import Answer, HttpClient
from kubetally.prices import azure, gcp
from kubetally.prices.key import POD_RATES, LookupKey
from kubetally.prices.quote import Priced, Quote, Snapshot
from kubetally.windows import iso

AZURE_CONNECTION = "kubetally_azure_prices"
GCP_CONNECTION = "kubetally_gcp_prices"
AZURE_PATH = "/api/retail/prices"
GCP_PATH = "/v1/services/{service}/skus"
GCP_PAGE_SIZE = 5000
MOST_PAGES = 500
MOST_MONTHS_BACK = 24
WITH_HISTORY = ("gcp",)  # a list of today does not say what was, but can be asked for it
FAILURES_BEFORE_GIVING_UP = 3


class PriceSource(Protocol):
    """Answers lookups of one provider. Raises SourceError or BadDataError; never half an answer."""

    def announce(self, keys: Iterable[LookupKey], since: datetime | None = None) -> None:
        """Says which keys will be asked for, and from when on their prices are needed."""

    def quote(self, key: LookupKey, now: datetime) -> tuple[Quote, Snapshot | None]: ...


@dataclass
class AzurePrices:
    """The Azure Retail Prices API. One query per region and instance type, read once."""

    client: HttpClient
    most_pages: int = MOST_PAGES
    currency: str = "USD"
    _read: dict[str, tuple[list[azure.Item], Snapshot]] = field(default_factory=dict)
    _gate: GivingUp = field(default_factory=lambda: GivingUp("The Azure price API"))

    @classmethod
    def from_connection(cls) -> AzurePrices:
        """The source behind the connection; throttling asks for pauses of half a minute."""
        found = get_connection(AZURE_CONNECTION)
        client = HttpClient(found.base_url, attempts=5, first_pause_seconds=2.0)
        return cls(client, currency=currency_of(found))

    def announce(self, keys: Iterable[LookupKey], since: datetime | None = None) -> None:
        """Nothing to prepare: a row says itself from when on it holds."""

    def quote(self, key: LookupKey, now: datetime) -> tuple[Quote, Snapshot | None]:
        if key.instance_type.startswith(POD_RATES):
            return azure.match((), key, now), None
        items, snapshot = self.items(key, now)
        return azure.match(items, key, now), snapshot

    def items(self, key: LookupKey, now: datetime) -> tuple[list[azure.Item], Snapshot]:
        """Every row for the key's region and instance type, and the pages they came on."""
        items, snapshot = self._query(key.region, key.spelling or key.instance_type, now)
        if not items:
            # Newer API versions mind the case (opencost PR 2208): ask the region how it is written.
            listing, _ = self._query(key.region, "", now)
            spelling = azure.canonical_spelling(listing, key.instance_type)
            if spelling and spelling != key.spelling:
                items, snapshot = self._query(key.region, spelling, now)
        return items, snapshot

    def _query(
        self, region: str, instance_type: str, now: datetime
    ) -> tuple[list[azure.Item], Snapshot]:
        terms = [f"armRegionName eq '{_quoted(region)}'"]
        if instance_type:
            terms.append(f"armSkuName eq '{_quoted(instance_type)}'")
        terms += [f"serviceName eq '{azure.SERVICE}'", "priceType eq 'Consumption'"]
        # USD is the one currency Azure bills in; other currencies are for reference.
        currency = "" if self.currency == "USD" else f"currencyCode='{self.currency}'&"
        address = f"{AZURE_PATH}?{currency}$filter={quote(' and '.join(terms), safe='')}"
        if address not in self._read:
            with self._gate:
                self._read[address] = self._pages(address, now)
        return self._read[address]

    def _pages(self, address: str, now: datetime) -> tuple[list[azure.Item], Snapshot]:
        items: list[azure.Item] = []

        def follow(body: bytes) -> str:
            page = azure.decode_page(body)
            for item in page.Items:
                if item.currency_code.strip() != self.currency:
                    raise BadDataError(
                        f"{self.client.host} was asked for prices in {self.currency} and answered"
                        f" in {item.currency_code}.",
                        remedy="Correct the extra `currency` of the connection.",
                    )
            items.extend(page.Items)
            link = page.NextPageLink or ""
            return _same_host(self.client, link) if link else ""

        bodies = _read_pages(self.client, address, follow, self.most_pages, azure_error)
        return items, _snapshot("azure", self.client, address, now, bodies)


@dataclass
class GcpPrices:
    """The Google Cloud Billing catalogue of Compute Engine, read once and searched in memory."""

    client: HttpClient
    api_key: str = field(default="", repr=False)
    most_pages: int = MOST_PAGES
    currency: str = "USD"
    _since: datetime | None = None
    _read: dict[str, tuple[gcp.Catalog, Snapshot]] = field(default_factory=dict)
    _failed: KubetallyError | None = None

    @classmethod
    def from_connection(cls) -> GcpPrices:
        """The source behind the connection, with the API key as a header."""
        found = get_connection(GCP_CONNECTION)
        headers = {"X-Goog-Api-Key": found.password} if found.password else {}
        client = HttpClient(found.base_url, headers=headers, first_pause_seconds=2.0)
        return cls(client, api_key=found.password, currency=currency_of(found))

    def announce(self, keys: Iterable[LookupKey], since: datetime | None = None) -> None:
        """With `since`, prices that began later are looked up in the months since then, too."""
        self._since = since

    def quote(self, key: LookupKey, now: datetime) -> tuple[Quote, Snapshot]:
        """The price of `key`. The catalogue shows the current one; where that began after the time
        prices are needed from, the months between are read and the timeline is complete."""
        catalog, snapshot = self.catalog(now, key)
        found = gcp.match(catalog, key, now)
        needed = self._since
        if needed and isinstance(found, Priced) and not found.at(needed) and needed < now:
            catalog, snapshot = self._kept(f"{_service(key)} with history", self._with_history, now)
            found = gcp.match(catalog, key, now)
        return found, snapshot

    def catalog(self, now: datetime, key: LookupKey | None = None) -> tuple[gcp.Catalog, Snapshot]:
        """All SKUs of the service that bills `key`, and the pages they came on.

        A failure is remembered, not repeated per key.
        """
        service = _service(key)
        return self._kept(service, lambda now: self._current(service, now), now)

    def _kept(
        self, name: str, read: Callable[[datetime], tuple[gcp.Catalog, Snapshot]], now: datetime
    ) -> tuple[gcp.Catalog, Snapshot]:
        if self._failed is not None:
            raise self._failed
        if name not in self._read:
            try:
                self._read[name] = read(now)
            except (SourceError, BadDataError) as error:
                self._failed = error
                raise
        return self._read[name]

    def _current(self, service: str, now: datetime) -> tuple[gcp.Catalog, Snapshot]:
        skus, address, bodies = self._skus(service)
        return gcp.Catalog.of(skus), _snapshot("gcp", self.client, address, now, bodies)

    def _with_history(self, now: datetime) -> tuple[gcp.Catalog, Snapshot]:
        assert self._since is not None
        skus, address, bodies = self._skus(gcp.COMPUTE_SERVICE)
        for start, end in months_between(self._since, now):
            of_month, _, more = self._skus(
                gcp.COMPUTE_SERVICE, {"startTime": iso(start), "endTime": iso(end)}
            )
            skus = gcp.with_history(skus, of_month)
            bodies += more
        address += f"&{urlencode({'startTime': iso(self._since)})}"
        return gcp.Catalog.of(skus), _snapshot("gcp", self.client, address, now, bodies)

    def _skus(
        self, service: str, times: dict[str, str] | None = None
    ) -> tuple[list[gcp.Sku], str, list[bytes]]:
        skus: list[gcp.Sku] = []
        wanted = {"pageSize": str(GCP_PAGE_SIZE), **(times or {})}
        if self.currency != "USD":
            wanted["currencyCode"] = self.currency
        first = f"{GCP_PATH.format(service=service)}?{urlencode(wanted)}"

        def follow(body: bytes) -> str:
            page = gcp.decode_page(body)
            skus.extend(page.skus)
            token = page.next_page_token
            return f"{first}&{urlencode({'pageToken': token})}" if token else ""

        bodies = _read_pages(self.client, first, follow, self.most_pages, self._error)
        if not skus:
            raise BadDataError(
                f"{self.client.host} served a catalogue without a single SKU.",
                remedy="Nothing was stored; check the address in the connection.",
            )
        return skus, first, bodies

    def _error(self, body: bytes) -> str:
        message = text_at(body, "error", "message")
        return message.replace(self.api_key, "***") if self.api_key else message


def months_between(since: datetime, now: datetime) -> list[tuple[datetime, datetime]]:
    """[start, end) per month from that of `since` to that of `now`, the newest two years at most.

    The catalogue wants both ends inside one calendar month of Los Angeles, which begins at 07:00 or
    08:00 UTC, depending on the season.
    """
    found: list[tuple[datetime, datetime]] = []
    year, month = since.year, since.month
    while (year, month) <= (now.year, now.month):
        following = (year, month + 1) if month < 12 else (year + 1, 1)
        start = datetime(year, month, 1, 8, tzinfo=UTC)
        end = datetime(*following, 1, 7, tzinfo=UTC) - timedelta(seconds=1)
        found.append((start, end))
        year, month = following
    return found[-MOST_MONTHS_BACK:]


def currency_of(connection: Connection) -> str:
    """The currency a price connection asks for. Raises ConfigError when it is not a code."""
    code = str(connection.extra.get("currency") or "USD").strip().upper()
    if len(code) != 3 or not code.isalpha():
        raise ConfigError(
            f"The connection {connection.conn_id!r} asks for the currency {code!r}.",
            remedy="Write a code like EUR in its extra field `currency`, or leave it out.",
        )
    return code


def _service(key: LookupKey | None) -> str:
    is_of_pods = key is not None and key.instance_type.startswith(POD_RATES)
    return gcp.GKE_SERVICE if is_of_pods else gcp.COMPUTE_SERVICE


@dataclass
class GivingUp:
    """Stops asking a provider that failed several times in a row, for the rest of this run."""

    name: str
    failures: int = 0

    def __enter__(self) -> None:
        if self.failures >= FAILURES_BEFORE_GIVING_UP:
            raise SourceError(
                f"{self.name} failed {self.failures} times in a row; not asked again."
            )

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.failures = 0
        elif issubclass(kind, SourceError) and self.failures < FAILURES_BEFORE_GIVING_UP:
            self.failures += 1


def _read_pages(
    client: HttpClient,
    first: str,
    follow: Callable[[bytes], str],
    most_pages: int,
    explain: Callable[[bytes], str],
) -> list[bytes]:
    """The bodies from `first` on, as long as `follow` names a next address."""
    bodies: list[bytes] = []
    seen: set[str] = set()
    address = first
    while address:
        if address in seen or len(bodies) >= most_pages:
            why = "names a page twice" if address in seen else f"has more than {most_pages} pages"
            raise BadDataError(
                f"The price list of {client.host} {why}: its pagination does not end.",
                remedy="Nothing was stored; what was known stays in place.",
            )
        seen.add(address)
        answer = client.get(address)
        if answer.status != 200:
            raise BadDataError(refusal(client, answer, explain))
        bodies.append(answer.body)
        address = follow(answer.body)
    return bodies


def _same_host(client: HttpClient, link: str) -> str:
    """`link` if it leads to where the client was told to go. Azure writes `host:443`."""
    target, base = urlsplit(urljoin(client.base_url, link)), urlsplit(client.base_url)
    if (target.scheme, target.hostname, _port(target)) != (base.scheme, base.hostname, _port(base)):
        raise BadDataError(
            f"The next page of {client.host} lies on another host, "
            f"{target.scheme}://{target.hostname}; not followed.",
            remedy="Point the connection at the host that serves the pages.",
        )
    return target.geturl()


def _port(parts: SplitResult) -> int | None:
    return parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def refusal(client: HttpClient, answer: Answer, explain: Callable[[bytes], str]) -> str:
    said = explain(answer.body)
    return f"{client.host} refused the price query with status {answer.status}" + (
        f": {said}" if said else "."
    )


def azure_error(body: bytes) -> str:
    return text_at(body, "Error", "Message")


def text_at(body: bytes, *path: str) -> str:
    """The text at `path` in an error body, at most 300 characters; "" if it is not there."""
    try:
        found: Any = json.loads(body)
        for name in path:
            found = found[name]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(found)[:300]


def _quoted(value: str) -> str:
    """`value` inside an OData string; a quote is doubled."""
    return value.replace("'", "''")


def _snapshot(
    provider: str, client: HttpClient, address: str, now: datetime, bodies: list[bytes]
) -> Snapshot:
    """All pages of one lookup, in order, a line feed between them."""
    return Snapshot(provider, f"{client.host}{address}", now, b"\n".join(bodies))
