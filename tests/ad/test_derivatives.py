"""Derivatives inside the language: `diff`, `grad`, `value_and_grad`, `jvp`, and functions of functions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from judges.compared import agrees, along, directions, has_oracles_value, leaves, totalled
from oracle import evaluate
from programs import Program

import adcompiler as adc

RANDOM = np.random.default_rng(7)
V3, W3, B3 = RANDOM.uniform(0.4, 1.2, (3, 3))
X4, T4 = RANDOM.uniform(0.3, 0.9, (2, 4))
BACKENDS = ("numpy", "cpu")

BURGERS = """
def residual(x, t, w, v, b, nu):
    def u(x, t):
        return sum(b[k] * tanh(w[k] * x + v[k] * t) for k in range(len(w)))
    return diff(u, t) + u(x, t) * diff(u, x) - nu * diff(u, x, 2)
"""

PROGRAMS = {
    "a residual": Program(BURGERS, (0.4, 0.3, W3, V3, B3, 0.1)),
    "its loss over points": Program(
        BURGERS + "\ndef loss(xs, ts, w, v, b, nu):\n"
        "    return sum(residual(x, t, w, v, b, nu)**2 for x, t in zip(xs, ts))\n",
        (X4, T4, W3, V3, B3, 0.1),
    ),
    "its values at points": Program(
        BURGERS + "\ndef at(xs, ts, w, v, b, nu):\n"
        "    return [[residual(x, t, w, v, b, nu) for t in ts] for x in xs]\n",
        (X4, T4[:2], W3, V3, B3, 0.1),
    ),
    "whole arrays, entry by entry": Program(
        """
def residual(x, t, w, v, b):
    def u(x, t):
        return tanh(x[:, None] * w + t[:, None] * v) @ b
    return diff(u, t) + u(x, t) * diff(u, x) - 0.1 * diff(u, x, 2)
""",
        (X4, T4, W3, V3, B3),
    ),
    "an expression": Program("diff(sin(x) * y**2 + exp(x * y), x, 2, y)", (0.7, 1.1)),
    "a variable twice": Program("diff(x**3 * y, x, y, x)", (0.7, 1.1)),
    "no confusion of perturbations": Program("diff(x * diff(x * y + y, y), x)", (0.7, 1.1)),
    "captured variables": Program(
        """
def f(x, y):
    def g(y):
        return x * sin(x * y)
    def h(x):
        return x**2 * diff(g, y)
    return diff(h, x) + h(y)
""",
        (0.7, 1.1),
    ),
    "a function of a name": Program(
        "def u(a, b):\n    return a**3 * exp(b)\n\ndef f(x, y):\n"
        '    return diff(u, "a", 2, "b")(x, y) + diff(u, "b")(y, 2 * x)\n',
        (0.7, 1.1),
    ),
    "gradients": Program(
        """
def energy(p, s):
    return s * sum(p**2) + sin(p[0] * s)

def f(p, s):
    dp, ds = grad(energy)(p, s)
    return dp * ds + grad(energy, wrt="p")(p, s**2), grad(energy, ("s",))(s=s, p=p)
""",
        (V3, 0.7),
    ),
    "a gradient for each point": Program(
        """
def potential(p, q):
    return exp(-sum((p - q)**2))

def forces(ps, qs):
    return [sum(grad(potential, "p")(p, q)[0] for q in qs) for p in ps]
""",
        (RANDOM.uniform(0, 1, (4, 2)), RANDOM.uniform(0, 1, (3, 2))),
    ),
    "a gradient by what the points share": Program(
        """
def f(s, xs):
    def g(s):
        return [sin(s * x) * sum(cos(s + y) for y in xs) for x in xs]
    def h(s, x):
        return sin(s * x) * sum(cos(s + y) for y in xs)
    return [grad(h, "s")(s, x) * x for x in xs], diff(g, s)
""",
        (0.6, X4),
    ),
    "value and gradient": Program(
        "def u(x):\n    return sum(x**3)\n\ndef f(x):\n    v, g = value_and_grad(u)(x)\n    return v * g\n",
        (V3,),
    ),
    "directions": Program(
        "def u(x, y):\n    return x**2 * y, sum(x)\n\ndef f(x, y):\n"
        "    (p, q), (dp, dq) = jvp(u, (x, y), (2 * x, 1.5))\n    return p * dp + q * dq\n",
        (V3, 0.7),
    ),
    "forces between pairs, in a loop": Program(
        """
def potential(p, q):
    return 1 / (0.1 + sum((p - q)**2))

def force(ps):
    return [sum(grad(potential, "p")(ps[i], ps[j]) for j in range(i)) for i in range(len(ps))]

def f(ps, vs):
    for _ in range(6):
        vs = vs - 0.01 * force(ps)
        ps = ps + 0.01 * vs
    return ps
""",
        (RANDOM.uniform(0, 1, (3, 2)), RANDOM.uniform(0, 1, (3, 2))),
    ),
    "inside a loop": Program(
        """
def newton(x, a):
    def f(x):
        return x**3 - a
    for _ in range(6):
        x = x - f(x) / diff(f, x)
    return x
""",
        (1.5, 2.0),
    ),
    "of a loop": Program(
        """
def f(x, y):
    def g(x, y):
        s = x
        for k in range(7):
            s = s + 0.1 * sin(s * y)
        return s
    return diff(g, x, 2) + diff(g, x, 1, y)
""",
        (0.8, 1.2),
    ),
    "of a loop, entry by entry": Program(
        """
def f(x, y):
    def g(x):
        s = x
        for k in range(7):
            s = s + 0.1 * sin(s * y[k] + x)
        return s
    return diff(g, x, 2)
""",
        (X4, RANDOM.uniform(0, 1, 7)),
    ),
    "an order in a name": Program(
        "def f(x):\n    total = 0.0\n    for k in (1, 2, 3):\n"
        "        total = total + diff(sin(x * x), x, k)\n    return total\n",
        (0.6,),
    ),
    "a gathered table": Program(
        """
def f(x, table):
    def u(x, k):
        return table[k] * x**2 + sin(x * table[k + 1])
    return sum(diff(u, x) for k in range(len(table) - 1))
""",
        (0.6, V3),
    ),
    "functions as arguments": Program(
        """
def twice(f, x):
    return f(f(x))

def slope(f, x):
    return diff(f, "x")(x) + grad(f)(2 * x)

def cube(x):
    return x**3

def f(x):
    return twice(cube, x) + twice(sin, x) + slope(cube, x) + slope(tanh, x)
""",
        (0.6,),
    ),
    "recursion": Program(
        """
def power(x, n):
    if n == 0:
        return 1.0
    return x * power(x, n - 1)

def derivatives(x, n):
    if n == 0:
        return sin(x)
    return x * diff(derivatives(x, n - 1), x)

def f(x):
    return power(x, 5) + derivatives(x, 3)
""",
        (0.6,),
    ),
}


@pytest.mark.thinned(6, backend="cpu")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_the_oracles(name, backend):
    has_oracles_value(PROGRAMS[name], backend)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_tangents_are_the_oracles(name, backend):
    program = totalled(PROGRAMS[name])
    f = adc.compile(program.source, backend=backend)
    (way,) = directions(program, 1)
    expected = along(program, way)
    assert expected is not None
    wrt = tuple(range(len(program.args)))
    agrees(adc.grad(f, wrt)(*program.args), way, expected)
    tangent = adc.jvp(f, program.args, way)[1]
    assert abs(tangent - expected) <= 1e-9 * max(1.0, abs(expected))


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_are_the_oracles(name):
    program = totalled(PROGRAMS[name])
    f = adc.compile(program.source, backend="numpy")
    one, two = directions(program, 2)
    expected = along(program, one, two)
    assert expected is not None
    wrt = tuple(range(len(program.args)))
    agrees(adc.hvp(f, wrt)(program.args, one), two, expected, relative=1e-8)


def test_derivatives_and_functions_around_a_decorated_function_are_captured():
    @adc.function
    def u(x, t):
        return x**2 * t

    slope = adc.grad(u, "x")

    @adc.function
    def f(x, t):
        return slope(x, t) + diff(u, x, 2) + u(x, t)  # noqa: F821

    assert f(3.0, 2.0) == 12.0 + 4.0 + 18.0
    assert pickle.loads(pickle.dumps(f))(3.0, 2.0) == f(3.0, 2.0)
    assert adc.grad(f, "x")(3.0, 2.0) == 4.0 + 12.0


def test_grad_of_the_package_is_that_of_the_language():
    from adcompiler import grad

    @adc.function
    def u(x):
        return x**3

    @adc.function
    def f(x):
        return grad(u)(x) + adc.grad(u)(x)

    @adc.function
    def many(xs):
        return sum(u(x) for x in xs)  # u is named in the generator only

    assert f(2.0) == 24.0
    assert many(np.array([1.0, 2.0])) == 9.0


def test_a_file_may_name_a_derivative(tmp_path):
    path = tmp_path / "waves.adc"
    path.write_text("def u(x, t):\n    return sin(x - t)\n\nux = diff(u, 'x')\n")
    waves = adc.load(path)
    assert waves.ux(0.5, 0.2) == pytest.approx(np.cos(0.3))
    assert adc.grad(waves.ux, "t")(0.5, 0.2) == pytest.approx(np.sin(0.3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_derivative_has_its_functions_type(backend):
    x = np.array([0.5, 0.25], np.float32)
    third = adc.compile("def f(x):\n    return diff(sin(x) * 2, x, 3)", backend=backend)
    slope = adc.compile(
        "def g(x):\n    return sum(x**2)\n\ndef f(x):\n    return grad(g)(x)", backend=backend
    )
    assert third(x).dtype == slope(x).dtype == np.float32
    np.testing.assert_allclose(slope(x), 2 * x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_derivative_in_a_branch_that_is_not_taken_has_no_effect(backend):
    source = "def f(x, y):\n    def u(x):\n        return sqrt(x * y)\n    return where(x > 0, diff(u, x), 0)"
    f = adc.compile(source, backend=backend)
    assert f(0.0, 1.0) == 0.0
    assert adc.grad(f)(0.0, 1.0) == (0.0, 0.0)
    np.testing.assert_allclose(adc.grad(f)(4.0, 1.0), (-1 / 32, 1 / 8))


def test_the_points_of_a_comprehension_cost_what_they_are():
    """No array over pairs of points is made: each point's derivative is its own."""
    f = adc.compile(PROGRAMS["its loss over points"].source)
    ir = adc.grad(f, "w").show("ir", *PROGRAMS["its loss over points"].args)
    assert all(line.count(" < ") <= 2 for line in ir.splitlines())


REFUSED = {
    "def f(x):\n    y = x * x\n    return diff(y * x, x)": "y, which depends on x",
    "def f(x):\n    def g(y):\n        return x * y\n    return diff(g(x), x)": "g, which depends on x",
    "def f(x):\n    def g(y):\n        return diff(x * y, x)\n    return g(x)": "a name from outside",
    "def u(x, y):\n    return x * y\n\ndef f(x):\n    return diff(u, x)": "there is no y here",
    "def u(x):\n    return x\n\ndef f(x):\n    t = 2.0\n    return diff(u, t)": "not a parameter of u",
    'def u(x):\n    return x\n\ndef f(x):\n    return diff(u, "t")(x)': "has no parameter 't'",
    "def f(x):\n    return diff(x)": "diff takes a function",
    "def f(x):\n    return diff(x**2, 1, x)": "diff takes a function",
    "def f(x):\n    return diff(x**2, x, -1)": "the order of diff is the number -1",
    "def f(x):\n    return diff(x**2, x, 99)": "a derivative of order 99",
    "def f(x):\n    return diff(x > 0, x)": "the differentiated value is bool",
    "def f(x):\n    return np.diff(x)": "diff of a scalar",
    "def u(x):\n    return [x, x]\n\ndef f(x):\n    return grad(u)(x)": "grad of an array of rank 1",
    "def f(x):\n    return grad(x)(x)": "grad takes a function",
    "def u(x):\n    return x\n\ndef f(x):\n    return grad(u, 'y')(x)": "has no parameter 'y'",
    "def u(x):\n    return x\n\ndef f(x):\n    return grad(u)(x, x)": "takes (x)",
    "def u(x):\n    return x\n\ndef f(x):\n    return jvp(u, (x,), ([x, x],))": "a tangent is an array",
    "def u(p):\n    return p[0]\n\ndef f(x):\n    return grad(u)((x, x))": "got a tuple",
    "def f(x):\n    return x(2)(3)": "not a function",
    "def r(x):\n    return r(x) + 1\n\ndef f(x):\n    return r(x)": "nest deeper than 100",
    "def r(x):\n    return diff(r(x), x)\n\ndef f(x):\n    return r(x)": "are nested too deeply",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_has_no_clear_meaning_is_refused(source):
    with pytest.raises(adc.Error) as caught:
        adc.compile(source, backend="numpy")(2.0)
    assert REFUSED[source] in str(caught.value)
    assert caught.value.line is not None
    assert caught.value.remedy


@pytest.mark.parametrize("body", ["x * sum(x)", "x[::-1]", "x @ x", "x[1:]", "[x[0] * v for v in x]"])
def test_by_an_array_only_what_is_pointwise_has_a_derivative(body):
    source = f"def u(x):\n    return {body}\n\ndef f(x):\n    return diff(u, x)"
    with pytest.raises(adc.ShapeError, match="is elementwise"):
        adc.compile(source, backend="numpy")(V3)


def test_the_oracles_own_derivatives_are_known_ones():
    source = "def u(x):\n    return sin(2 * x)\n\ndef f(x):\n    return diff(u, x, 2), grad(u)(x)"
    found = list(leaves(evaluate(source, 0.3)))
    np.testing.assert_allclose(found, [-4 * np.sin(0.6), 2 * np.cos(0.6)], rtol=1e-14)
