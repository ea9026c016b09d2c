"""Which saved values a backward pass may not read: those that it would compare with what they were made of.

A backward pass computes again what is not saved. Sums, results of loops and routines may come out with
another last bit there, since their loops are others. That is harmless unless it meets a decision: a maximum
that forward has saved equals none of the sums that are computed again, so that its gradient would be lost.
Where a decision is about a saved value and about something that this value was made of, and that is computed
again, the saved value is computed again as well: then both are of one run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from adcompiler.ir.nodes import Array, Element, Input
from adcompiler.ir.walk import arrays_of, arrays_read, postorder, read_by
from adcompiler.ops.decisions import decision_operands, is_repeatable


def consistent(results: Iterable[Array], saved: Collection[Array]) -> set[Array]:
    """Those of the `saved` arrays that a program with these results may read."""
    kept, results = set(saved), tuple(results)
    while dropped := {a for group in _decided(results, kept) for a in _made_of_others(group, kept)}:
        kept -= dropped
    return kept


def _decided(results: Iterable[Array], saved: Collection[Array]) -> Iterator[tuple[Element, ...]]:
    """What the decisions of a program that reads the saved arrays are about."""
    for array in postorder(results, lambda a: () if a in saved else arrays_read(a)):
        yield from () if array in saved else decision_operands(array)


def _made_of_others(group: Iterable[Element], saved: Collection[Array]) -> Iterator[Array]:
    """The saved arrays that a decision is about and that depend on others of it, which are computed again."""
    found = set(_operands(group, saved))
    again = found - set(saved)
    for array in found & set(saved) if again else ():
        if again.intersection(arrays_of((array,))):
            yield array


def _operands(group: Iterable[Element], saved: Collection[Array]) -> Iterator[Array]:
    """The arrays that elements are made of: saved ones, and such as may come out differently again."""
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
