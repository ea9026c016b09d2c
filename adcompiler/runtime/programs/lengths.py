"""Assumed lengths for cost decisions, if none, or only those of one call, are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adcompiler.interpreter.reference import length
from adcompiler.ir.nodes import Element, Size
from adcompiler.ir.walk import elements_of, is_computed
from adcompiler.ops.costs import NOMINAL_LENGTH


def nominal(sizes: Sequence[int] | None) -> Callable[[Element], int]:
    """The lengths for the values of the size symbols in one call."""

    def value(size: Element) -> int:
        unknown = sizes is None and any(isinstance(e, Size) for e in elements_of((size,)))
        return NOMINAL_LENGTH if unknown or is_computed(size) else length(size, sizes or ())

    return value
