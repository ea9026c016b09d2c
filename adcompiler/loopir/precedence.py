"""Python's precedence, so that generated expressions have the parentheses they need and no others."""

from __future__ import annotations

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
