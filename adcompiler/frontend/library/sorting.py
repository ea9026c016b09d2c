"""Order: `sort`, `argsort`, `median`, `quantile`, `searchsorted` and `interp`.

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
from adcompiler.frontend.library.statistics import flag
from adcompiler.frontend.linalg.solving import called
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin, builtins
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.rearranging import ZERO, combine
from adcompiler.frontend.values.reductions import axes_of
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.slices import ALL
from adcompiler.frontend.values.values import AnyValue, Value, describe
from adcompiler.ir.nodes import Element, Index, closed, const, is_const
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply, cast
from adcompiler.ops.library import FOUR, call

EXACT = 2**53  # integers up to this are exact doubles
METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


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


# -- places in the order -------------------------------------------------------------------------------


def _at(x: Value, axis: int, place: Value) -> Value:
    """Sorted elements at places: the axes of `place` come first, and the axis has length 1."""
    lead = place.rank
    places = [rearranging.own_index(n, k + lead) for k, n in enumerate(x.shape)]
    places[axis] = ZERO if unit(x.shape[axis]) else place.element
    shape = (*place.shape, *x.shape[:axis], ONE, *x.shape[axis + 1 :])
    return rearranging.moved(x, shape, places)


def _reduced(
    context: Context, name: str, x: AnyValue, axis: AnyValue, keepdims: AnyValue,
    of: Callable[[Value, int], AnyValue], span: Span,
) -> AnyValue:  # fmt: skip
    """Apply `of` to sorted elements along an axis, which then has length 1; NaN if there is any."""
    given, keeps = rearranging.array(context, name, x, span), flag(context, "keepdims", keepdims, span)
    axes = axes_of(context, axis, span)
    if axes is not None and len(axes) != 1:
        context.fail(ParseError, f"{name} takes one axis", span, "write axis=0, or reshape before")
    value, along = flat_or_along(context, given, axis, span)
    floats = context.elementwise("multiply", (value, 1.0), span)
    ordered = _sorted(context, name, floats, along, span)
    last = combine("maximum", combine("subtract", context.sizes.find(ordered.shape[along]), ONE), ZERO)
    greatest = _at(ordered, along, Value((), last))
    found = of(ordered, along)
    found = context.where(context.elementwise("isnan", (greatest,), span), greatest, found, span)
    lead = found.rank - value.rank
    if keeps:
        lengths = (*found.shape[:lead], *((ONE,) * given.rank)) if axis is None else found.shape
        return Value(lengths, found.element, found.weak)
    gone = along + lead
    kept = [k for k in range(found.rank) if k != gone]
    shape = tuple(found.shape[k] for k in kept)
    places: list[Element] = [ZERO] * found.rank
    for p, k in enumerate(kept):
        places[k] = rearranging.own_index(found.shape[k], p)
    return rearranging.moved(found, shape, places)


def median(context: Context, x: AnyValue, axis: AnyValue, keepdims: AnyValue, span: Span) -> AnyValue:
    """The middle of the sorted elements, or the mean of the two middle ones."""

    def middle(x: Value, axis: int) -> AnyValue:
        n = context.sizes.find(x.shape[axis])
        low = combine("floor_divide", combine("subtract", n, ONE), rearranging.integer(2))
        high = combine("floor_divide", n, rearranging.integer(2))
        one, other = (_at(x, axis, Value((), at)) for at in (low, high))
        both = context.elementwise("divide", (context.elementwise("add", (one, other), span), 2.0), span)
        found = context.where(Value((), apply("equal", low, high)), one, both, span)
        return context.where(Value((), apply("equal", n, ZERO)), float("nan"), found, span)

    return _reduced(context, "median", x, axis, keepdims, middle, span)


def _quantile(name: str, whole: float) -> Callable[..., AnyValue]:
    """`quantile`, with q from 0 to 1, or `percentile`, with q from 0 to 100."""

    def operation(
        context: Context,
        x: AnyValue,
        q: AnyValue,
        axis: AnyValue,
        method: AnyValue,
        keepdims: AnyValue,
        span: Span,
    ) -> AnyValue:
        how = "linear" if method is None else method
        if how not in METHODS:
            context.fail(
                ParseError, f"{name} has no method {method!r}", span, f"there are {', '.join(METHODS)}"
            )
        share = rearranging.array(context, name, q, span)
        if share.rank > 1:
            context.fail(ShapeError, f"{name}: q is {describe(share)}", span, "pass a number or a vector")
        _within(context, name, share, whole, span)
        share = context.elementwise("divide", (share, whole), span)

        def between(x: Value, axis: int) -> AnyValue:
            return _between(context, x, axis, share, how, span)

        return _reduced(context, name, x, axis, keepdims, between, span)

    return operation


def _within(context: Context, name: str, share: Value, whole: float, span: Span) -> None:
    """Require that a fraction is between 0 and the whole."""
    least, most = (const(n, share.dtype) for n in (0, int(whole)))
    holds = apply(
        "logical_and", apply("less_equal", least, share.element), apply("less_equal", share.element, most)
    )
    cause, remedy = f"{name}: q is out of range", f"q must be between 0 and {whole:g}"
    context.binders.check(holds, share.shape, cause, remedy, span)


def _between(context: Context, x: Value, axis: int, share: Value, how: str, span: Span) -> AnyValue:
    """The value at a fraction of a sorted axis; the fraction's axes come first."""
    do = context.elementwise
    n = context.sizes.find(x.shape[axis])
    if not is_const(n):
        context.sizes.demand(n, ONE, "a quantile of an empty axis", span)
    last = Value((), combine("subtract", n, ONE), weak=True)
    place = do("multiply", (share, last), span)
    below = do("floor", (place,), span)
    part = do("subtract", (place, below), span)
    if how in ("nearest", "higher"):
        below, part = do("rint" if how == "nearest" else "ceil", (place,), span), 0.0
    elif how == "lower":
        part = 0.0
    elif how == "midpoint":
        part = context.where(do("greater", (part, 0), span), 0.5, 0.0, span)
    low = Value(share.shape, cast(below.element, "i64"))
    low = do("clip", (low, 0, last), span)
    one = _at(x, axis, low)
    if how in ("nearest", "higher", "lower"):
        return one
    other = _at(x, axis, do("minimum", (do("add", (low, 1), span), last), span))
    part = Value(share.shape + (ONE,) * x.rank, part.element, part.weak)
    rise = do("subtract", (other, one), span)
    up = do("add", (one, do("multiply", (rise, part), span)), span)
    down = do("subtract", (other, do("multiply", (rise, do("subtract", (1.0, part), span)), span)), span)
    return context.where(do("less", (part, 0.5), span), up, down, span)


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


def interp(
    context: Context, x: AnyValue, xp: AnyValue, fp: AnyValue, left: AnyValue, right: AnyValue, span: Span
) -> AnyValue:
    """The piecewise linear function through points with increasing `xp`; outside, `left` and `right`."""
    do = context.elementwise
    points, table, values = (rearranging.array(context, "interp", one, span) for one in (x, xp, fp))
    table, values = (_stored(context, _table(context, "interp", one, span)) for one in (table, values))
    what = "interp: the points and their values"
    if not context.sizes.merge(table.shape[0], values.shape[0], what, span, "pass a value for each point"):
        context.fail(ShapeError, f"{what} differ in length", span, "pass a value for each point")
    n = context.sizes.find(table.shape[0])
    if not is_const(n):
        context.sizes.demand(n, ONE, "interp without points", span)
    final = Value((), combine("subtract", n, ONE), weak=True)
    behind = _found(context, "interp", table, points, "right", span)
    low = do("maximum", (do("minimum", (behind, final), span), 1), span)
    low = do("subtract", (low, 1), span)

    def read(of: Value, place: AnyValue) -> Value:
        return Value(place.shape, substitute(of.element, {0: ZERO if unit(n) else place.element}), of.weak)

    high = do("minimum", (do("add", (low, 1), span), final), span)
    (x0, y0), (x1, y1) = ((read(table, k), read(values, k)) for k in (low, high))
    start, stop = (read(table, Value((), e)) for e in (ZERO, final.element))
    first, last = (read(values, Value((), e)) for e in (ZERO, final.element))
    slope = do("divide", (do("subtract", (y1, y0), span), do("subtract", (x1, x0), span)), span)
    inside = do("add", (do("multiply", (slope, do("subtract", (points, x0), span)), span), y0), span)
    inside = context.where(Value((), apply("equal", n, ONE)), first, inside, span)
    found = context.where(do("greater", (points, stop), span), last if right is None else right, inside, span)
    return context.where(do("less", (points, start), span), first if left is None else left, found, span)


SORTING: Mapping[str, Builtin] = builtins(
    {
        "median": (("x", "axis", "keepdims"), median, 2),
        "quantile": (("x", "q", "axis", "method", "keepdims"), _quantile("quantile", 1.0), 3),
        "percentile": (("x", "q", "axis", "method", "keepdims"), _quantile("percentile", 100.0), 3),
        "searchsorted": (("a", "v", "side"), searchsorted, 1),
        "interp": (("x", "xp", "fp", "left", "right"), interp, 2),
    }
) | {name: _along_last(name, operation) for name, operation in (("sort", sort), ("argsort", argsort))}
