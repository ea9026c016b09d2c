"""LLVM intrinsics for generated code that numba lacks."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def select(typingctx: Any, guard: Any, then: Any, otherwise: Any) -> Any:
    """`then if guard else otherwise` without a branch: numba's passes are slow on branches, and LLVM
    vectorises a select. Both values are always computed."""
    kind = typingctx.unify_types(then, otherwise)
    if not isinstance(guard, types.Boolean) or not isinstance(kind, types.Number | types.Boolean):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        condition = context.cast(builder, args[0], signature.args[0], types.boolean)
        sides = [
            context.cast(builder, arg, given, signature.return_type)
            for arg, given in zip(args[1:], signature.args[1:], strict=True)
        ]
        return builder.select(condition, *sides)

    return kind(guard, then, otherwise), codegen


@intrinsic
def ticks(typingctx: Any) -> Any:
    """The processor's clock; operations with effects are not reordered across it."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), ())
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.readcyclecounter"), ())

    return types.int64(), codegen


@intrinsic
def fma(typingctx: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once, in the type common to the operands."""
    kind = typingctx.unify_types(x, y, z)
    if not isinstance(kind, types.Float):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        given = zip(args, signature.args, strict=True)
        return builder.fma(*(context.cast(builder, arg, was, signature.return_type) for arg, was in given))

    return kind(x, y, z), codegen


@intrinsic
def mul_rn(typingctx: Any, x: Any, y: Any) -> Any:
    """x * y, rounded before it is added to anything: LLVM contracts only products with the flag."""
    kind = typingctx.unify_types(x, y)
    if not isinstance(kind, types.Float):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        given = zip(args, signature.args, strict=True)
        return builder.fmul(*(context.cast(builder, arg, was, signature.return_type) for arg, was in given))

    return kind(x, y), codegen


@intrinsic
def rsqrt(typingctx: Any, x: Any) -> Any:
    """1 / sqrt(x)."""
    if not isinstance(x, types.Float):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        kind = args[0].type
        sqrt = ir.FunctionType(kind, (kind,))
        name = f"llvm.sqrt.f{x.bitwidth}"
        root = builder.call(cgutils.get_or_insert_function(builder.module, sqrt, name), args)
        return builder.fdiv(ir.Constant(kind, 1.0), root)

    return x(x), codegen


@intrinsic
def reduce_add(typingctx: Any, total: Any, value: Any) -> Any:
    """`total + value` as a step of a reduction that LLVM may reassociate, so that it vectorises.

    Only this addition is marked: with the flag on whole functions, LLVM could cancel compensation terms
    written by the user.
    """
    if not (isinstance(total, types.Float) and isinstance(value, types.Float)):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        left = context.cast(builder, args[0], signature.args[0], signature.return_type)
        right = context.cast(builder, args[1], signature.args[1], signature.return_type)
        return builder.fadd(left, right, flags=("reassoc", "contract"))

    return total(total, value), codegen


def _extremum(name: str) -> Any:
    """The minimum or maximum of two floats, NaN if either is; LLVM can vectorise its reduction."""

    @intrinsic
    def reduce(typingctx: Any, total: Any, value: Any) -> Any:
        if not (isinstance(total, types.Float) and isinstance(value, types.Float)):
            return None

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            kind = context.get_value_type(signature.return_type)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(kind, (kind, kind)), f"llvm.{name}.f{total.bitwidth}"
            )
            value = context.cast(builder, args[1], signature.args[1], signature.return_type)
            return builder.call(function, (args[0], value))

        return total(total, value), codegen

    return reduce


reduce_min, reduce_max = _extremum("minimum"), _extremum("maximum")
