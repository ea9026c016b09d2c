"""Equal products and like terms are computed once; what is written with care stays."""

from __future__ import annotations

import re

import numpy as np
import pytest

import adcompiler as adc

RNG = np.random.default_rng(8)
N = 7


def code(f):
    """The statements of a kernel."""
    return "\n".join(s for s in f.show("kernel").splitlines() if not s.lstrip().startswith("#"))


X, Y, Z = RNG.normal(size=(3, N))


# -- what is found -------------------------------------------------------------------------------------


ENERGY = """
def energy(x: f64[n, 2], m: f64[n]):
    return sum(m[i] * m[j] / sqrt(sum((x[i, k] - x[j, k])**2 for k in range(2)) + 0.01)
               for i in range(n) for j in range(n))

def penalty(x: f64[n, 2], m: f64[n]):
    g = grad(energy, "x")(x, m)
    return sum(g * g)
"""


def analytic(x, m, v):
    """The Hessian of the energy by x times v."""
    d, u = x[:, None] - x[None], v[:, None] - v[None]
    s = (d * d).sum(2, keepdims=True) + 0.01
    dot = (d * u).sum(2, keepdims=True)
    return -2 * m[:, None] * (m[None, :, None] * (u / s**1.5 - 3 * d * dot / s**2.5)).sum(1)


@pytest.mark.slow
def test_second_order_over_pairs_is_right():
    x, v, m = RNG.normal(size=(N, 2)), RNG.normal(size=(N, 2)), RNG.uniform(1, 2, N)
    energy = adc.compile(ENERGY, name="energy")
    np.testing.assert_allclose(adc.hvp(energy, "x")((x, m), v), analytic(x, m, v), rtol=1e-12)
    both = adc.value_and_grad(adc.compile(ENERGY, name="penalty"))
    value, (dx, _) = both(x, m)
    g = adc.grad(energy, "x")(x, m)
    np.testing.assert_allclose(value, (g * g).sum(), rtol=1e-13)
    np.testing.assert_allclose(dx, analytic(x, m, 2 * g), rtol=1e-11, atol=1e-11 * abs(dx).max())
    adc.check_grad(adc.compile(ENERGY, name="penalty"), x, m)
    inner = re.findall(r"reduce_add\(", code(both))
    assert len(inner) <= 2 + 1 + 2 + 2 + 1  # the gradient, r, and sums for dx and dm: no sum twice


LSE = """
def lse(x: f64[n]):
    a = max(x[i] for i in range(n))
    return a + log(sum(exp(x[i] - a) for i in range(n)))
"""


def test_a_sum_that_the_program_has_is_not_computed_again():
    """The cotangent of the maximum is a sum of what was added up already."""
    f = adc.value_and_grad(adc.compile(LSE))
    for x in (X, X[:1], np.full(N, -1e300), np.array([1e4, 1e4, 0.0])):
        value, slope = f(x)
        assert value == pytest.approx(x.max() + np.log(np.exp(x - x.max()).sum()), rel=1e-14)
        np.testing.assert_allclose(slope, np.exp(x - value) / np.exp(x - value).sum(), rtol=1e-13)
    assert code(f).count("exp(") == 1, "it stands in the gradient's memory"


@pytest.mark.parametrize("factor", [2.0, np.inf, np.nan])
def test_a_sum_of_nothing_is_nothing(factor):
    f = adc.compile("def f(c, x: f64[n]):\n    return sum(x), sum(c * x)")
    assert f(factor, X[:0]) == (0.0, 0.0)
    np.testing.assert_allclose(f(factor, X), (X.sum(), factor * X.sum()), rtol=1e-13)


def test_a_hessian_product_computes_no_gradient():
    func = adc.compile(ENERGY, name="energy")
    x, m = RNG.normal(size=(N, 2)), RNG.uniform(1, 2, N)
    gradient = adc.grad(func, "x")
    gradient(x, m)
    assert adc.hvp(func, "x")((x, m), x).shape == x.shape
    value, tangent = adc.jvp(gradient, (x, m), (x, None))
    np.testing.assert_allclose(value, gradient(x, m), rtol=1e-13)
    np.testing.assert_allclose(tangent, analytic(x, m, x), rtol=1e-12)


# -- what stays ----------------------------------------------------------------------------------------

HUGE = np.full(N, 1e200)


def test_factors_keep_the_one_order_in_which_they_stand():
    f = adc.compile("def f(x, y, z):\n    return x * z * y + z * y + x * z")
    np.testing.assert_array_equal(f(HUGE, HUGE, np.full(N, 1e-300)), HUGE * 1e-300 * HUGE + 2e-100)


def test_small_numbers_stay_where_they_are():
    f = adc.compile("1e-200 * x * y + y * (1e-200 * x)")
    np.testing.assert_array_equal(f(HUGE, HUGE), 1e-200 * HUGE * HUGE * 2)
    g = adc.compile("(1e-200 * x) * 1e-200")
    np.testing.assert_array_equal(g(HUGE), 1e-200 * HUGE * 1e-200)


@pytest.mark.parametrize("value", [0.0, -0.0, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("text", ["x * y - y * x", "x * z / x", "2 * x - x", "x - x * 1.0"])
def test_nothing_cancels_or_is_divided_out(text, value):
    """Zeros, infinities and what is no number give what they give as the text stands."""
    args = {"x": np.full(N, value), "y": np.full(N, value), "z": np.full(N, 3.0)}
    names = sorted(set(re.findall(r"\b[xyz]\b", text)))
    f, plain = adc.compile(text), adc.compile(text, backend="numpy")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(f(*(args[n] for n in names)), plain(*(args[n] for n in names)))


ROUNDED = {
    "two sum": (
        "def f(a, b):\n    s = a + b\n    c = s - a\n    return (a - (s - c)) + (b - c)",
        1.0, 2.0**-60, 2.0**-60,
    ),
    "fast two sum": ("def f(a, b):\n    return b - ((a + b) - a)", 1.0, 2.0**-60, 2.0**-60),
    "rounding": ("def f(a, b):\n    return (a + b) - b + a", 0.75, 2.0**52, 1.75),
    "twice": ("def f(a, b):\n    return (a + a + b) - (a + b)", 1.0, 2.0**-60, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDED)
def test_errors_of_sums_stay(name):
    text, a, b, expected = ROUNDED[name]
    f = adc.compile(text)
    np.testing.assert_array_equal(f(np.full(N, a), np.full(N, b)), np.full(N, expected))


# -- any program ---------------------------------------------------------------------------------------


def expression(rng, depth):
    """A text of products, sums, differences and quotients of a few names."""
    if not depth or rng.random() < 0.1:
        return str(rng.choice(["x", "y", "z", "2", "0.5", "3", "x", "y", "z"]))
    a, b = expression(rng, depth - 1), expression(rng, depth - 1)
    match rng.integers(8):
        case 0 | 1 | 2:
            return f"({a} * {b})"
        case 3 | 4:
            return f"({a} + {b})"
        case 5:
            return f"({a} - {b})"
        case 6:
            return f"(-{a})"
        case _:
            return f"({a} / sqrt(1 + z * z))"


@pytest.mark.slow_when(lambda seed: seed >= 3)
@pytest.mark.parametrize("seed", range(12))
def test_random_expressions_are_right(seed):
    rng = np.random.default_rng(seed)
    parts = [expression(rng, 5) for _ in range(4)]
    text = "def f(x: f64[n], y: f64[n], z: f64[n]):\n    return (" + ", ".join(
        [f"{p} + x" for p in parts] + [f"sum({p} + y)" for p in parts]
    ) + ")\n"  # fmt: skip
    f, plain = adc.compile(text), adc.compile(text, backend="numpy")
    agree(f(X, Y, Z), plain(X, Y, Z))
    text = f"def f(x: f64[n], y: f64[n], z: f64[n]):\n    return sum(tanh(0.1 * {parts[0]} + x * y * z))"
    f, plain = adc.compile(text), adc.compile(text, backend="numpy")
    agree(adc.grad(f)(X, Y, Z), adc.grad(plain)(X, Y, Z))
    agree(adc.hvp(f)((X, Y, Z), (Y, Z, X)), adc.hvp(plain)((X, Y, Z), (Y, Z, X)))


def agree(got, want):
    """The same but for the rounding of terms of these sizes."""
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13 * (abs(np.asarray(b)).max() + 10))


def test_sums_and_products_may_be_long(shallow_stack):
    """Neither recursion nor time that grows with the square."""
    f = adc.compile(" + ".join(f"x * {k} * y" for k in range(1, 401)))
    assert f(0.5, 2.0) == pytest.approx(400 * 401 / 2, rel=1e-12)
    g = adc.compile(" * ".join(["x", "y"] * 200))
    assert g(0.5, 2.0) == pytest.approx(1.0, rel=1e-12)
