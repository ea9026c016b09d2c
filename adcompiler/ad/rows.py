"""Cotangents of rows: what a reverse loop collects for the array whose rows its iterations read.

The cotangent of a row that an iteration reads at one place only, as in `table[k, idx]`, is zero elsewhere.
Such an iteration collects the value and its place, and the values are scattered after the loop: whole rows
would take as many operations in each iteration as the row is long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adcompiler.ad.limits import SHORT_ROW
from adcompiler.ad.spots import Spot, spots
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Const,
    Element,
    Index,
    Map,
    Read,
    closed,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply


@dataclass(frozen=True)
class RowCotangent:
    """What iterations collect (`outs`) for the cotangent of `whole`, an array that they read row by row."""

    whole: Array
    outs: tuple[Array, ...]
    places: tuple[int | None, ...] | None = None  # the out that gives an axis's place; None for whole rows

    def of(self, stacks: Sequence[Array]) -> Array:
        """The cotangent of the whole array, from the stacks of the outs."""
        if self.places is None:
            return _rows_of(stacks[0], self.whole)
        values, first = stacks[0], Index(0)
        free = iter(range(1, values.rank))
        rest = [Index(next(free)) if p is None else Read(stacks[p], (first,)) for p in self.places]
        domain = values.shape
        return Accumulate(self.whole.shape, domain, (first, *rest), Read(values, identity(domain)))


def row_cotangents(whole: Array, row: Array) -> list[RowCotangent]:
    """The parts of the cotangent of `whole`, given that of one row."""
    spots = _spots(row)
    return [RowCotangent(whole, (row,))] if spots is None else [_collected(whole, row, s) for s in spots]


def _spots(row: Array) -> list[Spot] | None:
    """The terms of a row, if each is zero but at one place of a long axis."""
    found = spots(row.body) if isinstance(row, Map) else None
    return found if found is not None and all(_is_long(row.shape[k] for k in s.ties) for s in found) else None


def _is_long(lengths: Iterable[Element]) -> bool:
    return any(not (isinstance(n, Const) and n.value <= SHORT_ROW) for n in lengths)


def _collected(whole: Array, row: Array, spot: Spot) -> RowCotangent:
    """What an iteration collects of one term: its values over the axes without a place, then the places."""
    values = closed(tuple(row.shape[k] for k in spot.free(row.rank)), spot.inside(row.rank))
    places = [Map((), place) for place in spot.ties.values()]
    numbers = {axis: 1 + p for p, axis in enumerate(spot.ties)}
    return RowCotangent(whole, (values, *places), tuple(numbers.get(k) for k in range(row.rank)))


def _rows_of(stack: Array, whole: Array) -> Array:
    """Rows, one per iteration, as a cotangent of the scanned array: zeros beyond the iterations."""
    length, size = stack.shape[0], whole.shape[0]
    if length is size:
        return stack
    row = const(0, "i64") if is_const(size, 1) else Index(0)
    read = Read(stack, (row, *identity(whole.shape)[1:]))
    return Map(whole.shape, select(apply("less", row, length), read, const(0, whole.dtype)))
