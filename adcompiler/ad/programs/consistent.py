"""Saved values that a backward pass may not read, because it would compare them with recomputed values.

A backward pass recomputes values that are not saved. Sums and results of loops and routines may then have a
different last bit, because they are computed in other loops. That matters in decisions: a saved maximum may
equal none of the recomputed sums, and its gradient would be lost. If a decision compares a saved value with a
recomputed value from which it was computed, the saved value is recomputed too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from adcompiler.ir.nodes import Array, Element, Input
from adcompiler.ir.walk import arrays_of, arrays_read, postorder, read_by
from adcompiler.ops.decisions import decision_operands, is_repeatable


def consistent(results: Iterable[Array], saved: Collection[Array]) -> set[Array]:
    """The `saved` arrays that a program with these results may read."""
    kept, results = set(saved), tuple(results)
    while dropped := {a for group in _decided(results, kept) for a in _made_of_others(group, kept)}:
        kept -= dropped
    return kept


def _decided(results: Iterable[Array], saved: Collection[Array]) -> Iterator[tuple[Element, ...]]:
    """The operands of the decisions in a program that reads the saved arrays."""
    for array in postorder(results, lambda a: () if a in saved else arrays_read(a)):
        yield from () if array in saved else decision_operands(array)


def _made_of_others(group: Iterable[Element], saved: Collection[Array]) -> Iterator[Array]:
    """The saved operands of a decision that depend on other operands, which are recomputed."""
    found = set(_operands(group, saved))
    again = found - set(saved)
    for array in found & set(saved) if again else ():
        if again.intersection(arrays_of((array,))):
            yield array


def _operands(group: Iterable[Element], saved: Collection[Array]) -> Iterator[Array]:
    """The arrays that elements are computed from: saved ones, and those whose last bit may differ when
    recomputed."""
    seen: set[Array] = set()
    work = list(read_by(group))
    while work:
        array = work.pop()
        if array in seen:
            continue
        seen.add(array)
        if array in saved or not (isinstance(array, Input) or is_repeatable(array)):
            yield array
        elif not isinstance(array, Input):
            work += read_by(array.elements)
