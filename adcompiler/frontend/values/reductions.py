"""Reductions of whole arrays and constructors of arrays, in terms of sums, extrema and indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from adcompiler.analysis.affine import linear, linear_constant
from adcompiler.analysis.intervals import never_negative
from adcompiler.analysis.limits import MOST_ELEMENTS
from adcompiler.errors import ParseError, Span
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.scaled_norms import elementwise, root_of_squares
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import AnyValue, Value, describe, is_number
from adcompiler.ir.nodes import Const, Element, Index, Size, const, is_const, select
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import elements_of
from adcompiler.ops.build import apply, cast

Builtin = Callable[[Context, list[Any], dict[str, Any], Span], AnyValue]
Reduction = Callable[..., AnyValue]  # (context, x, axes, keepdims, span), and a few options
BIGGEST = const(2**63 - 1, "i64")


def axes_of(context: Context, axis: AnyValue, span: Span) -> tuple[int, ...] | None:
    """The axes named by `axis=`; None for all."""
    if axis is None:
        return None
    axes = axis if isinstance(axis, tuple) else (axis,)
    for one in axes:
        if not isinstance(one, int) or isinstance(one, bool):
            context.fail(ParseError, "axis must be an integer known at compile time", span, "write axis=0")
    return axes


def count(context: Context, x: Value, axes: tuple[int, ...] | None, span: Span) -> Value:
    """The number of elements that a reduction over `axes` combines."""
    total: Element = ONE
    for k in context.normalise(axes, x.rank, span):
        total = rearranging.combine("multiply", total, context.sizes.find(x.shape[k]))
    return Value((), total, weak=True)


def total(op: str) -> Reduction:
    """A reduction of the IR."""

    def reduction(
        context: Context, x: Value, axes: tuple[int, ...] | None, keepdims: bool, span: Span
    ) -> AnyValue:
        found = context.reduce(op, x, axes, keepdims, span)
        if x.dtype == "bool" and op in ("min", "max"):
            return Value(found.shape, cast(found.element, "bool"))
        return found

    return reduction


class Mean:
    """Division by a number that is 0 if there are no `terms`: the result is then NaN, independent of all
    inputs.

    So its derivative is 0 there in forward mode too, which would otherwise divide 0 by 0.
    """

    def __init__(self, context: Context, terms: AnyValue, span: Span) -> None:
        self.do = partial(elementwise, context, span)
        doubtful = isinstance(terms, Value) and not _is_some(context, terms.element)
        self.some = self.do("not_equal", terms, 0) if doubtful else None

    def of(self, total: AnyValue, number: AnyValue) -> AnyValue:
        """A total divided by a number."""
        return self.checked(self.do("divide", total, self.divisor(number)))

    def divisor(self, number: AnyValue) -> AnyValue:
        """The number, or 1 if there are no terms."""
        return number if self.some is None else self.do("add", number, self.do("logical_not", self.some))

    def checked(self, found: AnyValue) -> AnyValue:
        """The divided result; 0 / 0 if there are no terms."""
        return found if self.some is None else self.do("subtract", found, self.do("divide", 0, self.some))


def _is_some(context: Context, number: Element) -> bool:
    """Whether a number of elements is 0 only if an argument is empty."""
    given = context.sizes.counts.values()
    parts = (e for e in elements_of((number,)) if not isinstance(e, Const))
    if all(e not in given if isinstance(e, Size) else getattr(e, "op", "") == "multiply" for e in parts):
        return True
    return context.binders.sure(linear(number) - linear_constant(1))


def mean(context: Context, x: AnyValue, axes: tuple[int, ...] | None, keepdims: bool, span: Span) -> AnyValue:
    """The sum, divided by the number of elements."""
    number = count(context, x, axes, span)
    return Mean(context, number, span).of(context.reduce("sum", x, axes, keepdims, span), number)


def variance(
    context: Context,
    x: Value,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    span: Span,
    ddof: AnyValue = None,
) -> AnyValue:
    """The mean squared distance from the mean; `ddof` is subtracted from the number of elements."""
    centred = context.elementwise("subtract", (x, mean(context, x, axes, True, span)), span)
    squares = context.elementwise("square", (centred,), span)
    number = count(context, x, axes, span)
    total = context.reduce("sum", squares, axes, keepdims, span)
    return Mean(context, number, span).of(total, degrees(context, number, ddof, span))


def deviation(
    context: Context,
    x: Value,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    span: Span,
    ddof: AnyValue = None,
) -> AnyValue:
    """The square root of the variance; where that is 0, all derivatives are 0."""
    centred = context.elementwise("subtract", (x, mean(context, x, axes, True, span)), span)
    number = count(context, x, axes, span)
    average = Mean(context, number, span)
    free = average.divisor(degrees(context, number, ddof, span))
    return average.checked(root_of_squares(context, centred, axes, keepdims, span, free))


def degrees(context: Context, number: AnyValue, ddof: AnyValue, span: Span) -> AnyValue:
    """The degrees of freedom for a number of elements: minus `ddof`, and at least 0."""
    if ddof is None:
        return number
    if not is_number(ddof):
        cause = f"ddof must be a number known at compile time, not {describe(ddof)}"
        context.fail(ParseError, cause, span, "write ddof=1")
    return context.elementwise("maximum", (context.elementwise("subtract", (number, ddof), span), 0), span)


def norm(context: Context, x: Value, axes: tuple[int, ...] | None, keepdims: bool, span: Span) -> AnyValue:
    """The Euclidean norm; all its derivatives at 0 are 0."""
    x = context.elementwise("multiply", (x, 1.0), span)
    return root_of_squares(context, x, axes, keepdims, span)


def logsumexp(
    context: Context, x: Value, axes: tuple[int, ...] | None, keepdims: bool, span: Span
) -> AnyValue:
    """`log(sum(exp(x)))` over axes, without overflow."""
    return context.reduce("logsumexp", context.elementwise("multiply", (x, 1.0), span), axes, keepdims, span)


def truth(op: str) -> Reduction:
    """`any` and `all`: an extremum of booleans."""

    def reduction(
        context: Context, x: Value, axes: tuple[int, ...] | None, keepdims: bool, span: Span
    ) -> AnyValue:
        bits = Value(x.shape, cast(cast(x.element, "bool"), "i64"))
        found = context.reduce(op, bits, axes, keepdims, span)
        return Value(found.shape, apply("greater", found.element, const(0, "i64")))

    return reduction


def position(op: str) -> Reduction:
    """`argmin` and `argmax`: the first position of the extremum; of all elements in row-major order."""

    def reduction(
        context: Context, x: Value, axes: tuple[int, ...] | None, keepdims: bool, span: Span
    ) -> AnyValue:
        if axes is None and x.rank != 1:
            flat = rearranging.reshape(context, x, (-1,), span)
            found = reduction(context, flat, (0,), False, span)
            return rearranging.reshape(context, found, (1,) * x.rank, span) if keepdims else found
        if axes is None:
            axes = (0,)
        if len(axes) != 1:
            context.fail(ParseError, "argmin and argmax take one axis", span, "write axis=0")
        (axis,) = context.normalise(axes, x.rank, span)
        if not is_const(x.shape[axis]):
            context.sizes.demand(x.shape[axis], ONE, f"arg{op} of an empty axis", span)
        best = context.reduce(op, x, (axis,), True, span)
        own = const(0, "i64") if unit(x.shape[axis]) else Index(axis)
        here = apply("equal", x.element, best.element)
        if is_float(x.dtype):
            here = apply("logical_or", here, apply("not_equal", x.element, x.element))
        places = Value(x.shape, select(here, own, BIGGEST))
        return context.reduce("min", places, (axis,), keepdims, span)

    return reduction


REDUCTIONS: dict[str, Reduction] = {
    "sum": total("sum"), "prod": total("prod"), "amax": total("max"), "amin": total("min"), "mean": mean,
    "var": variance, "std": deviation, "norm": norm, "logsumexp": logsumexp, "any": truth("max"),
    "all": truth("min"), "argmin": position("min"), "argmax": position("max"),
}  # fmt: skip


def zeros(context: Context, shape: AnyValue, value: AnyValue, span: Span) -> Value:
    """An array that is `value` everywhere."""
    lengths = shape if isinstance(shape, tuple) else (shape,)
    linear_constant = context.ranked(tuple(rearranging.axis_length(context, n, span) for n in lengths), span)
    filled = rearranging.array(context, "full", value, span)
    if filled.rank:
        context.fail(ParseError, "an array can be filled with only one number", span, "pass a scalar")
    return Value(linear_constant, filled.element, filled.weak)


def arange(context: Context, start: AnyValue, stop: AnyValue, step: AnyValue, span: Span) -> Value:
    """start, start + step, ... before `stop`, for a constant step, which may be negative. If any of the
    three is a float, so are the points; then all three are whole, or constants."""
    start, stop, step = map(constant_of, (start, stop, step))
    if any(isinstance(n, float) for n in (start, stop, step)):
        whole = [_whole(n) for n in (start, stop, step)]
        if any(n is None for n in whole):
            return _arange_of_floats(context, start, stop, step, span)
        points = arange(context, whole[0], whole[1], whole[2], span)
        return Value(points.shape, cast(points.element, "f64"), weak=True)
    if not isinstance(step, int) or step == 0:
        cause = "the step of arange must be a nonzero constant"
        context.fail(ParseError, cause, span, "multiply: start + step * arange(n)")
    up, down = (not isinstance(n, int) or n >= 0 for n in (start, stop))
    first = rearranging.length_of(context, start, span, clamps=step < 0 and down)
    last = rearranging.length_of(context, stop, span, clamps=step > 0 and up)
    distance = rearranging.combine("subtract", *((last, first) if step > 0 else (first, last)))
    if not never_negative(linear(distance), {}, ()):
        distance = rearranging.combine("maximum", distance, const(0, "i64"))
    length = rearranging.stepped(distance, abs(step))
    index: Element = const(0, "i64") if unit(length) else Index(0)
    place = rearranging.combine("multiply", index, const(step, "i64"))
    return Value((length,), rearranging.combine("add", place, first), weak=True)


def constant_of(value: AnyValue) -> AnyValue:
    """The number that a scalar is known to be; any other value unchanged."""
    if isinstance(value, Value) and not value.rank and isinstance(value.element, Const):
        return value.element.value
    return value


def _whole(bound: AnyValue) -> AnyValue:
    """A bound of `arange` as an integer; None if it is not whole."""
    if isinstance(bound, Value):
        return bound if bound.dtype == "i64" and not bound.rank else None
    return int(bound) if is_number(bound) and math.isfinite(bound) and bound == int(bound) else None


def _arange_of_floats(context: Context, start: AnyValue, stop: AnyValue, step: AnyValue, span: Span) -> Value:
    """`arange` of floats, with NumPy's length, ceil((stop - start) / step), and its points."""
    if not all(map(is_number, (start, stop, step))) or not step:
        cause = "arange of floats needs constants, and a step that is not 0: its length follows from them"
        remedy = "multiply: start + step * arange(n), or write linspace(start, stop, n)"
        context.fail(ParseError, cause, span, remedy)
    points = (stop - start) / step
    if not math.isfinite(points) or points >= MOST_ELEMENTS:
        context.fail(ParseError, f"arange of {points} points", span, "use finite bounds that are closer")
    length = rearranging.integer(max(math.ceil(points), 0))
    index: Element = const(0, "i64") if unit(length) else Index(0)
    place = apply("multiply", cast(index, "f64"), const(float(start + step) - start, "f64"))
    return Value((length,), apply("add", place, const(float(start), "f64")), weak=True)


def linspace(context: Context, start: AnyValue, stop: AnyValue, number: AnyValue, span: Span) -> AnyValue:
    """`number` points from `start` to `stop`, both included."""
    n = rearranging.axis_length(context, number, span)
    index = Value((n,), const(0, "i64") if unit(n) else Index(0), weak=True)
    steps = Value((), rearranging.combine("maximum", rearranging.combine("subtract", n, ONE), ONE), weak=True)
    width = context.elementwise("subtract", (stop, start), span)
    step = context.elementwise("divide", (width, steps), span)
    points = context.elementwise("add", (context.elementwise("multiply", (index, step), span), start), span)
    last = context.elementwise("equal", (index, steps), span)
    return points if is_const(n, 1) else context.where(last, stop, points, span)
