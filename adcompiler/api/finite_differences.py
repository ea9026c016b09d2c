"""Derivatives of a function of numbers by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from adcompiler.api.limits import CERTAIN, RELATIVE_STEP

EPS = float(np.finfo(np.float64).eps)
FINER = tuple(10.0**-k for k in range(7))


Value = Callable[[Sequence[Any]], np.float64]
Place = tuple[int, ...]
At = Callable[[Place, float], tuple[np.float64, float]]  # the value at a distance, and where that is
Estimate = tuple[float, float]  # a derivative, and how uncertain it is


def entry(name: str, place: Sequence[Any]) -> str:
    """An entry in words: `x[0, 1]`, or `x` of a number."""
    return f"{name}[{', '.join(map(str, place))}]" if len(place) else name


def worst(error: np.ndarray) -> Place:
    """The place of the largest error; NaN is larger than any."""
    found = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), error.shape)
    return tuple(map(int, found))


def slopes(value: Value, point: Sequence[Any], k: int, places: Iterable[Place] | None = None) -> np.ndarray:
    """The derivative of a scalar with respect to the entries of argument `k` at `places` (by default all), by
    finite differences; NaN at other entries.

    A relative step is tried, and an absolute one too if the first estimate is not certain to many digits. The
    result is the estimate that changes least when the step is halved, and whose step is not lost in the
    rounding of the values.
    """
    start, at = _entries(value, point, k)
    slopes = np.full(start.shape, np.nan)
    for place in np.ndindex(start.shape) if places is None else places:
        relative, *absolute = _scales(start, place)
        found = _best(at, place, (relative,), start.dtype)
        if absolute and not found[1] <= CERTAIN * max(1.0, abs(found[0])):
            found = min(found, _best(at, place, absolute, start.dtype), key=lambda e: e[1])
        slopes[place] = found[0]
    return slopes


def closer(value: Value, point: Sequence[Any], k: int, place: Place) -> Estimate:
    """The derivative at one entry by smaller steps too, for what changes fast."""
    start, at = _entries(value, point, k)
    return _best(at, place, (s * finer for finer in FINER for s in _scales(start, place)), start.dtype)


def slope_along(value: Value, point: Sequence[Any], k: int, direction: np.ndarray) -> float:
    """The derivative of a scalar along a direction of argument `k`, by finite differences."""
    return _best(_moved_along(value, point, k, direction), (), (1.0, 0.1), direction.dtype)[0]


def closer_along(value: Value, point: Sequence[Any], k: int, direction: np.ndarray) -> Estimate:
    """The same by smaller steps too."""
    return _best(_moved_along(value, point, k, direction), (), FINER, direction.dtype)


def _entries(value: Value, point: Sequence[Any], k: int) -> tuple[np.ndarray, At]:
    """Argument `k`, and the value where one entry of it is moved."""
    start = np.asarray(point[k])
    dtype = start.dtype if start.dtype.kind == "f" else np.dtype(np.float64)
    start = start.astype(dtype)

    def at(place: Place, distance: float) -> tuple[np.float64, float]:
        moved = start.copy()
        moved[place] += dtype.type(distance)
        return value([*point[:k], moved[()], *point[k + 1 :]]), float(moved[place])

    return start, at


def _moved_along(value: Value, point: Sequence[Any], k: int, direction: np.ndarray) -> At:
    """The value where argument `k` is moved along a direction."""
    start = np.asarray(point[k])

    def at(place: Place, distance: float) -> tuple[np.float64, float]:
        moved = start + start.dtype.type(distance) * direction
        return value([*point[:k], moved, *point[k + 1 :]]), distance

    return at


def _scales(start: np.ndarray, place: Place) -> tuple[float, ...]:
    """The size of an entry, and 1 if that is larger."""
    size = abs(float(start[place])) or 1.0
    return (size,) if size >= 1.0 else (size, 1.0)


def _best(at: At, place: Place, scales: Iterable[float], dtype: np.dtype) -> Estimate:
    """The most certain of the estimates with steps of some scales."""
    estimates = [_extrapolated(at, place, scale * RELATIVE_STEP * _coarser(dtype)) for scale in scales]
    return min(estimates, key=lambda e: e[1])


def _coarser(dtype: np.dtype) -> float:
    return 10.0 if dtype == np.float32 else 1.0


def _extrapolated(at: At, place: Place, step: float) -> Estimate:
    """The central difference after two Richardson extrapolations, and how uncertain it is: how far the last
    one moved it, and what rounding of the values makes of it."""
    table = []
    for h in (step, step / 2, step / 4):
        (right, x), (left, y) = at(place, h), at(place, -h)
        table.append(float(right - left) / (x - y))
    once = [(4 * fine - coarse) / 3 for coarse, fine in pairwise(table)]
    moved = abs(once[1] - once[0]) + EPS * float(abs(right) + abs(left)) / (x - y)
    return (16 * once[1] - once[0]) / 15, moved if moved == moved else np.inf
