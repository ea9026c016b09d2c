"""`least_squares`: SciPy's, with exact Jacobians, dense or sparse, and the uncertainty of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adcompiler.errors import LimitError, ShapeError
from adcompiler.fit.checks import SolverError, check_method, check_value
from adcompiler.fit.limits import MOST_DENSE_ENTRIES
from adcompiler.fit.minimize import checked_bounds
from adcompiler.fit.points import Points
from adcompiler.fit.problem import Problem
from adcompiler.fit.watch import Watch
from adcompiler.frames import public
from adcompiler.lazy_dataclass import dataclass
from adcompiler.public_types import AnyFunction, Foreign, Values, Wrt

METHODS = ("trf", "dogbox", "lm")
OPTIONS = (
    "ftol", "xtol", "gtol", "x_scale", "f_scale", "tr_solver", "tr_options", "max_nfev", "verbose",
    "callback",
)  # fmt: skip

# The first and second derivative of each loss by z, the square of a scaled residual.
LOSSES: Mapping[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "linear": lambda z: (np.ones_like(z), np.zeros_like(z)),
    "soft_l1": lambda z: ((1 + z) ** -0.5, -((1 + z) ** -1.5) / 2),
    "huber": lambda z: (np.maximum(z, 1) ** -0.5, np.where(z <= 1, 0.0, -(np.maximum(z, 1) ** -1.5) / 2)),
    "cauchy": lambda z: (1 / (1 + z), -1 / (1 + z) ** 2),
    "arctan": lambda z: (1 / (1 + z**2), -2 * z / (1 + z**2) ** 2),
}


@dataclass
class Residuals:
    """Residuals as SciPy sees them: values and Jacobian by vector, at given points."""

    what: str
    name: str
    points: Points
    value: Callable[[np.ndarray], np.ndarray]
    jacobian: Callable[[np.ndarray], Any]
    absolute: bool = False


@public
def least_squares(
    f: AnyFunction,
    x0: Values,
    args: Values = (),
    method: str = "trf",
    *,
    bounds: Foreign = (None, None),
    loss: Foreign = "linear",
    sparse: bool | None = None,
    wrt: Wrt = None,
    progress: bool = False,
    **options: Foreign,
) -> Foreign:
    """`scipy.optimize.least_squares` of compiled residuals, with exact Jacobians.

    f        returns the residuals: an array, or a container of arrays
    bounds   (lower, upper): each a number, a vector, or a container like `x0`, with None for no bound
    loss     as in SciPy
    sparse   whether Jacobians are sparse. None: if they are large and need few directions, with "trf" and
             "dogbox"; then the default of `tr_solver` is "lsmr"
    options  `ftol`, `xtol`, `gtol`, `x_scale`, `f_scale`, `tr_solver`, `tr_options`, `max_nfev`, `verbose`
             and `callback`, as in SciPy

    Other parameters are as in `adc.minimize`. Returns SciPy's result with `.params`, `.cov`, `.stderr` and
    `.confidence(0.95)`. Their scale is the variance of the residuals. For a robust loss they are those of
    Huber's M-estimate. Raises SolverError for unknown methods, losses and options.
    """
    with Watch("least_squares", progress) as watch:
        problem = Problem.of("least_squares", f, x0, wrt, args, watch)
        first = problem.begun(problem.value)
        chosen = jacobian_of(problem, len(first), method, sparse, options)
        residuals = Residuals("least_squares", problem.name, problem.points, problem.value, chosen)
        return solved(residuals, method, bounds, loss, options)


def jacobian_of(
    problem: Problem, count: int, method: str, sparse: bool | None, options: Mapping[str, Any]
) -> Callable[[np.ndarray], Any]:
    """The Jacobian, dense or sparse, of residuals of which there are `count`."""
    if sparse is None:
        fits = method in ("trf", "dogbox") and options.get("tr_solver") in (None, "lsmr")
        sparse = fits and problem.is_sparse(count * len(problem.points.start))
    if not sparse:
        _check_size(count, len(problem.points.start))
        return problem.jacobian()
    if method == "lm" or options.get("tr_solver") == "exact":
        raise SolverError(
            'sparse=True does not fit method="lm" or tr_solver="exact"', remedy='use method="trf"'
        )
    return problem.sparse_jacobian()


def _check_size(rows: int, columns: int) -> None:
    if rows * columns > MOST_DENSE_ENTRIES:
        raise LimitError(
            f"the Jacobian of {rows} residuals by {columns} numbers would have {rows * columns} entries",
            remedy="write the residuals without loops, and it is sparse if most of them read few numbers; or "
            "pass sparse=True",
        )


def solved(residuals: Residuals, method: str, bounds: Any, loss: Any, options: Mapping[str, Any]) -> Any:
    """What SciPy finds, with its uncertainty."""
    import scipy.optimize

    from adcompiler.fit.results import FitResult, Uncertainty

    solve: Any = scipy.optimize.least_squares
    name = check_method(residuals.what, method, METHODS)
    _check_options(residuals.what, name, loss, options)
    points, jacobian = residuals.points, residuals.jacobian
    first = residuals.value(points.start)
    check_value(residuals.what, residuals.name, first)
    _check_counts(residuals, len(first), name)
    slopes = jacobian(points.start)
    check_value(
        residuals.what,
        residuals.name,
        slopes.data if hasattr(slopes, "toarray") else slopes,
        "the Jacobian of ",
    )
    limits = _limits(points, bounds, name)
    result = solve(
        residuals.value,
        points.start,
        jac=jacobian,
        method=name,
        bounds=limits,
        loss=loss,
        **options,
    )
    influence = weights = None
    if loss != "linear":
        z = (result.fun / options.get("f_scale", 1.0)) ** 2
        first, second = np.asarray(loss(z))[1:] if callable(loss) else LOSSES[loss](z)
        influence, weights = result.fun * first, first + 2 * z * second
    slopes = jacobian(result.x)
    found = Uncertainty(points, slopes, weights, influence, float(result.cost), residuals.absolute)
    return FitResult(result, found)


def _check_options(what: str, method: str, loss: Any, options: Mapping[str, Any]) -> None:
    if loss != "linear" and method == "lm":
        raise SolverError('method "lm" takes no loss', remedy='use method="trf" or "dogbox"')
    for key in options:
        if key not in OPTIONS:
            remedy = "the Jacobian is exact: omit it" if key == "jac" else f"it takes {', '.join(OPTIONS)}"
            raise SolverError(f"{what} has no option {key!r}", remedy=remedy)
    if not callable(loss) and (not isinstance(loss, str) or loss not in LOSSES):
        raise SolverError(
            f"{what} has no loss {loss!r}", remedy=f"use one of {', '.join(map(repr, LOSSES))}, or a function"
        )


def _check_counts(residuals: Residuals, count: int, method: str) -> None:
    n = len(residuals.points.start)
    if not count:
        raise ShapeError(f"{residuals.what}: there are no residuals", remedy="pass data that are not empty")
    if method == "lm" and count < n:
        raise ShapeError(
            f'{residuals.what}: method "lm" needs as many residuals as parameters, here {count} and {n}',
            remedy='use method="trf", or pass more data',
        )


def _limits(points: Points, bounds: Any, method: str) -> Any:
    from scipy.optimize import Bounds

    if isinstance(bounds, Bounds):
        found = bounds
    elif isinstance(bounds, tuple | list) and len(bounds) == 2:
        found = checked_bounds(points, bounds)
    else:
        raise ShapeError("bounds is not a pair", remedy="pass (lower, upper); None means no bound")
    lower, upper = np.asarray(found.lb), np.asarray(found.ub)
    if method == "lm" and (np.isfinite(lower).any() or np.isfinite(upper).any()):
        raise SolverError('method "lm" takes no bounds', remedy='use method="trf" or "dogbox"')
    outside = np.flatnonzero((points.start < lower) | (points.start > upper))
    if len(outside):
        k = int(outside[0])
        low, high = (np.broadcast_to(side, points.start.shape)[k] for side in (lower, upper))
        raise SolverError(
            f"number {k} of {points.name}, {points.start[k]}, is outside its bounds ({low}, {high})",
            remedy="choose a start between the bounds",
        )
    return found
