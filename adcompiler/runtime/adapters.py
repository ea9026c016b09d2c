"""Arrays of other libraries as arguments: the module of `interop` that adapts calls, by the argument's class.

An adapter is imported when an argument of its classes is first met, so that no library is imported here, and
calls with numbers and NumPy's arrays alone never ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from adcompiler.errors import Error
from adcompiler.runtime.refused import refuse_others


class Dress(NamedTuple):
    """How NumPy's arrays come back to a caller with arrays of another library: a function's value, and the
    tuple of its gradients; and how a cotangent of the caller's is read. All three can be pickled."""

    value: Callable[[Any], Any]
    gradients: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    cotangent: Callable[[Any], Any]


class Adapter(Protocol):
    """What a module of `interop` has, whose classes are in `HOMES`: `call`, and the others where it wants."""

    def call(self, function: Any, bound: Sequence[Any]) -> Any:
        """A call of a compiled function where an argument, or a leaf of one, is of such a class; `bound` are
        the arguments in order."""

    def plain(self, name: str, value: Any) -> Any:
        """A value of such a class as an array of NumPy, not copied if that can be; Error, which calls it by
        `name`, if it cannot be one."""

    def dress(self, function: Any, bound: Sequence[Any], wrt: Any) -> Dress:
        """The same for `vjp`: how the value and the gradients of a call come back."""

    def check(self, function: Any, bound: Sequence[Any]) -> None:
        """Raise what `call` would raise for labels that do not fit."""

    def cast(self, value: Any, array: np.ndarray) -> Any:
        """An array that was made of a value, with the value's labels."""


# The library and the class (its own, or that of a base), and where the adapter is.
HOMES: Mapping[tuple[str, str], str] = {
    ("pandas", "DataFrame"): "adcompiler.interop.pandas",
    ("pandas", "Series"): "adcompiler.interop.pandas",
    ("pandas", "Index"): "adcompiler.interop.pandas",
    ("pandas", "ExtensionArray"): "adcompiler.interop.pandas",
    ("xarray", "DataArray"): "adcompiler.interop.xarray",
    ("xarray", "Dataset"): "adcompiler.interop.xarray",
    ("xarray", "Variable"): "adcompiler.interop.xarray",
    ("dask", "Array"): "adcompiler.interop.dask",
    ("torch", "Tensor"): "adcompiler.interop.torch",
    ("jax", "Tracer"): "adcompiler.interop.jax",
    ("jaxlib", "ArrayImpl"): "adcompiler.interop.jax",
}
ARRAY_API = "adcompiler.interop.array_api"
OWN_WAY = "cupy", "numba"  # arrays on a device, which kernels take as they are

PLAIN = np.generic, float, int, list  # nothing is to be asked of them
OURS = *PLAIN, np.ndarray, tuple, dict

_known: WeakKeyDictionary[type, Adapter | None] = WeakKeyDictionary()


def interop(library: str) -> Any:
    """The module of `interop` for a library; Error if that is not installed."""
    try:
        return import_module(f"adcompiler.interop.{library}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        raise Error(f"{library} is not installed", remedy=f"pip install 'adcompiler[{library}]'") from error


def adapter_of(kind: type) -> Adapter | None:
    """The adapter for calls with objects of a class; None for those that need none."""
    if issubclass(kind, OURS):
        return None
    try:
        return _known[kind]
    except KeyError:
        return _known.setdefault(kind, _found(kind))


def _found(kind: type) -> Adapter | None:
    libraries = [base.__module__.partition(".")[0] for base in kind.__mro__]
    for library, base in zip(libraries, kind.__mro__, strict=True):
        if home := HOMES.get((library, base.__name__)):
            return _imported(home)
    if hasattr(kind, "__array_namespace__") and not {"numpy", *OWN_WAY}.intersection(libraries):
        return _imported(ARRAY_API)
    return None


def _imported(home: str) -> Adapter:
    module: Any = import_module(home)
    return module  # type: ignore[no-any-return]


def is_adapted(value: Any) -> bool:
    """Whether calls with a value are an adapter's."""
    return adapter_of(type(value)) is not None


def answered(hook: Any, function: Any, bound: Sequence[Any]) -> Any:
    """A call by the argument that handles it: a Variable, or an array of another library."""
    if (own := getattr(hook, "__adc_call__", None)) is not None:
        return own(function, bound)
    adapter = adapter_of(type(hook))
    assert adapter is not None
    return adapter.call(function, bound)


def cast(value: Any, array: Any) -> Any:
    """An array of NumPy's that was made of a value, as what the value is if it has labels."""
    made = getattr(adapter_of(type(value)), "cast", None)
    return array if made is None else made(value, array)


def checked(hook: Any, function: Any, bound: Sequence[Any]) -> None:
    """Raise what a call would raise for labels that do not fit; for what takes numbers alone."""
    if (check := getattr(adapter_of(type(hook)), "check", None)) is not None:
        check(function, bound)


def as_numpy(name: str, value: Any) -> Any:
    """A value as an array of NumPy's, if it is of another library; else as it is, unless it is refused."""
    if isinstance(value, PLAIN):
        return value
    if (plain := getattr(adapter_of(type(value)), "plain", None)) is not None:
        return plain(name, value)
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    refuse_others(name, value)
    return value
