"""The library's routines (`kernels/routines/library.py`) for device kernels: one thread per matrix."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from adcompiler.kernels.routines import cofactors, decompositions, library
from adcompiler.targets.cuda.device import device

CPU_ONLY = ("library_matmul", "library_tile")  # and their other layouts: these call BLAS


def _on_device() -> dict[str, Callable[..., Any]]:
    """The routines from the same source, with the device's mathematics."""
    written = {**vars(cofactors), **vars(decompositions), **vars(library)}
    namespace = written | {n: getattr(device, n) for n in ("math", "np", "reduce_add")}
    found: dict[str, Callable[..., Any]] = {}
    for name, routine in written.items():
        if isinstance(routine, FunctionType) and name != "reduce_add" and not name.startswith(CPU_ONLY):
            found[name] = namespace[name] = _compiled(FunctionType(routine.__code__, namespace, name))
    return found


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    if device.SIMULATED:
        return function
    from numba.cuda.extending import register_jitable

    made: Callable[..., Any] = register_jitable(function)
    return made


globals().update(_on_device())  # generated kernels import them from here
