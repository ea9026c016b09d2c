"""Call sites: how calls are done whose arguments have the same dtypes and lengths.

To look up types, programs and lengths takes longer than a small kernel. A call leaves what it has found, and
later ones like it, also with containers, run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any, Generic, TypeVar

from adcompiler.lazy import Sites
from adcompiler.pytree.containers import MOST_DEPTH
from adcompiler.runtime.limits import MOST_FAST_PATHS

T = TypeVar("T")
Key = tuple[Any, ...]


class CallSites(Generic[T]):
    """The sites of one function. `described` gives the part of a key that a leaf has; None for one that the
    function must look into."""

    def __init__(self, described: Callable[[Any], Key | None]) -> None:
        self.described = described
        self.known: Sites[Key, T] = Sites(MOST_FAST_PATHS)

    def key(self, args: Sequence[Any], *more: Any) -> tuple[Key | None, Sequence[Any]]:
        """What decides how a call is done, and the leaves of its arguments; no key if it must be looked into.
        `more` begins the key."""
        key: list[Any] = [*more]
        leaves: list[Any] = []
        return (tuple(key), leaves) if self._add(args, key, leaves, MOST_DEPTH) else (None, args)

    def find(self, key: Key | None) -> T | None:
        """The site of calls with a key; None if there is none yet."""
        return None if key is None else self.known.get(key)

    def keep(
        self, key: Key | None, leaves: Sequence[Any], inputs: Sequence[Any], make: Callable[[], T]
    ) -> None:
        """Remember a site, if the leaves themselves are the inputs of its program."""
        if key is not None and len(leaves) == len(inputs) and all(map(is_, leaves, inputs)):
            self.known.of_repeated(key, make)

    def _add(self, values: Iterable[Any], key: list[Any], leaves: list[Any], depth: int) -> bool:
        """Add what values, and the parts of plain containers down to a depth, have in a key; whether all have
        something."""
        for value in values:
            kind = type(value)
            if kind is float:
                key.append(float)
                leaves.append(value)
            elif kind is dict or kind is tuple or kind is list:
                key += (kind, tuple(value) if kind is dict else len(value))
                parts = value.values() if kind is dict else value
                if not depth or not self._add(parts, key, leaves, depth - 1):
                    return False
            elif (found := self.described(value)) is not None:
                key += found
                leaves.append(value)
            else:
                return False
        return True
