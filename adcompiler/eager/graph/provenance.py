"""The origin of values without a graph: leaves, detached values, and numbers taken from Variables.

Only for messages, and small: places, names, masks and weak references. Nothing here keeps an array or a graph
alive. After a graph is gone, a mask with one bit per leaf (a Bloom filter) still tells what a value was
computed from: `roots`.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from adcompiler.eager.graph.user_lines import UserLine, here
from adcompiler.eager.limits import MASK_BITS, MOST_TAKEN

serials = itertools.count()  # of Variables and operations, in the order in which they came to be
OTHER = object()  # stands for an operand without an identity

_frame = sys._getframe
_new = tuple.__new__  # half the time of a NamedTuple's own


class Origin(NamedTuple):
    """How a Variable without an entry came to be."""

    how: str  # a key of cutwords.WORDS
    place: UserLine | None
    roots: int
    name: str
    made: ref[Any]  # the Variable
    sources: tuple[int, ...]  # the serial numbers of what it was made of
    given: Any  # the value that it was made of: a number, or a weak reference to an array


class Taken(NamedTuple):
    """A value that left the graph: a Python number, or a plain array."""

    how: str
    value: Any  # the number itself, or a weak reference to the array
    roots: Any  # a mask, an Origin that has one, or None
    source: ref[Any]  # the Variable
    number: int  # what has a smaller serial number was there before
    place: UserLine | None

    def was(self, given: Any) -> bool:
        """Whether a value is the very object that was taken; Python shares small integers."""
        return self.value is given and type(given) is not int

    @property
    def call(self) -> str:
        """What took it: `x.item()`, or `x by float()`."""
        v = self.source()
        if v is None:
            return f"a Variable by {self.how}"
        return f"{v.name}{self.how}" if self.how[0] == "." else f"{v.name} by {self.how}"


_taken: deque[tuple[Any, ...]] = deque(maxlen=MOST_TAKEN)


def take(how: str, value: Any, v: Any) -> None:
    """Remember that the caller of our caller got a number out of `v`; this must cost next to nothing."""
    frame, entry = _frame(2), v.entry
    roots = v.origin if entry is None else entry.roots
    _taken.append((how, value, roots, ref(v), next(serials), frame.f_code, frame.f_lasti))


def take_array(how: str, array: Any, v: Any) -> None:
    """Remember that the user's line got an array out of `v`."""
    place, entry = here(), v.entry
    roots = v.origin if entry is None else entry.roots
    if place is not None:
        _taken.append((how, identity(array), roots, ref(v), next(serials), *place))


def taken() -> list[Taken]:
    """What was taken by lines that are not ours, the latest first."""
    found = [Taken._make([*fields, UserLine(code, last)]) for *fields, code, last in tuple(_taken)]
    return [t for t in reversed(found) if t.place is not None and t.place.foreign]


def bit(serial: int) -> int:
    """The mask of a leaf."""
    return 1 << serial % MASK_BITS


def roots_of(v: Any) -> int:
    """The leaves that the value of a Variable depends on, also where no derivative passes."""
    if v.entry is not None:
        found: int = v.entry.roots
        return found
    return bit(v.serial) if v.origin is None else v.origin.roots


def begin(v: Any, how: str, sources: Sequence[Any] = (), given: Any = None) -> None:
    """Say that `v`, which has no entry, was made here, of these Variables."""
    roots: int = 1 << v.serial % MASK_BITS
    serials: tuple[int, ...] = ()
    if sources:
        serials = tuple([s.serial for s in sources])
        for source in sources:
            roots |= roots_of(source)
    same = given if given is None else identity(given)
    v.origin = _new(Origin, (how, here(), roots, v.name, ref(v), serials, same))


def identity(value: Any) -> Any:
    """What tells later whether another value is this very object: a number, or a reference to an array.

    As long as anybody holds it, there is one weak reference to an array: it stays the same object after the
    array's end.
    """
    if isinstance(value, np.ndarray):
        return ref(value)
    return value if isinstance(value, int | float | np.generic) else OTHER


def identities(args: Sequence[Any]) -> list[Any]:
    """The identities of operands; None for Variables."""
    return [a if type(a) is float else None if hasattr(a, "serial") else identity(a) for a in args]
