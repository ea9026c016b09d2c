"""The contribution of each case of a batch to the gradient of an argument that all cases share.

An argument is broadcast over the axes of the result that it lacks, or in which it has length 1. Its gradient
is a sum over exactly these axes. Here the terms of that sum are kept, along leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.ad.partials import delta
from adcompiler.ad.programs.jacobians import pulled
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Func, Input, Map, Read, Shape, identity, is_const


def shared_axes(shape: Shape, batch_shape: Shape) -> tuple[int, ...] | None:
    """The axes of a batch over which an array is broadcast; None if it does not fit the batch."""
    new = len(batch_shape) - len(shape)
    if new < 0:
        return None
    found = list(range(new))
    for axis, n in enumerate(shape, new):
        if n is batch_shape[axis]:
            continue
        if not is_const(n, 1):
            return None
        found.append(axis)
    return tuple(found)


def contributions(func: Func, k: int, axes: Sequence[int]) -> Func:
    """The program of the contributions to the gradient of input `k` along the `axes` of the one result.

    It takes a cotangent of the result as well. The contributions have those axes as leading axes.
    """
    (result,), target = func.results, func.inputs[k]
    cotangent = Input(len(func.inputs), result.dtype, result.shape)
    lead = tuple(result.shape[axis] for axis in axes)
    made = pulled(func, {0: _one_case(cotangent, lead, axes)}, [target], lead)
    name = func.input_names[k]
    return func.with_(
        name=f"{func.name}.contributions",
        inputs=(*func.inputs, cotangent),
        input_names=distinct((*func.input_names, f"d{func.result_names[0]}")),
        results=tuple(made),
        result_names=distinct((f"d{name}",), (*func.input_names, f"d{func.result_names[0]}")),
    )


def _one_case(cotangent: Input, lead: Shape, axes: Sequence[int]) -> Array:
    """The cotangent where the leading axes equal the result's own `axes`, zero elsewhere."""
    at = identity(lead + cotangent.shape)
    own = at[len(lead) :]
    pairs = ((at[case], own[axis]) for case, axis in enumerate(axes))
    return Map(lead + cotangent.shape, delta(Read(cotangent, own), pairs))
