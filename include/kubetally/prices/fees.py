"""What a cluster costs beside its nodes: control plane, disks, load balancers, egress; dated.

Fees stand in include/config/fees.yaml and in price sheets; nothing is built in. Looking one up is
pure; which cluster pays which fee, and who of its tenants, is decided by the cost model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from kubetally.config import config_dir, parse_yaml
from kubetally.errors import ConfigError
from kubetally.prices.quote import EARLIEST, LATEST
from kubetally.prices.written import amount_of, moment_of

Kind = Literal["control_plane", "storage", "load_balancer", "egress", "other"]
Per = Literal["hour", "month", "gib_hour", "gib_month", "gib", "vcpu_hour"]
SCALE = Decimal("1e-18")
FEES = "fees.yaml"


class FeeText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fee as it is written. `name` is the tier, storage class, disk SKU or traffic class."""

    kind: Kind
    price: Any
    per: Per
    name: str = "*"
    provider: str = "*"
    region: str = "*"
    cluster: str = "*"
    from_usage: Any = 0  # of the month, in the unit of `per`; higher tiers are fees of their own
    above_gib: Any = 0  # disks sold in sizes: this one is for (above_gib, up_to_gib]
    up_to_gib: Any = None
    currency: str = "USD"
    valid_from: Any = None
    valid_until: Any = None
    source: Any = ""  # where the price was read, for people

    def __post_init__(self) -> None:
        if amount_of("price", self.price) is None:
            raise ValueError("a fee needs a `price`")
        amount_of("from_usage", self.from_usage)
        amount_of("above_gib", self.above_gib)
        size = amount_of("up_to_gib", self.up_to_gib)
        if size is not None and self.per not in ("month", "hour"):
            raise ValueError(
                "a disk with a size (`up_to_gib`) is paid per month or hour as a whole"
            )
        if len(self.currency) != 3 or not self.currency.isalpha() or not self.currency.isupper():
            raise ValueError(f"`currency` {self.currency!r} is not a code like USD")
        start = moment_of("valid_from", self.valid_from)
        end = moment_of("valid_until", self.valid_until)
        if start is not None and end is not None and end <= start:
            raise ValueError("`valid_until` is not after `valid_from`")


class FeesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fees: tuple[FeeText, ...] = ()


@dataclass(frozen=True)
class Fee:
    """One dated fee; names are globs, case does not matter."""

    kind: Kind
    name: str
    price: Decimal
    per: Per
    provider: str = "*"
    region: str = "*"
    cluster: str = "*"
    from_usage: Decimal = Decimal(0)
    above_gib: Decimal = Decimal(0)
    up_to_gib: Decimal | None = None
    currency: str = "USD"
    valid_from: datetime = EARLIEST
    valid_until: datetime = LATEST
    source: str = ""

    def price_per_hour(self, hours_of_month: Decimal) -> Decimal:
        """The price of one unit for one hour; a monthly one spread over `hours_of_month`.

        18 decimals, half away from zero. Raises ConfigError for a price of traffic.
        """
        if self.per == "gib":
            raise ConfigError(
                f"The fee {self.name!r} is per GiB of traffic and has no hourly price."
            )
        if self.per not in ("month", "gib_month"):
            return self.price
        with localcontext(prec=100):
            return (self.price / hours_of_month).quantize(SCALE, ROUND_HALF_UP)


@dataclass(frozen=True)
class Asked:
    """What a fee is looked up for. `usage` is the month's so far, `size_gib` a disk's."""

    kind: Kind
    name: str
    provider: str = ""
    region: str = ""
    cluster: str = ""
    usage: Decimal = Decimal(0)
    size_gib: Decimal | None = None


def load_fees(folder: Path | None = None) -> tuple[Fee, ...]:
    """The fees of fees.yaml in order; none when there is no file. Raises ConfigError."""
    path = (folder or config_dir()) / FEES
    return parse_fees(path.read_text(encoding="utf-8"), path.name) if path.exists() else ()


def parse_fees(text: str, name: str) -> tuple[Fee, ...]:
    """The fees in the YAML `text` of the file called `name`. Raises ConfigError."""
    return tuple(fee_of(fee) for fee in parse_yaml(text, name, FeesFile).fees)


def fee_of(text: FeeText) -> Fee:
    """`text` with amounts and times understood."""
    start = moment_of("valid_from", text.valid_from)
    end = moment_of("valid_until", text.valid_until)
    return Fee(
        kind=text.kind,
        name=text.name,
        price=amount_of("price", text.price) or Decimal(0),
        per=text.per,
        provider=text.provider,
        region=text.region,
        cluster=text.cluster,
        from_usage=amount_of("from_usage", text.from_usage) or Decimal(0),
        above_gib=amount_of("above_gib", text.above_gib) or Decimal(0),
        up_to_gib=amount_of("up_to_gib", text.up_to_gib),
        currency=text.currency,
        valid_from=EARLIEST if start is None else start,
        valid_until=LATEST if end is None else end,
        source=str(text.source),
    )


def find_fee(fees: Sequence[Fee], asked: Asked, at: datetime) -> Fee | None:
    """The fee that counts at `at`, or None: not known, never zero.

    Order of precedence: the list's. Among the tiers of the first that matches, the highest one that
    the usage has reached counts.
    """
    matching = [fee for fee in fees if _is_for(fee, asked, at)]
    if not matching:
        return None
    first = matching[0]
    same = [fee for fee in matching if _terms(fee) == _terms(first)]
    reached = [fee for fee in same if fee.from_usage <= asked.usage]
    if not reached:
        return None
    return max(reached, key=lambda fee: fee.from_usage)


def _is_for(fee: Fee, asked: Asked, at: datetime) -> bool:
    size = asked.size_gib
    if fee.up_to_gib is not None and (size is None or not fee.above_gib < size <= fee.up_to_gib):
        return False
    return (
        fee.kind == asked.kind
        and fee.valid_from <= at < fee.valid_until
        and all(
            fnmatchcase(value.lower(), pattern.lower())
            for value, pattern in (
                (asked.name, fee.name),
                (asked.provider, fee.provider),
                (asked.region, fee.region),
                (asked.cluster, fee.cluster),
            )
        )
    )


def _terms(fee: Fee) -> tuple[object, ...]:
    """What the tiers of one thing have in common."""
    return (fee.kind, fee.name, fee.provider, fee.region, fee.cluster, fee.up_to_gib, fee.currency)
