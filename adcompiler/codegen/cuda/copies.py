"""Copies of arrays on the device that need not lie in one piece: numba's own copies whole pieces only."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from adcompiler.codegen.cuda.device import SIMULATED, launcher, loaded
from adcompiler.codegen.cuda.header import with_header

THREADS = 4 if SIMULATED else 256

TEXT = """@kernel
def copy(source, target):
    rest = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
{lines}
    if rest == 0:
        target[{spot}] = narrow(target, source[{spot}])
"""


@cache
def _kernel(rank: int) -> Any:
    """A thread an element; beyond the end something of its number is left."""
    lines = [
        f"    i{k}, rest = rest % target.shape[{k}], rest // target.shape[{k}]" for k in reversed(range(rank))
    ]
    text = TEXT.format(lines="\n".join(lines), spot=", ".join(f"i{k}" for k in range(rank)))
    return loaded(with_header("# A copy of an array.\n", text), "copy")


def copy(source: Any, target: Any, stream: Any = 0) -> None:
    """Copy an array to one of the same shape, and type; or of 16 bits, from float32."""
    if not prod(target.shape):
        return
    if source.is_c_contiguous() and target.is_c_contiguous() and source.dtype == target.dtype:
        target.copy_to_device(source, stream=stream)
        return
    blocks = -(-prod(target.shape) // THREADS)
    launcher(_kernel(len(target.shape)), blocks, THREADS, stream)(source, target)
