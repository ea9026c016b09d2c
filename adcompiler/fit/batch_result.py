"""The result of a batch of fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from adcompiler.fit.batch_program import pairs
from adcompiler.fit.batch_start import Start
from adcompiler.fit.checks import quantile
from adcompiler.frames import public
from adcompiler.lazy import cached_property
from adcompiler.lazy_dataclass import dataclass

# Of fits that did not converge, beside 0; others have SciPy's numbers.
NOT_FINITE, FEW, SINGULAR = -1, -2, -3
MESSAGES = {
    0: "stopped at max_nfev",
    NOT_FINITE: "not finite at the start",
    FEW: "with fewer points than parameters",
    SINGULAR: "with points that do not determine all parameters",
}


@dataclass(repr=False)
class BatchResult:
    """The results of many fits; each array has the fits as its first axis.

    x        the fitted parameters, an array (fits, parameters); NaN for a fit that could not start
    params   the same in the form of the start
    cost     half the sum of squares
    status   1 to 4: converged by gtol, ftol, xtol, or ftol and xtol, as in SciPy; 0: `max_nfev` was reached;
             -1: not finite at the start; -2: fewer points than parameters; -3: the points do not determine
             all parameters
    success  whether status is positive
    nfev     the number of evaluations of the model
    """

    x: np.ndarray
    params: Any
    cost: np.ndarray
    status: np.ndarray
    nfev: np.ndarray
    start: Start
    squares: np.ndarray  # the covariance, a row for each of `pairs`
    freedom: np.ndarray
    absolute: bool

    @property
    def success(self) -> np.ndarray:
        """Whether a fit converged, and its points determine all parameters."""
        found: np.ndarray = self.status > 0
        return found

    @property
    def iterations(self) -> np.ndarray:
        """The number of steps tried."""
        found: np.ndarray = np.maximum(self.nfev - 1, 0)
        return found

    @cached_property
    def cov(self) -> np.ndarray:
        """The covariance matrices of the parameters (fits, parameters, parameters), in the order of `x`; inf
        where the points do not determine all parameters."""
        n = self.x.shape[1]
        found = np.empty((len(self.x), n, n))
        for (i, j), row in zip(pairs(n), self.squares, strict=True):
            found[:, i, j] = found[:, j, i] = row
        return found

    @property
    @public
    def stderr(self) -> Any:
        """The standard errors of the parameters, in the form of the start."""
        return self.start.like(self._errors())

    @public
    def confidence(self, level: float = 0.95) -> tuple[Any, Any]:
        """The limits of confidence intervals, (lower, upper), each in the form of the start."""
        reach, x = quantile(level, self.freedom, self.absolute) * self._errors(), self.x.T
        return self.start.like(x - reach), self.start.like(x + reach)

    def _errors(self) -> np.ndarray:
        diagonal = [k for k, (i, j) in enumerate(pairs(self.x.shape[1])) if i == j]
        found: np.ndarray = np.sqrt(self.squares[diagonal])
        return found

    def __repr__(self) -> str:
        fits, n = self.x.shape
        counts = [(int(self.success.sum()), "converged")]
        counts += [(int((self.status == k).sum()), text) for k, text in MESSAGES.items()]
        parts = [f"{count:,} {text}" for count, text in counts if count]
        return f"<{fits:,} fits of {n} parameter{'s' * (n != 1)}: {', '.join(parts) or 'none'}>"
