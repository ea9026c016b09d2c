"""Limits on the size and nesting of a source: far above real programs, and low enough not to hang."""

from __future__ import annotations

from adcompiler.errors import Span
from adcompiler.frontend.grammar.fault import Excess

CHARACTERS = 1_000_000
TOKENS = 200_000
BRACKETS = 200  # ( and [ inside each other
BLOCKS = 100  # indented blocks inside each other
TOWER = 1_000  # operators that group to the right: 2**2**2, - - -x, not not x, a if b else c if d else e
IDENTIFIER = 1_000  # characters
NUMBER = 1_000  # digits


def check(what: str, count: int, limit: int, span: Span, remedy: str) -> None:
    """Raise an `Excess` if there are more than `limit` of `what`."""
    if count > limit:
        raise Excess(span, f"{what}: {count:,} is more than the limit of {limit:,}", remedy)
