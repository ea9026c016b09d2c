"""Arrays of other libraries as arguments: the module of `interop` that adapts calls, by the argument's class.

An adapter is imported when an argument of its classes first occurs, so no library is imported here. Calls
with only numbers and NumPy arrays never look for adapters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from adcompiler.errors import DtypeError, Error
from adcompiler.lazy import WeakMemo
from adcompiler.lazy_dataclass import dataclass
from adcompiler.runtime.arguments.refused import refuse_others


class Wrapper(Protocol):
    """How arrays of one call go back to a caller with arrays of another library, and how the caller's are
    read, each by the number of the result or of the program's input that it belongs to. It can be pickled."""

    def result(self, k: int, array: Any) -> Any:
        """A result, or its derivative along tangents, which is shaped like it."""

    def gradient(self, n: int, array: Any) -> Any:
        """The gradient by an input, which is shaped like that."""

    def cotangent(self, k: int, value: Any) -> Any:
        """The numbers of a result's cotangent; Error if it cannot belong to that."""

    def tangent(self, n: int, value: Any) -> Any:
        """The numbers of an input's tangent; Error if it cannot belong to that."""


@dataclass(frozen=True)
class Converted:
    """The wrapper of a library whose arrays have no labels: `into` makes one of an array of NumPy's, and
    `numbers`, given a name for messages, goes back."""

    into: Callable[[Any], Any]
    numbers: Callable[[str, Any], Any]

    def result(self, k: int, array: Any) -> Any:
        """A result, also a number, as an array of the library."""
        return self.into(array)

    def gradient(self, n: int, array: Any) -> Any:
        """A gradient as an array of the library."""
        return self.into(array)

    def cotangent(self, k: int, value: Any) -> Any:
        """The numbers of a cotangent."""
        return self.numbers("the cotangent", value)

    def tangent(self, n: int, value: Any) -> Any:
        """The numbers of a tangent."""
        return self.numbers("the tangent", value)


class Adapter(Protocol):
    """What a module of `interop` has, whose classes are in `HOMES`: `call`, and the others where it wants."""

    def call(self, function: Any, bound: Sequence[Any]) -> Any:
        """A call of a compiled function where an argument, or a leaf of one, is of such a class; `bound` are
        the arguments in order."""

    def plain(self, name: str, value: Any) -> Any:
        """A value of such a class as an array of NumPy, not copied if that can be; Error, which calls it by
        `name`, if it cannot be one."""

    def wrapper(self, function: Any, bound: Sequence[Any]) -> Wrapper | None:
        """The same for `vjp` and whatever else calls separate programs. It raises what `call` would raise
        for labels that do not fit; None if results stay NumPy's."""

    def agree(self, name: str, value: Any, other: Any) -> None:
        """Error, which calls the value by `name`, if its labels are not those of another one."""

    def like(self, value: Any, array: np.ndarray) -> Any:
        """An array with the labels of a value of its shape."""

    def memory_of(self, name: str, value: Any) -> Any:
        """The memory of a value that is about to be written to, as an array of NumPy's."""

    def pullback_of(self, function: Any, bound: Sequence[Any], wrt: Any) -> Any:
        """`adc.vjp` itself, where a library is to differentiate what that returns."""

    def stand_in(self, path: str, value: Any) -> Any:
        """An array of NumPy's of the type and shape of such a value; for `jvp`, whose program is then called.
        Other values as they are."""

    def fit_tangent(self, name: str, value: Any, shape: Sequence[int], dtype: Any) -> Any:
        """A tangent as such a call takes it, where that is not an array of NumPy's."""


# The library and the class (its own, or that of a base), and where the adapter is.
HOMES: Mapping[tuple[str, str], str] = {
    ("pandas", "DataFrame"): "adcompiler.interop.pandas",
    ("pandas", "Series"): "adcompiler.interop.pandas",
    ("pandas", "Index"): "adcompiler.interop.pandas",
    ("pandas", "ExtensionArray"): "adcompiler.interop.pandas",
    ("xarray", "DataArray"): "adcompiler.interop.xarray",
    ("xarray", "Dataset"): "adcompiler.interop.xarray",
    ("xarray", "Variable"): "adcompiler.interop.xarray",
    ("polars", "Series"): "adcompiler.interop.columns",
    ("polars", "DataFrame"): "adcompiler.interop.columns",
    ("polars", "LazyFrame"): "adcompiler.interop.columns",
    ("pyarrow", "Array"): "adcompiler.interop.columns",
    ("pyarrow", "ChunkedArray"): "adcompiler.interop.columns",
    ("pyarrow", "RecordBatch"): "adcompiler.interop.columns",
    ("pyarrow", "Table"): "adcompiler.interop.columns",
    ("dask", "Array"): "adcompiler.interop.dask",
    ("torch", "Tensor"): "adcompiler.interop.torch",
    ("jax", "Tracer"): "adcompiler.interop.jax",
    ("jaxlib", "ArrayImpl"): "adcompiler.interop.jax",
}
ARRAY_API = "adcompiler.interop.array_api"
OWN_WAY = "cupy", "numba"  # arrays on a device, which kernels take as they are

PLAIN = np.generic, float, int, list  # nothing is to be asked of them
OURS = *PLAIN, np.ndarray, tuple, dict

_known: WeakMemo[type, Adapter | None] = WeakMemo()


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
    return None if issubclass(kind, OURS) else _known.made(kind, lambda: _found(kind))


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


def refuse_beside(name: str, value: Any, library: str) -> None:
    """Raise DtypeError for arrays of two libraries in one call."""
    raise DtypeError(
        f"the argument {name!r} is a {type(value).__name__}, but others are of {library}",
        remedy="convert it, or pass a NumPy array, which mixes with any",
    )


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


def like(value: Any, array: Any) -> Any:
    """An array of NumPy's that has a value's shape, with its labels if it has some."""
    labelled = getattr(adapter_of(type(value)), "like", None)
    return array if labelled is None else labelled(value, array)


def agree(name: str, value: Any, other: Any) -> None:
    """Error, which calls a value by `name`, if it and another one have labels that differ."""
    if is_adapted(value) and (check := getattr(adapter_of(type(other)), "agree", None)) is not None:
        check(name, value, other)


def as_buffer(name: str, value: Any) -> Any:
    """The target of results: the memory of an array of another library, or the value itself."""
    own = getattr(adapter_of(type(value)), "memory_of", None)
    return value if own is None else own(name, value)


def as_numpy(name: str, value: Any) -> Any:
    """A value as an array of NumPy's, if it is of another library; else as it is, unless it is refused."""
    if type(value) is np.ndarray or isinstance(value, PLAIN):
        return value
    if (plain := getattr(adapter_of(type(value)), "plain", None)) is not None:
        return plain(name, value)
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    refuse_others(name, value)
    return value
