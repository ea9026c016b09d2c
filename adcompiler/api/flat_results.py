"""All floats of a function's result as one vector, which kernels write."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from adcompiler.api.function import Function
from adcompiler.ir.types import is_float
from adcompiler.runtime.arguments.ragged_arrays import refuse
from adcompiler.runtime.programs.program import Program
from adcompiler.targets.buffers import POOL

FLOAT = np.dtype(np.float64)


def interpreted(function: Function, args: Sequence[Any]) -> Any:
    """What a function returns, without compiling it."""
    call = function._describe(args)
    return Program.of(function._trace(call.types), "numpy").bind(call.values, types=call.types).result()


def flat_results(function: Function, args: Sequence[Any]) -> np.ndarray:
    """The floats of all results in order, in float64."""
    bound = function._bind(args, rows=False)
    program = bound.program
    refuse("a vector", (program.structure,))
    floats = [k for k, r in enumerate(program.func.results) if is_float(r.dtype)]
    shapes = {k: bound.shape(k) for k in floats}
    whole = POOL.empty((sum(map(prod, shapes.values())),), FLOAT)
    into: list[Any] = [None] * len(program.func.results)
    parts, start = {}, 0
    for k, shape in shapes.items():
        parts[k] = whole[start : start + prod(shape)].reshape(shape)
        start += prod(shape)
        if shape and program.func.results[k].dtype == "f64":
            into[k] = parts[k]
    found = program.run(bound.sizes, bound.values, False, into)
    for k, part in parts.items():
        if found[k] is not part:
            part[...] = found[k]
    return whole
