"""Operands among which there are selections, `x[mask]`: elementwise operations take all elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

from adcompiler.errors import Error, ShapeError, Span
from adcompiler.syntax.binders import Binders
from adcompiler.syntax.sizes import Sizes, unit
from adcompiler.syntax.values import AnyValue, Selected, Value, describe


class Lowering(Protocol):
    """What is needed here of a lowering, which calls it."""

    sizes: Sizes
    binders: Binders

    def fail(self, kind: type[Error], cause: str, span: Span | None, remedy: str | None = None) -> NoReturn:
        """Raise an error that points at `span`."""


def has_selection(args: Sequence[AnyValue]) -> bool:
    """Whether one of the operands is a selection."""
    return any(isinstance(arg, Selected) for arg in args)


def same_mask(context: Lowering, one: Value, other: Value) -> bool:
    """Whether two masks are one: the same condition over axes of the same lengths."""
    if one.rank != other.rank or one.element is not other.element:
        return False
    return all(context.sizes.same(a, b) for a, b in zip(one.shape, other.shape, strict=True))


def unmasked(context: Lowering, args: Sequence[AnyValue], span: Span) -> tuple[Value, list[AnyValue]]:
    """The mask of the selections among operands, which have the same, and the operands for all elements."""
    selections = [arg for arg in args if isinstance(arg, Selected)]
    mask, rank = selections[0].mask, selections[0].value.rank
    for other in selections[1:]:
        if not same_mask(context, other.mask, mask):
            remedy = "select by the same mask: x[mask] * y[mask]"
            context.fail(ShapeError, "elements that are selected by two masks", span, remedy)
        if other.value.rank != rank:
            remedy = "give the smaller one the axes: x[mask, None]"
            context.fail(ShapeError, "rows and elements that a mask selects", span, remedy)
    behind = rank - mask.rank
    for arg in args:
        wide = isinstance(arg, Value) and arg.rank > behind
        if wide and not (mask.rank == 1 and arg.rank == rank and unit(context.sizes.find(arg.shape[0]))):
            cause = f"{describe(arg)} meets x[mask], whose length only values tell"
            context.fail(ShapeError, cause, span, "select from it as well: x[mask] * y[mask]")
    return mask, [arg.value if isinstance(arg, Selected) else arg for arg in args]
