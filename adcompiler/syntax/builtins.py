"""The functions and constants that every program knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from adcompiler.errors import DtypeError, ParseError, Span
from adcompiler.ops.table import ALIASES, TABLE
from adcompiler.syntax.context import Context
from adcompiler.syntax.values import AnyValue, Value, describe, is_number

Builtin = Callable[[Context, list[Any], dict[str, Any], Span], AnyValue]

PREFIXES = frozenset(("np", "numpy", "math"))
CONSTANTS: Mapping[str, float | bool | None] = MappingProxyType(
    {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "True": True, "False": False, "None": None}
)


def bind_arguments(
    context: Context,
    name: str,
    params: tuple[str, ...],
    args: list[Any],
    keywords: dict[str, Any],
    span: Span,
    optional: int = 0,
) -> list[Any]:
    """Arguments of a builtin in the order of its parameters; optional ones left out are None."""
    bound = dict(zip(params, args, strict=False))
    required = params[: len(params) - optional]
    bad = [k for k in keywords if k not in params or k in bound]
    missing = [p for p in required if p not in bound and p not in keywords]
    if len(args) > len(params) or bad or missing:
        shown = ", ".join((*required, *(f"{p}=" for p in params[len(required) :])))
        why = f"it has no argument {bad[0]!r}" if bad else f"missing: {', '.join(missing)}"
        remedy = why if bad or missing else f"it is given {len(args)}"
        context.fail(ParseError, f"{name} takes ({shown})", span, remedy)
    bound |= keywords
    return [bound.get(p) for p in params]


def _elementwise(op: str, name: str) -> Builtin:
    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        bound = bind_arguments(context, name, TABLE[op].params, args, keywords, span)
        return context.elementwise(op, bound, span)

    return call


def _where(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    guard, x, y = bind_arguments(context, "where", ("condition", "x", "y"), args, keywords, span)
    return context.where(guard, x, y, span)


def _extremum(op: str) -> Builtin:
    """`max(a, b, ...)` of two values or more, elementwise."""

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        if len(args) < 2 or keywords:
            context.fail(ParseError, f"{op[:3]} takes two values or more here", span)
        result = args[0]
        for arg in args[1:]:
            result = context.elementwise(op, (result, arg), span)
        return result

    return call


def _sum(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    x, axis, keepdims = bind_arguments(
        context, "sum", ("x", "axis", "keepdims"), args, keywords, span, optional=2
    )
    if not (isinstance(x, Value) or is_number(x)):
        context.fail(DtypeError, f"sum takes an array, not {describe(x)}", span)
    if isinstance(keepdims, Value):
        context.fail(ParseError, "keepdims must be True or False", span, "write keepdims=True")
    return context.reduce("sum", x, _axes(context, axis, span), bool(keepdims), span)


def _axes(context: Context, axis: AnyValue, span: Span) -> tuple[int, ...] | None:
    axes = axis if isinstance(axis, tuple) else (axis,)
    if axis is None:
        return None
    for one in axes:
        if not isinstance(one, int) or isinstance(one, bool):
            context.fail(ParseError, "axis must be an integer known while compiling", span, "write axis=0")
    return axes


def _len(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    (x,) = bind_arguments(context, "len", ("x",), args, keywords, span)
    if isinstance(x, tuple):
        return len(x)
    if not isinstance(x, Value) or not x.rank:
        context.fail(DtypeError, f"len of {describe(x)}", span, "len takes an array of rank 1 or more")
    return Value((), context.sizes.find(x.shape[0]), weak=True)


BUILTINS: Mapping[str, Builtin] = MappingProxyType(
    {name: _elementwise(name, name) for name in TABLE}
    | {alias: _elementwise(name, alias) for alias, name in ALIASES.items()}
    | {"where": _where, "sum": _sum, "max": _extremum("maximum"), "min": _extremum("minimum"), "len": _len}
)
