"""Rewriting of statements and expressions, field by field."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from adcompiler.loopir.nodes import Access, Comment, Expr, Function, Node, Stmt, Var, roles

T = TypeVar("T", bound=Node)


class Rewriter:
    """Copies statements; subclasses replace names, elements, expressions and statements."""

    def name(self, name: str) -> str:
        """The name of a variable or an array."""
        return name

    def access(self, at: Access) -> Access:
        """The replacement of an element that is read or set."""
        return self.copied(at)

    def all(self, found: Iterable[Expr]) -> tuple[Expr, ...]:
        """Several expressions."""
        return tuple(map(self.expr, found))

    def optional(self, e: Expr | None) -> Expr | None:
        """An expression that may be absent."""
        return None if e is None else self.expr(e)

    def body(self, found: Iterable[Stmt]) -> list[Stmt]:
        """Statements in order."""
        return [self.stmt(s) for s in found]

    def expr(self, e: Expr) -> Expr:
        """An expression."""
        return self.access(e) if isinstance(e, Access) else self.copied(e)

    def stmt(self, s: Stmt) -> Stmt:
        """A statement."""
        return self.copied(s)

    def copied(self, node: T) -> T:
        """A node whose fields are copied by their roles."""
        made: Any = type(node)
        values = [
            getattr(self, role)(getattr(node, name)) if role else getattr(node, name)
            for name, role in roles(made)
        ]
        copy: T = made(*values, mark=getattr(node, "mark", 0))
        return copy


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
