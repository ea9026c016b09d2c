"""Coloring: which columns of a sparse matrix can share a direction, and how entries are recovered.

Columns of one color share no row, so the product with the sum of their unit vectors contains each entry
separately (Curtis, Powell and Reid 1974). A few rows that are much fuller than the others would force as many
colors as they have entries. These *lone* rows are computed one by one, by the other mode of differentiation
(or, for a symmetric matrix, as columns), and the others are colored without them. The greedy coloring takes
a dozen lines here: SciPy's is private, and another library would be a dependency.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adcompiler.ad.limits import MOST_TRIED
from adcompiler.lazy_dataclass import dataclass

NONE = -1


@dataclass(frozen=True)
class Coloring:
    """The directions that recover the entries of a matrix at the places `rows`, `columns`.

    `colors` has the color of each column, -1 if it is not needed. `lone` are the rows that are computed one
    by one, and `lone_of` has for each row its number among them, or -1. If `transposed`, all of this is about
    the transpose.
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
        """The number of directions needed."""
        return self.count + len(self.lone)


def coloring(pattern: Any, symmetric: bool) -> Coloring:
    """The coloring of a pattern by columns, or of its transpose if that needs fewer directions."""
    sides = [pattern] if symmetric else [pattern, pattern.T.tocsr()]
    found = [_lone(p, symmetric) for p in sides]
    best = min(range(len(sides)), key=lambda k: found[k][0])
    return _colored(sides[best], found[best][1], symmetric, best == 1)


def colored(pattern: Any, symmetric: bool) -> Coloring:
    """The coloring without lone rows: one mode of differentiation computes all directions."""
    sides = [pattern] if symmetric else [pattern, pattern.T.tocsr()]
    nothing = np.zeros(0, np.int64)
    found = [_colored(p, nothing, symmetric, k == 1) for k, p in enumerate(sides)]
    return min(found, key=lambda plan: plan.count)


def _lone(pattern: Any, symmetric: bool) -> tuple[int, np.ndarray]:
    """The rows to compute one by one, the fullest ones, and the least number of directions with them.

    For a nonsymmetric matrix they need another program, so they have to save half of the directions.
    """
    counts = np.diff(pattern.indptr)
    order = np.argsort(-counts, kind="stable")
    drops = np.flatnonzero(np.diff(counts[order])) + 1
    tried = [0, *drops[:: len(drops) // MOST_TRIED + 1].tolist()]
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    rows = np.repeat(place, counts)
    first = np.minimum(rows, place[pattern.indices]) if symmetric else rows
    costs = [n + int(np.bincount(rows[first >= n]).max(initial=0)) for n in tried]
    best = int(np.argmin(costs))
    if costs[best] * (1 if symmetric else 2) > costs[0]:
        best = 0
    return costs[best], np.sort(order[: tried[best]])


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
    """For each column the first free color; the bits of an integer are the colors used in a row."""
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
