"""Names imported by generated kernels, for a device or numba's simulator; loading, launching and capture."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from numba.cuda import config

SIMULATED = bool(config.ENABLE_CUDASIM)

if SIMULATED:
    from adcompiler.targets.cuda.device import simulated as _names
    from adcompiler.targets.cuda.device.simulated import captured
else:
    from adcompiler.targets.cuda.device import intrinsics as _names  # type: ignore[no-redef]
    from adcompiler.targets.cuda.device.graph_capture import captured

__all__ = ["SIMULATED", "TILE", "WARP", "captured", "launcher", "loaded"]
WARP: int = _names.WARP
TILE: int = _names.TILE


def __getattr__(name: str) -> Any:
    try:
        return getattr(_names, name)
    except AttributeError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error


def launcher(
    kernel: Any, blocks: int | tuple[int, ...], threads: int | tuple[int, ...], stream: Any, shared: int = 0
) -> Any:
    """A kernel configured for a number of threads, with additional bytes of shared memory. Small grids are
    intentional, so numba's warning is suppressed."""
    if SIMULATED:
        return _names.launcher(kernel, blocks, threads, stream, shared)
    return _launcher(kernel, blocks, threads, stream, shared)


@lru_cache(maxsize=2**12)
def _launcher(kernel: Any, blocks: Any, threads: Any, stream: Any, shared: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kernel[blocks, threads, stream, shared]


def loaded(source: str, name: str) -> Callable[..., Any]:
    """The kernel of this name that a generated module defines."""
    if SIMULATED:
        from adcompiler.targets.cuda.device import simulated

        found: Callable[..., Any] = simulated.run(source)[name]
        return found
    from adcompiler.targets.numba import modules as cache

    kernel: Callable[..., Any] = getattr(cache.load(source), name)
    return kernel
