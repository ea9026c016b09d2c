"""Order: `sort`, `argsort` and `searchsorted`.

A library routine finds the order, which has no derivative, and elements are gathered in that order. So
derivatives go to the elements at the gathered places. Equal elements keep their order, as in NumPy's stable
sort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.indexing.subscripts import subscript
from adcompiler.frontend.library.moving import flat_or_along, replaced
from adcompiler.frontend.linalg.solving import called
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin, builtins
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.rearranging import ZERO
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.slices import ALL
from adcompiler.frontend.values.values import AnyValue, Value, describe
from adcompiler.ir.nodes import Element, Index, closed, const
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply, cast
from adcompiler.ops.library import FOUR, call

EXACT = 2**53  # integers up to this are exact doubles


def _keys(context: Context, name: str, x: Value, span: Span) -> Value:
    """The sort keys as doubles, which represent all floats and integers up to 2**53."""
    if x.dtype == "i64" and not x.weak:
        size = apply("abs", x.element)
        known = apply("less_equal", size, const(EXACT, "i64"))
        context.binders.check(
            known, x.shape, f"{name} of an integer beyond 2**53", "divide first, or use floats", span
        )
    return Value(x.shape, cast(x.element, "f64"))


def _stored(context: Context, x: Value) -> Value:
    """The value as a separate array, since it is read again in another order."""
    return Value(x.shape, context.binders.enclose(closed, x.shape, x.element), x.weak)


def _order(context: Context, name: str, x: Value, axis: int, span: Span) -> Element:
    """The place along an axis of each element of the sorted array."""
    if unit(context.sizes.find(x.shape[axis])):
        return ZERO
    order = (*(k for k in range(x.rank) if k != axis), axis)
    rows = rearranging.transpose(context, _keys(context, name, x, span), order, span)
    matrix = subscript(context, rows, [ALL] * (x.rank - 1) + [None], span)
    found = called(context, (matrix,), lambda a: call("argsort", a), (FOUR, rows.shape[-1]), span)
    back: dict[int, Element] = {k: rearranging.own_index(x.shape[a], a) for k, a in enumerate(order[:-1])}
    back |= {x.rank - 1: ZERO, x.rank: Index(axis)}
    return cast(substitute(found.element, back), "i64")


def _sorted(context: Context, name: str, x: Value, axis: int, span: Span) -> Value:
    x = _stored(context, x)
    return replaced(x, axis, x.shape[axis], _order(context, name, x, axis, span))


def sort(context: Context, x: AnyValue, axis: AnyValue, span: Span) -> Value:
    """The elements in ascending order along an axis; NaN comes last."""
    value, along = _last_or(context, "sort", x, axis, span)
    return _sorted(context, "sort", value, along, span)


def argsort(context: Context, x: AnyValue, axis: AnyValue, span: Span) -> Value:
    """The indices of the elements in ascending order along an axis; equal ones keep their order."""
    value, along = _last_or(context, "argsort", x, axis, span)
    return Value(value.shape, _order(context, "argsort", value, along, span))


def _last_or(context: Context, name: str, x: AnyValue, axis: AnyValue, span: Span) -> tuple[Value, int]:
    value = rearranging.array(context, name, x, span)
    if not value.rank:
        context.fail(ShapeError, f"{name} of a scalar", span, f"{name} takes an array of rank 1 or more")
    return flat_or_along(context, value, axis, span)


def _along_last(name: str, operation: Callable[..., AnyValue]) -> Builtin:
    """A builtin of an array and an axis: the last one by default, and all elements for None."""
    inner = builtin(name, ("x", "axis"), operation, 1)

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        given = len(args) > 1 or "axis" in keywords or not args
        return inner(context, args, keywords if given else {**keywords, "axis": -1}, span)

    return call


# -- tables --------------------------------------------------------------------------------------------


def _found(context: Context, name: str, a: Value, v: Value, side: str, span: Span) -> Value:
    """The insertion points of `v` in a sorted vector."""
    row = subscript(context, _table(context, name, a, span), [None, ALL], span)
    points = subscript(
        context, Value(v.shape, cast(v.element, "f64"), False), [ALL] * v.rank + [None, None], span
    )
    row = Value(row.shape, cast(row.element, "f64"))
    found = called(context, (row, points), lambda a, v: call(f"search_{side}", a, v), (ONE, ONE), span)
    places = [*(rearranging.own_index(n, k) for k, n in enumerate(v.shape)), ZERO, ZERO]
    return Value(v.shape, cast(substitute(found.element, dict(enumerate(places))), "i64"))


def _table(context: Context, name: str, a: Value, span: Span) -> Value:
    if a.rank != 1:
        context.fail(ShapeError, f"{name}: the sorted array is {describe(a)}", span, "pass a vector")
    return a


def searchsorted(context: Context, a: AnyValue, v: AnyValue, side: AnyValue, span: Span) -> Value:
    """The insertion points of elements in a sorted vector: before equal ones, or after them."""
    if side not in (None, "left", "right"):
        context.fail(ParseError, f"searchsorted has no side {side!r}", span, 'write side="left" or "right"')
    table, points = (rearranging.array(context, "searchsorted", x, span) for x in (a, v))
    return _found(context, "searchsorted", table, points, side or "left", span)


SORTING: Mapping[str, Builtin] = builtins({"searchsorted": (("a", "v", "side"), searchsorted, 1)}) | {
    name: _along_last(name, operation) for name, operation in (("sort", sort), ("argsort", argsort))
}
