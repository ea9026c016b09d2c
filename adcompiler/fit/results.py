"""The result of a least-squares fit: SciPy's, with the uncertainty of what was fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from adcompiler.errors import LimitError
from adcompiler.fit.checks import SolverError, quantile
from adcompiler.fit.limits import (
    BETTER_SHARE,
    FARTHEST,
    MOST_COVARIANCES,
    MOST_NAMES,
    MOST_PROFILE_STEPS,
    PROFILE_SHARE,
)
from adcompiler.fit.points import Points
from adcompiler.frames import public
from adcompiler.lazy import cached_property
from adcompiler.lazy_dataclass import dataclass

TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}  # tolerances that exact Jacobians reach in few steps
ADDITIONS = ("cov", "correlation", "stderr", "confidence", "predict", "profile")


@dataclass
class Uncertainty:
    """What the uncertainty of a fit follows from.

    jacobian   of the residuals at the solution
    weights    the second derivative of the loss by each residual; None for the loss "linear"
    influence  the first one
    cost       half the sum of squares
    absolute   whether residuals are in units of their standard deviation, which is then known to be 1
    """

    points: Points
    jacobian: Any
    weights: np.ndarray | None
    influence: np.ndarray | None
    cost: float
    absolute: bool

    @property
    def freedom(self) -> int:
        """Degrees of freedom: residuals beyond the number of parameters."""
        return int(self.jacobian.shape[0] - self.jacobian.shape[1])

    @property
    def scale(self) -> float:
        """The variance of residuals."""
        return 1.0 if self.absolute else 2 * self.cost / max(self.freedom, 1)

    @property
    def correlation(self) -> np.ndarray:
        """The correlation matrix of the parameters; NaN if the residuals do not determine all of them. It
        does not depend on the scale of residuals, which may be zero."""
        cov = self.cov
        if self.influence is None and not np.isinf(cov).any():
            cov = replace(self, absolute=True).cov
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(np.diagonal(cov))
            found: np.ndarray = cov / np.outer(errors, errors)
        return found

    @cached_property
    def cov(self) -> np.ndarray:
        """The covariance matrix of the parameters; inf if the residuals do not determine all of them."""
        n = self.jacobian.shape[1]
        if n > MOST_COVARIANCES:
            raise LimitError(
                f"the covariance matrix of {n} parameters is dense",
                remedy=f"it is computed up to {MOST_COVARIANCES}; solve with fit.jac for single columns",
            )
        inverse = _inverse(self.jacobian, self.weights)
        if inverse is None or (self.freedom <= 0 and not self.absolute):
            return np.full((n, n), np.inf)
        if self.absolute:
            return inverse
        if self.influence is None:
            return inverse * self.scale
        square = self.jacobian.T @ self.jacobian
        square = square.toarray() if hasattr(square, "toarray") else square
        scale = float(self.influence @ self.influence) / self.freedom
        found: np.ndarray = inverse @ square @ inverse * scale
        return found


def _inverse(matrix: Any, weights: np.ndarray | None) -> np.ndarray | None:
    """The inverse of a matrix's square, with weights of its rows; None if this is not positive definite.
    Columns may differ in scale."""
    if weights is None and not hasattr(matrix, "toarray"):
        return _inverse_of_square(matrix)
    rows = matrix if weights is None else _weighted(matrix, weights)
    square = matrix.T @ rows
    square = square.toarray() if hasattr(square, "toarray") else square
    norms = np.sqrt(np.abs(np.diagonal(square)))
    if not _positive(norms):
        return None
    values, vectors = np.linalg.eigh(square / np.outer(norms, norms))
    if values[0] <= np.finfo(float).eps * len(norms) * values[-1]:
        return None
    found: np.ndarray = (vectors / values) @ vectors.T / np.outer(norms, norms)
    return found


def _weighted(matrix: Any, weights: np.ndarray) -> Any:
    if hasattr(matrix, "toarray"):
        from scipy.sparse import diags_array

        return diags_array(weights) @ matrix
    return matrix * weights[:, None]


def _inverse_of_square(matrix: np.ndarray) -> np.ndarray | None:
    """The same by singular values, which keeps digits that the square loses."""
    norms = np.linalg.norm(matrix, axis=0)
    if not _positive(norms) or matrix.shape[0] < matrix.shape[1]:
        return None
    _, singular, vectors = np.linalg.svd(matrix / norms, full_matrices=False)
    if singular[-1] <= np.finfo(float).eps * max(matrix.shape) * singular[0]:
        return None
    found: np.ndarray = (vectors.T / singular**2) @ vectors / np.outer(norms, norms)
    return found


def _positive(norms: np.ndarray) -> bool:
    return bool(np.isfinite(norms).all() and (norms > 0).all())


@dataclass
class Fit:
    """A fit that has ended, as what can be fitted again.

    residuals  at points like the fitted one
    x          the fitted point
    limits     the lower and upper bounds of its numbers
    loss       as SciPy's
    settings   the method and its options
    """

    residuals: Any
    x: np.ndarray
    limits: tuple[np.ndarray, np.ndarray]
    loss: Any
    settings: dict[str, Any]

    def predicted(self, xdata: Any, cov: np.ndarray) -> tuple[Any, Any]:
        """Values of the model at other data, and their standard errors."""
        if self.residuals.variables is None:
            raise SolverError(
                "predict needs a model of data", remedy="fit it with adc.curve_fit(model, x, y, start)"
            )
        problem = self.residuals.variables.problem_at(self.residuals.problem, xdata)
        value = problem.value(self.x)
        slopes = problem.jacobian(self.x)
        if np.isinf(cov).any():
            error = np.full(len(value), np.inf)
        else:
            error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slopes, cov, slopes), 0))
        return value.reshape(problem.shape)[()], error.reshape(problem.shape)[()]

    def entry(self, name: str | int) -> int:
        """The position in `x` of a parameter, by its name or position."""
        points = self.residuals.points
        if isinstance(name, int) and not isinstance(name, bool) and -len(self.x) <= name < len(self.x):
            return name % len(self.x)
        varied = [points.label(k) for k in points.free]
        if name in varied:
            return varied.index(name)
        if any(name == label.partition("[")[0] for label in varied):
            cause = f"{name} is an array"
        elif any(name == points.label(k) for k in range(len(points.whole))):
            cause = f"{name} was fixed"
        else:
            cause = f"the fit has no parameter {name!r}"
        shown = ", ".join(map(repr, varied[:MOST_NAMES])) + ", ..." * (len(varied) > MOST_NAMES)
        raise SolverError(cause, remedy=f"pass one of {shown}")

    def name_of(self, k: int) -> str:
        """The name of number `k` of `x`."""
        points = self.residuals.points
        return str(points.label(points.free[k]))

    def cost(self, k: int, value: float, starts: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
        """Half the least sum of squares where number `k` has a fixed value, and the numbers at which it is;
        the others start at the best of `starts`."""
        import scipy.optimize

        others = np.arange(len(self.x)) != k
        points = self.residuals.points
        residuals = self.residuals.at(points.holding(points.free[[k]], np.array([value])))
        with np.errstate(all="ignore"):
            costs = [_half_square(residuals.value(start[others])) for start in starts]
            best = starts[int(np.argmin(costs))].copy()
            best[k] = value
            if not others.any() or not np.isfinite(min(costs)):
                return min(costs), best
            solve: Any = scipy.optimize.least_squares
            lower, upper = self.limits
            scale = self.settings.get("x_scale", 1.0)
            found = solve(
                residuals.value,
                best[others],
                jac=residuals.jacobian,
                bounds=(lower[others], upper[others]),
                **{**self.settings, **TIGHT, "x_scale": scale[others] if np.ndim(scale) else scale},
            )
        best[others] = found.x
        return float(found.cost), best


def _half_square(residuals: np.ndarray) -> float:
    """Half the sum of squares; infinite where it is no number."""
    found = float(residuals @ residuals) / 2
    return found if np.isfinite(found) else np.inf


class _Profile:
    """How the cost rises on one side of a fitted number, where all others are fitted again.

    It is measured by the square root of twice the rise, in units of the errors' scale: a function that is
    linear for a linear model.
    """

    def __init__(self, fit: Fit, known: Uncertainty, k: int, side: int) -> None:
        self.fit, self.known, self.k, self.side = fit, known, k, side
        self.scale = known.scale
        self.step = float(np.sqrt(known.cov[k, k]))
        self.along = known.cov[k] / known.cov[k, k]  # how all numbers move with this one, if all were linear
        self.last = fit.x

    def end(self, level: float) -> float:
        """Where the rise reaches the quantile of a level of confidence: a bound, or infinity, if nowhere."""
        from scipy.optimize import brentq

        solve: Any = brentq
        centre, bound = float(self.fit.x[self.k]), float(self.fit.limits[self.side > 0][self.k])
        height = float(quantile(level, self.known.freedom, self.known.absolute))
        near, reach = centre, height * self.step
        if 0 < FARTHEST * abs(centre) < reach:  # the data say so little that the error gives no scale
            reach = abs(centre)
        close = PROFILE_SHARE * reach
        for _ in range(MOST_PROFILE_STEPS):
            far = centre + self.side * reach
            if self.side * (far - bound) >= 0:
                far = bound
            if self.above(far, height) > 0:
                return float(solve(self.above, near, far, (height,), xtol=close))
            if far == bound:
                return bound
            near, reach = far, 2 * reach
        return self.side * np.inf

    def above(self, value: float, height: float) -> float:
        """By how much the measure at a value is above a height; far from there it is cut off."""
        moved = value - self.fit.x[self.k]
        if not moved:
            return -height
        linear = np.clip(self.fit.x + self.along * moved, *self.fit.limits)
        cost, point = self.fit.cost(self.k, value, (linear, self.last))
        rise = 2 * (cost - self.known.cost) / self.scale
        if rise < -BETTER_SHARE * height**2:
            raise SolverError(
                f"the cost is lower at {self.fit.name_of(self.k)} = {value:.6g} than at the fit: {cost:.6g}, "
                f"not {self.known.cost:.6g}",
                remedy="fit again from another start: this fit is not the best one",
            )
        if np.isfinite(cost):
            self.last = point
        return min(float(np.sqrt(max(rise, 0.0))), 10 * height) - height


class FitResult(OptimizeResult):
    """SciPy's result of `least_squares`, with the fitted parameters and their uncertainty.

    `.params` has the parameters in a container like the start. `.x` has those that were fitted, as a vector,
    and so `.jac` and `.cov`: what is fixed, or has equal bounds, has no row or column.
    """

    _uncertainty: Uncertainty
    _fit: Fit

    def __init__(self, result: Any, uncertainty: Uncertainty, fit: Fit) -> None:
        super().__init__()
        self.update(result)
        self["params"] = uncertainty.points.params(self["x"])
        object.__setattr__(self, "_uncertainty", uncertainty)
        object.__setattr__(self, "_fit", fit)

    @property
    @public
    def cov(self) -> np.ndarray:
        """The covariance matrix of the parameters, in the order of `.x`."""
        return self._uncertainty.cov

    @property
    @public
    def correlation(self) -> np.ndarray:
        """The correlation matrix of the parameters, in the order of `.x`; NaN if the residuals do not
        determine all of them."""
        return self._uncertainty.correlation

    @property
    @public
    def stderr(self) -> Any:
        """The standard errors of the parameters: a container like `.params`, with 0 for what is fixed."""
        return self._uncertainty.points.params(self._errors(), held=0.0)

    @public
    def confidence(self, level: float = 0.95) -> tuple[Any, Any]:
        """The limits of confidence intervals, (lower, upper), each a container like `.params`."""
        known = self._uncertainty
        reach, params = quantile(level, known.freedom, known.absolute) * self._errors(), known.points.params
        return params(self["x"] - reach), params(self["x"] + reach)

    @public
    def predict(self, xdata: Any) -> tuple[Any, Any]:
        """Values of the model of `curve_fit` at `xdata`, and their standard errors: (value, stderr).

        The errors are those of the fitted curve, by the exact derivatives of the model and `.cov`. They do
        not contain the scatter of a new measurement.
        """
        return self._fit.predicted(xdata, self.cov)

    @public
    def profile(self, name: str | int, level: float = 0.95) -> tuple[float, float]:
        """The confidence interval (low, high) of one parameter by its profile likelihood.

        name   the parameter: its name, or its position in `.x`
        level  of confidence

        All other parameters are fitted again for values of this one. The interval ends where the sum of
        squares exceeds its minimum by the quantile: of F with 1 and the degrees of freedom, or of chi2 if the
        errors are known. It ends at a bound, or is infinite, if the sum does not rise so far. Unlike
        `.confidence`, it does not rest on the linearised model. Raises SolverError for a robust loss, and if
        the data do not determine the parameters.
        """
        known, fit = self._uncertainty, self._fit
        quantile(level, known.freedom, known.absolute)
        if fit.loss != "linear":
            raise SolverError(
                f"profile does not take the loss {fit.loss!r}", remedy='use fit.confidence, or loss="linear"'
            )
        k = fit.entry(name)
        if np.isinf(known.cov).any():
            raise SolverError(
                "the data do not determine all parameters",
                remedy='pass more data, or hold some parameters: fixed="name"',
            )
        if not known.scale or not known.cov[k, k]:
            return float(fit.x[k]), float(fit.x[k])
        return _Profile(fit, known, k, -1).end(level), _Profile(fit, known, k, 1).end(level)

    def _errors(self) -> np.ndarray:
        found: np.ndarray = np.sqrt(np.diagonal(self._uncertainty.cov))
        return found

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *ADDITIONS]
