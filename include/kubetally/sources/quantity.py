"""Kubernetes quantities ("500m", "1.5Gi", "321069224n") as exact decimals.

Follows k8s.io/apimachinery `resource.ParseQuantity`: values are rounded up (away from zero) to whole
nano-units, and binary ones are capped at 2**63 - 1. One deliberate difference: apimachinery takes
`Ki`, `m`, `E`, `.`, `+` and `-` (no digits at all) as zero; here they are refused, because a missing
number is not a zero.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from kubetally.errors import BadDataError

_QUANTITY = re.compile(
    r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))"
    r"(?:[eE]([+-]?[0-9]{1,9})|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]))?"
)
_DECIMAL_EXPONENT = {
    "n": -9,
    "u": -6,
    "m": -3,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY_SHIFT = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LARGEST_BINARY = 2**63 - 1
_NANO = 10**9
_LONGEST = 128  # characters, and the largest power of ten: nothing real comes near
_ZERO = Decimal(0)


def parse_quantity(text: str | int | float) -> Decimal:
    """The exact value of a quantity in base units (cores, bytes, devices).

    JSON may carry a bare number instead of a string. Raises BadDataError with the reason.
    """
    if isinstance(text, str):
        return _parse(text)
    if isinstance(text, bool):
        raise BadDataError(f"{text!r} is not a Kubernetes quantity: a boolean.")
    return _parse(repr(text))


@lru_cache(maxsize=1 << 15)
def plain_quantity(text: str | int | float) -> str:
    """`parse_quantity` as a plain decimal string without an exponent."""
    return plain(parse_quantity(text))


def plain(value: Decimal) -> str:
    """A decimal without exponent and without trailing zeros: "0.1", "1610612736"."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


@lru_cache(maxsize=1 << 15)
def _parse(text: str) -> Decimal:
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise BadDataError(f"{text[:_LONGEST]!r} is not a Kubernetes quantity: {_why_not(text)}.")
    sign, whole, fraction, bare_fraction, exponent_text, suffix = found.groups()
    decimals = bare_fraction or fraction or ""
    digits = int((whole or "") + decimals)
    if digits == 0:
        return _ZERO
    shift = _BINARY_SHIFT.get(suffix or "", 0)
    exponent = int(exponent_text or 0) + _DECIMAL_EXPONENT.get(suffix or "", 0)
    if exponent > _LONGEST:
        raise BadDataError(f"{text!r} is not a Kubernetes quantity: its exponent is out of range.")
    # A power below -_LONGEST rounds up to one nano-unit whatever it is.
    power = max(exponent + 9 - len(decimals), -2 * _LONGEST)
    nano = (digits << shift) * 10 ** max(power, 0)
    if power < 0:
        nano = -(-nano // 10**-power)
    if shift and nano > _LARGEST_BINARY * _NANO:
        nano = _LARGEST_BINARY * _NANO
    if sign == "-":
        nano = -nano
    if nano % _NANO == 0:
        return Decimal(nano // _NANO)
    return Decimal(f"{nano}E-9")  # from text: exact whatever the context's precision


def _why_not(text: str) -> str:
    if len(text) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    if not text:
        return "it is empty"
    if not re.search(r"[0-9]", text):
        return "it has no digits"
    number = re.match(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", text)
    if number is None:
        return "it does not begin with a number"
    return f"unknown suffix {text[number.end() :]!r}"
