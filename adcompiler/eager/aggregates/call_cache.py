"""The inline cache of aggregates: results of look-ups, for calls with the same types.

Looking up types, programs and lengths takes longer than a small kernel. A call stores what it found, and the
next call with the same lengths runs the kernel directly: recording costs only its Variables and its entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import Node, state
from adcompiler.lazy import Memo
from adcompiler.pytree.kinds import ArgType, Types

Key = tuple[Any, ...]
Run = Callable[[Sequence[Any], Sequence[Any]], Any]  # from arguments and their values to the results, nested
MISSED = object()
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def key_of(args: Sequence[Any]) -> Key | None:
    """What decides how a call is done; None for arguments that must be looked into, as containers."""
    found: list[Any] = [state.recording]
    kind = Node.kind
    for a in args:
        if isinstance(a, kind):
            data = a.data
            found += (True, data.dtype, data.shape)
        elif type(a) is float:
            found.append(float)
        elif type(a) is np.ndarray and a.ndim and a.flags.c_contiguous and a.flags.aligned:
            found += (False, a.dtype, a.shape)
        else:
            return None
        if found[-1] is not float and found[-2] not in FLOATS:
            return None  # integers may decide what is computed
    return tuple(found)


class CallCache:
    """The sites of one function."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.sites: Memo[Key, tuple[Types, Run]] = Memo()

    def keep(self, args: Sequence[Any], types: Types, run: Run) -> None:
        """Remember how a call was made, if calls like it can be made the same way."""
        key = key_of(args)
        whole = all(isinstance(kind, ArgType) for kind in types)
        if key is not None and whole:
            self.sites[key] = types, run

    def __call__(self, args: Sequence[Any]) -> Any:
        """The results for arguments like those of a call before; MISSED if there was none."""
        key = key_of(args)
        found = None if key is None else self.sites.get(key)
        if found is None:
            return MISSED
        self.function._last = found[0]
        return found[1](args, [kernel_value(a) for a in args])


def kernel_array(v: Any) -> np.ndarray:
    """A Variable's values as kernels are compiled for them: contiguous and not read-only."""
    data: np.ndarray = v.data
    flags = data.flags
    return data if flags.c_contiguous and flags.writeable else np.array(data, order="C")


def kernel_value(a: Any) -> Any:
    """An argument as kernels take it: a number for rank 0."""
    if not isinstance(a, Node.kind):
        return a
    data: np.ndarray = a.data
    if data.ndim:
        return kernel_array(a)
    return data.item() if data.dtype == FLOATS[0] else data[()]
