"""Values that are made when they are asked for: `cached_property`, and the last ones by keys.

`cached_property` has a lock for each value: threads that compute different values do not wait.

That of Python 3.11 has one lock for all instances of a class, so every compilation would wait for all others.
That of 3.12 has none, so threads would compile the same kernel several times.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar, overload

from adcompiler.fork import Locked

T = TypeVar("T")
_being_made: dict[tuple[int, str], Any] = {}  # the lock of each value that a thread is making


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
            return self
        key = id(instance), self.name
        with _being_made.setdefault(key, RLock()):
            try:
                if self.name not in vars(instance):  # where it is, Python does not come here again
                    vars(instance)[self.name] = self.make(instance)
                return vars(instance)[self.name]
            finally:
                _being_made.pop(key, None)


class Recent(Generic[T]):
    """The last `most` values that were asked for by keys; each is made by one thread."""

    def __init__(self, most: int) -> None:
        self.most, self.making = most, Locked()
        self.values: dict[Any, T] = {}  # the last one that was asked for stands last

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """The value of a key."""
        with self.making.lock:
            found = self.values.pop(key) if key in self.values else make()
            self.values[key] = found
            while len(self.values) > self.most:
                del self.values[next(iter(self.values))]
            return found


if hasattr(os, "register_at_fork"):  # a child has no thread that would release what others hold
    os.register_at_fork(after_in_child=_being_made.clear)
