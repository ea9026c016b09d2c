"""Loops that add at many places: the search for what they add ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.passes.limits import MOST_SELECTED_SUMS
from adcompiler.passes.recurrences.updates import _Terms

BEAM = """
def beam(stiffness: f64[m], load: f64[n]):
    k = zeros((n, n))
    for e in range(m):
        part = stiffness[e] * array([[12.0, 6, -12, 6], [6, 4, -6, 2], [-12, -6, 12, -6], [6, 2, -6, 4]])
        for a in range(4):
            for b in range(4):
                k[2 * e + a, 2 * e + b] += part[a, b]
    return load @ solve(k + eye(n), load)
"""


def test_the_search_for_what_stores_add_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    selected = _Terms.selected

    def counted(self: _Terms, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        return selected(self, *args)

    monkeypatch.setattr(_Terms, "selected", counted)
    f = adc.compile(BEAM, backend="numpy")
    adc.check_grad(f, np.array([0.5, 0.7, 0.6]), np.linspace(0.1, 1.0, 8))
    assert calls <= 64 * MOST_SELECTED_SUMS
