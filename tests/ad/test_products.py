"""Derivatives of products: right where factors are zero, at every order, in work linear in the factors."""

from __future__ import annotations

from itertools import product as pairs_of
from math import factorial

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.kernels.emit.traffic import Counted
from adcompiler.targets.cpu.timed import Timed

BACKENDS = ("numpy", "cpu")
FACTORS = {
    "no zero": [2.0, -3.0, 4.0, 5.0, 0.5],
    "one zero": [2.0, 0.0, 4.0, 5.0, 0.5],
    "two zeros": [2.0, 0.0, 4.0, 0.0, 0.5],
    "three zeros": [0.0, 0.0, 4.0, 0.0, 0.5],
    "the ends are zero": [0.0, -3.0, 4.0, 5.0, 0.0],
    "one factor": [3.0],
    "two factors": [0.0, 2.0],
    "none": [],
}
PROD = "def f(x: {}[n]):\n    return prod(x)"


def derivative(x, order):
    """All derivatives of prod(x) of an order: the product of the others, 0 where a factor is taken twice."""
    n = len(x)
    found = np.zeros((n,) * order)
    for at in pairs_of(range(n), repeat=order):
        if len(set(at)) == order:
            found[at] = np.prod(np.delete(x, at))
    return found


@pytest.mark.thinned(12)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("factors", FACTORS.values(), ids=FACTORS)
def test_all_derivatives_where_factors_are_zero(factors, dtype, order, backend):
    f = adc.compile(PROD.format(dtype), backend=backend)
    for _ in range(order):
        f = adc.jacobian(f)
    found = f(np.array(factors, {"f64": float, "f32": np.float32}[dtype]))
    assert found.dtype == {"f64": np.float64, "f32": np.float32}[dtype]
    np.testing.assert_allclose(found, derivative(np.array(factors), order), rtol=1e-6)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("factors", FACTORS.values(), ids=FACTORS)
def test_forward_and_taylor_mode(factors, backend):
    """Along a line, prod(x + t v) is a polynomial whose coefficients NumPy multiplies out."""
    f, x = adc.compile(PROD.format("f64"), backend=backend), np.array(factors)
    v = 1.0 + np.arange(len(x))
    line = np.polynomial.Polynomial([1.0])
    for a, b in zip(x, v, strict=True):
        line *= np.polynomial.Polynomial([a, b])
    want = [factorial(k) * c for k, c in enumerate([*line.coef, *[0.0] * 4][:4])]
    np.testing.assert_allclose(adc.jvp(f, (x,), (v,)), want[:2], rtol=1e-12)
    np.testing.assert_allclose(adc.hvp(f)((x,), v), derivative(x, 2) @ v, rtol=1e-12)
    np.testing.assert_allclose(adc.taylor(f, (x,), (v,), 3), want, rtol=1e-12)


SEVERAL = {
    "both": "prod(x)",
    "rows": "[prod(x[i]) for i in range(len(x))]",
    "columns": "prod(x, axis=0)",
    "weighted": "prod(x * x[0] + 1, axis=1)",
    "of one row": "[prod(x[0]) * sum(x[i]) for i in range(len(x))]",
    "of products": "prod(1 + prod(x, axis=1) * x[:, 0])",
    "of a part": "prod(x[:, 1:3]) + prod(x[:2], axis=0)[0]",
    "of pairs": "prod(x[i, 0] - 2 * x[j, 1] for i in range(len(x)) for j in range(len(x)))",
    "below": "prod(x[i, j] for i in range(len(x)) for j in range(i + 1))",
    "where": "[prod(x[i, j] for j in range(x.shape[1]) if x[i, j] < 1) for i in range(len(x))]",
    "in iterations": "scaled(x)",
}
ITERATIONS = """
def scaled(x):
    for t in range(3):
        x = x * (1 + 0.1 * prod(x, axis=1)[:, None])
    return x
"""
ZEROS = np.array([[1.5, 0.0, -2.0, 0.5, 1.2], [0.0, 0.7, 0.0, 1.1, -0.6], [0.9, 1.3, 0.4, -1.0, 2.0]])


@pytest.mark.thinned(20)
@pytest.mark.parametrize(
    ("backend", "annotation"), [("numpy", "f64[n, m]"), ("cpu", "f64[n, m]"), ("cpu", "f64[3, 5]")]
)
@pytest.mark.parametrize("formula", SEVERAL.values(), ids=SEVERAL)
def test_programs_of_products_to_third_order(formula, backend, annotation):
    """Complex steps judge to rounding: no division by a factor, and no difference, is in them."""
    f = adc.compile(f"{ITERATIONS}def f(x: {annotation}):\n    return sum(tanh({formula}))", backend=backend)
    adc.check_grad(f, ZEROS, order=2)
    if backend == "numpy":
        adc.check_grad(adc.grad(f), ZEROS, order=2)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", BACKENDS)
def test_ragged_products(backend):
    """Groups of several lengths, none among them; a zero in one is none in another."""
    group = "prod(x[i] for i in range(s[g], s[g + 1]))"
    text = f"def f(x, s: i64[k]):\n    return [{group} for g in range(len(s) - 1)]"
    f = adc.compile(text, backend=backend)
    x, s = np.array([2.0, 0.0, 3.0, 0.0, 0.0, 4.0, 5.0]), np.array([0, 3, 3, 4, 7])
    want = np.zeros((4, 7))
    for g in range(4):
        want[g, s[g] : s[g + 1]] = derivative(x[s[g] : s[g + 1]], 1)
    np.testing.assert_allclose(adc.jacobian(f, "x")(x, s), want)
    adc.check_grad(f, x, s, order=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_factor_that_is_not_taken_hands_on_no_infinite_derivative(backend):
    f = adc.compile("def f(x):\n    return prod(sqrt(y) for y in x if y > 0)", backend=backend)
    x = np.array([4.0, 0.0, 9.0, -1.0, 0.0, 16.0])
    np.testing.assert_allclose(adc.grad(f)(x), [3.0, 0.0, 8 / 6, 0.0, 0.0, 0.75])
    assert np.isfinite(adc.hessian(f)(x)).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_of_products(backend):
    f = adc.compile(PROD.format("f64"), backend=backend)
    for of_one in (adc.grad(f), adc.hessian(f)):
        np.testing.assert_allclose(adc.vmap(of_one)(ZEROS), [of_one(row) for row in ZEROS])
    empty = np.zeros((0, 5))
    assert adc.vmap(adc.grad(f))(empty).shape == (0, 5)
    rows = adc.compile("def f(x):\n    return sum(prod(x, axis=1))", backend=backend)
    assert adc.grad(rows)(np.zeros((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_inside_the_language(backend):
    """Each point's product differentiated by its own entry."""
    text = "def f(x, c):\n    return [diff(diff(prod(y + a for a in c), y), y) for y in x]"
    f = adc.compile(text, backend=backend)
    x, c = np.array([0.0, -1.0, 2.0]), np.array([0.0, 1.0, 0.0, 1.0, 3.0])
    line = np.polynomial.Polynomial.fromroots(-c).deriv(2)
    np.testing.assert_allclose(f(x, c), line(x), atol=1e-12)


@pytest.mark.parametrize("save", ["partials", "auto"])
def test_what_forward_saves_is_enough(save):
    f = adc.compile("def f(x):\n    return prod(sin(x))", save=save)
    x = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    y = adc.Variable(x, requires_grad=True)
    f(y).backward()
    np.testing.assert_allclose(np.asarray(y.grad), derivative(np.sin(x), 1) * np.cos(x), atol=1e-12)


# -- work --------------------------------------------------------------------------------------------


def work(f, *args):
    """How many operations a call takes, as `explain --cost` counts them."""
    types, values, *_ = f._describe(args)
    program = f._specialise(types, values)
    sizes = program.sizes(values)
    made = Timed(program.executable.at(sizes).made)
    counts = Counted(made.func, made.kernel.arrays, sizes, program.lengths.values(values))
    return sum(sum(counts.item(item).operations.values()) for item in made.items)


LINEAR = {
    "prod": "prod(x)",
    "conditions": "prod(y for y in x if y > 0.5)",
    "rows": "sum(prod(x[i] + k for i in range(len(x))) for k in range(7))",
    "columns": "sum(prod(x[i] + k for k in range(7)) for i in range(len(x)))",
    "both axes": "prod(x[i] + k for i in range(len(x)) for k in range(7))",
    "cumprod": "sum(cumprod(x))",
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("formula", LINEAR.values(), ids=LINEAR)
def test_work_grows_as_the_number_of_factors(formula):
    """The gradient's, and that of a Hessian times a vector."""
    text = f"def f(x):\n    return {formula}\ndef along(x, v):\n    return sum(grad(f)(x) * v)"
    first, second = adc.grad(adc.compile(text, "f")), adc.grad(adc.compile(text), "x")
    x = np.full(2000, 0.9)
    for gradient, count in ((first, 1), (second, 2)):
        few, many = (work(gradient, *[x[:n]] * count) for n in (1000, 2000))
        assert 1000 < many < 2.1 * few
