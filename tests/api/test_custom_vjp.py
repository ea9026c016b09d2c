"""`adc.custom_vjp`: functions whose derivative is a rule of the user's own.

Most rules here are not the derivative of their function (`check=False`): so that it shows whether the rule
is used. f(x) = x**2 with the rule 3 x dr has the derivatives 3 x and 3.
"""
# ruff: noqa: F821

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ir.textform.printer import show
from adcompiler.ir.textform.reader import parse_func
from adcompiler.ir.textform.verify import verify
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run

X = np.array([0.4, 0.9, 1.3])
BACKENDS = ("numpy", "cpu")


@adc.function
def thrice(x, r, dr):
    return 3 * x * dr


@adc.custom_vjp(thrice, check=False)
def squared(x):
    return x**2


@adc.function
def stable(x, r, dr):
    return dr * exp(x - r)


@adc.custom_vjp(stable)
def lse(x: f64[n]):
    return log(sum(exp(x)))


@adc.function
def scaled_rule(x, k, s, r, dr):
    return 5 * dr * s + 0 * x, None, sum(dr * r)


@adc.custom_vjp(scaled_rule, check=False)
def scaled(x, k, s):
    return x * s + k


def on(f, backend):
    """A function on a backend: a call of it in a new one."""
    options = replace(f._options, backend=backend)
    return type(f)(f._closure, [p.name for p in f._parameters if p.static], options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_mode_heeds_the_rule_at_every_order(backend):
    f = on(squared, backend)
    assert f(2.0) == 4.0
    assert adc.grad(f)(2.0) == 6.0
    assert adc.grad(adc.grad(f))(2.0) == 3.0
    assert adc.grad(adc.grad(adc.grad(f)))(2.0) == 0.0
    assert adc.jvp(f, (2.0,), (0.5,)) == (4.0, 3.0)
    assert adc.jvp(adc.grad(f), (2.0,), (0.5,))[1] == 1.5
    assert adc.vjp(f, 2.0)[1](0.5) == (3.0,)
    assert adc.hessian(f)(2.0) == 3.0
    assert adc.taylor(f, (2.0,), (1.0,), 4) == (4.0, 6.0, 3.0, 0.0, 0.0)
    np.testing.assert_allclose(adc.jacobian(f)(X), np.diag(3 * X))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rule_for_an_array_is_checked_and_right_to_second_order(backend):
    f = on(lse, backend)
    p = np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(adc.grad(f)(X), p, rtol=1e-13)
    np.testing.assert_allclose(adc.hessian(f)(X), np.diag(p) - np.outer(p, p), rtol=1e-12)
    np.testing.assert_allclose(adc.hvp(f)((X,), X), p * X - p * (p @ X), rtol=1e-12)
    assert adc.check_grad(f, X, order=2) < 1e-6


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_is_called_inside_comprehensions_loops_branches_and_derivatives(backend):
    @adc.function
    def points(xs: f64[m]):
        return sum(k * squared(xs[k] * xs[0]) for k in range(m))

    @adc.function
    def iterations(x):
        s = x
        for _ in range(5):
            s = squared(s) * 0.3
        return s

    @adc.function
    def branches(x):
        return where(x > 0, squared(x), 0.0)

    @adc.function
    def inside(x):
        return diff(squared, x) + grad(squared)(x) + diff(squared(x) * x, x, 2)

    gradient = adc.grad(on(points, backend))(X)
    slopes = 3 * X * X[0] * np.arange(3)  # each by its argument x_k x_0
    np.testing.assert_allclose(gradient, [(slopes * X).sum() + slopes[0] * X[0], *(slopes[1:] * X[0])])
    s, ds = 0.8, 1.0
    for _ in range(5):
        s, ds = 0.3 * s**2, 0.3 * 3 * s * ds
    assert adc.grad(on(iterations, backend))(0.8) == pytest.approx(ds)
    assert adc.jvp(on(iterations, backend), (0.8,), (1.0,))[1] == pytest.approx(ds)
    assert adc.grad(on(branches, backend))(2.0) == 6.0
    assert adc.grad(on(branches, backend))(-2.0) == 0.0
    # d(x²·x): 3x·x + x²; again: 3·x + 3x + 3x, each slope of x² being 3x
    assert on(inside, backend)(2.0) == pytest.approx(6.0 + 6.0 + 3 * 2 + 3 * 2 + 3 * 2)


def test_cases_at_once_have_the_rule_as_well():
    many = adc.vmap(lse)
    p = np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(adc.vmap(adc.grad(lse))(np.stack([X, X])), [p, p], rtol=1e-12)
    np.testing.assert_allclose(adc.vjp(adc.vmap(squared), X)[1](np.ones(3))[0], 3 * X)
    assert adc.check_grad(many, np.stack([X, X + 1]), order=2) < 1e-6


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments_that_are_no_floats_get_none_and_others_their_shape(backend):
    f = on(scaled, backend)
    k = np.array([1, 2, 3])
    np.testing.assert_allclose(f(X, k, 2.0), X * 2 + k)
    dx, ds = adc.vjp(f, X, k, 2.0, wrt=("x", "s"))[1](X)
    np.testing.assert_allclose(dx, 5 * X * 2)
    assert ds == pytest.approx((X * (X * 2 + k)).sum())


def test_a_straight_through_estimator_differs_on_purpose():
    @adc.function
    def through(x, r, dr):
        return dr

    @adc.custom_vjp(through, check=False)
    def quantised(x):
        return round(x * 4) / 4

    assert adc.grad(adc.compile("x"))(0.3) == 1.0
    assert quantised(0.3) == 0.25
    assert adc.grad(quantised)(0.3) == 1.0
    with pytest.raises(adc.GradientError, match="the rule of quantised is wrong"):
        adc.custom_vjp(through, samples=[(0.3,)])(adc.compile("round(x * 4) / 4", name="quantised"))


def test_a_rule_that_is_not_linear_has_reverse_mode_only():
    @adc.function
    def clipped(x, r, dr):
        return clip(dr, -1, 1)

    @adc.custom_vjp(clipped, check=False)
    def same(x):
        return x + 0

    @adc.function
    def f(x):
        return 5 * same(x)

    assert adc.grad(f)(2.0) == 1.0
    with pytest.raises(adc.GradientError, match="not linear in the cotangent"):
        adc.jvp(f, (2.0,), (1.0,))


def test_explain_and_show_tell_of_the_rule():
    assert "rule %" in lse.show("ir")
    assert "x: flows" in lse.explain()
    assert "exp(%x[i] - %r)" in lse.show("propagate", X)


def test_its_text_reads_back_and_the_invariants_hold_around_every_pass():
    for f, x in ((lse, X), (adc.grad(lse), X), (adc.vmap(lse), np.stack([X, X]))):
        made = f._trace(f._describe((x,), {})[0]).func
        assert show(parse_func(show(made))) == show(made)
        run((*OPTIMISE, *KERNEL), made, lambda f: verify(f, TABLE))


WRONG = {
    "a factor": ("return 2 * dr * exp(x - r)", "the rule of f is wrong"),
    "a shape": ("return sum(dr * exp(x - r))", "gives a scalar for x"),
    "two of one": ("return dr * exp(x - r), dr", "returns 2 cotangents"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_rules_are_refused(what):
    body, message = WRONG[what]
    rule = adc.compile(f"def rule(x, r, dr):\n    {body}")
    f = adc.compile("def f(x: f64[n]):\n    return log(sum(exp(x)))")
    with pytest.raises(adc.Error) as caught:
        adc.custom_vjp(rule)(f)
    assert message in str(caught.value)


def test_a_rule_of_other_parameters_and_a_function_of_two_results_are_refused():
    f = adc.compile("def f(x, y):\n    return x * y")
    with pytest.raises(adc.Error, match="3 parameters, not 4"):
        adc.custom_vjp(adc.compile("def rule(x, r, dr):\n    return dr"))(f)
    two = adc.compile("def two(x):\n    return x, x")
    with pytest.raises(adc.DtypeError, match="returns a tuple of 2"):
        adc.custom_vjp(thrice)(two)

    @adc.function
    def of_a_function(x):
        def g(y):
            return x * y

        return squared(g)

    with pytest.raises(adc.DtypeError, match="takes only numbers and arrays"):
        of_a_function(1.0)
    with pytest.raises(adc.DtypeError, match="the rule is a int"):
        adc.custom_vjp(3)(two)
    with pytest.raises(adc.OutOfRangeError, match="cannot be checked with scalars"):
        adc.custom_vjp(stable)(adc.compile("def f(x):\n    return x[0]"))


# ---- Linearity ----

NOT_LINEAR = [
    "c * c * cos(x)", "abs(c) * cos(x)", "cos(x) * c**3", "cos(x) * maximum(c, 0.0)", "cos(x)",
    "cos(x) * sin(c) / sin(1.0)", "where(c > 0, cos(x) * c, 2 * cos(x) * c)", "cos(x) * c**2 / abs(c)",
    "where(c == 1, cos(x) * c, 0.0)", "cos(x) * (c + (c - 1) * 0.01)", "cos(x) * clip(c, -10, 10)",
    "cos(x) * exp(log(abs(c)))", "cos(x) * round(c)", "cos(x) * sqrt(c * c)",
    "cos(x) * sqrt(c)", "cos(x) * exp(log(c))", "cos(x) * c**1.5 / sqrt(abs(c))",
]  # fmt: skip

FLAT = ("cos(x)", "cos(x) * (c + (c - 1) * 0.01)", "cos(x) * round(c)")


@pytest.mark.parametrize("rule", NOT_LINEAR)
def test_a_rule_is_linear_in_the_cotangent(rule):
    f = adc.compile("def f(x):\n    return sin(x)")
    pull = adc.compile(f"def pull(x, r, c):\n    return {rule}")
    with pytest.raises(adc.GradientError, match="the rule of f is wrong"):
        adc.custom_vjp(pull)(f)
    made = adc.custom_vjp(pull, check=False)(f)  # as one who clips gradients wants it
    if rule not in FLAT:  # whose derivative by the cotangent is a constant
        with pytest.raises(adc.GradientError, match="not linear in the cotangent"):
            adc.jvp(made, (1.0,), (1.0,))


@pytest.mark.parametrize("rule", ["cos(x) * c * abs(c) / c[0]", "cos(x) * c[0]", "cos(x) * c * c[::-1]"])
def test_a_rule_of_arrays_is_linear_too(rule):
    f = adc.compile("def f(x: f64[n]):\n    return sin(x)")
    with pytest.raises(adc.GradientError):
        adc.custom_vjp(adc.compile(f"def pull(x: f64[n], r: f64[n], c: f64[n]):\n    return {rule}"))(f)


# Functions, and rules of theirs that are linear in the cotangent, by loops.
LOOPS = {
    "a sum": (
        "def f(x):\n    return 5 * x",
        "def pull(x, r, c):\n    t = 0.0\n    for i in range(5):\n        t += c\n    return t",
    ),
    "while": (
        "def f(x):\n    return 5 * x",
        "def pull(x, r, c):\n    t, i = 0.0, 0\n    while i < 5:\n        t, i = t + c, i + 1\n    return t",
    ),
    "products": (
        "def f(x):\n    return x**5",
        "def pull(x, r, c):\n    t = 5 * c\n    for i in range(5 - 1):\n        t = t * x\n    return t",
    ),
    "a while of products": (
        "def f(x):\n    return x**5",
        "def pull(x, r, c):\n    t = 5 * c\n    i = 0\n"
        "    while i < 4:\n        t = x * t\n        i += 1\n    return t",
    ),
    "reverse mode": (
        "def f(x):\n    t = x\n    for i in range(6):\n        t = sin(t) + x\n    return t",
        "def pull(x, r, c):\n    s = zeros(7)\n    s[0] = x\n    for i in range(6):\n"
        "        s[i + 1] = sin(s[i]) + x\n    g = 0.0\n    t = c\n    for k in range(6):\n"
        "        g += t\n        t = cos(s[5 - k]) * t\n    return g + t",
    ),
}


@pytest.mark.thinned(6, backend="cpu")
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("name", LOOPS)
def test_rules_that_loop_have_all_modes(name, backend):
    source, rule = LOOPS[name]
    plain = adc.compile(source, backend=backend)
    f = adc.custom_vjp(adc.compile(rule))(plain)
    for x in (0.7, 1.3):
        np.testing.assert_allclose(adc.jvp(f, (x,), (2.0,))[1], 2 * adc.grad(plain)(x), rtol=1e-12)
        np.testing.assert_allclose(adc.grad(f)(x), adc.grad(plain)(x), rtol=1e-12)
        np.testing.assert_allclose(adc.hessian(f)(x), adc.hessian(plain)(x), rtol=1e-12)
        np.testing.assert_allclose(adc.grad(adc.grad(f))(x), adc.hessian(plain)(x), rtol=1e-12)


def test_a_rule_in_float32_is_checked_as_float32():
    pull = adc.compile("def pull(x: f32[n], r: f32[n], c: f32[n]):\n    return cos(x) * c")
    f = adc.custom_vjp(pull)(adc.compile("def f(x: f32[n]):\n    return sin(x)"))
    assert f(np.ones(2, "f4")).dtype == np.float32


@adc.function
def cubes_rule(v, r, c):
    return 3 * v**2 * c


@adc.custom_vjp(cubes_rule)
def cubes(v):
    return sum(v**3)


@adc.function
def of_slices(x, s, w):
    t = w
    for i in range(len(s) - 1):
        t = sin(t) * w + cubes(x[s[i] : s[i + 1]]) + norm(x[s[i] : s[i + 1]])
    return t


CUTS = np.array([[0, 2, 2, 5, 7], [0, 1, 4, 4, 6]])


@pytest.mark.slow_when(lambda backend: backend == "cpu")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rule_takes_arrays_whose_length_a_loop_computes(backend):
    """Its lengths read numbers of the iteration around: in all modes, at second order, and for many cases."""
    f, x = on(of_slices, backend), np.linspace(0.3, 2, 7)
    assert adc.check_grad(f, x, CUTS[0], 0.3, order=2) < 1e-6
    dense = adc.hessian(f, wrt="x")
    np.testing.assert_allclose(adc.hvp(f, wrt="x")((x, CUTS[1], 0.3), x), dense(x, CUTS[1], 0.3) @ x)
    points = np.stack([x, 2 * x])
    for g in (f, adc.grad(f, wrt="x")):
        found = adc.vmap(g, in_axes=(0, 0, None))(points, CUTS, 0.3)
        np.testing.assert_allclose(found, [g(a, s, 0.3) for a, s in zip(points, CUTS, strict=True)])


@adc.function
def of_rows(x, s):
    return sum([cubes(x[s[i] : s[i + 1]]) for i in range(len(s) - 1)])


@adc.function
def of_a_selection(x, s):
    return cubes(x[x > 1.0])


@adc.function
def of_a_tuple(x, s):
    return cubes((sum(x), s))


@pytest.mark.parametrize("f", [of_rows, of_a_selection, of_a_tuple], ids=["rows", "a selection", "a tuple"])
def test_what_is_no_array_has_no_rule_rather_than_no_gradient(f):
    with pytest.raises(adc.DtypeError, match="cubes has a derivative rule, but v is"):
        adc.grad(f, wrt="x")(np.linspace(0.3, 2, 7), CUTS[0])
