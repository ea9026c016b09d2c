"""`break` and `continue`: the statements after them run under the condition that the iteration has not been
left.

Once it has been left, the names that they assign keep their values, by the same masks as in any branch. So
derivatives of any order are those of the iterations that ran. A loop with a `break` also carries a boolean,
and runs while that is false.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeAlias

from adcompiler.errors import ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import assigned, ends, leaves
from adcompiler.frontend.indexing.masked_stores import Changed, masked, read_anew
from adcompiler.frontend.lowering.expressions import Expressions
from adcompiler.frontend.values.aliases import settle
from adcompiler.frontend.values.rearranging import listed
from adcompiler.frontend.values.values import RESULT, AnyValue, Foreign, Listed, Value, as_array, is_number
from adcompiler.ir.nodes import is_const
from adcompiler.ir.origins import Within
from adcompiler.ops.build import apply, cast

OTHER_BRANCH = "assign it before the if or in both branches, or read it inside the branch"
BROKEN = "break"  # the name of the boolean; no variable can have it
Left: TypeAlias = bool | Value  # whether an iteration has been left
Scope: TypeAlias = dict[str, AnyValue]


class Leaving(Expressions):
    """Lowers the bodies of loops with `break` or `continue`."""

    def block(self, statements: Sequence[tree.Statement], scope: Scope) -> object:
        """Run statements."""
        raise NotImplementedError

    def assign(self, target: tree.Expression, value: AnyValue, scope: Scope) -> None:
        """Bind a name, or each name of a tuple."""
        raise NotImplementedError

    def condition(self, test: tree.Expression, scope: Scope) -> AnyValue:
        """The value of a condition: known at compile time, or a boolean scalar."""
        raise NotImplementedError

    def chosen(self, test: Value, what: str, then: AnyValue, otherwise: AnyValue, span: Span) -> AnyValue:
        """The value of a name after a branch."""
        known = then is not None and otherwise is not None
        grown = any(isinstance(v, Listed) and v.grown for v in (then, otherwise))
        if known and grown and then is not otherwise:
            return self.chosen_list(test, what, then, otherwise, span)
        then, otherwise = as_array(then), as_array(otherwise)
        if then is otherwise:
            return then
        if isinstance(then, tuple) and isinstance(otherwise, tuple) and len(then) == len(otherwise):
            pairs = zip(then, otherwise, strict=True)
            return tuple(self.chosen(test, what, a, b, span) for a, b in pairs)
        if all(isinstance(v, Value) or is_number(v) for v in (then, otherwise)):
            ranks = [v.rank if isinstance(v, Value) else 0 for v in (then, otherwise)]
            if ranks[0] != ranks[1] and what != RESULT:
                cause = f"{what} has rank {ranks[0]} in one branch and {ranks[1]} in the other"
                self.fail(ShapeError, cause, span, "use the same shape everywhere")
            found = self.bind(what, self.where(test, then, otherwise, span), span)
            return self.aliases.either(found, then, otherwise)
        if not known or any(isinstance(v, Foreign) for v in (then, otherwise)):
            return Foreign("assigned in only one branch", OTHER_BRANCH)
        return Foreign("a different kind of value in each branch", "use the same kind in both")

    def chosen_list(
        self, test: Value, what: str, then: AnyValue, otherwise: AnyValue, span: Span
    ) -> AnyValue:
        """A list after a branch that appends to it: both branches must append equally often."""
        if not all(isinstance(v, Listed) for v in (then, otherwise)) or len(then) != len(otherwise):
            cause = f"the length of the list {what} depends on values"
            self.fail(
                ShapeError,
                cause,
                span,
                "append in both branches, 0.0 if there is no value",
            )
        pairs = zip(then, otherwise, strict=True)
        found = listed(self, [self.chosen(test, what, a, b, span) for a, b in pairs], span)
        found.grown = True
        owned: AnyValue = self.aliases.own(found)
        return owned

    def count_branch(self, statement: tree.If) -> None:
        """Refuse excessive code duplication."""
        raise NotImplementedError

    def entered(self, scope: Scope) -> Scope:
        """The scope at the start of an iteration, where the loop has not been left."""
        if BROKEN in scope:
            scope[BROKEN] = False
        return scope

    def iteration(self, statements: Sequence[tree.Statement], scope: Scope) -> Left:
        """Run statements of a loop's body until it is left."""
        for k, statement in enumerate(statements):
            match statement:
                case tree.Leave(word=word):
                    if word == "break":
                        scope[BROKEN] = True
                    return True
                case tree.If() if leaves((statement,)):
                    return self.forked(statement, statements[k + 1 :], scope)
                case _:
                    self.block((statement,), scope)
        return False

    def forked(self, statement: tree.If, rest: Sequence[tree.Statement], scope: Scope) -> Left:
        """An `if` that may leave the iteration, with the statements after it."""
        test = self.condition(statement.test, scope)
        if not isinstance(test, Value):
            chosen = statement.body if test else statement.otherwise
            return self.iteration((*chosen, *rest), scope)
        self.count_branch(statement)
        left, right = statement.body, statement.otherwise
        if ends(left):  # the rest belongs to the other branch
            right, rest = (*right, *rest), ()
        elif ends(right):
            left, rest = (*left, *rest), ()
        then, otherwise, fork = dict(scope), dict(scope), self.aliases.fork()
        names = assigned((statement, *left, *right))
        with self.binders.under(test.element):
            one = self.iteration(left, then)
        fork.end(then, names)
        with self.binders.under(apply("logical_not", test.element)):
            other = self.iteration(right, otherwise)
        fork.end(otherwise, names)
        fork.join()
        self.merge(test, then, otherwise, scope, (statement, *left, *right))
        return self.behind(self.whether(test, one, other, statement.span), rest, scope)

    def behind(self, left: Left, rest: Sequence[tree.Statement], scope: Scope) -> Left:
        """The following statements, if the iteration has not been left."""
        if left is True or not rest:
            return left
        if left is False:
            return self.iteration(rest, scope)
        inner, fork, names = dict(scope), self.aliases.fork(), assigned(rest)
        with self.binders.under(apply("logical_not", left.element)):
            more = self.iteration(rest, inner)
        fork.end(inner, names)
        fork.end(scope, names)
        fork.join()
        self.merge(left, dict(scope), inner, scope, rest)
        return self.whether(left, True, more, rest[0].span)

    def merge(
        self, test: Value, then: Scope, otherwise: Scope, scope: Scope, statements: Sequence[tree.Statement]
    ) -> None:
        """Set the names that statements assign to their values after either branch."""
        names = [n for n in (*assigned(statements), BROKEN) if n in then or n in otherwise]
        span, changed, stores = statements[0].span, Changed(), dict[str, Value | None]()
        for name in names:
            stores[name] = masked(test, then.get(name), otherwise.get(name), changed)
        for name in names:
            store = stores[name]
            if store is None:
                one, other = (read_anew(branch.get(name), changed) for branch in (then, otherwise))
                scope[name] = self.chosen(test, name, one, other, span)
            else:
                bound = self.bind(name, store, span)
                scope[name] = self.aliases.either(bound, then.get(name), otherwise.get(name))

    def whether(self, test: Value, one: Left, other: Left, span: Span) -> Left:
        """`one` if the condition holds, otherwise `other`."""
        if isinstance(one, bool) and one is other:
            return one
        found = self.where(test, one, other, span)
        assert isinstance(found, Value)
        return found

    def unbroken(self, scope: Scope, holds: Callable[[], Value]) -> Value:
        """Whether a loop continues: it has not been left, and its own condition holds."""
        going = apply("logical_not", cast(scope[BROKEN].element, "bool"))
        with self.binders.under(going):
            value = holds()
        always = is_const(value.element, True)
        return Value((), going if always else apply("logical_and", going, value.element))

    def unrolled(
        self, statement: tree.For, items: Sequence[Callable[[Scope], AnyValue]], scope: Scope
    ) -> None:
        """An unrolled loop over a tuple or few iterations: each iteration is lowered within the part of the
        previous one that was not left."""
        outer, scopes = scope.get(BROKEN, False), list[tuple[Value, Scope]]()
        here, names = scope, assigned((statement,))
        here[BROKEN] = False
        within = self.within
        with ExitStack() as under:
            for k, item in enumerate(items):
                self.within = (*within, Within("loop", self.source, self.blame.place(statement.span), k))
                self.assign(statement.target, item(here), here)
                self.iteration(statement.body, here)
                broken = here[BROKEN]
                if isinstance(broken, Value):
                    under.enter_context(self.binders.under(apply("logical_not", broken.element)))
                    settle(here, names)
                    here = {**here, BROKEN: False}
                    scopes.append((broken, here))
                elif broken:
                    break
        self.within = within
        settle(here, names)
        for k, (broken, inner) in reversed(list(enumerate(scopes))):
            before = scopes[k - 1][1] if k else scope
            self.merge(broken, dict(before), inner, before, (statement,))
        scope[BROKEN] = outer
