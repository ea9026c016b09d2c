"""Rewriting of statements; unchanged parts are shared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from adcompiler.loopir.nodes import (
    Access,
    Allocate,
    Assign,
    AssignAll,
    Binary,
    Call,
    Choice,
    Comment,
    Compare,
    Expr,
    For,
    Function,
    If,
    Invoke,
    Length,
    Logical,
    Return,
    Stmt,
    Store,
    Unary,
    Update,
    Var,
    While,
)


class Rewriter:
    """Copies statements; subclasses replace variables, elements and statements."""

    def name(self, name: str) -> str:
        """The name of a variable."""
        return name

    def access(self, at: Access) -> Access:
        """The replacement of an element that is read or set."""
        return replace(at, indices=self.all(at.indices))

    def all(self, found: Iterable[Expr]) -> tuple[Expr, ...]:
        """Several expressions."""
        return tuple(map(self.expr, found))

    def body(self, found: Iterable[Stmt]) -> list[Stmt]:
        """Statements in order."""
        return [self.stmt(s) for s in found]

    def expr(self, e: Expr) -> Expr:
        """An expression."""
        match e:
            case Var(name=name):
                return Var(self.name(name), mark=e.mark)
            case Access():
                return self.access(e)
            case Length(array=array, axis=axis):
                return Length(self.name(array), axis, mark=e.mark)
            case Unary(op=op, operand=x):
                return Unary(op, self.expr(x), mark=e.mark)
            case Binary(op=op, left=x, right=y):
                return Binary(op, self.expr(x), self.expr(y), mark=e.mark)
            case Compare(op=op, left=x, right=y):
                return Compare(op, self.expr(x), self.expr(y), mark=e.mark)
            case Logical(op=op, args=args):
                return Logical(op, self.all(args), mark=e.mark)
            case Choice(test=test, then=then, otherwise=otherwise):
                return Choice(*map(self.expr, (test, then, otherwise)), mark=e.mark)
            case Call(name=name, args=args):
                return Call(name, self.all(args), mark=e.mark)
        return e

    def stmt(self, s: Stmt) -> Stmt:
        """A statement."""
        match s:
            case Assign(name=name, value=value):
                return replace(s, name=self.name(name), value=self.expr(value))
            case AssignAll(targets=targets, values=values):
                made = tuple(t for t in self.all(targets) if isinstance(t, Var | Access))
                return replace(s, targets=made, values=self.all(values))
            case Store(at=at, value=value) | Update(at=at, value=value):
                return replace(s, at=self.access(at), value=self.expr(value))
            case Allocate(name=name, shape=shape):
                return replace(s, name=self.name(name), shape=self.all(shape))
            case For():
                return replace(
                    s,
                    axis=self.name(s.axis),
                    start=self.expr(s.start),
                    stop=self.expr(s.stop),
                    step=s.step and self.expr(s.step),
                    body=self.body(s.body),
                )
            case While(test=test, body=body):
                return replace(s, test=self.expr(test), body=self.body(body))
            case If():
                sides = self.body(s.body), self.body(s.otherwise)
                return replace(s, test=self.expr(s.test), body=sides[0], otherwise=sides[1])
            case Return(values=values):
                return replace(s, values=self.all(values))
            case Invoke(args=args):
                return replace(s, args=self.all(args))
        return s


class Renamed(Rewriter):
    """Variables under other names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def name(self, name: str) -> str:
        return self.names.get(name, name)


class Filled(Rewriter):
    """Expressions in place of variables."""

    def __init__(self, given: Mapping[str, Expr]) -> None:
        self.given = given

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Var) and e.name in self.given:
            return self.given[e.name]
        return super().expr(e)


class Restructurer(Rewriter):
    """Copies statements with their expressions unchanged."""

    def expr(self, e: Expr) -> Expr:
        return e

    def access(self, at: Access) -> Access:
        return at


class _Bare(Restructurer):
    def body(self, found: Iterable[Stmt]) -> list[Stmt]:
        return super().body(s for s in found if not isinstance(s, Comment))


def bare(function: Function) -> Function:
    """A function without comments."""
    return replace(function, body=_Bare().body(function.body))


def numbered(names: Collection[str], number: int) -> Renamed:
    """Renames the variables of one of several iterations: each gets a number as a suffix."""
    return Renamed({name: f"{name}.{number}" for name in names})
