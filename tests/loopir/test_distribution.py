"""Loops in strips: functions between inner loops are computed for many iterations at once."""

from __future__ import annotations

import numpy as np
import pytest
from judges.threads import same_bits

import adcompiler as adc
from adcompiler.loopir.nodes import Expand, For, Function
from adcompiler.loopir.parse import functions
from adcompiler.loopir.transforms.pipeline import transformed
from adcompiler.loopir.walk import statements

REGRESSION = """
def regression(w: f64[d], s, x: f64[n, d], y: f64[n]):
    z = exp(s) * (log(y) - x @ w)
    return sum(exp(z) - y * z)
"""
SINGLE = REGRESSION.replace("f64", "f32").replace("w: f32[d], s,", "w: f32[d], s: f32,")
# Between the loops there are a condition, an integer, and a value that two parts read.
CUTS = """
def cuts(w: f64[d], s, x: f64[n, d], y: f64[n]):
    eta = x @ w
    k = clip((2 * eta + 3).astype(int), 0, 4)
    p = 1 / (1 + exp(-eta * s))
    return sum(where(y > 1, log(p), p**2 * (k + 1)) * cos(eta))
"""
# Each element of a row that a loop of the program carries: a sum, and a function of it.
STEPS = """
def steps(w: f64[d], s, x: f64[d, d], y: f64[n]):
    h = w
    for t in range(n):
        h = tanh([sum(x[i, j] * h[j] for j in range(d)) / (1 + d) + s * y[t] for i in range(d)])
    return sum(h**2)
"""
# Many conditions follow from the functions, which the sums after them read.
CENSORED = """
def censored(w: f64[d], s, x: f64[n, d], y: f64[n]):
    total = 0.0
    for i in range(n):
        z = (y[i] / exp(x[i] @ w))**(1 + s)
        if y[i] < 0.75:
            total += log(z) - z
        elif y[i] < 1:
            total -= z
        else:
            total += log(-expm1(-z))
    return total
"""
PROGRAMS = {"regression": REGRESSION, "single": SINGLE, "cuts": CUTS, "steps": STEPS, "censored": CENSORED}


def arguments(text: str, n: int, d: int) -> tuple:
    rng = np.random.default_rng(n + d)
    m = d if "steps" in text else n
    found = 0.3 * rng.standard_normal(d), np.float64(0.4), rng.standard_normal((m, d)), 0.5 + rng.random(n)
    return tuple(a.astype(np.float32) for a in found) if "f32" in text else found


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_values_and_derivatives_are_those_of_the_interpreter(text: str) -> None:
    """With strips that are full, cut off or empty, and rows of every length."""
    tolerance = 5e-4 if "f32" in text else 1e-9
    ours, reference = (adc.compile(text, backend=b) for b in ("cpu", "numpy"))
    for n, d in ((0, 3), (1, 3), (5, 0), (64, 2), (130, 3), (37, 300)):
        args = arguments(text, n, d)
        direction = np.ones_like(args[0]), args[1], np.ones_like(args[2])
        for call in (
            lambda f, args=args: adc.value_and_grad(f, ("w", "s", "x"))(*args),
            lambda f, args=args, v=direction: adc.hvp(f, ("w", "s", "x"))(args, v),
        ):
            for a, b in zip(leaves(call(ours)), leaves(call(reference)), strict=True):
                np.testing.assert_allclose(
                    a, b, rtol=tolerance, atol=tolerance * max(1, np.abs(b).max(initial=0))
                )


def leaves(found: object) -> list:
    return [a for part in found for a in leaves(part)] if isinstance(found, tuple) else [found]


def test_results_do_not_depend_on_threads() -> None:
    f = adc.value_and_grad(adc.compile(REGRESSION), ("w", "s"))
    same_bits(lambda: f(*arguments(REGRESSION, 40_000, 3)))


NEST = "def nest0(block, start, stop, n, x, b, g, y):\n    for i in range(uint64(start), uint64(stop)):\n"


def made(body: str) -> Function:
    """A nest with an iteration, as it is compiled."""
    (found,) = transformed(functions(NEST + body))
    return found


def strips(body: str) -> list[str]:
    """The arrays between the parts of an iteration, in the order of its statements."""
    return [s.name for s in statements(made(body).body) if isinstance(s, Expand)]


DOT = """
        s = 0.0
        for j in range(uint64(0), uint64(n)):
            s = reduce_add(s, x[i, j] * b[j])
"""
ADD = """
        for k in range(uint64(0), uint64(n)):
            g[block, k] = reduce_add(g[block, k], v * x[i, k])
"""


@pytest.mark.parametrize("function", ["math.exp(s)", "s ** p"])
def test_a_function_between_two_loops_has_a_strip_before_and_after_it(function: str) -> None:
    assert strips(f"{DOT}        v = {function}\n{ADD}") == ["s.last.strip", "v.strip"]


def test_what_inner_loops_do_not_read_stands_beside_the_functions_before_them() -> None:
    """One value is passed on, not the nine that the sum before the loop and the stores after it read."""
    many = "".join(f"        w{k} = math.log(s + {k}.0)\n" for k in range(9))
    v = f"        v = {' + '.join(f'w{k}' for k in range(9))}\n"
    after = "".join(f"        y[i, {k}] = w{k}\n" for k in range(9))
    assert strips(DOT + many + v + ADD + after) == ["s.last.strip", "v.strip"]


@pytest.mark.parametrize(
    "body",
    [
        f"{DOT}        v = 2.0 * s\n{ADD}",  # no function
        f"{DOT}        v = s ** 2.0\n{ADD}",  # a product
        f"{DOT}        y[block] = reduce_add(y[block], s)\n",  # nothing after the loop
        f"{DOT}        y[i] = math.exp(s + y[i + 1])\n",  # of another iteration
        f"{DOT.replace('b[j]', 'math.exp(b[j])')}        y[i] = math.log(s)\n",  # mostly functions inside
        "        y[i] = math.exp(y[i])\n",  # no inner loop
    ],
)
def test_other_loops_stay_whole(body: str) -> None:
    assert strips(body) == []


def test_parts_are_loops_over_one_strip() -> None:
    outer = made(f"{DOT}        v = math.exp(s)\n{ADD}").body[-1]
    assert isinstance(outer, For)
    assert [type(s).__name__ for s in outer.body] == ["Assign", "Assign", "For", "For", "Jam"]
