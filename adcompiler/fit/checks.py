"""What solvers refuse before they begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from adcompiler.api.finite_differences import entry
from adcompiler.errors import Error, ShapeError


class SolverError(Error, ValueError):
    """A solver does not take a start, bounds, data or a setting."""


def check_method(what: str, method: Any, known: Iterable[str]) -> str:
    """The name of a method as SciPy spells it; any case is accepted."""
    names = {name.lower(): name for name in known}
    if not isinstance(method, str) or method.lower() not in names:
        raise SolverError(
            f"{what} has no method {method!r}", remedy=f"use one of {', '.join(map(repr, names.values()))}"
        )
    return names[method.lower()]


# The names under which SciPy's methods and Ipopt take a largest number of evaluations or iterations.
LIMITS = ("maxfev", "maxfun", "maxiter", "max_iter", "max_nfev")
LIMITS_OF = {
    "Nelder-Mead": ("maxfev", "maxiter"),
    "Powell": ("maxfev", "maxiter"),
    "COBYQA": ("maxfev", "maxiter"),
    "L-BFGS-B": ("maxfun", "maxiter"),
    "TNC": ("maxfun",),
    "hybr": ("maxfev",),
    "df-sane": ("maxfev",),
    "ipopt": ("max_iter",),
}


def check_limits(what: str, method: str, options: Mapping[str, Any]) -> None:
    """Raise SolverError for the largest number of evaluations or iterations under a name that another method
    has for it: SciPy would ignore it."""
    known = LIMITS_OF.get(method, ("maxiter",))
    for option in options:
        if option in LIMITS and option not in known:
            raise SolverError(
                f"{what}: the method {method!r} has no option {option!r}", remedy=f"did you mean {known[0]}?"
            )


def check_finite(
    name: str, values: Any, missing: np.ndarray | None = None, remedy: str = "pass finite numbers as {}"
) -> None:
    """Raise SolverError for NaN and infinite values, except for those that are `missing`."""
    array = np.asarray(values)
    if array.size and not np.isfinite(array).all():
        wrong = ~np.isfinite(array)
        for found in np.argwhere(wrong if missing is None else wrong & ~missing):
            place = tuple(map(int, found))
            raise SolverError(f"{entry(name, place)} is {array[place]}", remedy=remedy.format(name))


def quantile(level: float, freedom: Any, absolute: bool) -> Any:
    """How many standard errors an interval of confidence reaches to each side: of Student's t, or normal if
    the scale of errors is known."""
    from scipy.special import ndtri, stdtrit

    if not 0 < level < 1:
        raise SolverError(f"confidence({level!r}) is not a level", remedy="pass a number between 0 and 1")
    upper = (1 + level) / 2
    return ndtri(upper) if absolute else stdtrit(np.maximum(freedom, 1), upper)


def limits_of(path: str, limit: Any, missing: float, of: str, shape: tuple[int, ...]) -> np.ndarray:
    """Limits of the entries of an array of this shape, which messages call `of`, as a vector; fewer are
    broadcast, and None stands for `missing`."""
    if isinstance(limit, list | tuple):
        limit = [missing if one is None else one for one in limit]
    array = np.asarray(missing if limit is None else limit, float)
    try:
        return np.broadcast_to(array, shape).reshape(-1)
    except ValueError:
        raise ShapeError(
            f"{path} has shape {array.shape}, but {of} {shape}",
            remedy="pass a limit for each entry, a row for all rows, or a number for all of them",
        ) from None


def check_order(lower: np.ndarray, upper: np.ndarray, what: str, remedy: str) -> None:
    """Raise SolverError for a lower limit above an upper one; `what` has a place for its number."""
    for k in np.flatnonzero(~(lower <= upper)):
        raise SolverError(f"the {what.format(k)} are ({lower[k]}, {upper[k]})", remedy=remedy)


def check_value(what: str, name: str, values: Any, of: str = "") -> None:
    """Raise SolverError if a function, or a derivative `of` it, is not finite at the start."""
    if not np.isfinite(values).all():
        raise SolverError(
            f"{what}: {of}{name} is not finite at the start",
            remedy=f"start elsewhere; adc.explain_nan({name}, ...) finds the operation it comes from",
        )
