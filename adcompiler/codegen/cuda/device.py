"""What generated kernels import: a device's names, or those of numba's simulator; and how they are loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.cuda import config

SIMULATED = bool(config.ENABLE_CUDASIM)

if SIMULATED:
    from adcompiler.codegen.cuda import simulated as _names
else:
    from adcompiler.codegen.cuda import intrinsics as _names  # type: ignore[no-redef]

WARP: int = _names.WARP


def __getattr__(name: str) -> Any:
    try:
        return getattr(_names, name)
    except AttributeError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error


def loaded(source: str, name: str) -> Callable[..., Any]:
    """The kernel of this name that a generated module defines."""
    if SIMULATED:
        from adcompiler.codegen.cuda import simulated

        found: Callable[..., Any] = simulated.run(source)[name]
        return found
    from adcompiler.codegen import cache

    kernel: Callable[..., Any] = getattr(cache.load(source), name)
    return kernel
