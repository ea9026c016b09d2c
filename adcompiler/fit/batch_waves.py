"""Data of a batch, and the fits on the way: new ones take the places of those that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.errors import ShapeError
from adcompiler.fit.batch_program import Data, Step, pairs
from adcompiler.fit.batch_result import FEW, NOT_FINITE
from adcompiler.fit.checks import SolverError, check_finite
from adcompiler.fit.limits import FEWEST_WAVE_FITS, LANES, MOST_WAVE_FITS, REFILL_SHARE, WAVE_POINTS
from adcompiler.fit.models import numbers_of
from adcompiler.fit.watch import Watch
from adcompiler.lazy_dataclass import dataclass

FINITE = "pass finite numbers; a point is missing where y is NaN"


def padded(ids: np.ndarray) -> np.ndarray:
    """Numbers of fits, the last one again until they fill vectors."""
    return np.concatenate([ids, np.repeat(ids[-1:], -len(ids) % LANES)])


@dataclass(frozen=True)
class Arrays:
    """The data of all fits.

    inputs   the independent variables, each (points,) or (fits, points)
    weights  what multiplies residuals; None for 1
    count    the number of points of each fit that are not missing
    """

    inputs: tuple[np.ndarray, ...]
    y: np.ndarray
    weights: np.ndarray | None
    count: np.ndarray
    data: Data

    @staticmethod
    def of(x: Any, y: Any, sigma: Any) -> Arrays:
        """Raises ShapeError for arrays that do not agree, SolverError for values that are not finite."""
        y = numbers_of("y", y)
        if y.ndim != 2:
            raise ShapeError(f"y has shape {y.shape}", remedy="pass (fits, points); y[None] for one fit")
        missing = np.isnan(y)
        some = bool(missing.any())
        check_finite("y", y, missing if some else None, FINITE)
        inputs = tuple(_data("x", one, y, missing if some else None) for one in _several(x))
        weights = None
        if sigma is not None:
            given = numbers_of("sigma", sigma)
            given = np.broadcast_to(given, y.shape[1:]) if given.ndim == 0 else given
            given = _data("sigma", given, y, missing if some else None)
            if not (given > 0)[np.isfinite(given)].all():
                raise SolverError(
                    "sigma has standard deviations that are not positive", remedy="pass sigma > 0"
                )
            weights = 1 / given.astype(float)
        count = y.shape[1] - missing.sum(axis=1)
        ranks = tuple(one.ndim == 2 for one in inputs)
        kinds = Data(ranks, None if weights is None else weights.ndim == 2, some)
        return Arrays(inputs, y, weights, count, kinds)

    @property
    def fits(self) -> int:
        """The number of fits."""
        return len(self.y)

    @property
    def wave(self) -> int:
        """How many fits are computed at once."""
        fitting: int = WAVE_POINTS // max(self.y.shape[1], 1)
        return min(max(fitting, FEWEST_WAVE_FITS), MOST_WAVE_FITS)

    def rows(self, ids: np.ndarray) -> list[np.ndarray]:
        """The data of some fits, in float64; data that are the same for all of them as they are."""
        given = (*self.inputs, self.y, *(() if self.weights is None else (self.weights,)))
        return [np.ascontiguousarray(one[ids] if one.ndim == 2 else one, float) for one in given]


def _several(x: Any) -> Sequence[Any]:
    return x if isinstance(x, tuple) else (x,)


def _data(name: str, value: Any, y: np.ndarray, missing: np.ndarray | None) -> np.ndarray:
    """Data for the points of y."""
    array = numbers_of(name, value)
    if array.shape not in (y.shape, y.shape[1:]):
        raise ShapeError(
            f"{name} has shape {array.shape}, but y has {y.shape}",
            remedy="pass (points,), or (fits, points) for data that differ from fit to fit",
        )
    if missing is not None and array.ndim == 1:
        missing = np.asarray(missing.all(axis=0))
    check_finite(name, array, missing, FINITE)
    return array


@dataclass
class Fitted:
    """What is known of the fits; parameters and covariances have a row for each number."""

    params: np.ndarray
    cost: np.ndarray
    status: np.ndarray
    nfev: np.ndarray
    squares: np.ndarray

    @staticmethod
    def empty(n: int, fits: int) -> Fitted:
        """The results of fits that have not begun."""
        params, cost, squares = (np.full(shape, np.nan) for shape in ((n, fits), fits, (len(pairs(n)), fits)))
        return Fitted(params, cost, np.zeros(fits, np.int64), np.zeros(fits, np.int64), squares)


class Waves:
    """The fits that are computed now: the state and the data of each.

    ids    the number of each fit; -1 for one that has ended, and for copies that fill a vector
    tries  how often the model was computed for it
    """

    def __init__(
        self, step: Step, arrays: Arrays, start: np.ndarray, settings: Sequence[float], most: int,
        fitted: Fitted, watch: Watch,
    ) -> None:  # fmt: skip
        self.step, self.arrays, self.start, self.settings = step, arrays, start, settings
        self.most, self.fitted, self.watch = most, fitted, watch
        enough = arrays.count >= step.n
        self.waiting = np.flatnonzero(enough)
        fitted.status[~enough] = FEW
        self.ids = np.zeros(0, np.int64)
        self.tries = np.zeros(0, np.int64)
        self.state = step.begun([row[:0] for row in start])
        self.rows = arrays.rows(self.ids)

    def run(self) -> None:
        """Compute steps until all fits have ended."""
        while self.fill():
            self.state, status = self.step(self.rows, self.state, self.settings)
            self.tries += 1
            self.record(status.astype(np.int64))
            left = len(self.waiting) + int((self.ids >= 0).sum())
            self.watch.ended(self.arrays.fits - left, self.arrays.fits)

    def fill(self) -> bool:
        """Replace fits that have ended, if they are many; return whether there are any left."""
        here = np.flatnonzero(self.ids >= 0)
        if len(here) and (len(self.ids) - len(here)) * REFILL_SHARE < len(self.ids):
            return True
        room = self.arrays.wave - len(here)
        new, self.waiting = self.waiting[:room], self.waiting[room:]
        if not len(here) + len(new):
            return False
        begun = self.step.begun([row[new] for row in self.start])
        self.state = [_joined(old[here], more) for old, more in zip(self.state, begun, strict=True)]
        self.tries = _joined(self.tries[here], np.zeros(len(new), np.int64))
        self.ids = _joined(self.ids[here], new)
        self.rows = self.arrays.rows(self.ids)
        self.ids[len(here) + len(new) :] = -1
        return True

    def record(self, status: np.ndarray) -> None:
        """Keep what is found of fits that have ended."""
        at = np.flatnonzero((self.ids >= 0) & ((status != 0) | (self.tries >= self.most)))
        ids, fitted = self.ids[at], self.fitted
        fitted.status[ids], fitted.nfev[ids] = status[at], self.tries[at]
        began = status[at] != NOT_FINITE
        ids, at = ids[began], at[began]
        for row, column in zip(fitted.params, self.state, strict=False):
            row[ids] = column[at]
        fitted.cost[ids] = self.state[self.step.cost][at]
        self.ids[status != 0] = -1
        self.ids[self.tries >= self.most] = -1


def _joined(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Values of fits, those of the last one again until they fill vectors."""
    return padded(np.concatenate([old, new]))
