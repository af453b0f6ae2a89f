"""Cost models: YAML under include/config/cost_models/, versioned by content, valid over a period."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, text

from kubetally.config import ClusterConfig, config_dir, load_yaml
from kubetally.errors import ConfigError
from kubetally.windows import iso


class BasePrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Per-unit prices whose ratio cuts a node's price into CPU, memory and GPU."""

    cpu_core_hour: Decimal
    memory_gib_hour: Decimal
    gpu_hour: Decimal

    def __post_init__(self) -> None:
        if min(self.cpu_core_hour, self.memory_gib_hour, self.gpu_hour) < 0:
            raise ValueError("base prices are not negative")
        if self.cpu_core_hour + self.memory_gib_hour == 0:
            raise ValueError("CPU and memory cannot both weigh nothing")


class ModelVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    valid_from: date
    kind: Literal["resource"]
    currency: str
    base_price: BasePrice


class CostModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file: a model's name and its versions in order of validity."""

    cost_model: str
    versions: tuple[ModelVersion, ...]

    def __post_init__(self) -> None:
        starts = [version.valid_from for version in self.versions]
        if not starts:
            raise ValueError("a cost model needs at least one version")
        if starts != sorted(set(starts)):
            raise ValueError("versions are listed by rising `valid_from`, each date once")


def load_models(folder: Path | None = None) -> dict[str, CostModel]:
    """Every cost model by name. Raises ConfigError for a bad file or a name used twice."""
    found: dict[str, CostModel] = {}
    for path in sorted(((folder or config_dir()) / "cost_models").glob("*.yaml")):
        model = load_yaml(path, CostModel)
        if model.cost_model in found:
            raise ConfigError(
                f"{path.name}: the cost model {model.cost_model!r} is defined in another file too.",
                remedy="Keep all versions of a model in one file.",
            )
        found[model.cost_model] = model
    return found


def sync_models(connection: Connection, models: dict[str, CostModel], now: datetime) -> None:
    """Makes `models` the known ones from `now` on; what was known before stays readable.

    The first thing ever known of a model counts for all time, so that the past can be computed.
    A model that is not listed any more stays as it was.
    """
    for model in models.values():
        wanted = _rows(model)
        known = connection.execute(
            text(
                "select cost_model_key, version, lower(during) as start, upper(during) as end"
                " from core.cost_model where cost_model = :model and upper_inf(known)"
            ),
            {"model": model.cost_model},
        ).all()
        kept = {(row.version, row.start, row.end) for row in known}
        needed = {(row["version"], row["start"], row["end"]) for row in wanted}
        connection.execute(
            text(
                "update core.cost_model"
                " set known = tstzrange(lower(known), greatest(:now, lower(known)))"
                " where cost_model_key = any(:gone)"
            ),
            {
                "now": now,
                "gone": [
                    row.cost_model_key
                    for row in known
                    if (row.version, row.start, row.end) not in needed
                ],
            },
        )
        for row in wanted:
            if (row["version"], row["start"], row["end"]) in kept:
                continue
            connection.execute(
                text(
                    "insert into core.cost_model (cost_model, version, kind, currency, cpu_weight,"
                    " memory_weight, gpu_weight, definition, during, known)"
                    " values (:model, :version, :kind, :currency, :cpu, :memory, :gpu,"
                    " cast(:definition as jsonb), tstzrange(:start, :end), tstzrange(:since, null))"
                ),
                row | {"since": now if known else None},
            )


def demand_models(connection: Connection, stage_id: int, cluster: ClusterConfig) -> None:
    """Raises ConfigError when a model of the cluster has no version for some hour of the stage."""
    for name in cluster.cost_models:
        hour = connection.execute(
            text(
                "select min(stage_hour.hour) from ops.stage_hour"
                " where stage_id = :stage_id and not exists (select from core.cost_model"
                " where cost_model = :name and during @> stage_hour.hour and known @> stage_hour.as_of)"
            ),
            {"name": name, "stage_id": stage_id},
        ).scalar()
        if hour is not None:
            raise ConfigError(
                f"The cost model {name!r} of cluster {cluster.name!r} has no version for {iso(hour)}.",
                remedy="Add one with an earlier `valid_from` in include/config/cost_models/.",
            )


def _rows(model: CostModel) -> list[dict[str, Any]]:
    ends = [version.valid_from for version in model.versions[1:]] + [None]
    rows = []
    for version, end in zip(model.versions, ends, strict=True):
        definition = msgspec.json.encode(version, order="sorted").decode()
        rows.append(
            {
                "model": model.cost_model,
                "version": hashlib.sha256(definition.encode()).hexdigest()[:12],
                "kind": version.kind,
                "currency": version.currency,
                "cpu": version.base_price.cpu_core_hour,
                "memory": version.base_price.memory_gib_hour,
                "gpu": version.base_price.gpu_hour,
                "definition": definition,
                "start": _midnight(version.valid_from),
                "end": None if end is None else _midnight(end),
            }
        )
    return rows


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
