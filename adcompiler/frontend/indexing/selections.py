"""Selections, `x[mask]`: the number of elements depends on the values of the mask.

So a selection is not an array, but all elements with the mask. Elementwise operations apply to all of them,
and a reduction uses those that the mask selects: nothing is moved or stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adcompiler.errors import DtypeError, ParseError, ShapeError, Span
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.rearranging import array, matmul
from adcompiler.frontend.values.reductions import REDUCTIONS, Mean, count, degrees
from adcompiler.frontend.values.scaled_norms import root_of_squares
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.slices import ALL
from adcompiler.frontend.values.unmasked import alike, has_selection
from adcompiler.frontend.values.values import AnyValue, GeneratorValue, Masked, Row, Value, as_array, describe
from adcompiler.ir.nodes import Element, Index, Shape
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import cast

Axes = tuple[int, ...] | None
# The neutral values of reductions, used where the condition of a generator does not hold.
NEUTRAL: dict[str, float | bool] = {
    "sum": 0, "prod": 1, "amax": -math.inf, "amin": math.inf, "logsumexp": -math.inf, "any": False,
    "all": True,
}  # fmt: skip


def reduce_family(context: Context, name: str, family: GeneratorValue, span: Span) -> AnyValue:
    """The reduction called `name` over the axes of a generator, where its conditions hold."""
    axes = tuple(range(len(family.axes)))
    value = family.value_of(family.value.element)
    if family.guard is None:
        if name in ("argmin", "argmax") and len(axes) > 1:
            context.fail(ParseError, f"{name} of a generator takes only one `for`", span, "use one index")
        return REDUCTIONS[name](context, value, axes, False, span)
    if name != "mean" and name not in NEUTRAL:
        context.fail(ParseError, f"{name} of a generator with a condition", span, "use where(...) in a list")
    chosen = Masked(value, family.value_of(family.guard, own=False))
    return _Reduction(context, chosen, axes, span).named(name, False, None)


def is_mask(index: AnyValue) -> bool:
    """Whether an index is an array of booleans."""
    return isinstance(index, Value) and index.rank > 0 and index.dtype == "bool"


def selected(
    context: Context, value: AnyValue, indices: Sequence[Any], span: Span, subscript: Callable[..., AnyValue]
) -> Masked:
    """`value[mask]`, or `value[mask, ...]` with indices of the axes after those of the mask."""
    mask = indices[0]
    if not is_mask(mask) or any(isinstance(i, Value) and i.rank for i in indices[1:]):
        cause = "a mask must be the first index if there are integers or slices"
        context.fail(ParseError, cause, span, "move the axis to the front: moveaxis(x, axis, 0)[mask]")
    value = array(context, "a mask", value, span)
    if len(indices) > 1:
        value = subscript(context, value, [*[ALL] * mask.rank, *indices[1:]], span)
    _fit(context, value, mask, span)
    return Masked(value, mask)


def _fit(context: Context, value: Value, mask: Value, span: Span) -> None:
    """Require that a mask is as long as the leading axes of the array it selects from."""
    if mask.rank > value.rank:
        cause = f"a mask of rank {mask.rank} for an array of rank {value.rank}"
        context.fail(ShapeError, cause, span, "a mask needs one boolean per element or per row")
    for k, n in enumerate(mask.shape):
        alone = unit(context.sizes.find(n)) != unit(context.sizes.find(value.shape[k]))
        if alone or not context.sizes.merge(n, value.shape[k], f"axis {k} of a mask", span):
            lengths = f"{context.sizes.describe(n)} and {context.sizes.describe(value.shape[k])}"
            remedy = "make a mask as long as the array"
            context.fail(ShapeError, f"axis {k} of a mask and its array: the lengths {lengths}", span, remedy)


def is_selection(indices: Sequence[Any]) -> bool:
    """Whether a selection is indexed by booleans for its elements or rows."""
    only = indices[0] if len(indices) == 1 else None
    return isinstance(only, Masked) and only.value.dtype == "bool" and only.value.rank == only.mask.rank


def narrowed(context: Context, x: Masked, condition: Masked, span: Span) -> Masked:
    """`x[condition]`, where the condition is on the elements or rows of the selection x."""
    shape = (*condition.value.shape, *x.value.shape[x.mask.rank :])
    found = alike(context, replace(condition, value=replace(x.value, shape=shape)), x, span)
    return Masked(found, context.elementwise("logical_and", (condition.mask, condition.value), span))


def of_rows(
    context: Context, x: Masked, indices: Sequence[Any], span: Span, subscript: Callable[..., AnyValue]
) -> Masked:
    """`x[:, k]`: the indexed part of each row of a selection."""
    return replace(x, value=subscript(context, x.value, [*[ALL] * x.mask.rank, *indices[1:]], span))


def length(context: Context, x: Masked, span: Span) -> AnyValue:
    """The number of elements or rows."""
    if isinstance(x, Row):
        return Value((), x.length, weak=True)
    ones = Value(x.mask.shape, cast(x.mask.element, "i64"), weak=True)
    return context.reduce("sum", ones, None, False, span)


def size(context: Context, x: Masked, span: Span) -> AnyValue:
    """The number of elements in all rows."""
    behind = tuple(range(x.mask.rank, x.value.rank))
    return context.elementwise(
        "multiply", (length(context, x, span), count(context, x.value, behind, span)), span
    )


def product(context: Context, left: AnyValue, right: AnyValue, span: Span) -> AnyValue:
    """`left @ right`; for selections, rows times a vector or a matrix, or the sum of products of elements
    with elements or rows."""
    left, right = as_array(left), as_array(right)
    if not has_selection((left, right)):
        return matmul(context, left, right, span)
    behind = [v.value.rank - v.mask.rank if isinstance(v, Masked) else None for v in (left, right)]
    if behind in ([0, 0], [0, 1]):
        assert isinstance(left, Masked)
        if behind[1]:
            left = replace(left, value=with_last_axis(left.value))
        both = context.elementwise("multiply", (left, right), span)
        return reduced(context, "sum", both, (0,) if behind[1] else None, False, span)
    if behind != [1, None] or not (isinstance(right, Value) and right.rank in (1, 2)):
        both = f"{describe(left)}, and {describe(right)}"
        remedy = "zeros add nothing: x.T @ where(mask, y, 0)"
        if isinstance(left, Row) or isinstance(right, Row):
            remedy = "the operands must be slices with the same bounds, such as w[a:b] @ x[a:b]"
        context.fail(DtypeError, f"@ of {both}", span, remedy)
    return replace(left, value=matmul(context, left.value, right, span))


def with_last_axis(value: Value) -> Value:
    """A value with one more axis, of length 1, behind its own."""
    return replace(value, shape=(*value.shape, ONE))


# -- reductions ----------------------------------------------------------------------------------------


def reduced(
    context: Context, name: str, x: Masked, axes: Axes, keepdims: bool, span: Span, ddof: AnyValue = None
) -> AnyValue:
    """The reduction called `name`; axis 0 is that of the selection, however many axes the mask has."""
    name = {"max": "amax", "min": "amin"}.get(name, name)  # the names of methods
    behind = x.mask.rank - 1
    gone = context.normalise(axes, x.value.rank - behind, span)
    own = tuple(k + behind for k in gone if k)
    if 0 not in gone:
        options = () if ddof is None else (ddof,)
        found = REDUCTIONS[name](context, x.value, own, keepdims, span, *options)
        return replace(x, value=found)
    found = _Reduction(context, x, (*range(x.mask.rank), *own), span).named(name, keepdims, ddof)
    if not keepdims or not behind:
        return found
    moved: dict[int, Element] = {k: Index(k - behind) for k in found.element.axes if k >= 0}
    return Value(found.shape[behind:], substitute(found.element, moved), found.weak)


class _Reduction:
    """Reductions of a selection over its own axis, and possibly others."""

    def __init__(self, context: Context, x: Masked, axes: tuple[int, ...], span: Span) -> None:
        self.context, self.x, self.axes, self.span = context, x, axes, span
        rest: Shape = (ONE,) * (x.value.rank - x.mask.rank)
        self.mask = Value(x.mask.shape + rest, x.mask.element)

    def named(self, name: str, keepdims: bool, ddof: AnyValue) -> AnyValue:
        """A reduction of the selected elements, with all others replaced by the neutral value."""
        if name in ("argmax", "argmin"):
            other = "-inf" if name == "argmax" else "inf"
            remedy = f"the place in all of x is {name}(where(mask, x, {other}))"
            self.context.fail(ParseError, f"{name} of {describe(self.x)}", self.span, remedy)
        if name == "norm":
            return self.root(self.do("multiply", self.x.value, 1.0), keepdims)
        if name == "mean":
            return self.mean(self.x.value, keepdims, self.count())
        if name == "var":
            return self.mean(self.do("square", self.centred()), keepdims, self.degrees(ddof))
        if name == "std":
            root, free = self.root(self.centred(), keepdims), self.do("sqrt", self.degrees(ddof))
            return Mean(self.context, self.count(), self.span).of(root, free)
        filled = self.filled(self.x.value, self.neutral(name))
        return REDUCTIONS[name](self.context, filled, self.axes, keepdims, self.span)

    def do(self, op: str, *args: AnyValue) -> AnyValue:
        return self.context.elementwise(op, args, self.span)

    def filled(self, value: AnyValue, other: AnyValue) -> AnyValue:
        """All elements, with another value where the mask does not hold."""
        return self.context.where(self.mask, value, other, self.span)

    def neutral(self, name: str) -> AnyValue:
        """The value of an empty reduction, in the type of the elements."""
        other, dtype = NEUTRAL[name], self.x.value.dtype
        if name not in ("amax", "amin") or is_float(dtype):
            return other
        if dtype == "bool":
            return name == "amin"
        return -(2**63) if name == "amax" else 2**63 - 1

    def mean(self, value: AnyValue, keepdims: bool, number: AnyValue) -> AnyValue:
        total = self.context.reduce("sum", self.filled(value, 0), self.axes, keepdims, self.span)
        return Mean(self.context, self.count(), self.span).of(total, number)

    def count(self) -> AnyValue:
        """The number of elements reduced together."""
        rows = length(self.context, self.x, self.span)
        behind = self.axes[self.x.mask.rank :]
        if not behind:
            return rows
        return self.do("multiply", rows, count(self.context, self.x.value, behind, self.span))

    def centred(self) -> AnyValue:
        return self.do("subtract", self.x.value, self.mean(self.x.value, True, self.count()))

    def root(self, value: AnyValue, keepdims: bool) -> AnyValue:
        """The root of the sum of squares."""
        return root_of_squares(self.context, self.filled(value, 0), self.axes, keepdims, self.span)

    def degrees(self, ddof: AnyValue) -> AnyValue:
        return degrees(self.context, self.count(), ddof, self.span)
