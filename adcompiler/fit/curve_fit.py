"""`curve_fit`: a model function fitted to data, as SciPy's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.api.transforms import compiled
from adcompiler.errors import ShapeError
from adcompiler.fit.checks import SolverError
from adcompiler.fit.least_squares import Residuals, is_sparse, solved
from adcompiler.fit.models import data_of, floats_of, one_or_all, split
from adcompiler.fit.points import Points, named
from adcompiler.fit.problem import Problem
from adcompiler.fit.watch import Watch
from adcompiler.frames import public
from adcompiler.lazy_dataclass import dataclass
from adcompiler.public_types import AnyFunction, Foreign, Values

# With exact Jacobians a fit reaches the precision of its data in few more steps. Parameters differ in scale.
DEFAULTS = {"x_scale": "jac", "ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}


@public
def curve_fit(
    f: AnyFunction,
    xdata: Values,
    ydata: Values,
    p0: Values = None,
    sigma: Values = None,
    absolute_sigma: bool = False,
    *,
    bounds: Foreign = (None, None),
    method: str = "trf",
    loss: Foreign = "linear",
    fixed: Foreign = None,
    sparse: bool | None = None,
    progress: bool = False,
    **options: Foreign,
) -> Foreign:
    """Fit a compiled model, `f(x, a, b, ...)`, to data: `scipy.optimize.curve_fit` with exact Jacobians.

    xdata           an array for the first parameter of `f`; a tuple of arrays for the first ones
    ydata           measured values of `f`, in an array like its result
    p0              start values of the other parameters: a sequence, a dict by name, or a container for a
                    single parameter. None: 1 for each
    sigma           standard deviations of ydata, or their covariance matrix
    absolute_sigma  whether sigma is known in absolute terms; otherwise it only gives weights, and the scale
                    of the errors follows from the residuals
    bounds          (lower, upper), each a number or like p0, with None for no bound; dicts may name some
                    parameters only, and a parameter with equal bounds does not vary
    method          "trf", "dogbox" or "lm", which takes no bounds
    fixed           names of parameters that stay at their start: "c" or ("c", "d")

    `loss`, `sparse` and `options` are those of `adc.least_squares`, with other defaults: x_scale="jac",
    tolerances of 1e-15, and at most 1000 evaluations for each parameter. Data are fitted in float64; integers
    in xdata stay integers where the model uses them as an index. Returns the result of `least_squares`, with
    `.params` like p0, and also `.predict(x)`, which is (value, stderr).
    """
    model = compiled("curve_fit", f)
    arrays = data_of("xdata", xdata)
    y = floats_of("ydata", ydata)
    count, spread = split(model, len(arrays), p0)
    free = model._names[count:]
    start = (np.ones(len(free)) if spread else 1.0) if p0 is None else p0
    points = Points(start, "p0", tuple(free) if spread else None, named(fixed))
    variables = Variables(len(arrays), count)
    with Watch("curve_fit", progress) as watch:
        wrt: Any = tuple(free) if spread else free[0]
        problem = Problem("curve_fit", model, points, wrt, variables.arguments(arrays), watch)
        problem.all = variables.as_read(problem, arrays)
        problem.begun(problem.value)
        if problem.shape != y.shape:
            raise ShapeError(
                f"{problem.name} returns an array of shape {problem.shape}, but ydata has shape {y.shape}",
                remedy="return a value for each entry of ydata; for a constant c write c + 0 * x",
            )
        sparse = is_sparse(problem, y.size, method, sparse, options)
        weights = Weights.of(sigma, y)
        residuals = Residuals(problem, sparse, y.reshape(-1), weights, absolute_sigma, variables)
        given = {**DEFAULTS, "max_nfev": 1000 * len(points.start), **options}
        return solved(residuals, method, bounds, loss, given)


@dataclass(frozen=True)
class Variables:
    """The independent variables of a model: `arrays`, which its first `count` parameters take."""

    arrays: int
    count: int

    def arguments(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """Arrays as the model takes them: one for each parameter, or all in one."""
        return tuple(arrays) if self.count > 1 else (one_or_all(arrays),)

    def as_read(self, problem: Problem, arrays: Sequence[np.ndarray]) -> list[Any]:
        """All arguments for these arrays, and constants of the fit. Others become float64, as in
        SciPy, except where the model refuses it: as an index, or by an annotation."""
        for k, array in enumerate(arrays):
            if array.dtype != float:
                floats = [*arrays[:k], array.astype(float), *arrays[k + 1 :]]
                if problem.accepts(self._filled(problem, floats)) or not problem.accepts(
                    self._filled(problem, arrays)
                ):
                    arrays = floats
        return self._filled(problem, arrays)

    def _filled(self, problem: Problem, arrays: Sequence[np.ndarray]) -> list[Any]:
        return [*self.arguments(arrays), *problem.all[self.count :]]

    def problem_at(self, problem: Problem, xdata: Any) -> Problem:
        """The problem of a model at other data."""
        arrays = data_of("xdata", xdata)
        if len(arrays) != self.arrays:
            raise ShapeError(
                f"xdata has {len(arrays)} arrays, but the fit had {self.arrays}",
                remedy="pass as many, in a tuple",
            )
        return problem.with_points(problem.points, self.as_read(problem, arrays))


@dataclass(frozen=True)
class Weights:
    """What divides residuals: standard deviations, or the Cholesky factor of a covariance matrix."""

    sigma: np.ndarray | None

    @staticmethod
    def of(sigma: Any, y: np.ndarray) -> Weights:
        """Raises ShapeError for another length than that of the data."""
        if sigma is None:
            return Weights(None)
        given = floats_of("sigma", sigma)
        if given.shape == (y.size, y.size) and given.shape != y.shape:
            try:
                return Weights(np.linalg.cholesky(given))
            except np.linalg.LinAlgError:
                raise SolverError(
                    "sigma is not positive definite",
                    remedy="pass a covariance matrix, or standard deviations",
                ) from None
        if given.shape not in ((), y.shape):
            raise ShapeError(
                f"sigma has shape {given.shape}, but ydata has {y.shape}",
                remedy="pass a standard deviation for each of ydata, or their covariance matrix",
            )
        if not (given > 0).all():
            raise SolverError("sigma has standard deviations that are not positive", remedy="pass sigma > 0")
        return Weights(np.broadcast_to(given, y.shape).reshape(-1))

    def __call__(self, rows: Any) -> Any:
        """Residuals, or rows of a Jacobian, divided."""
        if self.sigma is None:
            return rows
        if self.sigma.ndim == 2:
            from scipy.linalg import solve_triangular

            return solve_triangular(self.sigma, rows, lower=True)
        if hasattr(rows, "toarray"):
            from scipy.sparse import diags_array

            return (diags_array(1 / self.sigma) @ rows).tocsr()
        return rows / (self.sigma if rows.ndim == 1 else self.sigma[:, None])
