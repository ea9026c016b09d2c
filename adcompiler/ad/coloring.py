"""Coloring: which columns of a sparse matrix one direction can serve, and how its entries are found again.

Columns of one color share no row, so that the product with the sum of their unit vectors holds each entry
alone (Curtis, Powell and Reid 1974). A few rows that are much fuller than the others would force as many
colors as they have entries: these *lone* rows are asked for one by one, by the other mode of differentiation
(or, of a symmetric matrix, as columns), and the others are colored without them. The greedy coloring
is a dozen lines, so it is written here: SciPy's is private, and other libraries would be a dependency more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

NONE = -1


@dataclass(frozen=True)
class Coloring:
    """How to ask for the entries of a matrix with `rows` and `columns`, the places of its entries.

    `colors` has the color of each column, -1 if none asks for it; `lone` the rows that are asked for one by
    one, `lone_of` for each row its number among them, or -1. If `transposed`, all this is of the transpose.
    """

    rows: np.ndarray
    columns: np.ndarray
    colors: np.ndarray
    count: int
    lone: np.ndarray
    lone_of: np.ndarray
    transposed: bool

    @property
    def directions(self) -> int:
        """How many directions are needed."""
        return self.count + len(self.lone)


def coloring(pattern: Any, symmetric: bool) -> Coloring:
    """The coloring of a pattern by columns, or of its transpose if that needs fewer directions."""
    if symmetric:
        return _colored(pattern, _lone(pattern), symmetric, False)
    transpose = pattern.T.tocsr()
    sides = [(p, _lone(p)) for p in (pattern, transpose)]
    costs = [_cost(p, lone) for p, lone in sides]
    transposed = costs[1] < costs[0]
    return _colored(*sides[transposed], symmetric, transposed)


def _lone(pattern: Any) -> np.ndarray:
    """The rows to be asked for one by one: the fullest, if that saves half the directions at least."""
    counts = np.diff(pattern.indptr)
    order = np.argsort(-counts, kind="stable")
    costs = np.arange(len(counts)) + counts[order]
    best = int(np.argmin(costs)) if len(costs) else 0
    return np.sort(order[:best]) if best and 2 * costs[best] <= costs[0] else order[:0]


def _cost(pattern: Any, lone: np.ndarray) -> int:
    """No coloring needs fewer directions."""
    counts = np.delete(np.diff(pattern.indptr), lone)
    return len(lone) + int(counts.max(initial=0))


def _colored(pattern: Any, lone: np.ndarray, symmetric: bool, transposed: bool) -> Coloring:
    height, width = pattern.shape
    lone_of = np.full(height, NONE)
    lone_of[lone] = np.arange(len(lone))
    skipped = lone_of >= 0 if symmetric else np.zeros(width, bool)
    rows = np.repeat(np.arange(height), np.diff(pattern.indptr))
    colors = _greedy(rows, pattern.indices, lone_of, skipped)
    return Coloring(
        rows, pattern.indices, colors, int(colors.max(initial=NONE)) + 1, lone, lone_of, transposed
    )


def _greedy(rows: np.ndarray, columns: np.ndarray, lone_of: np.ndarray, skipped: np.ndarray) -> np.ndarray:
    """The first free color for each column in turn; the colors taken in a row are the bits of a number."""
    kept = (lone_of[rows] < 0) & ~skipped[columns]
    rows, columns = rows[kept], columns[kept]
    order = np.argsort(columns, kind="stable")
    below = rows[order].tolist()
    bounds = np.searchsorted(columns[order], np.arange(len(skipped) + 1)).tolist()
    taken = [0] * len(lone_of)
    colors = np.full(len(skipped), NONE)
    for column in range(len(skipped)):
        own = below[bounds[column] : bounds[column + 1]]
        if own:
            used = 0
            for row in own:
                used |= taken[row]
            free = ~used & (used + 1)
            for row in own:
                taken[row] |= free
            colors[column] = free.bit_length() - 1
    return colors
