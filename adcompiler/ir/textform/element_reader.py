"""Reads the elements of the text form.

Operators are parsed by precedence: only brackets, signs and `**` nest, and no deeper than `DEEPEST`.
"""

from __future__ import annotations

from typing import Final

from adcompiler.errors import LimitError
from adcompiler.ir.nodes import Apply, Array, Element, Read, Select, const
from adcompiler.ir.textform.notation import BINARY, COMPARE, OR, PREFIX, apply_dtype, read_constant
from adcompiler.ir.textform.tokens import Cursor, Token
from adcompiler.ir.types import DTYPES, Dtype

DEEPEST: Final = 100
INFIX: Final = {op.symbol: (name, op) for name, op in BINARY.items()}
SIGNS: Final = {op.symbol.strip(): (name, op) for name, op in PREFIX.items()}
COMPARING: Final = frozenset(op.symbol for op in BINARY.values() if op.level == COMPARE)
TRUTH: Final = {"true": const(True, "bool"), "false": const(False, "bool")}


class ElementReader(Cursor):
    """Reads elements; `scope` and `arrays` hold what the names that were read so far mean."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.scope: dict[str, Element] = {}
        self.arrays: dict[str, Array] = {}

    def expression(self, level: int = OR) -> Element:
        """Operands joined by operators that bind at least as tightly as `level`."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise LimitError(f"the text of an element nests deeper than {DEEPEST}")
        left = self.operand(level)
        while self.token.text in INFIX and INFIX[self.token.text][1].level >= level:
            token = self.step()
            name, op = INFIX[token.text]
            left = self.apply(token, name, (left, self.expression(op.right)))
            if op.level == COMPARE and self.token.text in COMPARING:
                self.fail("comparisons do not chain here")
        self.depth -= 1
        return left

    def operand(self, level: int) -> Element:
        """What stands before or between operators."""
        token = self.step()
        if token.text == "(":
            element = self.expression()
            self.expect(")")
            return element
        if token.text in SIGNS:
            return self.sign(token, level)
        if token.kind == "number":
            return self.number(token, token.text)
        if token.kind == "array":
            array = self.array(token)
            return Read(array, self.items(self.expression, "]") if self.accept("[") else ())
        if token.kind == "name" and self.accept("("):
            return self.call(token)
        return TRUTH[token.text] if token.text in TRUTH else self.variable(token)

    def sign(self, token: Token, level: int) -> Element:
        """`not x`, `-x`, or the constant of a sign that touches its number."""
        if self.token.kind == "number" and self.token.start == token.start + 1:
            return self.number(token, "-" + self.step().text)
        name, op = SIGNS[token.text]
        if op.level < level:
            self.fail(f"{token.text!r} needs parentheses here", token)
        return self.apply(token, name, (self.expression(op.right),))

    def number(self, token: Token, text: str) -> Element:
        try:
            return read_constant(text)
        except (ValueError, OverflowError):
            self.fail("this is not a constant", token)

    def call(self, token: Token) -> Element:
        """`op(args)`, `op.dtype(args)` or `select(guard, then, otherwise)`"""
        args = self.items(self.expression, ")")
        if token.text == "select":
            if len(args) != 3:
                self.fail("select takes a guard and two branches", token)
            return Select(args)
        op, _, dtype = token.text.partition(".")
        return self.apply(token, op, args, self.dtype(token, dtype) if dtype else None)

    def apply(self, token: Token, op: str, args: tuple[Element, ...], dtype: Dtype | None = None) -> Element:
        dtype = dtype or apply_dtype(op, args)
        if dtype is None:
            self.fail(f"{op} does not say its type", token)
        return Apply(op, args, dtype)

    def dtype(self, token: Token, name: str) -> Dtype:
        if name not in DTYPES:
            self.fail(f"{name!r} is not a type", token)
        return DTYPES[DTYPES.index(name)]

    def array(self, token: Token) -> Array:
        if token.name not in self.arrays:
            self.fail(f"{token.text} is not defined here", token)
        return self.arrays[token.name]

    def variable(self, token: Token) -> Element:
        if token.kind not in ("name", "quoted") or token.name not in self.scope:
            self.fail(f"{token.text!r} is not defined here", token)
        return self.scope[token.name]
