"""Tensors as arrays that kernels take, and results as tensors, of the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adcompiler.errors import DtypeError
from adcompiler.interop.programs import Program
from adcompiler.ir.types import Dtype

DTYPES: dict[Dtype, Any] = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
    "bool": torch.bool,
}
NAMES: dict[Any, Dtype] = {theirs: ours for ours, theirs in DTYPES.items()}
WHOLE = (torch.int8, torch.int16, torch.int32, torch.uint8)  # which kernels take as int64


def arrays(values: Sequence[Any]) -> list[Any]:
    """The values as kernels take them: NumPy's arrays, arrays of a device as they are, and numbers."""
    return [_array(v) if isinstance(v, Tensor) else v for v in values]


def _array(value: Tensor) -> Any:
    plain = value.detach()
    if not plain.ndim:
        return plain.item() if plain.dtype != torch.float32 else np.float32(plain.item())
    return plain.numpy() if plain.device.type == "cpu" else plain


def plain(name: str, value: Tensor) -> Any:
    """A tensor's memory as an array of NumPy's, where one is asked for; DtypeError if a gradient is lost."""
    if value.requires_grad:
        raise DtypeError(f"{name} requires a gradient, which is lost here", remedy="pass x.detach()")
    if value.device.type != "cpu":
        return value
    return taken(name, value).numpy(force=True)


def tensors(program: Program, found: Sequence[Any], values: Sequence[Any]) -> tuple[Tensor, ...]:
    """Results as tensors, on the device of the arguments."""
    return tuple([_tensor(r, program.func.results[k].dtype, values) for k, r in enumerate(found)])


def _tensor(result: Any, dtype: Dtype, values: Sequence[Any]) -> Tensor:
    if isinstance(result, Tensor):
        return result
    if isinstance(result, np.ndarray):
        return torch.from_numpy(result)
    device = next((v.device for v in values if isinstance(v, Tensor)), None)
    return torch.scalar_tensor(result, dtype=DTYPES[dtype], device=device)


def taken(name: str, value: Tensor) -> Tensor:
    """A tensor that a program takes; smaller integers are converted. DtypeError for what it cannot take."""
    if value.layout != torch.strided:
        raise DtypeError(f"{name} is a {value.layout} tensor", remedy="pass x.to_dense()")
    if value.dtype in NAMES:
        return value
    if value.dtype in WHOLE:
        return value.to(torch.int64)
    half = value.dtype in (torch.float16, torch.bfloat16)
    raise DtypeError(
        f"{name} has dtype {str(value.dtype).removeprefix('torch.')}, which is not supported",
        remedy="pass x.float()" if half else "pass tensors of bool, integers, float32 or float64",
    )
