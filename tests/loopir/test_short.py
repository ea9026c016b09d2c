"""Loops that are written out: a known, small number of iterations, and not too much text."""

from textwrap import indent

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.loopir.nodes import Stmt
from adcompiler.loopir.parse import functions
from adcompiler.loopir.short_loops import has_loops, short

SUM = "for k in range(uint64(0), uint64({n})):\n    s = s + a[k]\n"
NESTED = """
for k in range(uint64(0), uint64({n})):
    for l in range(uint64(1), uint64({n})):
        s = s + a[k, l]
"""
ASKING = SUM + "    t = select(k == 2, 1.0, 0.0) + t\n"


def statement(text: str, n: object) -> Stmt:
    (function,) = functions("def f():\n" + indent(text.format(n=n), "    "))
    return function.body[0]


def test_more_is_written_out_where_most_of_it_folds() -> None:
    long = "".join(f"    v{k} = a[k] * {k}.0 + v{k}\n" for k in range(50))
    assert short(statement(SUM, 7)) == range(7)
    assert short(statement(SUM, 8)) is None
    assert short(statement(SUM + long * 3, 7)) is None
    assert short(statement(ASKING + long, 16)) == range(16)
    assert short(statement(ASKING + long, 17)) is None


def test_not_where_there_are_many_iterations_of_it() -> None:
    inner = (
        "    for l in range(uint64(0), uint64({n})):\n        t = select(l == k, a[l], 0.0) * a[k] + t\n" * 9
    )
    outer = "for k in range(uint64(0), uint64({n})):\n"
    assert short(statement(outer + inner, 5)) == range(5)
    assert short(statement(outer + inner, 8)) is None


def test_loops_that_remain() -> None:
    assert not has_loops([statement(NESTED, 3)])
    assert has_loops([statement("for i in range(uint64(0), uint64(n)):\n    x = a[i]\n", 0)])


@pytest.mark.thinned(3)
@pytest.mark.parametrize("n", [2, 3, 12])
def test_fixed_matrices(n: int) -> None:
    """Products and their derivatives, with short loops and with loops that are none."""
    text = f"""
def f(a: f64[{n}, {n}], x: f64[m, {n}]):
    y = [[tanh(sum(a[k, l] * x[i, l] for l in range({n}))) for k in range({n})] for i in range(m)]
    return sum(y[i, k] * y[i, (k + 1) % {n}] * (k if k > 1 else x[i, k])
               for i in range(m) for k in range({n}))
"""
    rng = np.random.default_rng(n)
    args = rng.standard_normal((n, n)), rng.standard_normal((9, n))
    fast, plain = (adc.compile(text, backend=b) for b in ("cpu", "numpy"))
    np.testing.assert_allclose(fast(*args), plain(*args), rtol=1e-13)
    for got, true in zip(adc.grad(fast, (0, 1))(*args), adc.grad(plain, (0, 1))(*args), strict=True):
        np.testing.assert_allclose(got, true, rtol=1e-11, atol=1e-13)
    second = [adc.hvp(f, 0)(args, args[0]) for f in (fast, plain)]
    np.testing.assert_allclose(*second, rtol=1e-10, atol=1e-12)
