"""Tangents of arguments, nested, shaped and typed like their arguments; and cotangents of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError, ShapeError
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.pytree.containers import Container
from adcompiler.pytree.kinds import ArgType
from adcompiler.pytree.records import Records
from adcompiler.pytree.structures import flatten, places_of, unflatten
from adcompiler.pytree.trees import leaves_by_path
from adcompiler.runtime.arguments import adapters
from adcompiler.runtime.arguments.adapters import adapter_of, as_numpy
from adcompiler.runtime.arguments.device import describe_on_device, is_on_device
from adcompiler.runtime.arguments.refused import refuse_masked


def like(tangent: Any, args: Sequence[Any], kind: Any, name: str) -> Any:
    """A tangent in its argument's structure, shapes and dtypes; `args` are the argument's floats.

    That of a structured array is a dict: it has None for values that are not floats.
    """
    return unflatten(_as_dicts(places_of(kind)), flat(tangent, args, kind, name))


def _as_dicts(structure: Any) -> Any:
    if not isinstance(structure, Container):
        return structure
    made = structure.map(_as_dicts)
    return replace(made, kind=dict) if issubclass(made.kind, Records) else made


def flat(tangent: Any, args: Sequence[Any], kind: Any, name: str) -> list[Any]:
    """The tangents of an argument's floats `args`, each in its shape and dtype, and with its own labels if it
    has some; None stays None."""
    tangents = flatten(places_of(kind), tangent, f"the tangent of {name}")
    floats = [(path, k) for path, k in leaves_by_path(name, kind) if places_of(k) is None]
    triples = zip(tangents, args, floats, strict=True)
    return [d if d is None else _own(d, a, k, path) for d, a, (path, k) in triples]


def _own(tangent: Any, arg: Any, kind: ArgType, name: str) -> Any:
    """A tangent as arrays of its library, or with its labels."""
    own = getattr(adapter_of(type(tangent)), "fit_tangent", None)
    if own is not None:
        return own(name, tangent, np.shape(arg), kind.dtype)
    return adapters.like(tangent, fitted(tangent, arg, kind, name))


def fitted(tangent: Any, arg: Any, kind: ArgType, name: str) -> Any:
    """The tangent of one array in its shape and dtype; it stays a Python number beside one."""
    if not isinstance(tangent, np.ndarray | np.generic | float | int | list) and is_on_device(tangent):
        found, value = describe_on_device(f"the tangent of {name}", tangent, True)
        if found.dtype == kind.dtype and np.shape(value) == np.shape(arg):
            return value
    refuse_masked(f"the tangent of {name}", tangent)
    array = np.asarray(as_numpy(f"the tangent of {name}", tangent))
    if array.shape != np.shape(arg) or array.dtype.kind not in "biuf":
        raise ShapeError(
            f"the tangent of {name} is {array.dtype} of shape {array.shape}, but {name} has {np.shape(arg)}",
            remedy="a tangent must be real and have its argument's shape",
        )
    return float(array) if kind.weak and not kind.ones else array.astype(NUMPY[kind.dtype], copy=False)


def as_cotangent(value: Any, name: str, dtype: Dtype, expected: tuple[int, ...] | int) -> Any:
    """The cotangent of a result, as kernels take it; the result's shape, or else its rank, is `expected`."""
    device, array = False, value
    if type(value) is not np.ndarray:
        refuse_masked(f"the cotangent of {name}", value)
        device = not isinstance(value, np.ndarray | float | int) and is_on_device(value)
        given = value if device else as_numpy(f"the cotangent of {name}", value)
        array = describe_on_device(name, value, True)[1] if device else np.asarray(given)
    if not device and array.dtype.kind not in "biuf":
        raise DtypeError(f"the cotangent of {name} is {array.dtype}", remedy="pass real numbers")
    found = np.ndim(array) if isinstance(expected, int) else np.shape(array)
    if found != expected:
        wanted = f"rank {expected}" if isinstance(expected, int) else f"{expected}"
        raise ShapeError(
            f"the cotangent of {name} has shape {np.shape(array)}, but the result has {wanted}",
            remedy="a cotangent must have its result's shape",
        )
    if device and expected:
        return array
    array = np.asarray(array).astype(NUMPY[dtype], copy=False)
    return array if expected else array[()]
