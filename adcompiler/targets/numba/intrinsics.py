"""LLVM intrinsics for generated code that numba lacks."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _converted(context: Any, builder: ir.IRBuilder, signature: Any, args: Any, first: int = 0) -> list[Any]:
    """The arguments of a call, from the first one to convert on, in the type of its result."""
    given = zip(args[first:], signature.args[first:], strict=True)
    return [context.cast(builder, arg, was, signature.return_type) for arg, was in given]


def _called(builder: ir.IRBuilder, name: str, kind: Any, args: Any) -> Any:
    """A call of an LLVM function that takes numbers of the type that it returns."""
    function = ir.FunctionType(kind, (kind,) * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), args)


@intrinsic
def select(typingctx: Any, guard: Any, then: Any, otherwise: Any) -> Any:
    """`then if guard else otherwise` without a branch: numba's passes are slow on branches, and LLVM
    vectorises a select. Both values are always computed."""
    kind = typingctx.unify_types(then, otherwise)
    if not isinstance(guard, types.Boolean) or not isinstance(kind, types.Number | types.Boolean):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        condition = context.cast(builder, args[0], signature.args[0], types.boolean)
        return builder.select(condition, *_converted(context, builder, signature, args, 1))

    return kind(guard, then, otherwise), codegen


@intrinsic
def ticks(typingctx: Any) -> Any:
    """The processor's clock; operations with effects are not reordered across it."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return _called(builder, "llvm.readcyclecounter", ir.IntType(64), ())

    return types.int64(), codegen


@intrinsic
def fma(typingctx: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once, in the type common to the operands."""
    kind = typingctx.unify_types(x, y, z)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.fma(*_converted(context, builder, signature, args))

    return (kind(x, y, z), codegen) if isinstance(kind, types.Float) else None


@intrinsic
def mul_rn(typingctx: Any, x: Any, y: Any) -> Any:
    """x * y, rounded before it is added to anything: LLVM contracts only products with the flag."""
    kind = typingctx.unify_types(x, y)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.fmul(*_converted(context, builder, signature, args))

    return (kind(x, y), codegen) if isinstance(kind, types.Float) else None


@intrinsic
def rsqrt(typingctx: Any, x: Any) -> Any:
    """1 / sqrt(x)."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        kind = args[0].type
        root = _called(builder, f"llvm.sqrt.f{x.bitwidth}", kind, args)
        return builder.fdiv(ir.Constant(kind, 1.0), root)

    return (x(x), codegen) if isinstance(x, types.Float) else None


@intrinsic
def reduce_add(typingctx: Any, total: Any, value: Any) -> Any:
    """`total + value` as a step of a reduction that LLVM may reassociate, so that it vectorises.

    Only this addition is marked: with the flag on whole functions, LLVM could cancel compensation terms
    written by the user.
    """

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.fadd(*_converted(context, builder, signature, args), flags=("reassoc", "contract"))

    return (total(total, value), codegen) if _are_floats(total, value) else None


def _extremum(name: str) -> Any:
    """The minimum or maximum of two floats, NaN if either is; LLVM can vectorise its reduction."""

    @intrinsic
    def reduce(typingctx: Any, total: Any, value: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            kind = context.get_value_type(signature.return_type)
            sides = _converted(context, builder, signature, args)
            return _called(builder, f"llvm.{name}.f{total.bitwidth}", kind, sides)

        return (total(total, value), codegen) if _are_floats(total, value) else None

    return reduce


def _are_floats(*kinds: Any) -> bool:
    return all(isinstance(kind, types.Float) for kind in kinds)


reduce_min, reduce_max = _extremum("minimum"), _extremum("maximum")
