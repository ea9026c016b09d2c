"""`f.split()`: explicit forward and propagate programs, one propagate for each pattern of None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.ad.split import Pattern, Propagate, Split, split
from adcompiler.codegen.reference import length
from adcompiler.errors import DtypeError, GraphError, ShapeError
from adcompiler.ir.nodes import Func
from adcompiler.ir.types import NUMPY
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.function import Function, Types
from adcompiler.runtime.signature import Parameter
from adcompiler.runtime.specialise import Specialisation, flatten, unflatten
from adcompiler.syntax.program import Lowered
from adcompiler.syntax.values import ArgType


class ProgramFunction(Function):
    """A function from a program itself: a forward or a propagate.

    `sizes` are the lengths of its size symbols, which its arguments alone may not tell.
    """

    def __init__(self, func: Func, sizes: Sequence[int], backend: str, compiled: Specialisation | None = None) -> None:
        super().__init__(func.name, tuple(Parameter(n, False, False) for n in func.input_names), backend)
        structure = (None,) * len(func.results)
        self.func, self.sizes = func, sizes
        self.compiled = compiled or Specialisation(Lowered(func, (), structure), backend)
        self.splits: dict[Any, SplitProgram] = {}

    def trace(self, types: Types) -> Lowered:
        return self.compiled.lowered

    def specialise(self, types: Types) -> Specialisation:
        self._last = types
        return self.compiled

    def run(self, values: Sequence[Any], plain: bool) -> list[Any]:
        """The results for values that are converted already."""
        return self.compiled(values, plain, self.sizes)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if any(hasattr(a, "__adc_call__") for a in args):
            return super().__call__(*args, **keywords)
        _, values, plain = self.describe(args, keywords)
        return tuple(self.run(values, plain))


class SplitProgram:
    """The programs of one split: forward, and the propagates made so far, by pattern."""

    def __init__(self, parts: Split, lowered: Lowered, backend: str) -> None:
        self.parts, self.backend = parts, backend
        self.structure = lowered.structure
        self.forward = Specialisation(Lowered(parts.forward, lowered.constraints, None), backend)
        self.made: dict[tuple[Pattern, Pattern], tuple[Propagate, Specialisation]] = {}

    def propagate(self, present: Pattern, asked: Pattern) -> tuple[Propagate, Specialisation]:
        """The program for a pattern; made when it is first seen."""
        key = (present, asked)
        if key not in self.made:
            part = self.parts.propagate(present, asked)
            part = Propagate(run(SIMPLIFY, part.func), part.reads, part.known)
            compiled = Specialisation(Lowered(part.func, (), (None,) * len(part.func.results)), self.backend)
            self.made.setdefault(key, (part, compiled))
        return self.made[key]

    @property
    def saved_names(self) -> tuple[str, ...]:
        """What a backward pass reads: the inputs and results that some propagate names."""
        names = self.parts.value_names()
        full = self.parts.propagate(self.parts.differentiable, (True,) * len(self.parts.wanted))
        return tuple(names[k] for k in full.reads)


class Saved(tuple[Any, ...]):
    """The values that propagate reads, with the program that saved them and the lengths of its sizes."""

    program: SplitProgram
    values: tuple[Any, ...]
    sizes: tuple[int, ...]
    plain: bool

    @classmethod
    def of(cls, program: SplitProgram, values: Sequence[Any], sizes: Sequence[int], plain: bool) -> Saved:
        """Keep, of forward's inputs and results, those that a propagate may read."""
        full = program.propagate(program.parts.differentiable, (True,) * len(program.parts.wanted))[0]
        saved = cls(values[k] for k in full.reads)
        saved.program, saved.sizes, saved.plain = program, tuple(sizes), plain
        kept: list[Any] = [None] * len(values)
        for k in full.reads:
            kept[k] = values[k]
        saved.values = tuple(kept)
        return saved

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the saved values."""
        return self.program.saved_names


class SplitFunction:
    """The explicit programs of a function: `forward(*args) -> (results, saved)` and
    `propagate(saved, cotangents) -> tuple`, None where a gradient is known to be zero."""

    def __init__(self, f: Function, wrt: Any = None) -> None:
        self.f, self.wrt = f, wrt
        self._programs: dict[Types, SplitProgram] = {}

    def at(self, types: Types) -> SplitProgram:
        """The programs for arguments of these types."""
        found = self._programs.get(types)
        if found is None:
            lowered = self.f.trace(types)
            wanted = self.f.inputs_of(self.f.positions(self.wrt, types), types)
            found = self._programs.setdefault(
                types, SplitProgram(split(lowered.func, wanted), lowered, self.f.backend)
            )
        return found

    def forward(self, *args: Any, **keywords: Any) -> tuple[Any, Saved]:
        """The results, and what propagate needs: inputs that it reads and temporaries."""
        types, values, plain = self.f.describe(args, keywords)
        program = self.at(types)
        self.f._last = types
        sizes = program.forward.sizes(values)
        found = program.forward(values, plain, sizes)
        results = unflatten(program.structure, found[: program.parts.count])
        return results, Saved.of(program, (*values, *found), sizes, plain)

    def propagate(self, saved: Saved, cotangents: Any) -> tuple[Any, ...]:
        """Gradients of the inputs in `wrt`, for cotangents nested like the results.

        The cotangents of saved temporaries may follow those of the results in a flat tuple. None
        stands for zero, both ways.
        """
        if not isinstance(saved, Saved):
            raise GraphError("propagate needs what forward saved", remedy="pass the second value of forward(...)")
        program = saved.program
        given = self._given(program, cotangents)
        checked = [self._checked(program, k, g, saved) for k, g in enumerate(given)]
        present = tuple(c is not None for c in checked)
        part, compiled = program.propagate(present, (True,) * len(program.parts.wanted))
        args = [*(saved.values[k] for k in part.reads), *(c for c in checked if c is not None)]
        found = iter(compiled(args, saved.plain, saved.sizes))
        return tuple(next(found) if known else None for known in part.known)

    def _given(self, program: SplitProgram, cotangents: Any) -> list[Any]:
        """One cotangent for each result of forward."""
        count = len(program.parts.forward.results)
        if isinstance(cotangents, tuple | list) and len(cotangents) == count != program.parts.count:
            return list(cotangents)
        given = [None] if cotangents is None else self._nested(program, cotangents)
        return [*given, *[None] * (count - len(given))]

    def _nested(self, program: SplitProgram, cotangents: Any) -> list[Any]:
        one = isinstance(cotangents, tuple | list) and len(cotangents) == 1 and program.structure is None
        return flatten(program.structure, cotangents[0] if one else cotangents)

    def _checked(self, program: SplitProgram, k: int, value: Any, saved: Saved) -> Any:
        """A cotangent as a kernel takes it; it must be shaped like its result."""
        result, name = program.parts.forward.results[k], program.parts.forward.result_names[k]
        if value is None or not program.parts.differentiable[k]:
            return None
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise DtypeError(f"the cotangent of {name} is {array.dtype}", remedy="pass real numbers")
        shape = tuple(length(n, saved.sizes) for n in result.shape)
        if array.shape != shape:
            raise ShapeError(
                f"the cotangent of {name} has shape {array.shape}, the result {shape}",
                remedy="a cotangent has its result's shape",
            )
        array = array.astype(NUMPY[result.dtype], copy=False)
        return array[()] if not shape else array


def argument_types(func: Func) -> tuple[ArgType, ...]:
    """The types of a program's inputs."""
    from adcompiler.syntax.sizes import unit

    return tuple(ArgType(i.dtype, tuple(unit(n) for n in i.shape)) for i in func.inputs)
