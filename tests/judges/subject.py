"""A program with its derivatives, as kernels for lengths of any size; nothing is compiled or run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

import adcompiler as adc
from adcompiler.ad.jvp import value_and_tangent
from adcompiler.ad.programs.split import value_and_grad
from adcompiler.frontend.values.sizes import with_inputs
from adcompiler.interpreter.reference import extent
from adcompiler.ir.nodes import Func
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.programs.program import Program
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.cpu.kernels import kernel_at
from adcompiler.targets.cpu.timed import Timed

VALUE, JOINT, GRADIENT, PRODUCT = "value", "value and gradient", "gradient", "Hessian product"


class UnknownError(Exception):
    """Only values tell how often a loop runs, or a part of the work is not in the schedule."""


class Subject:
    """A function of one scalar, with the kernels of its derivatives by all its floats at multiples of the
    lengths of `args`."""

    def __init__(self, f: adc.Function, args: Sequence[Any]) -> None:
        types, self.args, *_ = f._describe(args)
        self.lowered = f._trace(types)
        self.wrt = f._inputs_of(f._positions(None, types), types)
        self.func = cache(self._func)
        self.program = cache(self._program)
        self.kernel = cache(self._kernel)
        self.timed = cache(self._timed)

    def _func(self, what: str) -> Func:
        value = self.lowered.func
        match what:
            case "value":
                return value
            case "Hessian product":
                return run(SIMPLIFY, value_and_tangent(self.func(GRADIENT), self.wrt, False))
        return run(SIMPLIFY, value_and_grad(value, self.wrt, what == JOINT))

    def _program(self, what: str) -> Program:
        func, lowered = self.func(what), self.lowered
        return Program(func, "cpu", with_inputs(lowered.constraints, lowered.func, func))

    def sizes(self, scale: int) -> list[int]:
        """The lengths of the arguments, times a factor."""
        return [n * scale for n in self.program(VALUE).sizes(self.args)]

    def values(self, what: str, scale: int) -> Sequence[Any]:
        """The inputs of a program, for numbers of iterations among them; directions are like arguments."""
        found = [v * scale if is_count(v) else v for v in self.args]
        return found + [found[k] for k in self.wrt][: len(self.func(what).inputs) - len(found)]

    @property
    def taken(self) -> Any:
        """The elements of the arguments, for a factor of all lengths."""
        inputs = self.lowered.func.inputs
        return lambda scale: sum(np.prod(extent(i.shape, self.sizes(scale))) for i in inputs)

    def _kernel(self, what: str, scale: int) -> CpuKernel:
        found = kernel_at(self.program(what).executable, self.sizes(scale))
        if isinstance(found, partial):
            (found,) = found.args  # products that BLAS computes after it are not in the kernel
        assert isinstance(found, CpuKernel)
        return found

    def _timed(self, what: str, scale: int) -> Timed:
        """The same kernel with the items of its schedule."""
        compiled = kernel_at(self.program(what).executable, self.sizes(scale))
        if isinstance(compiled, partial):
            raise UnknownError  # products after the kernel are not counted
        return Timed(compiled.made, compiled.precise)


def is_count(value: Any) -> bool:
    """Whether an argument is a number of iterations."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
