"""Functions of neighbouring elements: differences, trapezoids, convolutions and cross products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.indexing.subscripts import subscript
from adcompiler.frontend.library.functionals import diff as derivative
from adcompiler.frontend.library.moving import one_axis, replaced
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin, builtins, known_integer
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.rearranging import ZERO, combine
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.slices import ALL, SliceValue
from adcompiler.frontend.values.values import AnyValue, Value, as_array, describe
from adcompiler.ir.nodes import Element, Index, const, is_const, select
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply, cast

MODES = ("full", "same", "valid")


def ends(context: Context, x: Value, axis: int, span: Span) -> tuple[AnyValue, AnyValue]:
    """x[1:] and x[:-1] along an axis."""
    behind, before = (
        subscript(context, x, [ALL] * axis + [part], span)
        for part in (SliceValue(1, None, None), SliceValue(None, -1, None))
    )
    return behind, before


# -- differences ---------------------------------------------------------------------------------------


def differences(
    context: Context,
    x: AnyValue,
    n: AnyValue,
    axis: AnyValue,
    prepend: AnyValue,
    append: AnyValue,
    span: Span,
) -> AnyValue:
    """The differences of adjacent elements along an axis, `n` times."""
    value = rearranging.array(context, "diff", x, span)
    if not value.rank:
        context.fail(ShapeError, "diff of a scalar", span, "diff takes an array of rank 1 or more")
    along = one_axis(context, -1 if axis is None else axis, value.rank, span)
    times = known_integer(context, "n", n, 1, span)
    if times < 0:
        context.fail(ParseError, f"diff: n is {times}", span, "write 0 or more")
    parts = [_slab(context, part, value, along, span) for part in (prepend, append)]
    joined = [p for p in (parts[0], value, parts[1]) if p is not None]
    value = rearranging.join(context, joined, along, span) if len(joined) > 1 else value
    op = "not_equal" if value.dtype == "bool" else "subtract"
    for _ in range(times):
        value = context.elementwise(op, ends(context, value, along, span), span)
    return value


def _slab(context: Context, part: AnyValue, like: Value, axis: int, span: Span) -> Value | None:
    """An array to prepend or append; a number is one more element."""
    if part is None:
        return None
    value = rearranging.array(context, "diff", part, span)
    if value.rank:
        return value
    shape = (*like.shape[:axis], ONE, *like.shape[axis + 1 :])
    return Value(shape, value.element, value.weak)


def diff(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    """NumPy's differences of an array, or the derivative of a function."""
    first = as_array(args[0]) if args else None
    if isinstance(first, Value) and first.rank and (len(args) == 1 or keywords):
        return DIFFERENCES(context, args, keywords, span)
    return derivative(context, args, keywords, span)


def trapezoid(
    context: Context, y: AnyValue, x: AnyValue, dx: AnyValue, axis: AnyValue, span: Span
) -> AnyValue:
    """The integral along an axis by the trapezoidal rule, at points `x` or with spacing `dx`."""
    value = rearranging.array(context, "trapezoid", y, span)
    if not value.rank:
        context.fail(ShapeError, "trapezoid of a scalar", span, "pass values along an axis")
    along = one_axis(context, -1 if axis is None else axis, value.rank, span)
    width: AnyValue = 1.0 if dx is None else dx
    if x is not None:
        points = rearranging.array(context, "trapezoid", x, span)
        if points.rank == 1:
            points = subscript(context, points, [ALL] + [None] * (value.rank - 1 - along), span)
            width = context.elementwise("subtract", ends(context, points, 0, span), span)
        else:
            width = differences(context, points, None, axis, None, None, span)
    total = context.elementwise("add", ends(context, value, along, span), span)
    parts = context.elementwise("multiply", (width, total), span)
    parts = context.elementwise("divide", (parts, 2.0), span)
    return context.reduce("sum", parts, (along,), False, span)


# -- products ------------------------------------------------------------------------------------------


def convolve(context: Context, a: AnyValue, v: AnyValue, mode: AnyValue, span: Span) -> AnyValue:
    """The sums of a[j] v[k - j] over j: for all k ("full"), as many as the longer operand ("same"), or
    complete overlaps ("valid")."""
    mode = "full" if mode is None else mode
    if mode not in MODES:
        context.fail(ParseError, f"convolve has no mode {mode!r}", span, f"the modes are {', '.join(MODES)}")
    left, right = (rearranging.array(context, "convolve", x, span) for x in (a, v))
    for value in (left, right):
        if value.rank != 1:
            context.fail(ShapeError, f"convolve takes vectors, not {describe(value)}", span, "use one row")
        if not is_const(value.shape[0]):
            context.sizes.demand(value.shape[0], ONE, "convolve of an empty array", span)
    n, m = (context.sizes.find(value.shape[0]) for value in (left, right))
    whole = _products(context, left, right, n, m, span)
    if mode == "full":
        return whole
    longer, shorter = combine("maximum", n, m), combine("minimum", n, m)
    before = combine("subtract", shorter, ONE)
    length = longer if mode == "same" else combine("subtract", longer, before)
    start = combine("floor_divide", before, rearranging.integer(2)) if mode == "same" else before
    return replaced(whole, 0, length, combine("add", rearranging.own_index(length, 0), start))


def _products(context: Context, left: Value, right: Value, n: Element, m: Element, span: Span) -> AnyValue:
    """The full convolution: at each place, the sum over the elements of the right operand."""
    length = combine("subtract", combine("add", n, m), ONE)
    j: Element = ZERO if unit(m) else Index(1)
    place = combine("subtract", rearranging.own_index(length, 0), j)
    dtype, weak = context.meet((left, right))
    dtype = "i64" if dtype == "bool" else dtype
    parts = (substitute(left.element, {0: ZERO if unit(n) else place}), substitute(right.element, {0: j}))
    product = apply("multiply", *(cast(part, dtype) for part in parts))
    inside = apply("logical_and", apply("less_equal", ZERO, place), apply("less", place, n))
    both = Value((length, m), select(inside, product, const(0, dtype)), weak)
    return context.reduce("sum", both, (1,), False, span)


def cross(context: Context, a: AnyValue, b: AnyValue, axis: AnyValue, span: Span) -> AnyValue:
    """The cross products of vectors of three along an axis."""
    left, right = (rearranging.array(context, "cross", x, span) for x in (a, b))
    rank = max(left.rank, right.rank)
    parts = []
    for value in (left, right):
        along = one_axis(context, -1 if axis is None else axis, value.rank, span)
        what, remedy = (
            "cross: the axis of the vectors",
            "cross takes vectors of 3: for 2 write a[0] * b[1] - a[1] * b[0]",
        )
        if not context.sizes.merge(value.shape[along], rearranging.integer(3), what, span, remedy):
            length = context.sizes.describe(value.shape[along])
            context.fail(ShapeError, f"{what} has the length {length}", span, remedy)
        parts.append([subscript(context, value, [ALL] * along + [k], span) for k in range(3)])

    def times(k: int, other: int) -> AnyValue:
        return context.elementwise("multiply", (parts[0][k], parts[1][other]), span)

    found = [
        context.elementwise("subtract", (times(k, other), times(other, k)), span)
        for k, other in ((1, 2), (2, 0), (0, 1))
    ]
    return rearranging.stack(
        context, found, one_axis(context, -1 if axis is None else axis, rank, span), span
    )


DIFFERENCES = builtin("diff", ("x", "n", "axis", "prepend", "append"), differences, 4)
NEIGHBOURS: Mapping[str, Builtin] = builtins(
    {
        "trapezoid": (("y", "x", "dx", "axis"), trapezoid, 3),
        "convolve": (("a", "v", "mode"), convolve, 1),
        "cross": (("a", "b", "axis"), cross, 1),
    }
)
