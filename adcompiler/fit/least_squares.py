"""`least_squares`: SciPy's, with exact Jacobians, dense or sparse, and the uncertainty of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from adcompiler.errors import LimitError, ShapeError
from adcompiler.fit.checks import SolverError, check_method, check_value
from adcompiler.fit.limits import MOST_DENSE_ENTRIES
from adcompiler.fit.minimize import checked_bounds
from adcompiler.fit.points import Points, named
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

# What other methods and solvers of SciPy call `max_nfev`, and options for Jacobians that they approximate.
EVALUATION_LIMITS = ("maxfev", "maxfun", "maxiter", "max_iter", "nfev", "maxnfev", "max_fev")
OF_APPROXIMATE_JACOBIANS = ("jac", "Dfun", "fjac", "epsfcn", "eps", "diff_step", "col_deriv", "jac_sparsity")

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
    """Residuals as SciPy sees them: values and Jacobian by vector.

    problem   the function of residuals, or the model of data
    sparse    whether the Jacobian is sparse
    y         measured values, of which the residuals are the differences; None for a function of residuals
    weights   what multiplies residuals and rows of the Jacobian
    absolute  whether residuals are in units of their standard deviation
    variables the independent variables of a model; None for a function of residuals
    """

    problem: Problem
    sparse: bool
    y: np.ndarray | None = None
    weights: Callable[[Any], Any] | None = None
    absolute: bool = False
    variables: Any = None

    @property
    def what(self) -> str:
        """The function that a user called."""
        return self.problem.what

    @property
    def points(self) -> Points:
        """What varies."""
        return self.problem.points

    def value(self, point: np.ndarray) -> np.ndarray:
        """The residuals at a point."""
        found: np.ndarray = self.problem.value(point)
        found = found if self.y is None else found - self.y
        return found if self.weights is None else self.weights(found)

    def jacobian(self, point: np.ndarray) -> Any:
        """The Jacobian of the residuals at a point."""
        rows = self.slopes(point)
        return rows if self.weights is None else self.weights(rows)

    def at(self, points: Points) -> Residuals:
        """The same residuals at other points."""
        return replace(self, problem=self.problem.with_points(points))

    @property
    def slopes(self) -> Callable[[np.ndarray], Any]:
        """The Jacobian without weights."""
        return self.problem.sparse_jacobian if self.sparse else self.problem.jacobian


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
    fixed: Foreign = None,
    progress: bool = False,
    **options: Foreign,
) -> Foreign:
    """`scipy.optimize.least_squares` of compiled residuals, with exact Jacobians.

    f        returns the residuals: an array, or a container of arrays
    bounds   (lower, upper): each a number, a vector, or a container like `x0`, with None for no bound; dicts
             may name some parts only, and a part with equal bounds does not vary
    fixed    as in `adc.minimize`
    loss     as in SciPy
    sparse   whether Jacobians are sparse. None: if they are large and need few directions, with "trf" and
             "dogbox"; then the default of `tr_solver` is "lsmr"
    options  `ftol`, `xtol`, `gtol`, `x_scale`, `f_scale`, `tr_solver`, `tr_options`, `max_nfev`, `verbose`
             and `callback`, as in SciPy

    Other parameters are as in `adc.minimize`. Returns SciPy's result with `.params`, `.cov`, `.stderr`,
    `.correlation`, `.confidence(0.95)` and `.profile("name", 0.95)`. Their scale is the variance of the
    residuals. For a robust loss they are those of Huber's M-estimate. Raises SolverError for unknown methods,
    losses and options.
    """
    with Watch("least_squares", progress) as watch:
        problem = Problem.of("least_squares", f, x0, wrt, args, watch, named(fixed))
        first = problem.begun(problem.value)
        residuals = Residuals(problem, is_sparse(problem, len(first), method, sparse, options))
        return solved(residuals, method, bounds, loss, options)


def is_sparse(
    problem: Problem, count: int, method: str, sparse: bool | None, options: Mapping[str, Any]
) -> bool:
    """Whether the Jacobian of residuals, of which there are `count`, is a sparse matrix."""
    if sparse is None:
        fits = method in ("trf", "dogbox") and options.get("tr_solver") in (None, "lsmr")
        sparse = fits and problem.is_sparse(count * len(problem.points.start))
    if not sparse:
        _check_size(count, len(problem.points.start))
        return False
    if method == "lm" or options.get("tr_solver") == "exact":
        raise SolverError(
            'sparse=True does not fit method="lm" or tr_solver="exact"', remedy='use method="trf"'
        )
    return True


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

    from adcompiler.fit.results import Fit, FitResult, Uncertainty

    solve: Any = scipy.optimize.least_squares
    name = check_method(residuals.what, method, METHODS)
    _check_options(residuals.what, name, loss, options)
    points, limits = _limits(residuals.points, bounds, name)
    residuals.problem.points = points
    first = residuals.value(points.start)
    check_value(residuals.what, residuals.problem.name, first)
    _check_counts(residuals, len(first), name)
    slopes = residuals.jacobian(points.start)
    check_value(
        residuals.what,
        residuals.problem.name,
        slopes.data if hasattr(slopes, "toarray") else slopes,
        "the Jacobian of ",
    )
    scale = options.get("x_scale")
    if np.ndim(scale) == 1 and len(scale) == len(points.whole):  # type: ignore[arg-type]
        options = {**options, "x_scale": np.asarray(scale)[points.free]}
    result = solve(
        residuals.value,
        points.start,
        jac=residuals.jacobian,
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
    known = Uncertainty(
        points, residuals.jacobian(result.x), weights, influence, float(result.cost), residuals.absolute
    )
    settings = {"method": name, **{k: v for k, v in options.items() if k not in ("callback", "verbose")}}
    fit = Fit(residuals.at(points), result.x, (limits.lb, limits.ub), loss, settings)
    return FitResult(result, known, fit)


def _check_options(what: str, method: str, loss: Any, options: Mapping[str, Any]) -> None:
    if loss != "linear" and method == "lm":
        raise SolverError('method "lm" takes no loss', remedy='use method="trf" or "dogbox"')
    for key in options:
        if key not in OPTIONS:
            raise SolverError(f"{what} has no option {key!r}", remedy=_instead_of(key))
    if not callable(loss) and (not isinstance(loss, str) or loss not in LOSSES):
        raise SolverError(
            f"{what} has no loss {loss!r}", remedy=f"use one of {', '.join(map(repr, LOSSES))}, or a function"
        )


def _instead_of(option: str) -> str:
    """What to write for an option of another solver, or a misspelt one."""
    if option in OF_APPROXIMATE_JACOBIANS:
        return "the Jacobian is exact: omit it"
    if option in EVALUATION_LIMITS:
        return "did you mean max_nfev, the largest number of evaluations?"
    near = get_close_matches(option, OPTIONS, 1)
    return f"did you mean {near[0]}?" if near else f"it takes {', '.join(OPTIONS)}"


def _check_counts(residuals: Residuals, count: int, method: str) -> None:
    n = len(residuals.points.start)
    if not count:
        raise ShapeError(f"{residuals.what}: there are no residuals", remedy="pass data that are not empty")
    if method == "lm" and count < n:
        raise ShapeError(
            f'{residuals.what}: method "lm" needs as many residuals as parameters, here {count} and {n}',
            remedy='use method="trf", or pass more data',
        )


def _limits(points: Points, bounds: Any, method: str) -> tuple[Points, Any]:
    """The points between bounds, and these bounds. What has equal ones does not vary."""
    from scipy.optimize import Bounds

    if isinstance(bounds, Bounds):
        pair = bounds
    elif isinstance(bounds, tuple | list) and len(bounds) == 2:
        pair = checked_bounds(points, bounds)
    else:
        raise ShapeError("bounds is not a pair", remedy="pass (lower, upper); None means no bound")
    lower, upper = (np.broadcast_to(side, points.whole.shape) for side in (pair.lb, pair.ub))
    varied = np.isin(np.arange(len(points.whole)), points.free)
    equal = (lower == upper) & varied
    if equal[points.free].all():
        raise SolverError("all bounds are equal: nothing varies", remedy="leave a parameter between bounds")
    for k in np.flatnonzero(((points.whole < lower) | (points.whole > upper)) & ~equal):
        raise SolverError(
            f"number {k} of {points.name}, {points.whole[k]}, is outside its bounds ({lower[k]}, {upper[k]})",
            remedy="choose a start between the bounds",
        )
    if equal.any():
        points = points.holding(np.flatnonzero(equal), lower[equal])
    limits = Bounds(lower[points.free], upper[points.free])
    if method == "lm" and (np.isfinite(limits.lb).any() or np.isfinite(limits.ub).any()):
        raise SolverError('method "lm" takes no bounds', remedy='use method="trf" or "dogbox"')
    return points, limits
