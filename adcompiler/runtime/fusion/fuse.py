"""`adc.fuse`: a Python function whose operations on Variables are run as compiled aggregates."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from adcompiler.errors import DtypeError
from adcompiler.frames import public
from adcompiler.runtime.fusion.pending import Graph, Trie
from adcompiler.runtime.graph import state

F = TypeVar("F", bound=Callable[..., Any])


@public
def fuse(fn: F) -> F:
    """A function that runs like `fn`, with chains of operations on Variables compiled. Also a decorator.

    Python runs `fn` at every call. Operations on Variables are deferred until a value is asked for (`bool`,
    `float`, `.item()`, `.value`, a comparison, printing, a change in place, a call that is not known) or `fn`
    ends; then they run together. Operations that were seen in this order before, on the same shapes and
    dtypes, run as one compiled aggregate with derivatives of any order. Python numbers are its inputs, so
    another number never recompiles. What is seen for the first time runs operation by operation.

    Values, gradients, None and the order of effects are those of `fn`, but for rounding. Calls of fused
    functions inside one are part of it. Raises DtypeError for what is no function, or one that runs after it
    has returned: generators and coroutines.
    """
    if not callable(fn) or inspect.isclass(fn):
        raise DtypeError(f"fuse is given a {type(fn).__name__}", remedy="pass a Python function")
    if inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise DtypeError(
            f"{getattr(fn, '__name__', fn)} runs after its call returned: it is a generator or coroutine",
            remedy="fuse the functions that it calls",
        )
    trie = Trie()

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

    return fused  # type: ignore[return-value]
