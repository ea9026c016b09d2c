"""What the prelude cannot say in the language: functions that it alone knows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from adcompiler.errors import Span
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.rearranging import ZERO
from adcompiler.frontend.values.reductions import Mean, axes_of, count
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import AnyValue, Value
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


def integers(context: Context, x: AnyValue, span: Span) -> Value:
    """Whole floats as integers."""
    value = rearranging.array(context, "integers", x, span)
    return Value(value.shape, cast(value.element, "i64"))


def kind(context: Context, x: AnyValue, span: Span) -> str:
    """The type of elements: "f64", "f32", "i64" or "bool"."""
    return rearranging.array(context, "kind", x, span).dtype


def largest(context: Context, x: AnyValue, span: Span) -> float:
    """The largest number of a type of floats."""
    dtype = rearranging.array(context, "largest", x, span).dtype
    return float(np.finfo(NUMPY[dtype] if is_float(dtype) else np.float64).max)


INTRINSICS: Mapping[str, Builtin] = {
    "_at": builtin("_at", ("x", "place"), at),
    "_count": builtin("_count", ("x", "axis"), counted),
    "_integers": builtin("_integers", ("x",), integers),
    "_widened": builtin("_widened", ("x", "number"), widened),
    "_mean": builtin("_mean", ("total", "number", "terms"), mean_of),
    "_kind": builtin("_kind", ("x",), kind),
    "_largest": builtin("_largest", ("x",), largest),
}
