"""Programs of many lines: `y[k] = ...` written out line by line, as generated code has it.

What is counted is the work of compiling: the elements of all arrays, in the program as it is lowered or
differentiated, and in what the passes make of it. Twice as many lines make twice as many.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from judges.compared import agrees, along, directions, has_oracles_value
from programs import Program

import adcompiler as adc
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.passes.pipeline import OPTIMISE, run
from adcompiler.pytree.kinds import ArgType

X = np.linspace(0.3, 1.1, 7)

LINES: dict[str, tuple[str, Callable[[int], str]]] = {
    "constant places": ("x", lambda k: f"y[{k}] = x[{k % 7}] * x[{(3 * k + 1) % 7}] + 0.5"),
    "computed reads": ("x, i: i64", lambda k: f"y[{k}] = x[(i + {k}) % 7] * x[(i + {2 * k}) % 7]"),
    "updates": ("x", lambda k: f"y[{k}] += x[{k % 7}] ** 2"),
    "what was stored before": ("x", lambda k: f"y[{k}] = sin(y[{k - 1}]) + x[{k % 7}]"),
}


def source_of(name: str, count: int, result: str = "sum(y * y)") -> str:
    parameters, line = LINES[name]
    lines = "".join(f"    {line(k)}\n" for k in range(1, count))
    return f"def f({parameters}):\n    y = zeros({count})\n{lines}    return {result}\n"


def elements(name: str, count: int, derive: bool) -> list[int]:
    """How many elements all arrays of a program have, and of what the passes make of it."""
    f = adc.compile(source_of(name, count), backend="numpy")
    types = (ArgType("f64", (False,)), ArgType("i64"))[: len(f._parameters)]
    func = (adc.grad(f, "x") if derive else f)._trace(types).func
    programs = (func, run(OPTIMISE, func))
    return [sum(len(elements_of(a.elements)) for a in arrays_of(p.results)) for p in programs]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("derive", [False, True])
@pytest.mark.parametrize("name", LINES)
def test_twice_as_many_lines_are_twice_the_work(name: str, derive: bool) -> None:
    few, many = elements(name, 20, derive), elements(name, 40, derive)
    assert all(more < 2.4 * less for less, more in zip(few, many, strict=True)), (few, many)


LOOPS: dict[str, Callable[[int], str]] = {
    "computed places": lambda k: f"y[(i[t] + {k}) % n] = sin(y[(3 * i[t] + {k}) % n]) * v[t]",
    "computed places and sums": lambda k: f"y[(i[t] + {k}) % n] += y[i[t]] * cos(y[(i[t] + {k + 1}) % n])",
    "fixed places": lambda k: f"y[{k}] = sin(y[{k + 1}]) * v[t] + y[0]",
    "rows": lambda k: f"Y[i[t], :] = Y[(i[t] + {k}) % n] * v[t] + {k}",
    "slices": lambda k: f"y[{k} : {k + 3}] = y[{k + 1} : {k + 4}] * v[t] + {k}",
}


def stored_in_loop(name: str, count: int) -> str:
    lines = "".join(f"        {LOOPS[name](k)}\n" for k in range(count))
    head = (
        "def f(y: f64[n], v: f64[m], i: i64[m], Y: f64[n, n]):\n    n = len(y)\n    for t in range(len(v)):\n"
    )
    return f"{head}{lines}    return sum(y * y) + sum(Y * Y)\n"


def elements_in_loops(name: str, count: int, derive: bool) -> list[int]:
    """How many elements all arrays have, those of loops included, before and after the passes."""
    f = adc.compile(stored_in_loop(name, count), backend="numpy")
    types = (ArgType("f64", (False,)), ArgType("f64", (False,)), ArgType("i64", (False,)))
    types = (*types, ArgType("f64", (False, False)))
    func = (adc.grad(f, ("y", "v")) if derive else f)._trace(types).func
    programs = (func, run(OPTIMISE, func))
    return [sum(map(_elements, arrays_of(p.results))) for p in programs]


def _elements(array: Array) -> int:
    if isinstance(array, Item):
        return 0 if array.k else sum(map(_elements, arrays_of(array.loop.roots)))
    return len(elements_of(array.elements))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("derive", [False, True])
@pytest.mark.parametrize("name", LOOPS)
def test_stores_of_an_iteration_are_linear_work(name: str, derive: bool) -> None:
    """Four times as many stores are at most five times the program, also that of the gradient."""
    few, many = elements_in_loops(name, 4, derive), elements_in_loops(name, 16, derive)
    assert all(more < 5 * less for less, more in zip(few, many, strict=True)), (few, many)


PLACES = {
    "several stores in one place": [3, 1, 3, -1, 0, 1, 4, 4, -4],
    "from the last to the first": [4, 3, 2, 1, 0],
    "reads in between": [0, 1, 0, 2, 1, 3, 0],
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    "result", ["sum(y * y)", "sum(y[1:] * sin(y[:-1]))", "y[1] * y[3] + y[k]", "sum(y * x)"]
)
@pytest.mark.parametrize("name", PLACES)
def test_derivatives(name: str, result: str) -> None:
    """In both modes, and of second order."""
    lines = [
        f"y[{k}] = x[{i % 5}] * y[{(i + 1) % 5}] + x[{(i + 2) % 5}] ** 2" for i, k in enumerate(PLACES[name])
    ]
    lines[1] = f"if x[0] > 0.2:\n        {lines[1]}"
    body = "\n    ".join(["y = x.copy()", *lines])
    program = Program(f"def f(x, k: i64):\n    {body}\n    return {result}\n", (X[:5], 2))
    has_oracles_value(program, "numpy")
    f = adc.compile(program.source, backend="numpy")
    way, other = (d[0] for d in directions(program, 2))
    agrees((adc.grad(f, "x")(X[:5], 2),), (way,), along(program, (way, None)))
    assert adc.jvp(f, (X[:5], 2), (way, None))[1] == pytest.approx(along(program, (way, None)))
    agrees((adc.hvp(f, "x")((X[:5], 2), way),), (other,), along(program, (way, None), (other, None)))
