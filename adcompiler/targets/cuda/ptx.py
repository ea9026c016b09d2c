"""The kernels of a program as PTX and machine code; no device is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from adcompiler.ir.types import Dtype
from adcompiler.kernels.schedule.materialise import Scheduled
from adcompiler.lazy_dataclass import dataclass
from adcompiler.targets.cuda.device.device import loaded
from adcompiler.targets.cuda.emit.device_emitter import DeviceEmitter
from adcompiler.targets.cuda.emit.steps import KernelText, Nest, Scatter, flat
from adcompiler.targets.cuda.emit.texts import texts

NEWEST = (9, 0)


@dataclass(frozen=True)
class PtxKernel:
    """One kernel: its name in the PTX and in its source, its parameters, and the PTX."""

    name: str
    params: tuple[tuple[str, str], ...]  # names and numba's types
    source: str
    ptx: str


def compiled(
    made: Scheduled, arch: tuple[int, int] = NEWEST, every: bool = False, fast: bool = False
) -> list[PtxKernel]:
    """The kernels of a program, one per nest; with `every`, all alternatives that lengths choose from."""
    emitter = DeviceEmitter(made, fast=fast)
    with _device(arch):
        return [_compiled(emitter, text, arch) for text in texts(emitter, every)]


def _compiled(emitter: DeviceEmitter, text: KernelText, arch: tuple[int, int]) -> PtxKernel:
    from numba import cuda

    kernel = loaded(text.source, text.name)
    known = _types(emitter)
    signature = tuple(known[name] for name in text.params)
    options = kernel.targetoptions  # type: ignore[attr-defined]
    ptx, _ = cuda.compile_ptx(kernel.py_func, signature, cc=arch, fastmath=options["fastmath"])  # type: ignore[attr-defined]
    params = tuple(zip(text.params, map(str, signature), strict=True))
    return PtxKernel(text.name, params, text.source, _named(ptx, text.name))


def _named(ptx: str, name: str) -> str:
    """PTX with numba's mangled kernel name replaced."""
    found = re.search(r"\.entry (\w+)", ptx)
    assert found is not None
    return ptx.replace(found[1], name)


def _types(emitter: DeviceEmitter) -> dict[str, Any]:
    """numba's types of kernel arguments, by name; arrays are contiguous."""
    from numba.cuda import types

    kinds: dict[Dtype, Any] = {
        "bool": types.boolean, "i64": types.int64, "f32": types.float32, "f64": types.float64
    }  # fmt: skip

    def array(dtype: Dtype, rank: int) -> Any:
        return types.Array(kinds[dtype], rank, "C")

    found: dict[str, Any] = dict.fromkeys((*emitter.sizes, "_chunk", "_iterations"), types.int64)
    for one in emitter.func.inputs:
        found[emitter.labels[one]] = array(one.dtype, one.rank) if one.rank else kinds[one.dtype]
    found |= {b.name: array(b.dtype, len(b.shape)) for b in emitter.buffers}
    found |= {name: array(dtype, 1) for dtype, name in emitter.slot_buffers.items()}
    for step in flat(emitter.steps):
        if isinstance(step, Nest):
            found[f"_blocks{step.number}"] = types.int64
            found |= {emitter.part(t): array(t.array.dtype, t.array.rank + 1) for t in step.sums}
            found |= {emitter.part(t): array(t.array.dtype, 1) for t in step.full}
        elif isinstance(step, Scatter):
            found |= {"_places": array("i64", 1), "_values": array(step.task.array.dtype, 1)}
    return found


@contextmanager
def _device(arch: tuple[int, int]) -> Iterator[None]:
    """Make numba-cuda compile device functions for `arch`, instead of the current device."""
    from numba.cuda import dispatcher

    before = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=arch)
    try:
        yield
    finally:
        dispatcher.get_current_device = before
