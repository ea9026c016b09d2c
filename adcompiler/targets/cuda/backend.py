"""Entry to the CUDA backend: reports missing parts before importing numba-cuda."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from adcompiler.errors import Error
from adcompiler.ir.nodes import Func
from adcompiler.kernels.schedule.materialise import Scheduled, scheduled
from adcompiler.passes.pipeline import KERNEL, run

if TYPE_CHECKING:
    from adcompiler.targets.cuda.emit.device_emitter import DeviceEmitter
    from adcompiler.targets.cuda.emit.steps import KernelText


class DeviceError(Error):
    """There is no CUDA device, or what is needed to use it is missing."""


def executable(func: Func, atomics: bool = False, fast: bool = False) -> Any:
    """A program on the device; Error if there is none.

    With `atomics` scatters are faster, but their last bits differ between runs; with `fast` mathematics is
    approximate.
    """
    require_device()
    from adcompiler.targets.cuda.executable import CudaExecutable

    return CudaExecutable(of_device(func), atomics, fast)


def of_device(func: Func) -> Scheduled:
    """The loop nests for the kernels of a program."""
    from adcompiler.targets.cuda.emit.order import STYLE

    return scheduled(run(KERNEL, func), STYLE)


def emitted(func: Func) -> tuple[DeviceEmitter, list[KernelText]]:
    """The generated kernels of a program, one per nest, and what wrote them."""
    from adcompiler.targets.cuda.emit.device_emitter import DeviceEmitter
    from adcompiler.targets.cuda.emit.texts import texts

    emitter = DeviceEmitter(of_device(func))
    return emitter, list(texts(emitter))


def kernels(func: Func) -> str:
    """The text of these kernels."""
    _, found = emitted(func)
    return "\n\n".join(text.source.rstrip("\n") for text in found) + "\n"


def ptx(func: Func) -> str:
    """The kernels of a program in PTX; Error without numba-cuda and its compiler."""
    require_compiler()
    from adcompiler.targets.cuda.ptx import compiled

    return "\n".join(kernel.ptx for kernel in compiled(of_device(func)))


def require_compiler() -> None:
    """Raise DeviceError unless kernels can be compiled; no device is needed for that."""
    _require_package()
    from adcompiler.targets.cuda.device.device import SIMULATED

    if not SIMULATED:
        from numba.cuda.cudadrv import nvvm

        if nvvm.is_available():
            return
    raise DeviceError(
        "numba-cuda has no compiler here" + " in its simulator" * SIMULATED,
        remedy="unset NUMBA_ENABLE_CUDASIM" if SIMULATED else 'pip install "adcompiler[cuda]"',
    )


def _require_package() -> None:
    if find_spec("numba_cuda") is None:
        raise DeviceError(
            'backend="cuda" needs numba-cuda, which is not installed',
            remedy='pip install "adcompiler[cuda]"',
        )


def require_device() -> None:
    """Raise DeviceError unless programs can run on a device, or in numba's simulator."""
    _require_package()
    from numba import cuda

    from adcompiler.targets.cuda.device.device import SIMULATED

    if not (SIMULATED or cuda.is_available()):
        raise DeviceError(
            'backend="cuda" found no CUDA device or driver',
            remedy='use backend="cpu"; NUMBA_ENABLE_CUDASIM=1 runs kernels in numba\'s simulator, slowly',
        )
