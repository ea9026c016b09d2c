"""Cumulative functions along an axis: `cumsum`, `cumprod`, `cummax`, `cummin` and `logcumsumexp`, each a loop
over the axis that collects its carried value."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from adcompiler.errors import Span
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin, known_integer
from adcompiler.frontend.values.open_axes import open_axes
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import ZERO
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.bodies import Body, Carried, build, fresh
from adcompiler.ir.nodes import Array, Element, Index, Map, Read, closed, const, identity
from adcompiler.ir.types import NUMPY, Dtype, as_float, is_float
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply, cast

STEPS = {"cumsum": "add", "cumprod": "multiply", "cummax": "maximum", "cummin": "minimum",
         "logcumsumexp": "logaddexp"}  # fmt: skip


def _start(name: str, dtype: Dtype) -> float | int:
    """The initial value of a running total."""
    if name in ("cumsum", "cumprod"):
        return int(name == "cumprod")
    sign = 1 if name == "cummin" else -1
    if is_float(dtype):
        return sign * float("inf")
    return int(np.iinfo(NUMPY[dtype]).min if sign < 0 else np.iinfo(NUMPY[dtype]).max)


def running(context: Context, name: str, x: AnyValue, axis: AnyValue, span: Span) -> Value:
    """The cumulative totals along an axis; without one, of all elements in row-major order."""
    value = rearranging.array(context, name, x, span)
    if axis is None and value.rank != 1:
        value, axis = rearranging.reshape(context, value, (-1,), span), 0
    (along,) = context.normalise((known_integer(context, "axis", axis, 0, span),), value.rank, span)
    if name == "logcumsumexp" and not is_float(value.dtype):
        value = Value(value.shape, cast(value.element, as_float(value.dtype)), value.weak)
    if value.dtype == "bool":
        counted = running(
            context, name, Value(value.shape, cast(value.element, "i64"), value.weak), along, span
        )
        truth = name in ("cummax", "cummin")
        return Value(counted.shape, cast(counted.element, "bool"), value.weak) if truth else counted
    if unit(context.sizes.find(value.shape[along])):
        return value
    return _scanned(context, name, value, along, span)


def _scanned(context: Context, name: str, value: Value, along: int, span: Span) -> Value:
    """The loop over the axis `along`; open axes follow it, like the value's other axes."""
    lead = open_axes(value.element)
    rest = [k for k in range(value.rank) if k != along]
    order = [along, *lead, *rest]
    lengths = [context.binders.lengths[k] if k < 0 else value.shape[k] for k in order]
    places: dict[int, Element] = {k: Index(p) for p, k in enumerate(order)}
    rows = closed(tuple(lengths), substitute(value.element, places))
    total = _total(name, rows)
    context.place(total, span)
    back = [Index(k) for k in order]
    read = tuple(ZERO if unit(n) else i for i, n in zip(back, lengths, strict=True))
    return Value(value.shape, Read(total, read), value.weak)


def _total(name: str, rows: Array) -> Array:
    """The running totals of the rows of an array."""
    shape, dtype = rows.shape[1:], rows.dtype
    carried, row = fresh(dtype, shape), fresh(dtype, shape)
    at = identity(shape)
    result = Map(shape, apply(STEPS[name], Read(carried, at), Read(row, at)))
    start = Map(shape, const(_start(name, dtype), dtype))
    body = Body(
        rows.shape[0], fresh("i64", ()), (Carried(start, carried, result),), ((rows, row),), (result,)
    )
    return build(body).outs[0]


def _builtin(name: str) -> Builtin:
    def operation(context: Context, x: AnyValue, axis: AnyValue, span: Span) -> Value:
        return running(context, name, x, axis, span)

    return builtin(name, ("x", "axis"), operation, 1)


RUNNING: Mapping[str, Builtin] = {name: _builtin(name) for name in STEPS}
