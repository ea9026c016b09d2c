"""`break`, `continue` and `return` in loops, rewritten to flags and conditions before the loop is lowered.

A statement that leaves an iteration sets a flag, and the statements after it run unless the flag is set. The
names that they assign keep their values by the same masks as in any branch, so derivatives of any order are
those of the iterations that ran. A loop with a `break` also ends when its flag is set. A `return` stores the
returned value and breaks; the code after the loop returns that value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from adcompiler.errors import Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import (
    Loop,
    LoopT,
    break_flag,
    ends,
    is_unending,
    leaves,
    returns,
)
from adcompiler.frontend.values.values import RESULT, AnyValue
from adcompiler.lazy_dataclass import dataclass

RETURNED = "return"  # the name of the flag; no variable can have it, nor RESULT
Block: TypeAlias = tuple[tree.Statement, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exit(tree.If):
    """An `if` that may leave an iteration, or with what runs if it has not been left. Stores inside are made
    under its condition (`masked_stores.py`)."""


def unless(flag: str, statements: Block) -> Block:
    """Statements that run unless a flag is set."""
    return tuple(Exit(s.span, tree.Name(s.span, flag), (), statements) for s in statements[:1])


def without_returns(loop: LoopT) -> LoopT:
    """A loop with each `return` replaced by assignments of the returned value and its flag, and a `break`."""
    return replace(loop, body=_breaking(loop.body)) if returns(loop.body) else loop


def _breaking(statements: Sequence[tree.Statement]) -> Block:
    found = list[tree.Statement]()
    for statement in statements:
        span, leave = statement.span, tree.Leave(statement.span, "break")
        match statement:
            case tree.Return(value=value):
                return (*found, _assign(span, RESULT, value), _flag(span, RETURNED, True), leave)
            case tree.If(body=body, otherwise=otherwise):
                found.append(replace(statement, body=_breaking(body), otherwise=_breaking(otherwise)))
            case tree.For() | tree.While() if returns((statement,)):
                found += (without_returns(statement), tree.If(span, tree.Name(span, RETURNED), (leave,), ()))
            case _:
                found.append(statement)
    return tuple(found)


def without_leaves(loop: LoopT) -> tuple[LoopT, str | None]:
    """A loop in which `break` and `continue` set flags, and the flag that ends it."""
    if not leaves(loop.body):
        return loop, None
    broken = break_flag(loop)
    left = broken.replace("break", "continue")
    until = broken if leaves(loop.body, "break") else None
    starts = (_flag(loop.span, name, False) for name in (until, left) if name is not None)
    return replace(loop, body=(*starts, *_flagged(loop.body, left, broken))), until


def _flagged(statements: Block, left: str, broken: str) -> Block:
    """Statements of an iteration, of which those behind a leaving one run unless it has set the flag."""
    for k, statement in enumerate(statements):
        span, before, rest = statement.span, statements[:k], statements[k + 1 :]
        match statement:
            case tree.Leave(word=word):
                return (*before, *(_flag(span, n, True) for n in (broken, left)[word == "continue" :]))
            case tree.If(test=test, body=body, otherwise=otherwise) if leaves((statement,)):
                if ends(body):  # the rest belongs to the other branch
                    otherwise, rest = (*otherwise, *rest), ()
                elif ends(otherwise):
                    body, rest = (*body, *rest), ()
                body, otherwise, rest = (_flagged(part, left, broken) for part in (body, otherwise, rest))
                return (*before, Exit(span, test, body, otherwise), *unless(left, rest))
    return statements


def _flag(span: Span, name: str, value: bool) -> tree.Statement:
    return _assign(span, name, tree.Name(span, str(value)))


def _assign(span: Span, name: str, value: tree.Expression) -> tree.Statement:
    return tree.Assign(span, (tree.Name(span, name),), value)


def is_endless(loop: Loop) -> bool:
    """Whether only a `return` leaves a loop."""
    return is_unending(loop) and not leaves(loop.body, "break")


def nothing(value: tree.Expression) -> AnyValue:
    """The narrowest value with the nesting of an expression; it widens to the returned value."""
    if isinstance(value, tree.Sequence) and value.kind == "tuple":
        return tuple(map(nothing, value.items))
    return False
