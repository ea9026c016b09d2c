"""`adc.primitive`: scalar functions with partial derivatives of the user's own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from oracle import derivative

import adcompiler as adc
from adcompiler.ops import table

SPELLED = "def u(x, k):\n    return k * x / (1 + k * abs(x))\n\n"
X = np.array([0.4, -1.2, 1.7])


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    """The primitive `soft_sign`, known by its name while these tests run."""
    global soft
    soft = adc.primitive(
        "soft_sign", "x k", ("k / (1 + k * abs(x))**2", "x / (1 + k * abs(x))**2"),
        "k * x / (1 + k * abs(x))", domain=((0.1, 2.0), (0.5, 2.0)), doc="x over 1 + k |x|, times k.",
    )  # fmt: skip
    yield
    del table._entries["soft_sign"]


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_any_program_knows_it_and_differentiates_it_to_third_order(backend):
    f = adc.compile("sum(soft_sign(x, k)**2) + soft_sign(k, 2)", backend=backend)
    source = SPELLED + "def f(x, k):\n    return sum(u(x, k)**2) + u(k, 2)\n"
    way = (np.array([0.3, 0.5, -0.2]), 0.7)
    for order, found in enumerate(adc.taylor(f, (X, 0.9), way, 3)):
        assert found == pytest.approx(derivative(source, (X, 0.9), [way] * order)[0], rel=1e-9)
    expected = derivative(source, (X, 0.9), [way] * 2)[0]
    dx, dk = adc.hvp(f)((X, 0.9), way)
    assert dx @ way[0] + dk * way[1] == pytest.approx(expected, rel=1e-9)
    assert adc.check_grad(f, X, 0.9, order=2) < 1e-6


def test_it_is_a_function_and_decorated_functions_see_it():
    @adc.function
    def f(x):
        return soft(x, 2.0) + soft_sign(x, 1.0)  # noqa: F821

    assert soft.__doc__ == "x over 1 + k |x|, times k."
    np.testing.assert_allclose(soft(X, 1.0), X / (1 + np.abs(X)))
    assert soft(X.astype(np.float32), 1).dtype == np.float32
    assert f(1.0) == pytest.approx(2 / 3 + 1 / 2)
    assert adc.grad(f)(1.0) == pytest.approx(2 / 9 + 1 / 4)


def test_its_derivative_is_the_given_one_where_that_of_its_formula_is_none():
    """sqrt(1 - cos x) of the formula has no derivative at 0; the given partial says 0.7071."""
    adc.primitive(
        "chord",
        "x",
        "where(x == 0, 0.7071067811865476, sin(x) / (2 * r))",
        "sqrt(1 - cos(x))",
        domain=[(0.1, 2)],
    )
    assert adc.grad(adc.compile("chord(x)"))(0.0) == 0.7071067811865476
    assert np.isnan(adc.grad(adc.compile("sqrt(1 - cos(x))"))(0.0))


def test_a_new_definition_of_a_name_leaves_older_programs_as_they_are():
    adc.primitive("iteration", "x", "2", "2 * x")
    first = adc.compile("iteration(x)")
    assert first(1.0) == 2.0
    adc.primitive("iteration", "x", "3", "3 * x")
    assert adc.compile("iteration(x)")(1.0) == 3.0
    assert first(2.0) == 4.0
    assert adc.grad(adc.compile("iteration(x)"))(1.0) == 3.0


def test_numpy_may_compute_it_otherwise():
    calls = []

    def cube(x):
        calls.append(x)
        return x * x * x

    adc.primitive("cubed", "x", "3 * x**2", "x**3", numpy=cube)
    calls.clear()
    assert adc.compile("cubed(x)", backend="numpy")(2.0) == 8.0
    assert calls
    assert adc.compile("cubed(x)", backend="cpu")(2.0) == 8.0


WRONG = {
    "a sign": (("s1", "x", "-cos(x)", "sin(x)"), "the partial by x is"),
    "a factor": (("s1", "x y", ("y", "2 * x"), "x * y"), "the partial by y is"),
    "a missing partial": (("s1", "x y", ("y",), "x * y"), "2 parameters and 1 partials"),
    "a builtin's name": (("sin", "x", "cos(x)", "sin(x)"), "'sin' is already taken"),
    "an unknown name": (("s1", "x", "cos(z)", "sin(x)"), "uses z"),
    "itself": (("s1", "x", "s1(x)", "exp(x)"), "calls s1 itself"),
    "an unknown function": (("s1", "x", "frob(x)", "exp(x)"), "unknown function 'frob'"),
    "the result's name": (("s1", "r", "1", "r"), "not r"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused_and_leaves_no_name(what):
    args, message = WRONG[what]
    with pytest.raises(adc.Error) as caught:
        adc.primitive(*args)
    assert message in str(caught.value)
    with pytest.raises(adc.Error, match="unknown function"):
        adc.compile("s1(x)")(1.0)


def test_a_numpy_function_that_differs_is_refused():
    with pytest.raises(adc.GradientError, match="numpy gives"):
        adc.primitive("s2", "x", "2 * x", "x * x", numpy=lambda x: x)
