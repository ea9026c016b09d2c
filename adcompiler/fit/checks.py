"""What solvers refuse before they begin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from adcompiler.errors import Error


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


def check_finite(name: str, values: Any) -> None:
    """Raise SolverError for NaN and infinite values."""
    array = np.asarray(values)
    if array.size and not np.isfinite(array).all():
        place = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        shown = f"{name}[{', '.join(map(str, place))}]" if place else name
        raise SolverError(f"{shown} is {array[place]}", remedy=f"pass finite numbers as {name}")


def check_value(what: str, name: str, values: Any, of: str = "") -> None:
    """Raise SolverError if a function, or a derivative `of` it, is not finite at the start."""
    if not np.isfinite(values).all():
        raise SolverError(
            f"{what}: {of}{name} is not finite at the start",
            remedy=f"start elsewhere; adc.explain_nan({name}, ...) finds the operation it comes from",
        )
