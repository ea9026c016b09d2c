"""Kernels that add a scatter to what its buffer holds: no pass over an array of which few elements change."""

from __future__ import annotations

from collections.abc import Iterator

from adcompiler.codegen.cpu import Compiled
from adcompiler.ir.nodes import Accumulate, Apply, Array, Element, Func, Map, Read, identity
from adcompiler.ir.walk import arrays_of, arrays_read
from adcompiler.passes.gemm import found
from adcompiler.passes.pipeline import FINISH, OPTIMISE, PREPARE, run


def scatters(array: Array) -> list[Array]:
    """The accumulations that an array is the sum of; none if it is anything else."""
    if isinstance(array, Accumulate):
        return [array]
    terms = list(_terms(array.body, array)) if isinstance(array, Map) else []
    whole = all(isinstance(t, Accumulate) and t.shape == array.shape for t in terms)
    return [t for t in terms if t is not None] if whole else []


def _terms(element: Element, array: Array) -> Iterator[Array | None]:
    """The arrays that an element adds up; None for anything else."""
    if isinstance(element, Apply) and element.op == "add":
        for arg in element.args:
            yield from _terms(arg, array)
    elif isinstance(element, Read) and element.args == identity(array.shape):
        yield element.array
    else:
        yield None


def adding(func: Func, number: int, precise: bool, threads: int | None) -> Compiled | None:
    """The kernel that adds result `number` to what its buffer holds; None where it would do more than
    scatter, or where products of matrices are called apart."""
    ready = run((*OPTIMISE, *PREPARE, *FINISH), func)
    result = ready.results[number]
    read = any(result in arrays_read(a) for a in arrays_of(ready.roots))
    if not isinstance(result, Accumulate) or read or found(func):
        return None
    return Compiled(ready.with_(adding=frozenset({number})), precise, threads=threads)
