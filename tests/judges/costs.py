"""The cheap gradient principle, counted: what a value and its gradient compute and store beside the value.

Counted is what stands in the schedule, for lengths of any size; nothing is compiled or timed. Lengths that a
program computes count as the longest that it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import adcompiler as adc
from adcompiler.ad.programs.split import value_and_grad
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.interpreter.reference import extent
from adcompiler.ir.nodes import Accumulate, Element, Read, Reduce
from adcompiler.ir.walk import elements_of
from adcompiler.kernels.emit.traffic import Counted, Space, Work
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence
from adcompiler.ops.costs import INSTRUCTIONS, weight
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.programs.program import Program
from adcompiler.targets.cpu.kernels import kernel_at
from adcompiler.targets.cpu.timed import Timed


class UnknownError(Exception):
    """Only values tell how often a loop runs, or a part of the work is not in the schedule."""


def ratios(f: adc.Function, args: Sequence[Any], scales: Sequence[int]) -> list[float]:
    """How many times the work of the value its value and gradient are, for each factor of all lengths. To the
    value's belong the elements of what it takes, whether it reads them or not: the gradient has as many."""
    types, values, _ = f._describe(args, {})
    lowered = f._trace(types)
    positions = f._positions(None, types)
    joint = run(SIMPLIFY, value_and_grad(lowered.func, f._inputs_of(positions, types), True))
    value, gradient = (Program.of(p, "cpu") for p in (lowered, Lowered(joint, lowered.constraints, None)))
    sizes = value.sizes(values)
    found = []
    for scale in scales:
        longer = [n * scale for n in sizes]
        numbers = [
            v * scale if isinstance(v, int | np.integer) and not isinstance(v, bool) else v for v in values
        ]
        taken = sum(np.prod(extent(i.shape, longer)) for i in lowered.func.inputs)
        found.append(work(gradient, longer, numbers) / (work(value, longer, numbers) + taken))
    return found


def repeated(f: adc.Function, args: Sequence[Any], scale: int) -> list[str]:
    """The functions that several loops of a value and its gradient compute, as "exp (2 times)"."""
    types, values, _ = f._describe(args, {})
    lowered = f._trace(types)
    joint = run(SIMPLIFY, value_and_grad(lowered.func, f._inputs_of(f._positions(None, types), types), True))
    program = Program(joint, "cpu", lowered.constraints)
    timed, counted = _counted(program, [n * scale for n in program.sizes(values)], values)
    found = {one: one.split()[0] for one in counted.repeated(timed.items)}
    return [one for one, op in found.items() if op not in INSTRUCTIONS and TABLE[op].kind == "float"]


def _counted(program: Program, sizes: Sequence[int], values: Sequence[Any]) -> tuple[Timed, _Counted]:
    compiled = kernel_at(program.executable, sizes)
    if isinstance(compiled, partial):
        raise UnknownError  # products after the kernel are not counted
    timed = Timed(compiled.made, compiled.precise)
    return timed, _Counted(timed.func, dict(timed.kernel.arrays), sizes, program.lengths.values(values))


def work(program: Program, sizes: Sequence[int], values: Sequence[Any]) -> float:
    """Weighted operations, and elements that loops store or add up."""
    timed, counted = _counted(program, sizes, values)
    parts = [*map(counted.item, timed.items), counted.numbers(timed.rest)]
    return counted.elements + sum(n * weight(op) for part in parts for (op, _), n in part.operations.items())


class _Counted(Counted):
    """Counts elements too, in the iterations of loops as well."""

    elements = 0.0

    def nest(self, work: Work, loop: Loop, around: Space) -> None:
        spaces: list[tuple[int, Space]] = []
        self.enter(work, loop, around, spaces)
        places = dict(spaces)
        for task in loop.tasks:
            if task.loops and (task.stored or isinstance(task.array, Reduce | Accumulate)):
                self.elements += places[task.loops[-1].number].iterations
        super().nest(work, loop, around)

    def recurrence(self, work: Work, rec: Recurrence, around: Space) -> None:
        if rec.loop.length is None:
            raise UnknownError
        super().recurrence(work, rec, around)

    def value(self, work: Work, element: Element, space: Space) -> np.ndarray:
        found = super().value(work, element, space)
        unknown = {e.array for e in elements_of((element,)) if isinstance(e, Read)} - self.values.keys()
        return np.full(1, max(self.sizes, default=1)) if unknown else found
