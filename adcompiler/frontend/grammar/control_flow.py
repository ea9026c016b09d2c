"""Effects of statements on names: the names a block assigns, and their values after a branch or loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from adcompiler.frontend.grammar import tree
from adcompiler.ir.walk import postorder

Loop: TypeAlias = tree.For | tree.While
LoopT = TypeVar("LoopT", bound=Loop)


def exits(statements: Sequence[tree.Statement], loops: bool) -> Iterator[tree.Return | tree.Leave]:
    """The statements that leave a loop or definition, in order; those inside further loops too, if `loops`.
    Nested defs have their own."""
    work = list(reversed(statements))
    while work:
        statement = work.pop()
        match statement:
            case tree.Return() | tree.Leave():
                yield statement
            case tree.If(body=body, otherwise=otherwise):
                work.extend(reversed(body + otherwise))
            case tree.For(body=body) | tree.While(body=body) if loops:
                work.extend(reversed(body))


def returned(statements: Sequence[tree.Statement]) -> Iterator[tree.Expression]:
    """The values of the `return` statements, in order."""
    return (s.value for s in exits(statements, loops=True) if isinstance(s, tree.Return))


def returns(statements: Sequence[tree.Statement]) -> bool:
    """Whether statements contain a `return`."""
    return any(True for _ in returned(statements))


def outside(statements: Sequence[tree.Statement]) -> tree.Leave | None:
    """The first `break` or `continue` outside all loops among the statements."""
    return next((s for s in exits(statements, loops=False) if isinstance(s, tree.Leave)), None)


def leaves(statements: Sequence[tree.Statement], word: str | None = None) -> bool:
    """Whether statements may leave the enclosing loop: by `break` or `continue`, or only by `word`."""
    found = (s.word for s in exits(statements, loops=False) if isinstance(s, tree.Leave))
    return any(word in (None, w) for w in found)


def is_unending(loop: Loop) -> bool:
    """Whether the condition of a loop always holds: `while True`."""
    match loop:
        case tree.While(test=tree.Name(id="True")) | tree.While(test=tree.Number(value=1)):
            return True
    return False


def break_flag(loop: Loop) -> str:
    """The name of the flag that a `break` of a loop sets; no variable can have it."""
    return f"break:{loop.span.line}:{loop.span.column}"


def with_else(loop: Loop, otherwise: tuple[tree.Statement, ...]) -> tree.If:
    """A loop with an `else`, which runs unless a `break` left the loop."""
    span, flag = loop.span, break_flag(loop)
    before = tree.Assign(span, (tree.Name(span, flag),), tree.Name(span, "False"))
    breaks = leaves(loop.body, "break")
    end = tree.If(span, tree.Name(span, flag), (), otherwise)
    body = (before, loop, end) if breaks else (loop, *otherwise)
    return tree.If(span, tree.Name(span, "True"), body, ())


def ends(statements: Sequence[tree.Statement]) -> bool:
    """Whether every path through a block ends in `break` or `continue`."""
    match statements:
        case (*_, tree.Leave()):
            return True
        case (*_, tree.If(body=body, otherwise=otherwise)):
            return ends(body) and ends(otherwise)
    return False


def appended(statement: tree.Statement) -> str | None:
    """The name of the list in `name.append(...)`."""
    match statement:
        case tree.Bare(value=tree.Call(function=tree.Attribute(value=tree.Name(id=name), name="append"))):
            return name
    return None


def appends(statements: Sequence[tree.Statement]) -> list[str]:
    """The names of the lists that statements append to, in order."""
    nodes = postorder(list[tree.Tree](statements), tree.children)
    found = [appended(n) for n in nodes if isinstance(n, tree.Bare)]
    return list(dict.fromkeys(name for name in found if name is not None))


def last_appends(block: Sequence[tree.Statement]) -> list[tree.Call]:
    """The calls of `append` that end a block, one per branch; none if any branch has none."""
    match block:
        case (*_, tree.If(body=body, otherwise=otherwise)):
            one, other = last_appends(body), last_appends(otherwise)
            return one + other if one and other else []
        case (*_, tree.Bare(value=tree.Call(arguments=(_,), keywords=()) as call) as last) if appended(last):
            return [call]
    return []


def naming(block: Sequence[tree.Statement], element: str) -> tuple[tree.Statement, ...]:
    """A block that assigns the value it appends last to a name instead."""
    *before, last = block
    if isinstance(last, tree.If):
        return *before, replace(
            last, body=naming(last.body, element), otherwise=naming(last.otherwise, element)
        )
    (call,) = last_appends((last,))
    return *before, tree.Assign(last.span, (tree.Name(call.span, element),), call.arguments[0])


def assigned(statements: Sequence[tree.Statement], lists: bool = True, stores: bool = True) -> list[str]:
    """The names that statements bind, in order. With `stores`, `x[i] = v` binds x; with `lists`,
    `x.append(v)` does."""
    skipped = ("append",) * (not lists) + ("store",) * (not stores)
    return list(dict.fromkeys(name for kind, name in effects(statements) if kind not in skipped))


def effects(statements: Sequence[tree.Statement]) -> Iterator[tuple[str, str]]:
    """What statements do to which name, in order: `bind`, `update` (`x += v`), `store` or `append`."""
    work = list(reversed(statements))
    while work:
        statement = work.pop()
        match statement:
            case tree.Assign(targets=targets):
                yield from _effects(targets, "bind")
            case tree.Augmented(target=target):
                yield from _effects((target,), "update")
            case tree.Def(name=name):
                yield "bind", name
            case tree.Bare() if (grown := appended(statement)) is not None:
                yield "append", grown
            case tree.If(body=body, otherwise=otherwise):
                work.extend(reversed(body + otherwise))
            case tree.For(target=target, body=body):
                yield from _effects((target,), "bind")
                work.extend(reversed(body))
            case tree.While(body=body):
                work.extend(reversed(body))


def _effects(targets: Iterable[tree.Expression], kind: str) -> Iterator[tuple[str, str]]:
    work = [(target, kind) for target in targets][::-1]
    while work:
        target, how = work.pop()
        match target:
            case tree.Name(id=name):
                yield how, name
            case tree.Subscript(value=value):
                work.append((value, "store"))
            case tree.Sequence(items=items):
                work.extend((item, how) for item in reversed(items))
