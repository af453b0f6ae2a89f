"""Reads the custom-pricing files of OpenCost unchanged: the JSON of rates and the CSV of assets.

What they mean is documented at opencost.io/docs/configuration and in its provider configuration;
`storage` and volumes are per GiB-hour there. Columns and keys that say nothing about a price are
passed over, as OpenCost does.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from kubetally.errors import ConfigError
from kubetally.prices.entry import Entry, GpuRate, MatchText
from kubetally.prices.fees import Fee, Kind, Per
from kubetally.prices.written import amount_of

CSV_COLUMN = "MarketPriceHourly"
FEES: Mapping[str, tuple[Kind, str, Per]] = {
    "storage": ("storage", "*", "gib_hour"),
    "zoneNetworkEgress": ("egress", "zone", "gib"),
    "regionNetworkEgress": ("egress", "region", "gib"),
    "internetNetworkEgress": ("egress", "internet", "gib"),
    "defaultLBPrice": ("load_balancer", "*", "hour"),
}


def is_csv(text: str) -> bool:
    """Whether the header of `text` is that of OpenCost."""
    return CSV_COLUMN in text.partition("\n")[0]


def parse_json(text: str, name: str) -> tuple[tuple[Entry, ...], tuple[Fee, ...]]:
    """Rates per core, GiB and GPU (spot ones first), and fees. Raises ConfigError."""
    try:
        said: dict[str, Any] = json.loads(text, parse_float=str)
        if not isinstance(said, dict):
            raise ValueError("an object was expected")
        amounts = {
            key: amount_of(key, said.get(key))
            for key in ("CPU", "RAM", "GPU", "spotCPU", "spotRAM", *FEES)
        }
    except ValueError as error:
        raise ConfigError(f"{name}: {error}.", remedy="Give a custom-pricing JSON.") from error
    entries: list[Entry] = []
    if amounts["spotCPU"] is not None and amounts["spotRAM"] is not None:
        matches = [MatchText(capacity_type="spot")]
        if said.get("spotLabel") and said.get("spotLabelValue"):
            matches.append(MatchText(labels={said["spotLabel"]: said["spotLabelValue"]}))
        entries += [
            Entry(
                match=match,
                cpu_core_hour=amounts["spotCPU"],
                memory_gib_hour=amounts["spotRAM"],
                gpu_hour=amounts["GPU"],
            )
            for match in matches
        ]
    if amounts["CPU"] is not None and amounts["RAM"] is not None:
        entries.append(
            Entry(
                match=MatchText(),
                cpu_core_hour=amounts["CPU"],
                memory_gib_hour=amounts["RAM"],
                gpu_hour=amounts["GPU"],
            )
        )
    fees = tuple(
        Fee(kind, fee_name, price, per)
        for key, (kind, fee_name, per) in FEES.items()
        if (price := amounts[key]) is not None
    )
    if not entries and not fees:
        raise ConfigError(f"{name} holds no price that is known (CPU and RAM, storage, …).")
    return tuple(entries), fees


def parse_csv(text: str, name: str) -> tuple[tuple[Entry, ...], tuple[Fee, ...]]:
    """Prices of single nodes, GPU models and volumes. Raises ConfigError with file and line.

    A row with a region counts before one without. A machine type all of whose rows have one price
    has that price for its other nodes, too. `EndTimestamp` is no end of validity and is passed over.
    """
    nodes: list[tuple[MatchText, Decimal]] = []
    types: dict[tuple[str, str], set[Decimal]] = {}
    gpus: list[GpuRate] = []
    fees: list[Fee] = []
    reader = csv.DictReader(text.splitlines())
    for row in reader:
        cells = {key: (value or "").strip() for key, value in row.items() if key}
        asset, where = cells.get("AssetClass", ""), cells.get("InstanceIDField", "")
        try:
            price = amount_of(CSV_COLUMN, cells.get(CSV_COLUMN))
            if price is None:
                raise ValueError(f"`{CSV_COLUMN}` is empty")
            if asset == "gpu":
                gpus.append(GpuRate(_literal(cells["InstanceID"]), price, where))
            elif asset == "pv":
                fees.append(Fee("storage", _literal(cells["InstanceID"]), price, "gib_hour"))
            else:
                match = _match(where, cells["InstanceID"], cells.get("Region", ""))
                nodes.append((match, price))
                if cells.get("InstanceType"):
                    kind = (cells.get("Region", ""), cells["InstanceType"])
                    types.setdefault(kind, set()).add(price)
        except (ValueError, KeyError) as error:
            raise ConfigError(
                f"{name}, line {reader.line_num}: {error}.", remedy="Correct that row."
            ) from error
    nodes.sort(key=lambda node: not node[0].region)
    nodes += [
        (MatchText(instance_type=_literal(machine), region=_literal(region)), min(prices))
        for (region, machine), prices in types.items()
        if len(prices) == 1
    ]
    rates = tuple(gpus)
    return (
        tuple(Entry(match=match, price_per_hour=price, gpu_rates=rates) for match, price in nodes),
        tuple(fees),
    )


def _match(where: str, value: str, region: str) -> MatchText:
    region = _literal(region)
    if where in ("metadata.name", ""):
        return MatchText(node=_literal(value), region=region)
    if where == "spec.providerID":
        return MatchText(provider_id=f"*{_literal(value)}", region=region)
    if where.startswith("metadata.labels."):
        return MatchText(labels={where.removeprefix("metadata.labels."): value}, region=region)
    raise ValueError(f"`InstanceIDField` {where!r} names nothing that is known of a node")


def _literal(text: str) -> str:
    """`text` as a glob that matches nothing else."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in text)
