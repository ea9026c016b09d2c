"""Tensors as arrays for kernels, and results as tensors, sharing memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, from_numpy

from adcompiler.errors import DtypeError
from adcompiler.ir.types import Dtype
from adcompiler.runtime.programs.program import Program

DTYPES: dict[Dtype, Any] = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
    "bool": torch.bool,
}
NAMES: dict[Any, Dtype] = {theirs: ours for ours, theirs in DTYPES.items()}
WHOLE = (
    torch.int8,
    torch.int16,
    torch.int32,
    torch.uint8,
    torch.uint16,
    torch.uint32,
)  # converted to int64 for kernels


def arrays(values: Sequence[Any]) -> list[Any]:
    """The values as arguments of kernels: NumPy arrays, arrays on a device as they are, and numbers."""
    return [
        v.numpy(force=True) if isinstance(v, Tensor) and v.ndim and v.is_cpu else _other(v) for v in values
    ]


def _other(value: Any) -> Any:
    """A number, also for a tensor without axes, or an array on a device."""
    if not isinstance(value, Tensor):
        return value
    if value.ndim:
        return value.detach()
    number = value.item()
    return number if value.dtype is not torch.float32 else np.float32(number)


def plain(name: str, value: Tensor) -> Any:
    """A tensor's memory as a NumPy array; DtypeError if a gradient would be lost, or if there is no
    memory."""
    if value.requires_grad and torch.is_grad_enabled():
        raise DtypeError(f"{name} requires a gradient, which is lost here", remedy="pass x.detach()")
    if is_opaque(value):
        raise DtypeError(f"{name} is a tensor without values", remedy="pass a tensor with values")
    if value.device.type != "cpu":
        return value
    return taken(name, value).numpy(force=True)


def memory_of(name: str, value: Tensor) -> Any:
    """The memory of a tensor that is about to be written to; increments its version. DtypeError for a tensor
    that cannot be written to."""
    if value.requires_grad and torch.is_grad_enabled():
        why = f"{name} requires a gradient, but values written to it have no history"
        raise DtypeError(why, remedy="pass a buffer that requires no gradient, or x.detach()")
    if value.is_neg() or is_opaque(value):
        raise DtypeError(f"{name} is a tensor without its own memory", remedy="pass torch.empty(...)")
    if not value.is_inference():
        torch.autograd.graph.increment_version(value)
    return taken(name, value.detach()).numpy() if value.is_cpu else value


def tensors(program: Program, found: Sequence[Any], values: Sequence[Any]) -> tuple[Tensor, ...]:
    """Results as tensors, on the device of the arguments."""
    if program.on_host:
        return tuple(
            [
                from_numpy(r) if type(r) is np.ndarray else from_numpy(np.array(r, dtype))
                for r, dtype in zip(found, program.dtypes, strict=True)
            ]
        )
    device = next((v.device for v in values if isinstance(v, Tensor)), None)
    results = program.func.results
    return tuple([_there(r, DTYPES[of.dtype], device) for r, of in zip(found, results, strict=True)])


def _there(result: Any, dtype: Any, device: Any) -> Tensor:
    """The result of a kernel on a device: an array there, or a number."""
    if isinstance(result, Tensor):
        return result
    return torch.as_tensor(result, dtype=dtype, device=device)


def taken(name: str, value: Tensor) -> Tensor:
    """A tensor as the operand of a program; smaller integers are converted, and on a device 16-bit floats.
    DtypeError for other tensors."""
    if value.is_nested:
        raise DtypeError(f"{name} is a nested tensor", remedy="call it on each: map(f, x.unbind())")
    if value.is_quantized:
        raise DtypeError(f"{name} is quantized", remedy="pass x.dequantize()")
    if value.layout != torch.strided:
        raise DtypeError(f"{name} is a {value.layout} tensor", remedy="pass x.to_dense()")
    if value.dtype in NAMES:
        return value
    if value.dtype in WHOLE:
        return value.to(torch.int64)
    half = value.dtype in (torch.float16, torch.bfloat16)
    if half and value.is_cuda:
        return value.float()
    raise DtypeError(
        f"{name} has dtype {str(value.dtype).removeprefix('torch.')}, which is not supported",
        remedy="pass x.float()" if half else "pass tensors of bool, integers to int64, float32 or float64",
    )


def is_opaque(value: Any) -> bool:
    """Whether a value is a tensor without numbers in its memory: on the device "meta", or of a class that
    handles operators itself, such as PyTorch's fake tensors."""
    return isinstance(value, Tensor) and (
        value.is_meta or type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__
    )


def check_devices(names: Sequence[str], values: Sequence[Any], function: Any) -> None:
    """Refuse tensors on several devices, and on a device where the function does not run; numbers may be
    mixed with all."""
    found = {
        v.device: name
        for name, v in zip(names, values, strict=True)
        if isinstance(v, Tensor) and (v.ndim or not v.is_cpu)
    }
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise DtypeError(
            f"{function.__name__} got tensors on several devices: {first} on {one}, {second} on {other}",
            remedy=f"move them to one: {second}.to({first}.device)",
        )
    for device, name in found.items():
        runs = ("cpu", "meta", "cuda") if function._backend.startswith("cuda") else ("cpu", "meta")
        if device.type not in runs:
            raise DtypeError(
                f"{name} is on {device}, but {function.__name__} is compiled for the CPU",
                remedy=f'pass {name}.cpu(), or compile it with backend="cuda"',
            )
