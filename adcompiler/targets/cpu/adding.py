"""Kernels that add a scatter to the contents of its buffer, without a pass over the whole array."""

from __future__ import annotations

from adcompiler.ir.nodes import Accumulate, Array, Func, Map, read_whole
from adcompiler.ir.walk import arrays_of, arrays_read, operands
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.passes.order.gemm import found
from adcompiler.passes.pipeline import FINISH, OPTIMISE, PREPARE, run
from adcompiler.targets.cpu.compiled import CpuKernel


def scatters(array: Array) -> list[Array]:
    """The scatters that an array is the sum of; none if it is anything else."""
    if isinstance(array, Accumulate):
        return [array]
    terms = operands(array.body, "add") if isinstance(array, Map) else []
    parts = [read_whole(array.shape, term) for term in terms]
    added = [part for part in parts if isinstance(part, Accumulate)]
    return [*added] if len(added) == len(parts) else []


def adding(func: Func, number: int, precise: bool, threads: int | None) -> CpuKernel | None:
    """The kernel that adds result `number` to the contents of its buffer; None if it would do more than
    scatter, or if matrix products are called separately."""
    ready = run((*OPTIMISE, *PREPARE, *FINISH), func)
    result = ready.results[number]
    read = any(result in arrays_read(a) for a in arrays_of(ready.roots))
    if not isinstance(result, Accumulate) or read or found(func):
        return None
    return CpuKernel(scheduled(ready.with_(adding=frozenset({number}))), precise, threads=threads)
