"""Index arithmetic: places that are sums of loop indices are computed in loops, not stored and read back."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ir.nodes import Map
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import arrays_of
from adcompiler.runtime.programs.program import Program

RNG = np.random.default_rng(5)
SHIFTED = {
    "rolls": "sum((roll(x, 1, 0) + roll(x, -2, 1) - x * y)**2)",
    "a roll by an argument": "sum(roll(x, len(y), 1) * x * y)",
    "reversed": "sum(x[::-1, ::-1] * x * y)",
    "stencil": "sum((x[1:] - x[:-1])**2) + sum((x[:, 1:] * y[:, :-1])**2)",
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", SHIFTED)
def test_no_array_of_places_is_stored(name: str) -> None:
    args = [RNG.normal(size=(6, 8)) for _ in range(2)]
    f = adc.value_and_grad(adc.compile(f"def f(x: f64[n, m], y: f64[n, m]):\n    return {SHIFTED[name]}"))
    program = Program.of(f._trace(f._describe(tuple(args), {})[0]), "cpu")
    made = program.executable.general.made
    assert [
        a for a in arrays_of(made.func.roots) if isinstance(a, Map) and a.rank and not is_float(a.dtype)
    ] == []
    adc.check_grad(adc.compile(SHIFTED[name]), *args)


def test_places_in_a_loop_are_computed_not_stored():
    """The remainders in the places of `roll` do not change from iteration to iteration; they cost nothing."""
    f = adc.compile(
        "def f(x: f64[n], k: i64):\n"
        "    for _ in range(k):\n"
        "        x = x + 0.1 * (roll(x, 1) - x)\n"
        "    return sum(x)"
    )
    gradient = adc.grad(f)
    gradient(np.arange(5.0), 3)
    nests = gradient.show("kernel").partition("def run(")[0]
    assert "%" not in nests
