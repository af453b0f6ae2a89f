"""One runner per area of uniform case files: `run(case)` checks one case with the product's own code.

A stage that learns to answer an area registers its runner here; a file whose area has none fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from kubetally.errors import BadDataError
from kubetally.sources.effective_request import effective_request
from kubetally.sources.kubernetes.objects import Pod
from kubetally.sources.quantity import parse_quantity
from oracles import node_prices

Case = dict[str, Any]
Runner = Callable[[Case], None]

RUNNERS: dict[str, Runner] = {}


def runner(area: str) -> Callable[[Runner], Runner]:
    """Registers the decorated function for the files of `area`."""

    def register(function: Runner) -> Runner:
        RUNNERS[area] = function
        return function

    return register


@runner("quantity")
def check_quantity(case: Case) -> None:
    """`in` → `exact`, or refused. Digitless inputs, which apimachinery takes as 0, are refused too."""
    text = case["in"]
    is_digitless = isinstance(text, str) and not re.match(r"[+-]?\.?[0-9]", text)
    if case["valid"] and not is_digitless:
        assert parse_quantity(text) == Decimal(case["exact"])
        return
    with pytest.raises(BadDataError) as refusal:
        parse_quantity(text)
    assert "is not a Kubernetes quantity: " in str(refusal.value)


@runner("effective_request")
def check_effective_request(case: Case) -> None:
    """A pod manifest → what the scheduler books for it."""
    found = effective_request(msgspec.convert(case["pod"], Pod))
    assert found.cpu_cores == Decimal(case["expected"]["effective_cpu_cores"])
    assert found.memory_bytes == Decimal(case["expected"]["effective_memory_bytes"])


@runner("node_price")
def check_node_price(case: Case) -> None:
    """A node's labels and its recorded price page → what an hour of it costs, to the last digit."""
    node_prices.check(case)
