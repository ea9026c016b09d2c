"""Python's precedence, so that generated expressions have the parentheses they need and no others."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

TERNARY, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, SIGN, POWER, ATOM = range(14)

BINARY = {
    "or": OR, "and": AND,
    "<": COMPARE, "<=": COMPARE, ">": COMPARE, ">=": COMPARE, "==": COMPARE, "!=": COMPARE,
    "|": BIT_OR, "^": BIT_XOR, "&": BIT_AND, "<<": SHIFT, ">>": SHIFT,
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "//": PRODUCT, "%": PRODUCT, "**": POWER,
}  # fmt: skip
PREFIX = {"not": NOT, "-": SIGN, "~": SIGN}


class Text(NamedTuple):
    """An expression and how tightly it binds."""

    text: str
    level: int = ATOM

    def within(self, level: int) -> str:
        """The expression where something at least as tight as `level` must stand."""
        return self.text if self.level >= level else f"({self.text})"


class Form(NamedTuple):
    """What the text of a kernel needs: how tightly it binds, and how tightly each operand must."""

    level: int
    operands: tuple[int, ...]


@cache
def form(kernel: str, count: int) -> Form:
    """The form of a kernel's text with `count` parameters: an operator, a call, or else anything."""
    if found := re.fullmatch(r"\{\w+\} (\S+) \{\w+\}", kernel):
        level = BINARY[found[1]]
        # Comparisons would chain; a sum or product on the right is one that the user grouped so.
        sides = (ATOM, SIGN) if level == POWER else (level + (level == COMPARE), level + 1)
        return Form(level, sides[-count:])
    if found := re.fullmatch(r"(not |-|~)\{\w+\}", kernel):
        level = PREFIX[found[1].strip()]
        return Form(level, (level + (level == SIGN),))
    if re.fullmatch(r"[\w.]+\((\{\w+\}(, )?)*\)", kernel):
        return Form(ATOM, (TERNARY,) * count)
    whole = kernel.startswith("(") and kernel.endswith(")")
    return Form(ATOM if whole else TERNARY, (ATOM,) * count)
