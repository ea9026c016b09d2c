"""Names that share their elements: a program gives what NumPy gives, or is refused with what to write."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, seed, settings
from judges.compared import agrees, along, directions, has_oracles_value, totalled
from programs import Program
from programs.aliases import alias_programs
from sweepchecks import same_or_refused

import adcompiler as adc

X = np.array([1.2, 0.7, 2.1, 0.4, 0.9])
M = np.arange(1.0, 13).reshape(6, 2) / 7
HELPERS = """
def scaled(v):
    v /= norm(v)
    return v

def moved(v, w):
    v[0] = w[1]
    return v * w

"""

# Of x, 5 elements, and m, 6 rows of 2.
SAME = {
    "another name that is not read again": "w = x\nw += 1\nw[0] = 3.0\nreturn w",
    "another name of another array": "w = x\nx = x * 2\nx[0] = 5.0\nreturn w, x",
    "copies": "u, v, w = x.copy(), np.array(x), x.flatten()\nx += 1\nreturn x, u, v, w",
    "parts that do not meet": "a, b = x[:2], x[2:]\na += b[0]\nb *= a[0]\nreturn a, b",
    "columns": "p, v = m[:, 0], m[:, 1]\nv -= 0.1 * p\np += 0.1 * v\nreturn p, v",
    "rows": "p, v = m[0], m[1]\nv -= 0.1 * p\np += 0.1 * v\nreturn p, v",
    "rows that are unpacked": "p, v = m[:2]\nv -= 0.1 * p\np += 0.1 * v\nreturn p, v",
    "two arrays in turn": (
        "u, w = x.copy(), 0 * x\nfor k in range(3):\n    for i in range(7):\n"
        "        w[1:-1] = u[:-2] + 0.5 * u[2:]\n        u, w = w, u\nw[0] = 7.0\nreturn u, w"
    ),
    "two arrays exchanged under a condition": (
        "w = 0 * x\nif x[0] > 1:\n    x, w = w, x\nx[0] = 7.0\nreturn x, w"
    ),
    "two arrays exchanged in some iterations": (
        "w = 0 * x\nfor k in range(3):\n    if x[0] > w[0]:\n        x, w = w, x\n    x[0] += 1.1\n"
        "x[1] = 7.0\nreturn x, w"
    ),
    "the array of before": (
        "s, old = 0.0, x\nfor i in range(6):\n    old = x.copy()\n    x[1:] += 0.5 * x[:-1]\n"
        "    s += norm(x - old)\nreturn s"
    ),
    "stored in the second of two loops in an iteration": (
        "y = 0 * x\nfor k in range(7):\n    for stage in range(2):\n        for i in range(5):\n"
        "            if stage == 1:\n                y[i] += k * x[i]\nreturn y"
    ),
    "the other branch": "w = x\nif x[0] > 9:\n    x[0] = 5.0\nelse:\n    x[1] = w[0]\nreturn x",
    "a function that stores": "y = scaled(x)\nreturn y + 1",
    "a function that stores in a copy": "return scaled(x.copy()) @ x",
    "a function of rows": "return sum(scaled(row)[0] for row in m)",
    "rows of a loop": "s = 0.0\nfor row in m:\n    row /= norm(row)\n    s += row[0] - row[1]\nreturn s",
    "another part of a tuple": "t = x, 2 * x\nx[0] = 9.0\nreturn t[1]",
    "elements that a loop stores": "for v in x:\n    x[-1] += v * v\nreturn x",
    "with their numbers": "for i, v in enumerate(x):\n    x[-1] += i * v\nreturn x",
    "in pairs": "for a, b in zip(x[:-1], x[1:]):\n    x[-1] += a * b\nreturn x",
    "in loops": "for v in x:\n    for w in x:\n        x[2] += 0.1 * v * w\nreturn x",
    "in few iterations": "for v in x[:3]:\n    x[2] += v\nreturn x",
    "of a list": "y = [x[0], x[1], x[2]]\nfor v in y:\n    y[2] += v\nreturn sum(y)",
    "of a part": "for v in x[1:]:\n    x[-1] += v\nreturn x",
    "of what a loop leaves": "for v in x:\n    if v > 2:\n        break\n    x[2] += v\nreturn x",
    "of a loop that skips": "for v in x:\n    if v < 1:\n        continue\n    x[3] += v\nreturn x",
    "rows that a loop stores": "for i, row in enumerate(m):\n    m[5 - i] = row * row + m[0]\nreturn m",
    "of another array": "y = 2 * x\nfor v in y:\n    y = y + v\nreturn y",
    "arrays in a list": "out = []\nfor i in range(6):\n    x += i\n    out.append(x.copy())\nreturn sum(out)",
}

# What is read behind a store is marked; with the second line in its place the first is right.
LEFT_BEHIND = {
    "another name": ("w = x\nx += 1\nreturn »w", "w = x", "w = x.copy()"),
    "the first name": ("w = x\nw[0] = 3.0\nreturn w * »x", "w = x", "w = x.copy()"),
    "a part": ("v = x[1:]\nv[0] = 3.0\nreturn »x", "v = x[1:]", "v = x[1:].copy()"),
    "the whole of a part": ("v = x[1:]\nx[1] = 3.0\nreturn sum(»v)", "v = x[1:]", "v = x[1:].copy()"),
    "parts that meet": ("a, b = x[:3], x[2:]\na += 1\nreturn »b", "x[:3], ", "x[:3].copy(), "),
    "another shape": ("v = x.reshape(5, 1)\nv += 1\nreturn »x", "(5, 1)", "(5, 1).copy()"),
    "a column": ("v = m.T[0]\nv += 1\nreturn sum(»m)", "m.T[0]", "m.T[0].copy()"),
    "a branch": ("w = 2 * x\nif x[0] > 1:\n    w = x\nw[0] = 5.0\nreturn »x", "w = x\n", "w = x.copy()\n"),
    "one of two": ("w = x if x[0] > 1 else 2 * x\nw[0] = 5.0\nreturn »x", "w = x", "w = x.copy()"),
    "one of two exchanged with a third": (
        "w = 2 * x\nu = w\nif x[0] > 1:\n    x, w = w, x\nx[0] = 5.0\nreturn w, »u", "u = w", "u = w.copy()"
    ),
    "a store in a branch": ("w = x\nif x[0] > 1:\n    x[0] = 5.0\nreturn »w", "w = x", "w = x.copy()"),
    "a part of a tuple": ("t = x, 2 * x\nx[0] = 9.0\nreturn »t[0]", "t = x,", "t = x.copy(),"),
    "two targets": ("a = b = 2 * x\na[0] = 1.0\nreturn »b", "a = b = 2 * x", "a = 2 * x\nb = a.copy()"),
    "a function that stores": ("y = scaled(x)\nreturn »x * y", "(x)", "(x.copy())"),
    "in one expression": ("return »x @ scaled(x)", "(x)", "(x.copy())"),
    "of another argument": ("return moved(x, x[:])[0]", "moved(x,", "moved(x.copy(),"),
    "rows of a comprehension": (
        "s = sum(scaled(row)[0] for row in m)\nreturn s + »m[0, 0]", "scaled(row)", "scaled(row.copy())"
    ),
    "rows of a loop": (
        "s = 0.0\nfor row in m:\n    row /= norm(row)\n    s += row[0]\nreturn s + sum(»m)",
        "in m:",
        "in m.copy():",
    ),
    "points of a comprehension": (
        "return [scaled(»x)[k] for k in range(5)]", "»x", "x.copy()"
    ),
    "the next iteration": (
        "s, p = 0.0, 0 * x\nfor i in range(5):\n    x[i] = i\n    s += »p[i]\n    p = x\nreturn s",
        "p = x\n",
        "p = x.copy()\n",
    ),
    "a name around a loop": (
        "s, w = 0.0, x\nfor i in range(5):\n    s += »w[0]\n    x[0] += 1\nreturn s",
        "0.0, x",
        "0.0, x.copy()",
    ),
    "what an array is before a loop": (
        "w = x\nfor i in range(5):\n    x = x + 1\nx[0] = 0.0\nreturn x - »w", "w = x", "w = x.copy()"
    ),
    "a list of a loop": (
        "out = []\nfor i in range(6):\n    x += i\n    out.append(x)\nreturn sum(»out)", "(x)", "(x.copy())"
    ),
    "a list": ("out = [2 * x]\nout.append(x)\nx[0] = 1.0\nreturn np.array(»out)", "(x)", "(x.copy())"),
    "elements of an array with another name": (
        "w = x\nfor v in »w:\n    x[-1] += v\nreturn x", "w = x", "w = x.copy()"
    ),
}  # fmt: skip


def source_of(body: str) -> str:
    return HELPERS + "def f(x, m):\n    " + body.replace("»", "").replace("\n", "\n    ")


@pytest.mark.parametrize("name", SAME)
def test_values(name: str) -> None:
    has_oracles_value(Program(source_of(SAME[name]), (X, M)), "numpy")


@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_what_a_store_leaves_behind_is_refused_where_it_is_read(name: str) -> None:
    body, before, after = LEFT_BEHIND[name]
    with pytest.raises(adc.ParseError, match=r"shares (its )?elements") as caught:
        adc.compile(source_of(body), backend="numpy")(X, M)
    assert ".copy()" in caught.value.remedy
    if "»" in body:  # else it is in the function that stores
        marked = source_of(body.partition("»")[0] + "»").split("\n")
        assert (caught.value.line, caught.value.column) == (len(marked), len(marked[-1]) + 1)
    assert body.count(before) == 1
    has_oracles_value(Program(source_of(body.replace(before, after)), (X, M)), "numpy")


@pytest.mark.parametrize("name", ["elements that a loop stores", "in loops", "rows that a loop stores"])
def test_derivatives_of_loops_over_what_they_store(name: str) -> None:
    """In both modes, and of second order."""
    program = totalled(Program(source_of(SAME[name]), (X, M)))
    f = adc.compile(program.source, backend="numpy")
    way, other = directions(program, 2)
    agrees(adc.grad(f)(X, M), way, along(program, way))
    assert adc.jvp(f, (X, M), tuple(way))[1] == pytest.approx(along(program, way))
    agrees(adc.hvp(f)((X, M), tuple(way)), other, along(program, way, other))


def test_in_a_kernel() -> None:
    program = Program(source_of(SAME["in pairs"]), (X.astype(np.float32), M))
    has_oracles_value(program, "cpu")


@seed(5)
@settings(max_examples=25, deadline=None, database=None)
@given(alias_programs())
def test_random_programs(program: Program) -> None:
    same_or_refused(program)


@pytest.mark.parametrize("length", ["len(x)", "x.shape[0]", "x.size", "x.ndim", "sum(zeros_like(x) + 1)"])
def test_a_length_may_be_asked_after_a_store_through_another_name(length: str) -> None:
    f = adc.compile(f"def f(x):\n    y = x\n    y[0] = 3.0\n    return sum(y) * {length}", backend="numpy")
    assert f(np.ones(4)) == 6.0 * (1 if "ndim" in length else 4)
