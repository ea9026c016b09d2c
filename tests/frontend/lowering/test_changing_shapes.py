"""Loops of a few iterations that change shapes are written out; chains cost in proportion to their length."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from judges.compared import agrees, along, directions, has_oracles_value, totalled
from programs import Program

import adcompiler as adc

X = np.linspace(0.1, 2.0, 32)
BODIES = {
    "every second": "for k in range(5):|    x = x[::2]|return x * x",
    "pairs": "for k in range(5):|    x = sin(x[::2] * x[1::2])|return x",
    "differences": "s = 0.0|for k in range(6):|    x = x[1:] - x[:-1]|    s += sum(x ** 2) * k|return s",
    "longer": "for k in range(5):|    x = concatenate((x, sin(x[:1])))|return x",
    "inside": "s = x[0]|for k in range(3, 12):|    y = x|    for j in range(5):|        y = y[::2] * s|"
    "    s = sin(s + y[0])|return s",
}


def program(name: str) -> Program:
    return Program("def f(x):\n" + "".join(f"    {line}\n" for line in BODIES[name].split("|")), (X,))


@pytest.mark.parametrize("name", BODIES)
def test_values_and_derivatives(name: str) -> None:
    has_oracles_value(program(name), "numpy")
    total = totalled(program(name))
    one, other = directions(total, 2)
    f = adc.compile(total.source, backend="numpy")
    first, second = along(total, one), along(total, one, other)
    assert first is not None
    assert second is not None
    agrees(adc.grad(f)(*total.args), one[0], first)
    agrees(adc.hvp(f)(total.args, one[0]), other[0], second)


@pytest.mark.parametrize(
    "body",
    [
        "for k in range(40):|    x = x[::2]|return x",  # too many
        "for k in range(n):|    x = x[::2]|return x",  # not known
        "for k in range(5):|    x = x[::2] + y|return x",  # of no length when written out
    ],
)
def test_what_cannot_be_written_out_is_refused(body: str) -> None:
    source = "def f(x, y, n: i64):\n" + "".join(f"    {line}\n" for line in body.split("|"))
    with pytest.raises(adc.ShapeError) as caught:
        adc.compile(source, backend="numpy")(X, np.ones(32), 5)
    assert caught.value.line in (2, 3)


def lines_run(source: str) -> int:
    """The lines of Python that compiling and lowering run."""
    count = 0

    def line(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    f = adc.compile(source, backend="numpy")
    sys.settrace(line)
    try:
        adc.compile(source, backend="numpy")
        f.show("ir", np.ones((2, 3)))
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize("chain", [".T", ".mT", ".real", ".copy()"])
def test_chains_cost_in_proportion_to_their_length(chain: str) -> None:
    for text in (f"x{chain * 3}", "def f(x):\n    return x" + chain * 3):
        lines_run(text)
    few, many = (lines_run("def f(x):\n    return x" + chain * n) for n in (100, 400))
    assert many <= 4.5 * few
    few, many = (lines_run("x" + chain * n) for n in (100, 400))
    assert many <= 4.5 * few
