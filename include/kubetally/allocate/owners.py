"""Owners: who pays for a namespace, from include/config/owners.yaml, dated and remembered."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, text

from kubetally.allocate.globs import regex
from kubetally.config import ClusterConfig, config_dir, load_yaml

EXCLUDED = "excluded"  # the owner of namespaces that are left out of reports


class OwnerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule; the first that matches wins. `namespace` and `cluster` are globs.

    With `label` the pod's (or, with `label_of: namespace`, the namespace's) label must be there and
    match the glob `label_value`; without `owner` the label's value is the owner.
    """

    namespace: str = "*"
    cluster: str = "*"
    owner: str = ""
    label: str = ""
    label_value: str = "*"
    label_of: Literal["pod", "namespace"] = "pod"
    valid_from: date = date(1970, 1, 1)
    valid_until: date | None = None

    def __post_init__(self) -> None:
        if not self.owner and not self.label:
            raise ValueError("an owner rule needs `owner`, or a `label` whose value is the owner")
        if self.owner in ("cluster", "unowned", EXCLUDED):
            raise ValueError(f"{self.owner!r} is a reserved owner name")
        if self.valid_until is not None and self.valid_until <= self.valid_from:
            raise ValueError("`valid_until` must lie after `valid_from`")


class OwnersFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    owners: tuple[OwnerEntry, ...] = ()


def load_owners(folder: Path | None = None) -> tuple[OwnerEntry, ...]:
    """The owner rules in order; none when there is no file."""
    path = (folder or config_dir()) / "owners.yaml"
    return load_yaml(path, OwnersFile).owners if path.exists() else ()


def sync_owners(
    connection: Connection,
    entries: tuple[OwnerEntry, ...],
    now: datetime,
    clusters: tuple[ClusterConfig, ...] = (),
) -> bool:
    """Makes `entries` the known rules from `now` on; what was known before stays readable.

    Namespaces that a cluster of `clusters` does not include, or excludes, come before all rules: their
    owner is "excluded", their cost stays in the totals.

    Returns whether anything changed.
    """
    hidden = [rule for cluster in clusters for rule in excluding_rules(cluster)]
    rows = [*hidden, *(_row(entry) for entry in entries)]
    rows = [{"position": position} | row for position, row in enumerate(rows)]
    known = [
        dict(row._mapping)
        for row in connection.execute(
            text(
                "select position, cluster_pattern, namespace_pattern, label_key, label_pattern, label_of,"
                " owner, lower(during) as start, upper(during) as end"
                " from core.owner_rule where upper_inf(known) order by position"
            )
        )
    ]
    if known == rows:
        return False
    connection.execute(
        text(
            "update core.owner_rule set known = tstzrange(lower(known), greatest(:now, lower(known)))"
            " where upper_inf(known)"
        ),
        {"now": now},
    )
    if rows:
        connection.execute(
            text(
                "insert into core.owner_rule (position, cluster_pattern, namespace_pattern, label_key,"
                " label_pattern, label_of, owner, during, known)"
                " values (:position, :cluster_pattern, :namespace_pattern, :label_key, :label_pattern,"
                " :label_of, :owner, tstzrange(:start, :end), tstzrange(:now, null))"
            ),
            [row | {"now": now} for row in rows],
        )
    return True


def excluding_rules(cluster: ClusterConfig) -> list[dict[str, Any]]:
    """Rules for the namespaces that stay out of the cluster's reports; an exclusion always wins."""
    patterns = [regex(glob) for glob in cluster.exclude_namespaces]
    included = cluster.include_namespaces
    if included and "*" not in included:
        patterns.append(f"^(?!{'|'.join(regex(glob).removeprefix('^') for glob in included)})")
    return [
        _row(OwnerEntry(cluster=cluster.name, owner="-"))
        | {"namespace_pattern": pattern, "owner": EXCLUDED}
        for pattern in patterns
    ]


def _row(entry: OwnerEntry) -> dict[str, Any]:
    return {
        "cluster_pattern": regex(entry.cluster),
        "namespace_pattern": regex(entry.namespace),
        "label_key": entry.label,
        "label_pattern": regex(entry.label_value) if entry.label else "",
        "label_of": entry.label_of if entry.label else "",
        "owner": entry.owner,
        "start": datetime.combine(entry.valid_from, time.min, UTC),
        "end": None
        if entry.valid_until is None
        else datetime.combine(entry.valid_until, time.min, UTC),
    }
