"""Arguments in the memory of a CUDA device: what is known of them without importing a library."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from adcompiler.errors import DtypeError
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.pytree.kinds import ArgType

ON_CUDA = 2, 13  # DLPack's numbers for memory of CUDA devices
HALVES = "float16", "bfloat16"  # kernels of a device read them as float32
BY_NAME: dict[str, Dtype] = {dtype.name: name for name, dtype in NUMPY.items()}


def is_on_device(value: Any) -> bool:
    """Whether a value is an array in the memory of a CUDA device, of whatever library."""
    if hasattr(value, "copy_to_host"):  # numba's, and those of its simulator
        return True
    try:
        return hasattr(value, "__cuda_array_interface__") or _dlpack_device(value)[0] in ON_CUDA
    except RuntimeError as error:  # as of PyTorch's tensors that require a gradient
        raise DtypeError(f"an array on a device cannot be read: {error}", remedy="pass x.detach()") from error


def _dlpack_device(value: Any) -> tuple[int, int]:
    if not hasattr(value, "__dlpack_device__"):
        return 0, 0
    kind, number = value.__dlpack_device__()
    return int(kind), int(number)


def dtype_of(value: Any) -> Dtype | None:
    """The type that kernels see of an array on a device, if they take it."""
    text = _name(value.dtype)
    return "f32" if text in HALVES else BY_NAME.get(text)


@lru_cache
def _name(dtype: Any) -> str:
    """The name that NumPy gives a dtype of any library."""
    return str(dtype).removeprefix("torch.")


def describe_on_device(name: str, value: Any, allowed: bool) -> tuple[ArgType, Any]:
    """The type of an array on a device, and the value that kernels take: the array, or a number of rank 0.

    DtypeError if the function runs elsewhere, or for a dtype that kernels do not take.
    """
    if not allowed:
        raise DtypeError(
            f"the argument {name!r} is on a CUDA device",
            remedy='compile the function with backend="cuda", or pass a copy of it on the host',
        )
    if not hasattr(value, "dtype"):
        raise DtypeError(
            f"{name} is a {type(value).__name__} on a device",
            remedy="pass an array of a library: it has no dtype",
        )
    text, dtype = _name(value.dtype), dtype_of(value)
    if dtype is None:
        raise DtypeError(
            f"the argument {name!r} has dtype {text}, and is on a CUDA device",
            remedy="convert it there: kernels take bool, int64, float16, bfloat16, float32 and float64",
        )
    shape = tuple(value.shape)
    if shape:
        return ArgType(dtype, tuple(n == 1 for n in shape)), value
    from adcompiler.targets.cuda.device.arrays import on_host

    number = float(value) if text == "bfloat16" else on_host(value)[()]
    return ArgType(dtype), float(number) if dtype == "f64" else NUMPY[dtype].type(number)
