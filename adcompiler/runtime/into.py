"""Results that are written into buffers of the caller: NumPy's arrays, or a device's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.codegen.reference import length
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.ir.nodes import Array
from adcompiler.ir.types import NUMPY
from adcompiler.runtime.device import dtype_of, is_on_device
from adcompiler.runtime.specialise import Specialisation


def write(
    found: Specialisation, values: Sequence[Any], plain: bool, targets: Sequence[Any], device: bool
) -> None:
    """Call, and write each result into its target; a `device`'s memory is one if the function runs there."""
    sizes = found.sizes(values)
    for k, (target, array) in enumerate(zip(targets, found.func.results, strict=True)):
        _check(k, target, array, found, sizes, device)
    inputs = [v for v in values if isinstance(v, np.ndarray)]
    into: list[Any] = []
    for k, target in enumerate(targets):
        others = (*inputs, *targets[:k])
        there = device and not isinstance(target, np.ndarray)  # whose program looks for overlaps itself
        into.append(target if there or _is_apart(target, others) else None)
    for target, value in zip(targets, found(values, plain, None, into), strict=True):
        if target is not value:
            np.copyto(target, value)


def _is_apart(target: np.ndarray, others: Sequence[Any]) -> bool:
    """Whether kernels may write to an array while they read the others."""
    arrays = (a for a in others if isinstance(a, np.ndarray))
    return target.ndim > 0 and not any(np.may_share_memory(target, a) for a in arrays)


def _check(k: int, target: Any, array: Array, found: Specialisation, sizes: list[int], device: bool) -> None:
    name = found.func.result_names[k]
    shape = tuple(length(n, sizes) for n in array.shape)
    there = device and array.rank > 0 and not isinstance(target, np.ndarray) and is_on_device(target)
    if not there and (not isinstance(target, np.ndarray) or not target.flags.writeable):
        raise DtypeError(f"the buffer for {name} is no writable array", remedy=f"pass np.empty({shape})")
    if tuple(target.shape) != shape:
        raise ShapeError(
            f"the buffer for {name} has shape {tuple(target.shape)}", remedy=f"it must have {shape}"
        )
    kind = dtype_of(target) if there else None
    if kind != array.dtype if there else target.dtype != NUMPY[array.dtype]:
        raise DtypeError(
            f"the buffer for {name} has dtype {target.dtype}", remedy=f"it must have {NUMPY[array.dtype]}"
        )
