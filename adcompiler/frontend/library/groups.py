"""Sums by groups: `bincount` and `segment_sum`."""

from __future__ import annotations

from collections.abc import Mapping

from adcompiler.errors import ShapeError, Span
from adcompiler.frontend.indexing.subscripts import not_an_index
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtins
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import ZERO
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.nodes import Accumulate, Element, const, identity
from adcompiler.ops.build import apply


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
    lead = context.binders.opened(place, body)
    whole = lead.lengths + domain
    spots = [*identity(lead.lengths), lead.closed(place)]
    spots += [rearranging.own_index(n, len(lead.axes) + 1 + k) for k, n in enumerate(domain[1:])]
    spots = [ZERO if unit(n) else i for i, n in zip(spots, lead.lengths + shape, strict=True)]
    made = Accumulate(lead.lengths + shape, whole, tuple(spots), lead.closed(body))
    return lead.read(made, shape)


GROUPS: Mapping[str, Builtin] = builtins(
    {
        "bincount": (("x", "weights", "minlength", "length"), bincount, 3),
        "segment_sum": (("data", "segment_ids", "num_segments"), segment_sum, 0),
    }
)
