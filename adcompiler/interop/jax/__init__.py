"""Compiled functions in JAX: a primitive with rules for jvp, transposition, batching and lowering.

Each call is one kernel: of the function, of its tangents, of its reverse mode, of a batch of these. On the
CPU, XLA calls the machine code directly (`ffi.py`), elsewhere through a callback. A call of a compiled
function with tracers is a call of its `jax()`; a call with concrete JAX arrays is like any with array API
arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.core import Tracer

from adcompiler.interop import array_api
from adcompiler.interop.array_api import plain, wrapper
from adcompiler.interop.jax.function import JaxFunction
from adcompiler.pytree.containers import leaves_in

__all__ = ["JaxFunction", "call", "plain", "wrapper"]


def call(function: Any, bound: Sequence[Any]) -> Any:
    """A call with JAX arrays or tracers among the arguments, in order."""
    traced = any(map(_is_traced, leaves_in(bound)))
    return function.jax()(*bound) if traced else array_api.call(function, bound)


def _is_traced(value: Any) -> bool:
    return isinstance(value, Tracer)
