"""Sums of partial sums: the slices of a loop are added in order, a thread an element."""

from __future__ import annotations

from functools import cache
from typing import Any

from adcompiler.codegen.cuda.device import loaded
from adcompiler.codegen.cuda.header import with_header

STEPS = {
    "sum": "total + part[k, i]",
    "prod": "total * part[k, i]",
    "min": "reduce_min(total, part[k, i])",
    "max": "reduce_max(total, part[k, i])",
}
TEXT = """@kernel
def add_slices(part, out):
    i = uint64(cuda.blockIdx.x) * uint64(cuda.blockDim.x) + uint64(cuda.threadIdx.x)
    while i < uint64(out.shape[0]):
        total = part[0, i]
        for k in range(1, part.shape[0]):
            total = {step}
        out[i] = narrow(out, total)
        i += uint64(cuda.gridDim.x) * uint64(cuda.blockDim.x)
"""


@cache
def add_slices(op: str) -> Any:
    """The kernel that reduces the first axis of a matrix."""
    return loaded(with_header("# Sums of slices.\n", TEXT.format(step=STEPS[op])), "add_slices")
