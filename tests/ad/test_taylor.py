"""Taylor mode: the derivatives along a line are those of nested forward mode, and the oracle's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from judges.compared import leaves, near
from oracle import derivative

import adcompiler as adc
from adcompiler.ad.jvp import jvp
from adcompiler.ad.taylor import taylor
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Apply, Map, const, zeros_like
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.passes.pipeline import OPTIMISE, run
from adcompiler.runtime.arguments.signature import FLOAT

X = np.array([0.4, 0.9, 0.6])
LOOP = """
def f(x, y):
    s = x
    for k in range(6):
        s = s + 0.2 * sin(s * y) * x
    return s
"""
WHILE = """
def f(x, y):
    s = x
    while s < 4:
        s = s * x + exp(s * y)
    return s
"""
SMOOTH = {
    "exp(x) * sin(x * y) - x / (1 + x * y)": (0.4, 0.7),
    "tanh(y * tanh(x)) + sigmoid(x * y)": (0.4, 0.7),
    "sqrt(1 + x * x) * log(x + y) + x**y + x**3 + x**-2": (0.4, 0.7),
    "asin(x) * acos(y * x) + atan2(x, y) + hypot(x, y) + cosh(x) / cos(y)": (0.4, 0.7),
    "gamma(x + 1) + erf(x * y) + lgamma(y)": (0.4, 0.7),
    "sum(x**2 * exp(x * y)) / sum(x)": (X, 0.7),
    "logsumexp(x * y * x)": (X, 0.7),
    "prod(sin(x) * y)": (X, 0.7),
    "max(x * y) * min(sin(x)) + sum(where(x > 0.5, x * x, sin(x * y)))": (X, 0.7),
    "x[::-1] * y + x @ x": (X, 0.7),
    "def f(x, y):\n    return x * y, sum(sin(x)), 2.0": (X, 0.7),
    "[sum(sin(v * w) for w in x) * y for v in x]": (X, 0.7),
    LOOP: (0.4, 0.7),
    WHILE: (1.4, 0.3),
}


def directions(args):
    return tuple(np.full(np.shape(a), 0.5 + 0.25 * k) for k, a in enumerate(args))


@pytest.mark.thinned(6)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("source", SMOOTH)
def test_derivatives_along_a_line_are_the_oracles(source, backend):
    f, args = adc.compile(source, backend=backend), SMOOTH[source]
    way = directions(args)
    found = adc.taylor(f, args, way, 4)
    assert len(found) == 5
    near_all(found[0], f(*args))
    for k in (1, 2, 3, 4):
        expected, error = derivative(source, args, [way] * k)
        assert error < 1e-6
        near_all(found[k], expected)


def near_all(actual, expected):
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            near(a, e)
    else:
        near(actual, expected)


A = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.2], [-0.3, 0.4, 1.2]])
ROUTINES = (
    "solve(a, x) + inv(a) @ x",
    "det(a) + slogdet(a)[1]",
    "cholesky(a @ a.T)",
    "eigh(a + a.T)",
    "svd(a, full_matrices=False)[1]",
    "qr(a)[1]",
    "pinv(a)",
    "expm(a)",
    "lstsq(a, x)[0]",
    "solve_triangular(tril(a), x, lower=True)",
    "sort(x) ** 2 * median(x) * quantile(x, 0.3)",
    "interp(x[0], [0.0, 0.5, 2.0], x) ** 2",
    "norm(x * a) + std(x * a, axis=0)",
)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("source", ROUTINES)
def test_routines_and_rules_are_as_in_nested_forward_mode(source):
    f = adc.compile(source, args="a, x", backend="numpy")
    found = adc.taylor(f, (A, X), (np.ones((3, 3)), np.ones(3)), 3)
    nested = f
    for derivative_of_order in found:
        for one, other in zip(leaves(derivative_of_order), leaves(nested(A, X)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        nested = Along(nested)


def test_diff_of_third_order_of_a_routine():
    third = adc.compile("diff(det(x * a) + sum(solve(a, [x, x**2, x**3])), x, 3)", backend="numpy")
    assert third(0.7, A) == pytest.approx(6 * np.linalg.det(A) + 6 * np.linalg.inv(A)[:, 2].sum())


KINKS = {
    "where(x > 0, sqrt(x * y), 0)": (0.0, 2.0),
    "sqrt(where(x > 0, x, 0))": (0.0,),
    "sqrt(where(x > 0, x, 0))  # inside": (1.7,),
    "abs(x)**3": (-0.5,),
    "maximum(x, y)": (0.5, 0.5),
    "relu(x) * exp(x)": (0.0,),
    "max(x)": (np.array([0.5, 0.5, 0.1]),),
    "x**3": (0.0,),
    "x**2": (0.0,),
    "xlogy(x, y)": (0.0, 0.5),
}


@pytest.mark.parametrize("source", KINKS)
def test_at_kinks_and_guards_it_is_as_nested_forward_mode(source):
    args = KINKS[source]
    f = adc.compile(source, backend="numpy")
    way = tuple(np.ones(np.shape(a)) for a in args)
    found = adc.taylor(f, args, way, 3)
    nested = f
    for derivative_of_order in found:
        np.testing.assert_allclose(derivative_of_order, nested(*args), rtol=1e-13)
        nested = Along(nested)


class Along(adc.Function):
    """The derivative of a function along ones, by forward mode: it nests."""

    def __init__(self, of):
        super().__init__(f"along({of.__name__})", of._parameters, "numpy")
        self._of = of

    def _trace(self, types):
        lowered = self._of._trace(types)
        func = lowered.func
        made = jvp(func.results, {i: Map(i.shape, const(1, i.dtype)) for i in func.inputs})
        results = tuple(zeros_like(r) if m is None else m for m, r in zip(made, func.results, strict=True))
        return Lowered(func.with_(results=results), lowered.constraints, lowered.structure)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("text", ["exp(sin(x))", "1 / (1 + x**2)", "tanh(x)**2", "log(1 + exp(x))", "x**2.5"])
def test_high_orders_are_sympys(text):
    x = sympy.Symbol("x")
    expression = sympy.sympify(text)
    found = adc.taylor(adc.compile(text), (0.3,), (1.0,), 9)
    for k in range(10):
        exact = float(sympy.diff(expression, x, k).subs(x, sympy.Rational(3, 10)).evalf(30))
        assert math.isclose(found[k], exact, rel_tol=1e-11, abs_tol=1e-11)


def test_diff_of_high_order_is_taylor_mode_and_differentiates_again():
    f = adc.compile("diff(exp(x * y) * sin(x), x, 5)")
    expected, _ = derivative("exp(x * y) * sin(x)", (0.3, 0.8), [[1.0, None]] * 5 + [[None, 1.0]])
    assert math.isclose(adc.grad(f, "y")(0.3, 0.8), expected, rel_tol=1e-9)
    again, _ = derivative("exp(x * y) * sin(x)", (0.3, 0.8), [[1.0, None]] * 6)
    assert math.isclose(adc.grad(f, "x")(0.3, 0.8), again, rel_tol=1e-9)


def test_it_takes_no_more_operations_than_nested_forward_mode():
    """Six orders of log(1 + exp(x)) take a third of the operations, of 1 / (1 + x * x) a quarter."""
    for source, share in (("log(1 + exp(x))", 0.4), ("1 / (1 + x * x)", 0.3), ("tanh(tanh(x))", 1.0)):
        f = adc.compile(source, backend="numpy")
        nested = f
        for _ in range(6):
            nested = Along(nested)
        taylor = adc.compile(f"diff({source}, x, 6)", backend="numpy")
        assert operations(taylor) <= share * operations(nested)


def operations(f):
    func = run(OPTIMISE, f._trace((FLOAT,)).func)
    elements = elements_of(e for a in arrays_of(func.results) for e in a.elements)
    return sum(isinstance(e, Apply) for e in elements)


def test_bad_orders_and_directions_are_refused():
    f = adc.compile("x * y")
    with pytest.raises(adc.Error, match="order 0"):
        adc.taylor(f, (1.0, 2.0), (1.0, None), 0)
    with pytest.raises(adc.Error, match="directions"):
        adc.taylor(f, (1.0, 2.0), (1.0,), 2)
    with pytest.raises(adc.ShapeError, match="tangent of x"):
        adc.taylor(f, (1.0, 2.0), (np.ones(2), None), 2)


LOOPS = {
    "rows": "    s = y[0]\n    for i in range(len(x)):\n        s = sin(s * x[i]) + y[i] * s\n    return s",
    "outs": "    r = zeros(len(x))\n    s = y[0]\n    for i in range(len(x)):\n        s = sin(s) * x[i]\n"
    "        r[i] = s * s\n    return sum(r * y)",
    "nested": "    s = 0.5\n    for i in range(len(x)):\n        t = y[i]\n        for j in range(i + 1):\n"
    "            t = t * cos(x[j] * s)\n        s = s + t\n    return s",
    "matrices": "    m = [[x[0], y[0]], [x[1], y[1]]]\n    p = m\n    for i in range(4):\n"
    "        p = sin(m @ p) + x[i % len(x)]\n    return sum(p)",
    "while": "    s = x[0]\n    while s < 4:\n        s = s * (1 + x[1]) + exp(-s * y[0])\n    return s",
    "norms": "    s = y[0]\n    for i in range(len(x)):\n        s = s + 0.3 * norm(x * s)\n    return s",
    "deviations of slices": "    s = y[0]\n    for i in range(1, len(x)):\n"
    "        s = sin(s) + std(x[: i + 1] * s) * norm(x[i:] * s)\n    return s",
    "systems": "    s = x\n    for i in range(3):\n        s = solve(outer(s, y) + 3 * eye(3), s + x)\n"
    "    return sum(s)",
    "constant start": "    s = 0.0\n    k = 1.0\n    for v in x:\n        k = k + 1.0\n"
    "        s = s * v + k * y[0]\n    return s",
}


@pytest.mark.thinned(4)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("name", LOOPS)
def test_loops_carry_their_derivatives(name, backend, dtype):
    """The derivatives of f(x + t v, y + t w) to order 5 are those of a series through exact values in t: a
    polynomial of degree 15 through Chebyshev's points, at which the interpreter has computed f."""
    f = adc.compile(f"def f(x, y):\n{LOOPS[name]}", backend=backend)
    plain = adc.compile(f"def f(x, y):\n{LOOPS[name]}", backend="numpy")
    x, v = np.array([0.5, 0.8, 1.1]), np.array([0.3, -0.2, 0.5])
    y, w = np.array([0.7, 0.4, 0.9]), np.array([0.1, 0.6, -0.3])
    found = adc.taylor(f, *(tuple(a.astype(dtype) for a in pair) for pair in ((x, y), (v, w))), 5)
    width = 0.25
    series = np.polynomial.Chebyshev.interpolate(
        np.vectorize(lambda t: plain(x + t * v, y + t * w)), 15, domain=[-width, width]
    )
    tolerance = 1e-5 if dtype == np.float64 else 1e-3
    for k, got in enumerate(found):
        expected = float(series.deriv(k)(0.0)) if k else float(series(0.0))
        assert float(got) == pytest.approx(expected, rel=tolerance, abs=tolerance)


def test_a_loop_grows_as_the_square_of_the_order():
    f = adc.compile(LOOP)
    lowered = f._trace((FLOAT, FLOAT))
    x = lowered.func.inputs[0]
    sizes = []
    for order in (2, 4, 8):
        found = taylor(lowered.func.results, {x: Map((), const(1, "f64"))}, order)
        (item,) = {a.loop for a in arrays_of(found[-1][-1:]) if isinstance(a, Item)}
        sizes.append(sum(len(elements_of(a.elements)) for a in arrays_of(item.roots)))
    assert sizes[2] < 5 * sizes[1] < 25 * sizes[0]
