"""Statements and calls of definitions, from the syntax tree to values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adcompiler.errors import LimitError, ParseError, Span
from adcompiler.syntax import tree
from adcompiler.syntax.containers import Container
from adcompiler.syntax.expressions import Expressions
from adcompiler.syntax.values import AnyValue, Closure, Value, describe

CALL_DEPTH = 100
MOST_CALLS = 10_000


class _Returned(Exception):  # noqa: N818 (control flow, no error)
    """A `return` was reached; carries its value."""


class Lowering(Expressions):
    """Lowers the body of a definition; `scope` holds the names that are visible."""

    calls = 0  # how deep calls nest now
    total = 0  # how many there were

    # -- statements ----------------------------------------------------------------------------

    def block(self, statements: Sequence[tree.Statement], scope: dict[str, AnyValue]) -> None:
        """Run statements; `_Returned` ends them early."""
        for statement in statements:
            match statement:
                case tree.Assign():
                    value = self.expression(statement.value, scope)
                    for target in statement.targets:
                        self.assign(target, value, scope)
                case tree.Augmented():
                    left = self.expression(statement.target, scope)
                    right = self.expression(statement.value, scope)
                    value = self.elementwise(
                        self.operator(statement.op, statement.span), (left, right), statement.span
                    )
                    self.assign(statement.target, value, scope)
                case tree.Return():
                    raise _Returned(self.expression(statement.value, scope))
                case tree.Def():
                    assert self.source is not None
                    scope[statement.name] = Closure(statement, scope, self.source)
                case tree.If():
                    self.branch(statement, scope)
                case tree.For() if not isinstance(statement.iterable, tree.Call):
                    self.loop(statement, scope)
                case tree.Bare(value=tree.Text()):
                    continue
                case tree.Bare():
                    self.fail(
                        ParseError,
                        "an expression alone does nothing",
                        statement.span,
                        "assign it to a name or return it",
                    )
                case _:
                    self.unsupported(statement)

    def branch(self, statement: tree.If, scope: dict[str, AnyValue]) -> None:
        """`if` on a condition known while compiling takes its branch."""
        test = self.expression(statement.test, scope)
        if isinstance(test, Value):
            self.fail(
                ParseError,
                "an `if` statement needs a condition that is known while compiling",
                statement.test.span,
                "write `a if condition else b` or where(condition, a, b)",
            )
        self.block(statement.body if test else statement.otherwise, scope)

    def loop(self, statement: tree.For, scope: dict[str, AnyValue]) -> None:
        """`for` over a tuple or a list: its body is lowered once for each part."""
        value = self.expression(statement.iterable, scope)
        if isinstance(value, Container) and value.sequence:
            value = value.parts
        if not isinstance(value, tuple):
            self.fail(
                ParseError,
                f"a loop runs over a tuple or a list, not {describe(value)}",
                statement.iterable.span,
                "a container's parts are known while compiling",
            )
        for part in value:
            self.assign(statement.target, part, scope)
            self.block(statement.body, scope)

    def assign(self, target: tree.Expression, value: AnyValue, scope: dict[str, AnyValue]) -> None:
        """Bind a name, or each name of a tuple."""
        match target:
            case tree.Name(id=name):
                scope[name] = self.bind(name, value, target.span)
            case tree.Sequence(items=items):
                if isinstance(value, Container) and value.sequence:
                    value = value.parts
                if not isinstance(value, tuple):
                    self.fail(
                        ParseError, f"cannot unpack {describe(value)}", target.span, "assign it to one name"
                    )
                if len(items) != len(value):
                    self.fail(
                        ParseError,
                        f"{len(value)} values for {len(items)} names",
                        target.span,
                        f"write {len(value)} names",
                    )
                for item, part in zip(items, value, strict=True):
                    self.assign(item, part, scope)
            case _:
                self.unsupported(target)

    # -- calls of defs -------------------------------------------------------------------------

    def call(self, closure: Closure, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        """The value of a definition's body on these arguments."""
        scope = {**closure.scope, **self.arguments(closure.definition, args, keywords, span)}
        self.total += 1
        if self.total > MOST_CALLS:
            self.fail(
                LimitError, f"more than {MOST_CALLS} calls", span, "each call is written out: call less"
            )
        if self.calls >= CALL_DEPTH:
            self.fail(
                LimitError, f"calls nest deeper than {CALL_DEPTH}", span, "recursion must end while compiling"
            )
        caller, self.source = self.source, closure.source
        self.calls += 1
        try:
            self.block(closure.definition.body, scope)
        except _Returned as returned:
            return returned.args[0]
        finally:
            self.calls -= 1
            self.source = caller
        raise ParseError(
            f"{closure.definition.name} ends without a return", remedy="return one value or more",
            source=closure.source, span=closure.definition.span,
        )  # fmt: skip

    def arguments(
        self, definition: tree.Def, args: list[Any], keywords: dict[str, Any], span: Span
    ) -> dict[str, Any]:
        """Arguments by parameter name."""
        names = [p.name for p in definition.parameters]
        bound = dict(zip(names, args, strict=False))
        unknown = [k for k in keywords if k not in names or k in bound]
        missing = [n for n in names if n not in bound and n not in keywords]
        if len(args) > len(names) or unknown or missing:
            self.fail(
                ParseError,
                f"{definition.name} takes ({', '.join(names)})",
                span,
                f"missing: {', '.join(missing)}" if missing else "drop what it does not take",
            )
        return bound | keywords
