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
