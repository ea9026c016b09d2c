"""Code that runs on Dask's workers: stage programs, compiled once per process, and the combination of partial
results.

A program is sent as the text of its IR, and identified by the digest of that text, whichever session or
process it comes from. A restarted worker compiles it again, or finds its machine code in the cache folder.
Kernels run on one thread: Dask runs as many blocks as a worker has threads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from adcompiler.errors import Error
from adcompiler.ir.textform.reader import parse_func
from adcompiler.ir.types import NUMPY
from adcompiler.lazy import Memo
from adcompiler.lazy_dataclass import dataclass
from adcompiler.runtime.programs.program import Program

_known: Memo[tuple[str, str], Program] = Memo()


def needed(module: str, what: str) -> Any:
    """A module of Dask's, which `what` needs; Error if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise Error(f"{what} needs Dask: {error}", remedy='pip install "adcompiler[dask]"') from error


@dataclass(frozen=True)
class StageProgram:
    """The text of a stage's program, and its backend."""

    text: str
    backend: str

    @cached_property
    def digest(self) -> str:
        """The digest of the text, which identifies the program."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def compiled(self) -> Program:
        """The program in this process, compiled when it first runs here."""
        make = lambda: Program(parse_func(self.text), self.backend)  # noqa: E731
        return _known.made((self.digest, self.backend), make)


def programs_here() -> int:
    """The number of programs that this process keeps."""
    return len(_known)


def run(program: StageProgram, lengths: Sequence[int], *blocks: Any) -> list[Any]:
    """The results of a stage for one block, from lengths and the blocks that it reads."""
    found = program.compiled
    kinds = [NUMPY[i.dtype] for i in found.func.inputs[len(lengths) :]]
    args = [*lengths, *(_argument(b, kind) for b, kind in zip(blocks, kinds, strict=True))]
    results = found.run(found.sizes(args), args, plain=False)
    return [np.asarray(r) for r in results]


def _argument(block: Any, dtype: np.dtype) -> Any:
    """A block as an argument of kernels: contiguous, so that the order of summation does not depend on its
    origin."""
    array = np.asarray(block, dtype)
    return np.ascontiguousarray(array) if array.ndim else array[()]


def pick(numbers: Sequence[int], results: Sequence[Any]) -> list[Any]:
    """Some of the results of a stage."""
    return [results[k] for k in numbers]


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "logsumexp": np.logaddexp,
}


def combine(ops: Sequence[str], parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Combines lists of partial results, by recursive halving; the order depends on the list alone."""
    if len(parts) == 1:
        return list(parts[0])
    half = (len(parts) + 1) // 2
    pairs = zip(combine(ops, parts[:half]), combine(ops, parts[half:]), strict=True)
    with np.errstate(all="ignore"):
        return [np.asarray(COMBINE[op](a, b)) for op, (a, b) in zip(ops, pairs, strict=True)]


def checked(value: Any, holds: Sequence[Any], words: Sequence[tuple[type[Error], str, str]]) -> Any:
    """A result, if the program's checks of values hold."""
    for ok, (error, cause, remedy) in zip(holds, words, strict=True):
        if not np.all(ok):
            raise error(cause, remedy=remedy)
    return value
