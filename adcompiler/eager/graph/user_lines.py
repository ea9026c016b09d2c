"""The file and line of the user's program from which an operation on Variables was called."""

from __future__ import annotations

import copy
import linecache
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import numpy as np

OURS = (  # code that a user's line calls on the way to an operation
    f"{Path(__file__).parents[2]}{os.sep}",
    f"{Path(np.__file__).parent}{os.sep}",
    contextmanager.__code__.co_filename,
    copy.__file__,
)

_warned: set[tuple[str, int, str]] = set()  # files and lines, and about what
_filters: object = None  # those of `warnings` when `_warned` was begun
_new = tuple.__new__  # half the time of a NamedTuple's own
_ours: dict[str, bool] = {}  # by file, for this is asked in every operation


class UserLine(NamedTuple):
    """An instruction; its line is looked up when a message names it."""

    code: CodeType
    instruction: int

    @property
    def line(self) -> int:
        """The number of its line."""
        lines = (
            (first, line) for first, last, line in self.code.co_lines() if first <= self.instruction < last
        )
        return next((line for _, line in lines if line is not None), self.code.co_firstlineno)

    @property
    def short(self) -> str:
        """file.py:12."""
        return f"{Path(self.code.co_filename).name}:{self.line}"

    @property
    def foreign(self) -> bool:
        """Whether it is code of a user's, neither this package's nor NumPy's."""
        return not self.code.co_filename.startswith(OURS)

    def __str__(self) -> str:
        """file.py:12, and the text of the line where it is known."""
        file, line = self.code.co_filename, self.line
        text = linecache.getline(file, line).strip()
        return f"{Path(file).name}:{line}" + (f": {text}" if text else "")


def here() -> UserLine | None:
    """The innermost instruction that is not this package's, nor NumPy's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        ours = _ours.get(file)
        if ours is None:
            ours = _ours[file] = file.startswith(OURS)
        if not ours:
            return _new(UserLine, (frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return None


def by(place: UserLine | None) -> str:
    """A place in brackets, for a message."""
    return f" ({place})" if place is not None else ""


def warn(kind: str, message: Callable[[], str | None]) -> None:
    """Warn at the user's line, once for each line and kind: Python's own rule compares texts, and names of
    Variables in them differ from iteration to iteration. Filters that were changed start again."""
    global _filters
    place = here()
    if _filters is not warnings.filters:
        _warned.clear()
        _filters = warnings.filters
    file, line = ("<unknown>", 0) if place is None else (place.code.co_filename, place.line)
    text = None if (file, line, kind) in _warned else message()
    if text is not None:
        warnings.warn_explicit(text, UserWarning, file, line, registry={})
        _warned.add((file, line, kind))


def locals_of(frame: FrameType) -> dict[str, object]:
    """A frame's variables. Before Python 3.13 a frame keeps the dict that it is asked for, which would hold
    what the variables were until the function ends: it is emptied."""
    given = frame.f_locals
    found = dict(given)
    if type(given) is dict and frame.f_code.co_flags & CO_OPTIMIZED:
        given.clear()
    return found
