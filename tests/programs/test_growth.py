"""The work of the compiler grows in proportion to a program.

Families of programs have a size as their parameter. Of each, the nodes of the gradient after reverse mode,
and after the passes, are counted at a size, its double and its fourfold: the second step is at most a little
more than twice the first. Nothing is timed, and nothing compiled to machine code. Families that grow faster
stand in `KNOWN` with their figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from judges import growth

import adcompiler as adc
from adcompiler.ad.programs.split import value_and_grad
from adcompiler.ir.nodes import Func
from adcompiler.passes.pipeline import OPTIMISE, PREPARE, SIMPLIFY, run

SIZES = (2, 4, 8)
MOST = 1.35  # times the growth of the first step, for twice the step

GRID = np.random.default_rng(0).normal(size=(9, 9))
ROW = GRID[0]
PLACES = np.arange(9)

INSIDE = "(u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])"
MULTIGRID = """
def smooth(u, f):
    v = np.zeros(u.shape) + u
    v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + f[1:-1, 1:-1])
    return v

def residual(u, f):
    r = np.zeros(u.shape)
    r[1:-1, 1:-1] = f[1:-1, 1:-1] - 2 * u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1]
    return r

def restrict(r):
    m = (len(r) + 1) // 2
    c = np.zeros((m, m))
    c[1:-1, 1:-1] = 0.5 * r[2:-2:2, 2:-2:2] + 0.25 * (r[1:-3:2, 2:-2:2] + r[3:-1:2, 2:-2:2])
    return c

def prolong(e):
    n = 2 * len(e) - 1
    p = np.zeros((n, n))
    p[::2, ::2] = e
    p[1::2, ::2] = 0.5 * (e[:-1] + e[1:])
    p[::2, 1::2] = 0.5 * (e[:, :-1] + e[:, 1:])
    p[1::2, 1::2] = 0.25 * (e[:-1, :-1] + e[1:, :-1] + e[:-1, 1:] + e[1:, 1:])
    return p

def cycle(u, f):
    u = smooth(u, f)
    c = restrict(residual(u, f))
    e = smooth(np.zeros(c.shape), c)
    return smooth(u + prolong(e), f)
"""


def lines(head: str, line: str, count: int, tail: str = "sum(u * u)") -> str:
    """A function with a line that stands in it several times, with `{k}` as its number."""
    body = "".join(f"    {line.replace('{k}', str(k))}\n" for k in range(count))
    return f"{head}\n{body}    return {tail}\n"


Source = Callable[[int], str]
FAMILIES: dict[str, tuple[Source, tuple[np.ndarray, ...]]] = {
    "sweeps": (
        lambda n: lines("def f(u: f64[n, n]):\n    u = 1 * u", f"u[1:-1, 1:-1] = 0.25 * {INSIDE}", n),
        (GRID,),
    ),
    "nonlinear sweeps": (
        lambda n: lines("def f(u: f64[n, n]):\n    u = 1 * u", f"u[1:-1, 1:-1] = sin({INSIDE})", n),
        (GRID,),
    ),
    "sweeps of a row": (
        lambda n: lines("def f(u: f64[n]):\n    u = 1 * u", "u[1:-1] = sin(u[:-2]) * u[2:]", n),
        (ROW,),
    ),
    "layers": (lambda n: lines("def f(u: f64[n, n]):\n    W = u", "u = tanh(u @ W + W[{k}])", n), (GRID,)),
    "calls of helpers": (
        lambda n: "def g(u): return sin(u) * u + 0.1\n" + lines("def f(u: f64[n]):", "u = g(u)", n),
        (ROW,),
    ),
    "stores at fixed places": (
        lambda n: lines("def f(u: f64[n]):\n    u = 1 * u", "u[{k}] = sin(u[{k}]) * u[-1]", n),
        (ROW,),
    ),
    "stores at computed places": (
        lambda n: lines(
            "def f(u: f64[n], p: i64[m]):\n    u = 1 * u", "u[p[{k}]] = sin(u[p[{k}] - 1])", n
        ),
        (ROW, PLACES),
    ),
    "stores at computed places in a loop": (
        lambda n: lines(
            "def f(u: f64[n], p: i64[m]):\n    u = 1 * u\n    for t in range(len(p)):",
            "    u[(p[t] + {k}) % 9] = sin(u[p[t]])", n,
        ),
        (ROW, PLACES),
    ),
    "slices": (
        lambda n: lines("def f(u: f64[n]):\n    u = 1 * u", "u[{k}:] = sin(u[{k}:]) + u[{k}]", n),
        (ROW,),
    ),
    "stages of Runge and Kutta": (
        lambda n: "def r(u): return stack((u[1], sin(u[0]) * u[1], u[2] * u[0]))\n"
        + lines("def f(u: f64[n]):\n    u = u[:3]", "u = u + 0.1 * r(u + 0.05 * r(u))", n),
        (ROW,),
    ),
    "conditions": (
        lambda n: lines("def f(u: f64[n]):", "u = where(u > {k}, u * u, sin(u))", n),
        (ROW,),
    ),
    "V cycles": (
        lambda n: MULTIGRID + lines("def f(u: f64[n, n]):\n    b = u", "u = cycle(u, b)", n),
        (GRID,),
    ),
}  # fmt: skip
# Families whose programs grow faster in the passes, with the figures for `SIZES`.
KNOWN: dict[str, str] = {
    "stores at computed places": "96, 245 and 718 nodes",
    "stores at computed places in a loop": "149, 304 and 751 nodes",
    "slices": "55, 157 and 437 nodes",
    "nonlinear sweeps": "345 and 623 nodes; 8 sweeps take long to decide",
    "V cycles": "two cycles take long to decide",
}


BEHIND = {"slices"}  # those of which reverse mode makes more: 136, 588 and 8944 nodes


def gradient(source: str, args: tuple[np.ndarray, ...]) -> Func:
    """The value and the gradient of a program, as reverse mode makes them."""
    f = adc.compile(source, name="f")
    types, *_ = f._describe(args)
    return value_and_grad(f._trace(types).func, f._inputs_of(f._positions(None, types), types), True)


def known(name: str) -> Any:
    """A family, which may be known to grow faster."""
    if name not in KNOWN:
        return name
    return pytest.param(name, marks=pytest.mark.xfail(strict=True, run=False, reason=KNOWN[name]))


@pytest.mark.parametrize("name", [known(name) if name in BEHIND else name for name in FAMILIES])
def test_reverse_mode_grows_in_proportion_to_the_program(name: str) -> None:
    source, args = FAMILIES[name]
    found = [growth.nodes(gradient(source(n), args)) for n in SIZES]
    assert growth.excess(found) < MOST, found


@pytest.mark.slow
@pytest.mark.parametrize("name", [known(name) for name in FAMILIES])
def test_passes_grow_in_proportion_to_the_program(name: str) -> None:
    source, args = FAMILIES[name]
    passes = (*SIMPLIFY, *OPTIMISE, *PREPARE)
    found = [growth.nodes(run(passes, gradient(source(n), args))) for n in SIZES]
    assert growth.excess(found) < MOST, found
