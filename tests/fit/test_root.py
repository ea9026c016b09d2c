"""`adc.root`: exact Jacobians where the method uses them."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.fit.roots import WITH_JACOBIAN, WITHOUT

cosine = adc.compile("def cosine(x, k): return cos(x) - k * x", backend="numpy")


@pytest.mark.parametrize("method", [*WITH_JACOBIAN, *WITHOUT[:3], "krylov", "df-sane"])
def test_methods(method):
    result = adc.root(cosine, np.array([0.5, 0.5]), (np.array([1.0, 2.0]),), method)
    assert result.success
    assert result.params == pytest.approx([0.7390851332, 0.4501836113], abs=1e-5)


def test_equations_and_unknowns_may_be_containers():
    f = adc.compile("def f(p): return p['x']**2 + p['y']**2 - 4, p['x'] - p['y']", backend="numpy")
    assert adc.root(f, {"x": 1.0, "y": 0.5}).params == pytest.approx({"x": 2**0.5, "y": 2**0.5})


def test_refusals():
    with pytest.raises(adc.ShapeError, match="f has 1 equations for 2 unknowns"):
        adc.root(adc.compile("def f(x): return sum(x)"), np.ones(2))
    with pytest.raises(adc.Error, match="root has no method 'newton'"):
        adc.root(cosine, 1.0, (1.0,), "newton")
