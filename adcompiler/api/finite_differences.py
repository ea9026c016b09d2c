"""Derivatives of a function of numbers by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
STEP = 6e-3  # of the argument's scale; with two extrapolations the error is of the sixth order in it


Value = Callable[[Sequence[Any]], np.float64]
Place = tuple[int, ...]


def slopes(value: Value, point: Sequence[Any], k: int, places: Iterable[Place] | None = None) -> np.ndarray:
    """The derivative of a scalar with respect to the entries of argument `k` at `places`, all if they are not
    given, by finite differences; NaN at others.

    Steps relative to the entry and absolute ones are tried; the estimate is taken that moves least when the
    step is halved, and whose step is not lost in the rounding of the values.
    """
    start = np.asarray(point[k])
    dtype = start.dtype if start.dtype.kind == "f" else np.dtype(np.float64)
    start = start.astype(dtype)
    slopes = np.full(start.shape, np.nan)

    def at(place: Place, distance: float) -> tuple[np.float64, float]:
        moved = start.copy()
        moved[place] += dtype.type(distance)
        return value([*point[:k], moved[()], *point[k + 1 :]]), float(moved[place])

    for place in np.ndindex(start.shape) if places is None else places:
        size = abs(float(start[place]))
        scales = {max(1.0, size), size or 1.0}
        estimates = [_extrapolated(at, place, scale * STEP * _coarser(dtype)) for scale in scales]
        slopes[place] = min(estimates, key=lambda e: e[1])[0]
    return slopes


def slope_along(value: Value, point: Sequence[Any], k: int, direction: np.ndarray) -> float:
    """The derivative of a scalar along a direction of argument `k`, by finite differences."""
    start = np.asarray(point[k])

    def at(place: Place, distance: float) -> tuple[np.float64, float]:
        moved = start + start.dtype.type(distance) * direction
        return value([*point[:k], moved, *point[k + 1 :]]), distance

    estimates = [_extrapolated(at, (), scale * STEP * _coarser(start.dtype)) for scale in (1.0, 0.1)]
    return min(estimates, key=lambda e: e[1])[0]


def _coarser(dtype: np.dtype) -> float:
    return 10.0 if dtype == np.float32 else 1.0


def _extrapolated(
    at: Callable[[Place, float], tuple[np.float64, float]], place: Place, step: float
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
