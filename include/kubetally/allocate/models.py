"""Cost models: YAML under include/config/cost_models/, versioned by content, valid over a period."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, text

from kubetally.allocate.globs import regex
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


KNOWN_BASE_PRICES = {
    # OpenCost's defaults, USD.
    "opencost": BasePrice(Decimal("0.031611"), Decimal("0.004237"), Decimal("0.95")),
    # AWS split cost allocation data: CPU to memory 9 : 1, a GPU to a unit of both 9 : 1.
    "aws": BasePrice(Decimal(9), Decimal(1), Decimal(90)),
}

Basis = Literal["max", "requested", "used"]


class ResourceBasis(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What of each resource is billed; GPUs always as requested."""

    cpu: Basis = "max"
    memory: Basis = "max"


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one pool is passed on: among whom, and by what.

    By direct cost (`weights`), or by one of `shares` (fixed weights by owner), `driver` (a file in
    include/config/drivers/) and `node_pool_owners` (all to the owner of the node's pool).
    """

    by: Literal["node", "node_pool", "cluster"] = "cluster"
    weights: Literal["", "resource", "cost", "even"] = ""  # resource, where nothing else is said
    shares: dict[str, Decimal] = {}
    driver: str = ""
    node_pool_owners: dict[str, str] = {}

    def __post_init__(self) -> None:
        given = [self.weights, self.shares, self.driver, self.node_pool_owners]
        if sum(map(bool, given)) > 1:
            raise ValueError("give one of `weights`, `shares`, `driver` and `node_pool_owners`")
        if self.shares and (min(self.shares.values()) < 0 or not sum(self.shares.values())):
            raise ValueError("`shares` are weights of 0 or more that are not all 0")
        if self.node_pool_owners and self.by != "node_pool":
            raise ValueError("`node_pool_owners` needs `by: node_pool`")
        if "cluster" in {*self.shares, *self.node_pool_owners.values()}:
            raise ValueError("'cluster' is a reserved owner name")

    def row(self) -> dict[str, Any]:
        """The policy as columns of core.share_policy."""
        weights: str = self.weights or "resource"
        if self.shares:
            weights = "shares"
        elif self.node_pool_owners:
            weights = "node_pool_owner"
        elif self.driver:
            weights = "driver"
        fixed = {name: str(weight) for name, weight in self.shares.items()}
        return {
            "scope": self.by,
            "weights": weights,
            "shares": msgspec.json.encode(fixed or self.node_pool_owners, order="sorted").decode(),
            "driver": self.driver or None,
        }


class Shares(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The pools that are passed on, in the order of the cascade; the others stay lines of the cluster."""

    system: Share | None = None
    uncovered: Share | None = None
    shared: Share | None = None
    unmounted: Share | None = None
    overcommit: Share | None = None
    idle: Share | None = None

    def given(self) -> list[tuple[str, Share]]:
        pools = [(name, getattr(self, name)) for name in self.__struct_fields__]
        return [(name, share) for name, share in pools if share is not None]


CASCADE = Shares.__struct_fields__


class ModelVersion(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="resource",
):
    """A `resource` model: each node's price by what its pods asked for or used."""

    valid_from: date
    currency: str
    base_price: BasePrice | Literal["opencost", "aws"]
    basis: Basis | ResourceBasis = "max"
    shared_namespaces: tuple[str, ...] = ()
    share: Shares = Shares()

    def row(self) -> dict[str, Any]:
        """The version as columns of core.cost_model."""
        patterns = [f"({regex(glob)})" for glob in self.shared_namespaces]
        return _columns("resource", self) | {"shared_namespaces": "|".join(patterns) or None}


class ChargeBackVersion(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="charge_back",
):
    """A `charge_back` model: all nodes as one pool, shared by what pods and the nodes themselves used."""

    valid_from: date
    currency: str
    base_price: BasePrice | Literal["opencost", "aws"]
    basis: Basis | ResourceBasis = "used"

    @property
    def share(self) -> Shares:
        return Shares()

    def row(self) -> dict[str, Any]:
        """The version as columns of core.cost_model."""
        return _columns("charge_back", self) | {"shared_namespaces": None}


def _columns(kind: str, version: ModelVersion | ChargeBackVersion) -> dict[str, Any]:
    base, basis = version.base_price, version.basis
    prices = base if isinstance(base, BasePrice) else KNOWN_BASE_PRICES[base]
    each = basis if isinstance(basis, ResourceBasis) else ResourceBasis(basis, basis)
    return {
        "kind": kind,
        "currency": version.currency,
        "cpu": prices.cpu_core_hour,
        "memory": prices.memory_gib_hour,
        "gpu": prices.gpu_hour,
        "cpu_basis": each.cpu,
        "memory_basis": each.memory,
    }


class CostModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file: a model's name and its versions in order of validity."""

    cost_model: str
    versions: tuple[ModelVersion | ChargeBackVersion, ...]

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
            key = connection.execute(
                text(
                    "insert into core.cost_model (cost_model, version, kind, currency, cpu_weight,"
                    " memory_weight, gpu_weight, cpu_basis, memory_basis, shared_namespace_pattern,"
                    " definition, during, known)"
                    " values (:model, :version, :kind, :currency, :cpu, :memory, :gpu, :cpu_basis,"
                    " :memory_basis, :shared_namespaces, cast(:definition as jsonb),"
                    " tstzrange(:start, :end), tstzrange(:since, null)) returning cost_model_key"
                ),
                row | {"since": now if known else None},
            ).scalar_one()
            for line, share in row["share"].given():
                connection.execute(
                    text(
                        "insert into core.share_policy (cost_model_key, line, scope, weights, shares,"
                        " driver) values (:key, :line, :scope, :weights, cast(:shares as jsonb),"
                        " :driver)"
                    ),
                    {"key": key, "line": line} | share.row(),
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
                "share": version.share,
                "definition": definition,
                "start": _midnight(version.valid_from),
                "end": None if end is None else _midnight(end),
            }
            | version.row()
        )
    return rows


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
