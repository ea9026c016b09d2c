"""One joint program from inputs and cotangents to gradients: reverse mode that saves nothing."""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.ad.vjp import vjp
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Func, Input, Read, Reduce, identity


def pullback(
    func: Func, wanted: Sequence[int], present: Sequence[bool], totals: Sequence[int] = ()
) -> tuple[Func, tuple[bool, ...]]:
    """The program of the gradients of the inputs `wanted`; it takes the cotangents of the results that have
    one `present` behind its inputs.

    Of the inputs `totals` it has the sum of the gradient's elements. A gradient that is known to be zero is
    no result: the second value says for each of `wanted` whether it is one.
    """
    given = [r for r, here in zip(func.results, present, strict=True) if here]
    inputs = [Input(len(func.inputs) + k, r.dtype, r.shape) for k, r in enumerate(given)]
    remaining = iter(inputs)
    cotangents = [next(remaining) if here else None for here in present]
    found = vjp(func.results, cotangents, [func.inputs[k] for k in wanted])
    pairs = [(k, g) for k, g in zip(wanted, found, strict=True) if g is not None]
    labels = [f"d{n}" for n, here in zip(func.result_names, present, strict=True) if here]
    names = distinct((*func.input_names, *labels))
    made = func.with_(
        name=f"{func.name}.backward",
        inputs=(*func.inputs, *inputs),
        input_names=names,
        results=tuple(_total(g) if k in totals else g for k, g in pairs),
        result_names=distinct([f"d{func.input_names[k]}" for k, _ in pairs], names),
    )
    return made, tuple(g is not None for g in found)


def _total(array: Array) -> Array:
    """The sum of all elements."""
    return Reduce("sum", (), array.shape, Read(array, identity(array.shape))) if array.rank else array
