"""Reductions in the loop IR: what they start from, and one step of them."""

from __future__ import annotations

from adcompiler.ir import nodes
from adcompiler.ir.nodes import Array, Reduce
from adcompiler.ir.types import is_float
from adcompiler.kernels.emit.writer import constant
from adcompiler.loopir.nodes import Binary, Call, Expr


def neutral(array: Array) -> Expr:
    """The value that a reduction, or a scatter, starts from."""
    op = array.op if isinstance(array, Reduce) else "sum"
    return constant(nodes.neutral(op, array.dtype))


def update(array: Array, total: Expr, value: Expr, fixed: bool = False) -> Expr:
    """One step of a reduction; sums of floats may be reassociated by the vectoriser unless `fixed`."""
    assert isinstance(array, Reduce)
    if array.op == "sum":
        reassociated = is_float(array.dtype) and not fixed
        return Call("reduce_add", (total, value)) if reassociated else Binary("+", total, value)
    if array.op == "prod":
        return Binary("*", total, value)
    return Call(f"{'reduce_' if is_float(array.dtype) else ''}{array.op}", (total, value))
