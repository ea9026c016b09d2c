"""Subscripts: slices, new axes, fixed and computed indices, by NumPy's rules."""

from __future__ import annotations

from typing import Any, NoReturn

from adcompiler.analysis.affine import linear, linear_constant
from adcompiler.analysis.intervals import lowest
from adcompiler.errors import DtypeError, OutOfRangeError, ParseError, ShapeError, Span
from adcompiler.frontend.indexing import ragged
from adcompiler.frontend.indexing.scattering import is_many, scattered, selection_stored
from adcompiler.frontend.indexing.selections import is_mask, is_selection, narrowed, of_rows, selected
from adcompiler.frontend.indexing.stored_types import as_stored, type_in_memory
from adcompiler.frontend.indexing.struct_rows import entries, rank_of_structs
from adcompiler.frontend.values.operations import ONE, Context, over
from adcompiler.frontend.values.rearranging import ZERO, array, combine, integer
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.slices import ALL, SliceValue, sliced, step_of
from adcompiler.frontend.values.values import (
    AnyValue,
    AppendedList,
    AppendProbe,
    Masked,
    RaggedRows,
    Row,
    Value,
    as_array,
    describe,
    instead_of,
    is_number,
)
from adcompiler.ir.bodies import fresh
from adcompiler.ir.nodes import Apply, Element, Index, Map, Read, Select, Shape, const, is_const, select
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import is_computed, substitute
from adcompiler.ops.build import apply, cast
from adcompiler.pytree.containers import Container, Rows
from adcompiler.pytree.records import Records

READ = "read its elements, out[-1] or out[k], or its length; the whole list can be read after the loop"
OUTSIDE = "an index is out of range"
INSIDE = "indices count from 0, negative ones from the end; both must be inside the axis"


def subscript(context: Context, value: AnyValue, indices: list[Any], span: Span) -> AnyValue:
    """`value[indices]`."""
    if isinstance(value, AppendedList | AppendProbe):
        return _of_growing(context, value, indices, span)
    if isinstance(value, Rows):
        return _of_items(context, value, indices, span)
    if isinstance(value, Masked) and is_selection(indices):
        return narrowed(context, value, indices[0], span)
    if isinstance(value, Masked) and len(indices) > 1 and indices[0] == ALL:
        return of_rows(context, value, indices, span, subscript)
    if isinstance(value, RaggedRows):
        return ragged.entry(context, value, indices, span, located)
    if isinstance(value, Row):
        return ragged.element(context, value, indices, span)
    if isinstance(value, Container):
        if issubclass(value.kind, Records) and not any(isinstance(i, str) for i in indices):
            rank = rank_of_structs(value)
            indices = _filled(context, indices, rank, span)
            if sum(1 for i in indices if i is not None) > rank:
                cause = f"{len(indices)} indices for a structured array of rank {rank}"
                context.fail(
                    OutOfRangeError, cause, span, "read a field: s[i].x[j]" if rank else "read a field"
                )
            return value.map(lambda part: subscript(context, part, indices, span))
        if not value.sequence:
            return _entry(context, value, indices, span)
        value = value.parts
    if isinstance(value, tuple) and not _indexes_array(value, indices):
        return _item(context, value, indices, span)
    value, indices = as_array(value), [as_array(i) for i in indices]
    if any(map(is_mask, indices)) and not isinstance(value, Masked):
        return selected(context, value, indices, span, subscript)
    if not isinstance(value, Value):
        remedy = instead_of(value, "index an array")
        context.fail(DtypeError, f"cannot index {describe(value)}", span, remedy)
    indices = _filled(context, indices, value.rank, span)
    used = sum(1 for i in indices if i is not None)
    if used > value.rank:
        remedy = f"use at most {value.rank}" if value.rank else "it is one number: remove the index"
        context.fail(OutOfRangeError, f"{used} indices for an array of rank {value.rank}", span, remedy)
    return _Subscript(context, value, indices + [ALL] * (value.rank - used), span).value()


def _of_growing(
    context: Context, value: AppendedList | AppendProbe, indices: list[Any], span: Span
) -> AnyValue:
    """An element of a list, in a loop that appends to it."""
    index = indices[0] if indices else None
    if not (isinstance(index, int) or (isinstance(index, Value) and not index.rank and index.dtype == "i64")):
        context.fail(DtypeError, "a list that a loop appends to is read as a whole", span, READ)
    if isinstance(value, AppendProbe):
        row = next(iter(value.kinds.values()), value.first)
        if row is None:  # a condition prevents reads before the first append
            row = Value((), Read(fresh("i64", ()), ()), weak=True)
        return subscript(context, row, indices[1:], span) if indices[1:] else row
    assert value.buffer is not None
    place = over(index, (), "i64")
    if isinstance(index, int) and index < 0:
        place = combine("add", value.count, place)
    sure, form = context.binders.sure, linear(place)
    if not (sure(form) and sure(linear(value.count) - form - linear_constant(1))):
        inside = apply("less_equal", ZERO, place), apply("less", place, value.count)
        context.binders.check(apply("logical_and", *inside), (), OUTSIDE, INSIDE, span)
    return subscript(context, value.buffer, [Value((), place), *indices[1:]], span)


def _filled(context: Context, indices: list[Any], rank: int, span: Span) -> list[Any]:
    """Indices with `...` replaced by a `:` per remaining axis."""
    places = [k for k, index in enumerate(indices) if index is ...]
    if len(places) > 1:
        context.fail(ParseError, "two '...' in one index", span, "write : for the axes of one of them")
    for k in places:
        missing = rank - sum(1 for i in indices if i is not None and i is not ...)
        return [*indices[:k], *[ALL] * missing, *indices[k + 1 :]]
    return indices


def _of_items(context: Context, value: Rows, indices: list[Any], span: Span) -> AnyValue:
    """An item of a list, or some items: each of its arrays is indexed."""
    if len(indices) != 1 or indices[0] is None or (isinstance(indices[0], Value) and indices[0].rank):
        context.fail(DtypeError, "a list is indexed by one integer, or by a slice", span, "write p[i].name")
    found = entries(value.part, lambda leaf: subscript(context, leaf, indices, span))
    return Rows.of(value.kind, found) if isinstance(indices[0], SliceValue) else found


def _indexes_array(value: tuple[Any, ...], indices: list[Any]) -> bool:
    """Whether a list is indexed as an array."""
    return as_array(value) is not value and not (len(indices) == 1 and isinstance(indices[0], int))


class _Subscript:
    """One subscript: the shape of its result, and the index of each axis of the value.

    Index arrays broadcast together; their axes take the place of the first one, or come first if other
    indices separate them, as in NumPy.
    """

    def __init__(self, context: Context, value: Value, indices: list[Any], span: Span) -> None:
        self.context, self.operand, self.indices, self.span = context, value, indices, span
        self.shape: list[Element] = []
        arrays = [i for i in indices if isinstance(i, Value) and i.rank]
        self.together = context.broadcast("the index arrays", arrays, span) if arrays else ()
        self.at = self.first() if arrays else -1
        self.places: dict[int, Element] = {}
        self.count: Element | None = None

    def first(self) -> int:
        """The position of the index whose place the axes of index arrays take; 0 if they come first."""
        advanced = [k for k, i in enumerate(self.indices) if i is not None and not isinstance(i, SliceValue)]
        return advanced[0] if advanced[-1] - advanced[0] + 1 == len(advanced) else 0

    def value(self) -> Value | Row:
        """The value of the subscript; a row if its length depends on outer indices."""
        axis = 0
        later: list[tuple[int, AnyValue, Element]] = []
        start = 0
        for k, index in enumerate(self.indices):
            if k == self.at:
                start = len(self.shape)
                self.shape.extend(self.together)
            if index is None:
                self.shape.append(ONE)
                continue
            size = self.context.sizes.find(self.operand.shape[axis])
            if isinstance(index, SliceValue):
                part = sliced(self.context, index, size, len(self.shape), self.span)
                if part.count is not None:
                    self.row(part.count)
                self.shape.append(part.length)
                self.places[axis] = ZERO if unit(size) else part.place
            else:
                later.append((axis, index, size))
            axis += 1
        shape = self.context.ranked(tuple(self.shape), self.span)
        for axis, index, size in later:
            place = self.place(index, size, start)
            self.places[axis] = ZERO if unit(size) else place
        found = Value(shape, substitute(self.operand.element, self.places), self.operand.weak)
        return found if self.count is None else ragged.cut(found, self.count)

    def row(self, count: Element) -> None:
        """The next axis has length `count`, which depends on enclosing indices."""
        if self.shape or self.count is not None:
            cause = "a slice whose length depends on outer indices must be the first index"
            self.context.fail(ShapeError, cause, self.span, "write x[:, 0][a:b], or x.T[a:b]")
        self.count = count

    def place(self, index: AnyValue, size: Element, start: int) -> Element:
        """The place that a single index reads, if it is not a slice."""
        if isinstance(index, int) and not isinstance(index, bool):
            return _fixed(self.context, index, size, self.span)
        if not isinstance(index, Value) or index.dtype != "i64":
            not_an_index(self.context, index, self.span)
        element = over(index, self.together if index.rank else (), "i64")
        moved = substitute(element, {k: Index(k + start) for k in range(len(self.together))})
        return located(self.context, moved, size, tuple(self.shape), self.span)


def not_an_index(context: Context, index: AnyValue, span: Span) -> NoReturn:
    """An array is indexed by something other than integers."""
    if isinstance(index, Masked):
        remedy = "read element by element: sum(x[k] for k in row)"
        context.fail(DtypeError, f"an index is {describe(index)}", span, remedy)
    remedy = "pass integers: annotate the parameter as i64, or use an int64 array"
    if isinstance(index, Value) and index.dtype == "bool":
        remedy = "the result's length would depend on values: use where(mask, x, 0) or a condition"
    elif isinstance(index, Value) and is_float(index.dtype) and not index.rank and _is_item(index.element):
        remedy = "to count, write for i in range(len(x)); elements of an int64 array can also be indices"
    context.fail(DtypeError, f"an index must be an integer, not {_kind(index)}", span, remedy)


def _is_item(element: Element) -> bool:
    """Whether an element is read from an array, directly or through a name."""
    while isinstance(element, Read) and isinstance(element.array, Map) and not element.args:
        element = element.array.body
    return isinstance(element, Read) and bool(element.args)


def stored(context: Context, array: AnyValue, indices: list[Any], value: AnyValue, span: Span) -> Value:
    """An array after `array[indices] = value`."""
    value, indices = as_array(value), [as_array(i) for i in indices]
    if not isinstance(array, Value) or not array.rank:
        context.fail(
            DtypeError, f"cannot assign to elements of {describe(array)}", span, "assign to an array"
        )
    kept, value = type_in_memory(array), as_stored(array, value)
    if isinstance(value, Masked):
        return selection_stored(context, array, indices, value, span)
    indices = _filled(context, indices, array.rank, span)
    if len(indices) > array.rank:
        remedy = f"use at most {array.rank}"
        context.fail(
            OutOfRangeError, f"{len(indices)} indices for an array of rank {array.rank}", span, remedy
        )
    if not (isinstance(value, Value) or is_number(value)):
        context.fail(DtypeError, f"cannot store {describe(value)}", span, "store numbers or arrays")
    dtype, weak = context.meet((array, value))
    if not is_float(array.dtype) and is_float(dtype):
        context.fail(
            DtypeError, f"a float in an array of {array.dtype}", span, "start from an array of floats"
        )
    if kept is not None:
        dtype, weak = kept, False
    if any(map(is_many, indices)):
        kind = Value((), const(0, dtype), weak)
        return scattered(context, array, indices, value, kind, located, span)
    guards: list[Element] = []
    shape: list[Element] = []
    places: dict[int, Element] = {}
    for k, index in enumerate(indices + [ALL] * (array.rank - len(indices))):
        size = context.sizes.find(array.shape[k])
        if isinstance(index, SliceValue):
            part = sliced(context, index, size, k, span)
            places[len(shape)] = _position(part.place, index, k, part.length, size, guards)
            shape.append(part.length)
        else:
            guards.append(apply("equal", ZERO if unit(size) else Index(k), _one(context, index, size, span)))
    whole_value = Value(tuple(shape), const(0, dtype))
    both = context.broadcast("the value stored", (whole_value, value), span)
    if [unit(n) for n in both] != [unit(n) for n in context.sizes.found(tuple(shape))]:
        context.fail(ShapeError, "the stored value does not fit the slice", span, "match the slice's shape")
    # The stored value is a separate array, so that later reads of it do not depend on `array`.
    element = over(value, tuple(shape), dtype)
    if isinstance(element, Apply | Select):
        element = context.binders.enclose(Map, tuple(shape), element)
    element = substitute(element, places)
    for guard in reversed(guards):
        element = select(guard, element, cast(array.element, dtype))
    return Value(array.shape, element, weak)


def _one(context: Context, index: AnyValue, size: Element, span: Span) -> Element:
    """A single index of a store."""
    if isinstance(index, int) and not isinstance(index, bool):
        return _fixed(context, index, size, span)
    if not isinstance(index, Value) or index.dtype != "i64" or index.rank:
        remedy = "store element by element in a loop" if isinstance(index, Value) else "write x[i] = v"
        context.fail(DtypeError, f"the index of a store must be an integer, not {_kind(index)}", span, remedy)
    return located(context, index.element, size, (), span)


def _position(
    place: Element, part: SliceValue, axis: int, length: Element, size: Element, guards: list[Element]
) -> Element:
    """The position in a slice of the element at `Index(axis)`; guards exclude elements outside the slice."""
    if part == ALL:
        return ZERO if unit(size) else Index(axis)
    step = 1 if part.step is None else part.step
    distance = combine("subtract", Index(axis), substitute(place, {axis: ZERO}))
    if step < 0:
        distance = combine("subtract", ZERO, distance)
    position = combine("floor_divide", distance, integer(abs(step)))
    guards.append(apply("less_equal", ZERO, distance))
    guards.append(apply("less", position, length))
    if abs(step) != 1:
        guards.append(apply("equal", apply("remainder", distance, integer(abs(step))), ZERO))
    return ZERO if unit(length) else position


def _kind(index: AnyValue) -> str:
    return f"{describe(index)} of {index.dtype}" if isinstance(index, Value) else describe(index)


def located(context: Context, index: Element, size: Element, shape: Shape, span: Span) -> Element:
    """The element to read for an index into an axis of length `size`: negative ones count from the end.

    Indices not proved to be inside are checked at the call: by lengths if these decide, otherwise by values.
    """
    form, length = linear(index), linear(size)
    index = form.element()
    binders = context.binders
    if not binders.path and (length - form).constant == 1:  # x[n - 1]
        _demand(context, size, ONE, "negative index", span)
        return index
    low, high = binders.sure(form, shape), binders.sure(length - form - linear_constant(1), shape)
    if not low:
        index = select(apply("less", index, ZERO), apply("add", index, size), index)
        low = binders.sure(form + length, shape)
    if low and high:
        return index
    if not binders.path and not index.axes and not is_computed(index):  # lengths alone decide
        _demand(context, size, combine("add", index, ONE), "index", span)
        if not low:
            _demand(context, size, combine("subtract", size, index), "negative index", span)
        return index
    least = lowest(length - form - linear_constant(1), binders.within(shape))
    if low and least is not None and not binders.path and not is_computed(least.element()):
        _demand(context, size, (length - least).element(), "index", span)
        return index
    inside = [] if low else [apply("less_equal", ZERO, index)]
    inside += [] if high else [apply("less", index, size)]
    holds = inside[0] if len(inside) == 1 else apply("logical_and", *inside)
    binders.check(holds, shape, OUTSIDE, INSIDE, span)
    return index


def _demand(context: Context, size: Element, least: Element, what: str, span: Span) -> None:
    """Require that an axis is `least` long, if the current code is reached at all."""
    reach = context.binders.reach()
    if reach is None:
        context.binders.check(apply("less_equal", least, size), (), OUTSIDE, INSIDE, span)
    elif not is_const(reach, 0):
        context.sizes.demand(size, least, what, span, None if is_const(reach) else reach)


def _item(context: Context, value: tuple[Any, ...], indices: list[Any], span: Span) -> AnyValue:
    if len(indices) == 1 and isinstance(indices[0], SliceValue):
        return _part(context, value, indices[0], span)
    if len(indices) == 1 and isinstance(indices[0], Value) and value and all(map(is_number, value)):
        return subscript(context, array(context, "an index", value, span), indices, span)
    if len(indices) != 1 or not isinstance(indices[0], int):
        remedy = "write t[0], or t[1:]; for a computed index make an array: np.array(t)[k]"
        context.fail(ParseError, "a tuple's index must be one integer known at compile time", span, remedy)
    if not -len(value) <= indices[0] < len(value):
        cause = f"index {indices[0]} of a tuple of {len(value)}"
        context.fail(OutOfRangeError, cause, span, f"use 0 to {len(value) - 1}")
    return value[indices[0]]


def _part(context: Context, value: tuple[Any, ...], part: SliceValue, span: Span) -> AnyValue:
    """A slice of a tuple with bounds known at compile time."""
    bounds = (part.start, part.stop, part.step)
    if any(isinstance(b, Value) for b in bounds) or step_of(context, part, span) == 0:
        cause = "the bounds of a slice of a tuple must be known at compile time"
        context.fail(ParseError, cause, span, "write t[1:], t[:-1]")
    return value[slice(*bounds)]


def _entry(context: Context, value: Container, indices: list[Any], span: Span) -> AnyValue:
    """The part of a dict under a key known at compile time."""
    if not issubclass(value.kind, dict | Records):
        context.fail(ParseError, f"{value.what} has no keys", span, "read a field as p.name")
    if len(indices) != 1 or not isinstance(indices[0], str):
        context.fail(ParseError, "a dict is indexed by a key in quotes", span, 'write p["name"]')
    if indices[0] not in value.keys:
        context.fail(
            OutOfRangeError,
            f"there is no key {indices[0]!r}",
            span,
            f"the keys are {', '.join(map(repr, value.keys))}" if value.keys else "the dict is empty",
        )
    return value.parts[value.keys.index(indices[0])]


def _fixed(context: Context, index: AnyValue, size: Element, span: Span) -> Element:
    """A single constant index; negative ones count from the end, and it must be inside the axis."""
    if not isinstance(index, int) or isinstance(index, bool):
        context.fail(
            ParseError, f"an index must be an integer known at compile time, not {describe(index)}", span,
            "use an array for computed indices",
        )  # fmt: skip
    need = index + 1 if index >= 0 else -index
    if is_const(size):
        if need > int(size.value) and context.binders.around:
            _demand(context, size, integer(need), f"index {index}", span)
        elif need > int(size.value):
            context.fail(
                OutOfRangeError, f"index {index} of an axis of length {size.value}", span, "use a smaller one"
            )
    else:
        _demand(context, size, integer(need), f"index {index}", span)
    return integer(index) if index >= 0 else combine("add", size, integer(index))
