"""The door to the CUDA backend: what is missing is said here, before anything of numba-cuda is imported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from adcompiler.errors import Error
from adcompiler.ir.nodes import Array, Func, Input, Map, Read, identity
from adcompiler.passes.pipeline import KERNEL, run


class DeviceError(Error):
    """There is no CUDA device, or what is needed to use it is missing."""


def executable(func: Func, atomics: bool = False, fast: bool = False) -> Any:
    """A program on the device; Error if there is none.

    With `atomics` sums at computed places are faster and have other last bits in every run; with `fast`
    mathematics is approximate.
    """
    require_device()
    from adcompiler.codegen.cuda.executable import Compiled

    return Compiled(of_device(func), atomics, fast)


def of_device(func: Func) -> Func:
    """The program as its kernels are made: results that are inputs are copies, made beside other results."""
    func = run(KERNEL, func)
    return func.with_(results=tuple(map(_own, func.results)))


def _own(result: Array) -> Array:
    """A result that is an input as a copy of it."""
    given = isinstance(result, Input) and result.rank
    return Map(result.shape, Read(result, identity(result.shape))) if given else result


def require_device() -> None:
    """Raise DeviceError unless programs can run on a device, or in numba's simulator."""
    if find_spec("numba_cuda") is None:
        raise DeviceError(
            'backend="cuda" needs numba-cuda, which is not installed',
            remedy='pip install "adcompiler[cuda]"',
        )
    from numba import cuda

    from adcompiler.codegen.cuda.device import SIMULATED

    if not (SIMULATED or cuda.is_available()):
        raise DeviceError(
            'backend="cuda" finds no CUDA device, or no driver for it',
            remedy='use backend="cpu"; NUMBA_ENABLE_CUDASIM=1 runs kernels in numba\'s simulator, slowly',
        )
