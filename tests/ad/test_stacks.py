"""What an iteration saves of an array that it changes: the parts that its reverse reads."""

from __future__ import annotations

import numpy as np

import adcompiler as adc
from adcompiler.ad.programs.split import value_and_grad
from adcompiler.ir.loop import Item
from adcompiler.ir.walk import arrays_of
from adcompiler.passes.pipeline import SIMPLIFY, run

PRUNING = """
def pruning(part0: f64[n, l, 3], rate: f64[k], left: i64[k], right: i64[k]):
    part = part0.copy()
    for e in range(k):
        for site in range(l):
            for x in range(3):
                a, b = 0.0, 0.0
                for y in range(3):
                    a += (rate[e] if x == y else 0.2) * part[left[e], site, y]
                    b += (rate[e] if x == y else 0.3) * part[right[e], site, y]
                part[n - k + e, site, x] = a * b
    return sum(log(sum(part[n - 1], axis=1)))
"""
RNG = np.random.default_rng(5)
TREE = (RNG.uniform(0.5, 1.5, (5, 2, 3)), np.array([0.5, 0.7]), np.array([0, 3]), np.array([1, 2]))


def test_reads_between_stores_save_what_is_read() -> None:
    """Each of the unrolled stores is followed by reads at computed places of the array that it makes."""
    f = adc.compile(PRUNING)
    func = f._trace(f._describe(TREE, {})[0]).func
    gradient = run(SIMPLIFY, value_and_grad(func, [0, 1], with_value=True))
    stacks = [a for a in arrays_of(gradient.results) if isinstance(a, Item) and a.k >= len(a.loop.results)]
    assert stacks
    assert all(stack.rank <= 3 for stack in stacks)  # over iterations, sites and the three elements


def test_derivatives_of_reads_between_stores() -> None:
    f = adc.compile(PRUNING)
    adc.check_grad(f, *TREE, order=2)
    same = (*TREE[:2], np.array([0, 4]), np.array([3, 2]))  # one iteration reads what it stores
    adc.check_grad(f, *same)


def test_the_loop_that_saves_computes_the_value() -> None:
    """What it saves is not separate from its iterations, which are those of the value."""
    f = adc.compile(
        "def f(x: f64[n], w):\n    h = 0.5\n    for v in x:\n        h = tanh(w * h + v)\n    return h"
    )
    func = f._trace(f._describe((np.ones(3), 0.3), {})[0]).func
    gradient = run(SIMPLIFY, value_and_grad(func, [0, 1], with_value=True))
    assert len({a.loop for a in arrays_of(gradient.results) if isinstance(a, Item)}) == 2
