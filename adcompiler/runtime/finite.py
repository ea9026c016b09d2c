"""Derivatives of a function of numbers by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
STEP = 6e-3  # of the argument's scale; with two extrapolations the error is of the sixth order in it


def slopes(value: Callable[[Sequence[Any]], np.float64], point: Sequence[Any], k: int) -> np.ndarray:
    """The derivative of a scalar with respect to each entry of argument `k`, by finite differences.

    Steps relative to the entry and absolute ones are tried; the estimate is taken that moves least when the
    step is halved, and whose step is not lost in the rounding of the values.
    """
    start = np.asarray(point[k])
    dtype = start.dtype if start.dtype.kind == "f" else np.dtype(np.float64)
    start = start.astype(dtype)
    slopes = np.empty(start.shape)

    def at(place: tuple[int, ...], distance: float) -> tuple[np.float64, float]:
        moved = start.copy()
        moved[place] += dtype.type(distance)
        return value([*point[:k], moved[()], *point[k + 1 :]]), float(moved[place])

    for place in np.ndindex(start.shape):
        size = abs(float(start[place]))
        scales = {max(1.0, size), size or 1.0}
        estimates = [_extrapolated(at, place, scale * STEP * _coarser(dtype)) for scale in scales]
        slopes[place] = min(estimates, key=lambda e: e[1])[0]
    return slopes


def _coarser(dtype: np.dtype) -> float:
    return 10.0 if dtype == np.float32 else 1.0


def _extrapolated(
    at: Callable[[tuple[int, ...], float], tuple[np.float64, float]], place: tuple[int, ...], step: float
) -> tuple[float, float]:
    """The central difference after two Richardson extrapolations, and how uncertain it is: how far the last
    one moved it, and what rounding of the values makes of it."""
    table = []
    for h in (step, step / 2, step / 4):
        (right, x), (left, y) = at(place, h), at(place, -h)
        table.append(float(right - left) / (x - y))
    once = [(4 * fine - coarse) / 3 for coarse, fine in pairwise(table)]
    moved = abs(once[1] - once[0]) + EPS * float(abs(right) + abs(left)) / (x - y)
    return (16 * once[1] - once[0]) / 15, moved if moved == moved else np.inf
