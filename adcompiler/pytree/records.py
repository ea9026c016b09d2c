"""Structured arrays as arrays of structs: each dtype with fields is a class of containers."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np


class _OfDtype(type):
    """The class of the classes of structured arrays, which pickle as their dtypes."""

    dtype: np.dtype


class Records(metaclass=_OfDtype):
    """What structured arrays of one dtype have as the class of their containers."""


@cache
def records(dtype: np.dtype) -> _OfDtype:
    """The class of structured arrays of a dtype."""
    return _OfDtype("records", (Records,), {"dtype": dtype})


copyreg.pickle(_OfDtype, lambda kind: (records, (kind.dtype,)))


def structured(dtype: np.dtype, parts: Sequence[Any]) -> Any:
    """A structured array of a dtype with these fields, zero where a part is None; None if all are.

    Where their shapes do not make an array of structs, as those of second derivatives, a dict of the fields.
    """
    names = dtype.names or ()
    shapes = {
        _outside(dtype[name], part) for name, part in zip(names, parts, strict=True) if part is not None
    }
    if not shapes:
        return None
    (shape, *others) = shapes
    if others or shape is None:
        return dict(zip(names, parts, strict=True))
    made = np.zeros(shape, dtype)
    for name, part in zip(names, parts, strict=True):
        if part is not None:
            made[name] = part
    return made if shape else made[()]


def _outside(field: np.dtype, part: Any) -> tuple[int, ...] | None:
    """The shape of an array of structs of which a part has all elements of a field; None if it has not."""
    if isinstance(part, dict | tuple | list) or (getattr(part, "dtype", None) is None and np.ndim(part)):
        return None
    shape, own = np.shape(part), field.shape
    first = len(shape) - len(own)
    struct = getattr(getattr(part, "dtype", None), "names", None)
    fits = first >= 0 and shape[first:] == own and (part.dtype == field if field.names or struct else True)
    return shape[:first] if fits else None
