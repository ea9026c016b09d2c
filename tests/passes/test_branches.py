"""Real branches: a kernel computes one side only of a scalar condition, and so does its derivative."""

from __future__ import annotations

import re

import numpy as np
import pytest
from judges.compared import totalled
from programs import Program

import adcompiler as adc

MODEL = """
def model(x: f64[n], M: f64[n, n], flag):
    if flag > 0:
        y = M @ x
        r = sum(tanh(y))
    elif flag < -1:
        r = sum(exp(x))
    else:
        r = sum(x)
    return r * flag
"""
CHOSEN = """
def chosen(x: f64[n], y: f64[n], flag):
    if flag > 0 and flag < 5:
        z = exp(x) * y
    else:
        z = sin(y)
    return z * flag
"""
STEPS = """
def steps(x: f64[n], w: f64[m]):
    s = 0.5
    for t in range(n):
        if x[t] > 0.4:
            s = s + exp(s * x[t]) * 0.1
        elif x[t] < -0.4:
            s = s * sum(sin(w * s))
        else:
            s = sin(s) + log(s * s + x[t]**2)
    return s
"""
NEWTON = """
def newton(a, exact: i64):
    y = a
    if exact == 0:
        while abs(y * y - a) > 1e-13:
            y = 0.5 * (y + a / y)
    else:
        y = sqrt(a)
    return y
"""
X, Y, M = np.linspace(-0.9, 0.9, 7), np.linspace(0.2, 0.9, 7), np.cos(np.arange(49.0)).reshape(7, 7)
CASES = [
    *((MODEL, (X, M, flag)) for flag in (1.5, -2.0, -0.5)),
    *((CHOSEN, (X, Y, flag)) for flag in (1.5, 7.0, -2.0)),
    (STEPS, (X, Y)),
    *((NEWTON, (2.0, exact)) for exact in (0, 1)),
    ("exp(x) if x > 0 else sin(x)", (0.7,)),
    ("exp(x) if x > 0 else sin(x)", (-0.7,)),
    ("sqrt(x) if x > 0 else 0.0", (-0.7,)),
]

SECOND = [CASES[k] for k in (0, 3, 6, 7, -3)]  # one of each program


@pytest.mark.thinned(12)
@pytest.mark.parametrize(("source", "args"), CASES)
def test_values_and_derivatives_are_the_interpreters(source, args):
    fast, slow = adc.compile(source), adc.compile(source, backend="numpy")
    np.testing.assert_allclose(fast(*args), slow(*args), rtol=1e-13, atol=1e-14)
    total = totalled(Program(source.strip(), args)).source
    fast, slow = adc.compile(total), adc.compile(total, backend="numpy")
    for got, expected in zip(_parts(adc.grad(fast)(*args)), _parts(adc.grad(slow)(*args)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)
    if (source, args) in SECOND:
        adc.check_grad(fast, *args, order=2)


def _parts(found):
    return found if isinstance(found, tuple) else (found,)


def test_one_side_is_computed():
    """A side that would take for ever, or divide by what is zero, is not run."""
    endless = adc.compile("""
def f(x, flag: i64):
    y = x
    if flag > 0:
        while y > 0:
            y = y + 1.0
    return y
""")
    assert endless(1.0, 0) == 1.0
    assert adc.grad(endless)(1.0, 0) == 1.0


def blocks(text):
    """The lines that stand directly under each `if` of a driver."""
    return re.findall(r"^    if (.*):\n((?:        .*\n)+)", text[text.index("def run(") :], re.MULTILINE)


def test_loops_of_one_side_stand_under_its_condition():
    f = adc.compile(MODEL)
    f(X, M, 1.0)
    found = dict(blocks(f.show("kernel")))
    assert list(found) == [
        "flag > 0.0",
        "not flag > 0.0 and flag < -1.0",
        "not flag > 0.0 and not flag < -1.0",
    ]
    called = [set(re.findall(r"nest\d+", body)) for body in found.values()]
    assert all(called)
    assert (
        sum(map(len, called))
        == len(set.union(*called))
        == len(re.findall(r"def nest\d+\(", f.show("kernel")))
    )


def test_the_derivative_of_the_side_that_is_not_taken_is_not_computed():
    f = adc.grad(adc.compile(MODEL), "x")
    f(X, M, 1.0)
    text = f.show("kernel")
    nests = dict(re.findall(r"def (nest\d+)\(.*\n((?:    .*\n|\n(?!\n))+)", text))
    under = [re.findall(r"nest\d+", body) for _, body in blocks(text)]
    hidden = [name for name, body in nests.items() if "math.exp(-2.0 * abs(" in body]
    assert hidden
    assert all(any(name in names for names in under) for name in hidden)


def test_a_loop_over_points_is_written_out_for_each_side():
    f = adc.compile(CHOSEN)
    f(X, Y, 1.0)
    text = f.show("kernel")
    for body in re.findall(r"        for .*\n((?:            .*\n)+)", text):
        assert ("math.exp" in body) != ("math.sin" in body)


def test_a_iteration_computes_one_side():
    f = adc.compile(STEPS)
    f(X, Y)
    text = f.show("kernel")
    for call in ("math.exp", "math.sin", "math.log"):
        lines = [line for line in text.splitlines() if call in line]
        assert lines
        assert all(line.startswith(" " * 12) for line in lines)


@pytest.mark.slow
def test_conditions_may_be_longer_than_the_stack(shallow_stack):
    terms = " and ".join(f"x > -{k}.5" for k in range(300))
    f = adc.compile(f"def f(x):\n    if {terms}:\n        return exp(x)\n    return sin(x)")
    assert f(0.5) == pytest.approx(np.exp(0.5), rel=1e-15)
    assert f(-0.7) == pytest.approx(np.sin(-0.7), rel=1e-15)
    assert adc.grad(f)(0.5) == pytest.approx(np.exp(0.5), rel=1e-15)
