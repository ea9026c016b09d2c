"""Tables of integers in C, and the sparse matrices whose values are gathered by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adcompiler.lazy_dataclass import dataclass

WIDTH = 110


@dataclass(frozen=True)
class SparseValues:
    """The entries of a matrix in order: entry k is the sum of the values at `order[starts[k]:starts[k + 1]]`
    of a vector."""

    shape: tuple[int, int]
    rows: np.ndarray
    columns: np.ndarray
    order: np.ndarray
    starts: np.ndarray

    @staticmethod
    def of(
        shape: tuple[int, int], rows: np.ndarray, columns: np.ndarray, places: np.ndarray, by_columns: bool
    ) -> SparseValues:
        """The matrix with values at these places, which are added where they have one row and column. It is
        sorted by rows, or `by_columns`."""
        order = np.lexsort((rows, columns) if by_columns else (columns, rows))
        rows, columns, places = rows[order], columns[order], places[order]
        first = np.ones(len(rows), bool)
        first[1:] = (np.diff(rows) != 0) | (np.diff(columns) != 0)
        starts = np.append(np.flatnonzero(first), len(rows))
        return SparseValues(shape, rows[first], columns[first], places, starts)

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.rows)

    @property
    def is_simple(self) -> bool:
        """Whether each entry is one value."""
        return len(self.order) == self.count

    @property
    def first(self) -> int | None:
        """The place of the first value, if the others follow it."""
        follows = self.is_simple and self.count and (np.diff(self.order) == 1).all()
        return int(self.order[0]) if follows else None

    def tables(self, name: str, kind: str) -> list[str]:
        """The tables that `gathered` reads."""
        found = []
        if self.count and self.first is None:
            found.append(table(f"{name}_order", self.order, kind))
        if not self.is_simple:
            found.append(table(f"{name}_starts", self.starts, kind))
        return found

    def gathered(self, name: str, kind: str, values: str, target: str) -> list[str]:
        """The statements that write the entries."""
        if not self.count:
            return []
        head = f"for ({kind} k = 0; k < {self.count}; k++)"
        if self.first is not None:
            return [f"{head}", f"    {target}[k] = {values}[{self.first} + k];"]
        if self.is_simple:
            return [f"{head}", f"    {target}[k] = {values}[{name}_order[k]];"]
        return [
            f"{head} {{",
            "    double sum = 0.0;",
            f"    for ({kind} p = {name}_starts[k]; p < {name}_starts[k + 1]; p++)",
            f"        sum += {values}[{name}_order[p]];",
            f"    {target}[k] = sum;",
            "}",
        ]

    def compressed(self) -> list[int]:
        """CasADi's form, sorted by columns: the shape, where each column begins, and the rows."""
        begins = np.searchsorted(self.columns, np.arange(self.shape[1] + 1)).tolist()
        return [*self.shape, *begins, *self.rows.tolist()]


def table(name: str, values: Sequence[int] | np.ndarray, kind: str, static: str = "static ") -> str:
    """A constant table of integers."""
    lines, line = [], "   "
    for value in np.asarray(values, np.int64).tolist() or [0]:
        if len(line) + len(str(value)) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {value},"
    return "\n".join([f"{static}const {kind} {name}[{max(len(values), 1)}] = {{", *lines, line, "};"])
