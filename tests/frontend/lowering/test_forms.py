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
    # `and` and `or` of numbers give one of them.
    "or": ("a, b|return (a or 5.0) * b + (b or a)", (0.7, 0.0)),
    "or of nothing": ("b, a|return (a or 5.0) * b ** 2 + (a or b or 3.0)", (1.3, 0.0)),
    "and": ("a, b|return (a and a * b) + (b and a / b) + (a > 0 and b)", (0.7, 1.3)),
    "or of integers": ("x, k: i64|return x[k or 2] * (k and len(x)) + (k or x[0])", (X, 0)),
    "or of what is known": ("x|c, n = 0.0, 2|return x * (c or 3.0) + (n and x) + (n or 1.0)", (X,)),
    "or in a loop": ("x|s = 0.0|for i in range(len(x)):|    s = sin((s or x[0]) * x[i])|return s", (X,)),
    "or under a branch": ("x|return 1.0 if x[0] < 0 else (x[1] and x[2] ** 2) + (x[3] or x[4])", (X,)),
    "or of a condition": ("x, k|return sum(x) if k and x[0] or k > 3 else x[0]", (X, 2.5)),
    # Strings side by side are one.
    "subscripts": ("p|return einsum('ij,' \"kj\" '->ik', p, p ** 2)", (P,)),
    "a kind": ("x|kind = 'sq' 'uare'|return x ** 2 if kind == 'square' else x", (X,)),
    # Points of a range of floats.
    "tenths": ("x|return x[0] * arange(0.0, 1.0, 0.1) + sum(arange(1.0, 11.0)) * x[1]", (X,)),
    "whole floats": ("x|return x * arange(0.0, len(x)) + arange(5.0)", (X,)),
    "downwards": ("x|return x[:4] * arange(2.0, 1.0, -0.25) + sum(arange(3.0, 4.0, -1.0))", (X,)),
    # What every `break` has assigned has a value after the loop.
    "an endless loop": (
        "x|s = x[0]|while True:|    r = s * 2|    s += x[1]|    if s > 3:|        break|return r * s",
        (X,),
    ),
    "several breaks": (
        "x|s = 0.0|k = 0|while True:|    s += x[k]|    if s > 2:|        r = s ** 2|        break|    k += 1|"
        "    if k > 3:|        r = s|        break|return r",
        (X,),
    ),
    "an array in an endless loop": (
        "x|s = 0.0|while 1:|    v = x * s|    s += x[0]|    if s > 2:|        break|return v * v",
        (X,),
    ),
    "endless inside": (
        "x|t = 0.0|for i in range(len(x)):|    s = x[i]|    while True:|        a, b = s * t, sin(s)|"
        "        s += x[0]|        if s > 2:|            break|    t += a + b|return t",
        (X,),
    ),
    "where a loop was left": (
        "x|for i in range(len(x)):|    if x[i] > 1:|        break|else:|    return x[0]|return x[i] ** 2 * i",
        (X,),
    ),
    "or what its else says": (
        "x|for v in x:|    r = v ** 2|    if r > 9:|        break|else:|    r = x[0]|return r * r",
        (X,),
    ),
    "of a loop over a tuple": (
        "x|for v in (x, x * 2):|    if v[0] > 1:|        r = v * x|        break|else:|    r = x|return r",
        (X,),
    ),
    # Rows of a triangle: products with them, and softmax.
    "products of slices": (
        "x, p, a: i64[k], b: i64[k]|return [x[a[i]:b[i]] @ p[a[i]:b[i]] for i in range(k)]",
        (X[:4], P, np.array([0, 1, 2]), np.array([2, 4, 2])),
    ),
    "attention": (
        "q, k|return [softmax(k[:i + 1] @ q[i]) @ k[:i + 1] for i in range(len(q))]",
        (P[:3], P[1:]),
    ),
    "softmax of slices": (
        "x|return sum(log_softmax(x[:i + 1])[i] * sum(softmax(x[i:]) ** 2) for i in range(len(x)))",
        (X,),
    ),
    "softmax of a mask": ("x|return sum(softmax(x[x > 0.8]) ** 2) + max(log_softmax(x[x > 0.8]))", (X,)),
    "rows of a product": ("p|return [sum((p[:i + 1] @ p.T) ** 2) for i in range(len(p))]", (P,)),
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
    """A type that is named is NumPy's, `float` too; an array without one takes the type of the others."""
    x = np.ones(3, np.float32)
    assert adc.compile("x * zeros(3)")(x).dtype == np.float32
    assert adc.compile("x * zeros(3, dtype=float)")(x).dtype == np.float64
    assert adc.compile("x * array([1, 2, 3], dtype=float)")(x).dtype == np.float64
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
