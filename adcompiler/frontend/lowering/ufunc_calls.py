"""Calls of universal functions: the body takes the last axes of each argument, and is mapped over the others.

The call is written in the language: a comprehension over the leading axes, which broadcast as in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adcompiler.errors import ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import array
from adcompiler.frontend.values.values import AnyValue, Closure, Value
from adcompiler.ir.nodes import Shape, const, is_const


def mapped(context: Context, closure: Closure, args: Mapping[str, AnyValue], span: Span) -> AnyValue:
    """The value of a universal function: one array per result."""
    assert closure.core is not None
    values = [array(context, closure.name, a, span) for a in args.values()]
    leads = [_lead(context, closure, v, c, span) for v, c in zip(values, closure.core, strict=True)]
    shape = context.broadcast(closure.name, [Value(lead, const(0.0, "f64")) for lead in leads], span)
    alone = replace(closure, core=None)
    if not shape:
        return context.invoke(alone, list(args.values()), {}, span)
    scope: dict[str, AnyValue] = {f"argument {k}": v for k, v in enumerate(values)}
    scope |= {f"length {k}": Value((), n, weak=True) for k, n in enumerate(shape)} | {closure.name: alone}
    items = [_item(f"argument {k}", lead, len(shape), span) for k, lead in enumerate(leads)]
    call: tree.Expression = tree.Call(span, tree.Name(span, closure.name), tuple(items), ())
    if closure.results == 1:
        return context.expression(_over(shape, call, span), scope)
    parts = [tree.Subscript(span, call, (tree.Number(span, k),)) for k in range(closure.results)]
    return tuple(context.expression(_over(shape, part, span), scope) for part in parts)


def _lead(context: Context, closure: Closure, value: Value, core: int, span: Span) -> Shape:
    """The axes of an argument over which the body is mapped."""
    if value.rank < core:
        cause = f"{closure.name} takes arrays of rank {core} or more here, not {value.rank}"
        context.fail(ShapeError, cause, span, "pass an array with these axes")
    return value.shape[: value.rank - core]


def _item(name: str, lead: Shape, rank: int, span: Span) -> tree.Expression:
    """The part of an argument for one call of the body; an axis of length 1 is read at 0."""
    first = rank - len(lead)
    indices: Sequence[Any] = [
        tree.Number(span, 0) if is_const(n, 1) else tree.Name(span, f"index {first + k}")
        for k, n in enumerate(lead)
    ]
    array = tree.Name(span, name)
    return tree.Subscript(span, array, tuple(indices)) if indices else array


def _over(shape: Shape, inner: tree.Expression, span: Span) -> tree.Expression:
    """`[... [inner for j in range(m)] ... for i in range(n)]`; an axis of length 1 is a list of one."""
    for k in reversed(range(len(shape))):
        if is_const(shape[k], 1):
            inner = tree.Sequence(span, "list", (inner,))
            continue
        numbers = tree.Call(span, tree.Name(span, "range"), (tree.Name(span, f"length {k}"),), ())
        clause = tree.Clause(span, (f"index {k}",), numbers, ())
        inner = tree.Comprehension(span, "list", inner, (clause,))
    return inner
