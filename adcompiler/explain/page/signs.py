"""Signs in printed text, which tell the node that each part of it was printed for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, TypeVar

from adcompiler.explain.page.places import Found, Line, Mark, nested

# A part is printed as OPEN number MIDDLE part CLOSE. No text has these characters of the private use area:
# names that are not identifiers are printed in ASCII.
OPEN, MIDDLE, CLOSE = "\ue000", "\ue001", "\ue002"
_SIGN = re.compile(f"{OPEN}(\\d+){MIDDLE}|{CLOSE}")
T = TypeVar("T")
NOTHING = Found()


class Signs(Generic[T]):
    """The signs of one text, and what each was printed for."""

    def __init__(self) -> None:
        self.known: list[T] = []

    def around(self, text: str, what: T) -> str:
        """A text between signs."""
        self.known.append(what)
        return f"{OPEN}{len(self.known) - 1}{MIDDLE}{text}{CLOSE}"

    def line(self, text: str, find: Callable[[T], Found], whole: Found = NOTHING) -> Line:
        """A line without its signs, marked with the places of what they were printed for; as a whole it comes
        from further places."""
        plain, open_, marks, last = "", list[tuple[int, T]](), list[Mark](), 0
        for sign in _SIGN.finditer(text):
            plain += text[last : sign.start()]
            last = sign.end()
            if sign[1] is not None:
                open_.append((len(plain), self.known[int(sign[1])]))
            elif open_:
                start, what = open_.pop()
                if start < len(plain) and (found := find(what)).places:
                    marks.append(Mark(start, len(plain), found.places, (), found.derivative))
        plain += text[last:]
        if whole.places:
            indent = len(plain) - len(plain.lstrip())
            marks.insert(0, Mark(indent, len(plain), whole.places, (), whole.derivative))
        return Line(plain, tuple(nested(marks)))


def without(text: str) -> str:
    """A text without signs."""
    return _SIGN.sub("", text)
