"""Guards through loops, scans and rules: a derivative that is known to be zero meets no infinite one.

Each program has a finite value and finite differences, but a derivative in it is infinite: in a branch that
is not taken, of a value that does not depend on an argument yet, or of one that is overwritten. All modes
must give the derivative nevertheless.
"""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ad.jvp import jvp
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Apply, Read
from adcompiler.ir.walk import arrays_of, elements_of

Z = np.array([0.0, 0.4])
ROW = np.array([0.0, 0.4, 0.7, 1.1, 1.4])
ZEROS = np.zeros(4)

# Functions of a number p and an array z, by name, with what z is. The derivative is that by p.
BRANCHES = {
    "for": ("""
def f(p, z):
    t = 0.0
    for i in range(len(z)):
        if z[i] != 0:
            r = p / z[i]
            for k in range(6):
                r = sin(r)
            t += r
    return t
""", Z),
    "while": ("""
def f(p, z):
    t = 0.0
    for i in range(len(z)):
        if z[i] != 0:
            r = p / z[i]
            while r > 0.5:
                r = 0.8 * sin(r)
            t += r
    return t
""", Z),
    "continue": ("""
def f(p, z):
    t = 0.0
    for i in range(len(z)):
        if z[i] == 0:
            continue
        r = p / z[i]
        for k in range(6):
            r = sin(r)
        t += r
    return t
""", Z),
    "sqrt": ("""
def f(p, z):
    t = 0.0
    for i in range(len(z)):
        if z[i] > 0:
            r = sqrt(p * z[i])
            for k in range(6):
                r = sqrt(r) + 0.1 * p
            t += r
    return t
""", Z),
    "power": ("""
def f(p, z):
    t = 0.0
    for i in range(len(z)):
        if z[i] > 0:
            r = (p * z[i]) ** 0.5
            for k in range(6):
                r = sin(r)
            t += r
    return t
""", Z),
    "comprehension": ("""
def g(r, z):
    for k in range(6):
        r = sin(r) / z + r
    return r

def f(p, z):
    return sum([g(p / z[i], z[i]) if z[i] != 0 else p for i in range(len(z))])
""", Z),
    "cumprod of a list": ("""
def f(p, z):
    t = 0.0
    for i in range(len(z)):
        if z[i] != 0:
            t += sum(cumprod([p / z[i], p * z[i], 2.0, sqrt(z[i]), p, p, p, z[i]]))
    return t
""", Z),
    "cumprod": ("""
def f(p, z):
    w = where(z != 0, cumprod(p / z[::-1])[::-1], 0.0)
    return sum(w * w)
""", ROW),
    "cumsum": ("""
def f(p, z):
    w = where(z != 0, cumsum(sqrt(p * z[::-1]))[::-1], 0.0)
    return sum(w * w)
""", ROW),
    "a sum in each iteration": ("""
def f(p, z):
    c = p / z
    h = 0.0 * c
    t = 0.0
    for k in range(5):
        h = sin(h + c) * p
        t += sum(where(z != 0, h, 0.0))
    return t
""", Z),
    "rows that are collected": ("""
def f(p, z):
    c = p / z
    h = 0.0 * c
    t = [0.0 * z for k in range(5)]
    for k in range(5):
        h = sin(h + c) * p
        t[k] = h
    return sum(where(z[j] != 0, t[k, j], p) for j in range(len(z)) for k in range(5))
""", Z),
    "neighbours": ("""
def f(p, z):
    c = sqrt(p * z)
    for k in range(5):
        c = sqrt(c) + 0.1 * sqrt(c[::-1])
    return sum(where(z > 0.2, c, 0.0))
""", np.array([0.0, 0.4, 0.4, 0.3, 0.1])),
    "two guards": ("""
def f(p, z):
    a = p / z
    b = sqrt(p * z)
    for k in range(5):
        a = sin(a) + cos(b)
        b = sqrt(b)
    return sum(where(z > 0, a, 0.0)) + sum(where(z > 0.1, b, 0.0))
""", Z),
    "solve": ("""
def f(p, z):
    t = 0.0
    for i in range(len(z)):
        if z[i] != 0:
            r = solve([[z[i], 0.0], [0.1, p]], [p, 1.0])
            for k in range(5):
                r = sin(r)
            t += sum(r)
    return t
""", Z),
}  # fmt: skip
STORED = {
    "sqrt": ("""
def f(p, z):
    a = 0.0
    for i in range(len(z)):
        a = sqrt(a) + p
    return a
""", ZEROS),
    "power": ("""
def f(p, z):
    a = 0.0
    for i in range(len(z)):
        a = a ** 0.7 + p
    return a
""", ZEROS),
    "cbrt": ("""
def f(p, z):
    a = 0.0
    for i in range(len(z)):
        a = cbrt(a) + p
    return a
""", ZEROS),
    "asin": ("""
def f(p, z):
    a = 1.0
    for i in range(len(z)):
        a = asin(a) * 0.4 * p
    return a
""", ZEROS),
    "reciprocal": ("""
def f(p, z):
    a = 0.0
    for i in range(len(z)):
        a = 1 / (1 / a + 1 / p) + p
    return a
""", ZEROS),
    "an array": ("""
def f(p, z):
    a = zeros(len(z))
    for i in range(5):
        a = sqrt(a) + p * z
    return sum(a)
""", ROW + 0.1),
    "an array by elements": ("""
def f(p, z):
    a = zeros(len(z))
    for i in range(2, len(z)):
        a[i] = sqrt(a[i - 2]) + p * z[i] + 0.1 * a[i - 1]
    return sum(a)
""", ROW),
    "drag": ("""
def f(p, z):
    v = 0.0
    for i in range(len(z)):
        v = v + 0.1 * (p - 0.5 * sqrt(v))
    return v
""", ZEROS),
    "while": ("""
def f(p, z):
    a = 0.0
    while a < 3:
        a = sqrt(a) + p
    return a
""", ZEROS),
    "collected": ("""
def f(p, z):
    a = 0.0
    t = zeros(len(z))
    for i in range(len(z)):
        t[i] = a
        a = sqrt(a) + p
    return sum(sqrt(t) * z)
""", ROW),
    "a branch before": ("""
def f(p, z):
    u = where(z > 0.5, p * z, 0.0)
    for i in range(5):
        u = where(z > 1, sqrt(u) + p, sqrt(u))
    return sum(u)
""", ROW),
    "a sum of nothing": ("""
def f(p, z):
    n = len(z)
    return sum(sqrt(sum(p * z[j] for j in range(n) if z[j] > i)) for i in range(4))
""", ROW),
    "an overwritten value": ("""
def f(p, z):
    s = 0.0
    for k in range(len(z)):
        if z[k] < 1:
            s = sqrt(p * z[k])
        else:
            s = sin(s)
    return s
""", ROW),
    "a value of the last iteration": ("""
def f(p, z):
    a = p
    b = p
    for i in range(len(z)):
        b = a * a
        a = sqrt(z[len(z) - 1 - i] * p)
    return b
""", ROW),
}  # fmt: skip


def slope(f, p, step=1e-6):
    return (f(p + step) - f(p - step)) / (2 * step)


def holds(f, z, p=1.3, tolerance=1e-6):
    """All modes give the derivative by p, of both orders."""
    first = slope(lambda q: f(q, z), p)
    gradient = adc.grad(f, 0)
    second = slope(lambda q: gradient(q, z), p)
    assert np.isfinite([f(p, z), first, second]).all()
    found = {
        "grad": gradient(p, z),
        "jvp": adc.jvp(f, (p, z), (1.0, None))[1],
        "jacobian": adc.jacobian(f, 0)(p, z),
    }
    for mode, value in found.items():
        np.testing.assert_allclose(value, first, rtol=tolerance, atol=tolerance, err_msg=mode)
    found = {
        "hessian": adc.hessian(f, 0)(p, z),
        "reverse over reverse": adc.grad(gradient, 0)(p, z),
        "Taylor": adc.taylor(f, (p, z), (1.0, None), 2)[2],
    }
    for mode, value in found.items():
        np.testing.assert_allclose(value, second, rtol=10 * tolerance, atol=10 * tolerance, err_msg=mode)


@pytest.mark.thinned(4, backend="cpu")
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("name", BRANCHES)
def test_a_guard_goes_through_a_loop(name, backend):
    source, z = BRANCHES[name]
    holds(adc.compile(source, "f", backend=backend), z)


@pytest.mark.thinned(4, backend="cpu")
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("name", STORED)
def test_a_derivative_that_is_zero_yet_is_not_multiplied(name, backend):
    source, z = STORED[name]
    holds(adc.compile(source, backend=backend), z)


@adc.function
def rule(x: float, r: float, dr: float):
    return 0.5 * dr / r


@adc.custom_vjp(rule, check=False)
def root(x: float):
    return sqrt(x)  # noqa: F821


@adc.function(backend="numpy")
def guarded_rule(p, z):
    t = 0.0
    for i in range(len(z)):
        if z[i] > 0:
            r = p * z[i]
            for _ in range(4):
                r = root(r) + 0.1
            t += r
    return t


@adc.function(backend="numpy")
def rule_from_zero(p, z):
    a = 0.0
    for _ in range(len(z)):
        a = root(a) + p
    return a


@pytest.mark.parametrize("f", [guarded_rule, rule_from_zero], ids=lambda f: f.__name__)
def test_a_guard_goes_through_a_rule(f):
    holds(f, Z)


def test_a_case_of_a_batch_is_guarded():
    single = adc.compile("""
def f(p, z):
    r = 0.0
    if z != 0:
        r = p / z
        for k in range(6):
            r = sin(r)
    return r
""")
    p, pulled = np.full(2, 1.3), adc.vjp(adc.vmap(single), np.full(2, 1.3), Z, wrt=(0,))[1]
    expected = [slope(lambda q, z=z: single(q, z), 1.3) for z in Z]
    np.testing.assert_allclose(pulled(np.ones(2))[0], expected, rtol=1e-6)
    np.testing.assert_allclose(adc.vmap(adc.grad(single, 0))(p, Z), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "body", ["exp(-(max(x) ** 2))", "exp(-((min(x) - 1) ** 2))", "sqrt(sum(x))", "1 / (1 + max(x) ** 2)"]
)
def test_reductions_of_nothing_have_no_derivative(body):
    f, nothing = adc.compile(f"def f(x: f64[n]):\n    return {body}", backend="numpy"), np.zeros(0)
    assert adc.jvp(f, (nothing,), (nothing,))[1] == 0.0
    assert adc.taylor(f, (nothing,), (nothing,), 2)[1:] == (0.0, 0.0)
    assert adc.grad(f)(nothing).shape == adc.hvp(f)((nothing,), nothing).shape == (0,)


def test_loops_without_singularities_carry_no_flags():
    """Neither the number of the iteration nor a flag is tested where derivatives are bounded."""
    source = """
def f(p, z):
    a = 0.0
    b = 0.0
    for i in range(len(z)):
        a = {}
        b = b * 0.5 + a * p if b < 1 else sin(b)
    return a + b
"""
    for step, expected in (("sin(a) + p", False), ("sqrt(1 + a * a) * p", False), ("sqrt(a) + p", True)):
        f = adc.compile(source.format(step), backend="numpy")
        adc.jvp(f, (1.3, ROW), (1.0, None))
        func = f._trace(f._shown((1.3, ROW))).func
        (tangent,) = jvp(func.results, {func.inputs[0]: func.inputs[0]})
        loops = {a.loop for a in arrays_of((tangent,)) if isinstance(a, Item)}
        conditions = [e for loop in loops for e in comparisons(loop)]
        assert any(conditions) == expected, step


def comparisons(loop):
    """Whether each comparison in a loop is of its iteration's number."""
    elements = [e for a in arrays_of(loop.roots) for e in elements_of(a.elements)]
    step = loop.slots[0]
    return [
        any(isinstance(a, Read) and a.array is step for a in e.args)
        for e in elements
        if isinstance(e, Apply) and e.op == "less"
    ]
