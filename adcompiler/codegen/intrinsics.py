"""What generated code needs of LLVM beyond numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def reduce_add(typingctx: Any, total: Any, value: Any) -> Any:
    """`total + value` as a step of a reduction whose order LLVM may change, so that it vectorises.

    Only this addition is marked: the flag on whole functions would let LLVM cancel what the user wrote
    to compensate for rounding.
    """
    if not (isinstance(total, types.Float) and isinstance(value, types.Float)):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        left = context.cast(builder, args[0], signature.args[0], signature.return_type)
        right = context.cast(builder, args[1], signature.args[1], signature.return_type)
        return builder.fadd(left, right, flags=("reassoc",))

    return total(total, value), codegen
