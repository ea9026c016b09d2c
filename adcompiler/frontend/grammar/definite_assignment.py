"""Names that have a value wherever a loop is left: each path of an iteration to a `break` assigns them.

After a loop that only a `break` leaves, such a name has the value of the last iteration, although no value
before the loop. What an iteration reads before it assigns it is not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import LoopT, assigned, is_unending, leaves
from adcompiler.ir.walk import postorder

Names = frozenset[str]


def leaving(loop: LoopT, otherwise: Sequence[tree.Statement] | None = None) -> LoopT:
    """A loop with the names that have a value after it, `bound`, because only a `break` leaves it: an endless
    one, or one whose `else` assigns them too or does not come to its end."""
    if not leaves(loop.body, "break") or (otherwise is None and not is_unending(loop)):
        return loop
    start = _named((loop.target,)) if isinstance(loop, tree.For) else frozenset()
    walk = _Walk()
    walk.block(loop.body, start)
    bound = frozenset.intersection(*walk.breaks) - walk.early
    if otherwise is not None:
        end = _Walk().block(otherwise, frozenset())
        bound = bound if end is None else bound & end
    return replace(loop, bound=tuple(sorted(bound)))


class _Walk:
    """A walk over the paths of an iteration: the names assigned at each `break`, and those read too early."""

    def __init__(self) -> None:
        self.breaks: list[Names] = []
        self.early: set[str] = set()

    def block(self, statements: Sequence[tree.Statement], known: Names) -> Names | None:
        """The names assigned at the end of a block; None if no path leads there."""
        for statement in statements:
            found = self.statement(statement, known)
            if found is None:
                return None
            known = found
        return known

    def statement(self, statement: tree.Statement, known: Names) -> Names | None:
        match statement:
            case tree.Assign(targets=targets, value=value):
                self.reads((value, *(t for t in targets if isinstance(t, tree.Subscript))), known)
                return known | _named(targets)
            case tree.If(test=tree.Name(id="True"), body=body):
                return self.block(body, known)
            case tree.If(test=test, body=body, otherwise=otherwise):
                self.reads((test,), known)
                ends = [e for e in (self.block(part, known) for part in (body, otherwise)) if e is not None]
                return frozenset.intersection(*ends) if ends else None
            case tree.Leave(word=word):
                self.breaks += [known] * (word == "break")
                return None
            case tree.Return(value=value):
                self.reads((value,), known)
                return None
            case tree.Raise():
                return None
            case tree.Def(name=name):
                self.reads(statement.body, known)
                return known | {name}
        self.reads((statement,), known)
        return known

    def reads(self, nodes: Iterable[tree.Tree], known: Names) -> None:
        """Note the names in expressions, or in statements that may not run, that have no value yet."""
        found = postorder(list(nodes), tree.children)
        self.early |= {n.id for n in found if isinstance(n, tree.Name)} - known


def _named(targets: Iterable[tree.Expression]) -> Names:
    """The names that are targets themselves, or in tuples of targets."""
    span = next(iter(targets)).span
    return frozenset(assigned((tree.Assign(span, tuple(targets), tree.Name(span, "")),), stores=False))
