"""The language: Python's syntax with NumPy's meaning, as the oracle reads it, on both backends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from judges.compared import leaves, structure
from numpy.testing import assert_allclose, assert_array_equal, assert_array_max_ulp
from oracle import evaluate, gradient, hessian

import adcompiler as adc

MATRIX = np.array([[1.5, -2.0, 0.25], [4.0, 0.5, -1.0]])
WHOLE = np.array([7, -7, 0, 3])


def is_the_oracles(source: str, *args: Any, backend: str = "numpy", ulp: int = 2) -> None:
    """The result has the structure, shapes, dtypes and (to rounding) values of the oracle's."""
    actual, expected = adc.compile(source, backend=backend)(*args), evaluate(source, *args)
    assert structure(actual) == structure(expected)
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if one.dtype.kind == "f":
            assert_array_max_ulp(one, other, ulp)
        else:
            assert_array_equal(one, other)


# ---- Expressions of scalars: x = 7.5, y = -2.0 ----

SCALARS = [
    "x + y * 2 - x / y",
    "-x**2",
    "2**-y",
    "x**2**0.5",
    "(-x)**2",
    "x // y",
    "x % y",
    "-x // y",
    "-x % -y",
    "x // 0",
    "x % 0",
    "x / 0",
    "-x / 0",
    "0 * x / 0",
    "log(y)",
    "sqrt(y)",
    "y**0.5",
    "+x",
    "- - x",
    "x if x > y else y",
    "x > y",
    "y < 0 < x",
    "y < x < 0",
    "0 < x > y",
    "x > 0 and y > 0",
    "x > 0 or y > 0",
    "not x > 0",
    "not not x",
    "x == y or not (x != y)",
    "(x > 0) + (y > 0)",
    "(x > 0) * 2 + (y > 0)",
    "(x > 0) * 2.5",
    "~(x > 0)",
    "(x > 0) & (y > 0)",
    "(x > 0) | (y > 0)",
    "(x > 0) ^ (y > 0)",
    "max(x, y, 3)",
    "min(x, y, 3)",
    "abs(y)",
    "np.abs(y) + math.fabs(y) + numpy.absolute(y)",
    "pow(x, 3)",
    "round(x) + floor(x) + ceil(x) + trunc(y)",
    "pi + e + x",
    "np.pi + math.e + x",
    "inf - x",
    "nan + x",
    "where(x > 0, x, 1 / 0)",
    "clip(x, 0, 5)",
    "True + x",
    "1e400 + x",
    "0x10 + 0b11 + 1_000 + x",
    "x, y",
    "x, (y, x + y)",
    "(x,)",
]


@pytest.mark.parametrize("source", SCALARS)
def test_scalars(source: str) -> None:
    text = f"def f(x, y):\n    return {source}"
    is_the_oracles(text, 7.5, -2.0)
    is_the_oracles(text, np.float32(7.5), np.float32(-2.0))


def test_scalars_compiled() -> None:
    for args in ((7.5, -2.0), (np.float32(7.5), np.float32(-2.0))):
        is_the_oracles(f"def f(x, y):\n    return ({'), ('.join(SCALARS)})", *args, backend="cpu", ulp=4)


# ---- Constants alone fold exactly ----


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("2**100 // 2**99", 2),
        ("2**100 % 3", 1),
        ("7 // -2", -4),
        ("7 % -2", -1),
        ("1 / 3", 1 / 3),
        ("2**-2", 0.25),
        ("1 << 40", 1 << 40),
        ("-5 >> 1", -3),
        ("6 & 3 | 8 ^ 1", 6 & 3 | 8 ^ 1),
        ("~6", -7),
        ("9**9**9", np.inf),
        ("3 == 3.0", True),
        ("1 < 2 < 3", True),
        ("0 or 5", 5),
        ("0 and 1 / 0", 0),
        ("-0.0", -0.0),
        ("0.1 + 0.2", 0.1 + 0.2),
        ("True + True", 2),
        ("1 / 0", np.inf),
        ("log(0)", -np.inf),
        ("5 if 1 > 0 else 1 / 0", 5),
        ("relu(-2) + floor(3) + clip(9, 0, 4)", 7),
    ],
)
def test_constants(source: str, value: Any) -> None:
    result = adc.compile(source, backend="numpy")()
    assert type(result) is type(value)
    assert str(result) == str(value)


# ---- Integers wrap, and divide as NumPy's ----

INTEGERS = [
    "k + 1",
    "k * k",
    "-k",
    "k // 2",
    "k % 3",
    "k // j",
    "k % j",
    "k / 2",
    "k**2",
    "k**-1",
    "k & 5",
    "k | 8",
]
INTEGERS += [
    "k ^ j",
    "k << 2",
    "k >> 1",
    "~k",
    "abs(k)",
    "sign(k)",
    "square(k)",
    "k > 0",
    "k == j",
    "max(k, j)",
]
INTEGERS += ["sum(k)", "sum(k > 0)", "sqrt(abs(k))", "k + 0.5", "where(k > 0, k, 0.5)", "where(k > 0, k, j)"]
INTEGERS += ["k * True", "k + (k > 0)", "floor(k)", "round(k)", "minimum(k, 2)", "k * 9223372036854775807"]


@pytest.mark.parametrize("source", INTEGERS)
def test_integers(source: str) -> None:
    is_the_oracles(f"def f(k, j):\n    return {source}", WHOLE, WHOLE[::-1].copy())


def test_integers_compiled() -> None:
    is_the_oracles(
        f"def f(k, j):\n    return ({'), ('.join(INTEGERS)})", WHOLE, WHOLE[::-1].copy(), backend="cpu"
    )


# ---- Truth values add and multiply as NumPy's ----

TRUTHS = [
    "b + b",
    "b * b",
    "b + True",
    "b + 1",
    "b * 2.5",
    "b / b",
    "b**2",
    "b << 1",
    "sum(b)",
    "maximum(b, b)",
]
TRUTHS += ["~b", "not b", "b & ~b", "b == b", "where(b, 1, 0.5)", "b > 0", "sum(b + b)"]


@pytest.mark.parametrize("source", TRUTHS)
def test_truth_values(source: str) -> None:
    is_the_oracles(source, np.array([True, False]))
    is_the_oracles(source, True)


def test_truth_values_compiled() -> None:
    is_the_oracles(f"({'), ('.join(TRUTHS)})", np.array([True, False]), backend="cpu")


# ---- Arrays ----

ARRAYS = [
    "sum(x)",
    "sum(x, axis=0)",
    "sum(x, axis=-1, keepdims=True)",
    "sum(x, 1)",
    "sum(x, axis=(0, 1), keepdims=True)",
    "sum(x, axis=())",
    "np.sum(x * y, 0)",
    "x / len(x)",
    "x.ndim * x",
    "x > 0",
    "sum(x > 0)",
    "where(x > 0, x, -x)",
    "x if x > 0 else 2 * x",
    "x * (x > 0)",
    "x + 2 if y > 0 else x",
    "0 < x < 2",
    "x > 0 and y > 0",
    "not x > 0",
    "maximum(x, y)",
    "max(x, y, 0)",
    "hypot(x, y)",
    "(x - y)**2 / 2",
    "-x",
    "mean(x, axis=0)",
    "prod(x, axis=1)",
    "max(x)",
    "np.max(x, 1)",
    "min(x, axis=0, keepdims=True)",
    "max(x, axis=(0, 1))",
    "logsumexp(x, axis=1)",
    "any(x > 3)",
    "all(x > -9, axis=0)",
    "var(x)",
    "std(x, axis=0)",
    "argmax(x)",
    "argmin(x, axis=1)",
    "dot(x[0], y[1])",
    "x.T",
    "x.T @ y",
    "matmul(x, y.T)",
    "x[0] @ y[1]",
    "x @ y[0]",
    "x[0]",
    "x[-1]",
    "x[0, 1]",
    "x[:, ::-1]",
    "x[::-1, 1:]",
    "x[None]",
    "x[:, None] * y",
    "x[1:] - x[:-1]",
    "x[5:]",
    "x[-5:5]",
    "sum(x[2:])",
    "reshape(x, (3, 2))",
    "transpose(x)",
    "concatenate((x, y))",
    "stack((x, y))",
    "clip(x, -1, 1)",
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("source", ARRAYS)
def test_arrays(source: str, dtype: type) -> None:
    x = MATRIX.astype(dtype)
    is_the_oracles(f"def f(x, y):\n    return {source}", x, x[:, ::-1], ulp=8)


@pytest.mark.parametrize(
    "source", ["zeros((2, 3)) + x", "full((2, 3), 2.0) * x", "arange(3) * x[0]", "linspace(0, 1, 3)"]
)
def test_made_arrays(source: str) -> None:
    is_the_oracles(f"def f(x):\n    return {source}", MATRIX)


def all_compiled(sources: Sequence[str], dtype: type) -> None:
    x = MATRIX.astype(dtype)
    is_the_oracles(f"def f(x, y):\n    return ({'), ('.join(sources)})", x, x[:, ::-1], backend="cpu", ulp=8)


def test_arrays_compiled() -> None:
    all_compiled(ARRAYS[::4], np.float64)
    all_compiled(ARRAYS[1::4], np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_arrays_compiled(dtype: type) -> None:
    all_compiled(ARRAYS, dtype)


# ---- Derivatives of array operations: x is (2, 3) ----

SCALARS_OF_ARRAYS = [
    "sum(mean(x, axis=0)**2)",
    "sum(prod(x, axis=1)) + prod(x)",
    "sum(max(x, axis=1) * min(x, axis=1))",
    "logsumexp(x) + sum(logsumexp(x, axis=0)**2)",
    "var(x) + sum(std(x, axis=0))",
    "sum((x.T @ x)**2)",
    "sum(exp(x @ x[0]))",
    "x[0] @ x[1] * x[0, 1]",
    "sum((x[:, 1:] - x[:, :-1])**3)",
    "sum(x[::-1] * x * x[:, ::-1])",
    "sum(x[:, None] * x[None] * x)",
    "sum(sin(reshape(x, (3, 2)) @ x))",
    "sum(concatenate((x, x**2), axis=1)**2)",
    "sum(stack((x, sin(x)))**3)",
    "sum(x[5:]) + x[-1, -1]**3",
    "sum(where(x > 0, x, exp(x))**2)",
]


def has_oracles_derivatives(source: str, backend: str) -> None:
    f = adc.compile(source, backend=backend)
    assert_allclose(adc.grad(f)(MATRIX), gradient(source, (MATRIX,)), rtol=1e-12, atol=1e-12)
    assert_allclose(adc.hessian(f)(MATRIX), hessian(source, (MATRIX,)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("source", SCALARS_OF_ARRAYS)
def test_derivatives_of_array_operations(source: str) -> None:
    has_oracles_derivatives(source, "numpy")


@pytest.mark.slow
@pytest.mark.parametrize("source", SCALARS_OF_ARRAYS)
def test_derivatives_of_array_operations_compiled(source: str) -> None:
    has_oracles_derivatives(source, "cpu")


# ---- Statements ----

PROGRAMS = {
    "assignment": "def f(x):\n    y = z = 2 * x\n    return y + z",
    "unpacking": "def f(x):\n    (a, b), c = (x, 2 * x), 3 * x\n    return a + b * c",
    "swap": "def f(x):\n    y = x + 1\n    x, y = y, x\n    return x - 2 * y",
    "augmented": """
def f(x):
    x += 1; x *= x; x -= 2; x /= 3
    x **= 2; x //= 2; x %= 5
    return x""",
    "shadowing": "def f(x):\n    sum = x\n    x = sum * 2\n    return x + sum",
    "calls": "def g(a, b):\n    return a - b\n\ndef f(x):\n    return g(x, 1) * g(b=x, a=2)",
    "several results": "def g(a):\n    return a, 2 * a\n\ndef f(x):\n    p, q = g(x)\n    return q, g(p)",
    "module constants": "k = 2\nm = k**3\n\ndef f(x):\n    return m * x",
    "if": """
k = 2

def f(x):
    if k > 3:
        return x
    elif k == 2:
        x = 2 * x
    else:
        x = 3 * x
    return -x""",
    "docstring": 'def f(x):\n    "Says what it does."\n    # and a comment\n    return x  # another',
    "later def": "def f(x):\n    return 2 * x\n\ndef f(x):\n    return 3 * x",
    "early return": "def f(x):\n    return x\n    return 2 * x",
    "one line": "def f(x): y = 2 * x; return y",
    "continued": "def f(x):\n    return (x\n            + 1) \\\n        * 2",
    "rank": "def f(x):\n    if x.ndim > 0:\n        return sum(x)\n    return x",
}


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_statements(source: str, backend: str) -> None:
    is_the_oracles(source, 7.5, backend=backend)
    if backend == "numpy":
        is_the_oracles(source, MATRIX)


def test_an_inner_def_sees_what_stands_around_it() -> None:
    f = adc.compile(
        "def f(x):\n    k = 3 * x\n    def g(y):\n        return k * y\n    return g(2)", backend="numpy"
    )
    assert f(5) == 30


def test_no_argument_changes() -> None:
    x = np.ones(2)
    y, z = adc.compile("def f(x):\n    y = x.copy()\n    x += 1\n    return x, y", backend="numpy")(x)
    assert_array_equal((x, y, z), [[1, 1], [2, 2], [1, 1]])


@pytest.mark.parametrize(
    "source", ["x + 1", b"x + 1", "x + 1\n", "\n# comment\nx + 1", "\ufeffx + 1", "x + 1\r\n"]
)
def test_forms_of_a_source(source: str | bytes) -> None:
    assert adc.compile(source, backend="numpy")(1) == 2


def test_a_long_program_is_no_deep_one(shallow_stack: None) -> None:
    """Neither a long sum nor many statements nest Python's calls."""
    assert adc.compile(" + ".join(["x"] * 500), backend="numpy")(1) == 500
    lines = "\n".join(["    x = 0.5 * x + 1"] * 300)
    assert adc.compile(f"def f(x):\n{lines}\n    return x", backend="numpy")(2) == 2
    gradient = adc.grad(adc.compile(f"def f(x):\n{lines}\n    return x", backend="numpy"))
    assert gradient(2) == 0.5**300
