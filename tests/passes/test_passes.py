"""Passes before the schedule, judged by the kernels that come of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import adcompiler as adc

RNG = np.random.default_rng(3)
X, Y, A, B = RNG.normal(size=3), RNG.normal(size=4), RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5))


def deepest(f):
    """How many loops stand inside each other in a kernel, at most; those over blocks do not count."""
    loops = [line for line in f.show("kernel").splitlines() if re.match(r" +for i\d+ in", line)]
    return max(len(line) - len(line.lstrip()) for line in loops) // 4


# -- factors drawn out of sums -------------------------------------------------------------------------

FACTORED = {
    "rank one": (
        "def f(x: f64[n], y: f64[m]):\n    return sum(x[i] * y[j] for i in range(n) for j in range(m))",
        (X, Y), 1,
    ),
    "three": (
        "def f(x: f64[n], y: f64[m], A: f64[n, m]):\n"
        "    return sum(-x[i] * y[j] * x[k] for i in range(n) for j in range(m) for k in range(n))",
        (X, Y, A), 1,
    ),
    "chain": (
        "def f(x: f64[n], A: f64[n, m], B: f64[m, k]):\n"
        "    return [sum(x[i] * A[i, j] * B[j, l] for i in range(n) for j in range(m)) for l in range(k)]",
        (X, A, B), 2,
    ),
    "a sum of an array of sums": (
        "def f(A: f64[n, m], B: f64[m, k]):\n    C = A @ B\n"
        "    return [sum(-C[i, l] for i in range(n)) for l in range(k)]",
        (A, B), 2,
    ),
    "an array of sums that two read": (
        "def f(A: f64[n, m], B: f64[m, k]):\n    C = A @ B\n"
        "    return [sum(C[i, l] for i in range(n)) + C[0, l] for l in range(k)]",
        (A, B), 3,
    ),
    "squares of sums": (
        "def f(A: f64[n, m], B: f64[m, k]):\n    C = A @ B\n"
        "    return [sum(C[i, l] * C[i, l] for i in range(n)) for l in range(k)]",
        (A, B), 3,
    ),
    "sums that meet a function of themselves": (
        "def f(A: f64[n, m], B: f64[m, k]):\n    C = A @ B\n"
        "    return [sum(C[i, l] * exp(-C[i, l]) for i in range(n)) for l in range(k)]",
        (A, B), 3,
    ),
    "a number of sums": (
        "def f(A: f64[n, m], B: f64[m, k]):\n    C = A @ B\n    return sum(3 * C)",
        (A, B), 2,
    ),
    "nothing to gain": (
        "def f(x: f64[n], A: f64[n, m]):\n    return sum(x[i] * A[i, j] for i in range(n) for j in range(m))",
        (X, A), 2,
    ),
    "pairs": (
        "def f(x: f64[n], y: f64[m]):\n"
        "    return sum(x[i] / (1 + (x[i] - y[j])**2) * y[j] for i in range(n) for j in range(m))",
        (X, Y), 2,
    ),
}  # fmt: skip


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", FACTORED)
def test_factors_are_drawn_out_of_sums(name):
    source, args, depth = FACTORED[name]
    f, slow = adc.compile(source), adc.compile(source, backend="numpy")
    np.testing.assert_allclose(f(*args), slow(*args), rtol=1e-13)
    assert deepest(f) == depth
    names = ", ".join(p.name for p in f.parameters)
    total = f"{source}\n\ndef total({names}):\n    return sum(f({names})**2)"
    adc.check_grad(adc.compile(total), *args, order=1 + (name == "squares of sums"))


def test_a_sum_of_nothing_is_nothing():
    f = adc.compile(FACTORED["rank one"][0])
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


def test_a_product_of_large_factors_is_divided_by_once():
    f = adc.compile(
        "def f(p: f64[n, 2], m: f64[n]):\n"
        "    def grown(s):\n        return s * (1 + s)\n"
        "    def far(i, j):\n        return grown(sum((p[j, c] - p[i, c])**2 for c in range(2)) + 0.01)\n"
        "    def force(i, k):\n        return sum(m[j] * (p[j, k] - p[i, k]) / far(i, j)"
        " for j in range(n))\n"
        "    return [[force(i, k) for k in range(2)] for i in range(n)]"
    )
    p, m = RNG.normal(size=(6, 2)), RNG.uniform(1, 2, 6)
    d = p[None] - p[:, None]
    square = (np.sum(d * d, 2) + 0.01)[..., None]
    expected = (m[None, :, None] * d / (square * (1 + square))).sum(1)
    np.testing.assert_allclose(f(p, m), expected, rtol=1e-12)
    code = [line for line in f.show("kernel").splitlines() if not line.lstrip().startswith("#")]
    assert "\n".join(code).count(" / ") == 1


@pytest.mark.parametrize(
    "quotient", ["1 / sqrt(x)", "y / (x * sqrt(x))", "y / (sqrt(x) * x)", "y * x / sqrt(x)"]
)
def test_quotients_by_roots_are_products(quotient):
    f = adc.compile(f"def f(x: f64[n], y: f64[n]):\n    return {quotient}")
    g = adc.grad(adc.compile(f"def f(x: f64[n], y: f64[n]):\n    return sum({quotient})"), "x")
    x, y = RNG.uniform(0.1, 4, 50), RNG.normal(size=50)
    expected = {"x": x, "y": y, "sqrt": np.sqrt}
    np.testing.assert_allclose(f(x, y), eval(quotient, expected), rtol=1e-14)
    assert "rsqrt(" in f.show("kernel")
    step = 1e-6 * x
    both = (eval(quotient, {**expected, "x": at}) for at in (x + step, x - step))
    np.testing.assert_allclose(g(x, y), (next(both) - next(both)) / (2 * step), rtol=1e-8)


EDGES = np.array([0.0, -0.0, np.inf, np.nan, -1.0, 5e-324, 1e-310, 1e-200, 1e300, 1.7e308])


@pytest.mark.parametrize("quotient", ["1 / sqrt(x)", "2 / sqrt(x)", "x / sqrt(x)"])
def test_quotients_by_roots_at_the_edges(quotient):
    f = adc.compile(f"def f(x: f64[n]):\n    return {quotient}")
    for x in (EDGES, *EDGES[:, None]):  # together, and each alone
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(f(x), eval(quotient, {"x": x, "sqrt": np.sqrt}), rtol=3e-16)


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 1e-200])
def test_small_denominators_are_divided_by_each_time(tiny):
    f = adc.compile("def f(x, y, d):\n    return [v / (d * d) for v in (x, y)]")
    np.testing.assert_array_equal(f(tiny, 2 * tiny, 1e-160), np.array([tiny, 2 * tiny]) / 1e-160**2)


# -- no division by a root of what is there ------------------------------------------------------------


@pytest.mark.parametrize("text", ["(x * x + 1) * sqrt(x * x + 1)", "(x * x + 1) * x / sqrt(x * x + 1)"])
def test_a_value_over_its_root_is_the_root(text):
    source, x = f"def f(p: f64[n]):\n    return sum({text} for x in p)", RNG.normal(size=6)
    for derivative in (lambda f: f, adc.grad, adc.hessian):
        one, other = (derivative(adc.compile(source, backend=b)) for b in ("cpu", "numpy"))
        np.testing.assert_allclose(one(x), other(x), rtol=1e-13)
    f = adc.grad(adc.compile(source)) if "/" not in text else adc.compile(source)
    f(x)
    lines = [line for line in f.show("kernel").splitlines() if not line.lstrip().startswith("#")]
    assert "\n".join(lines).count("sqrt(") == 1
    assert " / " not in "\n".join(lines)


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

MERGED = {
    "terms of a longer sum": ("z[i] + sum(a[i, j] * b[i, j] {0}) - sum(a[i, j] / b[i, j] {0})", 1),
    "sums in a difference": ("sum(a[i, j] {0}) - (z[i] - sum(a[i, j] * b[i, j] {0})) - sum(b[i, j] {0})", 2),
    "multiples of one number": ("3 * sum(exp(a[i, j]) {0}) - 3 * sum(a[i, j] * b[i, j] {0})", 1),
    "under one guard": (
        "where(z[i] > 0, sum(exp(a[i, j]) {0}), 0) + where(z[i] > 0, sum(a[i, j] * b[i, j] {0}), 0)", 1,
    ),
    "under two guards": (
        "where(z[i] > 0, sum(exp(a[i, j]) {0}), 0) + where(z[i] > 1, sum(a[i, j] * b[i, j] {0}), 0)", 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MERGED)
def test_sums_over_one_domain_are_one(name):
    text, sums = MERGED[name]
    text = text.format("for j in range(m)")
    source = f"def f(a: f64[n, m], b: f64[n, m], z: f64[n]):\n    return [{text} for i in range(n)]"
    one, other = (adc.compile(source, backend=b) for b in ("cpu", "numpy"))
    args = A, RNG.uniform(1, 2, A.shape), X
    np.testing.assert_allclose(one(*args), other(*args), rtol=1e-12, atol=1e-13)
    assert statements(one).count("reduce_add(") == sums
    adc.check_grad(one, *args, order=2)


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


def test_a_scatter_has_a_loop_of_its_own():
    f = adc.grad(adc.compile(
        "def f(x: f64[n], a: i64[m], w: f64[m]):\n    return sum(w[e] * exp(-x[a[e]]**2) for e in range(m))"
    ), ("x", "w"))  # fmt: skip
    x, a, w = RNG.normal(size=5), RNG.integers(-5, 5, 40), RNG.normal(size=40)
    dx, dw = f(x, a, w)
    expected = np.zeros(5)
    np.add.at(expected, a, w * np.exp(-(x[a] ** 2)) * -2 * x[a])
    np.testing.assert_allclose(dx, expected, rtol=1e-12)
    np.testing.assert_allclose(dw, np.exp(-(x[a] ** 2)), rtol=1e-13)
    nests = f.show("kernel").split("@jit")
    (scatter,) = [n for n in nests if "] += " in n]
    assert "math.exp" not in scatter


def test_costly_loops_stand_apart_from_products():
    f = adc.compile("def f(W: f64[m, m], y: f64[m]):\n    return tanh(W @ y)")
    W, y = RNG.normal(size=(6, 6)), RNG.normal(size=6)
    np.testing.assert_allclose(f(W, y), np.tanh(W @ y), rtol=1e-13)
    (nest,) = [n for n in f.show("kernel").split("@jit") if "math.tanh" in n]
    assert "reduce_add" not in nest


def test_rows_are_read_once_for_what_a_row_needs():
    """A softmax keeps its rows in the cache: its costly numbers do not cut its loop."""
    f = adc.compile(
        "def f(x: f64[n, m]):\n"
        "    return [[x[i, j] - logsumexp(x[i, l] for l in range(m)) for j in range(m)] for i in range(n)]"
    )
    f(A)
    assert len(re.findall(r"def nest\d+\(", f.show("kernel"))) == 1


def test_denominators_may_be_longer_than_the_stack():
    f = adc.compile("x / (1 + " + " + ".join(f"(x * {k})**2" for k in range(1010)) + ")")
    total = sum(k * k for k in range(1010))
    assert f(0.5) == pytest.approx(0.5 / (1 + 0.25 * total), rel=1e-12)
    assert adc.grad(f)(0.5) == pytest.approx((1 - 0.25 * total) / (1 + 0.25 * total) ** 2, rel=1e-12)
