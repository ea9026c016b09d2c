"""Lists of arrays of different lengths: `x: list[f64[:]]`, whose rows are read by reductions.

All elements are in one array. A row is a selection from as many elements as the longest row has, read from
where the row starts. Its sum is a loop over the row inside the loop over rows; nothing is moved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adcompiler.analysis.affine import linear, linear_constant
from adcompiler.errors import DtypeError, ParseError, ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.dimensions import Axis, Dimensions
from adcompiler.frontend.values.open_axes import ZERO
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import combine, integer
from adcompiler.frontend.values.slices import SliceValue, is_integer
from adcompiler.frontend.values.values import AnyValue, RaggedRows, Row, Value, describe
from adcompiler.ir.nodes import Element, Index, Read, Reduce, const, select
from adcompiler.ir.types import DTYPES, Dtype
from adcompiler.ir.walk import substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

OUTSIDE = "an index is out of range in a row"
INSIDE = "indices count from 0, negative ones from the end of the row"


@dataclass(frozen=True, slots=True)
class RowType:
    """The annotation of rows: their type, and their axes as written."""

    dtype: Dtype
    axes: tuple[tree.Expression, ...]


def annotated(annotation: tree.Tree | None) -> RowType | None:
    """The row type that `list[f64[:]]` or `list[f64[:, 3]]` means; None for other annotations."""
    match annotation:
        case tree.Subscript(
            value=tree.Name(id="list"),
            indices=(tree.Subscript(value=tree.Name(id=dtype), indices=(tree.Slice() as first, *rest)),),
        ) if dtype in DTYPES and (first.start, first.stop, first.step) == (None, None, None):
            return RowType(dtype, (first, *rest))
    return None


def rows_of(context: Context, parts: list[Value], name: str) -> RaggedRows:
    """The value of an argument."""
    values, starts, lengths = parts
    context.sizes.merge(starts.shape[0], lengths.shape[0], f"the rows of {name}", None, "pass one list")
    return RaggedRows(values, starts, lengths)


def length(context: Context, value: RaggedRows) -> Element:
    """The number of rows."""
    return context.sizes.find(value.lengths.shape[0])


def row(value: RaggedRows, index: Element) -> Row:
    """One row; the index is inside the list."""
    start, count = (substitute(v.element, {0: index}) for v in (value.starts, value.lengths))
    most = Reduce("max", (), value.lengths.shape, value.lengths.element)
    longest = combine("maximum", Read(most, ()), ZERO)
    shape = (longest, *value.values.shape[1:])
    element = substitute(value.values.element, {0: apply("add", Index(0), start)})
    return cut(Value(shape, element, value.values.weak), count)


def cut(value: Value, count: Element) -> Row:
    """The first `count` elements or rows of a value."""
    return Row(value, Value(value.shape[:1], apply("less", Index(0), count)), count)


def entry(context: Context, value: RaggedRows, indices: list[Any], span: Span, located: Any) -> AnyValue:
    """`x[i]`, or `x[i, j]` as `x[i][j]`."""
    first, *rest = indices
    if isinstance(first, SliceValue) or not is_integer(first):
        remedy = "write x[i], or for row in x; for all elements in order write concatenate(x)"
        context.fail(DtypeError, f"{describe(value)} is indexed by one integer", span, remedy)
    one = const(first, "i64") if isinstance(first, int) else first.element
    found = row(value, located(context, one, length(context, value), (), span))
    return element(context, found, rest, span) if rest else found


def element(context: Context, value: Row, indices: list[Any], span: Span) -> AnyValue:
    """`row[j]`, `row[1:]`: an element, or a part, which is also a row."""
    first, *rest = indices
    if rest or not (isinstance(first, SliceValue) or is_integer(first)):
        cause = "a row is indexed by one integer, or by a slice"
        context.fail(DtypeError, cause, span, "write row[j], row[1:]; of a matrix for v in row: v[k]")
    if isinstance(first, SliceValue):
        return _part(context, value, first, span)
    at = _place(context, value.length, first, span)
    moved = {k: Index(k - 1) for k in range(1, value.value.rank)}
    found = substitute(value.value.element, {**moved, 0: at})
    return Value(value.value.shape[1:], found, value.value.weak)


def _place(context: Context, count: Element, index: AnyValue, span: Span) -> Element:
    """The place of an element in a row, checked at run time."""
    at = const(index, "i64") if isinstance(index, int) else index.element
    form, binders = linear(at), context.binders
    if not binders.sure(form):
        at = select(apply("less", at, ZERO), apply("add", at, count), at)
    inside = apply("logical_and", apply("less_equal", ZERO, at), apply("less", at, count))
    if not (binders.sure(form) and binders.sure(linear(count) - form - linear_constant(1))):
        binders.check(inside, (), OUTSIDE, INSIDE, span)
    return at


def _part(context: Context, value: Row, part: SliceValue, span: Span) -> Row:
    """A row between two places, which may be outside, as in Python."""
    bounds = (part.start, part.stop)
    if part.step not in (None, 1) or not all(b is None or type(b) is int for b in bounds):
        cause = "a slice of a row must have bounds known at compile time and no step"
        context.fail(ParseError, cause, span, "write row[1:], row[:-1], or a loop over range(len(row))")
    start, stop = (_bound(b, value.length) for b in bounds)
    if stop is None:
        stop = value.length
    count = apply("maximum", apply("subtract", stop, start or ZERO), ZERO)
    if start is None:
        return cut(value.value, count)
    found = substitute(value.value.element, {0: apply("add", Index(0), start)})
    return cut(replace(value.value, element=found), count)


def _bound(bound: int | None, count: Element) -> Element | None:
    if bound is None:
        return None
    if bound < 0:
        return apply("maximum", apply("add", count, integer(bound)), ZERO)
    return apply("minimum", count, integer(bound))


def check(context: Context, parameter: tree.Parameter, value: RaggedRows, dimensions: Dimensions) -> None:
    """Check a list of arrays against its annotation, which names lengths of axes common to all rows."""
    rows = annotated(parameter.annotation)
    if rows is None or rows.dtype != value.values.dtype or len(rows.axes) != value.values.rank:
        context.fail(
            ShapeError, f"{parameter.name} is a list of arrays of rank {value.values.rank} of "
            f"{value.values.dtype}, but its annotation is another type", parameter.span, "write list[f64[:]]",
        )  # fmt: skip
    for k, axis in enumerate(rows.axes[1:], 1):
        if not isinstance(axis, tree.Slice):
            length = value.values.shape[k]
            dimensions.take(Axis(f"axis {k} of the rows of {parameter.name}", length, axis))
