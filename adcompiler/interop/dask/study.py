"""Parameter studies: one function on many cases, in batches by `Client.map`.

A function is sent as its pickled content. A worker unpickles it once and keeps it, with the kernels that it
compiles, for all batches of all studies with the same content.
"""

from __future__ import annotations

import hashlib
import reprlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from adcompiler.api.function import Function
from adcompiler.api.vmap import vmap
from adcompiler.errors import DtypeError, Error, ShapeError
from adcompiler.frames import public
from adcompiler.interop.dask.worker import needed
from adcompiler.lazy import Memo
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.containers import leaves_in, mapped

Axes = tuple[int | None, ...]
_known: Memo[str, Any] = Memo()


def distributed() -> Any:
    """The module `distributed`; Error if it is not installed."""
    return needed("distributed", "adc.dask.map")


@dataclass(frozen=True)
class Content:
    """A function as its pickled content."""

    digest: str
    pickled: bytes

    def __dask_tokenize__(self) -> str:
        return self.digest

    @property
    def function(self) -> Any:
        """The function in this process."""
        import cloudpickle

        return _known.made(self.digest, lambda: cloudpickle.loads(self.pickled))


def content(f: Any) -> Content:
    """A function to be sent to workers; Error if it cannot be."""
    import cloudpickle

    try:
        pickled = cloudpickle.dumps(f)
    except Exception as error:
        raise Error(
            f"{name_of(f)} cannot be sent to workers: {error}",
            remedy="open files, locks and clients inside the function, not outside",
        ) from error
    return Content(hashlib.sha256(pickled).hexdigest(), pickled)


def name_of(f: Any) -> str:
    """The name of a function."""
    return str(getattr(f, "__name__", type(f).__name__))


@dataclass(frozen=True)
class Batch:
    """The results of a batch, None if none of its cases has one. `failed` maps the number of a case to its
    error and a note, which pickling some errors would lose."""

    results: Any
    failed: dict[int, tuple[BaseException, str]]


def run_batch(batch: tuple[int, tuple[Any, ...]], f: Content, axes: Axes, shared: tuple[Any, ...]) -> Batch:
    """The results for one batch: stacked arrays of a compiled function, a list of results of any other."""
    first, cases = batch
    args = arguments(cases, axes, shared)
    count = length(cases[0])
    if not isinstance(f.function, Function):
        return each(f.function, args, axes, first, count)
    try:
        return Batch(f.function(*args), {})
    except Exception:  # find the failing cases
        rows = [
            tuple(pick(a, axis, slice(k, k + 1)) for a, axis in zip(args, axes, strict=True))
            for k in range(count)
        ]
        found = each(f.function, args, axes, first, count, rows)
        good = next((r for r in found.results if r is not None), None)
        return Batch(
            None if good is None else joined([missing(good) if r is None else r for r in found.results]),
            found.failed,
        )


def each(f: Any, args: Sequence[Any], axes: Axes, first: int, count: int, rows: Any = None) -> Batch:
    """The results case by case, None for those that fail."""
    results: list[Any] = []
    failed: dict[int, tuple[BaseException, str]] = {}
    for k in range(count):
        case = tuple(pick(a, axis, k) for a, axis in zip(args, axes, strict=True))
        try:
            results.append(f(*(case if rows is None else rows[k])))
        except Exception as error:
            given = ", ".join(shortened(a) for a, axis in zip(case, axes, strict=True) if axis is not None)
            failed[first + k] = portable(error), f"adc.dask.map: this is case {first + k}, of {given}"
            results.append(None)
    return Batch(results, failed)


def portable(error: Exception) -> BaseException:
    """An error that can be pickled."""
    import cloudpickle

    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def shortened(value: Any) -> str:
    """An argument in a line of text."""
    return reprlib.repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)


def arguments(cases: Sequence[Any], axes: Axes, shared: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of a call, both those with one entry per case and shared ones."""
    rest, own = iter(shared), iter(cases)
    return tuple(next(rest) if axis is None else next(own) for axis in axes)


def missing(results: Any, count: int | None = None) -> Any:
    """Placeholders for the results of `count` failed cases, by default for all of the given results: NaN, and
    0 for types without it."""

    def like(a: Any) -> Any:
        if a is None:
            return None
        shape = (len(a) if count is None else count, *np.shape(a)[1:])
        return np.full(shape, np.nan if a.dtype.kind == "f" else 0, a.dtype)

    return mapped(like, results)


def pick(value: Any, axis: int | None, where: Any) -> Any:
    """One case, or a slice of cases, of an argument."""
    return value if axis is None else mapped(lambda a: a[where], value)


def length(value: Any) -> int:
    """The number of cases in an argument."""
    lengths = {len(leaf) if hasattr(leaf, "__len__") else -1 for leaf in leaves_in(value)}
    if len(lengths) != 1 or -1 in lengths:
        raise ShapeError(
            "an argument with one entry per case must be an array or a container of arrays of equal length",
            remedy="in_axes=(0, None): None means an argument that is the same for every case",
        )
    return lengths.pop()


def joined(parts: Sequence[Any]) -> Any:
    """The results of all batches as one."""
    return mapped(lambda *column: None if column[0] is None else np.concatenate(column), *parts)


@public
def map(
    f: Callable[..., Any],
    *args: Any,
    in_axes: int | Sequence[int | None] | None = 0,
    batch: int = 100,
    client: Any = None,
    progress: bool | None = None,
    errors: Literal["raise", "return"] = "raise",
) -> Any:
    """Apply `f` to many cases, `batch` of them per task, on the workers of a cluster; waits for the results.

    f         a compiled function, or a derivative such as `adc.value_and_grad(f)`: a batch is one call of
              `adc.vmap(f)`, and results are arrays nested like those of `f`, cases on the first axis. Or any
              Python function that can be pickled, such as a fit that calls compiled functions: it is called
              case by case, and the results are a list
    args      arrays, or containers of arrays, with the cases along their first axis; if `in_axes` is None, an
              argument is the same for every case
    batch     the number of cases per task; results do not depend on the workers, but their last bits may
              depend on this number
    client    the `distributed.Client`, by default the current one
    progress  whether to show Dask's progress bar; by default on a terminal or in a notebook
    errors    "raise": the first error is raised, with a note of the case and its arguments. "return": return
              the results and a dict of errors by case number; the result of a failed case is None, in arrays
              NaN (0 for integers)

    Raises ShapeError for arguments of different lengths, Error if there is no client, if `f` cannot be sent
    or if the study is cancelled, and the errors of `f`.
    """
    axes: Axes = (in_axes,) * len(args) if isinstance(in_axes, int | None) else tuple(in_axes)
    count = cases(args, axes)
    check_options(f, batch, errors)
    spans = [slice(k, k + batch) for k in range(0, count, batch)]
    pairs = [(a, axis) for a, axis in zip(args, axes, strict=True) if axis is not None]
    batches = [(span.start, tuple(pick(a, axis, span) for a, axis in pairs)) for span in spans]
    shared = tuple(a for a, axis in zip(args, axes, strict=True) if axis is None)
    client = current(client)
    compiled = isinstance(f, Function)
    if isinstance(f, Function):
        f = vmap(f, axes)
        described = f._describe(arguments(batches[0][1], axes, shared))
        f._specialise(described.types, described.values)  # raises here what no worker could do
    # Not pure: two batches with equal parameters are two runs, for example of a stochastic simulation.
    futures = client.map(
        run_batch, batches, f=content(f), axes=axes, shared=shared, key=f"map_{name_of(f)}", pure=False
    )
    found = collected(client, futures, progress, batch, count)
    failed = {k: noted(*pair) for part in found for k, pair in part.failed.items()}
    if failed and errors == "raise":
        raise failed[min(failed)]
    results = together([part.results for part in found], spans, compiled, count, failed)
    return (results, failed) if errors == "return" else results


def check_options(f: Any, batch: int, errors: str) -> None:
    """Raise for invalid options of a study."""
    if not callable(f):
        raise DtypeError(
            f"adc.dask.map takes a function, not a {type(f).__name__}", remedy="compile it first"
        )
    if not isinstance(batch, int) or batch < 1:
        raise ShapeError(f"batch={batch!r}", remedy="use a number of cases per task, 1 or more")
    if errors not in ("raise", "return"):
        raise Error(f"errors={errors!r}", remedy='"raise" or "return"')


def collected(
    client: Any, futures: Sequence[Any], progress: bool | None, batch: int, count: int
) -> list[Batch]:
    """The results of the tasks of a study; the error of a failed task is that of all its cases."""
    try:
        if progress or (progress is None and is_watched()):
            show(futures)
        found: list[Batch] = client.gather(futures)
    except (KeyboardInterrupt, SystemExit):  # do not leave the tasks on the workers
        client.cancel(futures)
        raise
    except BaseException:  # one has failed: keep the results of the others
        spans = [range(k, min(k + batch, count)) for k in range(0, count, batch)]
        found = [batch_of(future, span) for future, span in zip(futures, spans, strict=True)]
    return found


def batch_of(future: Any, cases: range) -> Batch:
    """The result of a task, or its error for each of its cases, for example if it killed its workers."""
    try:
        batch: Batch = future.result()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as found:
        error = found
        if future.cancelled():
            error = Error(f"the cases {cases[0]} to {cases[-1]} were cancelled", remedy="run the study again")
        note = f"adc.dask.map: this is one of the cases {cases[0]} to {cases[-1]}"
        return Batch(None, dict.fromkeys(cases, (error, note)))
    return batch


def noted(error: BaseException, note: str) -> BaseException:
    """An error with a note that says which case it is; the note is added once."""
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


def show(futures: Sequence[Any]) -> None:
    """Show Dask's progress bar, which a notebook has to display."""
    try:
        bar = distributed().progress(futures)
    except ImportError:  # a notebook without widgets
        bar = distributed().progress(futures, notebook=False)
    if bar is not None:
        from IPython.display import display

        display(bar)


def together(
    parts: Sequence[Any], spans: Sequence[slice], compiled: bool, count: int, failed: Mapping[int, Any]
) -> Any:
    """The results of all batches as one, with placeholders for a batch that has none."""
    lengths = [min(span.stop, count) - span.start for span in spans]
    if not compiled:
        return [r for part, n in zip(parts, lengths, strict=True) for r in (part or [None] * n)]
    good = next((part for part in parts if part is not None), None)
    if good is None:
        return None
    pairs = zip(parts, lengths, strict=True)
    return joined([missing(good, n) if part is None else part for part, n in pairs])


def cases(args: Sequence[Any], axes: Axes) -> int:
    """The number of cases in the arguments."""
    if len(axes) != len(args) or any(axis not in (0, None) for axis in axes) or set(axes) <= {None}:
        raise ShapeError(
            f"in_axes {axes} for {len(args)} arguments",
            remedy="use 0 or None for each, and 0 for at least one",
        )
    lengths = {length(a) for a, axis in zip(args, axes, strict=True) if axis is not None}
    if len(lengths) > 1 or lengths == {0}:
        raise ShapeError(f"the arguments have {sorted(lengths)} cases", remedy="the same number, 1 or more")
    return lengths.pop()


def current(client: Any) -> Any:
    """The given client, or the current one."""
    if client is not None:
        return client
    try:
        return distributed().get_client()
    except ValueError as error:
        raise Error("there is no Dask client", remedy="client = distributed.Client()") from error


def is_watched() -> bool:
    """Whether output goes to a terminal or a notebook."""
    return sys.stdout.isatty() or bool(distributed().utils.is_kernel())
