"""What the prelude cannot say in the language: functions that it alone knows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from itertools import pairwise

import numpy as np

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.indexing.subscripts import subscript
from adcompiler.frontend.library.moving import moveaxis
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.rearranging import ZERO
from adcompiler.frontend.values.reductions import Mean, axes_of, count
from adcompiler.frontend.values.scaled_norms import elementwise
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.slices import ALL, SliceValue
from adcompiler.frontend.values.values import AnyValue, FunctionValue, Value, as_written, describe, is_number
from adcompiler.ir.nodes import Element, Index
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import cast


def at(context: Context, x: AnyValue, place: AnyValue, span: Span) -> Value:
    """The elements at places along the last axis, which are inside it; the axes of the places come first."""
    x, place = (rearranging.array(context, "at", value, span) for value in (x, place))
    lead = place.rank
    moved: dict[int, Element] = {k: Index(k + lead) for k in range(x.rank - 1)}
    moved[x.rank - 1] = ZERO if unit(context.sizes.find(x.shape[-1])) else place.element
    return Value((*place.shape, *x.shape[:-1]), substitute(x.element, moved), x.weak)


def mean_of(context: Context, total: AnyValue, number: AnyValue, terms: AnyValue, span: Span) -> AnyValue:
    """A total divided by a number; NaN without derivatives if there are no terms."""
    return Mean(context, terms, span).of(total, number)


def counted(context: Context, x: AnyValue, axis: AnyValue, span: Span) -> Value:
    """The number of elements that a reduction over some axes combines."""
    value = rearranging.array(context, "count", x, span)
    return count(context, value, axes_of(context, axis, span), span)


def widened(context: Context, x: AnyValue, number: int, span: Span) -> Value:
    """The array with more axes of length 1 behind its own."""
    value = rearranging.array(context, "widened", x, span)
    return Value((*value.shape, *(ONE,) * number), value.element, value.weak)


def flat(context: Context, x: AnyValue, axis: AnyValue, span: Span) -> Value:
    """The array with some axes, or all of them, as one that comes last."""
    value = rearranging.array(context, "flat", x, span)
    gone = context.normalise(axes_of(context, axis, span), value.rank, span)
    kept = tuple(k for k in range(value.rank) if k not in gone)
    last = rearranging.transpose(context, value, (*kept, *gone), span)
    if len(gone) == 1:
        return last
    lengths = [Value((), context.sizes.find(value.shape[k]), weak=True) for k in gone]
    one = reduce(lambda a, b: context.elementwise("multiply", (a, b), span), lengths, 1)
    outer = [Value((), context.sizes.find(value.shape[k]), weak=True) for k in kept]
    return rearranging.reshape(context, last, [*outer, -1 if not kept else one], span)


def kept(context: Context, found: AnyValue, x: AnyValue, axis: AnyValue, lead: int, span: Span) -> AnyValue:
    """A reduced array with axes of length 1 where x had others, behind a number of new ones."""
    gone = {lead + k for k in context.normalise(axes_of(context, axis, span), x.rank, span)}
    value = rearranging.array(context, "kept", found, span)
    return subscript(
        context, value, [None if k in gone else ALL for k in range(value.rank + len(gone))], span
    )


def integers(context: Context, x: AnyValue, span: Span) -> Value:
    """Whole floats as integers."""
    value = rearranging.array(context, "integers", x, span)
    return Value(value.shape, cast(value.element, "i64"))


def rank(context: Context, x: AnyValue, span: Span) -> int:
    """The number of axes of an array or number."""
    return rearranging.array(context, "rank", x, span).rank


def is_whole(context: Context, x: AnyValue, span: Span) -> bool:
    """Whether a number is an integer known at compile time."""
    return isinstance(x, int) and not isinstance(x, bool)


def has_rows(context: Context, x: AnyValue, span: Span) -> bool:
    """Whether a value is one vector or matrix, whose rows are several arrays."""
    return isinstance(x, Value) and 0 < x.rank < 3


def known(context: Context, x: AnyValue, number: AnyValue, span: Span) -> bool:
    """Whether a value is this number at compile time."""
    return is_number(x) and x == number


def unstacked(context: Context, x: AnyValue, number: int, span: Span) -> tuple[AnyValue, ...]:
    """The rows of an array with a known number of rows."""
    return tuple(subscript(context, x, [k], span) for k in range(number))


def cut(context: Context, x: AnyValue, places: AnyValue, span: Span) -> tuple[AnyValue, ...]:
    """The parts of an array between positions of its first axis."""
    if not isinstance(places, tuple):
        remedy = "write the positions as a list, such as [2, 5]"
        context.fail(ParseError, f"the positions are {describe(places)}", span, remedy)
    ends = [None, *(as_written(places)), None]
    return tuple(subscript(context, x, [SliceValue(a, b, None)], span) for a, b in pairwise(ends))


def places(context: Context, length: AnyValue, number: int, span: Span) -> tuple[AnyValue, ...]:
    """Positions that cut a length into a number of parts, the first ones longer by one."""
    do = partial(elementwise, context, span)
    short, more = do("floor_divide", length, number), do("remainder", length, number)
    return tuple(do("add", do("multiply", short, k), do("minimum", more, k)) for k in range(1, number))


def moved_parts(context: Context, parts: AnyValue, axis: int, span: Span) -> tuple[AnyValue, ...]:
    """Arrays with their first axis moved."""
    return tuple(moveaxis(context, part, 0, axis, span) for part in parts)


def selected(
    context: Context, conditions: AnyValue, choices: AnyValue, default: AnyValue, span: Span
) -> AnyValue:
    """The first choice whose condition holds."""
    pairs = [as_written(x) for x in (conditions, choices)]
    if not all(isinstance(x, tuple | list) for x in pairs) or len(pairs[0]) != len(pairs[1]):
        remedy = "write select([c, d], [x, y], default)"
        context.fail(ShapeError, "select takes as many choices as conditions", span, remedy)
    found = default
    for condition, choice in reversed(list(zip(*pairs, strict=True))):
        found = context.where(condition, choice, found, span)
    return found


def each(context: Context, arrays: AnyValue, function: FunctionValue, span: Span) -> tuple[AnyValue, ...]:
    """A function of each of several arrays, in a tuple or a list."""
    several, name = as_written(arrays), context.blame.name
    if not isinstance(several, tuple | list) or not several:
        context.fail(ParseError, f"{name} takes a tuple of arrays", span, f"write {name}((a, b))")
    values = [rearranging.array(context, name, x, span) for x in several]
    return tuple(context.invoke(function, [value], {}, span) for value in values)


def kind(context: Context, x: AnyValue, span: Span) -> str:
    """The type of elements: "f64", "f32", "i64" or "bool"."""
    return rearranging.array(context, "kind", x, span).dtype


def largest(context: Context, x: AnyValue, span: Span) -> float:
    """The largest number of a type of floats."""
    dtype = rearranging.array(context, "largest", x, span).dtype
    return float(np.finfo(NUMPY[dtype] if is_float(dtype) else np.float64).max)


INTRINSICS: Mapping[str, Builtin] = {
    "_rank": builtin("_rank", ("x",), rank),
    "_is_whole": builtin("_is_whole", ("x",), is_whole),
    "_has_rows": builtin("_has_rows", ("x",), has_rows),
    "_known": builtin("_known", ("x", "number"), known),
    "_unstacked": builtin("_unstacked", ("x", "number"), unstacked),
    "_cut": builtin("_cut", ("x", "places"), cut),
    "_places": builtin("_places", ("length", "number"), places),
    "_moved_parts": builtin("_moved_parts", ("parts", "axis"), moved_parts),
    "_select": builtin("_select", ("conditions", "choices", "default"), selected),
    "_each": builtin("_each", ("arrays", "function"), each),
    "_at": builtin("_at", ("x", "place"), at),
    "_count": builtin("_count", ("x", "axis"), counted),
    "_flat": builtin("_flat", ("x", "axis"), flat),
    "_kept": builtin("_kept", ("found", "x", "axis", "lead"), kept),
    "_integers": builtin("_integers", ("x",), integers),
    "_widened": builtin("_widened", ("x", "number"), widened),
    "_mean": builtin("_mean", ("total", "number", "terms"), mean_of),
    "_kind": builtin("_kind", ("x",), kind),
    "_largest": builtin("_largest", ("x",), largest),
}
