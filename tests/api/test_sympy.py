"""SymPy expressions in and out."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from sympy import symbols

import adcompiler as adc

X, Y = symbols("x y", real=True)
POINT = {X: 1.2, Y: 0.3}

EXPRESSIONS = [
    X**2 * Y + sympy.sin(X * Y),
    sympy.exp(-(X**2) / 2) / sympy.sqrt(1 + Y**2) + sympy.Rational(1, 3),
    sympy.Piecewise((X, X > 2), (Y**2, Y < 1), (0, True)),
    sympy.Max(X, Y, 1) * sympy.Min(X, 2) + sympy.Abs(Y - X) + sympy.pi * sympy.E,
    sympy.atan2(Y, X) + sympy.log(X) ** 3 + X**Y + sympy.Float("0.1"),
    sympy.erf(X) + sympy.gamma(X) + sympy.loggamma(X),
    sympy.sec(X) + sympy.cot(Y) * sympy.csc(X) + sympy.coth(X) - sympy.sech(Y) * sympy.csch(X),
    sympy.factorial(X) * Y,
    sympy.Derivative(sympy.sin(X * Y), X) + sympy.Sum(X ** symbols("k"), (symbols("k"), 0, 3)),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_an_expression_comes_in(expression):
    f = adc.compile(expression, args=(X, Y), backend="numpy")
    assert f(*POINT.values()) == pytest.approx(float(expression.doit().subs(POINT)), rel=1e-12)
    slopes = [float(sympy.diff(expression, v).subs(POINT).doit()) for v in (X, Y)]
    assert adc.grad(f)(*POINT.values()) == pytest.approx(slopes, rel=1e-10)


def test_parameters_are_the_symbols_sorted():
    a, b = symbols("b_1 a_2")
    assert [p.name for p in adc.compile(a - b)._parameters] == ["a_2", "b_1"]
    pi = sympy.Symbol("pi")
    assert adc.compile(pi * sympy.pi, backend="numpy")(2.0) == pytest.approx(2 * np.pi)


def test_a_matrix_is_an_array():
    f = adc.compile(sympy.Matrix([[X, Y], [X * Y, sympy.sin(X)]]), backend="numpy")
    np.testing.assert_allclose(f(1.0, 2.0), [[1, 2], [2, np.sin(1)]])
    np.testing.assert_allclose(adc.jacobian(f, "x")(1.0, 2.0), [[1, 0], [2, np.cos(1)]])


@pytest.mark.parametrize("source", ["x**2 * y + sin(x * y)", "where(x > y, x * y, exp(y))", "tanh(x) / y"])
def test_a_function_and_its_gradient_go_out(source):
    f = adc.compile(source, backend="numpy")
    expression = f.sympy()
    for v, slope in zip((X, Y), adc.grad(f).sympy(), strict=True):
        assert sympy.simplify(slope - sympy.diff(expression, v)) == 0
    assert "x" in f.latex()


def test_what_has_no_form_is_refused():
    with pytest.raises(adc.ParseError, match="SymPy's zeta is not part of the language"):
        adc.compile(sympy.zeta(X))
    with pytest.raises(adc.ParseError, match="args does not contain y"):
        adc.compile(X * Y, args=(X,))
    with pytest.raises(adc.DtypeError, match="SymPy has no form"):
        adc.compile("floor_divide(x, 2) + isnan(x)").sympy()


def test_a_remainder_comes_in():
    assert adc.compile(sympy.Mod(X, Y), args=(X, Y), backend="numpy")(7.5, 2.0) == 1.5


def test_symbols_that_only_their_assumptions_tell_apart():
    for other in (sympy.Symbol("x"), sympy.Dummy("x", real=True)):
        with pytest.raises(adc.ParseError, match="different symbols are called 'x'"):
            adc.compile(X * other)


def test_what_is_not_part_of_the_language_is_named():
    for expression, name in (
        (sympy.Function("g")(X), "g"),
        (sympy.Integral(sympy.exp(X**3), X), "Integral"),
        (sympy.MatrixSymbol("M", 2, 2), "MatrixSymbol"),
    ):
        with pytest.raises(adc.ParseError, match=f"SymPy's {name} is not part of the language"):
            adc.compile(expression)


def test_an_expression_too_deep_to_be_printed():
    expression = X
    for _ in range(150):
        expression = sympy.sin(expression + X, evaluate=False)
    value = 0.5
    for _ in range(150):
        value = np.sin(value + 0.5)
    assert adc.compile(expression, backend="numpy")(0.5) == pytest.approx(value, rel=1e-13)
