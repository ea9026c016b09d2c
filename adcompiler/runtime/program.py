"""A program of the compiler itself (a forward, a propagate) as a function like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adcompiler.ir.nodes import Func
from adcompiler.runtime.function import Function
from adcompiler.runtime.signature import Parameter
from adcompiler.runtime.specialise import Specialisation, Types
from adcompiler.syntax.program import Lowered


class ProgramFunction(Function):
    """A function from a program itself: a forward or a propagate.

    `sizes` are the lengths of its size symbols, which its arguments alone may not tell.
    """

    def __init__(
        self, func: Func, sizes: Sequence[int], backend: str, compiled: Specialisation | None = None
    ) -> None:
        super().__init__(func.name, tuple(Parameter(n, False, False) for n in func.input_names), backend)
        structure = (None,) * len(func.results)
        self.func, self.sizes = func, sizes
        self.compiled = compiled or Specialisation(Lowered(func, (), structure), backend)

    def trace(self, types: Types) -> Lowered:
        return self.compiled.lowered

    def specialise(self, types: Types) -> Specialisation:
        self.seen(types)
        return self.compiled

    def run(self, values: Sequence[Any], plain: bool) -> list[Any]:
        """The results for values that are converted already."""
        return self.compiled(values, plain, self.sizes)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if any(hasattr(a, "__adc_call__") for a in args):
            return super().__call__(*args, **keywords)
        _, values, plain = self.describe(args, keywords)
        return tuple(self.run(values, plain))
