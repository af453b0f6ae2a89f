"""AWS price list: which product of an offer is the price of a node.

The same products come in two shapes: the bulk offer file of a region (`products` and `terms` by SKU,
up to gigabytes) and pages of `GetProducts` (a list of JSON texts). Rules and traps:
docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html and the public bug reports
named at the lines they forced. Nothing here opens a connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from kubetally.errors import BadDataError
from kubetally.prices.json_stream import JsonReader
from kubetally.prices.key import POD_RATES, LookupKey
from kubetally.prices.quote import (
    Ambiguous,
    Component,
    ComponentKind,
    Priced,
    Quote,
    Unpriced,
    covered_by_all,
    next_hour,
    one_price,
)
from kubetally.windows import parse_time

SERVICE = "AmazonEC2"
POD_SERVICE = "AmazonEKS"
# Fargate bills a pod by what it asks for; 20 GiB of ephemeral storage are free and not billed here.
FARGATE: Mapping[ComponentKind, re.Pattern[str]] = {
    "cpu": re.compile(r"(^|-)Fargate-vCPU-Hours:perCPU$"),
    "memory": re.compile(r"(^|-)Fargate-GB-Hours$"),
}
HOURLY = ("Hrs", "Hours", "hours")
FAMILIES = ("Compute Instance", "Compute Instance (bare metal)")
SPOT_REASON = (
    "the AWS price list has no spot prices; give a sheet, or a discount on the on-demand price"
)
# What the price of a plain shared machine says. An attribute that older lists do not have may be
# missing; one that says something else makes it another product.
WANTED: tuple[tuple[str, str, str], ...] = (
    ("locationType", "AWS Region", "is for another kind of place"),
    ("tenancy", "Shared", "has another tenancy"),
    ("capacitystatus", "Used", "is a capacity reservation"),
    ("preInstalledSw", "NA", "has software installed"),
    ("licenseModel", "No License required", "has another licence"),
    ("marketoption", "OnDemand", "is for another market"),
)
OS_NAMES = {"linux": "Linux", "windows": "Windows"}


class Product(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    sku: str
    product_family: str = ""
    attributes: dict[str, str] = {}

    def says(self, name: str) -> str:
        return self.attributes.get(name, "").strip()


class Dimension(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    unit: str
    price_per_unit: dict[str, str]
    begin_range: str = "0"
    rate_code: str = ""


class Term(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    effective_date: str
    price_dimensions: dict[str, Dimension]


@dataclass(frozen=True)
class Offer:
    """A product and its on-demand terms; no terms: the list does not sell it on demand."""

    product: Product
    terms: tuple[Term, ...]

    @property
    def title(self) -> str:
        said = self.product.says
        words = (
            said("instanceType"),
            said("operatingSystem"),
            said("tenancy"),
            said("capacitystatus"),
            said("preInstalledSw"),
            said("licenseModel"),
        )
        return " · ".join(word for word in words if word) or self.product.says("usagetype")


@dataclass(frozen=True)
class OfferFile:
    """What was kept of a bulk offer file. `extract` is a small offer file of the same shape."""

    offers: tuple[Offer, ...]
    version: str
    publication_date: str
    products_seen: int
    size_bytes: int
    sha256: str
    raw: Mapping[str, Any]
    service: str = SERVICE

    def extract(self, keep: Callable[[Product], bool]) -> bytes:
        """The rows of the products that `keep` accepts, as they stood in the file."""
        skus = {offer.product.sku for offer in self.offers if keep(offer.product)}
        part = {
            "offerCode": self.service,
            "version": self.version,
            "publicationDate": self.publication_date,
            "sha256OfTheWholeFile": self.sha256,
            "products": {s: p for s, p in self.raw["products"].items() if s in skus},
            "terms": {"OnDemand": {s: t for s, t in self.raw["terms"].items() if s in skus}},
        }
        return msgspec.json.encode(part, order="sorted")


def read_offer_file(
    parts: Iterable[bytes], keep: Callable[[Product], bool], name: str = "The AWS offer file"
) -> OfferFile:
    """The products that `keep` accepts and their on-demand terms, in one pass with flat memory.

    Raises BadDataError when the file is truncated or not in the known form.
    """
    reader = JsonReader(parts, name)
    head: dict[str, str] = {}
    products: dict[str, Any] = {}
    kept: dict[str, Product] = {}
    terms: dict[str, Any] = {}
    seen = 0
    found: set[str] = set()
    for section in reader.members():
        if section == "products":
            found.add(section)
            for sku in reader.members():
                raw = reader.value()
                product = _convert(raw, Product, name)
                seen += 1
                if keep(product):
                    kept[sku], products[sku] = product, raw
        elif section == "terms":
            if "products" not in found:
                raise BadDataError(
                    f"{name} lists its terms before its products, which cannot be streamed.",
                    remedy="Nothing was stored. If the list changed its form, aws.py has to follow.",
                )
            found.add(section)
            for kind in reader.members():
                if kind != "OnDemand":
                    continue
                for sku in reader.members():
                    raw = reader.value()
                    if sku in kept:
                        terms[sku] = raw
        else:
            said = reader.value()
            head[section] = said if isinstance(said, str) else ""
    reader.finish()
    missing = sorted({"products", "terms"} - found)
    if missing or not seen:
        raise BadDataError(
            f"{name} has no {' and no '.join(missing or ['products'])}.",
            remedy="Nothing was stored. If the list changed its form, aws.py has to follow.",
        )
    return OfferFile(
        offers=tuple(
            Offer(product, _terms(terms.get(sku, {}), name)) for sku, product in kept.items()
        ),
        version=head.get("version", ""),
        publication_date=head.get("publicationDate", ""),
        products_seen=seen,
        size_bytes=reader.size_bytes,
        sha256=reader.sha256,
        raw={"products": products, "terms": terms},
        service=head.get("offerCode") or SERVICE,
    )


class ProductsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of GetProducts: each entry of PriceList is a JSON text of its own."""

    PriceList: list[str | dict[str, Any]]
    NextToken: str | None = None


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    product: Product
    terms: dict[str, Any] = {}


def decode_products_page(body: bytes) -> tuple[list[Offer], str]:
    """The offers on a page of GetProducts, and the token of the next page ("" = the last one).

    Raises BadDataError when it is not such a page.
    """
    name = "The AWS price page"
    try:
        page = msgspec.json.decode(body, type=ProductsPage)
        entries = [
            msgspec.json.decode(entry, type=_Entry)
            if isinstance(entry, str)
            else msgspec.convert(entry, _Entry)
            for entry in page.PriceList
        ]
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise _unknown_form(name, error) from error
    offers = [Offer(e.product, _terms(e.terms.get("OnDemand", {}), name)) for e in entries]
    return offers, page.NextToken or ""


def service_of(instance_type: str) -> str:
    """The offer that bills a lookup key's instance type."""
    return POD_SERVICE if instance_type.startswith(POD_RATES) else SERVICE


def of_instance_types(names: Iterable[str]) -> Callable[[Product], bool]:
    """Accepts every product, decoys included, for the machine types `names` (lower case).

    The name of pod rates accepts whatever Fargate sells.
    """
    wanted = frozenset(names)
    if any(name.startswith(POD_RATES) for name in wanted):
        return lambda product: "Fargate" in product.attributes.get("usagetype", "")
    return lambda product: product.attributes.get("instanceType", "").strip().lower() in wanted


def why_not(offer: Offer, key: LookupKey) -> str:
    """Why `offer` is not the on-demand price of `key`'s machine; "" if it is."""
    said = offer.product.says
    if said("instanceType").lower() != key.instance_type:
        return f"is for {said('instanceType') or 'no instance type'}"
    if said("regionCode") and said("regionCode").lower() != key.region:
        return f"is for the region {said('regionCode')}"
    if offer.product.product_family and offer.product.product_family not in FAMILIES:
        return f"belongs to {offer.product.product_family}"
    if said("operatingSystem") != OS_NAMES[key.os]:
        return f"is for {said('operatingSystem') or 'no operating system'}"
    for name, wanted, reason in WANTED:
        if said(name) and said(name) != wanted:
            return f"{reason}: {name} {said(name)}"
    if not offer.terms:
        return "has no on-demand term"
    if not components(offer):
        return "is free, has no price per hour, or has tiers"
    return ""


def components(offer: Offer, kind: ComponentKind = "node") -> list[Component]:
    """The hourly prices of `offer`, one for each of its on-demand terms.

    Rates of pods are per vCPU or GiB and hour, which their unit says in many ways.
    """
    found: list[Component] = []
    for term in offer.terms:
        if len(term.price_dimensions) != 1:
            continue
        for dimension in term.price_dimensions.values():
            currency = "USD" if "USD" in dimension.price_per_unit else ""
            currency = currency or next(iter(dimension.price_per_unit), "")
            price = _price(dimension.price_per_unit.get(currency, ""))
            if price is None or price <= 0 or (kind == "node" and dimension.unit not in HOURLY):
                continue
            found.append(
                Component(
                    sku=offer.product.sku,
                    description=offer.title,
                    component=kind,
                    quantity=Decimal(1),
                    unit=dimension.unit,
                    unit_price=price,
                    currency=currency,
                    valid_from=next_hour(parse_time(term.effective_date)),
                )
            )
    return found


def match(offers: Sequence[Offer], key: LookupKey, at: datetime) -> Quote:
    """The price of `key` in `offers`: exactly one at `at`, or why not.

    Spot prices are not in the list, and the on-demand price is no stand-in (opencost #882).
    """
    if key.capacity_type == "spot":
        return Unpriced(SPOT_REASON)
    if key.instance_type.startswith(POD_RATES):
        return _match_fargate(offers, key, at)
    kept = [part for offer in offers if not why_not(offer, key) for part in components(offer)]
    if not kept:
        rows = f"none of the {len(offers)} products is it" if offers else "the list has no products"
        return Unpriced(f"no {key.os} price of {key.instance_type} in {key.region}: {rows}")
    spans, rivals = one_price(kept, at)
    if rivals or not spans:
        prices = ", ".join(f"{rival.unit_price:f} ({rival.sku})" for rival in rivals or kept)
        return Ambiguous(
            rivals or tuple(kept), f"products with different prices hold at once: {prices}"
        )
    return Priced(spans)


def _match_fargate(offers: Sequence[Offer], key: LookupKey, at: datetime) -> Quote:
    parts: list[tuple[Component, ...]] = []
    for kind, pattern in FARGATE.items():
        kept = [
            part
            for offer in offers
            if pattern.search(offer.product.says("usagetype"))
            and offer.product.says("regionCode").lower() in ("", key.region)
            for part in components(offer, kind)
        ]
        spans, rivals = one_price(kept, at)
        if rivals:
            return Ambiguous(rivals, f"several Fargate rates for {kind} hold at once")
        if not spans:
            return Unpriced(f"the list has no Fargate rate for {kind} in {key.region}")
        parts.append(spans)
    return Priced(covered_by_all(parts))


def _terms(raw: Mapping[str, Any], name: str) -> tuple[Term, ...]:
    found = tuple(_convert(term, Term, name) for _, term in sorted(raw.items()))
    for term in found:
        try:
            parse_time(term.effective_date)
        except BadDataError as error:
            raise _unknown_form(name, error) from error
        for dimension in term.price_dimensions.values():
            for amount in dimension.price_per_unit.values():
                if _price(amount) is None:
                    raise _unknown_form(name, ValueError(f"{amount!r} is not a price"))
    return found


def _convert(raw: Any, kind: type[Any], name: str) -> Any:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _unknown_form(name, error) from error


def _price(text: str) -> Decimal | None:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    return amount if amount.is_finite() else None


def _unknown_form(name: str, error: Exception) -> BadDataError:
    return BadDataError(
        f"{name} is not in the known form: {error}.",
        remedy="Nothing was stored. If the API changed its schema, aws.py has to follow.",
    )
