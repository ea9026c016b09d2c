"""Calls of definitions with a derivative of the user's own.

The rule is lowered on placeholders for the arguments, the result and its cotangent, and closed over them
(ir/ruled.py). What is open in axes of comprehensions has these axes first in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adcompiler.errors import DtypeError, ParseError, ShapeError, Span
from adcompiler.ir.bodies import Replace, fresh
from adcompiler.ir.nodes import Array, Index, Map, Read, Shape, const, identity
from adcompiler.ir.ruled import Ruled, slots_of
from adcompiler.ir.types import Dtype, is_float
from adcompiler.syntax.binders import open_axes
from adcompiler.syntax.context import Context
from adcompiler.syntax.derivatives import fitting, whole_of
from adcompiler.syntax.values import AnyValue, Closure, Value, as_array, describe, is_number


def ruled(context: Context, closure: Closure, args: Sequence[AnyValue], span: Span) -> AnyValue:
    """The value of a definition on these arguments, with its rule."""
    assert closure.rule is not None
    args = [as_array(a) for a in args]
    value = as_array(context.invoke(replace(closure, rule=None), list(args), {}, span))
    if is_number(value):
        return value
    if not isinstance(value, Value) or not is_float(value.dtype):
        cause = f"{closure.name}, which has a rule, returns {describe(value)}"
        context.fail(DtypeError, cause, span, "return one float array, or a scalar")
    moving = [k for k, a in enumerate(args) if isinstance(a, Value)]
    given = [args[k] for k in moving]
    axes = sorted({a for v in (value, *given) for a in open_axes(v.element)}, reverse=True)
    lead = tuple(context.binders.lengths[a] for a in axes)

    def place(kind: Value) -> tuple[Array, Value]:
        array = fresh(kind.dtype, lead + kind.shape)
        read = Read(array, tuple(Index(a) for a in axes) + identity(kind.shape))
        return array, Value(kind.shape, read, kind.weak)

    places = [place(v) for v in (*given, value, value)]
    inner, start = list(args), len(context.binders.checks)
    for k, (_, stands) in zip(moving, places, strict=False):
        inner[k] = stands
    found = context.invoke(closure.rule, [*inner, *(stands for _, stands in places[-2:])], {}, span)
    pulled = _cotangents(context, closure, found, args, span)
    arrays = tuple(whole_of(context, v, axes) for v in given)
    whole = whole_of(context, value, axes)
    slots = dict(zip((array for array, _ in places), slots_of(whole, arrays), strict=True))
    roots = [
        _zeros(a.dtype, a.shape) if (p := pulled[k]) is None else whole_of(context, p, axes)
        for k, a in zip(moving, arrays, strict=True)
    ]
    made = Ruled(whole, arrays, Replace(dict[Array, Array](slots)).run(roots))
    actual = Replace(dict(zip((array for array, _ in places), (*arrays, made, made), strict=True)))
    checks = context.binders.checks
    checks[start:] = [replace(c, holds=actual.run((c.holds,))[0]) for c in checks[start:]]
    return Value(value.shape, Read(made, tuple(Index(a) for a in axes) + identity(value.shape)), value.weak)


def _zeros(dtype: Dtype, shape: Shape) -> Array:
    return Map(shape, const(0, dtype))


def _cotangents(
    context: Context, closure: Closure, found: AnyValue, args: Sequence[AnyValue], span: Span
) -> list[Value | None]:
    """What a rule returns, one for each argument: None where that is no float array."""
    found = as_array(found)
    listed = list(found) if isinstance(found, tuple) else [found]
    names = [p.name for p in closure.definition.parameters]
    if len(listed) != len(names):
        cause = f"the rule of {closure.name} returns {len(listed)} cotangents"
        context.fail(ParseError, cause, span, f"return one for each of {', '.join(names)}: None for no float")
    made: list[Value | None] = []
    for name, arg, cotangent in zip(names, args, map(as_array, listed), strict=True):
        if not isinstance(arg, Value) or not is_float(arg.dtype) or cotangent is None:
            made.append(None)
            continue
        if is_number(cotangent):
            cotangent = Value((), const(float(cotangent), arg.dtype), weak=True)
        if not isinstance(cotangent, Value) or cotangent.rank != arg.rank:
            cause = f"the rule of {closure.name} gives {describe(cotangent)} for {name}, {describe(arg)}"
            context.fail(ShapeError, cause, span, "a cotangent has its argument's shape")
        made.append(fitting(context, arg, cotangent, span))
    return made
