"""Values that are made when they are first asked for, and kept: `cached_property`, `Memo`, `Sites` and
`WeakMemo`.

One thread makes a value, and others that ask for it wait; threads that make different values do not.
(`functools.cached_property` of Python 3.11 has one lock for all instances of a class; that of 3.12 has none,
so threads would compile the same kernel several times.) In a child of `fork` no value is being made.

`functools.cache` is for functions of few possible arguments, such as names of primitives.
"""

from __future__ import annotations

import os
from collections.abc import Callable, MutableMapping
from functools import partial
from threading import RLock
from typing import Any, Generic, TypeVar, overload
from weakref import WeakKeyDictionary

from adcompiler.fork import Locked

# Values in a memo, unless it says otherwise: more than the types and lengths that most programs are called
# with. If it were larger, memos would hold more kernels in memory, and fewer would be compiled again.
VALUES = 1000

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_ABSENT: Any = object()
_being_made: dict[tuple[int, Any], Any] = {}  # the lock of each value that a thread is making
_changing = Locked(RLock)  # held while the order of a memo changes


class cached_property(Generic[T]):  # noqa: N801  (named as the one of functools)
    """A value of an instance that is made when it is first asked for."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make, self.name, self.__doc__ = make, make.__name__, make.__doc__

    @overload
    def __get__(self, instance: None, owner: Any) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: Any) -> T: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self  # where the value is known, Python does not come here again
        return _once(instance, vars(instance), self.name, partial(self.make, instance))


class Memo(dict[K, V]):
    """Values by keys, at most `limit` of them: beyond, the one that `made` gave least recently is dropped.

    Reading by `get` and `[]` is as fast as in a dict, and does not count as use. A pickle or copy is empty.
    """

    __slots__ = ("limit",)

    def __init__(self, limit: int = VALUES) -> None:
        super().__init__()
        self.limit = limit

    def made(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, which is made and kept if there is none."""
        found: V = self.get(key, _ABSENT)
        if found is _ABSENT:
            return _once(self, self, key, make)
        if len(self) >= self.limit:  # the order decides what is dropped next
            with _changing.lock:
                self.pop(key, None)
                super().__setitem__(key, found)
        return found

    def __setitem__(self, key: K, value: V) -> None:
        with _changing.lock:
            super().__setitem__(key, value)
            while len(self) > self.limit:
                del self[next(iter(self))]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.limit,)


class Sites(Memo[K, V]):
    """What calls that look alike have in common. To make it takes longer than a call, so a value is made when
    its key is asked for the second time."""

    __slots__ = ("asked",)

    def __init__(self, limit: int = VALUES) -> None:
        super().__init__(limit)
        self.asked: Memo[K, bool] = Memo(limit)

    def of_repeated(self, key: K, make: Callable[[], V]) -> V | None:
        """The value of a key; None where it is not worth making one yet."""
        if key in self or key in self.asked:
            return self.made(key, make)
        self.asked[key] = True
        return None


class WeakMemo(WeakKeyDictionary[K, V]):
    """Values by objects, each kept as long as its object exists. A value must not refer to its object."""

    def made(self, key: K, make: Callable[[], V]) -> V:
        """The value of an object, which is made and kept if there is none."""
        found: V = self.get(key, _ABSENT)
        return _once(self, self, key, make) if found is _ABSENT else found


def _once(owner: object, values: MutableMapping[K, V], key: K, make: Callable[[], V]) -> V:
    """The value of a key, made and stored by one thread."""
    place = id(owner), key
    with _being_made.setdefault(place, RLock()):
        try:
            found: V = values.get(key, _ABSENT)
            if found is _ABSENT:
                found = values[key] = make()
            return found
        finally:
            _being_made.pop(place, None)


if hasattr(os, "register_at_fork"):  # a child has no thread that would release what others hold
    os.register_at_fork(after_in_child=_being_made.clear)
