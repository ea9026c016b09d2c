"""Support for `fork`: in the child, locks are free and no module is half imported.

The child has only the thread that forked. Locks held by other threads would never be released, so ours are
created again. The data that they guard are set by one assignment, or made again. Before the fork, threads
inside another library are waited for.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from threading import Lock
from typing import Any
from weakref import WeakSet

PATIENCE_SECONDS = 10.0  # seconds until a fork does not wait any longer
LIBRARIES = {"adcompiler", "lark", "llvmlite", "numba", "numpy", "scipy"}

_holders: WeakSet[Any] = WeakSet()


class Locked:
    """A `lock`, which a child of `fork` has anew; who holds it leaves the one that was entered."""

    def __init__(self, make: Callable[[], Any] = Lock) -> None:
        self.make, self.lock = make, make()
        _holders.add(self)


def _renew() -> None:
    for holder in list(_holders):
        holder.lock = holder.make()


def _wait_for_imports() -> None:
    """A module that another thread is importing would be half there for ever."""
    end = time.monotonic() + PATIENCE_SECONDS
    while _importing() and time.monotonic() < end:
        time.sleep(0.001)


def _importing() -> bool:
    modules = [m for n, m in list(sys.modules.items()) if n.partition(".")[0] in LIBRARIES]
    return any(getattr(getattr(m, "__spec__", None), "_initializing", False) for m in modules)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_imports, after_in_child=_renew)
