"""Results written into buffers of the caller: NumPy arrays, or arrays on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.api.limits import MOST_WORK
from adcompiler.api.pairs.pairs import DiffPair
from adcompiler.errors import DtypeError, GraphError, ShapeError
from adcompiler.interpreter.reference import extent
from adcompiler.ir.nodes import Array
from adcompiler.ir.types import NUMPY
from adcompiler.pytree.containers import mapped
from adcompiler.runtime.arguments.adapters import as_buffer, is_adapted
from adcompiler.runtime.arguments.device import dtype_of, is_on_device
from adcompiler.runtime.arguments.refused import refuse_masked
from adcompiler.runtime.arguments.signature import find_hook
from adcompiler.runtime.programs.program import Bound, Program


def call_into(f: Any, result: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """A call with SlangPy's `_result`: an array, or a tuple of arrays nested like the results, to write to; a
    DiffPair with it as p; "numpy" for arrays instead of numbers; None for an ordinary call."""
    if result is None or (isinstance(result, str) and result == "numpy"):
        found = f(*args, **keywords)
        return found if result is None else mapped(np.asarray, found)
    held = find_hook(f, args, keywords)
    if held is not None and not is_adapted(held):
        raise GraphError(
            f"_result cannot be part of a graph, but an argument is a {type(held).__name__}",
            remedy="omit _result, or pass the value",
        )
    if not isinstance(result, DiffPair):
        return f.into(result, *args, **keywords)
    if result.p is None:
        result.p = f(*args, **keywords)
    else:
        f.into(result.p, *args, **keywords)
    return result


def write(bound: Bound, targets: Sequence[Any]) -> None:
    """Run, and write each result into its target: memory of a device, if the program runs there."""
    found, device = bound.program, not bound.program.on_host
    refuse_masked("a buffer", list(targets))
    pairs = zip(targets, found.func.result_names, strict=True)
    targets = [t if isinstance(t, np.ndarray) else as_buffer(f"the buffer for {n}", t) for t, n in pairs]
    for k, (target, array) in enumerate(zip(targets, found.func.results, strict=True)):
        _check(k, target, array, found, bound.sizes, device)
    _refuse_overlaps(targets, found)
    inputs = [v for v in bound.values if isinstance(v, np.ndarray)]
    into: list[Any] = []
    for target in targets:
        there = device and not isinstance(target, np.ndarray)  # whose program looks for overlaps itself
        into.append(target if there or _is_disjoint(target, inputs) else None)
    for target, value in zip(targets, bound.run(into), strict=True):
        if target is not value:
            np.copyto(target, value)


def _refuse_overlaps(targets: Sequence[Any], found: Program) -> None:
    """Each element of a result needs its own memory: what is written last would stand in all places."""
    names = found.func.result_names
    for k, target in enumerate(targets):
        if isinstance(target, np.ndarray) and overlaps_itself(target):
            raise ShapeError(
                f"elements of the buffer for {names[k]} share memory (strides {target.strides})",
                remedy="pass a separate array: np.empty(...)",
            )
        for other, name in zip(targets[:k], names, strict=False):
            if target is other or (_are_arrays(target, other) and _share(target, other)):
                raise ShapeError(
                    f"the buffers for {name} and {names[k]} share memory", remedy="pass an array for each"
                )


def _are_arrays(*values: Any) -> bool:
    return all(isinstance(v, np.ndarray) for v in values)


def _share(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have an element in common; yes, if that is hard to tell."""
    try:
        return np.shares_memory(one, other, MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(array: np.ndarray) -> bool:
    """Whether elements of an array share memory: some stride does not step over what lies inside it."""
    inside = array.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < inside:
            return array.size > 0
        inside += (n - 1) * stride
    return False


def _is_disjoint(target: np.ndarray, others: Sequence[Any]) -> bool:
    """Whether kernels may write to an array while they read the others."""
    return (
        target.ndim > 0 and target.flags.aligned and not any(np.may_share_memory(target, a) for a in others)
    )


def _check(k: int, target: Any, array: Array, found: Program, sizes: Sequence[int], device: bool) -> None:
    name = found.func.result_names[k]
    shape = extent(array.shape, sizes)
    there = device and array.rank > 0 and not isinstance(target, np.ndarray) and is_on_device(target)
    if not there and (not isinstance(target, np.ndarray) or not target.flags.writeable):
        what = "read-only" if isinstance(target, np.ndarray) else f"a {type(target).__name__}"
        raise DtypeError(
            f"the buffer for {name} must be a writable NumPy array, not {what}",
            remedy=f"pass np.empty({shape})",
        )
    if tuple(target.shape) != shape:
        raise ShapeError(
            f"the buffer for {name} has shape {tuple(target.shape)}", remedy=f"it must have {shape}"
        )
    kind = dtype_of(target) if there else None
    if kind != array.dtype if there else target.dtype != NUMPY[array.dtype]:
        raise DtypeError(
            f"the buffer for {name} has dtype {target.dtype}", remedy=f"it must have {NUMPY[array.dtype]}"
        )
