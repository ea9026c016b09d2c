"""`adc.fuse`: a Python function whose operations on Variables are run as compiled aggregates."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from adcompiler.eager.aggregates.pending import Graph, Trie
from adcompiler.eager.graph.graph import state
from adcompiler.errors import DtypeError
from adcompiler.frames import public
from adcompiler.public_types import AnyFunction
from adcompiler.runtime.programs.backends import maker

F = TypeVar("F", bound=Callable[..., Any])


@overload
def fuse(fn: F, /) -> F: ...
@overload
def fuse(*, backend: str = "cpu") -> Callable[[F], F]: ...
@public
def fuse(fn: AnyFunction = None, /, *, backend: str = "cpu") -> AnyFunction:
    """A function that runs like `fn`, with chains of operations on Variables compiled. Also a decorator.

    Python runs `fn` at every call. Operations on Variables are deferred until a value is needed (`bool`,
    `float`, `.item()`, `.value`, a comparison, printing, an in-place change, an unknown call) or `fn`
    returns; then they run together. A sequence of operations seen before, on the same shapes and dtypes, runs
    as one compiled aggregate with derivatives of any order. Python numbers are its inputs, so another number
    never recompiles. A new sequence runs operation by operation.

    Values, gradients, None and the order of effects are those of `fn`, except for rounding. Calls of fused
    functions inside become part of it. `backend` is as for `compile`. Raises DtypeError for arguments that
    are not functions, and for generators and coroutines, which run after the call has returned.
    """
    if fn is None:
        return lambda given: _fused(given, backend)
    return _fused(fn, backend)


def _fused(fn: Any, backend: str) -> Any:
    if not callable(fn) or inspect.isclass(fn):
        raise DtypeError(f"fuse got a {type(fn).__name__}", remedy="pass a Python function")
    if any(late(fn) for late in LATE):
        raise DtypeError(
            f"{getattr(fn, '__name__', fn)} is a generator or coroutine, which runs after its call",
            remedy="fuse the functions it calls instead",
        )
    maker(backend)
    trie = Trie(backend)

    @functools.wraps(fn)
    def fused(*args: Any, **keywords: Any) -> Any:
        if state.fusing is not None:
            return fn(*args, **keywords)
        graph = state.fusing = Graph(trie)
        try:
            return fn(*args, **keywords)
        finally:
            try:
                graph.flush()
            finally:
                state.fusing = None

    return fused


LATE = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
