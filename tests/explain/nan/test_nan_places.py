"""Where `adc.explain_nan` says that it happened: element, iterations and calls are those of the source."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

WRITTEN_OUT = """def f(x):
    s = 0.0
    for i in range(4):
        for j in range(5):
            s = sin(s) + 1 / (x * (i * 10 + j - 23))
    return s
"""
ALL_WRITTEN_OUT = """def f(x):
    s = 0.0
    for i in range(3):
        for j in range(2):
            s = 0.5 * s + log(x + 2 * i + j)
    return s
"""
BEHIND = """def f(x):
    for i in range(3):
        x = x - 1
    return log(x)
"""
RETURN_INSIDE = """def f(x):
    for i in range(4):
        x = x - 1
        if x < 0.5:
            return log(x)
    return x
"""
SUM = "def f(x, n):\n    s = 1.0\n    for k in range(len(n)):\n        s = s + x / (n[k])\n    return s\n"
WHILE = (
    "def f(x):\n    y = 0.0\n    while x > -0.5:\n        y = y + sqrt(x)\n        x = x - 1\n    return y\n"
)
GATHER = """def f(x, i):
    s = 0.0
    for k in range(len(i)):
        s = s * 0.5 + sqrt(x[i[k]])
    return s
"""
INNER_WHILE = """def f(x):
    for i in range(9):
        t = x
        while t > 1:
            t = t - sqrt(x - 5 * i)
        x = x - t * 0.1
    return x
"""
ROWS = """def f(x, w):
    h = zeros(3)
    for t in range(len(x)):
        h = tanh(w @ h) + log(x[t])
    return sum(h)
"""
M = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 6.0], [7.0, 8.0, 9.0], [1.0, 1.0, 1.0]])
X = np.array([3.0, 1.0, 0.0, 2.0])
S = "sum([log(p.x) for p in ps])"
STRUCTS = np.array([(1.0,), (0.0,)], dtype=[("x", float)])

# What is explained, and where it happened: the line, the element and the iterations.
PLACES = {
    "a sum along the first axis": ("sum(1 / x, axis=0)", (M,), 1, (1, 1), ()),
    "of a transposed array": ("sum(1 / transpose(x), axis=0)", (M[:2],), 1, (1, 1), ()),
    "a mean along the first of three": ("mean(1 / x, axis=0)", (M[:, :, None],), 1, (1, 1, 0), ()),
    "an axis of length 1": ("sum(log(x))", (X[2:3],), 1, (0,), ()),
    "a broadcast row": ("sum(x / y[:, None], axis=0)", (M, X), 1, (2, 0), ()),
    "a comprehension": ("sum([1 / x[j, i] for i in range(3) for j in range(4)])", (M,), 1, (1, 1), ()),
    "an item of a tuple": ("sum([log(v) for v in (x, y, z)])", (1.0, 0.0, 2.0), 1, (1,), ()),
    "an item of a list": (S, (list(STRUCTS),), 1, (1,), ()),
    "an item of a structured array": (S, (STRUCTS,), 1, (1,), ()),
    "an outer loop that is written out": (WRITTEN_OUT, (4.0,), 5, (), (2, 3)),
    "loops that are written out": (ALL_WRITTEN_OUT, (0.0,), 5, (), (0, 0)),
    "behind a loop that is written out": (BEHIND, (3.0,), 4, (), ()),
    "a return inside": (RETURN_INSIDE, (3.0,), 5, (), (2,)),
    "a loop that only adds up": (SUM, (4.0, X), 4, (), (2,)),
    "the derivative of a while loop": (WHILE, (3.0,), 4, (), (3,)),
    "the derivative of a gather": (GATHER, (X, np.array([0, 1, 2])), 4, (), (2,)),
    "a loop inside a loop": (INNER_WHILE, (10.0,), 5, (), (3, 0)),
    "a row of a loop": (ROWS, (np.where(M == 7, 0, M + 1), np.eye(3)), 4, (0,), (2,)),
    "a running product": ("cumprod(x)", (np.full(400, 10.0),), 1, (), (308,)),
    "a routine in an expression": ("sum(log(diag(cholesky(x))))", (-np.eye(2),), 1, (0, 0), ()),
}  # fmt: skip


@pytest.mark.parametrize("case", PLACES)
def test_the_place_is_that_of_the_source(case):
    source, args, line, element, iterations = PLACES[case]
    found = adc.explain_nan(adc.compile(source, backend="numpy"), *args)
    assert (found.line, found.element, found.iterations) == (line, element, iterations)


def test_the_operands_of_an_item_are_those_of_that_item():
    found = adc.explain_nan(adc.compile(S, backend="numpy"), list(STRUCTS))
    assert dict(found.operands) == {"p.x": 0.0}


@pytest.mark.parametrize("axis", [0, 1])
def test_a_mapped_axis_is_the_first_one(axis):
    rows = adc.vmap(adc.compile("sum(1 / x)", backend="numpy"), in_axes=axis)
    found = adc.explain_nan(rows, M + (M == 0) - (M == 8) * 8)  # the zero is at [2, 1]
    assert found.element == ((2, 1) if axis == 0 else (1, 2))


def test_the_call_is_named_that_an_operation_is_part_of():
    source = "def g(z):\n    return log(z)\ndef f(x):\n    return g(x + 1) + g(x)\n"
    text = str(adc.explain_nan(adc.compile(source, backend="numpy"), 0.0))
    assert "in the call g(x) in line 4" in text
    assert "z = 0" in text


def test_the_call_in_an_iteration():
    source = """def g(z):
    return 1 / z
def f(x):
    s = x
    for i in range(3):
        s = sin(s) + g(i - x)
    return s
"""
    found = adc.explain_nan(adc.compile(source, backend="numpy"), 2.0)
    assert (found.line, found.iterations, dict(found.operands)) == (2, (2,), {"z": 0.0})
    assert "in the call g(i - x) in line 6" in str(found)


def test_an_argument_that_is_an_integer_is_named():
    assert adc.explain_nan(adc.compile("x / k", backend="numpy"), 1.0, 0).operands["k"] == 0


def test_the_operand_of_a_derivative_in_a_loop_is_as_it_was_written():
    source = "def f(x):\n    for k in range(50):\n        x = abs(x - 0.1 * k)**0.5\n    return x\n"
    found = adc.explain_nan(adc.compile(source, backend="numpy"), 0.0)
    assert (found.phase, found.iteration) == ("backward", 0)
    assert dict(found.operands) == {"abs(x - 0.1 * k)": 0.0}
