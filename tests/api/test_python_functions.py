"""Plain Python functions and lambdas, the functions that they call, and decorators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy import log2 as log

import adcompiler as adc


def double(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(x):
        return 2 * f(x)

    return wrapper


def shifted(by: float) -> Callable[..., Any]:
    def decorate(f):
        def inner(x):
            return f(x) + by

        return inner

    return decorate


def timed(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)

    return wrapper


class Counted:
    def __init__(self, f):
        functools.update_wrapper(self, f)
        self.f = f

    def __call__(self, x):
        return self.f(x)


def square(x):
    return x * x


def nearly(x, k=3.0):
    return k * square(x) + log(x)


@double
def doubled(x):
    return square(x)


@double
@shifted(1.5)
@functools.cache
def twice_shifted(x):
    return nearly(x)


def calls_doubled(x):
    return doubled(x) + twice_shifted(x)


@njit
def numba_calls(x):
    return square(x) + doubled(x)


@functools.cache
def cached(x):
    return square(x) * x


def calls_cached(x):
    return cached(x) + square(x)


FUNCTIONS = [square, nearly, doubled, twice_shifted, calls_doubled, cached, calls_cached, double(square)]
FUNCTIONS += [lambda x: x * log(x), lambda x, k=2.0: k * square(x)]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_values_and_derivatives_are_those_of_python(f: Callable[..., Any]) -> None:
    x, h = 1.3, 1e-6
    slope = (f(x + h) - f(x - h)) / (2 * h)
    assert adc.function(f)(x) == pytest.approx(f(x), rel=1e-14)
    assert adc.grad(f, 0)(x) == pytest.approx(slope, rel=1e-8)
    assert adc.value_and_grad(f, 0)(x) == pytest.approx((f(x), slope), rel=1e-8)
    rest = (f.__defaults__ or ()) if hasattr(f, "__defaults__") else ()
    assert adc.jvp(f, (x, *rest), (1.0, *(0.0 for _ in rest)))[1] == pytest.approx(slope, rel=1e-8)
    curvature = (adc.grad(f, 0)(x + h) - adc.grad(f, 0)(x - h)) / (2 * h)
    assert adc.hessian(f, 0)(x) == pytest.approx(curvature, rel=1e-7)


def test_functions_of_numba_call_python_functions() -> None:
    assert adc.grad(numba_calls)(1.5) == pytest.approx(9.0)


def test_transforms_of_arrays() -> None:
    x = np.array([0.5, 1.5, 2.0])
    np.testing.assert_allclose(adc.jacobian(lambda x: x**3)(x), np.diag(3 * x**2))
    np.testing.assert_allclose(adc.vmap(square)(x), x * x)
    _, pull = adc.vjp(lambda x: np.sum(x**2), x)
    np.testing.assert_allclose(pull(1.0)[0], 2 * x)
    assert adc.check_grad(lambda x: np.sum(np.sin(x)), x) < 1e-6
    assert adc.minimize(lambda x: (x - 3.0) ** 2, 1.0).x == pytest.approx(3.0)


# fmt: off
first, second = (lambda x: x + 1), (lambda x: x * 5)
several = [lambda x: x, lambda x: 1.0 + 0 * x, lambda x: (
    x * 3
    + square(x)
)]
outer = lambda k: (lambda x: k * x)  # noqa: E731
# fmt: on


def test_lambdas_in_one_line_are_told_apart() -> None:
    found = [adc.function(f)(2.0) for f in (first, second, *several, outer(7.0))]
    assert found == [3.0, 10.0, 2.0, 1.0, 10.0, 14.0]


def test_a_lambda_with_letters_of_several_bytes_before_it() -> None:
    pair = "äöü", lambda x: 3 * x, "ß", lambda x: x**2
    assert adc.function(pair[1])(2.0) == 6.0
    assert adc.function(pair[3])(3.0) == 9.0


def test_errors_in_a_lambda_have_its_place() -> None:
    with pytest.raises(adc.ParseError, match="unknown function 'frob'") as found:
        adc.function(
            lambda x: (
                x + frob(x)  # noqa: F821
            )
        )
    lines = Path(__file__).read_text("utf-8").split("\n")
    assert lines[found.value.line - 1][found.value.column - 1 :].startswith("frob(x)")
    with pytest.raises(adc.ParseError, match=r"\*args") as found:
        adc.grad(lambda *args: args)
    assert "named parameters" in found.value.remedy


scale = 2.0
table = np.array([1.0, 2.0])


def scaled(x):
    return scale * x + table[0] * x


def through(x):
    return scaled(x)


def test_a_transform_of_a_python_function_is_made_once_for_what_is_around_it() -> None:
    global scale
    assert adc.grad(through) is adc.grad(through)
    assert adc.grad(through)(1.0) == 3.0
    scale = 5.0
    assert adc.grad(through)(1.0) == 6.0
    table[0] = 2.0
    assert adc.grad(through)(1.0) == 7.0
    scale, table[0] = 2.0, 1.0
    assert adc.grad(through)(1.0) == 3.0


def even(n, x):
    return x if n == 0 else odd(n - 1, x)


def odd(n, x):
    return x if n == 0 else even(n - 1, x)


def power(n, x):
    return 1.0 if n == 0 else x * power(n - 1, x)


def test_recursion() -> None:
    assert adc.function(static="n")(power)(3, 2.0) == 8.0
    with pytest.raises(adc.Error, match="odd and even call each other"):
        adc.function(even)


@timed
def measured(x):
    return x * x


def calls_measured(x):
    return measured(x)


@Counted
def counted(x):
    return x * x


def calls_counted(x):
    return counted(x)


@pytest.mark.parametrize("f", [measured, calls_measured])
@pytest.mark.parametrize("use", [adc.function, adc.grad, adc.compile, njit])
def test_decorators_that_cannot_be_applied_are_refused(use: Any, f: Any) -> None:
    with pytest.raises(adc.ParseError, match="the decorator timed") as found:
        adc.function(use(calls_measured)) if use is njit else use(f)
    lines = Path(__file__).read_text("utf-8").split("\n")
    assert lines[found.value.line - 1 : found.value.line + 1] == ["@timed", "def measured(x):"]
    assert found.value.remedy


def test_objects_that_decorators_make_are_refused() -> None:
    with pytest.raises(adc.Error, match="Counted") as found:
        adc.function(calls_counted)
    assert found.value.line
    with pytest.raises(adc.DtypeError, match="Counted") as found:
        adc.grad(counted)
    assert "remove the decorator" in found.value.remedy


def test_decorators_of_nested_definitions() -> None:
    @adc.function
    def f(x):
        @double
        def g(y):
            return y * y

        @adc.grad
        def slope(y):
            return y**3

        @njit(fastmath=True)
        @functools.lru_cache
        def same(y):
            return 10 * y

        return g(x) + slope(x) + same(x)

    assert f(2.0) == 8.0 + 12.0 + 20.0
    assert adc.grad(f)(2.0) == 8.0 + 12.0 + 10.0


TEXTS = {
    "@grad\ndef f(x):\n    return x**3": 12.0,
    "@adc.grad\ndef f(x):\n    return x**3": 12.0,
    "@grad\n@grad\ndef f(x):\n    return x**3": 12.0,
    "@adc.function\ndef f(x):\n    return x**3": 8.0,
    "@njit(parallel=True)\n@cache\ndef f(x):\n    return x**3": 8.0,
    "def g(f):\n    def w(x):\n        return 2 * f(x)\n    return w\n\n@g\ndef f(x):\n    return x**3": 16.0,
    "def f(x):\n    @grad\n    def g(y):\n        return x * y**2\n    return g(x)": 8.0,
}


@pytest.mark.parametrize("text", TEXTS)
def test_decorators_in_a_text(text: str) -> None:
    assert adc.compile(text)(2.0) == TEXTS[text]


@pytest.mark.parametrize("decorator", ["jax.vmap", "frob", "frob(3)", "np.vectorize"])
@pytest.mark.parametrize(
    "form",
    ["@{}\ndef f(x):\n    return x", "def f(x):\n    @{}\n    def g(y):\n        return y\n    return g(x)"],
)
def test_unknown_decorators_in_a_text(form: str, decorator: str) -> None:
    with pytest.raises(adc.ParseError, match=decorator.partition("(")[0]) as found:
        adc.compile(form.format(decorator))
    assert found.value.remedy
    assert "@" in form.format(decorator).split("\n")[found.value.line - 1]
