"""The result of a least-squares fit: SciPy's, with the uncertainty of what was fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from adcompiler.errors import LimitError
from adcompiler.fit.checks import quantile
from adcompiler.fit.limits import MOST_COVARIANCES
from adcompiler.fit.points import Points
from adcompiler.frames import public
from adcompiler.lazy import cached_property
from adcompiler.lazy_dataclass import dataclass


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
            return inverse * (2 * self.cost / self.freedom)
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


class FitResult(OptimizeResult):
    """SciPy's result of `least_squares`, with the fitted parameters and their uncertainty.

    `.params` has the fitted parameters in a container like the start, and `.x` the same as a vector.
    """

    _uncertainty: Uncertainty

    def __init__(self, result: Any, uncertainty: Uncertainty) -> None:
        super().__init__()
        self.update(result)
        self["params"] = uncertainty.points.params(self["x"])
        object.__setattr__(self, "_uncertainty", uncertainty)

    @property
    @public
    def cov(self) -> np.ndarray:
        """The covariance matrix of the parameters, in the order of `.x`."""
        return self._uncertainty.cov

    @property
    @public
    def stderr(self) -> Any:
        """The standard errors of the parameters: a container like `.params`."""
        return self._uncertainty.points.params(self._errors())

    @public
    def confidence(self, level: float = 0.95) -> tuple[Any, Any]:
        """The limits of confidence intervals, (lower, upper), each a container like `.params`."""
        known = self._uncertainty
        reach, params = quantile(level, known.freedom, known.absolute) * self._errors(), known.points.params
        return params(self["x"] - reach), params(self["x"] + reach)

    def _errors(self) -> np.ndarray:
        found: np.ndarray = np.sqrt(np.diagonal(self._uncertainty.cov))
        return found

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), "cov", "stderr", "confidence"]
