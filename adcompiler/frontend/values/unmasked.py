"""Operations on selections, `x[mask]`: elementwise operations are applied to all elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn, Protocol

from adcompiler.errors import Error, ShapeError, Span
from adcompiler.frontend.values.open_axes import Binders
from adcompiler.frontend.values.sizes import Sizes, unit
from adcompiler.frontend.values.values import AnyValue, Masked, Row, Value, describe
from adcompiler.ops.build import apply

AS_LONG = "rows that are combined must have equal lengths"


class Lowering(Protocol):
    """The interface of lowering needed here."""

    sizes: Sizes
    binders: Binders

    def fail(self, kind: type[Error], cause: str, span: Span | None, remedy: str | None = None) -> NoReturn:
        """Raise an error that points at `span`."""


def has_selection(args: Sequence[AnyValue]) -> bool:
    """Whether any operand is a selection."""
    return any(isinstance(arg, Masked) for arg in args)


def same_mask(context: Lowering, one: Value, other: Value) -> bool:
    """Whether two masks are equal: the same condition over axes of the same lengths."""
    if one.rank != other.rank or one.element is not other.element:
        return False
    return all(context.sizes.same(a, b) for a, b in zip(one.shape, other.shape, strict=True))


def unmasked(context: Lowering, args: Sequence[AnyValue], span: Span) -> tuple[Masked, list[AnyValue]]:
    """One of the selections among operands, which must have the same mask, and the operands for all
    elements."""
    first = next(arg for arg in args if isinstance(arg, Masked))
    rank = first.value.rank
    found = [alike(context, first, arg, span) if isinstance(arg, Masked) else arg for arg in args]
    for arg in args:
        wide = isinstance(arg, Value) and arg.rank > rank - first.mask.rank
        alone = wide and first.mask.rank == 1 and arg.rank == rank and unit(context.sizes.find(arg.shape[0]))
        if wide and not alone:
            remedy = "select from it too: x[mask] * y[mask]"
            remedy = "use as many elements: row * y[:len(row)]" if isinstance(first, Row) else remedy
            context.fail(ShapeError, f"{describe(arg)} is combined with {describe(first)}", span, remedy)
    return first, found


def alike(context: Lowering, first: Masked, other: Masked, span: Span) -> Value:
    """The elements of a selection, which must match the first one."""
    value = other.value
    if isinstance(first, Row) and isinstance(other, Row):
        if other.length is not first.length:
            holds = apply("equal", first.length, other.length)
            context.binders.check(holds, (), "two rows have different lengths", AS_LONG, span)
        value = replace(value, shape=(first.value.shape[0], *value.shape[1:]))
    elif not same_mask(context, other.mask, first.mask):
        remedy = "select with the same mask: x[mask] * y[mask]"
        context.fail(ShapeError, "elements selected by two different masks", span, remedy)
    if value.rank != first.value.rank:
        remedy = "add the missing axes to the smaller one: x[mask, None]"
        context.fail(ShapeError, "rows and elements that a mask selects", span, remedy)
    return value
