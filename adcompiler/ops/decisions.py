"""Decisions: operations on floats whose result, or whose derivative, jumps with a last bit of an operand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from adcompiler.ir.nodes import Apply, Array, Const, Element, Map, Reduce
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import elements_of
from adcompiler.ops.rules.comparison import COMPARISON
from adcompiler.ops.rules.piecewise import PIECEWISE
from adcompiler.ops.rules.rounding import ROUNDING
from adcompiler.passes.limits import MOST_COORDINATES

CONTINUOUS = frozenset(
    ("abs", "hypot", "direction", "copysign")
)  # their derivatives say themselves what they compare
DECISIONS = frozenset(entry.name for entry in (*COMPARISON, *PIECEWISE, *ROUNDING)) - CONTINUOUS


def decision_operands(array: Array) -> Iterator[tuple[Element, ...]]:
    """For each decision in an array, the floats that it is about: what an extremum is taken of, too."""
    if is_extremum(array) and is_float(array.dtype):
        yield (array.body,)
    for element in elements_of(array.elements):
        if isinstance(element, Apply) and decides(element):
            yield tuple(a for a in element.args if is_float(a.dtype))


def decides(element: Apply) -> bool:
    """Whether an operation is a decision, if it is about floats."""
    return element.op in DECISIONS or (element.op in DTYPES and element.dtype in ("bool", "i64"))


def is_extremum(array: Array) -> TypeGuard[Reduce]:
    """Whether an array is a least or a largest element."""
    return isinstance(array, Reduce) and array.op in ("min", "max")


def is_repeatable(array: Array) -> bool:
    """Whether an array has the same bits wherever it is computed of the same values, if what it decides on is
    strict: sums have not, unless they are so short that they are written out."""
    if is_extremum(array):
        return True
    return isinstance(array, Map) or (
        isinstance(array, Reduce)
        and all(isinstance(n, Const) and n.value <= MOST_COORDINATES for n in array.reduced)
    )
