"""Parameters with defaults and Python's own annotations, and what a decorated function finds around it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from judges.compared import has_oracles_value
from programs import Program

import adcompiler as adc

X = np.array([1.0, 2.0, 4.0])
SCALE = 3
RNG = np.random.default_rng(0)
WEIGHTS, TABLE, PLACES = np.array([0.5, 1.0, 2.0]), np.arange(6.0).reshape(2, 3) + 1, [2, 0]
PAIR, NARROW, LARGE = (2.0, 1), np.ones(3, np.float32), np.ones(257)

TEXT = """
K = 2.0

def scaled(x, k=K, shift=-1.0):
    return k * x * x + shift

def f(x: np.ndarray, w: float = 1.5, n: int = 2, pair=(1.0, 2.0), steps=[1.0, 3.0], kind="plain", b=None):
    a, c = pair
    s = sum(scaled(x, w) * a) + sum(scaled(x, shift=w)) + c * x[n] * steps[1]
    return s * w if kind == "plain" and b is None else s
"""


@pytest.mark.parametrize(
    "given", [(), (2.0,), (2.0, 1), (2.0, 1, (2.0, 2.0)), (2.0, 1, (2.0, 2.0), [1.0, 2.0])]
)
def test_what_a_call_leaves_out_has_its_default(given: tuple[Any, ...]) -> None:
    has_oracles_value(Program(TEXT, (X, *given)), "numpy")


def test_defaults_by_name_and_in_all_kinds_of_calls() -> None:
    f = adc.compile("def f(x, k=2.0, c=1.0):\n    return sum(x * x) * k * c")
    assert f(X) == f(X, 2.0) == f(x=X, c=1.0) == f(X, k=2.0) == f.into(np.zeros(()), X) == 42
    assert f(X, c=2.0) == 84
    np.testing.assert_array_equal(adc.grad(f, "x")(X), 4 * X)
    assert adc.grad(f)(X)[1:] == (21, 42)  # a parameter with a default is one as any other
    assert adc.value_and_grad(f, "k")(X, 3.0) == (63, 21)
    assert adc.jvp(f, (X,), (X,))[1] == 84
    np.testing.assert_array_equal(adc.hvp(f, "x")((X,), X), 4 * X)
    np.testing.assert_array_equal(adc.vjp(f, X)[1](1.0)[0], 4 * X)
    np.testing.assert_array_equal(adc.hessian(f, "x")(X), 4 * np.eye(3))
    assert adc.taylor(f, (X,), (X,), 2)[2] == 84
    assert adc.check_grad(f, X) < 1e-7
    for axes in (0, (0,), (0, None)):  # a default that is a number is the same for every case
        np.testing.assert_array_equal(adc.vmap(f, axes)(np.stack((X, X))), [42, 42])
    np.testing.assert_array_equal(adc.vmap(f)(np.stack((X, X)), np.array([2.0, 4.0])), [42, 84])
    np.testing.assert_array_equal(adc.vmap(adc.grad(f, "x"))(np.stack((X, X)))[1], 4 * X)
    x = adc.Variable(X, requires_grad=True)
    f(x).backward()
    np.testing.assert_array_equal(x.grad, 4 * X)
    assert str(inspect.signature(f)) == "(x, k=2.0, c=1.0)"
    assert [f(X) for _ in range(3)] == [42] * 3


def test_a_decorated_function_has_the_defaults_that_python_computed() -> None:
    local = 4.0

    @adc.function
    def f(x: np.ndarray, k: float = local / 2, n: int = SCALE - 1, kind: str | None = None, p=(1.0, local)):
        return k * x[n] * p[1] if kind is None else x[n]

    assert f(X) == 32
    assert f(X, kind="x") == 4
    assert adc.grad(f, "k")(X) == 16

    @adc.function
    def g(x, w=WEIGHTS):
        return x * w

    np.testing.assert_array_equal(g(X), X * WEIGHTS)
    with pytest.raises(adc.DtypeError, match="the default of 'w' is a Generator") as caught:

        @adc.function
        def h(x, w=RNG):
            return x * w

    assert caught.value.column > 1


def test_a_default_with_parts_is_not_taken_for_one_part_a_case() -> None:
    f = adc.compile("def f(x, w=[1.0, 2.0]):\n    return sum(x * w)")
    with pytest.raises(adc.Error, match="missing w"):
        adc.vmap(f, 0)(np.ones((2, 2)))
    np.testing.assert_array_equal(adc.vmap(f, (0,))(np.ones((2, 2))), [3, 3])


def test_is_and_is_not_tell_whether_an_argument_is_none() -> None:
    f = adc.compile("def f(x, b=None):\n    if b is not None:\n        x = x + b\n    return 2.0 * x")
    assert [f(1.0), f(1.0, None), f(1.0, 2.0)] == [2, 2, 6]
    assert adc.grad(f, "b")(1.0, 2.0) == 2


REFUSED = {
    "def f(x, k=zeros(3)):\n    return x": "the default of 'k' is an array of rank 1",
    "def f(x, k=y):\n    return x": "unknown name 'y'",
    "def f(k=1, x):\n    return x": "'x' without a default follows one with",
    "def g(x, k):\n    return x\n\ndef f(x, k=1.0):\n    return g(x)": "g takes",
    "def f(x: str):\n    return x": "the annotation of 'x' is not a type",
    "def f(x: int):\n    return x": "x is f64, but its annotation is int",
    "def f(x: bool):\n    return x": "x is f64, but its annotation is bool",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(adc.Error, match=REFUSED[text]):
        adc.compile(text)(1.5)


def test_annotations_of_python() -> None:
    f = adc.compile("def f(x: np.ndarray, k: int, s: float, b: bool):\n    return x[k] * s if b else s")
    assert f(X, 2, 3, True) == 12
    assert f(X.astype(np.float32), 2, np.float32(3), True).dtype == np.float32
    with pytest.raises(adc.ShapeError, match="s has rank 1, but its annotation has rank 0"):
        f(X, 2, X, True)
    with pytest.raises(adc.DtypeError, match="x is a tuple of 2, but its annotation is ndarray"):
        f((X, X), 2, 1.0, True)
    g = adc.compile("def g(x: 'float | np.ndarray', y: NDArray[np.float64], z: list[float], w: tuple):\n"
                    "    return x * y * z + w[0]")  # fmt: skip
    np.testing.assert_array_equal(g(2.0, X, [1.0, 2.0, 3.0], (1.0,)), [3, 9, 25])


# ---- What is around a decorated function ----


def constants(x):
    a, b = PAIR
    places = PLACES
    return sum(WEIGHTS * x**a) + TABLE @ x + b * x[places] ** 3, [WEIGHTS[i] * x[i] for i in range(len(x))]


def test_arrays_and_numbers_around_a_function_are_constants() -> None:
    wanted = sum(WEIGHTS * X**2) + TABLE @ X + X[PLACES] ** 3
    for backend in ("numpy", "cpu"):
        f = adc.function(backend=backend)(constants)
        np.testing.assert_allclose(f(X)[0], wanted)
        np.testing.assert_allclose(f(X)[1], WEIGHTS * X)
        assert adc.check_grad(f, X, order=2) < 1e-6


NAME, NOTHING, TABLES = "relu", None, ((np.float64(2), 3), ("a", None, True))


def test_texts_none_and_tuples_around_a_function_are_known_while_compiling() -> None:
    @adc.function
    def f(x):
        (a, b), rest = TABLES
        y = a * x + b if NAME == "relu" and NOTHING is None and rest[0] == "a" else x
        for place in PLACES:
            y = y + place
        return y

    assert f(1.0) == 7


def test_what_is_captured_is_what_it_was_when_the_function_was_decorated() -> None:
    weights = np.ones(3)

    @adc.function
    def f(x):
        return weights * x

    weights[0] = 99
    np.testing.assert_array_equal(f(X), X)


def test_a_captured_array_keeps_its_type() -> None:
    @adc.function
    def f(x):
        return NARROW * x

    assert f(X.astype(np.float32)).dtype == np.float32
    assert f(X).dtype == np.float64


def test_a_large_array_is_made_a_parameter() -> None:
    with pytest.raises(adc.ParseError, match="an array of 257 elements from the surrounding program"):

        @adc.function
        def f(x):
            return LARGE * x
