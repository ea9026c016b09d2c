"""Arrays of any library that follows the array API standard: results are arrays of the same namespace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError
from adcompiler.pytree.containers import leaves_in, mapped
from adcompiler.runtime.arguments.adapters import Converted, adapter_of, refuse_beside
from adcompiler.runtime.arguments.device import is_on_device
from adcompiler.runtime.arguments.signature import with_leaves


def call(function: Any, bound: Sequence[Any]) -> Any:
    """The call on NumPy views of the arrays; every result, also a number, is an array of their namespace.

    Raises DtypeError for arrays of several namespaces; NumPy arrays may be mixed with any. Kernels for a CUDA
    device take arrays on the device as they are.
    """
    if function._backend.startswith("cuda") and any(map(is_on_device, leaves_in(bound))):
        return function._bind(bound).result()
    into = partial(_into, _namespace(function, bound))
    return mapped(into, function(*with_leaves(function._parameters, bound, _numbers)))


def wrapper(function: Any, bound: Sequence[Any]) -> Converted:
    """The wrapper that returns results in the arguments' namespace."""
    return Converted(partial(_into, _namespace(function, bound)), _bare)


def _namespace(function: Any, bound: Sequence[Any]) -> str:
    """The name of the one namespace of a call."""
    ours = filter(_is_ours, leaves_in(tuple(bound), _is_ours))
    namespaces: list[str] = list(dict.fromkeys(value.__array_namespace__().__name__ for value in ours))
    if len(namespaces) > 1:
        raise DtypeError(
            f"{function.__name__} got arrays of {' and '.join(namespaces)}",
            remedy="convert them to one library: its from_dlpack(x)",
        )
    return namespaces[0]


def plain(name: str, value: Any) -> np.ndarray:
    """The array's memory as a NumPy array, by DLPack; DtypeError if NumPy cannot read it."""
    try:
        return np.from_dlpack(value)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        device = getattr(value, "device", "?")
        raise DtypeError(
            f"{name} is a {type(value).__name__} on {device} that NumPy cannot read: {error}",
            remedy="pass a copy on the host, of bool, integers, float32 or float64",
        ) from error


def _numbers(name: str, value: Any) -> Any:
    """The numbers of an argument or of one of its leaves."""
    if adapter_of(type(value)) is not None and not _is_ours(value):
        refuse_beside(name, value, "an array API")
    return _bare(f"the argument {name!r}", value)


def _bare(name: str, value: Any) -> Any:
    return plain(name, value) if _is_ours(value) else value


def _is_ours(value: Any) -> bool:
    adapter = adapter_of(type(value))
    return adapter is not None and adapter.plain is plain  # so is that of JAX, with a call of its own


def _into(namespace: str, value: Any) -> Any:
    """A NumPy array or a number as an array of a namespace; anything else as it is."""
    if not isinstance(value, np.ndarray | np.generic | int | float):
        return value
    xp, array = import_module(namespace), np.asarray(value)
    try:
        return xp.from_dlpack(array)
    except (AttributeError, BufferError, RuntimeError, TypeError):
        return xp.asarray(array)
