"""Walks over the loop IR: parts of a statement, and the variables and arrays that it uses and sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, cast

from adcompiler.loopir.nodes import (
    Access,
    Allocate,
    Assign,
    AssignAll,
    Expr,
    For,
    Length,
    Node,
    Stmt,
    Store,
    Update,
    Var,
    While,
    reader,
)


def walk(*roots: Node) -> list[Node]:
    """Nodes and their descendants, breadth first."""
    nodes, kind = [*roots], cast("Any", type)
    for node in nodes:
        nodes += reader(kind(node))(node)
    return nodes


def statements(body: Iterable[Stmt]) -> list[Stmt]:
    """Statements and those inside them."""
    found = [*body]
    for statement in found:
        found += [p for p in statement.parts if isinstance(p, Stmt)]
    return found


def in_order(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Statements in the order in which they run, those inside after what they stand in."""
    for s in body:
        yield s
        yield from in_order([p for p in s.parts if isinstance(p, Stmt)])


def stores_of(statement: Stmt) -> tuple[Access, ...]:
    """The elements that a statement itself sets."""
    match statement:
        case Store(at=at) | Update(at=at):
            return (at,)
        case AssignAll(targets=targets):
            return tuple(t for t in targets if isinstance(t, Access))
    return ()


def read_by(statement: Stmt) -> list[Node]:
    """The expressions that a statement itself evaluates, without nested statements; of a store, also the
    indices."""
    match statement:
        case Store(at=at, value=value) | Update(at=at, value=value):
            return walk(*at.indices, value)
        case AssignAll(targets=targets, values=values):
            return walk(*(p for t in targets for p in t.parts), *values)
    return walk(*(p for p in statement.parts if not isinstance(p, Stmt)))


def accesses(*body: Stmt) -> Iterator[tuple[Access, bool]]:
    """The elements that statements read or set, and whether they are set."""
    for statement in statements(body):
        yield from ((at, True) for at in stores_of(statement))
        yield from ((n, False) for n in read_by(statement) if isinstance(n, Access))


def sets(statement: Stmt) -> tuple[str, ...]:
    """The variables that a statement itself sets."""
    match statement:
        case Assign(name=name) | Allocate(name=name) | For(axis=name):
            return (name,)
        case AssignAll(targets=targets):
            return tuple(t.name for t in targets if isinstance(t, Var))
    return ()


def assigned(*body: Stmt) -> Counter[str]:
    """The number of assignments to each variable in statements."""
    return Counter(name for s in statements(body) for name in sets(s))


def read_names(statement: Stmt) -> list[str]:
    """The variables and arrays that a statement itself uses."""
    return [name for n in (*stores_of(statement), *read_by(statement)) if (name := named(n))]


def reads(*body: Stmt) -> Counter[str]:
    """The number of reads of each variable, and of uses of each array, in statements."""
    return Counter(name for s in statements(body) for name in read_names(s))


def names(*body: Stmt) -> Counter[str]:
    """The number of uses of each variable and array."""
    return reads(*body) + assigned(*body)


def variables(*roots: Expr) -> set[str]:
    """The variables and arrays that expressions use."""
    return {name for n in walk(*roots) if (name := named(n))}


def mentions(wanted: Collection[str], *roots: Expr) -> bool:
    """Whether expressions use any of some variables or arrays."""
    return any(named(n) in wanted for n in walk(*roots))


def is_of_program(statement: Stmt) -> bool:
    """Whether a statement of a kernel is a loop of the program."""
    return isinstance(statement, While) or (isinstance(statement, For) and statement.kind == "program")


def named(node: Node) -> str:
    """The variable or the array that an expression is or indexes."""
    match node:
        case Var(name=name) | Access(array=name) | Length(array=name):
            return name
    return ""
