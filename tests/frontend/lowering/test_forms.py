"""Forms that people write out of habit, and that mean what Python and NumPy mean by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judges.compared import agrees, along, directions, has_oracles_value, totalled
from programs import Program

import adcompiler as adc

RANDOM = np.random.default_rng(3)
X, P = RANDOM.uniform(0.4, 1.6, 5), RANDOM.uniform(0.4, 1.6, (4, 5))
T, Q = RANDOM.uniform(0.4, 1.6, 3), RANDOM.uniform(0.4, 1.6, (4, 2))
CUBE = RANDOM.uniform(0.4, 1.6, (2, 3, 4))

BODIES: dict[str, tuple[str, tuple[Any, ...]]] = {
    # A slice that is one long by construction broadcasts.
    "first column": ("p: f64[n, m]|return p[:, 1:] * p[:, :1]", (P,)),
    "last column": ("p|return exp(p - p[:, -1:]) + p[-1:]", (P,)),
    "from the end": ("p|return p * p[-2:-1, 2:3]", (P,)),
    "every other": ("p|return p / p[:, 1:3:2] + p[::-1][:1]", (P,)),
    "a slice with a name": ("p|first = p[:, :1] ** 2|return sum(p * first), first", (P,)),
    "where": ("p|return where(p > p[:1], p * p[:1], p[:, :1])", (P,)),
    "by an argument": ("p, i: i64|return p * p[:, i:i + 1]", (P, 2)),
    "by an index": ("p|s = 0 * p|for i in range(len(p)):|    s += sin(p * p[i:i + 1])|return s", (P,)),
    "in a comprehension": ("p|return [sum(p[i:i + 1] * p) for i in range(len(p))]", (P,)),
    "of nothing": ("p|return sum(p - p[:, :1]) + 1", (P[:, :0],)),
    # An array unpacks.
    "numbers": ("t|a, b, c = t|return a * b + c ** 2", (T,)),
    "rows": ("q: f64[4, d]|a, b, c, e = q|return a * b - c / e", (Q,)),
    "one": ("t|a, = t[:1]|return a ** 3", (T,)),
    "pairs in a loop": ("q|s = 0.0|for a, b in q:|    s = s * a + b|return s", (Q,)),
    "pairs in a comprehension": ("q|return sum(a ** 2 * b for a, b in q)", (Q,)),
    "enumerated pairs": ("q|s = 0.0|for i, (a, b) in enumerate(q):|    s = s * a + i * b|return s", (Q,)),
    # `...` and `newaxis`.
    "last axis": ("c|return c[..., 0] * c[..., -1]", (CUBE,)),
    "first axis": ("c|return c[1, ...] ** 2", (CUBE,)),
    "in between": ("c|return sin(c[0, ..., 1:])", (CUBE,)),
    "new axes": ("x|return x[:, np.newaxis] * x[np.newaxis, ..., :]", (X,)),
    "stored": ("c|c = 1.0 * c|c[..., 0] = c[..., 1] * c[..., 2]|return c * c", (CUBE,)),
    # Parts of tuples.
    "all but the last": ("x|s = x|for t in (x, 2 * x, 3 * x)[:-1]:|    s = s * t|return s", (X,)),
    "every second": ("x|a, b = (x, sin(x), x * x)[::2]|return a * b", (X,)),
    # Conversions, and arrays that are said to be arrays.
    "whole": ("x, k|return x[int(k)] * x * int(2.7) * int(-1.5)", (X, 2.6)),
    "float": ("x, k: i64|return x ** float(k) + float(True)", (X, 2)),
    "truth": ("x, k|return x * x if bool(k) else x", (X, 0.5)),
    "display": ("t|return t ** 2 * np.array([1.0, 2.0, 3.0])", (T,)),
    "matrix": ("t|return np.array([[t[0], 2], [t[1] * t[2], 1]]) @ np.asarray([t[0], 1.0])", (T,)),
    "types": ("t|n = zeros(3, dtype=int)|n[1] = 2|return t[n] * np.ones(3, dtype=bool)", (T,)),
    # Degrees of freedom.
    "sample deviation": ("x|return std(x, ddof=1) * x.std(ddof=2)", (X,)),
    "sample variance": ("p|return np.var(p, axis=0, ddof=1) / var(p, ddof=1.5, keepdims=True)[0]", (P,)),
}


def program(name: str) -> Program:
    (parameters, *lines), args = BODIES[name][0].split("|"), BODIES[name][1]
    return Program(f"def f({parameters}):\n" + "".join(f"    {line}\n" for line in lines), args)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_values(name: str, backend: str) -> None:
    has_oracles_value(program(name), backend)


@pytest.mark.parametrize("name", [name for name in BODIES if name != "of nothing"])
def test_first_and_second_derivatives(name: str) -> None:
    """By the first parameter, in reverse mode and in forward mode over it."""
    total = totalled(program(name))
    none = [None] * (len(total.args) - 1)
    one, other = ([d[0], *none] for d in directions(total, 2))
    f = adc.compile(total.source, backend="numpy")
    slope, change = adc.grad(f, 0)(*total.args), adc.hvp(f, 0)(total.args, one[0])
    first, second = along(total, one), along(total, one, other)
    assert first is not None
    assert second is not None
    agrees([slope], one[:1], first)
    agrees([change], other[:1], second)


def test_a_slice_of_one_must_lie_in_its_array_where_it_is_spread() -> None:
    f = adc.compile("def f(p, q):\n    return p[:1] * q")
    assert f(np.zeros(0), np.zeros(0)).shape == (0,)
    with pytest.raises(adc.Error, match="a slice of length 1"):
        f(np.zeros(0), np.ones(3))
    with pytest.raises(adc.OutOfRangeError, match=r"x\[i : i \+ k\] extends past the end of the axis"):
        adc.compile("[sum(x[i:i + 1] * x) for i in range(-1, len(x))]")(np.ones(3))


def test_a_slice_of_one_keeps_its_length_where_nothing_is_longer() -> None:
    f = adc.compile("concatenate((x[-1:], x[:-1])) + 0 * (x[:1].shape[0] + len(x[:1] + y[:1]))")
    assert [*f(np.arange(3.0), np.ones(2))] == [2, 0, 1]
    assert f(np.zeros(0), np.zeros(0)).shape == (0,)


def test_an_array_of_another_length_does_not_unpack() -> None:
    f = adc.compile("def f(p):\n    a, b, c = p\n    return a + b + c")
    with pytest.raises(adc.ShapeError, match="unpacking into 3 names: the lengths 3 and 4") as caught:
        f(np.ones(4))
    assert (caught.value.line, caught.value.column) == (2, 5)
    with pytest.raises(adc.ShapeError, match="unpacking into 1 names"):
        adc.compile("def f(p):\n    a, = p\n    return a")(np.ones(2))
    with pytest.raises(adc.ParseError, match="cannot unpack a scalar"):
        f(1.0)


def test_int_is_of_numbers_that_fit() -> None:
    f = adc.compile("def f(x, k):\n    return x[int(k)]")
    for k in (np.nan, np.inf, 1e19):
        with pytest.raises(adc.OutOfRangeError, match="int of a value that is not a 64-bit integer"):
            f(np.ones(3), k)
    assert adc.grad(f, "k")(np.ones(3), 1.5) == 0


def test_where_no_degree_of_freedom_is_left_there_is_no_spread() -> None:
    f = adc.compile("var(x, ddof=9), std(x, ddof=1)")
    assert f(X)[0] == np.inf
    assert np.isnan(f(np.ones(1))[1])


def test_types_of_conversions() -> None:
    """Python's types are as weak as its numbers, NumPy's are not."""
    x = np.ones(3, np.float32)
    assert adc.compile("x * array([1, 2, 3], dtype=float)")(x).dtype == np.float32
    assert adc.compile("x * array([1, 2, 3], dtype=np.float64)")(x).dtype == np.float64
    assert adc.compile("ones(3, dtype='float32') * 2.0", args=[])().dtype == np.float32
    assert adc.compile("arange(3, dtype=int)", args=[])().dtype == np.int64


def test_a_decorated_function_and_the_same_text_are_alike() -> None:
    @adc.function
    def f(p):
        a, b = p[:, :1], np.array([1.0, 2.0])
        return p[..., -1] * sum(b) - sum(p * a, axis=1)

    text = """
def f(p):
    a, b = p[:, :1], np.array([1.0, 2.0])
    return p[..., -1] * sum(b) - sum(p * a, axis=1)
"""
    np.testing.assert_array_equal(f(P), adc.compile(text)(P))
