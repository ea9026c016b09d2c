"""All floats of a function's result as one vector, which kernels write."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from adcompiler.api.function import Function
from adcompiler.interpreter.reference import extent
from adcompiler.ir.types import is_float
from adcompiler.pytree.structures import unflatten
from adcompiler.runtime.arguments.ragged_arrays import refuse, with_rows
from adcompiler.runtime.programs.specialise import Specialisation
from adcompiler.targets.buffers import POOL

FLOAT = np.dtype(np.float64)


def interpreted(function: Function, args: Sequence[Any]) -> Any:
    """What a function returns, without compiling it."""
    types, values, _ = function.describe(args, {})
    lowered = function.trace(types)
    results = Specialisation(lowered, "numpy")(values, False)
    return unflatten(with_rows(lowered.structure, types, values), results)


def flat_results(function: Function, args: Sequence[Any]) -> np.ndarray:
    """The floats of all results in order, in float64."""
    types, values, _ = function.describe(args, {}, rows=False)
    program = function.specialise(types, values)
    refuse("a vector", (program.lowered.structure,))
    sizes = program.sizes(values)
    floats = [k for k, r in enumerate(program.func.results) if is_float(r.dtype)]
    shapes = {k: extent(program.func.results[k].shape, sizes, program.values(values)) for k in floats}
    whole = POOL.empty((sum(map(prod, shapes.values())),), FLOAT)
    into: list[Any] = [None] * len(program.func.results)
    parts, start = {}, 0
    for k, shape in shapes.items():
        parts[k] = whole[start : start + prod(shape)].reshape(shape)
        start += prod(shape)
        if shape and program.func.results[k].dtype == "f64":
            into[k] = parts[k]
    found = program.run(sizes, values, False, into)
    for k, part in parts.items():
        if found[k] is not part:
            part[...] = found[k]
    return whole
