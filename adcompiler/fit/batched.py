"""`fit.batch`: one model fitted to many sets of data at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from adcompiler.api.function import SourceFunction
from adcompiler.api.transforms import compiled
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.fit.batch_program import Model, Step, covariance_of, step_of
from adcompiler.fit.batch_result import SINGULAR, BatchResult
from adcompiler.fit.batch_start import Start
from adcompiler.fit.batch_waves import Arrays, Fitted, Waves, padded
from adcompiler.fit.checks import SolverError, check_method
from adcompiler.fit.watch import Watch
from adcompiler.frames import public

WHAT = "fit.batch"
METHODS = ("lm",)


@public
def batch(
    model: Any,
    x: Any,
    y: Any,
    start: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    *,
    bounds: Any = (None, None),
    method: str = "lm",
    ftol: float = 1e-20,
    xtol: float = 1e-10,
    gtol: float = 1e-10,
    max_nfev: int | None = None,
    progress: bool = False,
) -> BatchResult:
    """Fit one model to thousands or millions of data sets, each separately: `adc.curve_fit` in bulk.

    model           `f(x, a, b, ...)` or `f(x, p)` as for `adc.curve_fit`, compiled or a function of numba
    x               the independent variable: (points,), or (fits, points) if it differs from fit to fit; a
                    tuple of such arrays for several
    y               the data, (fits, points). NaN is a missing point; x and sigma may then be NaN too
    start           start values of the parameters: (parameters,), or (fits, parameters); or a dict by name,
                    or a container, of numbers and arrays with a number for each fit. None: 1 for each
    sigma           standard deviations of y: a number, (points,) or (fits, points)
    absolute_sigma  as in `adc.curve_fit`
    bounds          (lower, upper), each a number or like the start of one fit, with None for no bound
    method          "lm", the Levenberg-Marquardt method
    ftol            a fit ends when its cost is predicted to fall by less than this fraction, and does so
    xtol            a fit ends when a step is smaller than this fraction of the parameters
    gtol            a fit ends when the cosines of the angles between the residuals and the columns of the
                    Jacobian are smaller than this
    max_nfev        the maximum number of evaluations of the model per fit; None: 100 for each parameter
    progress        whether to show the number of fits that have ended

    The fits of one call run in vectors and on all threads. A fit that fails does not affect the others. Data
    are fitted in float64. Returns a BatchResult with `.params`, `.x`, `.stderr`, `.cov`, `.confidence(0.95)`,
    `.cost`, `.status`, `.success` and `.nfev`.
    """
    check_method(WHAT, method, METHODS)
    function = compiled(WHAT, model)
    if not isinstance(function, SourceFunction):
        raise DtypeError(
            f"{WHAT}: {function.__name__} is made from another function",
            remedy="write a def that calls it, and decorate that with @adc.function",
        )
    _check_settings({"ftol": ftol, "xtol": xtol, "gtol": gtol}, max_nfev)
    arrays = Arrays.of(x, y, sigma)
    given = Start.of(function, len(arrays.inputs), start, arrays.fits)
    limits = given.limits(bounds)
    n = len(given.columns)
    one = Model(function._closure, given.call, len(arrays.inputs), n, function._options, given.pack)
    _check(one, function.__name__, arrays, given)
    fitted = Fitted.empty(n, arrays.fits)
    if arrays.fits:
        form, bounded = (arrays.data, given.call, given.form), limits is not None
        step = function._derived(("step", form, bounded), lambda: step_of(one, arrays.data, bounded))
        inverse = function._derived(("covariance", form), lambda: covariance_of(one, arrays.data))
        settings = (*(() if limits is None else (*limits[0], *limits[1])), ftol, xtol, gtol)
        most = 100 * n if max_nfev is None else max_nfev
        with Watch(WHAT, progress) as watch:
            Waves(Step(step, n), arrays, given.columns, settings, most, fitted, watch).run()
        _uncertain(inverse, arrays, fitted, absolute_sigma)
    return BatchResult(
        np.ascontiguousarray(fitted.params.T),
        given.like(fitted.params),
        fitted.cost / 2,
        fitted.status,
        fitted.nfev,
        given,
        fitted.squares,
        arrays.count - n,
        absolute_sigma,
    )


def _check_settings(tolerances: Mapping[str, Any], most: Any) -> None:
    for name, value in tolerances.items():
        if not (isinstance(value, int | float | np.number) and 0 <= value < 1):
            raise SolverError(f"{WHAT}: {name} is {value!r}", remedy="pass a number from 0 to 1")
    if most is not None and not (isinstance(most, int | np.integer) and most > 0):
        raise SolverError(f"{WHAT}: max_nfev is {most!r}", remedy="pass a positive integer, or None")


def _check(model: Model, name: str, arrays: Arrays, start: Start) -> None:
    """Raise ShapeError if the model does not return a value for each point."""
    points = arrays.y.shape[1]
    if points < model.parameters:
        raise ShapeError(
            f"y has {points} points for each fit, but a fit has {model.parameters} parameters",
            remedy="pass as many points as parameters, or more",
        )
    if not arrays.fits:
        return
    value = model.compiled("", "value", replace(model.options, backend="numpy"))
    data = arrays.rows(np.arange(1))[: model.variables]
    at = [rows[0] if each else rows for rows, each in zip(data, arrays.data.inputs, strict=True)]
    found = np.shape(value(*at, *start.columns[:, 0]))
    if found != (points,):
        raise ShapeError(
            f"{name} returns an array of shape {found}, but a fit has {points} points",
            remedy="return a value for each point of x; for a constant c write c + 0 * x",
        )


def _uncertain(inverse: Any, arrays: Arrays, fitted: Fitted, absolute: bool) -> None:
    """Fill in the covariance matrices, and the status of fits without one."""
    n, size = len(fitted.params), arrays.wave
    begun = np.flatnonzero(np.isfinite(fitted.cost))
    for first in range(0, len(begun), size):
        ids = begun[first : first + size]
        lanes = padded(ids)
        *squares, lost = inverse(*arrays.rows(lanes), *(row[lanes] for row in fitted.params))
        fitted.squares[:, ids] = np.stack(squares)[:, : len(ids)]
        singular = ids[(lost > 0)[: len(ids)]]
        fitted.squares[:, singular] = np.inf
        fitted.status[singular[fitted.status[singular] > 0]] = SINGULAR
    if not absolute:
        freedom = arrays.count - n
        with np.errstate(invalid="ignore", divide="ignore"):
            fitted.squares *= np.where(freedom > 0, fitted.cost / freedom, np.inf)
        fitted.squares[:, (freedom <= 0) & np.isfinite(fitted.cost)] = np.inf
