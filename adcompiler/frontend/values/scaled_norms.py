"""Roots of sums and means of squares, without underflow or overflow.

The squares are summed directly and, if necessary, again with a scale, a power of two, so that scaling does
not round. The scaled sums are in a branch that is rarely taken. The derivative is one rule, x / r, and 0
where r is 0: no factor is larger than the derivative itself, to any order.

In a comprehension a branch may be impossible, and values of pairs must not be stored for a rule. Then both
sums are in one loop, and the scaled one, whose scale is mostly 1, is differentiated.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from adcompiler.errors import Span
from adcompiler.frontend.values.derivatives import whole_of
from adcompiler.frontend.values.open_axes import Opened, open_axes
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.bodies import closed_rule, like
from adcompiler.ir.nodes import Array, Element, Read, const, element_of, identity
from adcompiler.ops.build import cast

Axes = tuple[int, ...] | None


class _Scale(NamedTuple):
    """Values whose sum of squares is below 2**below are multiplied by 2**power before squaring."""

    below: int
    power: int


# Cubes of scaled roots, which second derivatives contain, stay in range.
SCALES = {
    "f32": (_Scale(-120, 88), _Scale(-80, 50), _Scale(80, 0), _Scale(120, -50), _Scale(999, -94)),
    "f64": (_Scale(-1000, 740), _Scale(-600, 400), _Scale(600, 0), _Scale(1000, -400), _Scale(9999, -760)),
}
PLAIN = 2  # the scale 1
CLOSED = Opened((), ())


def root_of_squares(
    context: Context, x: AnyValue, axes: Axes, keepdims: bool, span: Span, count: Value | None = None
) -> AnyValue:
    """The root of the sum of squares, or of their mean if `count` is given; where it is 0, all derivatives
    are 0."""
    if not isinstance(x, Value) or not x.rank or open_axes(x.element):
        return _Root(context, x, axes, span, count).scaled(keepdims)
    root = _Root(context, x, axes, span, count)
    found = root.branched()
    if not isinstance(found, Value):
        return found
    gone = context.normalise(axes, x.rank, span)
    made = _with_rule(root, x, found)
    kept = [k for k in range(x.rank) if keepdims or k not in gone]
    places: list[Element] = [const(0, "i64")] * x.rank
    shape = tuple(found.shape[k] for k in kept)
    for k, index in zip(kept, identity(shape), strict=True):
        places[k] = index
    return Value(shape, Read(made, tuple(places)), x.weak)


class _Root:
    """The root over some axes of one value."""

    def __init__(self, context: Context, x: AnyValue, axes: Axes, span: Span, count: Value | None) -> None:
        self.context, self.x, self.axes, self.span, self.count = context, x, axes, span, count
        self.do = partial(elementwise, context, span)
        self.scales = SCALES["f32" if isinstance(x, Value) and x.dtype == "f32" else "f64"]

    def total(self, x: AnyValue, keepdims: bool) -> AnyValue:
        """The sum, or the mean, of the squares of x."""
        squares = self.do("square", x)
        found = self.context.reduce("sum", squares, self.axes, keepdims, self.span)
        return found if self.count is None else self.do("divide", found, self.count)

    def scale(self, squares: AnyValue, sign: int) -> AnyValue:
        """The scale for these squares, or its reciprocal."""
        found: AnyValue = 2.0 ** (sign * self.scales[-1].power)
        for below, power in reversed(self.scales[:-1]):
            less = self.do("less", squares, 2.0**below)
            found = self.context.where(less, 2.0 ** (sign * power), found, self.span)
        return found

    def scaled(self, keepdims: bool) -> AnyValue:
        """The root of squares, scaled if necessary."""
        by = self.scale(self.total(self.x, True), 1)
        squares = self.total(self.do("multiply", self.x, by), keepdims)
        root = self.do("multiply", self.do("sqrt", squares), self.scale(self.total(self.x, keepdims), -1))
        return self.context.where(self.do("equal", squares, 0), 0.0, root, self.span)

    def branched(self) -> AnyValue:
        """The same, with one branch for all kept axes."""
        squares = self.total(self.x, True)
        low, high = (self.do("less", squares, 2.0**s.below) for s in self.scales[PLAIN - 1 : PLAIN + 1])
        tame = self.do("logical_and", self.do("logical_not", low), high)
        if isinstance(tame, Value):
            bits = Value(tame.shape, cast(tame.element, "i64"))
            tame = self.do("greater", self.context.reduce("min", bits, None, False, self.span), 0)
        return self.context.where(tame, self.do("sqrt", squares), self.scaled(True), self.span)


def _with_rule(root: _Root, x: Value, found: Value) -> Array:
    """The root as an array with the rule x / r; for a mean the cotangent is divided by the count."""
    context = root.context
    value, whole = whole_of(CLOSED, found), whole_of(CLOSED, x)
    places = like(whole), like(value), like(value)
    here, r, cotangent = (Value(p.shape, element_of(p)) for p in places)
    each: AnyValue = cotangent if root.count is None else root.do("divide", cotangent, root.count)
    product = root.do("multiply", each, root.do("divide", here, r))
    slope = context.where(root.do("equal", r, 0), 0.0, product, root.span)
    assert isinstance(slope, Value)
    return closed_rule(value, (whole,), places, (whole_of(CLOSED, slope),))


def elementwise(context: Context, span: Span, op: str, *args: AnyValue) -> AnyValue:
    """An operation on elements, its operands last."""
    return context.elementwise(op, args, span)
