"""Tangents of arguments: nested, shaped and typed like what they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.errors import ShapeError
from adcompiler.ir.types import NUMPY
from adcompiler.syntax.structures import flatten, leaves, places_of, unflatten
from adcompiler.syntax.values import ArgType


def like(tangent: Any, args: Sequence[Any], kind: Any, name: str) -> Any:
    """A tangent in its argument's structure, shapes and dtypes; `args` are the argument's floats."""
    return unflatten(places_of(kind), flat(tangent, args, kind, name))


def flat(tangent: Any, args: Sequence[Any], kind: Any, name: str) -> list[Any]:
    """The tangents of an argument's floats `args`, each in its shape and dtype; None stays None."""
    tangents = flatten(places_of(kind), tangent, f"the tangent of {name}")
    floats = [(path, k) for path, k in leaves(name, kind) if places_of(k) is None]
    triples = zip(tangents, args, floats, strict=True)
    return [d if d is None else _like(d, a, k, path) for d, a, (path, k) in triples]


def _like(tangent: Any, arg: Any, kind: ArgType, name: str) -> Any:
    """The tangent of one array in its shape and dtype; it stays a Python number beside one."""
    array = np.asarray(tangent)
    if array.shape != np.shape(arg) or array.dtype.kind not in "biuf":
        raise ShapeError(
            f"the tangent of {name} is {array.dtype} of shape {array.shape}, {name} itself {np.shape(arg)}",
            remedy="a tangent has its argument's shape and is real",
        )
    return float(array) if kind.weak else array.astype(NUMPY[kind.dtype], copy=False)
