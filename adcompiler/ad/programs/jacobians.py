"""Jacobians and Hessians as programs: all directions at once, as leading axes of one program.

A direction is a one-hot tangent (or cotangent): a Kronecker delta between the direction's axes and
the array's own. A sum against a delta is contracted away (passes/arrays/contract.py), so that a diagonal
Jacobian costs only as much as its entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from adcompiler.ad.guards import TRUE
from adcompiler.ad.jvp import jvp
from adcompiler.ad.partials import delta
from adcompiler.ad.vjp import vjp
from adcompiler.ir.batch import batch, moved, spread
from adcompiler.ir.nodes import (
    Array,
    Element,
    Func,
    Index,
    Input,
    Map,
    Read,
    Shape,
    const,
    element_of,
    identity,
    zeros_like,
)
from adcompiler.ir.types import Dtype
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply
from adcompiler.ops.costs import Length

Blocks = list[list[Array]]  # [output][input], each shaped output.shape + input.shape


def jacobian(func: Func, wanted: Sequence[int], length: Length) -> Blocks:
    """The derivative of each result with respect to each wanted input."""
    inputs = [func.inputs[k] for k in wanted]
    if forward_is_cheaper(func.results, inputs, length):
        return forward_jacobian(func, inputs)
    return [_reverse_row(func, k, inputs) for k in range(len(func.results))]


def forward_is_cheaper(results: Sequence[Array], inputs: Sequence[Array], length: Length) -> bool:
    """Whether there are no more directions, one per input entry, than cotangents, one per output entry."""
    directions, cotangents = (sum(prod(map(length, a.shape)) for a in part) for part in (inputs, results))
    return directions <= cotangents


def forward_jacobian(func: Func, inputs: Sequence[Input]) -> Blocks:
    """By forward mode: scalar inputs share one axis of directions, each array has its own axes."""
    scalars = [i for i in inputs if not i.rank]
    columns: dict[Array, list[Array]] = {}
    if scalars:
        count = (const(len(scalars), "i64"),)
        seeds = {
            s: Map(count, delta(const(1, s.dtype), [(Index(0), const(k, "i64"))]))
            for k, s in enumerate(scalars)
        }
        found = pushed(func, seeds, count)
        for k, s in enumerate(scalars):
            columns[s] = [Map(a.shape[1:], _row(a, const(k, "i64"))) for a in found]
    for i in inputs:
        if i.rank:
            found = pushed(func, {i: _one_hot(i.shape, i.dtype)}, i.shape)
            columns[i] = [moved(a, i.rank, a.rank - i.rank) for a in found]
    return [[columns[i][k] for i in inputs] for k in range(len(func.results))]


def pushed(func: Func, seeds: Mapping[Input, Array], axes: Shape, guarded: bool = False) -> list[Array]:
    """The tangents of the results for batched tangents `seeds`, with the leading axes `axes`.

    If `guarded`, a zero seed is not multiplied by anything, such as an infinite derivative.
    """
    tangents: dict[Array, Array] = {i: Input(-1 - k, i.dtype, i.shape) for k, i in enumerate(seeds)}
    made = jvp(func.results, tangents, {i: _nonzero(t) for i, t in tangents.items()} if guarded else None)
    live = [p if p is not None else zeros_like(r) for p, r in zip(made, func.results, strict=True)]
    found = batch(live, {tangents[i]: seed for i, seed in seeds.items()}, axes)
    return [spread(a, axes) if a is p else a for a, p in zip(found, live, strict=True)]


def _reverse_row(func: Func, k: int, inputs: Sequence[Input]) -> list[Array]:
    """The derivatives of one result, by reverse mode."""
    result = func.results[k]
    return pulled(func, {k: _one_hot(result.shape, result.dtype)}, inputs, result.shape)


def pulled(
    func: Func, seeds: Mapping[int, Array], inputs: Sequence[Input], axes: Shape, guarded: bool = False
) -> list[Array]:
    """The cotangents of `inputs` for batched cotangents `seeds` of some results; see `pushed`."""
    results = func.results
    own = {k: Input(-1 - k, results[k].dtype, results[k].shape) for k in seeds}
    guards = [_nonzero(own[k]) if guarded and k in own else TRUE for k in range(len(results))]
    made = vjp(results, [own.get(k) for k in range(len(results))], inputs, guards)
    live = [p if p is not None else zeros_like(i) for p, i in zip(made, inputs, strict=True)]
    found = batch(live, {own[k]: seed for k, seed in seeds.items()}, axes)
    return [spread(a, axes) if a is p else a for a, p in zip(found, live, strict=True)]


def _nonzero(seed: Array) -> Element:
    return apply("not_equal", element_of(seed), const(0, seed.dtype))


def _one_hot(shape: Shape, dtype: Dtype) -> Array:
    """delta[a, b] over shape + shape."""
    at, rank = identity(shape + shape), len(shape)
    return Map(shape + shape, delta(const(1, dtype), zip(at[:rank], at[rank:], strict=True)))


def _row(array: Array, k: Element) -> Element:
    """Row `k` of an array, over its other axes."""
    rest = tuple(substitute(i, {a: Index(a - 1) for a in i.axes}) for i in identity(array.shape)[1:])
    return Read(array, (k, *rest))
