"""Models of data: their independent variables, their parameters, and data as arrays of floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.api.function import Function
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.fit.checks import check_finite
from adcompiler.runtime.arguments.adapters import as_numpy

COMPLEX = "fit real and imaginary parts, side by side"


def floats_of(name: str, value: Any) -> np.ndarray:
    """Finite data as an array of float64."""
    array = numbers_of(name, value).astype(float)
    check_finite(name, array)
    return array


def data_of(name: str, values: Any) -> list[np.ndarray]:
    """Finite data, an array or a tuple of them, with the dtypes that they have."""
    arrays = [numbers_of(name, one) for one in (values if isinstance(values, tuple) else (values,))]
    for array in arrays:
        check_finite(name, array)
    kept = (np.dtype(np.float32), np.dtype(float))
    return [a.astype(float) if a.dtype.kind == "f" and a.dtype not in kept else a for a in arrays]


def numbers_of(name: str, value: Any) -> np.ndarray:
    """Data as an array of real numbers, with the dtype they have."""
    try:
        given = np.asarray(as_numpy(name, value))
        if given.dtype.kind == "c":
            raise DtypeError(f"{name} is complex", remedy=COMPLEX)
        return given if given.dtype.kind in "biuf" else given.astype(float)
    except DtypeError:
        raise
    except (ValueError, TypeError) as error:
        raise DtypeError(f"{name} is not an array of numbers: {error}", remedy="pass arrays") from None


def split(
    model: Function, variables: int, start: Any, what: tuple[str, str] = ("xdata", "p0")
) -> tuple[int, bool]:
    """How many parameters are independent variables, and whether each other one is a part of the start.

    variables  the number of arrays that are passed for them
    what       the names of these arrays and of the start in messages
    """
    names = model._names
    several = variables if variables < len(names) else 1
    size = len(start) if isinstance(start, tuple | list | dict) or np.ndim(start) == 1 else 1
    for count in dict.fromkeys((several, 1)):
        free = names[count:]
        if free and start is None:
            return count, True
        if len(free) == size and (not isinstance(start, dict) or set(start) == set(free)):
            return count, len(free) > 1 or isinstance(start, dict) or np.ndim(start) == 1
        if len(free) == 1:
            return count, False
    data, name = what
    listed, free = ", ".join(names), names[several:]
    if isinstance(start, dict):
        raise ShapeError(
            f"{name} has the keys {', '.join(map(repr, start))}, but the parameters are {', '.join(free)}",
            remedy="pass a dict with their names as keys, or a sequence of their values",
        )
    raise ShapeError(
        f"{name} has {size} values, but {model.__name__}({listed}) has {len(free)} parameters besides "
        f"{variables} of {data}",
        remedy=f"the independent variables come first, then a parameter for each of {name}",
    )


def one_or_all(inputs: Sequence[Any]) -> Any:
    """The only item of a sequence, or all of them."""
    return inputs[0] if len(inputs) == 1 else tuple(inputs)
