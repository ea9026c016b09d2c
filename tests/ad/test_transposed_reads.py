"""Adjoints of reads of a transpose add to the array itself, also where a computed place is read."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

PROGRAMS = {
    "columns of gathered rows": """
def f(E, at):
    total = 0.0
    for k in range(len(at)):
        s = 0.0
        for c in range(E.shape[1]):
            s += abs(E[at[k], c] - E[at[len(at) - 1 - k], c])
        total += max(s - 0.5, 0.0)
    return total
""",
    "a transpose by name": """
def f(E, at):
    T = transpose(E)
    return sum(sqrt(T[:, at[0]] ** 2 + T[0, at[3]] ** 2 + 1) * T[:, at[1]])
""",
    "a transpose of a transpose": """
def f(E, at):
    T = transpose(2 * transpose(E))
    return sum(exp(T[at[0]] * T[at[2]]))
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("rows", [5, 1])
def test_gradients(name: str, rows: int) -> None:
    rng = np.random.default_rng(1)
    args = rng.normal(size=(rows, 3)), rng.integers(0, rows, 4)
    adc.check_grad(adc.compile(PROGRAMS[name], backend="numpy"), *args, order=2)
    compiled, plain = (adc.grad(adc.compile(PROGRAMS[name], backend=b), "E") for b in ("cpu", "numpy"))
    np.testing.assert_allclose(compiled(*args), plain(*args), rtol=1e-12, atol=1e-12)
    single = compiled(args[0].astype(np.float32), args[1])
    np.testing.assert_allclose(single, plain(*args), rtol=1e-4, atol=1e-5)


def test_a_gradient_adds_to_rows_of_the_array() -> None:
    """Nothing is added to a transpose, and nothing counts which elements are read."""
    gradient = adc.grad(adc.compile(PROGRAMS["columns of gathered rows"]), "E")
    ir = gradient.show("ir", np.ones((3, 2)), np.array([0, 1]))
    assert ir.count("accumulate [n, m]") == 2
    assert "accumulate [m, n]" not in ir
