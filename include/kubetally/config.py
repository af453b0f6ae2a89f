"""Reads include/config/*.yaml into typed, validated records.

msgspec does the decoding: a wrong key or type is reported with file, key and what was expected.
`KUBETALLY_…` settings add a cluster without editing a file (see `clusters`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import yaml

from kubetally.errors import ConfigError

PROJECT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


class SourceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a cluster's usage comes from. Sources are listed in order of precedence."""

    kind: Literal["prometheus", "kubernetes", "files", "kubelet"]
    connection: str = ""  # Airflow connection id (prometheus, kubernetes, kubelet)
    path: str = ""  # folder or object-store prefix (files)
    interval_seconds: int = 60  # scrape interval (prometheus) or polling interval (the others)
    context: str = ""  # kubeconfig context (kubernetes, kubelet); empty = the connection's own

    def __post_init__(self) -> None:
        if self.kind == "files" and not self.path:
            raise ValueError("a files source needs `path`")
        if self.kind != "files" and not self.connection:
            raise ValueError(f"a {self.kind} source needs `connection`")
        if not 1 <= self.interval_seconds <= 3600:
            raise ValueError("`interval_seconds` must lie between 1 and 3600")

    @property
    def is_backfillable(self) -> bool:
        """Whether it can answer for a past window; a live API only knows the present."""
        return self.kind not in ("kubernetes", "kubelet")


class ClusterConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cluster: what it is called everywhere, and how it is read, priced and allocated."""

    name: str
    sources: tuple[SourceConfig, ...]
    provider: Literal["", "azure", "gcp", "aws", "custom"] = ""  # empty = from each node
    region: str = ""  # used where nodes carry no region label
    price_sheet: str = ""  # file below include/config/, see price_sheets/
    hourly_rate: str = ""  # last resort: one rate per node and hour, as a decimal
    include_namespaces: tuple[str, ...] = ("*",)
    exclude_namespaces: tuple[str, ...] = ()
    cost_models: tuple[str, ...] = ("resource",)
    outage_services: tuple[str, ...] = ()  # what outage files call it, besides its name

    def __post_init__(self) -> None:
        if not self.name or not all(c.isalnum() or c in "-_." for c in self.name):
            raise ValueError("a cluster's `name` consists of letters, digits, '-', '_' and '.'")
        if not self.sources:
            raise ValueError(f"cluster {self.name!r} has no `sources`")


class ClustersFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    clusters: tuple[ClusterConfig, ...] = ()


def config_dir() -> Path:
    """The configuration folder: KUBETALLY_CONFIG_DIR, else include/config."""
    return Path(os.environ.get("KUBETALLY_CONFIG_DIR") or PROJECT / "include" / "config")


def clusters(
    folder: Path | None = None, env: Mapping[str, str] = os.environ
) -> tuple[ClusterConfig, ...]:
    """Every configured cluster: clusters.yaml plus the one that KUBETALLY_… settings describe.

    KUBETALLY_CLUSTER (its name, default "main") with KUBETALLY_PROMETHEUS_URL and/or
    KUBETALLY_KUBE_CONTEXT adds one cluster. KUBETALLY_DEMO=0 leaves the demo cluster out.
    """
    path = (folder or config_dir()) / "clusters.yaml"
    found = list(load_yaml(path, ClustersFile).clusters) if path.exists() else []
    if env.get("KUBETALLY_DEMO", "1") == "0":
        found = [cluster for cluster in found if cluster.name != "demo"]
    sources: list[SourceConfig] = []
    if env.get("KUBETALLY_PROMETHEUS_URL"):
        interval = int(env.get("KUBETALLY_SCRAPE_INTERVAL_SECONDS", "60"))
        sources.append(
            SourceConfig("prometheus", "kubetally_prometheus", interval_seconds=interval)
        )
    if env.get("KUBETALLY_KUBE_CONTEXT"):
        sources.append(
            SourceConfig(
                "kubernetes",
                "kubetally_kubernetes",
                interval_seconds=300,
                context=env["KUBETALLY_KUBE_CONTEXT"],
            )
        )
    if sources:
        found.append(ClusterConfig(env.get("KUBETALLY_CLUSTER", "main"), tuple(sources)))
    names = [cluster.name for cluster in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"Two clusters are named {name!r}.", remedy=f"Rename one in {path}.")
    return tuple(found)


def cluster(name: str) -> ClusterConfig:
    """The cluster called `name`. Raises ConfigError that lists the known ones."""
    known = clusters()
    for candidate in known:
        if candidate.name == name:
            return candidate
    raise ConfigError(
        f"No cluster is named {name!r}; configured: {', '.join(c.name for c in known) or 'none'}.",
        remedy="Add it to include/config/clusters.yaml.",
    )


def load_yaml(path: Path, kind: type[T]) -> T:
    """The YAML file at `path` as `kind`. Raises ConfigError with file, key and expectation."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read: {error.strerror}.") from error
    return parse_yaml(text, path.name, kind)


def parse_yaml(text: str, name: str, kind: type[T]) -> T:
    """The YAML `text` of the file called `name` as `kind`. Raises ConfigError like `load_yaml`."""
    try:
        data: Any = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{name} is not valid YAML: {error}.") from error
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{name}: {error}.", remedy="Correct the key named after `at`."
        ) from error
