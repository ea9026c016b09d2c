"""The accumulators "push" and "first": what each entry of the result contributes to a gradient, apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.ad.programs.contributions import contributions, shared_axes
from adcompiler.api.pairs.styles import Differentiable
from adcompiler.errors import ShapeError
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.sizes import with_inputs
from adcompiler.ir.types import NUMPY
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.arguments.adapters import as_numpy
from adcompiler.runtime.arguments.masked import refuse_masked
from adcompiler.runtime.programs.specialise import Specialisation


def program(f: Differentiable, lowered: Lowered, path: str, number: int) -> Specialisation:
    """The program of the contributions to the gradient of one input of `f`, which is called `path`."""
    func = lowered.func
    if len(func.results) != 1:
        raise ShapeError(
            f'{f.__name__} has {len(func.results)} results: "push" and "first" need one',
            remedy='use the accumulator "sum"',
        )
    axes = shared_axes(func.inputs[number].shape, func.results[0].shape)
    if axes is None:
        raise ShapeError(
            f'{path} is not broadcast to the result of {f.__name__}: "push" and "first" gather what '
            "each entry of the result contributes",
            remedy='use the accumulator "sum"',
        )
    made = run(SIMPLIFY, contributions(func, number, axes))
    return Specialisation(Lowered(made, with_inputs(lowered.constraints, func, made), None), f.backend)


def contributed(
    compiled: Specialisation, number: int, values: Sequence[Any], plain: bool, cotangent: Any
) -> list[Any]:
    """The contributions to the gradient of one input, in the order of the result's axes."""
    result = compiled.func.inputs[-1]
    refuse_masked("the cotangent", cotangent)
    seed = np.asarray(as_numpy("the cotangent", cotangent))
    if seed.dtype.kind not in "biuf" or seed.ndim != result.rank:
        raise ShapeError(
            f"the cotangent is {seed.dtype} of shape {seed.shape}, the result has rank {result.rank}",
            remedy="a cotangent has its result's shape and is real",
        )
    seed = seed.astype(NUMPY[result.dtype])
    found = np.asarray(compiled([*values, seed if seed.ndim else seed[()]], plain)[0])
    shape = np.shape(values[number])
    count = int(np.prod(found.shape[: found.ndim - len(shape)]))
    each = list(found.reshape(count, *shape))
    return [float(c) for c in each] if plain else each
