"""Arrays that a reverse loop restores: what an iteration overwrites is saved, not the array."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ad.programs.split import value_and_grad
from adcompiler.ir.loop import Item
from adcompiler.ir.walk import arrays_of
from adcompiler.passes.pipeline import SIMPLIFY, run

NEIGHBOURS = """
    for i in range(m):
        z[i] = tanh(sum(z[at[i, k]] * (k + 1.0) for k in range(3)))"""
TWICE = """
    for i in range(m):
        z[at[i, 0]] *= cos(sum(z[at[i, 1] : at[i, 1] + 2] ** 2))
        if z[at[i, 2]] > 0.1:
            z[at[i, 1]] = z[at[i, 0]] * z[at[i, 2]]"""
WHILE = """
    q = 0
    while q < m:
        z[q] += sin(sum(z[at[q, 0] : at[q, 0] + at[q, 1]] ** 2))
        q += 1"""
ROWS = """
    y = x[:, None] * x
    for i in range(m):
        y[at[i, 0], :] *= tanh(sum(y[:, at[i, 1]] ** 2))
        y[at[i, 2], at[i, 0]] = z[i]
    z = y[at[0, 0]]"""
LOOPS = {"neighbours": NEIGHBOURS, "two stores": TWICE, "while": WHILE, "rows": ROWS}
SOURCE = """
def f(x: f64[n], at: i64[m, 3]):
    z = 1.5 * x{}
    return sum(z ** 2)
"""
RNG = np.random.default_rng(3)
ARGS = (RNG.uniform(0.5, 1.5, 5), np.array([[0, 1, 2], [2, 3, 0], [3, 1, 3], [1, 0, 2]]))


@pytest.mark.parametrize("name", LOOPS)
def test_derivatives(name: str) -> None:
    f = adc.compile(SOURCE.format(LOOPS[name]))
    adc.check_grad(f, *ARGS, order=2)


@pytest.mark.parametrize("name", ["neighbours", "two stores", "while"])
def test_no_copies_are_saved(name: str) -> None:
    f = adc.compile(SOURCE.format(LOOPS[name]))
    gradient = run(SIMPLIFY, value_and_grad(f._trace(f._describe(ARGS, {})[0]).func, [0], with_value=True))
    items = [a for a in arrays_of(gradient.results) if isinstance(a, Item)]
    assert any(a.loop.backward for a in items)
    stacks = [a for a in items if a.k >= len(a.loop.results) and a.dtype == "f64"]
    assert stacks
    assert all(stack.rank == 1 for stack in stacks)
