"""Arguments and results of a call: arrays on the host or on a device, of any library.

Arrays on the device are used in place, on their library's current stream, and results are arrays of the same
library. NumPy arrays are copied there, and results back.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from adcompiler.errors import DtypeError
from adcompiler.targets.cuda.device.copies import copy
from adcompiler.targets.cuda.device.device import SIMULATED
from adcompiler.targets.limits import NOTICE_FROM

_notified = False


class CopyNotice(UserWarning):
    """NumPy arrays are copied to the device and back at each call."""


class Caller:
    """The arguments of one call on the device, its stream, and the form of its results. Results with a device
    array in `into` are written there."""

    def __init__(self, args: Sequence[Any], into: Sequence[Any] | None = None) -> None:
        self.into = {k: a for k, a in enumerate(into or ()) if a is not None and is_device_array(a)}
        kinds = [library(a) for a in (*args, *self.into.values()) if is_device_array(a)]
        self.kind = min(kinds, key=lambda kind: kind == "numba", default=None)
        self.stream: Any = STREAMS[self.kind]() if self.kind in STREAMS else 0
        self.args = [self.taken(a) for a in args]
        self.targets = {k: self.written(a) for k, a in self.into.items()}
        self.hosted = {k for k, a in enumerate(into or ()) if isinstance(a, np.ndarray)}

    def taken(self, arg: Any) -> Any:
        """An argument in the form that kernels take."""
        if isinstance(arg, np.ndarray) and not arg.ndim:
            return arg[()]
        if isinstance(arg, np.ndarray):
            notice(arg.nbytes)
            return cuda.to_device(np.ascontiguousarray(bits(arg)), stream=self.stream)
        return viewed(arg, self.stream) if is_device_array(arg) else arg

    def written(self, array: Any) -> Any:
        """An array to write results to, in the form that kernels take."""
        if library(array) == "jax":
            raise DtypeError("JAX arrays cannot be written to", remedy="call without buffers")
        return viewed(array, self.stream)

    def disjoint(self) -> dict[int, Any]:
        """The arrays that kernels may write results to while they read the arguments, because they do not
        overlap."""
        found: dict[int, Any] = {}
        for k, target in self.targets.items():
            others = (*filter(is_device_array, self.args), *found.values())
            if not any(overlap(target, a) for a in others):
                found[k] = target
        return found

    def given_back(self, k: int, result: Any) -> Any:
        """A result for the caller: of the type of the first device argument, otherwise NumPy's."""
        if k in self.into:
            return self.into[k]
        if not is_device_array(result):
            return result
        if self.kind is None or k in self.hosted:
            found = result.copy_to_host(stream=self.stream)
            if self.stream:
                self.stream.synchronize()
            return found
        return BACK[self.kind](result) if self.kind in BACK else result


def notice(size: int) -> None:
    """Warn once that arrays are copied, if they are large enough to matter."""
    global _notified
    if size >= NOTICE_FROM and not _notified:
        _notified = True
        warnings.warn(
            "NumPy arrays are copied to the CUDA device, and results back, at each call: "
            "pass arrays on the device (CuPy, PyTorch, JAX, numba.cuda.to_device) to avoid this",
            CopyNotice,
            stacklevel=2,
        )


def is_device_array(value: Any) -> bool:
    """Whether a value is a device array: anything but NumPy arrays and numbers."""
    return not isinstance(value, np.ndarray | np.generic | float | int)


def is_half(arg: Any) -> bool:
    """Whether a kernel's argument is an array of 16-bit elements: float16, or the bits of bfloat16."""
    return bool(getattr(arg, "ndim", 0)) and arg.dtype.itemsize == 2


def bits(array: Any) -> Any:
    """View an array of bfloat16 as integers, which kernels convert to float32; other arrays are unchanged."""
    if str(array.dtype).removeprefix("torch.") != "bfloat16":
        return array
    return array.view(sys.modules["torch"].int16 if library(array) == "torch" else "int16")


def overlap(x: Any, y: Any) -> bool:
    """Whether two of numba's arrays may share memory."""
    first, last = zip(_extent(x), _extent(y), strict=True)
    return bool(x.size and y.size and max(first) < min(last))


def _extent(array: Any) -> tuple[int, int]:
    """The first and last address of an array's memory."""
    begin = array._ary.ctypes.data if SIMULATED else array.device_ctypes_pointer.value
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
    return begin + low, begin + high + array.dtype.itemsize


def device_of(array: Any) -> int | None:
    """The number of the device that holds an array, if its library provides it."""
    return int(array.__dlpack_device__()[1]) if hasattr(array, "__dlpack_device__") else None


def stream_of(array: Any) -> Any:
    """The current stream of an array's library; 0 for the default one."""
    kind = library(array)
    return STREAMS[kind]() if kind in STREAMS else 0


def library(value: Any) -> str:
    """The library of an array."""
    name = type(value).__module__.split(".")[0]
    return "jax" if name == "jaxlib" else name


def viewed(array: Any, stream: Any = 0) -> Any:
    """An array of any library as a numba array of the same memory."""
    if hasattr(array, "copy_to_host"):
        return array
    here, there = cuda.get_current_device().id, device_of(array)
    if there not in (None, here):
        raise DtypeError(
            f"an array is on device {there}, but kernels run on device {here}",
            remedy=f"call inside `with numba.cuda.gpus[{there}]:`, or move the array",
        )
    array = bits(array)
    if library(array) == "jax":
        array.block_until_ready()
    if hasattr(array, "__cuda_array_interface__"):
        return cuda.as_cuda_array(array, sync=False)
    return cuda.as_cuda_array(_Shared(array, stream), sync=False)


class _Shared:
    """The memory of an array that supports only DLPack; it keeps the array alive."""

    def __init__(self, array: Any, stream: Any) -> None:
        from cuda.core.utils import StridedMemoryView

        view = StridedMemoryView.from_dlpack(array, stream_ptr=handle(stream) or -1)
        strides = None if view.strides is None else tuple(n * view.dtype.itemsize for n in view.strides)
        self.view = view
        self.__cuda_array_interface__ = {
            "version": 3, "shape": tuple(view.shape), "strides": strides, "typestr": view.dtype.str,
            "data": (view.ptr, view.readonly), "stream": None,
        }  # fmt: skip


def handle(stream: Any) -> int:
    """The address of a stream; 0 for the default one."""
    found = getattr(stream, "handle", 0)
    return int(getattr(found, "value", found) or 0)


def on_host(array: Any) -> np.ndarray:
    """A copy on the host."""
    stream = stream_of(array)
    found: np.ndarray = viewed(array, stream).copy_to_host(stream=stream)
    if stream:
        stream.synchronize()
    return found


def copy_of(array: Any) -> Any:
    """A copy on the device, as numba's array."""
    stream = stream_of(array)
    view = viewed(array, stream)
    found = cuda.device_array(view.shape, view.dtype)
    copy(view, found, stream)
    return found


def _torch_stream() -> Any:
    torch = sys.modules["torch"]
    return _stream(torch.cuda.current_stream().cuda_stream)


def _cupy_stream() -> Any:
    cupy = sys.modules["cupy"]
    return _stream(cupy.cuda.get_current_stream().ptr)


@cache
def _stream(address: int) -> Any:
    return cuda.external_stream(address) if address else 0


def _to_torch(array: Any) -> Any:
    return sys.modules["torch"].as_tensor(array, device="cuda")


def _to_cupy(array: Any) -> Any:
    return sys.modules["cupy"].asarray(array)


def _to_jax(array: Any) -> Any:
    cuda.synchronize()  # JAX uses its own streams and does not expose them
    found = sys.modules["jax"].numpy.array(array, copy=True)  # an alias would not keep the memory alive
    return found.block_until_ready()


STREAMS: dict[str | None, Callable[[], Any]] = {"torch": _torch_stream, "cupy": _cupy_stream}
BACK: dict[str, Callable[[Any], Any]] = {"torch": _to_torch, "cupy": _to_cupy, "jax": _to_jax}
