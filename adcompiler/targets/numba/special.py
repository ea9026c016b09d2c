"""Special functions (`ops/rules/`) and matrix routines for numba, imported by generated code.

They are compiled into each kernel that calls them, so cached machine code contains no address of another
function. Scalar functions compute in float64; float32 is converted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from adcompiler.kernels.routines import cofactors, decompositions, library
from adcompiler.ops.rules import bessel, incomplete, series
from adcompiler.targets.numba.intrinsics import reduce_add

__all__ = ["bessel", "incomplete", "series"]

OPTIONS = {"error_model": "numpy", "fastmath": {"contract"}}


def _register(function: FunctionType) -> None:
    params = inspect.signature(function).parameters
    namespace: dict[str, Any] = {"function": function}
    names = ", ".join(params)
    wide = ", ".join(f"np.float64({n})" for n in params)
    text = f"def narrow({names}):\n    return np.float32(function({wide}))\n"
    text += f"def choose({names}):\n    return pick({names})\n"

    def pick(*kinds: Any) -> Callable[..., Any]:
        return namespace["narrow"] if kinds[-1] == types.float32 else function

    namespace |= {"pick": pick, "np": np}
    exec(text, namespace)  # our own text
    overload(function, jit_options=OPTIONS, strict=False)(namespace["choose"])


for _module in (series, bessel, incomplete):
    for _function in vars(_module).values():
        if isinstance(_function, FunctionType) and _function.__module__ == _module.__name__:
            _register(_function)


def _routines() -> dict[str, Any]:
    """The matrix routines, compiled."""
    jit = njit(**OPTIONS, nogil=True)
    written = {**vars(cofactors), **vars(decompositions), **vars(library)}
    namespace = written | {"reduce_add": reduce_add}
    for name, routine in written.items():
        if isinstance(routine, FunctionType) and name != "reduce_add":
            namespace[name] = jit(FunctionType(routine.__code__, namespace, name))
    return {name: routine for name, routine in namespace.items() if name.startswith("library_")}


globals().update(_routines())
