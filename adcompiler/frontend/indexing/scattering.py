"""Stores at many places at once: `x[i] = v` and `x[i] += v` with an array of indices, `x[mask] = v`.

Stored values are added to zeros (an `Accumulate`), and selected where an index names the element. An element
named twice is refused: NumPy keeps the last value, but `+=` is usually meant as a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from adcompiler.errors import DtypeError, ShapeError, Span
from adcompiler.frontend.values.open_axes import ONE, ZERO
from adcompiler.frontend.values.operations import Context, over
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.slices import ALL
from adcompiler.frontend.values.unmasked import same_mask
from adcompiler.frontend.values.values import REDUCE, AnyValue, Masked, Value, describe
from adcompiler.ir.nodes import Accumulate, Element, Index, Shape, select
from adcompiler.ir.types import Dtype, is_float
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply, cast

Located: TypeAlias = Callable[[Context, Element, Element, Shape, Span], Element]  # an index into an axis
TWICE = "an index array contains an element twice (NumPy would keep the last value)"
ADD = "write a loop to add all values: for k in range(len(i)): x[i[k]] += v[k]"
LOOP = "store in a loop: for k in range(len(i)): x[i[k], 0] = v[k]"


def is_many(index: Any) -> bool:
    """Whether an index is an array, of integers or booleans."""
    return isinstance(index, Value) and (index.rank > 0 or index.dtype == "bool")


def is_mask(index: Any) -> bool:
    """Whether an index is an array of booleans."""
    return isinstance(index, Value) and index.dtype == "bool"


def scattered(
    context: Context,
    array: Value,
    indices: list[Any],
    value: AnyValue,
    kind: Value,
    located: Located,
    span: Span,
) -> Value:
    """An array after a store at index arrays; it has the type of `kind`."""
    if len(indices) == 1 and indices[0].dtype == "bool":
        return _where(context, array, indices[0], value, span)
    indices = indices + [ALL] * (array.rank - len(indices))
    named = [k for k, index in enumerate(indices) if index != ALL]
    places = indices[named[0] : named[-1] + 1]
    if any(is_mask(i) for i in places):
        remedy = "store with a single mask"
        context.fail(DtypeError, "an index must be an integer, not a boolean", span, remedy)
    if not all(_is_place(i) for i in places):
        context.fail(DtypeError, "a store with both an index array and a slice", span, LOOP)
    return _Scatter(context, array, places, named[0], located, span).stored(value, kind.dtype, kind.weak)


def _is_place(index: Any) -> bool:
    return isinstance(index, Value) or (isinstance(index, int) and not isinstance(index, bool))


def _where(
    context: Context, array: Value, mask: Value, value: AnyValue, span: Span, whole: bool = False
) -> Value:
    """`x[mask] = v` with one value for all elements or all rows; a `whole` value has one per element."""
    if mask.rank > array.rank:
        context.fail(ShapeError, f"a mask of rank {mask.rank} for rank {array.rank}", span, "remove axes")
    for k, size in enumerate(mask.shape):
        what = f"axis {k} of the array and of its mask"
        if not context.sizes.merge(array.shape[k], size, what, span, "a mask has the shape of its array"):
            context.fail(ShapeError, f"{what} differ in length", span, "a mask has the shape of its array")
    if isinstance(value, Value) and value.rank > array.rank - mask.rank and not whole:
        cause = f"{describe(value)} cannot be stored with a mask: the number of elements depends on values"
        context.fail(ShapeError, cause, span, "write x = where(mask, v, x), with v as long as x")
    tail = tuple(ONE for _ in range(array.rank - mask.rank))
    guard = Value((*mask.shape, *tail), mask.element)
    found = context.where(guard, value, array, span)
    assert isinstance(found, Value)
    return found


def selection_stored(context: Context, array: Value, indices: list[Any], value: Masked, span: Span) -> Value:
    """`x[mask] = y[mask]`."""
    if len(indices) != 1 or not is_mask(indices[0]):
        context.fail(DtypeError, f"cannot store {describe(value)}", span, REDUCE)
    found = _everywhere(context, indices[0], value, span)
    if not is_float(array.dtype) and is_float(found.dtype):
        cause = f"a float in an array of {array.dtype}"
        context.fail(DtypeError, cause, span, "start from an array of floats")
    return _where(context, array, indices[0], found, span, whole=True)


def _everywhere(context: Context, mask: Value, value: Masked, span: Span) -> Value:
    """The array whose selection is stored, if its mask is the same."""
    if not same_mask(context, value.mask, mask):
        cause, remedy = "the stored selection has another mask", "use the same mask: x[mask] = y[mask]"
        context.fail(ShapeError, cause, span, remedy)
    return value.value


def updated(
    context: Context,
    array: AnyValue,
    mask: Value,
    value: AnyValue,
    operate: Callable[[AnyValue], AnyValue],
    span: Span,
) -> Value:
    """An array after `x[mask] += v`; `operate` adds to all of it."""
    if isinstance(value, Masked):
        value = _everywhere(context, mask, value, span)
    elif not isinstance(array, Value) or (isinstance(value, Value) and value.rank > array.rank - mask.rank):
        return _where(context, array, mask, value, span)
    return _where(context, array, mask, operate(value), span, whole=True)


class _Scatter:
    """A store at index arrays on adjacent axes of an array, from the axis `at` on; index arrays broadcast."""

    def __init__(
        self, context: Context, array: Value, indices: list[Any], at: int, located: Located, span: Span
    ) -> None:
        self.context, self.array, self.span = context, array, span
        values = [i for i in indices if isinstance(i, Value)]
        self.together = context.broadcast("the index arrays", values, span)
        end = at + len(indices)
        self.before, self.sizes, self.rest = array.shape[:at], array.shape[at:end], array.shape[end:]
        self.places = [
            located(context, over(index, self.together, "i64"), size, self.together, span)
            for index, size in zip(indices, map(context.sizes.find, self.sizes), strict=True)
        ]

    def stored(self, value: AnyValue, dtype: Dtype, weak: bool) -> Value:
        """The array after the store."""
        context, shape = self.context, (*self.before, *self.together, *self.rest)
        whole = Value(shape, cast(ZERO, dtype))
        found = context.broadcast("the value stored", (whole, value), self.span)
        if found != tuple(map(context.sizes.find, shape)):
            remedy = "pass one value for each place"
            context.fail(ShapeError, "the stored value does not fit its places", self.span, remedy)
        truth = dtype == "bool"
        body = over(value, shape, dtype)
        body = select(body, ONE, ZERO) if truth else body
        times = self.added((), (), ONE)
        here = substitute(times, dict(enumerate(self.places)))
        context.binders.check(apply("less_equal", here, ONE), self.together, TWICE, ADD, self.span)
        named = substitute(times, {k: Index(k + len(self.before)) for k in range(len(self.sizes))})
        taken = self.added(self.before, self.rest, body)
        taken = apply("greater", taken, ZERO) if truth else taken
        hit = apply("greater", named, ZERO)
        return Value(self.array.shape, select(hit, taken, cast(self.array.element, dtype)), weak)

    def added(self, before: Shape, rest: Shape, body: Element) -> Element:
        """A read of an array of zeros to which the body, over places and other axes, is added."""
        lead = self.context.binders.opened(body, *self.places)
        first, count = len(lead.axes) + len(before), len(self.together)
        shape = (*lead.lengths, *before, *self.sizes, *rest)
        behind = {k: Index(k + len(before)) for k in range(count)}
        spots = [*map(Index, range(first)), *(lead.closed(substitute(p, behind)) for p in self.places)]
        spots += [Index(first + count + k) for k in range(len(rest))]
        spots = [ZERO if unit(n) else s for n, s in zip(shape, spots, strict=True)]
        domain = (*lead.lengths, *before, *self.together, *rest)
        made = Accumulate(shape, domain, tuple(spots), lead.closed(body))
        return lead.read(made, shape[len(lead.axes) :])
