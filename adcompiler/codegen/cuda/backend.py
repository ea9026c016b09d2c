"""The door to the CUDA backend: what is missing is said here, before anything of numba-cuda is imported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from adcompiler.errors import Error
from adcompiler.ir.nodes import Func
from adcompiler.passes.pipeline import KERNEL, run


class DeviceError(Error):
    """There is no CUDA device, or what is needed to use it is missing."""


def executable(func: Func) -> Any:
    """A program on the device; Error if there is none."""
    require_device()
    from adcompiler.codegen.cuda.executable import Compiled

    return Compiled(run(KERNEL, func))


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
