"""The registry of cases: each is a function of one of the two libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CASES: dict[str, Callable[[Any], Any]] = {}


def case(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    assert function.__name__ not in CASES, function.__name__
    CASES[function.__name__] = function
    return function
