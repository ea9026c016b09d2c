"""Functions of Dask arrays: lengths, chunks and types of a lazy call of a compiled function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adcompiler.api.function import Function
from adcompiler.api.transforms import compiled
from adcompiler.errors import DtypeError, Error, LimitError, ShapeError
from adcompiler.frames import public
from adcompiler.interop.dask.graph import Chunks, Graph
from adcompiler.interop.dask.worker import needed
from adcompiler.interpreter.reference import length
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array, Func, Input, Size
from adcompiler.ir.textform.printer import show
from adcompiler.ir.types import NUMPY
from adcompiler.ir.walk import arrays_of, read_by
from adcompiler.lazy import Memo
from adcompiler.passes.chunks.partition import Partition, partition
from adcompiler.passes.known_lengths import Known, for_lengths
from adcompiler.pytree.structures import unflatten
from adcompiler.runtime.arguments.signature import DTYPE_OF
from adcompiler.runtime.programs.program import Program

BACKENDS = {"cpu": "cpu:1", "cpu-precise": "cpu-precise:1", "numpy": "numpy"}


def dask_array() -> Any:
    """The module `dask.array`; Error if it is not installed."""
    return needed("dask.array", "adc.dask")


def is_lazy(value: Any) -> bool:
    """Whether a value is a Dask array."""
    return isinstance(value, dask_array().Array)


class Blockwise:
    """A compiled function on Dask arrays: a call returns Dask arrays, nested as the function's results."""

    def __init__(self, f: Function, keep: bool = False) -> None:
        self.f, self.keep = compiled("adc.dask", f), keep
        if self.f._backend.partition(":")[0] not in BACKENDS:
            raise Error(
                f"adc.dask runs on CPUs, but {f.__name__} is compiled for {f._backend}",
                remedy='backend="cpu"',
            )
        self.partitions: Memo[tuple[Any, ...], Partition] = Memo()

    def __repr__(self) -> str:
        return f"<blockwise {self.f!r}>"

    @public
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        dask_array()
        call = self.f._describe(args, keywords, rows=False, stand_in=placeholder)
        found = self.f._specialise(call.types, call.values)
        given = [a if is_lazy(a) else v for a, v in zip(call.leaves, call.values, strict=True)]
        refuse_computed(found, given)
        sizes = found.sizes(call.values)
        graph = self.graph(program_for(found, sizes), sizes, given)
        words = [(c.error, c.cause, c.remedy) for c in found.func.checks]
        return unflatten(found.structure, graph.results(words))

    def graph(self, func: Func, sizes: Sequence[int], given: Sequence[Any]) -> Graph:
        """The tasks of one call."""
        from dask.base import tokenize

        chunks = common_chunks(func, given)
        loops = any(isinstance(a, Item) for a in arrays_of(func.roots))
        text, numbers = show(func), tuple(n.number for n in chunks)
        key = text, numbers, tuple(sizes) if loops else ()
        plan = self.partitions.made(key, lambda: partition(func, numbers, lambda n: length(n, sizes)))
        fitted = {i: fit(i, value, chunks) for i, value in zip(func.inputs, given, strict=True)}
        backend = BACKENDS[self.f._backend.partition(":")[0]]
        token = tokenize(text, backend, self.keep, list(fitted.values()))
        values: dict[Array, Any] = dict(zip(plan.inputs, fitted.values(), strict=True))
        graph = Graph(token, backend, plan, sizes, chunks, values, self.keep)
        graph.build()
        return graph


def placeholder(name: str, value: Any) -> Any:
    """An array without memory, with the shape and type of a Dask array; other values as they are."""
    if not is_lazy(value):
        return value
    if any(math.isnan(n) for n in value.shape):
        raise ShapeError(
            "a Dask array does not know the lengths of its chunks", remedy="x.compute_chunk_sizes()"
        )
    kind = DTYPE_OF.get(value.dtype.char)
    return np.broadcast_to(np.zeros((), value.dtype if kind is None else NUMPY[kind]), value.shape)


def refuse_computed(found: Program, given: Sequence[Any]) -> None:
    """Raise LimitError if a length depends on the values of a Dask array."""
    func = found.func
    lazy = {i for i, v in zip(func.inputs, given, strict=True) if is_lazy(v) and i.dtype == "i64"}
    sizes = [n for a in arrays_of(func.roots) for n in (*a.shape, *a.domain)]
    sizes += [n for c in found.lengths.demands for n in (c.left, c.right)]
    counted = {func.inputs[k] for _, k in func.counts}
    if lazy.intersection(counted.union(arrays_of(read_by(sizes)))):
        raise LimitError(
            "a length depends on integers in a Dask array",
            remedy="compute these first, and pass NumPy arrays or Python ints",
        )


def program_for(found: Program, sizes: Sequence[int]) -> Func:
    """The program, with one symbol for lengths that are equal in this call."""
    return for_lengths(found.func, Known(equal=found.lengths.equal(sizes)))


def common_chunks(func: Func, given: Sequence[Any]) -> dict[Size, Chunks]:
    """The common chunks of all arguments, for each length along which an argument has several chunks."""
    found: dict[Size, list[Chunks]] = {}
    for kind, value in zip(func.inputs, given, strict=True):
        for n, chunks in zip(kind.shape, value.chunks if is_lazy(value) else (), strict=False):
            if isinstance(n, Size) and len(chunks) > 1:
                found.setdefault(n, []).append(chunks)
    return {n: cut(chunks) for n, chunks in sorted(found.items(), key=lambda pair: pair[0].number)}


def cut(chunks: Sequence[Chunks]) -> Chunks:
    """The coarsest common refinement of the given chunks; none is empty."""
    ends = sorted({int(end) for one in chunks for end in np.cumsum(one)} - {0})
    return tuple(b - a for a, b in zip([0, *ends], ends, strict=False)) or (0,)


def fit(kind: Input, value: Any, chunks: Mapping[Size, Chunks]) -> Any:
    """An argument in the chunks of the program: a NumPy array is split where others are chunked."""
    wanted = tuple(chunks.get(n, (-1,)) if isinstance(n, Size) else (-1,) for n in kind.shape)
    cuts = any(len(c) > 1 for c in wanted)
    if not is_lazy(value) and not cuts:
        return value
    lengths = [c if c != (-1,) else (n,) for c, n in zip(wanted, np.shape(value), strict=True)]
    return value.rechunk(tuple(lengths)) if is_lazy(value) else dask_array().from_array(value, tuple(lengths))


@public
def blockwise(f: Function, keep: bool = False) -> Blockwise:
    """A compiled function, or any derivative of one, as a function of Dask arrays.

    It takes the arguments of `f`: Dask arrays, which are rechunked alike if they share a length, NumPy
    arrays, numbers and containers of these. Its results are Dask arrays nested like those of `f`: elementwise
    ones in the chunks of the arguments, sums in one chunk. Nothing is computed before Dask is asked to.

    keep  whether blocks of arguments stay in the workers' memory if several passes over them are needed;
          otherwise they are read again, or recomputed by their graph

    Raises LimitError for programs that do not decompose into blocks (gathers across chunks), with what to
    write instead, and errors of a call of `f` for arguments that do not fit.
    """
    return Blockwise(f, keep)


def call(function: Function, bound: Sequence[Any]) -> Any:
    """A call of a compiled function with Dask arrays: lazily, block by block."""
    blockwise: Blockwise = function._derived("dask", lambda: Blockwise(function))
    return blockwise(*bound)


def plain(name: str, value: Any) -> Any:
    """A Dask array where numbers are needed."""
    raise DtypeError(
        f"{name} is a Dask array, which has no values yet",
        remedy="call the function itself on it, or adc.dask.value_and_grad, vjp, jvp or hvp, or pass "
        "x.compute()",
    )
