"""Several iterations of a loop in order, element by element: which loops, and that the results are the
same."""

from __future__ import annotations

import numpy as np
import pytest
from judges.plain_kernels import ran as run_by_python
from judges.plain_kernels import several as at_once

from adcompiler.loopir.interleaved_unrolling import several
from adcompiler.loopir.nodes import For, Function
from adcompiler.loopir.parse import functions
from adcompiler.loopir.printer import lines
from adcompiler.loopir.unroll_and_jam import Jam
from adcompiler.loopir.walk import statements

HORNER = """
def f(n, m, p, x, a, r):
    for t in range(uint64(0), uint64(n)):
        v = a[t]
        for i in range(uint64(0), uint64(m)):
            p[i] = p[i] * x[i] + v
"""
MOMENTS = """
def f(n, m, p, x, a, r):
    for back in range(uint64(0), uint64(n)):
        t = uint64(n) - uint64(1) - back
        s = 0.0
        for i in range(uint64(1), uint64(m)):
            w = p[i]
            s = reduce_add(s, w)
            p[i] = w * x[i]
        r[t] = s
"""
TWO = """
def f(n, m, p, x, a, r):
    for t in range(uint64(0), uint64(n)):
        for i in range(uint64(0), uint64(m)):
            v = p[i]
            p[i] = v + 0.1 * x[i]
            x[i] = x[i] - 0.1 * v
"""
TAKEN = {"horner": HORNER, "moments": MOMENTS, "two": TWO}

REFUSED = {
    "an element reads another one": HORNER.replace("p[i] * x[i]", "p[i - 1] * x[i]"),
    "an iteration reads one element": HORNER.replace("a[t]", "p[0]"),
    "an iteration sets one element": HORNER + "        p[0] = 1.0\n",
    "elements have their places in turn": HORNER.replace("p[i] =", "p[t] ="),
    "a variable goes from iteration to iteration": HORNER.replace("v = a[t]", "v = v + a[t]"),
    "a sum goes from iteration to iteration": MOMENTS.replace("        s = 0.0\n", ""),
    "a sum decides": MOMENTS.replace("p[i] = w * x[i]", "p[i] = w * x[i]\n        s = s + r[0]"),
    "an element's variable is used after it": MOMENTS.replace("r[t] = s", "r[t] = s * w"),
    "a variable is used after the loop": MOMENTS + "    r[0] = s\n",
    "the elements depend on the iteration": HORNER.replace("uint64(m)", "uint64(t)"),
    "a condition": HORNER + "        if v > 0.5:\n            r[t] = v\n",
    "two loops": HORNER + "        for k in range(uint64(0), uint64(m)):\n            x[k] = p[k]\n",
    "costly iterations": HORNER.replace("+ v", "+ math.exp(v / x[i])"),
    "an iteration calls": HORNER + "        g(p)\n",
}


def loops(text: str) -> list[Jam]:
    (function,) = functions(text)
    return [s for s in statements(several(function).body) if isinstance(s, Jam)]


def ran(function: Function, n: int, m: int) -> np.ndarray:
    found = run_by_python([function], numbers=False)
    arrays = [np.linspace(k, 1 + k / 7, 12) for k in range(4)]
    found["f"](n, m, *arrays)
    return np.concatenate(arrays)


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("n", range(10))
def test_the_results_are_those_of_one_iteration_after_the_other(name: str, n: int) -> None:
    assert len(loops(TAKEN[name])) == 1
    (function,) = functions(TAKEN[name])
    expected = ran(function, n, 7)
    np.testing.assert_array_equal(ran(at_once(function), n, 7), expected)


@pytest.mark.parametrize("name", REFUSED)
def test_iterations_that_meet_stay_in_order(name: str) -> None:
    assert not loops(REFUSED[name])


def test_an_element_has_its_iterations_one_after_the_other() -> None:
    (loop,) = loops(HORNER)
    *scalars, inner = loop.together
    assert list(lines(scalars)) == [f"v.{k} = a[t.{k}]" for k in range(4)]
    assert isinstance(inner, For)
    assert list(lines(inner.body)) == [f"p[i] = p[i] * x[i] + v.{k}" for k in range(4)]
