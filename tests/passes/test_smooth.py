"""Smooth functions of kinks have the derivatives of the same functions without kinks, at the kink too."""

import random

import numpy as np
import pytest
import sympy

import adcompiler as adc
from adcompiler.ops.parity import EVEN, ODD
from adcompiler.ops.table import TABLE

inf, nan = np.inf, np.nan
SCALARS = [  # with a kink at 0, and the same without
    ("abs(x)**2", "x**2"), ("abs(x) * abs(x)", "x**2"), ("square(abs(x))", "x**2"), ("abs(x)**4.0", "x**4"),
    ("abs(sin(x))**2", "sin(x)**2"), ("(2 * abs(x) * y)**2", "(2 * x * y)**2"), ("cos(abs(x))", "cos(x)"),
    ("cosh(abs(x) * y)", "cosh(x * y)"), ("abs(x * x)", "x**2"), ("exp(-abs(x)**2)", "exp(-x**2)"),
    ("sqrt(abs(x)**2 + 1)", "sqrt(x**2 + 1)"), ("hypot(abs(x), 1 + y)", "sqrt(x**2 + (1 + y)**2)"),
    ("hypot(x, y)**2", "x**2 + y**2"), ("hypot(x, y)**4", "(x**2 + y**2)**2"),
    ("hypot(hypot(x, y), x)**2", "2 * x**2 + y**2"), ("hypot(x, y) * x * hypot(x, y)", "x * (x**2 + y**2)"),
    ("(hypot(x, y) / 3)**2", "(x**2 + y**2) / 9"), ("(cos(x) * hypot(x, y))**2", "cos(x)**2 * (x**2 + y**2)"),
    ("sqrt(x * x + y * y)**2", "x**2 + y**2"), ("sqrt(x**2)**2", "x**2"),
    ("((x * x + y * y)**0.5)**4", "(x**2 + y**2)**2"), ("sqrt(abs(x))**4", "x**2"),
    ("cbrt(x + y)**3", "x + y"), ("cbrt(x)**6", "x**2"), ("where(x > 0, x, -x)**2", "x**2"),
    ("maximum(x, -x)**2", "x**2"), ("(sign(x) * x)**2", "x**2"), ("relu(x * x)", "x**2"),
    ("maximum(x * x, 0)", "x**2"), ("abs(x) * y * abs(x)", "x**2 * y"), ("abs(x * abs(x))", "x**2"),
    ("copysign(x, 1.0)**2", "x**2"), ("minimum(x, -x)**2 * abs(y)**2", "x**2 * y**2"),
    ("abs(tanh(x)) * abs(tanh(x))", "tanh(x)**2"), ("norm([x, y])**2", "x**2 + y**2"),
    ("(norm([x, y]) * cos(y))**2", "(x**2 + y**2) * cos(y)**2"),
]  # fmt: skip
X, Y = sympy.symbols("x y", real=True)


def derivatives(smooth: str, order: int) -> list[sympy.Expr]:
    """All partial derivatives of an order, with respect to x last."""
    expression = sympy.sympify(smooth, {"x": X, "y": Y})
    return [expression.diff(X, k, Y, order - k) if 0 < k < order else
            expression.diff(X if k else Y, order) for k in range(order + 1)]  # fmt: skip


def near(found, expected):
    np.testing.assert_allclose(found, np.array(expected, float), rtol=1e-12, atol=1e-14)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("source", "smooth"), SCALARS)
def test_second_derivatives_are_those_of_the_smooth_function(source, smooth):
    f = adc.compile(f"def f(x, y):\n    return {source}", backend="numpy")
    (dyy, dxy, dxx), (dy, dx) = derivatives(smooth, 2), derivatives(smooth, 1)
    for at in [(0.0, 0.0), (0.0, 1.5), (-0.5, 0.25)]:
        there = dict(zip((X, Y), at, strict=True))
        near(adc.grad(f, ("x", "y"))(*at), [e.subs(there) for e in (dx, dy)])
        hessian = [[e.subs(there) for e in row] for row in ((dxx, dxy), (dxy, dyy))]
        near(adc.hessian(f, ("x", "y"))(*at), hessian)
        near(adc.hvp(f, ("x", "y"))(at, (1.0, 2.0)), [a + 2 * b for a, b in hessian])
        near(adc.jvp(adc.grad(f, "x"), at, (1.0, 2.0))[1], hessian[0][0] + 2 * hessian[0][1])
        near(adc.taylor(f, at, (1.0, 0.0), 2)[2], hessian[0][0])


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("source", "smooth"), SCALARS)
def test_fourth_derivatives_are_those_of_the_smooth_function(source, smooth):
    f = adc.compile(f"def f(x, y):\n    return {source}", backend="numpy")
    expected = [derivatives(smooth, k)[k].subs({X: 0, Y: 0}) for k in (3, 4)]
    near(adc.taylor(f, (0.0, 0.0), (1.0, 0.0), 4)[3:], expected)


ARRAYS = [  # of a vector u and a matrix a
    ("0.5 * norm(u - u[0])**2", "0.5 * sum((u - u[0])**2)"), ("norm(u)**2", "sum(u * u)"),
    ("norm(u)**4", "sum(u * u)**2"), ("norm(u, 2) * norm(u, 2)", "sum(u * u)"),
    ("norm(u, ord=4)**4", "sum(u**4)"), ("norm(abs(u))**2", "sum(u * u)"),
    ("sum(norm(a, axis=1)**2)", "sum(a * a)"),
    ("sum(norm(a, axis=0, keepdims=True)**4)", "sum(sum(a * a, axis=0)**2)"),
    ("norm(a, 'fro')**2", "sum(a * a)"), ("std(u)**2", "var(u)"), ("std(u, ddof=1)**2", "var(u, ddof=1)"),
    ("std(u[1:])**2", "var(u[1:])"), ("sum(std(a, axis=1, keepdims=True)**4)", "sum(var(a, axis=1)**2)"),
    ("sqrt(sum(u**2))**4", "sum(u * u)**2"), ("(norm(u) / 3)**2", "sum(u * u) / 9"),
    ("(2 * norm(u))**2", "4 * sum(u * u)"), ("norm(u) * u[0] * norm(u)", "sum(u * u) * u[0]"),
    ("(norm(u) * norm(a))**2", "sum(u * u) * sum(a * a)"),
    ("sum(norm(a[i] - a[j])**2 for i in range(2) for j in range(2))",
     "sum(sum((a[i] - a[j])**2) for i in range(2) for j in range(2))"),
    ("sum(exp(-(norm(a[i] - a[j]) / 2)**2) for i in range(2) for j in range(2))",
     "sum(exp(-sum((a[i] - a[j])**2) / 4) for i in range(2) for j in range(2))"),
    ("norm(u[u > -1])**2", "sum(u[u > -1]**2)"), ("std(u[u > -9])**2", "var(u)"),
    ("sum(hypot(u, 2 * u)**2)", "5 * sum(u * u)"), ("norm(u[:1])**2", "u[0]**2"),
    ("hypot(u[0], norm(u))**2", "u[0]**2 + sum(u * u)"), ("sum(abs(u) * abs(u))", "sum(u * u)"),
    ("sum([norm(row)**2 for row in a])", "sum(a * a)"), ("exp(-norm(a)**2)", "exp(-sum(a * a))"),
]  # fmt: skip


@pytest.mark.thinned(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("source", "smooth"), ARRAYS)
def test_hessians_at_a_kink_are_those_of_the_smooth_form(source, smooth, dtype):
    f, g = (adc.compile(f"def f(u, a):\n    return {s}", backend="numpy") for s in (source, smooth))
    noise = np.random.default_rng(3)
    for u, a in [(np.zeros(3), np.zeros((2, 3))), (noise.normal(size=3), noise.normal(size=(2, 3)))]:
        u, a = u.astype(dtype), a.astype(dtype)
        for wrt in [w for w in "ua" if w in smooth.replace("sum", "").replace("var", "")]:
            for way in (adc.grad, adc.hessian):
                found, expected = way(f, wrt)(u, a), way(g, wrt)(u, a)
                rtol = 1e-5 if dtype == np.float32 else 1e-12
                np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-6)


PROGRAMS = [
    """
def f(u):
    r = norm(u)
    e = r * r
    return e
""",
    """
def f(u):
    r = norm(u)
    return r**2
""",
    """
def length(v):
    return norm(v)

def f(u):
    return length(u)**2
""",
    """
def f(u):
    t = 0.0
    for i in range(len(u)):
        r = abs(u[i])
        t += r * r
    return t
""",
    """
def f(u):
    t = 0.0
    for v in u:
        t = sqrt(t * t) * 0 + t + hypot(v, 0.0)**2
    return t
""",
    """
def f(u):
    r = zeros(len(u))
    for i in range(len(u)):
        r[i] = abs(u[i])
    return sum(r**2)
""",
    """
def f(u):
    if norm(u) < 5:
        return norm(u)**2
    return 0.0
""",
    """
def f(u):
    def g(v):
        return norm(v)**2 * 0.5
    return grad(g)(u) @ u
""",
    """
def f(u):
    def g(t):
        return abs(t)**2
    return sum(diff(g, 't', 2)(v) * v * v for v in u) / 2
""",
    """
def f(u):
    def g(t):
        return abs(t)**2
    return sum(diff(g, 't')(v) * v for v in u) / 2
""",
]


@pytest.mark.parametrize("source", PROGRAMS)
def test_a_root_may_be_squared_later(source):
    f = adc.compile(source, backend="numpy")
    for u in (np.zeros(2), np.array([0.0, 0.5])):
        np.testing.assert_allclose(f(u), u @ u)
        np.testing.assert_allclose(adc.grad(f)(u), 2 * u)
        np.testing.assert_allclose(adc.hessian(f)(u), 2 * np.eye(2), atol=1e-12)


EXTREME = [0.0, -0.0, 1e-320, -1e-200, 1e-160, 3.0, 1e154, -1.4e154, 1e200, -inf, nan]
SQUARES = [
    "hypot(x, y)**2", "hypot(x, y)**4", "abs(x)**2", "abs(x)**-2", "(abs(x) * y)**2", "(hypot(x, y) * y)**2",
    "(hypot(x, y) / y)**2", "sqrt(x)**2", "sqrt(x * x + y * y)**2", "cbrt(x)**3", "(x**0.5)**4",
    "hypot(x, y) * y * hypot(x, y)", "(x**0.25)**8", "maximum(x, -x)**2", "where(x > 0, x, -x)**4",
    "abs(x * x)", "maximum(x * x, 0)", "copysign(x, y)**2", "cos(abs(x))",
]  # fmt: skip
NUMPY = {n: getattr(np, n) for n in ("hypot", "sqrt", "cbrt", "maximum", "where", "copysign", "abs", "cos")}


@pytest.mark.parametrize("source", SQUARES)
def test_values_are_those_of_the_written_form(source):
    f = adc.compile(f"def f(x, y):\n    return {source}", backend="numpy")
    x, y = (p.ravel() for p in np.meshgrid(EXTREME, EXTREME))
    with np.errstate(all="ignore"):
        expected = eval(source, NUMPY | {"x": x, "y": y})
    found = adc.vmap(f, (0, 0))(x, y)
    np.testing.assert_allclose(found, np.broadcast_to(expected, x.shape), rtol=1e-13, atol=1e-322)


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_squares_of_scaled_norms_keep_their_range(scale):
    f = adc.compile("def f(u, s):\n    return (norm(u) / s)**2 ")
    u = np.array([3.0, 4.0]) * scale
    np.testing.assert_allclose(f(u, scale), 25.0, rtol=1e-13)
    np.testing.assert_allclose(adc.grad(f, "s")(u, scale), -50.0 / scale, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(EVEN | ODD))
def test_functions_have_the_parity_of_the_table(name):
    entry = TABLE[name]
    points = [np.linspace(0.05, 0.95, 7) for _ in entry.params]
    sign = 1 if name in EVEN else -1
    np.testing.assert_array_equal(entry.numpy(*points), sign * entry.numpy(-points[0], *points[1:]))


def test_powers_by_repeated_squares_are_looked_through_once():
    f = adc.compile(
        "def f(x, y):\n    t = abs(x)\n" + "    t = t * t * y\n" * 40 + "    return t", backend="numpy"
    )
    assert f(1.0, 1.0) == 1.0


KEPT = [  # (source, first, second derivative by x at 0): conventions of kinks that no power makes smooth
    ("abs(x)", 0, 0), ("abs(x)**3", 0, 0), ("x * abs(x)", 0, 0), ("relu(x)**2", 0, 0), ("sign(x) * x", 0, 0),
    ("maximum(x, 0)**2", 0, 0.5), ("norm([x, x])", 0, 0), ("(abs(x) - 1)**2", 0, 0),
    ("abs(x)**3 * abs(x)", 0, 0), ("logsumexp([x, x])", 1, 0), ("logsumexp([x, -x])", 0, 1),
    ("max([x, x])**2", 0, 2), ("max([x, -x])**2", 0, 0), ("where(x > 0, x, -x)", -1, 0),
]  # fmt: skip


@pytest.mark.parametrize(("source", "first", "second"), KEPT)
def test_conventions_at_kinks_stay(source, first, second):
    f = adc.compile(source, args="x", backend="numpy")
    assert adc.grad(f)(0.0) == pytest.approx(first)
    assert adc.hessian(f)(0.0) == pytest.approx(second)
    assert adc.taylor(f, (0.0,), (1.0,), 2)[1:] == pytest.approx((first, second))


# -- random compositions ---------------------------------------------------------------------------------

KINKS = [
    "abs({0})", "hypot({0}, {1})", "norm([{0}, {1}])", "sqrt({0} * {0} + {1} * {1})", "maximum({0}, -{0})",
    "std([{0}, {1}])",
]  # fmt: skip
PLAIN = [
    "({0})", "sqrt({0}**2 + {1}**2)", "sqrt({0}**2 + {1}**2)", "sqrt({0}**2 + {1}**2)", "({0})",
    "(({0} - {1}) / 2)",
]  # fmt: skip
AROUND = [
    "({})**2", "({})**4", "({0}) * ({0})", "sin({})**2", "(3 * ({}) * (x + 2))**2", "(({}) / (1 + y * y))**2",
]  # fmt: skip
INNER = ["x", "y", "(x - y)", "(x * y)", "sin(x)", "(2 * y)", "expm1(x)"]


def composition(seed: int) -> tuple[str, str]:
    """A sum of smooth functions of random kinks, and the same written without kinks."""
    choose = random.Random(seed)
    terms = []
    for _ in range(2):
        k, around = choose.randrange(len(KINKS)), choose.choice(AROUND)
        one, other = choose.choice(INNER), choose.choice(INNER)
        if around.startswith("sin") and not KINKS[k].startswith(("abs", "maximum")):
            around = AROUND[0]  # an even function of a root that is no power of it keeps the kink
        terms.append([around.format(form.format(one, other)) for form in (KINKS[k], PLAIN[k])])
    return tuple(" + ".join(parts) for parts in zip(*terms, strict=True))


@pytest.mark.slow_when(lambda seed: seed > 7)
@pytest.mark.parametrize("seed", range(80))
def test_random_smooth_compositions_of_kinks(seed):
    source, plain = composition(seed)
    f = adc.compile(f"def f(x, y):\n    return {source}", backend="numpy")
    expression = sympy.sympify(plain.replace("expm1(x)", "(exp(x) - 1)"), {"x": X, "y": Y})
    smooth = sympy.lambdify((X, Y), sympy.hessian(sympy.expand(expression), (X, Y)))
    for at in [(0.0, 0.0), (0.5, 0.5), (0.0, -0.75)]:
        found = adc.hessian(f, ("x", "y"))(*at)
        np.testing.assert_allclose(found, smooth(*at), rtol=1e-10, atol=1e-12, err_msg=source)
