"""Reductions in the loop IR: what they start from, and one step of them."""

from __future__ import annotations

from math import inf

from adcompiler.codegen.writer import zero
from adcompiler.ir.nodes import Array, Reduce
from adcompiler.ir.types import Dtype, is_float
from adcompiler.loopir.nodes import Binary, Call, Expr, literal


def neutral(array: Array) -> Expr:
    """The value that a reduction starts from."""
    if not isinstance(array, Reduce) or array.op == "sum":
        return zero(array.dtype)
    if array.op == "prod":
        return _of(array.dtype, 1.0 if array.dtype == "f64" else 1)
    if not is_float(array.dtype):
        return Call("np.int64", (literal(-(2**63) if array.op == "max" else 2**63 - 1),))
    return _of(array.dtype, -inf if array.op == "max" else inf)


def _of(dtype: Dtype, value: float) -> Expr:
    return Call("np.float32", (literal(value),)) if dtype == "f32" else literal(value)


def update(array: Array, total: Expr, value: Expr, fixed: bool = False) -> Expr:
    """One step of a reduction; sums of floats may be reassociated by the vectoriser unless `fixed`."""
    assert isinstance(array, Reduce)
    if array.op == "sum":
        reassociated = is_float(array.dtype) and not fixed
        return Call("reduce_add", (total, value)) if reassociated else Binary("+", total, value)
    if array.op == "prod":
        return Binary("*", total, value)
    return Call(f"{'reduce_' if is_float(array.dtype) else ''}{array.op}", (total, value))
