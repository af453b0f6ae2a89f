"""Cost models: YAML under include/config/cost_models/, versioned by content, valid over a period."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec
from sqlalchemy import Connection, text

from kubetally.config import ClusterConfig, config_dir, load_yaml
from kubetally.errors import ConfigError
from kubetally.windows import Window


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
    """Writes new versions into core.cost_model; a version once written never changes."""
    for model in models.values():
        ends = [version.valid_from for version in model.versions[1:]] + [None]
        for version, end in zip(model.versions, ends, strict=True):
            definition = msgspec.json.encode(version, order="sorted").decode()
            connection.execute(
                text(
                    "insert into core.cost_model (cost_model, version, kind, currency, cpu_weight,"
                    " memory_weight, gpu_weight, definition, during, known_from)"
                    " values (:model, :version, :kind, :currency, :cpu, :memory, :gpu,"
                    " cast(:definition as jsonb), tstzrange(:start, :end), :now)"
                    " on conflict (cost_model, version) do update set during = excluded.during"
                    " where cost_model.during <> excluded.during"
                ),
                {
                    "model": model.cost_model,
                    "version": hashlib.sha256(definition.encode()).hexdigest()[:12],
                    "kind": version.kind,
                    "currency": version.currency,
                    "cpu": version.base_price.cpu_core_hour,
                    "memory": version.base_price.memory_gib_hour,
                    "gpu": version.base_price.gpu_hour,
                    "definition": json.dumps(json.loads(definition)),
                    "start": _midnight(version.valid_from),
                    "end": None if end is None else _midnight(end),
                    "now": now,
                },
            )


def model_keys(connection: Connection, cluster: ClusterConfig, window: Window) -> list[int]:
    """Keys of the model versions the cluster uses in the window.

    Raises ConfigError when a model is unknown or has no version for a part of the window.
    """
    keys: list[int] = []
    for name in cluster.cost_models:
        rows = connection.execute(
            text(
                "select cost_model_key, during from core.cost_model"
                " where cost_model = :name and during && tstzrange(:start, :end) order by during"
            ),
            {"name": name, "start": window.start, "end": window.end},
        ).all()
        if not rows or rows[0].during.lower > window.start:
            raise ConfigError(
                f"The cost model {name!r} of cluster {cluster.name!r} has no version for {window}.",
                remedy="Add one with an earlier `valid_from` in include/config/cost_models/.",
            )
        keys.extend(int(row.cost_model_key) for row in rows)
    return keys


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
