"""An entry of a price sheet: which nodes it is for, and what it says about their price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase

import msgspec

from kubetally.labels import label_value
from kubetally.prices.key import NodeFacts
from kubetally.prices.quote import EARLIEST, LATEST


class MatchText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which nodes an entry is for: all that is given must match. Names may be globs."""

    cluster: str = ""
    node: str = ""
    provider_id: str = ""
    instance_type: str = ""
    labels: dict[str, str] = {}
    capacity_type: str = ""
    os: str = ""
    region: str = ""
    gpu_model: str = ""


@dataclass(frozen=True)
class GpuRate:
    """A price per GPU-hour for one model. `label` "": whatever label or source tells the model."""

    model: str
    price: Decimal
    label: str = ""

    def is_for(self, facts: NodeFacts) -> bool:
        said = label_value(facts.labels, self.label) if self.label else facts.stated_gpu_model
        return _is_like(said or "", self.model) and bool(said)


@dataclass(frozen=True)
class Entry:
    """One dated price for the nodes that `matches` accepts: a price, rates, or percentages.

    `gpu_rates` beside a price are added to it; beside rates they take the place of `gpu_hour`.
    """

    match: MatchText
    price_per_hour: Decimal | None = None
    cpu_core_hour: Decimal | None = None
    memory_gib_hour: Decimal | None = None
    gpu_hour: Decimal | None = None
    gpu_rates: tuple[GpuRate, ...] = ()
    discount_percent: Decimal | None = None
    markup_percent: Decimal | None = None
    of_on_demand: bool = False
    currency: str = "USD"
    valid_from: datetime = EARLIEST
    valid_until: datetime = LATEST

    @property
    def is_adjustment(self) -> bool:
        """Whether it has no price of its own, but changes the one that counts without it."""
        return self.discount_percent is not None or self.markup_percent is not None

    def gpu_hour_of(self, facts: NodeFacts) -> Decimal | None:
        """The price of one GPU-hour on the node, by model if the model is listed."""
        by_model = next((rate.price for rate in self.gpu_rates if rate.is_for(facts)), None)
        return self.gpu_hour if by_model is None else by_model

    def matches(self, facts: NodeFacts) -> bool:
        wanted = self.match
        return (
            _is_like(facts.cluster, wanted.cluster)
            and _is_like(facts.node, wanted.node)
            and _is_like(facts.provider_id, wanted.provider_id)
            and _is_like(facts.stated_gpu_model, wanted.gpu_model)
            and _is_like(facts.stated_instance_type, wanted.instance_type)
            and _is_like(facts.stated_region, wanted.region)
            and wanted.os.lower() in ("", facts.stated_os)
            and wanted.capacity_type.lower() in ("", facts.market)
            and all(
                label_value(facts.labels, name) == value for name, value in wanted.labels.items()
            )
        )


def _is_like(value: str, pattern: str) -> bool:
    return not pattern or fnmatchcase(value.lower(), pattern.lower())
