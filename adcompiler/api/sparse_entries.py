"""The entries of a sparse derivative as one vector, at places that are known before any values.

Solvers take a sparse matrix in two parts: the places of its entries once, and their values again and again.
Entries are computed one by one where the program allows it (`ad/programs/entries.py`), else by directions,
one for each color (`ad/programs/coloring.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from adcompiler.ad.programs.entries import Family, families, values_of
from adcompiler.api.function import Function
from adcompiler.api.limits import MOST_LAYOUTS
from adcompiler.api.sparse import SparseDerivative, SparseHessian, SparseProgram, key_of
from adcompiler.interpreter.entries import places
from adcompiler.interpreter.reference import Values
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Element
from adcompiler.lazy import Memo, cached_property
from adcompiler.lazy_dataclass import dataclass
from adcompiler.passes.algebra.fold import fold
from adcompiler.passes.arrays.contract import contract, pick
from adcompiler.passes.arrays.inline import inline_all
from adcompiler.passes.arrays.prune import prune
from adcompiler.passes.arrays.unroll import write_out
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.progress import compiling
from adcompiler.runtime.programs.program import Program
from adcompiler.targets.buffers import POOL

FLOAT = np.dtype(np.float64)
# Few arrays with large bodies have the fewest families. Rules of a user's own stay what they are.
INLINED = (pick, write_out, fold, prune, inline_all, contract, fold, prune)

Fill = Callable[[Sequence[Any], np.ndarray], None]  # writes the entries for the inputs' values


@dataclass(frozen=True)
class Layout:
    """The places of the entries, and what computes their values."""

    rows: np.ndarray
    columns: np.ndarray
    fill: Fill


class SparseEntries:
    """The Jacobian of a function, or the lower triangle of the Hessian of a scalar one, entry by entry.

    Rows are the entries of all results in order, columns those of all inputs in `wrt`. No place occurs twice.
    """

    def __init__(self, of: Function, wrt: tuple[str, ...], symmetric: bool = False) -> None:
        self.derivative: SparseDerivative = (
            SparseHessian(of, wrt, "hessian") if symmetric else SparseDerivative(of, wrt, "jacobian")
        )
        self._made: Memo[SparseProgram, _Entries] = Memo()

    def places(self, args: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the entries for arguments of these types, lengths and integers."""
        layout = self._layout(args)[0]
        return layout.rows, layout.columns

    def values(self, args: Sequence[Any]) -> np.ndarray:
        """The entries at these places, in float64."""
        layout, values = self._layout(args)
        found = POOL.empty((len(layout.rows),), FLOAT)
        layout.fill(values, found)
        return found

    def _layout(self, args: Sequence[Any]) -> tuple[Layout, list[Any]]:
        program, values = self.derivative.at(args, {})
        return self._made.made(program, lambda: _Entries(program)).layout(values), values


@dataclass(frozen=True)
class PlacedFamily:
    """A family whose entries at the points `kept` of its domain are at these places of the derivative."""

    family: Family
    guard: Element
    domain: tuple[int, ...]
    rows: np.ndarray
    columns: np.ndarray
    kept: np.ndarray

    @property
    def values(self) -> Array:
        """Its values at all points of its domain."""
        return values_of(self.family, self.guard)


class SparseFamilies:
    """The families of entries of a derivative."""

    def __init__(self, program: SparseProgram) -> None:
        self.program, self.func = program, program.func

    @cached_property
    def results(self) -> Sequence[Any]:
        """The results with few arrays between them and the inputs."""
        return run(INLINED, self.func).results

    @cached_property
    def families(self) -> list[list[Family]] | None:
        """The families of all results."""
        with compiling(self.func.name):
            return families(self.results, self.program.inputs)

    def placed(self, integers: Values, sizes: Sequence[int]) -> list[PlacedFamily] | None:
        """The families that have entries for these lengths and integers, or None if their places follow from
        other values. Of a symmetric derivative they are those of the lower triangle."""
        found = None if self.families is None else places(self.families, self.results, integers, sizes)
        if found is None or self.families is None:
            return None
        tops = self.program.bounds(self.func.results, sizes)
        lefts = dict(zip(self.program.inputs, self.program.bounds(self.program.inputs, sizes), strict=False))
        made = []
        for top, own, there in zip(tops, self.families, found, strict=False):
            for family, place in zip(own, there, strict=True):
                rows = place.rows + top
                columns, kept = place.columns + lefts[family.source], place.kept  # type: ignore[index]
                if self.program.symmetric:
                    lower = rows >= columns
                    rows, columns, kept = rows[lower], columns[lower], kept[lower]
                if len(kept):
                    made.append(PlacedFamily(family, place.guard, place.domain, rows, columns, kept))
        return made


class _Entries(SparseFamilies):
    """What is computed for arguments of given types."""

    def __init__(self, program: SparseProgram) -> None:
        super().__init__(program)
        self.layouts: Memo[Any, Layout] = Memo(MOST_LAYOUTS)

    def layout(self, values: Sequence[Any]) -> Layout:
        """The layout for these lengths and integers; those of the last calls are kept."""
        sizes = self.program.base.sizes(values)
        integers = self.program.integers(values)

        def make() -> Layout:
            found = self.placed(integers, sizes)
            return self._colored(values, sizes) if found is None else self._placed(found, sizes)

        return self.layouts.made(key_of(integers, sizes), make)

    # -- entry by entry ------------------------------------------------------------------------

    def _placed(self, found: Sequence[PlacedFamily], sizes: Sequence[int]) -> Layout:
        """The layout of families: each has a piece of the vector of values."""
        pieces, start = [], 0
        for one in found:
            pieces.append(_Piece.of(start, one.domain, one.kept))
            start += len(one.kept)
        nothing = [np.zeros(0, np.int64)]
        rows = np.concatenate(nothing + [one.rows for one in found])
        columns = np.concatenate(nothing + [one.columns for one in found])
        merge = _Merge.of(rows, columns)
        if merge is not None:
            rows, columns = rows[merge.first], columns[merge.first]
        wanted = [(one.family, one.guard) for one in found]
        return Layout(rows, columns, _Filled(self._compiled(wanted), list(sizes), pieces, start, merge))

    def _compiled(self, wanted: Sequence[tuple[Family, Element]]) -> Program:
        """The program of the values of families. It is the same for other lengths with the same families."""

        def make() -> Program:
            names = distinct([f"j{k}" for k in range(len(wanted))], self.func.input_names)
            values = tuple(values_of(family, guard) for family, guard in wanted)
            made = self.func.with_(results=values, result_names=names)
            return Program(run(SIMPLIFY, made), self.program.base.backend)

        return self.program.base.derived(("entries", *wanted), make)

    # -- by directions -------------------------------------------------------------------------

    def _colored(self, values: Sequence[Any], sizes: Sequence[int]) -> Layout:
        plan = self.program.coloring(values, sizes)
        rows, columns = (plan.columns, plan.rows) if plan.transposed else (plan.rows, plan.columns)
        kept = np.flatnonzero(rows >= columns) if self.program.symmetric else np.arange(len(rows))

        def fill(values: Sequence[Any], out: np.ndarray) -> None:
            np.take(self.program.entries(plan, values, sizes), kept, out=out)

        return Layout(rows[kept], columns[kept], fill)


@dataclass(frozen=True)
class _Piece:
    """The part of a vector that holds the values of a family; `kept` are the points of its domain that have
    an entry, None if all have."""

    start: int
    stop: int
    shape: tuple[int, ...]
    kept: np.ndarray | slice | None

    @staticmethod
    def of(start: int, shape: tuple[int, ...], kept: np.ndarray) -> _Piece:
        stop, first, last = start + len(kept), int(kept[0]), int(kept[-1])
        if len(kept) == prod(shape):
            return _Piece(start, stop, shape, None)
        row = last - first + 1 == len(kept)
        return _Piece(start, stop, shape, slice(first, last + 1) if row else kept)

    def target(self, out: np.ndarray) -> np.ndarray:
        """An array for the values at all points: the part of the vector, if these are the same."""
        if self.kept is None:
            return out[self.start : self.stop].reshape(self.shape)
        return POOL.empty(self.shape, FLOAT)

    def put(self, found: Any, target: np.ndarray, out: np.ndarray) -> None:
        """Write the values at all points where they belong."""
        if isinstance(self.kept, slice):
            out[self.start : self.stop] = found.reshape(-1)[self.kept]
        elif self.kept is not None:
            np.take(found, self.kept, out=out[self.start : self.stop], mode="clip")
        elif found is not target:
            target[...] = found


@dataclass(frozen=True)
class _Merge:
    """Values with the same place, added: `order` has them side by side, each place from one of `starts` on.
    `first` are those of each place that come first."""

    order: np.ndarray
    starts: np.ndarray
    first: np.ndarray

    @staticmethod
    def of(rows: np.ndarray, columns: np.ndarray) -> _Merge | None:
        """None if each place occurs once."""
        if not len(rows):
            return None
        order = np.lexsort((columns, rows))
        changed = (np.diff(rows[order]) != 0) | (np.diff(columns[order]) != 0)
        if changed.all():
            return None
        starts = np.flatnonzero(np.concatenate(([True], changed)))
        return _Merge(order, starts, order[starts])

    def __call__(self, values: np.ndarray, out: np.ndarray) -> None:
        np.add.reduceat(values[self.order], self.starts, out=out)


@dataclass(frozen=True)
class _Filled:
    """Runs the program of families, which writes into the vector of values."""

    compiled: Program
    sizes: list[int]
    pieces: Sequence[_Piece]
    count: int
    merge: _Merge | None

    def __call__(self, values: Sequence[Any], out: np.ndarray) -> None:
        whole = out if self.merge is None else POOL.empty((self.count,), FLOAT)
        targets = [piece.target(whole) for piece in self.pieces]
        into = [target if target.ndim else None for target in targets]
        found = self.compiled.run(self.sizes, values, False, into)
        for piece, value, target in zip(self.pieces, found, targets, strict=True):
            piece.put(value, target, whole)
        if self.merge is not None:
            self.merge(whole, out)
