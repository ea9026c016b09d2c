"""Parameter studies: one function on many cases, in batches by `Client.map`.

A function travels as its pickled content. A worker unpickles it once and keeps it, with the kernels that it
compiles then, for all batches of all studies with that content.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError, Error, ShapeError
from adcompiler.fork import Locked
from adcompiler.frames import public
from adcompiler.runtime.function import Function
from adcompiler.runtime.vmap import vmap
from adcompiler.syntax.containers import mapped, opened

Axes = tuple[int | None, ...]
_known: dict[str, Any] = {}
_LOCK = Locked()


def distributed() -> Any:
    """The module `distributed`; Error where it is not installed."""
    try:
        import distributed
    except ImportError as error:
        raise Error(f"adc.dask.map needs Dask: {error}", remedy='pip install "adcompiler[dask]"') from error
    return distributed


@dataclass(frozen=True)
class Content:
    """A function as what it is made of."""

    digest: str
    pickled: bytes

    def __dask_tokenize__(self) -> str:
        return self.digest

    @property
    def function(self) -> Any:
        """The function in this process."""
        import cloudpickle

        with _LOCK.lock:
            if self.digest not in _known:
                _known[self.digest] = cloudpickle.loads(self.pickled)
            return _known[self.digest]


def content(f: Any) -> Content:
    """A function to be sent to workers."""
    import cloudpickle

    pickled = cloudpickle.dumps(f)
    return Content(hashlib.sha256(pickled).hexdigest(), pickled)


def run_batch(batch: tuple[Any, ...], f: Content, axes: Axes, shared: tuple[Any, ...]) -> Any:
    """The results for one batch: stacked arrays of a compiled function, a list of those of any other."""
    rest = iter(shared)
    cases = iter(batch)
    args = tuple(next(rest) if axis is None else next(cases) for axis in axes)
    if isinstance(f.function, Function):
        return f.function(*args)
    count = length(batch[0])
    return [f.function(*(pick(a, axis, k) for a, axis in zip(args, axes, strict=True))) for k in range(count)]


def pick(value: Any, axis: int | None, where: Any) -> Any:
    """A case, or a slice of them, of an argument."""
    return value if axis is None else mapped(lambda a: a[where], value)


def leaves(value: Any) -> list[Any]:
    """The leaves of an argument."""
    container = opened(value, "an argument")
    return [value] if container is None else [leaf for part in container.parts for leaf in leaves(part)]


def length(value: Any) -> int:
    """How many cases an argument has."""
    lengths = {len(leaf) if hasattr(leaf, "__len__") else -1 for leaf in leaves(value)}
    if len(lengths) != 1 or -1 in lengths:
        raise ShapeError(
            "an argument with one entry a case is an array, or a container of arrays of one length",
            remedy="in_axes=(0, None): None stands for an argument that is the same for every case",
        )
    return lengths.pop()


def joined(parts: Sequence[Any]) -> Any:
    """The results of all batches as one."""
    container = opened(parts[0], "a result")
    if container is None:
        return None if parts[0] is None else np.concatenate(parts)
    columns = zip(*(opened(part, "a result").parts for part in parts), strict=True)  # type: ignore[union-attr]
    return container.build([joined(column) for column in columns])


@public
def map(
    f: Callable[..., Any],
    *args: Any,
    in_axes: int | Sequence[int | None] | None = 0,
    batch: int = 100,
    client: Any = None,
    progress: bool | None = None,
) -> Any:
    """`f` on many cases, `batch` of them a task, on the workers of a cluster; waits for the results.

    f         a compiled function, or a derivative such as `adc.value_and_grad(f)`: a batch is one call of
              `adc.vmap(f)`, and results are arrays nested as those of `f`, the cases their first axis. Or any
              function of Python that can be pickled, such as a fit that calls compiled functions: it is
              called case by case, and the results are a list
    args      arrays, or containers of arrays, with the cases along their first axis; where `in_axes` is None,
              an argument is the same for every case
    batch     how many cases a task has; results do not depend on the workers, their last bits may on this
    client    the `distributed.Client`, by default the current one
    progress  whether Dask's progress bar is shown; by default where there is a terminal or a notebook

    Raises ShapeError for arguments of different lengths, Error where there is no client, and what `f` raises.
    """
    axes: Axes = (in_axes,) * len(args) if isinstance(in_axes, int | None) else tuple(in_axes)
    count = cases(args, axes)
    compiled = isinstance(f, Function)
    if isinstance(f, Function):
        f = vmap(f, axes)
    elif not callable(f):
        raise DtypeError(
            f"adc.dask.map takes a function, not a {type(f).__name__}", remedy="compile it first"
        )
    spans = [slice(k, k + batch) for k in range(0, count, batch)]
    pairs = [(a, axis) for a, axis in zip(args, axes, strict=True) if axis is not None]
    batches = [tuple(pick(a, axis, span) for a, axis in pairs) for span in spans]
    shared = tuple(a for a, axis in zip(args, axes, strict=True) if axis is None)
    client = current(client)
    name = getattr(f, "__name__", type(f).__name__)
    futures = client.map(run_batch, batches, f=content(f), axes=axes, shared=shared, key=f"map_{name}")
    if progress or (progress is None and is_watched()):
        distributed().progress(futures)
    parts = client.gather(futures)
    return joined(parts) if compiled else [result for part in parts for result in part]


def cases(args: Sequence[Any], axes: Axes) -> int:
    """How many cases the arguments have."""
    if len(axes) != len(args) or any(axis not in (0, None) for axis in axes) or set(axes) <= {None}:
        raise ShapeError(
            f"in_axes {axes} for {len(args)} arguments",
            remedy="0 or None for each, 0 for one of them at least",
        )
    lengths = {length(a) for a, axis in zip(args, axes, strict=True) if axis is not None}
    if len(lengths) > 1 or lengths == {0}:
        raise ShapeError(f"the arguments have {sorted(lengths)} cases", remedy="the same number, 1 or more")
    return lengths.pop()


def current(client: Any) -> Any:
    """The client that is given, or the one in use."""
    if client is not None:
        return client
    try:
        return distributed().get_client()
    except ValueError as error:
        raise Error("there is no client of a cluster", remedy="client = distributed.Client()") from error


def is_watched() -> bool:
    """Whether somebody sees what is printed."""
    return sys.stdout.isatty() or bool(distributed().utils.is_kernel())
