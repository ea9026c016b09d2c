"""The backends: compilers of programs, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from adcompiler.errors import Error, LimitError
from adcompiler.interpreter.reference import Reference
from adcompiler.ir.loop import Item, Slot
from adcompiler.ir.nodes import Func
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of
from adcompiler.passes.arrays.copy_aliased import copy_aliased
from adcompiler.passes.pipeline import OPTIMISE, run
from adcompiler.targets.buffers import Into, put
from adcompiler.targets.cpu.kernels import KernelSelector
from adcompiler.targets.threads import checked


class Executable(Protocol):
    """A program compiled by a backend."""

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]: ...


def closed(func: Func) -> Func:
    """A program, if no loop in it needs what only an iteration of the loop around it knows."""
    if any(isinstance(a, Slot) for a in arrays_of(func.roots)):
        raise LimitError(
            "an inner loop carries an array whose length the outer loop computes",
            remedy="take the length from the shape of an argument, or from an integer argument",
            source=func.source,
        )
    return func


def optimised(func: Func) -> Func:
    """A program as kernels are made from it."""
    return closed(run(OPTIMISE, func))


class _Interpreted:
    """The NumPy backend; results are copied into given buffers."""

    def __init__(self, func: Func, **_: Any) -> None:
        self.reference = Reference(copy_aliased(func))

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]:
        found = self.reference(sizes, args)
        for k, result in enumerate(self.reference.func.results):
            if isinstance(result, Item | Ruled):  # a loop that did nothing gives what it began with
                others = (*args, *found[:k], *found[k + 1 :])
                if any(np.may_share_memory(found[k], a) for a in others if isinstance(a, np.ndarray)):
                    found[k] = found[k].copy()
        return put(found, into)


def _cpu(func: Func, precise: bool = False, threads: int | None = None, **alternatives: Any) -> Executable:
    from adcompiler.targets.cpu.targets import Cpu
    from adcompiler.targets.llvm.runtime.jit import get_ready

    get_ready()
    return KernelSelector(Cpu(precise, threads), func, **alternatives)


def _numba(func: Func, **alternatives: Any) -> Executable:
    from adcompiler.targets.cpu.targets import Cpu

    return KernelSelector(Cpu(precise=True, threads=1, by_numba=True), func, **alternatives)


def _cuda(func: Func, atomics: bool = False, fast: bool = False, **alternatives: Any) -> Executable:
    from adcompiler.targets.cpu.targets import Cuda

    return KernelSelector(Cuda(atomics, fast), func, **alternatives)


Backend = Callable[..., Executable]  # a compiler of a program, given alternatives as `KernelSelector` is
BACKENDS: dict[str, Backend] = {
    "cpu": _cpu, "cpu-precise": partial(_cpu, precise=True), "numba": _numba, "cuda": _cuda,
    "cuda-atomics": partial(_cuda, atomics=True), "cuda-fast": partial(_cuda, fast=True),
    "numpy": _Interpreted,
}  # fmt: skip


def backend_of(name: str, precise: bool, threads: int | None = None) -> str:
    """The backend that does the same without vectorised mathematics, if `precise`, and on so many `threads`:
    "cpu:2"."""
    exact = f"{name}-precise"
    chosen = exact if precise and exact in BACKENDS else name
    count = "" if threads is None else f":{checked(threads)}"
    return f"{chosen}{count}" if chosen in ("cpu", "cpu-precise") else name


def maker(backend: str) -> Backend:
    """The compiler of a backend; Error for an unknown name."""
    name, _, threads = backend.partition(":") if isinstance(backend, str) else ("", "", "")
    if name not in BACKENDS or (threads and not name.startswith("cpu")):
        raise Error(f"unknown backend {backend!r}", remedy=f"use one of {', '.join(BACKENDS)}")
    if not threads:
        return BACKENDS[name]
    count = checked(int(threads) if threads.isdecimal() else threads)
    return partial(_cpu, precise=name != "cpu", threads=count)
