"""Derivatives by vector have the order of the vector, however the parameters nest."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.fit.points import Points
from adcompiler.fit.problem import Problem

RANDOM = np.random.default_rng(0)
ROWS = [{"a": float(RANDOM.normal()), "b": RANDOM.normal(size=2)} for _ in range(40)]
RECORDS = np.zeros(4, [("a", "f8"), ("b", "f8", (2,))])
RECORDS["a"], RECORDS["b"] = RANDOM.normal(size=4), RANDOM.normal(size=(4, 2))
PAIR = (np.array([1.0, -2.0]), {"u": np.array([0.5, 3.0]), "v": 2.0})


def slopes(function, x, h=1e-6):
    return np.stack([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(x.size)], -1)


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    ("residuals", "start", "wrt"),
    [
        ("def r(p): return [q['a']**4 + sum(q['b']**3) * q['a'] for q in p]", ROWS[:3], 0),
        ("def r(p): return [q['a']**4 + sum(q['b']**3) * q['a'] for q in p]", ROWS[:20], 0),
        ("def r(p): return p.a**2, p.b**3, sum(p.a) * p.b[0, 0]", RECORDS, 0),
        ("def r(a, b): return a['u'] * b**2, b**2 * a['v']", PAIR, ("b", "a")),
    ],
)
def test_all_derivatives(residuals, start, wrt):
    names = wrt if isinstance(wrt, tuple) else None
    made = Problem("fit", adc.compile(residuals, backend="numpy"), Points(start, "x0", names), wrt, ())
    x = made.points.start
    jacobian = made.jacobian
    assert jacobian(x) == pytest.approx(slopes(made.value, x), abs=1e-6)
    assert made.sparse_jacobian(x).toarray() == pytest.approx(jacobian(x))
    assert made.curvatures()(x) == pytest.approx(slopes(jacobian, x), abs=1e-6)


def test_second_derivatives_of_a_scalar():
    f = adc.compile("def f(p): return sum(p.a**4) + sum(p.b**3) * p.a[1]", backend="numpy")
    made = Problem("fit", f, Points(RECORDS, "x0"), 0, ())
    x, v = made.points.start, np.arange(12.0)
    value, gradient = made.value_and_slope(x)
    assert value == pytest.approx(made.scalar(x))
    assert gradient == pytest.approx(slopes(made.scalar, x), abs=1e-6)
    assert made.hessian(x) == pytest.approx(slopes(lambda y: made.value_and_slope(y)[1], x), abs=1e-6)
    assert made.product(x, v) == pytest.approx(made.hessian(x) @ v)


def test_solvers_use_derivatives_that_are_compiled_already(monkeypatch):
    """A solver asks for `adc.hessian(f, "x")`, as its user writes it, and not for that of position 0."""
    f, seen = adc.compile("def f(x, a): return sum((x - a)**4)", backend="numpy"), []
    for name in ("hessian", "value_and_grad"):
        made = getattr(adc, name)
        spy = lambda *args, made=made: seen.append(made(*args)) or seen[-1]  # noqa: E731
        monkeypatch.setattr(f"adcompiler.fit.problem.{name}", spy)
    adc.minimize(f, np.ones(2), (2.0,), "trust-exact")
    assert {id(one) for one in seen} == {id(adc.hessian(f, "x")), id(adc.value_and_grad(f, "x"))}
