"""Passes before the schedule, judged by the kernels that come of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import adcompiler as adc

RNG = np.random.default_rng(3)
X, Y, A, B = RNG.normal(size=3), RNG.normal(size=4), RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5))


# -- factors drawn out of sums -------------------------------------------------------------------------


def test_a_sum_of_nothing_is_nothing():
    f = adc.compile(
        "def f(x: f64[n], y: f64[m]):\n    return sum(x[i] * y[j] for i in range(n) for j in range(m))"
    )
    for x, y in ((X[:0], np.array([np.inf, np.nan])), (np.array([np.inf]), Y[:0]), (X[:0], Y[:0])):
        assert f(x, y) == 0.0


def test_what_stays_out_of_the_inner_loop_meets_its_sum():
    """The sums over j that the gradient has are those of the value, too."""
    f = adc.compile(
        "def f(m: f64[n], x: f64[n]):\n"
        "    return sum(m[i] * m[j] / sqrt((x[i] - x[j])**2 + 0.1) for i in range(n) for j in range(n))"
    )
    m, x = np.abs(X), X
    value, (dm, dx) = adc.value_and_grad(f)(m, x)
    d = x[:, None] - x
    inverse = 1 / np.sqrt(d**2 + 0.1)
    np.testing.assert_allclose(value, m @ inverse @ m, rtol=1e-13)
    np.testing.assert_allclose(dm, 2 * inverse @ m, rtol=1e-13)
    np.testing.assert_allclose(dx, -2 * m * (d * inverse**3 @ m), rtol=1e-12)
    g = adc.value_and_grad(f)
    g(m, x)
    assert len(re.findall(r"\n {12}\S+ = reduce_add", g.show("kernel"))) == 2  # in the inner loop
    adc.check_grad(f, m, x, order=2)


def test_pairs_are_not_stored_for_a_factor():
    """What is drawn out is no larger than the result."""
    f = adc.compile(
        "def f(x: f64[n], y: f64[m], z: f64[k]):\n"
        "    return sum(exp(-(x[i] - y[j])**2 * z[l]) * cos(x[i] * y[j]) for i in range(n) for j in range(m)"
        " for l in range(k))"
    )
    args = (X, Y, Y)
    x, y, z = X[:, None, None], Y[None, :, None], Y[None, None, :]
    np.testing.assert_allclose(f(*args), np.sum(np.exp(-((x - y) ** 2) * z) * np.cos(x * y)), rtol=1e-13)
    text = f.show("kernel")
    params = re.search(r"def run\((.*?)\)", text)[1].split(", ")
    arrays = [p for p in params if p not in ("n", "m", "k", "x", "y", "z")]
    (row,) = (p for p in arrays if not re.match("part|blocks|rows", p))
    assert f"{row}[block, i" in text, "cos(x y) is one row a block, so that it is vectorised"
    assert re.findall(rf"{row}\[[^]]*, [^]]*, ", text) == []


# -- one division for a shared denominator -------------------------------------------------------------


EDGES = np.array([0.0, -0.0, np.inf, np.nan, -1.0, 5e-324, 1e-310, 1e-200, 1e300, 1.7e308])


@pytest.mark.parametrize("quotient", ["1 / sqrt(x)", "2 / sqrt(x)", "x / sqrt(x)"])
def test_quotients_by_roots_at_the_edges(quotient):
    f = adc.compile(f"def f(x: f64[n]):\n    return {quotient}")
    for x in (EDGES, *EDGES[:, None]):  # together, and each alone
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(f(x), eval(quotient, {"x": x, "sqrt": np.sqrt}), rtol=3e-16)


# -- no division by a root of what is there ------------------------------------------------------------


CUBES = "1 / ((x * x + 1) * sqrt(x * x + 1))", "exp(-x) / (sqrt(x * x + 0.1) * (x * x + 0.1))"


@pytest.mark.parametrize("text", CUBES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_derivatives_of_reciprocal_cubes_have_no_root(text, dtype):
    """Newton's attraction: sqrt(s) / (s sqrt(s))^2, which its derivative has, is a power of 1 / sqrt(s)."""
    x = RNG.normal(size=6).astype(dtype)
    for derivative in (adc.grad, adc.hessian):
        one, other = (derivative(adc.compile(f"sum({text})", backend=b)) for b in ("cpu", "numpy"))
        np.testing.assert_allclose(one(x), other(x), rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-6)
        assert derivative is adc.hessian or "math.sqrt(" not in statements(one)


@pytest.mark.parametrize("x", [0.0, 5e-324, 1e-310, np.inf, np.nan])
def test_what_may_be_zero_is_divided_by_its_root(x):
    text = "def f(p: f64[n]):\n    return sum(x / sqrt(x) for x in p)"
    one, other = (adc.compile(text, backend=b) for b in ("cpu", "numpy"))
    np.testing.assert_array_equal(one(np.array([x])), other(np.array([x])))


QUOTIENTS = "exp(x / y)", "log(x / y)", "(x / y)**1.5"  # the quotient, and what both gradients are made of


def statements(f):
    """A kernel without its comments."""
    return "\n".join(line for line in f.show("kernel").splitlines() if not line.lstrip().startswith("#"))


def divisions(f):
    return statements(f).count(" / ")


@pytest.mark.parametrize("text", QUOTIENTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_of_quotients_divide_once_for_both(text, dtype):
    """x gets g / y, and y gets -(g / y) times the quotient."""
    f, slow = (adc.value_and_grad(adc.compile(f"sum({text})", backend=b)) for b in ("cpu", "numpy"))
    x, y = (RNG.uniform(1, 2, 9).astype(dtype) for _ in range(2))
    for got, expected in zip(np.ravel(f(x, y)[1]), np.ravel(slow(x, y)[1]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5 if dtype == np.float32 else 1e-13)
    assert divisions(f) == 2
    adc.check_grad(adc.compile(text), 1.5, 1.25, order=2)


@pytest.mark.parametrize("text", QUOTIENTS)
def test_quotients_keep_their_infinities_and_nans(text):
    f, slow = (adc.grad(adc.compile(f"sum(g * {text})", backend=b)) for b in ("cpu", "numpy"))
    special = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan]
    g, x, y = (np.ravel(a) for a in np.meshgrid([0.0, 1.0, np.inf, np.nan], special, special))
    with np.errstate(all="ignore"):
        for got, expected in zip(f(g, x, y), slow(g, x, y), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12)


# -- sums over one domain that are added to each other are one -----------------------------------------


def test_the_gradient_of_forces_between_pairs_adds_up_once_a_component():
    """What a particle feels, and what all others feel of it, in each of two coordinates."""
    source = (
        "def f(x: f64[n, 2], m: f64[n]):\n    p = sin(x)\n"
        "    def near(i, j):\n        return 1 / (sum((p[j, c] - p[i, c])**2 for c in range(2)) + 0.1)\n"
        "    def force(i, k):\n        return sum((p[j, k] - p[i, k]) * (m[j] * near(i, j))"
        " for j in range(n))\n"
        "    return sum(cos(force(i, k)) for i in range(n) for k in range(2))"
    )
    one, other = (adc.grad(adc.compile(source, backend=b), "x") for b in ("cpu", "numpy"))
    args = RNG.normal(size=(9, 2)), RNG.uniform(1, 2, 9)
    np.testing.assert_allclose(one(*args), other(*args), rtol=1e-11, atol=1e-13)
    assert statements(one).count("reduce_add(") == 4, "two of the force, two of the gradient"
    adc.check_grad(adc.compile(source), *args, wrt="x", order=2)


# -- what is compared for equality keeps its rounding --------------------------------------------------

EXTREMA = {
    "a denominator that others share": "max(t[i] + (b[l] - c[i, l]) / (1.5 + u[l]**2) for l in range(k))",
    "two quotients": "max(b[l] / (1.5 + c[i, l]**2) + b[l] / (1.5 + t[i]**2) for l in range(k))",
    "like terms": "min(b[l] * (c[i, l] * t[i]) + 3 * (t[i] * b[l] * c[i, l]) - u[l] for l in range(k))",
    "products": "max(t[i] * u[l] + b[l] * c[i, l] for l in range(k))",
    "a choice": "max(b[l] * abs(b[l]) + where(u[l] * c[i, l] > 0, t[i], u[l]) for l in range(k))",
    "a root": "max((1 + c[i, l]**2) / sqrt(1 + c[i, l]**2) * b[l] + t[i] for l in range(k))",
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", EXTREMA)
def test_the_elements_that_equal_an_extremum_are_found(name):
    """They are computed again for its derivative, beside quotients and products of the same numbers."""
    source = f"""
def f(t: f64[n], b: f64[k], c: f64[n, k], u: f64[k]):
    return sum({EXTREMA[name]} for i in range(n))
"""
    args = RNG.normal(size=16), RNG.normal(size=7), RNG.normal(size=(16, 7)), RNG.normal(size=7)
    ours, slow = (adc.grad(adc.compile(source, backend=b)) for b in ("cpu", "numpy"))
    for got, expected in zip(ours(*args), slow(*args), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    v = RNG.normal(size=(16, 7))
    one, other = (adc.hvp(adc.compile(source, backend=b), "c")(args, v) for b in ("cpu", "numpy"))
    np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


# -- scatters, and loops that are vectorised -----------------------------------------------------------


def test_costly_loops_stand_apart_from_products():
    f = adc.compile("def f(W: f64[m, m], y: f64[m]):\n    return tanh(W @ y)")
    W, y = RNG.normal(size=(6, 6)), RNG.normal(size=6)
    np.testing.assert_allclose(f(W, y), np.tanh(W @ y), rtol=1e-13)
    (nest,) = [n for n in f.show("kernel").split("@jit") if "math.exp(" in n]
    assert "reduce_add" not in nest


def test_rows_are_read_once_for_what_a_row_needs():
    """A softmax keeps its rows in the cache: its costly numbers do not cut its loop."""
    f = adc.compile(
        "def f(x: f64[n, m]):\n"
        "    return [[x[i, j] - logsumexp(x[i, l] for l in range(m)) for j in range(m)] for i in range(n)]"
    )
    f(A)
    assert len(re.findall(r"def nest\d+\(", f.show("kernel"))) == 1


@pytest.mark.slow
def test_denominators_may_be_longer_than_the_stack(shallow_stack):
    f = adc.compile("x / (1 + " + " + ".join(f"(x * {k})**2" for k in range(300)) + ")")
    total = sum(k * k for k in range(300))
    assert f(0.5) == pytest.approx(0.5 / (1 + 0.25 * total), rel=1e-12)
    assert adc.grad(f)(0.5) == pytest.approx((1 - 0.25 * total) / (1 + 0.25 * total) ** 2, rel=1e-12)


PRODUCTS_OF_SUMS = [
    "sin(s) * s", "s * exp(-s)", "s * s", "s / (1 + s * s)", "where(s > 0, s, 0.0) * s", "abs(s) * s * w[0]",
]  # fmt: skip
MATRIX = "x[:, None] * (w @ y)[None, :]"
BY_ELEMENTS = """[[sum(x[i] * w[c] * y[c, j] for c in range(len(w))) for j in range(len(y.T))]
         for i in range(len(x))]"""


@pytest.mark.thinned(6)
@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("text", PRODUCTS_OF_SUMS)
def test_sums_that_several_factors_read_stay_whole(text, dtype):
    """Only a sum that one factor alone reads may be merged with the sum over it."""
    kind = np.float64 if dtype == "f64" else np.float32
    args = ([0.3, -1.2], [0.5, 1.5, -0.7], [[0.2, 1.0], [-0.4, 0.6], [1.1, 0.1]])
    names = {"np": np, **{name: getattr(np, name) for name in ("sin", "exp", "where", "abs", "sum")}}
    x, w, y = map(np.array, args)
    expected = eval(f"sum({text})", names, {"s": x[:, None] * (w @ y)[None, :], "w": w})
    for matrix in MATRIX, BY_ELEMENTS:
        f = adc.compile(f"def f(x, w: {dtype}[k], y):\n    s = {matrix}\n    return sum({text})")
        given = [np.array(a, kind) for a in args]
        assert f(*given) == pytest.approx(expected, rel=1e-12 if dtype == "f64" else 1e-5)
        adc.check_grad(f, *given, order=2 if dtype == "f64" else 1)
