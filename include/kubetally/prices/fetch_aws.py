"""Reads AWS prices: the bulk offer file of a region, or GetProducts where there are credentials.

The connection `kubetally_aws_prices` decides. Without a login its host serves the public offer files
(pricing.us-east-1.amazonaws.com), which are streamed: they have hundreds of megabytes and more. With
an access key as login and its secret as password, `GetProducts` of that host
(api.pricing.us-east-1.amazonaws.com) is asked for the machine types alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

from kubetally.connections import get_connection
from kubetally.errors import BadDataError, KubetallyError
from kubetally.http import HttpClient
from kubetally.prices import aws
from kubetally.prices.fetch import MOST_PAGES, GivingUp, refusal, text_at
from kubetally.prices.key import LookupKey
from kubetally.prices.quote import Quote, Snapshot

AWS_CONNECTION = "kubetally_aws_prices"
OFFER_PATH = "/offers/v1.0/aws/{service}/current/{region}/index.json"
SIGNING_REGION = "us-east-1"
SIGNING_SERVICE = "pricing"


@dataclass
class AwsOfferFiles:
    """The public bulk offer files. A region's file is read once, for all types announced."""

    client: HttpClient
    _wanted: dict[str, set[str]] = field(default_factory=dict)  # by address
    _read: dict[str, tuple[aws.OfferFile, frozenset[str]]] = field(default_factory=dict)
    _failed: dict[str, KubetallyError] = field(default_factory=dict)

    def announce(self, keys: Iterable[LookupKey], since: datetime | None = None) -> None:
        """Says which keys will be asked for, so that one pass over a file finds them all."""
        for key in keys:
            if key.provider == "aws" and key.capacity_type != "spot":
                self._wanted.setdefault(_address(key), set()).add(key.instance_type)

    def quote(self, key: LookupKey, now: datetime) -> tuple[Quote, Snapshot | None]:
        if key.capacity_type == "spot":
            return aws.match((), key, now), None
        extract = self.offer_file(key).extract(aws.of_instance_types([key.instance_type]))
        snapshot = Snapshot("aws", f"{self.client.host}{_address(key)}", now, extract)
        return aws.match(self.offers(key), key, now), snapshot

    def offers(self, key: LookupKey) -> list[aws.Offer]:
        """Every product for the key's machine type, decoys included."""
        keep = aws.of_instance_types([key.instance_type])
        return [offer for offer in self.offer_file(key).offers if keep(offer.product)]

    def offer_file(self, key: LookupKey) -> aws.OfferFile:
        """The region's file, with at least the key's machine type. A failure is remembered."""
        address = _address(key)
        if address in self._failed:
            raise self._failed[address]
        present = self._read.get(address)
        if present and key.instance_type in present[1]:
            return present[0]
        wanted = frozenset({*self._wanted.get(address, ()), key.instance_type})
        wanted |= present[1] if present else frozenset()
        name = f"The offer file {self.client.host}{address}"
        try:
            file = self.client.stream(
                address,
                lambda parts: aws.read_offer_file(parts, aws.of_instance_types(wanted), name),
            )
        except KubetallyError as error:
            self._failed[address] = error
            raise
        self._read[address] = (file, wanted)
        return file


@dataclass
class AwsProducts:
    """The signed query API. One query per region and machine type, read once."""

    client: HttpClient
    access_key: str
    secret_key: str = field(repr=False)
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    most_pages: int = MOST_PAGES
    _read: dict[tuple[str, str], tuple[list[aws.Offer], Snapshot]] = field(default_factory=dict)
    _gate: GivingUp = field(default_factory=lambda: GivingUp("The AWS price API"))

    def announce(self, keys: Iterable[LookupKey], since: datetime | None = None) -> None:
        """Nothing to prepare: every machine type is a query of its own."""

    def quote(self, key: LookupKey, now: datetime) -> tuple[Quote, Snapshot | None]:
        if key.capacity_type == "spot":
            return aws.match((), key, now), None
        offers, snapshot = self._query(key, now)
        return aws.match(offers, key, now), snapshot

    def offers(self, key: LookupKey) -> list[aws.Offer]:
        """Every product for the key's machine type, decoys included."""
        return self._query(key, self.clock())[0]

    def _query(self, key: LookupKey, now: datetime) -> tuple[list[aws.Offer], Snapshot]:
        asked = (key.region, key.instance_type)
        if asked not in self._read:
            with self._gate:
                self._read[asked] = self._pages(key, now)
        return self._read[asked]

    def _pages(self, key: LookupKey, now: datetime) -> tuple[list[aws.Offer], Snapshot]:
        service = aws.service_of(key.instance_type)
        wanted = {"regionCode": key.region}
        if service == aws.SERVICE:
            wanted["instanceType"] = key.instance_type
        filters = [
            {"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()
        ]
        question = {"ServiceCode": service, "FormatVersion": "aws_v1", "Filters": filters}
        offers: list[aws.Offer] = []
        bodies: list[bytes] = []
        tokens: set[str] = set()
        token = ""
        while True:
            body = json.dumps(question | ({"NextToken": token} if token else {})).encode()
            answer = self.client.query("/", body, lambda body=body: self._headers(body))  # type: ignore[misc]
            if answer.status != 200:
                raise BadDataError(
                    refusal(self.client, answer, lambda body: text_at(body, "message"))
                )
            found, token = aws.decode_products_page(answer.body)
            offers.extend(found)
            bodies.append(answer.body)
            if not token:
                break
            if token in tokens or len(bodies) >= self.most_pages:
                raise BadDataError(
                    f"The price list of {self.client.host} does not end after {len(bodies)} pages.",
                    remedy="Nothing was stored; what was known stays in place.",
                )
            tokens.add(token)
        address = f"{self.client.host}/?GetProducts={service}/{key.region}/{key.instance_type}"
        return offers, Snapshot("aws", address, now, b"\n".join(bodies))

    def _headers(self, body: bytes) -> Mapping[str, str]:
        parts = urlsplit(self.client.base_url)
        return signed_headers(
            host=parts.netloc.rpartition("@")[2],
            body=body,
            access_key=self.access_key,
            secret_key=self.secret_key,
            at=self.clock(),
            extra={
                "content-type": "application/x-amz-json-1.1",
                "x-amz-target": "AWSPriceListService.GetProducts",
            },
        )


def _address(key: LookupKey) -> str:
    service = aws.service_of(key.instance_type)
    return OFFER_PATH.format(service=service, region=key.region)


def from_connection() -> AwsOfferFiles | AwsProducts:
    """The source that the connection `kubetally_aws_prices` describes."""
    found = get_connection(AWS_CONNECTION)
    client = HttpClient(found.base_url, first_pause_seconds=2.0)
    if found.login and found.password:
        return AwsProducts(client, found.login, found.password)
    return AwsOfferFiles(client)


def signed_headers(
    *,
    host: str,
    body: bytes,
    access_key: str,
    secret_key: str,
    at: datetime,
    extra: Mapping[str, str] | None = None,
    region: str = SIGNING_REGION,
    service: str = SIGNING_SERVICE,
    method: str = "POST",
) -> dict[str, str]:
    """The headers of a request to `/`, signed by AWS Signature Version 4.

    docs.aws.amazon.com/general/latest/gr/sigv4_signing.html; the published test suite is the oracle.
    """
    stamp = at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": host, "x-amz-date": stamp, **(extra or {})}
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    digest = hashlib.sha256(body).hexdigest()
    request = f"{method}\n/\n\n{lines}\n{names}\n{digest}"
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret_key}".encode()
    for step in scope.split("/"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names},"
        f" Signature={signature}"
    )
    return {**headers, "authorization": authorization}
