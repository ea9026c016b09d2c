"""Where the variables of a function are declared: C has blocks, and the loop IR, like Python, has none.

A variable that is used only in one block, where a plain assignment comes first, is declared there. All others
are declared at the beginning of the function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.nodes import Allocate, Assign, Expr, For, Function, If, Stmt, While
from adcompiler.loopir.walk import read_by, sets, stores_of, variables

Path = tuple[tuple[int, int], ...]  # blocks from the outermost on, and the statement in each


@dataclass
class Scopes:
    """`there` are the statements that declare a variable, `top` the variables declared at the beginning.
    `plain` are the loops whose variable is theirs alone; `constant` variables are assigned once, and `unread`
    ones are never read. All that are set are `assigned`."""

    there: set[int] = field(default_factory=set)
    top: list[str] = field(default_factory=list)
    plain: set[int] = field(default_factory=set)
    constant: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)


def scopes(function: Function) -> Scopes:
    """The scopes of the variables that a function sets. Its parameters have the scope of the function."""
    uses: dict[str, list[tuple[Path, Stmt, bool]]] = {}
    for path, statement in _walk(function.body, ()):
        for name in _read(statement):
            uses.setdefault(name, []).append((path, statement, False))
        for name in () if isinstance(statement, Allocate) else sets(statement):
            inside = (*path, (id(statement.body), -1)) if isinstance(statement, For) else path
            uses.setdefault(name, []).append((inside, statement, True))
    found = Scopes()
    for name, places in uses.items():
        setting = [(path, s) for path, s, is_set in places if is_set]
        if not setting:
            continue
        found.assigned.add(name)
        if name in function.params:
            continue
        loops = [s for _, s in setting if isinstance(s, For)]
        if len(setting) == len(places) and not loops:
            found.unread.add(name)
            continue
        if len(setting) == 1 and not loops:
            found.constant.add(name)
        if loops and len(loops) == len(setting) and all(_is_inside(p, loops) for p, _, _ in places):
            found.plain |= {id(loop) for loop in loops}
            continue
        first = _declaring(places)
        if first is None:
            found.top.append(name)
        else:
            found.there.add(id(first))
    return found


def _walk(body: Sequence[Stmt], outer: Path) -> Iterator[tuple[Path, Stmt]]:
    """All statements in order, with their places."""
    for k, statement in enumerate(body):
        path = (*outer, (id(body), k))
        yield path, statement
        match statement:
            case For(body=inner) | While(body=inner):
                yield from _walk(inner, path)
            case If(body=inner, otherwise=other):
                yield from _walk(inner, path)
                yield from _walk(other, path)


def _read(statement: Stmt) -> set[str]:
    """The variables that a statement itself reads."""
    found = variables(*(n for n in read_by(statement) if isinstance(n, Expr)))
    return found | variables(*stores_of(statement))


def _is_inside(path: Path, loops: Sequence[For]) -> bool:
    """Whether a place is in the body of one of some loops."""
    bodies = {id(loop.body) for loop in loops}
    return any(block in bodies for block, _ in path)


def _declaring(places: Sequence[tuple[Path, Stmt, bool]]) -> Stmt | None:
    """The assignment that may declare a variable: before all other uses, in a block that contains them."""
    path, statement, is_set = places[0]
    if not is_set or not isinstance(statement, Assign):
        return None  # a statement's reads come before what it sets
    depth, block = len(path) - 1, path[-1][0]
    alike = (p[:depth] == path[:depth] and len(p) > depth and p[depth][0] == block for p, _, _ in places)
    return statement if all(alike) else None
