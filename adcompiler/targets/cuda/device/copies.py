"""Copies of noncontiguous arrays on the device, which numba's copies do not support, and of rows whose
indices only the device knows."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from adcompiler.targets.cuda.device.device import SIMULATED, launcher, loaded
from adcompiler.targets.cuda.device.header import with_header
from adcompiler.targets.cuda.device.memory import shaped

THREADS = 4 if SIMULATED else 256

TEXT = """@kernel
def copy(source, target{numbers}):
    rest = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
{lines}    if {inside}:
        target[{to}] = narrow(target, source[{spot}])
"""
Row = tuple[int, ...]  # the places of a row's numbers, one per axis


@cache
def _kernel(rank: int, row: Row = (), to_row: Row = ()) -> Any:
    """One thread per element. The quotient left after the inner axes is its index on the first axis, or
    beyond the end."""
    shape = [f"target.shape[{len(to_row) + k}]" for k in range(rank)]
    lines = [f"    i{k}, rest = rest % {shape[k]}, rest // {shape[k]}\n" for k in reversed(range(1, rank))]
    axes = ["rest", *(f"i{k}" for k in range(1, rank))][:rank]
    text = TEXT.format(
        numbers=", numbers" * bool(row or to_row),
        lines="".join(lines),
        inside=f"rest < {shape[0]}" if rank else "rest == 0",
        spot=", ".join([*_numbered(row), *axes]),
        to=", ".join([*_numbered(to_row), *axes]),
    )
    return loaded(with_header("# A copy of an array.\n", text), "copy")


def _numbered(row: Row) -> list[str]:
    return [f"uint64(numbers[{place}])" for place in row]


def copy(source: Any, target: Any, stream: Any = 0) -> None:
    """Copy an array to one of the same shape and type, or between float32 and 16 bits."""
    if not prod(target.shape):
        return
    if source.is_c_contiguous() and target.is_c_contiguous() and source.dtype == target.dtype:
        target.copy_to_device(source, stream=stream)
    else:
        copy_row(source, target, stream)


def copy_row(
    source: Any, target: Any, stream: Any, numbers: Any = None, row: Row = (), to_row: Row = ()
) -> None:
    """Copy a row of an array to a row of another one with a kernel; `numbers` on the device select the
    rows."""
    shape = target.shape[len(to_row) :]
    length = prod(shape)
    if not length:
        return
    if source.is_c_contiguous() and target.is_c_contiguous():
        source = shaped(source, (*source.shape[: len(row)], length))
        target = shaped(target, (*target.shape[: len(to_row)], length))
        shape = (length,)
    more = [numbers] if row or to_row else []
    launcher(_kernel(len(shape), row, to_row), -(-length // THREADS), THREADS, stream)(source, target, *more)
