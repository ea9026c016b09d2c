"""NumPy functions that only move elements, as index expressions: stacks, repeats, rolls, flips, gathers."""

from __future__ import annotations

from collections.abc import Mapping

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.indexing.subscripts import located, not_an_index, subscript
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin, builtins
from adcompiler.frontend.values.operations import ONE, Context, over
from adcompiler.frontend.values.rearranging import ZERO, combine
from adcompiler.frontend.values.reductions import axes_of
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.slices import ALL, SliceValue
from adcompiler.frontend.values.values import AnyValue, Value, as_array, describe, is_number
from adcompiler.ir.nodes import Element, Index, const, is_const, select
from adcompiler.ops.build import apply, cast

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
WIDTHS = "write pad(x, 1), pad(x, (before, after)) or one such pair for each axis"
Widths = tuple[Element, Element]


def pad(
    context: Context, x: AnyValue, pad_width: AnyValue, mode: AnyValue, constant_values: AnyValue, span: Span
) -> Value:
    """The array with `pad_width` elements before and after each axis."""
    value = rearranging.array(context, "pad", x, span)
    mode = "constant" if mode is None else mode
    if mode not in MODES:
        context.fail(ParseError, f"pad has no mode {mode!r}", span, f"the modes are {', '.join(MODES)}")
    if constant_values is not None and mode != "constant":
        cause = f"pad: constant_values with the mode {mode!r}"
        context.fail(ParseError, cause, span, 'omit it, or write mode="constant"')
    fill = 0 if constant_values is None else constant_values
    if not is_number(fill) and not (isinstance(fill, Value) and not fill.rank):
        context.fail(
            ParseError, "constant_values must be one number", span, "pass one number, or use concatenate"
        )
    for axis, width in enumerate(_widths(context, value.rank, pad_width, span)):
        if not all(is_const(n, 0) for n in width):
            value = _along(context, value, axis, width, mode, fill, span)
    return value


def _widths(context: Context, rank: int, given: AnyValue, span: Span) -> list[Widths]:
    """A width before and after each axis, broadcast as in NumPy."""
    pairs = given if isinstance(given, tuple) else (given,)
    if not any(isinstance(one, tuple) for one in pairs):
        pairs = (tuple(pairs),)
    pairs = tuple(
        tuple(one) * (2 if len(one) == 1 else 1) if isinstance(one, tuple) else (one, one) for one in pairs
    )
    pairs = pairs * rank if len(pairs) == 1 else pairs
    if len(pairs) != rank or any(len(one) != 2 for one in pairs):
        context.fail(ShapeError, f"pad: these widths do not fit {rank} axes", span, WIDTHS)
    before, behind = ([rearranging.axis_length(context, one[k], span) for one in pairs] for k in (0, 1))
    return list(zip(before, behind, strict=True))


def _along(
    context: Context, x: Value, axis: int, width: Widths, mode: str, fill: AnyValue, span: Span
) -> Value:
    """The array padded along one axis."""
    n = context.sizes.find(x.shape[axis])
    length = combine("add", combine("add", n, width[0]), width[1])
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    if mode != "constant" and not is_const(n):
        context.sizes.demand(n, ONE, f"pad with {mode!r} of an empty axis", span)
    at = combine("subtract", ZERO if unit(length) else Index(axis), width[0])

    def read(index: Element) -> Element:
        places = rearranging.axes_of(Value(shape, x.element))
        places[axis] = ZERO if unit(n) else index
        return rearranging.moved(x, shape, places).element

    if mode == "constant":
        dtype, weak = context.meet((x, fill))
        dtype = x.dtype if not x.weak else dtype
        filled = cast(fill.element, dtype) if isinstance(fill, Value) else const(fill, dtype)
        inside = apply("logical_and", apply("greater_equal", at, ZERO), apply("less", at, n))
        return Value(shape, select(inside, cast(read(at), dtype), filled), x.weak and weak)
    if mode == "edge":
        last = combine("subtract", n, ONE)
        element = select(apply("less", at, n), read(at), read(last))
        return Value(shape, select(apply("less", at, ZERO), read(ZERO), element), x.weak)
    return Value(shape, read(_folded(mode, at, n)), x.weak)


def _folded(mode: str, at: Element, n: Element) -> Element:
    """The index that an index outside maps to, in modes that mirror or repeat the array."""
    if mode == "wrap":
        return apply("remainder", at, n)
    ends = 1 if mode == "symmetric" else 0  # whether the last element comes twice
    period = combine(
        "subtract", combine("multiply", n, rearranging.integer(2)), rearranging.integer(2 - 2 * ends)
    )
    period = combine("maximum", period, ONE)
    place = apply("remainder", at, period)
    back = combine("subtract", combine("subtract", period, rearranging.integer(ends)), place)
    return select(apply("less", place, n), place, back)


def one_axis(context: Context, axis: AnyValue, rank: int, span: Span) -> int:
    """A single axis known at compile time, counted from 0."""
    axes = axes_of(context, axis, span)
    if axes is None or len(axes) != 1:
        context.fail(ParseError, "one axis is needed", span, "write axis=0")
    return context.normalise(axes, rank, span)[0]


def flat_or_along(context: Context, x: Value, axis: AnyValue, span: Span) -> tuple[Value, int]:
    """The array and the axis that a function works along; without an axis, all elements in row-major
    order."""
    if axis is None:
        return (x if x.rank == 1 else rearranging.reshape(context, x, (-1,), span)), 0
    return x, one_axis(context, axis, x.rank, span)


def replaced(x: Value, axis: int, length: Element, index: Element) -> Value:
    """The array with another length along an axis, read at `index` there."""
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    places = rearranging.axes_of(Value(shape, x.element))
    places[axis] = ZERO if unit(x.shape[axis]) else index
    return rearranging.moved(x, shape, places)


# -- one after the other -------------------------------------------------------------------------------


def _ranked(context: Context, x: Value, rank: int, span: Span) -> AnyValue:
    """An array padded to `rank` with leading axes of length 1."""
    return subscript(context, x, [None] * max(rank - x.rank, 0) + [ALL] * x.rank, span)


# -- the parts of real numbers -------------------------------------------------------------------------


def real(context: Context, x: AnyValue, span: Span) -> AnyValue:
    """The real part and the conjugate, which equal a real number."""
    return x if is_number(x) else rearranging.array(context, "real", x, span)


def imag(context: Context, x: AnyValue, span: Span) -> AnyValue:
    """The imaginary part: 0 for real numbers."""
    if is_number(x):
        return type(x)(0)
    value = rearranging.array(context, "imag", x, span)
    return Value(value.shape, const(0, value.dtype), value.weak)


# -- again and again -----------------------------------------------------------------------------------


def tile(context: Context, x: AnyValue, reps: AnyValue, span: Span) -> Value:
    """The array repeated along its axes; missing leading counts are 1."""
    value = rearranging.array(context, "tile", x, span)
    counts = reps if isinstance(reps, tuple) else (reps,)
    times = [rearranging.axis_length(context, n, span) for n in counts]
    value = _ranked(context, value, len(times), span)
    times = [ONE] * (value.rank - len(times)) + times
    for axis, count in enumerate(times):
        if not unit(count):
            n = context.sizes.find(value.shape[axis])
            length = _times(context, "tile", n, count, span)
            value = replaced(value, axis, length, apply("remainder", Index(axis), n))
    return value


def repeat(context: Context, x: AnyValue, repeats: AnyValue, axis: AnyValue, span: Span) -> Value:
    """Each element of an axis repeated a given number of times."""
    value, along = flat_or_along(
        context, _ranked(context, rearranging.array(context, "repeat", x, span), 1, span), axis, span
    )
    if isinstance(as_array(repeats), Value) and as_array(repeats).rank:
        cause = "repeat with an array: the length of the result would depend on values"
        remedy = "repeat by one number, or gather with indices computed before the call: x[idx]"
        context.fail(ShapeError, cause, span, remedy)
    count = rearranging.axis_length(context, repeats, span)
    n = _times(context, "repeat", context.sizes.find(value.shape[along]), count, span)
    return replaced(value, along, n, combine("floor_divide", rearranging.own_index(n, along), count))


def _times(context: Context, name: str, length: Element, count: Element, span: Span) -> Element:
    """A length, `count` times; the product is an int64."""
    product = combine("multiply", length, count)
    cause = f"{name}: the result has more than 2**63 elements"
    rearranging.no_overflow(context, (length, count), product, cause, "pass fewer repetitions", span)
    return product


# -- axes ----------------------------------------------------------------------------------------------


def squeeze(context: Context, x: AnyValue, axis: AnyValue, span: Span) -> Value:
    """Remove axes of length 1: those named by `axis`, otherwise those known to have length 1."""
    value = rearranging.array(context, "squeeze", x, span)
    lengths = [context.sizes.find(n) for n in value.shape]
    axes = axes_of(context, axis, span)
    gone = (
        [k for k, n in enumerate(lengths) if unit(n) or n in context.sizes.single]
        if axes is None
        else context.normalise(axes, value.rank, span)
    )
    for k in gone:
        if not context.sizes.merge(
            lengths[k], ONE, f"squeeze: axis {k}", span, "only axes of length 1 can be removed"
        ):
            cause = f"squeeze of axis {k}, whose length is {context.sizes.describe(lengths[k])}"
            context.fail(ShapeError, cause, span, "only axes of length 1 can be removed")
    kept = [k for k in range(value.rank) if k not in gone]
    shape = tuple(value.shape[k] for k in kept)
    own = rearranging.axes_of(Value(shape, value.element))
    return rearranging.moved(
        value, shape, [own[kept.index(k)] if k in kept else ZERO for k in range(value.rank)]
    )


def expand_dims(context: Context, x: AnyValue, axis: AnyValue, span: Span) -> AnyValue:
    """Add axes of length 1 at the positions `axis` of the result."""
    value = rearranging.array(context, "expand_dims", x, span)
    axes = axes_of(context, axis, span) or ()
    new = context.normalise(axes, value.rank + len(axes), span)
    return subscript(context, value, [None if k in new else ALL for k in range(value.rank + len(axes))], span)


def moveaxis(context: Context, x: AnyValue, source: AnyValue, destination: AnyValue, span: Span) -> Value:
    """Axes moved to other places; the others keep their order."""
    value = rearranging.array(context, "moveaxis", x, span)
    pairs = []
    for given in (source, destination):
        axes = axes_of(context, given, span) or ()
        context.normalise(axes, value.rank, span)
        pairs.append([a % value.rank for a in axes])
    if len(pairs[0]) != len(pairs[1]):
        context.fail(
            ParseError, "moveaxis: one destination per axis", span, "write moveaxis(x, (0, 1), (1, 0))"
        )
    order = [k for k in range(value.rank) if k not in pairs[0]]
    for place, axis in sorted(zip(pairs[1], pairs[0], strict=True)):
        order.insert(place, axis)
    return rearranging.transpose(context, value, tuple(order), span)


def swapaxes(context: Context, x: AnyValue, axis1: AnyValue, axis2: AnyValue, span: Span) -> Value:
    """Two axes exchanged."""
    value = rearranging.array(context, "swapaxes", x, span)
    first, second = (one_axis(context, a, value.rank, span) for a in (axis1, axis2))
    order = list(range(value.rank))
    order[first], order[second] = second, first
    return rearranging.transpose(context, value, tuple(order), span)


def matrix_transpose(context: Context, x: Value, span: Span) -> Value:
    """The last two axes exchanged."""
    if x.rank < 2:
        cause = f"mT exchanges the last two axes, and {context.operand(x)} has {x.rank}"
        context.fail(ShapeError, cause, span, "give it two axes, as in x[None, :].mT")
    return swapaxes(context, x, -2, -1, span)


def broadcast_to(context: Context, x: AnyValue, shape: AnyValue, span: Span) -> Value:
    """The array broadcast to a shape."""
    value = rearranging.array(context, "broadcast_to", x, span)
    given = shape if isinstance(shape, tuple) else (shape,)
    lengths = context.ranked(tuple(rearranging.axis_length(context, n, span) for n in given), span)
    if value.rank > len(lengths):
        cause = f"broadcast_to: {describe(value)} has more than {len(lengths)} axes"
        context.fail(ShapeError, cause, span, "give a length for each axis")
    offset = len(lengths) - value.rank
    for k, n in enumerate(value.shape):
        own, wanted = context.sizes.find(n), lengths[k + offset]
        what = f"broadcast_to: axis {k} of {context.operand(value)}"
        if not unit(own) and not context.sizes.merge(own, wanted, what, span):
            cause = f"{what} has the length {context.sizes.describe(n)}, not {context.sizes.describe(wanted)}"
            context.fail(ShapeError, cause, span, "lengths must be equal or 1")
    return Value(lengths, over(value, lengths, value.dtype), value.weak)


# -- order along an axis -------------------------------------------------------------------------------


def roll(context: Context, x: AnyValue, shift: AnyValue, axis: AnyValue, span: Span) -> Value:
    """Elements shifted cyclically along axes."""
    value = rearranging.array(context, "roll", x, span)
    if axis is None:
        rolled = roll(context, rearranging.reshape(context, value, (-1,), span), shift, 0, span)
        lengths = [Value((), context.sizes.find(n), weak=True) for n in value.shape]
        return rearranging.reshape(context, rolled, lengths, span) if value.rank != 1 else rolled
    axes = axes_of(context, axis, span) or ()
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        context.fail(ShapeError, "roll: one shift per axis", span, "write roll(x, (1, 2), axis=(0, 1))")
    for by, one in zip(shifts, axes, strict=True):
        value = _rolled(context, value, by, one_axis(context, one, value.rank, span), span)
    return value


def _rolled(context: Context, x: Value, shift: AnyValue, axis: int, span: Span) -> Value:
    """Two reads at a constant distance, so that the gradient also consists of two reads."""
    n = context.sizes.find(x.shape[axis])
    if unit(n):
        return x
    by = _shift(context, shift, span)
    if is_const(by, -1):
        by = combine("subtract", n, const(1, "i64"))
    elif not is_const(by, 1):  # a shift by 1 is right for any length
        by = apply("remainder", by, n)
    index = combine("subtract", Index(axis), by)
    kept, entered = (replaced(x, axis, n, i).element for i in (index, combine("add", index, n)))
    return Value(x.shape, select(apply("less", Index(axis), by), entered, kept), x.weak)


def _shift(context: Context, value: AnyValue, span: Span) -> Element:
    """An integer as an element: a constant, or one known only at the call."""
    if isinstance(value, int) and not isinstance(value, bool):
        return rearranging.integer(value)
    if isinstance(value, Value) and not value.rank and value.dtype == "i64":
        return value.element
    cause = f"the shift of roll must be an integer, not {describe(value)}"
    context.fail(ParseError, cause, span, "annotate it as i64")


def flip(context: Context, x: AnyValue, axis: AnyValue, span: Span) -> AnyValue:
    """Elements in reverse order along axes; all axes without `axis`."""
    value = rearranging.array(context, "flip", x, span)
    along = context.normalise(axes_of(context, axis, span), value.rank, span)
    back = SliceValue(None, None, -1)
    return subscript(context, value, [back if k in along else ALL for k in range(value.rank)], span)


# -- gathers -------------------------------------------------------------------------------------------


def take(
    context: Context, x: AnyValue, indices: AnyValue, axis: AnyValue, mode: AnyValue, span: Span
) -> AnyValue:
    """The elements of an axis at integer indices; without an axis, of all elements in row-major order."""
    value, along = flat_or_along(context, rearranging.array(context, "take", x, span), axis, span)
    if mode not in (None, "raise", "wrap", "clip"):
        context.fail(
            ParseError, f"take has no mode {mode!r}", span, 'the modes are "raise", "wrap" and "clip"'
        )
    places = as_array(indices)
    length = Value((), context.sizes.find(value.shape[along]), weak=True)
    if mode == "wrap":
        places = context.elementwise("remainder", (places, length), span)
    elif mode == "clip":
        last = context.elementwise("subtract", (length, 1), span)
        places = context.elementwise("clip", (places, 0, last), span)
    return subscript(context, value, [ALL] * along + [places], span)


def take_along_axis(context: Context, x: AnyValue, indices: AnyValue, axis: AnyValue, span: Span) -> Value:
    """For each point of `indices`, the element at that index along an axis; other axes broadcast."""
    value, along = flat_or_along(context, rearranging.array(context, "take_along_axis", x, span), axis, span)
    places = rearranging.array(context, "take_along_axis", indices, span)
    if places.dtype != "i64":
        not_an_index(context, places, span)
    if places.rank != value.rank:
        cause = f"take_along_axis: {describe(places)} for {describe(value)}"
        context.fail(ShapeError, cause, span, "give the indices as many axes as the array has")
    others = Value((*value.shape[:along], ONE, *value.shape[along + 1 :]), value.element)
    shape = context.broadcast("take_along_axis", (others, places), span)
    size = context.sizes.find(value.shape[along])
    at: list[Element] = [rearranging.own_index(n, k) for k, n in enumerate(value.shape)]
    place = located(context, over(places, shape, "i64"), size, shape, span)
    at[along] = ZERO if unit(size) else place
    return rearranging.moved(value, shape, at)


# -- arrays shaped like another ------------------------------------------------------------------------


def _like(name: str, number: float) -> Builtin:
    def operation(context: Context, x: AnyValue, span: Span) -> Value:
        return full_like(context, x, number, span)

    return builtin(name, ("x",), operation)


def full_like(context: Context, x: AnyValue, value: AnyValue, span: Span) -> Value:
    """A number broadcast to the shape and type of an array."""
    like = rearranging.array(context, "full_like", x, span)
    filled = rearranging.array(context, "full_like", value, span)
    if filled.rank:
        context.fail(ShapeError, "full_like takes one number", span, "write broadcast_to(v, x.shape)")
    return Value(like.shape, cast(filled.element, like.dtype), like.weak)


MOVING: Mapping[str, Builtin] = builtins(
    {
        **dict.fromkeys(("real", "conj", "conjugate"), (("x",), real, 0)),
        "imag": (("x",), imag, 0),
        "tile": (("x", "reps"), tile, 0),
        "repeat": (("x", "repeats", "axis"), repeat, 1),
        "squeeze": (("x", "axis"), squeeze, 1),
        "expand_dims": (("x", "axis"), expand_dims, 0),
        "moveaxis": (("x", "source", "destination"), moveaxis, 0),
        "swapaxes": (("x", "axis1", "axis2"), swapaxes, 0),
        "broadcast_to": (("x", "shape"), broadcast_to, 0),
        "roll": (("x", "shift", "axis"), roll, 1),
        "flip": (("x", "axis"), flip, 1),
        "take": (("x", "indices", "axis", "mode"), take, 2),
        "take_along_axis": (("x", "indices", "axis"), take_along_axis, 1),
        "pad": (("x", "pad_width", "mode", "constant_values"), pad, 2),
        "full_like": (("x", "fill_value"), full_like, 0),
    }
) | {
    name: _like(name, number)
    for name, number in (("zeros_like", 0.0), ("ones_like", 1.0), ("empty_like", 0.0))
}
