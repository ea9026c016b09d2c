"""`return` in a loop: the loop stores the returned value and is left; the code after it returns that value.

Its derivatives are therefore those of a loop with a `break`: of the iterations that ran, in both modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from adcompiler.errors import ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import leaves, returns
from adcompiler.frontend.lowering.break_continue import Leaving
from adcompiler.frontend.values.values import RESULT, AnyValue, Value

RETURNED = "return"  # the name of the boolean; no variable can have it, nor RESULT
Loop: TypeAlias = tree.For | tree.While


class Returning(Leaving):
    """Lowers loops that may return."""

    def entering(self, loop: Loop, scope: dict[str, AnyValue]) -> Any:
        """A loop rewritten to be left where it returns. Its result may widen to any type."""
        if not returns(loop.body):
            return loop
        scope |= {RETURNED: False, RESULT: _nothing(_first(loop.body))}
        self.returned = []
        return replace(loop, body=_left(loop.body))

    def note(self, value: AnyValue) -> None:
        """Record the rank of a loop's result; a number stands for it until the rank is known."""
        self.returned.append(_ranks(value))

    def following(self, loop: Loop) -> list[tree.Statement]:
        """The statements after such a loop, which return if the loop did."""
        ranks, self.returned = self.returned, []
        if len({*ranks}) > 1:
            cause = "the values returned by a loop have different ranks"
            self.fail(ShapeError, cause, loop.span, "use the same shape everywhere")
        span = loop.span
        given = tree.Return(span, tree.Name(span, RESULT))
        endless = isinstance(loop, tree.While) and isinstance(loop.test, tree.Name) and loop.test.id == "True"
        if endless and not leaves(loop.body, "break"):
            return [given]
        if not ranks:  # conditions known at compile time skip every return
            return []
        return [tree.If(span, tree.Name(span, RETURNED), (given,), ())]


def _ranks(value: AnyValue) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_ranks, value))
    return value.rank if isinstance(value, Value) else 0


def _left(statements: Sequence[tree.Statement]) -> tuple[tree.Statement, ...]:
    """Statements of a loop with each `return` replaced by a `break`."""
    found = list[tree.Statement]()
    for statement in statements:
        match statement:
            case tree.Return(span=span, value=value):
                return (*found, *_noted(span, value), tree.Leave(span, "break"))
            case tree.If(body=body, otherwise=otherwise):
                found.append(replace(statement, body=_left(body), otherwise=_left(otherwise)))
            case tree.For(body=body) | tree.While(body=body) if returns((statement,)):
                span = statement.span
                leave = tree.If(span, tree.Name(span, RETURNED), (tree.Leave(span, "break"),), ())
                found += (replace(statement, body=_left(body)), leave)
            case _:
                found.append(statement)
    return tuple(found)


def _noted(span: Span, value: tree.Expression) -> tuple[tree.Statement, ...]:
    """Assignments of the returned value and the flag."""
    pairs = ((RESULT, value), (RETURNED, tree.Name(span, "True")))
    return tuple(tree.Assign(span, (tree.Name(span, name),), given) for name, given in pairs)


def _first(statements: Sequence[tree.Statement]) -> tree.Expression:
    """The first returned expression among statements that return somewhere."""
    work = list(reversed(statements))
    while True:
        match work.pop():
            case tree.Return(value=value):
                return value
            case tree.If(body=body, otherwise=otherwise):
                work += reversed((*body, *otherwise))
            case tree.For(body=body) | tree.While(body=body):
                work += reversed(body)


def _nothing(value: tree.Expression) -> AnyValue:
    """The narrowest value with the nesting of the expression; it widens to the returned value."""
    if isinstance(value, tree.Sequence) and value.kind == "tuple":
        return tuple(map(_nothing, value.items))
    return False
