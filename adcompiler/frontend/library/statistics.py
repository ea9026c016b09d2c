"""Statistical functions built from sums and extrema: averages, covariances, softmax, sums by groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.indexing.subscripts import not_an_index, subscript
from adcompiler.frontend.library.moving import one_axis, squeeze
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import (
    Builtin,
    bind_arguments,
    builtins,
    known_integer,
)
from adcompiler.frontend.values.open_axes import open_axes
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import ZERO
from adcompiler.frontend.values.reductions import Mean, axes_of, count, mean
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.slices import ALL
from adcompiler.frontend.values.values import AnyValue, Value, describe
from adcompiler.ir.nodes import Accumulate, Element, Index, Read, const, identity
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply


def flag(context: Context, name: str, value: AnyValue, span: Span) -> bool:
    """An argument that must be True or False at compile time."""
    if not (value is None or isinstance(value, bool)):
        context.fail(ParseError, f"{name} must be True or False", span, f"write {name}=True")
    return bool(value)


# -- averages ------------------------------------------------------------------------------------------


def average(
    context: Context, x: AnyValue, axis: AnyValue, weights: AnyValue, keepdims: AnyValue, span: Span
) -> AnyValue:
    """The mean, optionally with weights of the array's shape, or one per entry of the axis."""
    value, keeps = rearranging.array(context, "average", x, span), flag(context, "keepdims", keepdims, span)
    axes = axes_of(context, axis, span)
    if weights is None:
        return mean(context, value, axes, keeps, span)
    by = rearranging.array(context, "average", weights, span)
    if by.rank == 1 and value.rank > 1:
        along = one_axis(context, axis, value.rank, span)
        by = subscript(context, by, [ALL] + [None] * (value.rank - 1 - along), span)
        by = Value((const(1, "i64"),) * along + by.shape, rearranging.behind(by.element, along), by.weak)
    elif by.rank != value.rank:
        cause = f"average: weights of rank {by.rank} for {describe(value)}"
        context.fail(ShapeError, cause, span, "pass a weight for each element, or for each entry of the axis")
    by = context.elementwise("multiply", (by, Value(value.shape, const(1, "i64"), weak=True)), span)
    total = context.reduce("sum", context.elementwise("multiply", (value, by), span), axes, keeps, span)
    terms = count(context, value, axes, span)
    return Mean(context, terms, span).of(total, context.reduce("sum", by, axes, keeps, span))


def cov(
    context: Context, m: AnyValue, y: AnyValue, rowvar: AnyValue, bias: AnyValue, ddof: AnyValue, span: Span
) -> AnyValue:
    """The covariances of variables, whose observations are rows (columns for rowvar=False)."""
    rows = [_rows(context, x, rowvar is not False, span) for x in (m, y) if x is not None]
    value = rearranging.join(context, rows, 0, span) if len(rows) > 1 else rows[0]
    less = known_integer(context, "ddof", ddof, 0 if flag(context, "bias", bias, span) else 1, span)
    centred = context.elementwise("subtract", (value, mean(context, value, (1,), True, span)), span)
    products = rearranging.matmul(context, centred, rearranging.transpose(context, centred, None, span), span)
    n = Value((), context.sizes.find(value.shape[1]), weak=True)
    free = context.elementwise("maximum", (context.elementwise("subtract", (n, less), span), 0), span)
    return squeeze(context, Mean(context, n, span).of(products, free), None, span)


def _rows(context: Context, x: AnyValue, in_rows: bool, span: Span) -> Any:
    """Observations as a matrix with one row per variable."""
    value = rearranging.array(context, "cov", x, span)
    if value.rank > 2:
        context.fail(
            ShapeError, f"cov takes a vector or a matrix, not {describe(value)}", span, "use a slice"
        )
    if value.rank == 2:
        return value if in_rows else rearranging.transpose(context, value, None, span)
    return subscript(context, value, [None] * (2 - value.rank) + [ALL] * value.rank, span)


# -- softmax -------------------------------------------------------------------------------------------


def _softmax(name: str) -> Builtin:
    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        x, axis = bind_arguments(context, name, ("x", "axis"), args, keywords, span, 1)
        value = rearranging.array(context, name, x, span)
        if value.rank > 1 and len(args) < 2 and "axis" not in keywords:
            cause = f"{name} of {describe(value)} without an axis"
            remedy = "write axis=-1 for each row, or axis=None for all elements together, as in SciPy"
            context.fail(ParseError, cause, span, remedy)
        axes = axes_of(context, axis, span)
        # floor has no derivative, and subtracting a number from all elements does not change the result
        top = context.reduce("max", context.elementwise("multiply", (value, 1.0), span), axes, True, span)
        less = context.elementwise("subtract", (value, context.elementwise("floor", (top,), span)), span)
        powers = context.elementwise("exp", (less,), span)
        total = context.reduce("sum", powers, axes, True, span)
        if name == "softmax":
            return context.elementwise("divide", (powers, total), span)
        return context.elementwise("subtract", (less, context.elementwise("log", (total,), span)), span)

    return call


# -- sums by groups ------------------------------------------------------------------------------------


def bincount(
    context: Context, x: AnyValue, weights: AnyValue, minlength: AnyValue, length: AnyValue, span: Span
) -> AnyValue:
    """The number of occurrences of each integer below a length, or the sums of its weights."""
    groups = rearranging.array(context, "bincount", x, span)
    if minlength is None and length is None:
        cause = "bincount: the length of the result would depend on values"
        context.fail(ShapeError, cause, span, "write bincount(x, minlength=n), with all of x below n")
    given = const(1, "i64") if weights is None else None
    data = Value(groups.shape, given) if given else rearranging.array(context, "bincount", weights, span)
    size = minlength if length is None else length
    return _by_groups(context, "bincount", data, groups, size, span)


def segment_sum(
    context: Context, data: AnyValue, segment_ids: AnyValue, num_segments: AnyValue, span: Span
) -> AnyValue:
    """The sums of rows by group: row k of the result sums the rows of group k."""
    value = rearranging.array(context, "segment_sum", data, span)
    groups = rearranging.array(context, "segment_sum", segment_ids, span)
    return _by_groups(context, "segment_sum", value, groups, num_segments, span)


def _by_groups(
    context: Context, name: str, data: Value, groups: Value, length: AnyValue, span: Span
) -> AnyValue:
    if groups.dtype != "i64":
        not_an_index(context, groups, span)
    if groups.rank != 1 or not data.rank:
        context.fail(
            ShapeError, f"{name} takes a vector of integers and as many entries", span, "use ravel(x)"
        )
    if data.dtype == "bool":
        data = context.elementwise("multiply", (data, 1), span)
    rows, size = context.sizes.find(groups.shape[0]), rearranging.axis_length(context, length, span)
    what = f"{name}: the entries and their groups"
    if not context.sizes.merge(rows, data.shape[0], what, span, "pass a group for each entry"):
        context.fail(ShapeError, f"{what} differ in length", span, "pass a group for each entry")
    place = groups.element
    inside = apply("logical_and", apply("less_equal", ZERO, place), apply("less", place, size))
    remedy = "groups count from 0 and must be below the length of the result"
    context.binders.check(inside, (rows,), f"{name}: a group is out of range", remedy, span)
    shape = (size, *data.shape[1:])
    return Value(shape, _added(context, shape, (rows, *data.shape[1:]), place, data.element), data.weak)


def _added(
    context: Context, shape: tuple[Element, ...], domain: tuple[Element, ...], place: Element, body: Element
) -> Element:
    """A read of an array to whose row `place` each row of the domain is added."""
    lead = sorted({*open_axes(place), *open_axes(body)}, reverse=True)
    outer = tuple(context.binders.lengths[a] for a in lead)
    moved: dict[int, Element] = {k: Index(k + len(lead)) for k in range(len(domain))}
    moved |= {a: Index(p) for p, a in enumerate(lead)}
    whole = outer + domain
    spots = [*identity(outer), substitute(place, moved)]
    spots += [rearranging.own_index(n, len(outer) + 1 + k) for k, n in enumerate(domain[1:])]
    spots = [ZERO if unit(n) else i for i, n in zip(spots, outer + shape, strict=True)]
    made = Accumulate(outer + shape, whole, tuple(spots), substitute(body, moved))
    return Read(made, tuple(Index(a) for a in lead) + identity(shape))


STATISTICS: Mapping[str, Builtin] = builtins(
    {
        "average": (("x", "axis", "weights", "keepdims"), average, 3),
        "cov": (("m", "y", "rowvar", "bias", "ddof"), cov, 4),
        "bincount": (("x", "weights", "minlength", "length"), bincount, 3),
        "segment_sum": (("data", "segment_ids", "num_segments"), segment_sum, 0),
    }
) | {name: _softmax(name) for name in ("softmax", "log_softmax")}
