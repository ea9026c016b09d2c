"""Random programs: derivatives inside the language and Taylor mode against the oracle and the outer modes."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, example, given, settings
from judges.compared import along, directions, leaves, near, totalled
from programs import Program, programs

import adcompiler as adc
from adcompiler.ir.textform.verify import verify
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run

UNUSED = Program("def f(x, y):\n    return sum(y) + 0 * x", (0.3, np.ones(2)))


def is_verified(f: adc.Function, program: Program) -> None:
    """The invariants hold around every pass."""
    func = f._trace(f._describe(program.args, {})[0]).func
    run((*OPTIMISE, *KERNEL), func, lambda made: verify(made, TABLE))


def has_oracles_line(program: Program, backend: str) -> None:
    """The derivatives along a line, to third order."""
    total = totalled(program)
    (way,) = directions(total, 1)
    found = adc.taylor(adc.compile(total.source, backend=backend), total.args, way, 3)
    for order in (1, 2, 3):
        expected = along(total, *[way] * order)
        assume(expected is not None)
        near(found[order], expected, 1e-8 * max(1.0, abs(expected)))


@example(UNUSED)
@settings(max_examples=8)
@given(programs(smooth=True))
def test_taylor_mode_interpreted(program: Program) -> None:
    has_oracles_line(program, "numpy")


@settings(max_examples=3)
@given(programs(smooth=True))
def test_taylor_mode_compiled(program: Program) -> None:
    has_oracles_line(program, "cpu")


def gradient_of(program: Program) -> Program:
    """The gradient of the total, taken inside the language."""
    total = totalled(program)
    names = ", ".join(p.name for p in adc.compile(total.source)._parameters)
    source = f"{total.source}\ndef inner({names}):\n    return grad(total)({names})\n"
    return Program(source, total.args)


@example(UNUSED)
@settings(max_examples=8)
@given(programs(smooth=True))
def test_gradients_inside_are_those_outside(program: Program) -> None:
    total, inside = totalled(program), gradient_of(program)
    f, g = adc.compile(total.source, backend="numpy"), adc.compile(inside.source, backend="numpy")
    is_verified(g, inside)
    outside = list(leaves(adc.grad(f)(*total.args)))
    for a, b in zip(leaves(g(*inside.args)), outside, strict=True):
        near(a, b)


@settings(max_examples=3)
@given(programs(smooth=True))
def test_gradients_inside_are_those_outside_compiled(program: Program) -> None:
    total, inside = totalled(program), gradient_of(program)
    f, g = adc.compile(total.source), adc.compile(inside.source)
    for a, b in zip(leaves(g(*inside.args)), leaves(adc.grad(f)(*total.args)), strict=True):
        near(a, b)


@settings(max_examples=6)
@given(programs(smooth=True, scalar_only=True))
def test_partials_inside_are_the_oracles_and_differentiate_again(program: Program) -> None:
    """A partial of third order by each variable, and its gradient."""
    total = totalled(program)
    names = [p.name for p in adc.compile(total.source)._parameters]
    for k, name in enumerate(names):
        source = f"{total.source}\ndef inner({', '.join(names)}):\n    return diff(total, {name}, 3)\n"
        f = adc.compile(source, backend="numpy")
        is_verified(f, Program(source, total.args))
        unit = [1.0 if j == k else 0.0 for j in range(len(names))]
        expected, again = along(total, *[unit] * 3), along(total, *[unit] * 4)
        assume(expected is not None and again is not None)
        near(f(*total.args), expected, 1e-8 * max(1.0, abs(expected)))
        near(adc.grad(f, name)(*total.args), again, 1e-8 * max(1.0, abs(again)))
