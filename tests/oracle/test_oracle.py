"""The oracle against closed forms, SymPy and NumPy's tables; and that random programs run in it."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from programs import Program, programs

from oracle import derivative, evaluate, gradient, hessian, jacobian

GAUSSIAN = """
def gaussian(x: f64[n, d], y: f64[m, d], b: f64[m]):
    return [sum(exp(-sum((x[i, k] - y[j, k])**2 for k in range(d))) * b[j]
                for j in range(m)) for i in range(n)]
"""
RANDOM = np.random.default_rng(7)
X, Y, B = RANDOM.normal(size=(3, 2)), RANDOM.normal(size=(4, 2)), RANDOM.normal(size=4)
KERNEL = np.exp(-((X[:, None] - Y) ** 2).sum(-1))


def same(actual: Any, expected: Any) -> None:
    assert_allclose(actual, expected, rtol=1e-13, atol=1e-13)


# ---- Values ----


@pytest.mark.parametrize(
    ("source", "args", "expected"),
    [
        ("1/0", (), math.inf),
        ("-1/0", (), -math.inf),
        ("0/0", (), math.nan),
        ("a/b", (1, 0), math.inf),
        ("a % b", (1, 0), math.nan),
        ("log(-1)", (), math.nan),
        ("log(0)", (), -math.inf),
        ("sqrt(x)", (-1.0,), math.nan),
        ("x**0.5", (-1.0,), math.nan),
        ("0.0**0", (), 1.0),
        ("nan**0", (), 1.0),
        ("x**-1", (0,), math.inf),
        ("exp(x)", (1e4,), math.inf),
        ("sigmoid(x)", (-1e4,), 0.0),
        ("softplus(x)", (1e4,), 1e4),
        ("1/3", (), 1 / 3),
        ("7//2", (), 3),
        ("-7//2", (), -4),
        ("-7 % 3", (), 2),
        ("2**-1", (), 0.5),
        ("-2**2", (), -4),
        ("2**3**2", (), 512),
        ("2**63 - 1 + 0.0", (), 2.0**63),
        ("a/b", (7, 2), 3.5),
        ("e + pi - np.pi + math.inf", (), math.inf),
        ("sign(x)", (-0.0,), 0.0),
        ("max(a, b)", (1.0, 2.0), 2.0),
        ("(x > 0) + (y > 0)", (1.0, 1.0), True),
        ("0 < x <= 1 and not x == 0.5", (0.7,), True),
    ],
)
def test_scalars_have_numpys_meaning(source: str, args: tuple[float, ...], expected: float) -> None:
    assert_array_equal(evaluate(source, *args), expected)


def test_scalars_come_back_as_python_numbers() -> None:
    assert type(evaluate("exp(a) + 1", 2)) is float
    assert type(evaluate("a", 2)) is float
    assert type(evaluate("def f(a: static): return a", 2)) is int
    assert type(evaluate("a", 2, static=["a"])) is int
    assert evaluate("def f(x: f64): return x / 2", 1) == 0.5


WEAK = """
x*2.5 + s; exp(s)*x; x/s/3; where(x > 0, x, s); x if s > 0 else 0.0; sum(x); mean(x); x**2; x**s; logsumexp(x)
erf(x); sigmoid(x); relu(x); [x[i]*s for i in range(3)]; [x[0] if i > 1 else s for i in range(3)]
sum(x[i] for i in range(0)); max(x[i] for i in range(3))
[sum(x[i]*x[j] for j in range(3)) for i in range(0)]
"""


def listed(sources: str) -> list[str]:
    return [source for line in sources.strip().splitlines() for source in line.split("; ")]


@pytest.mark.parametrize("expression", listed(WEAK))
def test_python_numbers_are_weak_among_float32(expression: str) -> None:
    x = np.array([0.5, -1, 2], np.float32)
    assert evaluate(f"def f(x, s): return {expression}", x, 0.3).dtype == np.float32


def test_a_comprehension_builds_an_array() -> None:
    same(evaluate(GAUSSIAN, X, Y, B), KERNEL @ B)
    same(evaluate(GAUSSIAN, X, b=B, y=Y), KERNEL @ B)
    assert evaluate(GAUSSIAN, X.astype("f4"), Y.astype("f4"), B.astype("f4")).dtype == np.float32


def test_comprehensions_of_nothing_keep_their_shape_and_dtype() -> None:
    same(evaluate(GAUSSIAN, X, Y[:0], B[:0]), np.zeros(3))
    assert evaluate(GAUSSIAN, X[:0], Y, B).shape == (0,)
    outer = "[[x[i + 1]*y[j] for j in range(len(y))] for i in range(len(x))]"
    empty = evaluate(outer, np.zeros(2, np.float32), np.zeros(0, np.float32), order=["y", "x"])
    assert (empty.shape, empty.dtype) == ((0, 2), np.float32)
    assert evaluate("[2*x[i] for i in range(0)]", np.zeros((0, 3))).shape == (0, 3)


def test_comprehensions_reduce() -> None:
    x = RANDOM.normal(size=5)
    same(evaluate("prod(x[i] for i in range(5))", x), x.prod())
    same(evaluate("max(x[i] for i in range(5))", x), x.max())
    same(evaluate("mean(x[i] for i in range(5))", x), x.mean())
    same(evaluate("logsumexp(x[i] for i in range(5))", x), np.log(np.exp(x).sum()))
    same(evaluate("sum(x[i]*x[j] for i in range(5) for j in range(5) if i != j)", x), x.sum() ** 2 - x @ x)
    same(evaluate("sum(x[k[i]] for i in range(2))", x, np.array([4, 4])), 2 * x[4])


@pytest.mark.parametrize("axis", [None, 0, -1, 1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "var", "std"])
def test_reductions_are_numpys(name: str, axis: Any) -> None:
    x, reference = RANDOM.normal(size=(2, 3, 4)), getattr(np, name)
    same(evaluate(f"{name}(x, axis={axis})", x), reference(x, axis=axis))
    same(evaluate(f"np.{name}(x, axis={axis}, keepdims=True)", x), reference(x, axis=axis, keepdims=True))
    same(evaluate(f"x.{name}(axis={axis})", x), reference(x, axis))


def test_whole_arrays_broadcast() -> None:
    x, y, z = RANDOM.normal(size=(2, 1, 3)), RANDOM.normal(size=(4, 1)), RANDOM.normal(size=3)
    same(evaluate("x*y - z/2", x, y, z), x * y - z / 2)
    same(evaluate("x @ y.T", np.eye(2), X), X.T)
    same(evaluate("x[:, 1:] + x[..., None, 0]", X), X[:, 1:] + X[..., None, 0])
    same(evaluate("concatenate([x, y])", z, z[:2]), [*z, *z[:2]])


NAMED = """
np.diff(x); np.diff(x, 2, axis=0); np.diff(x, append=x[:, :1]); np.ravel(x); x.flatten(); x.copy()
np.amax(x, axis=0); np.linalg.norm(x, axis=1); np.inner(x, x); np.vdot(x, x); np.kron(x, x[0]); np.diagonal(x)
x @ np.identity(2); np.linalg.slogdet(x @ x.T)[1]
np.maximum.accumulate(x, 0); np.minimum.accumulate(np.ravel(x))
"""


@pytest.mark.parametrize("source", listed(NAMED))
def test_functions_of_arrays_are_numpys(source: str) -> None:
    text = re.sub(r"np\.(maximum|minimum)\.accumulate", lambda m: f"cum{m[1][:3]}", source)
    same(evaluate(text, X), eval(source, {"np": np, "x": X}))


def test_differences_of_an_array_and_a_derivative_have_one_name() -> None:
    assert_array_equal(evaluate("diff(x, n=2)", np.array([1.0, 4.0, 9.0, 16.0])), [2, 2])
    assert_array_equal(evaluate("diff(x**2, x)", np.array([1.0, 4.0])), [2, 8])
    assert_array_equal(gradient("sum(np.diff(x) ** 2)", (np.array([1.0, 4.0, 9.0]),)), [-6, -4, 10])


def test_tests_on_arrays_are_elementwise() -> None:
    x = np.array([-2.0, -0.5, 0.5, 2.0])
    assert_array_equal(evaluate("sqrt(x) if x > 0 else 0.0", x), np.sqrt(np.maximum(x, 0)))
    assert_array_equal(evaluate("-1 < x < 1", x), [False, True, True, False])
    assert_array_equal(evaluate("not x > 0 and x != -2 or x == 2", x), [False, True, False, True])
    assert_array_equal(evaluate("x if s > 0 else 0", x, 1.0), x)
    guarded = "[x[i - 1] if i > 0 and x[i - 1] > -1 else 0 for i in range(4)]"
    assert_array_equal(evaluate(guarded, x), [0, 0, -0.5, 0.5])


STATEMENTS = """
scale = 2.0

def power(x, p):
    return scale * x**p, x

def f(x):
    '''Loops, stores, tuples; what was given stays as it is.'''
    y = x
    y[0] = 10
    y[1:] += np.array([1, 2])
    a, y[-1] = power(1, p=2)  # a comment
    for i in range(3):
        if i == 1:
            b = i
        else:
            a -= i
    while a > -3:
        a -= b
    return x, y, a
"""


def test_stores_change_the_array_itself_but_no_argument() -> None:
    x = np.arange(3.0)
    same, stored, a = evaluate(STATEMENTS, x)
    assert_array_equal(x, [0, 1, 2])
    assert same is stored
    assert_array_equal(stored, [10, 2, 1])
    assert a == -3
    assert evaluate(STATEMENTS.encode(), 3.0, 2, name="power") == (18.0, 3.0)


def test_parameters_stand_in_order_of_first_appearance() -> None:
    assert evaluate("x/y if z > y else w", 6.0, 2.0, 3.0, 0.0) == 3.0
    assert evaluate("x/y", 2.0, 6.0, order=["y", "x"]) == 3.0
    assert evaluate("exp*exp(exp)/np.exp(exp)", 2.0) == pytest.approx(2.0)
    assert evaluate("lambda + import*np", 1, 2, np=3) == 7.0
    assert evaluate("e*x", 2.0, 1.0, order=["e", "x"]) == 2.0
    assert evaluate("sum(i*x[i] for i in range(2)) + i", np.ones(2), 5.0) == 6.0
    with pytest.raises(TypeError, match="takes"):
        evaluate("a + b", 1)


def test_no_name_reaches_python() -> None:
    with pytest.raises(NameError, match="open"):
        evaluate("open(x)", 1)


# ---- Derivatives ----


def test_gaussian_and_its_gradient() -> None:
    cotangent = RANDOM.normal(size=3)
    dx, dy, db = gradient(GAUSSIAN, (X, Y, B), cotangents=cotangent)
    weights = KERNEL * cotangent[:, None] * B
    difference = X[:, None] - Y
    same(db, KERNEL.T @ cotangent)
    same(dx, -2 * (weights[..., None] * difference).sum(1))
    same(dy, 2 * (weights[..., None] * difference).sum(0))
    same(jacobian(GAUSSIAN, (X, Y, B), wrt="b"), KERNEL)


def test_logistic_loss() -> None:
    source, w, labels = "sum(log1p(exp(-t * (x @ w))))", np.array([0.3, -0.8]), np.array([1.0, -1.0, 1.0])
    s = 1 / (1 + np.exp(labels * (X @ w)))
    same(gradient(source, (labels, X, w), wrt="w"), -X.T @ (labels * s))
    same(hessian(source, (labels, X, w), wrt="w"), X.T @ np.diag(s * (1 - s)) @ X)


def test_rational_with_blocks_as_wrt_says() -> None:
    source, x, s = "x**2 / (1 + s)", np.array([1.0, 3.0]), 1.0
    (xx, xs), (sx, ss) = hessian(source, (x, s))
    same(xx, np.eye(2))
    same(xs, -x / 2)
    same(sx, xs)
    assert ss == pytest.approx((2 * x**2 / 8).sum())
    assert type(ss) is float
    first, second = jacobian("x/s, s", (x, s), wrt=("s",))
    assert_array_equal(first, [-x])
    assert second == (1.0,)
    assert isinstance(gradient(source, (x, s), wrt=(0,)), tuple)
    assert gradient("sum(x[k])", (x, np.array([1, 1]))).tolist() == [0, 2]


SMOOTH = """
exp(x)*y; log(x + y**2); sqrt(x*y); sin(x*y); cos(x)/y; tan(x*y); asin(x*y/3); acos(x - y); atan(x*y)
sinh(x*y); cosh(x - y); tanh(x*y); asinh(x*y); acosh(x + 1 + y); atanh(x*y/4); erf(x*y); erfc(x - y)
x**y; x*y/(1 + x + y**2); cbrt(x*y); exp2(x*y); log2(x + y); log10(x*y); log1p(x*y); expm1(x*y)
atan2(x, y)
"""


@pytest.mark.thinned(4)
@pytest.mark.parametrize("source", listed(SMOOTH))
def test_directional_derivatives_to_the_third_are_sympys(source: str) -> None:
    point, directions = (0.7, 1.3), ((1.0, 0.5), (-0.3, 1.0), (0.8, 0.9))
    x, y = sympy.symbols("x y", positive=True)
    known = {
        "expm1": lambda u: sympy.exp(u) - 1,
        "log1p": lambda u: sympy.log(1 + u),
        "exp2": lambda u: 2**u,
        "log2": lambda u: sympy.log(u, 2),
        "log10": lambda u: sympy.log(u, 10),
    }
    symbolic = sympy.sympify(source, known | {"x": x, "y": y})
    assert evaluate(source, *point) == pytest.approx(float(symbolic.evalf(30, {x: 0.7, y: 1.3})), rel=1e-13)
    for order, (dx, dy) in enumerate(directions, start=1):
        symbolic = dx * symbolic.diff(x) + dy * symbolic.diff(y)
        value, error = derivative(source, point, directions[:order])
        assert value == pytest.approx(float(symbolic.evalf(30, {x: 0.7, y: 1.3})), rel=1e-12)
        assert error < 1e-10


DEFINITIONS = {
    "sigmoid(x*y)": "1/(1 + exp(-x*y))",
    "softplus(x*y)": "log(1 + exp(x*y))",
    "logaddexp(x, y)": "log(exp(x) + exp(y))",
    "hypot(x, y)": "sqrt(x*x + y*y)",
    "logsumexp([x, y, x*y])": "log(exp(x) + exp(y) + exp(x*y))",
    "maximum(x, y)*x + minimum(x, y)": "x*x + y",
    "relu(x)*y + relu(y) + abs(y) + x*sign(y)": "x*y - y - x",
    "where(y > 0, sqrt(y), x*y) + (log(y) if y > 0 else y*y)": "x*y + y*y",
    "reciprocal(x) + square(y) + pow(x, y)": "1/x + y*y + exp(y*log(x))",
    "clip(x*y, -5, 5) + floor(x)*y + copysign(x, y)": "x*y - x",
    "lgamma(x + 2) - log(gamma(x + 1))": "log(x + 1) + 0*y",
}


@pytest.mark.parametrize(("source", "definition"), DEFINITIONS.items())
def test_derivatives_are_those_of_the_definition(source: str, definition: str) -> None:
    point, directions = (0.7, -1.3), ((1.0, 0.5), (-0.3, 1.0), (0.8, 0.9))
    order = ["x", "y"]
    expected = evaluate(definition, *point, order=order)
    assert evaluate(source, *point, order=order) == pytest.approx(expected, rel=1e-13)
    for k in range(1, 4):
        first, second = (derivative(s, point, directions[:k], order=order)[0] for s in (source, definition))
        assert first == pytest.approx(second, rel=1e-12, abs=1e-15)


def test_derivatives_of_a_cubed() -> None:
    assert derivative("a**3", (3.0,), [(1.0,)] * 2)[0] == 18.0
    assert derivative("a**3", (3.0,), [(1.0,)] * 3)[0] == 6.0


@pytest.mark.parametrize("source", ["abs(x)", "relu(x)", "maximum(x, 0)", "x if x > 0 else 2*x", "sign(x)"])
def test_the_error_shows_a_kink(source: str) -> None:
    assert derivative(source, (0.0,), [(1.0,)])[1] > 0.4
    assert derivative(source, (0.1,), [(1.0,)])[1] < 1e-12


def test_derivatives_pass_through_stores_and_loops() -> None:
    source = """
    def f(x, steps: static):
        y = zeros(2)
        for i in range(steps):
            y[i % 2] += x**i
        return y
    """
    assert_array_equal(jacobian(source, (2.0, 4)), [4.0, 13.0])


# ---- Random programs ----

some = settings(max_examples=20)


def results(program: Program) -> tuple[Any, ...]:
    result = evaluate(program.source, *program.args)
    return result if isinstance(result, tuple) else (result,)


@some
@given(programs())
def test_random_programs_are_finite(program: Program) -> None:
    assert all(np.isfinite(value).all() for value in results(program))


@some
@given(programs(dtype=np.float32))
def test_random_programs_of_float32_stay_float32(program: Program) -> None:
    for value in results(program):
        assert np.isfinite(value).all()
        assert type(value) in (int, float) or value.dtype == np.float32


@some
@given(programs(scalar_only=True))
def test_random_scalar_programs_give_python_numbers(program: Program) -> None:
    assert all(type(value) in (int, float) for value in results(program))


@some
@given(programs(smooth=True))
def test_both_columns_agree_on_random_programs(program: Program) -> None:
    values, _ = derivative(program.source, program.args, ())
    exact = values if isinstance(values, tuple) else (values,)
    for fast, value in zip(results(program), exact, strict=True):
        assert_allclose(fast, value, rtol=1e-9, atol=1e-9)


@some
@given(programs(smooth=True))
def test_smooth_random_programs_have_derivatives(program: Program) -> None:
    direction = tuple(np.full(np.shape(value), 0.7) for value in program.args)
    values, error = derivative(program.source, program.args, (direction, direction))
    flat = [np.ravel(value) for value in (values if isinstance(values, tuple) else (values,))]
    assert error <= 1e-9 * (1 + np.abs(np.concatenate(flat)).max(initial=0))


@some
@given(programs(statements=2))
def test_a_program_prints_as_python_that_gives_it_back(program: Program) -> None:
    again = eval(repr(program), {"Program": Program, "np": np})
    assert again.source.strip() == program.source
    for value, copy in zip(program.args, again.args, strict=True):
        assert_array_equal(value, copy, strict=True)
