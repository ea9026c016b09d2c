"""Loop IR as text: Python for numba and `parse.py`; text of transformed loop IR is only for readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from adcompiler.ir.types import NUMPY
from adcompiler.loopir.nodes import (
    Access,
    Allocate,
    Assign,
    AssignAll,
    Binary,
    Break,
    Call,
    Choice,
    Comment,
    Compare,
    Expr,
    For,
    Foreign,
    Function,
    If,
    Invoke,
    Length,
    Literal,
    Logical,
    Return,
    Stmt,
    Store,
    Unary,
    Update,
    Var,
    Verbatim,
    While,
    literal,
)
from adcompiler.loopir.transformed_loops import LANE, Jam, Lane, LaneByLane, LaneRange, Lanes, Tiled

TERNARY, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, SIGN, POWER, ATOM = range(14)

BINARY = {
    "or": OR, "and": AND,
    "<": COMPARE, "<=": COMPARE, ">": COMPARE, ">=": COMPARE, "==": COMPARE, "!=": COMPARE,
    "|": BIT_OR, "^": BIT_XOR, "&": BIT_AND, "<<": SHIFT, ">>": SHIFT,
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "//": PRODUCT, "%": PRODUCT, "**": POWER,
}  # fmt: skip
PREFIX = {"not": NOT, "-": SIGN, "~": SIGN}


class Text(NamedTuple):
    """An expression and its precedence."""

    text: str
    level: int = ATOM

    def within(self, level: int) -> str:
        """The expression, in parentheses if it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"


INDENT = "    "
LIMITS = {-(2**63): Text("-(2**63)", SIGN), 2**63 - 1: Text("2**63 - 1", SUM)}


class Printer:
    """The text of expressions and statements."""

    def text(self, e: Expr) -> str:
        """An expression."""
        return self.printed(e).text

    def printed(self, e: Expr) -> Text:
        """An expression, and its precedence."""
        match e:
            case Var(name=name):
                return Text(name)
            case Literal():
                return _literal(e)
            case Unary(op=op, operand=operand):
                level = PREFIX[op]
                return Text(
                    f"{op}{' ' * (op == 'not')}{self.printed(operand).within(level + (level == SIGN))}", level
                )
            case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
                level = BINARY[op]
                sides = (ATOM, SIGN) if level == POWER else (level + (level == COMPARE), level + 1)
                parts = (self.printed(x).within(side) for x, side in zip((left, right), sides, strict=True))
                return Text(f" {op} ".join(parts), level)
            case Logical(op=op, args=args):
                level = BINARY[op]
                return Text(f" {op} ".join(self.printed(a).within(level + 1) for a in args), level)
            case Choice(test=test, then=then, otherwise=otherwise):
                first, second = (self.printed(x).within(TERNARY + 1) for x in (then, test))
                return Text(f"{first} if {second} else {self.text(otherwise)}", TERNARY)
            case Call(name="transpose", args=(x,)):
                return Text(f"{self.text(x)}.T")
            case Call(name=name, args=args):
                return Text(f"{name}({self._all(args)})")
            case Lane(array=array, indices=indices, row=True):
                return Text(f"{array}{LANE}[{self._all(indices)}{', lane' * e.alone}]")
            case Access(array=array, indices=indices):
                return Text(f"{array}[{self._all(indices)}]")
            case Length(array=array, axis=axis):
                return Text(f"{array}.shape[{axis}]")
            case Verbatim(text=found):
                return Text(found, TERNARY)
        raise AssertionError(f"no text for {type(e).__name__}")

    def _all(self, found: Iterable[Expr]) -> str:
        return ", ".join(map(self.text, found))

    def _tuple(self, found: tuple[Expr, ...]) -> str:
        return f"({self._all(found)}{',' * (len(found) == 1)})"

    def lines(self, body: Iterable[Stmt]) -> Iterator[str]:
        """Statements, each on a line."""
        return (line for line, _ in self.placed(body))

    def placed(self, body: Iterable[Stmt]) -> Iterator[tuple[str, Stmt]]:
        """Statements, each on a line, and the statement that each line is of."""
        for s in body:
            yield from self._placed(s)

    def _placed(self, s: Stmt) -> Iterator[tuple[str, Stmt]]:
        match s:
            case Jam(axis=axis, axes=axes):
                yield from self._block(
                    f"for {', '.join(axes)} in {self._range(s)}:  # at once", s, s.together
                )
                yield from self._block(f"for {axis} in what is left:", s, s.body)
            case Lanes(axis=axis):
                yield from self.placed(s.before)
                yield from self._block(f"for {axis}{LANE} in {self._range(s)}:  # lanes", s, s.together)
                yield from self.placed(s.after)
                yield from self._block(f"for {axis} in what is left:", s, s.body)
            case Tiled(axis=axis, body=body):
                yield from self._block(
                    f"for {axis} in {self._range(s)}:  # for each tile of {s.inner.axis}", s, body
                )
            case LaneRange(axis=axis, body=body):
                yield from self._block(f"for {axis} in {self._range(s)}:  # of each lane", s, body)
            case For(axis=axis, body=body):
                yield from self._block(
                    f"for {axis} in {self._range(s)}:{f'  # {s.note}' * bool(s.note)}", s, body
                )
            case While(test=test, body=body):
                yield from self._block(f"while {self.text(test)}:", s, body)
            case If(test=test, body=body, otherwise=otherwise):
                yield from self._block(f"if {self.text(test)}:", s, body)
                if otherwise:
                    yield from self._block("else:", s, otherwise)
            case LaneByLane(loop=loop):
                yield from self._block("for each lane:", s, [loop])
            case _:
                yield self._line(s), s

    def _line(self, s: Stmt) -> str:
        """A statement that has no others inside."""
        match s:
            case Assign(name=name, value=value):
                return f"{name} = {self.text(value)}"
            case AssignAll(targets=targets, values=values):
                return f"{self._all(targets)} = {self._all(values)}"
            case Store(at=at, value=value):
                return f"{self.text(at)} = {self.text(value)}"
            case Update(at=at, op=op, value=value):
                return f"{self.text(at)} {op}= {self.text(value)}"
            case Allocate(name=name, dtype=dtype, shape=shape):
                return f"{name} = np.empty({self._tuple(shape)}, np.{NUMPY[dtype]})"
            case Break():
                return "break"
            case Return(values=values):
                return f"return {self._tuple(values)}"
            case Invoke(name=name, args=args):
                return f"{name}({self._all(args)})"
            case Comment(text=found):
                return f"# {found}"
            case Foreign(text=found):
                return found
        raise AssertionError(f"no text for {type(s).__name__}")

    def _range(self, loop: For) -> str:
        bounds = (loop.stop,) if loop.step is None and loop.start == literal(0) else loop.bounds
        return f"range({self._all(bounds)})"

    def _block(self, head: str, s: Stmt, body: list[Stmt]) -> Iterator[tuple[str, Stmt]]:
        yield head, s
        yield from ((INDENT + line, inner) for line, inner in self.placed(body))
        if not body:
            yield f"{INDENT}pass", s


def _literal(e: Literal) -> Text:
    value = e.value
    if value in LIMITS and isinstance(value, int):
        return LIMITS[value]
    if isinstance(value, float) and not math.isfinite(value):
        found = "math.nan" if value != value else "math.inf" if value > 0 else "-math.inf"
    else:
        found = repr(value)
    return Text(found, SIGN if found.startswith("-") else ATOM)


_PLAIN = Printer()
text, printed, lines = _PLAIN.text, _PLAIN.printed, _PLAIN.lines


def head(function: Function) -> str:
    """The first line of a function."""
    return f"def {function.name}({', '.join(function.params)}):"


def source(function: Function) -> str:
    """A function."""
    body = [INDENT + line for line in lines(function.body)] or [f"{INDENT}pass"]
    return "\n".join([head(function), *body, ""])
