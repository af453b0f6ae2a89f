"""Owners: who pays for a namespace, from include/config/owners.yaml, dated and remembered."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, text

from kubetally.config import config_dir, load_yaml


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
        if self.owner in ("cluster", "unowned"):
            raise ValueError(f"{self.owner!r} is a reserved owner name")
        if self.valid_until is not None and self.valid_until <= self.valid_from:
            raise ValueError("`valid_until` must lie after `valid_from`")


class OwnersFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    owners: tuple[OwnerEntry, ...] = ()


def load_owners(folder: Path | None = None) -> tuple[OwnerEntry, ...]:
    """The owner rules in order; none when there is no file."""
    path = (folder or config_dir()) / "owners.yaml"
    return load_yaml(path, OwnersFile).owners if path.exists() else ()


def sync_owners(connection: Connection, entries: tuple[OwnerEntry, ...], now: datetime) -> bool:
    """Makes `entries` the known rules from `now` on; what was known before stays readable.

    Returns whether anything changed.
    """
    rows = [_row(position, entry) for position, entry in enumerate(entries)]
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


def _row(position: int, entry: OwnerEntry) -> dict[str, Any]:
    return {
        "position": position,
        "cluster_pattern": _regex(entry.cluster),
        "namespace_pattern": _regex(entry.namespace),
        "label_key": entry.label,
        "label_pattern": _regex(entry.label_value) if entry.label else "",
        "label_of": entry.label_of if entry.label else "",
        "owner": entry.owner,
        "start": datetime.combine(entry.valid_from, time.min, UTC),
        "end": None
        if entry.valid_until is None
        else datetime.combine(entry.valid_until, time.min, UTC),
    }


def _regex(glob: str) -> str:
    """A glob as an anchored regular expression that Postgres reads as fnmatch reads the glob.

    Not fnmatch.translate: its atomic groups are Python's own.
    """
    pieces = re.split(r"(\*|\?|\[[^\]]+\])", glob)
    translated = []
    for piece in pieces:
        if piece == "*":
            translated.append(".*")
        elif piece == "?":
            translated.append(".")
        elif piece.startswith("[") and piece.endswith("]"):
            translated.append(piece.replace("[!", "[^", 1))
        else:
            translated.append(re.escape(piece))
    return f"^{''.join(translated)}$"
