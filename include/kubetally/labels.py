"""Labels by their real keys, also where a source only knows Prometheus' spelling of them."""

from __future__ import annotations

import re
from collections.abc import Mapping


def sanitised(key: str) -> str:
    """A label key as kube-state-metrics spells it: everything but letters, digits and _ becomes _."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", key)


def label_value(labels: Mapping[str, str], key: str) -> str | None:
    """The value of the label `key`, whichever of its two spellings the source used."""
    found = labels.get(key)
    return labels.get(sanitised(key)) if found is None else found
