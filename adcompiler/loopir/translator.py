"""Translation of the loop IR to another language: what a translator does with each kind of node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

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
    If,
    Invoke,
    Length,
    Literal,
    Logical,
    Return,
    Stmt,
    Store,
    Unary,
    UnsupportedError,
    Update,
    Var,
    While,
)
from adcompiler.loopir.python_modules import PythonModule

V = TypeVar("V")
A = TypeVar("A")


class Translator(Protocol[V, A]):
    """Translates one function: numbers become values V, and arrays as arguments A. If the function is written
    in Python, its module has constants, tables and other functions. Methods without a body are what each
    language does in its own way."""

    python: PythonModule = PythonModule({}, {})

    # -- statements ----------------------------------------------------------------------------

    def body(self, found: Sequence[Stmt]) -> None:
        """Statements in order."""
        for s in found:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        """A statement."""
        match s:
            case Assign(name=name, value=value):
                self.set(s, name, self.value(value))
            case AssignAll(values=values):
                self.assign_all(s, [self.value(v) for v in values])
            case Store(at=at, value=value):
                self.store(at, self.value(value))
            case Update():
                self.update(s)
            case Allocate():
                self.allocate(s)
            case For():
                self.counted(s)
            case While(test=test, body=body):
                self.repeat(None if test == Literal(True, "bool") else test, body)
            case If(test=test, body=body, otherwise=otherwise):
                self.branch(self.value(test), body, otherwise)
            case Break():
                self.leave_loop()
            case Return(values=values):
                self.give(values)
            case Invoke(name=name, args=args):
                self.invoke(name, args)
            case Comment(text=text):
                self.comment(text)
            case _:
                raise UnsupportedError(f"the statement {type(s).__name__}")

    def set(self, s: Stmt, name: str, value: V) -> None:
        """Store a value in a variable."""

    def store(self, at: Access, value: V) -> None:
        """Store a value in an element."""

    def assign_all(self, s: AssignAll, values: Sequence[V]) -> None:
        """Assign several values, all of which have been computed."""
        for target, value in zip(s.targets, values, strict=True):
            if isinstance(target, Var):
                self.set(s, target.name, value)
            else:
                self.store(target, value)

    def update(self, s: Update) -> None:
        """Combine an element with a value."""
        self.store(s.at, self.binary(s.op, self.value(s.at), self.value(s.value)))

    def allocate(self, s: Allocate) -> None:
        """A new array."""
        raise UnsupportedError(f"memory for {s.name}")

    def counted(self, loop: For) -> None:
        """A loop over a range."""

    def repeat(self, test: Expr | None, body: Sequence[Stmt]) -> None:
        """A loop that runs while a condition holds, or until it is left."""

    def branch(self, test: V, body: Sequence[Stmt], otherwise: Sequence[Stmt]) -> None:
        """Statements under a condition, and others where it does not hold."""

    def leave_loop(self) -> None:
        """Leave the innermost loop."""

    def give(self, values: Sequence[Expr]) -> None:
        """Return from the function."""

    def invoke(self, name: str, args: Sequence[Expr]) -> None:
        """Call a function for what it stores."""

    def comment(self, text: str) -> None:
        """A comment for readers, which only source code has."""
        return

    # -- expressions ---------------------------------------------------------------------------

    def value(self, node: Expr) -> V:
        """An expression that is a number."""
        match node:
            case Var(name=name):
                found = self.python.names.get(name)
                if isinstance(found, int | float) and not self.knows(name):
                    return self.constant(found)
                return self.variable(name)
            case Literal(value=value):
                return self.constant(value)
            case Access(array=name, indices=(index,)) if isinstance(self.python.names.get(name), tuple):
                return self.entry(name, self.value(index))
            case Access():
                return self.access(node)
            case Length(array=array, axis=axis):
                return self.extent(array, axis)
            case Unary(op=op, operand=operand):
                return self.unary(op, self.value(operand))
            case Binary(op=op, left=left, right=right):
                return self.binary(op, self.value(left), self.value(right))
            case Compare(op=op, left=left, right=right):
                return self.compare(op, self.value(left), self.value(right))
            case Logical(op=op, args=args):
                return self.logical(op, [self.value(a) for a in args])
            case Choice():
                return self.choice(node)
            case Call(name="len", args=(Var(name=name),)):
                return self.constant(len(self.python.table(name)))
            case Call(name=name, args=args) if name in self.python.definitions:
                return self.own(name, [self.argument(a) for a in args])
            case Call(name=name, args=args):
                return self.function(name, [self.value(a) for a in args])
        raise UnsupportedError(f"the expression {type(node).__name__}")

    def knows(self, name: str) -> bool:
        """Whether a variable has a value here."""

    def variable(self, name: str) -> V:
        """The value of a variable."""

    def constant(self, value: float) -> V:
        """A number."""

    def access(self, at: Access) -> V:
        """An element of an array."""

    def extent(self, array: str, axis: int) -> V:
        """The length of an array along an axis."""

    def unary(self, op: str, x: V) -> V:
        """An operator with one operand."""

    def binary(self, op: str, x: V, y: V) -> V:
        """An operator with two operands."""

    def compare(self, op: str, x: V, y: V) -> V:
        """A comparison."""

    def logical(self, op: str, args: Sequence[V]) -> V:
        """`and` or `or` of values."""

    def choice(self, node: Choice) -> V:
        """One value or another, by a condition."""

    def own(self, name: str, args: Sequence[V | A]) -> V:
        """The result of another function of the module."""
        raise UnsupportedError(f"the function {name}")

    def entry(self, table: str, index: V) -> V:
        """A coefficient of a table of the module."""
        raise UnsupportedError(f"the table {table}")

    def function(self, name: str, args: list[V]) -> V:
        """A call of a function."""

    def argument(self, node: Expr) -> V | A:
        """An argument of another function."""
