"""Sums of partial sums: the slices of a loop are added in order, a thread an element."""

from __future__ import annotations

from functools import cache
from typing import Any

from adcompiler.targets.cuda.device.device import loaded
from adcompiler.targets.cuda.device.header import with_header

STEPS = {
    "sum": "total + part[k, i]",
    "prod": "total * part[k, i]",
    "min": "reduce_min(total, part[k, i])",
    "max": "reduce_max(total, part[k, i])",
}
TEXT = """@kernel
def add_slices(part, out{numbers}):
    i = uint64(cuda.blockIdx.x) * uint64(cuda.blockDim.x) + uint64(cuda.threadIdx.x)
    while i < uint64(part.shape[1]):
        total = part[0, i]
        for k in range(1, part.shape[0]):
            total = {step}
        out[{row}i] = narrow(out, total)
        i += uint64(cuda.gridDim.x) * uint64(cuda.blockDim.x)
"""


@cache
def add_slices(op: str, row: tuple[int, ...] = ()) -> Any:
    """The kernel that reduces the first axis of a matrix, to a row of what is given: of which number, numbers
    at these places say."""
    spot = "".join(f"uint64(numbers[{place}]), " for place in row)
    text = TEXT.format(step=STEPS[op], row=spot, numbers=", numbers" * bool(row))
    return loaded(with_header("# Sums of slices.\n", text), "add_slices")
