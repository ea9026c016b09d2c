"""Errors that occur for all arguments, found before the first call: names, attributes, arguments that a
function does not take, strings as operands.

This runs the lowering on unknown values. Steps that need known values are skipped; errors are raised by the
same code, with the same messages, as in a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from adcompiler.errors import DtypeError, Error, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import assigned, returns
from adcompiler.frontend.indexing.annotations import declared
from adcompiler.frontend.indexing.dimensions import CONSTANTS as OF_TEXT
from adcompiler.frontend.indexing.dimensions import names_in
from adcompiler.frontend.indexing.iterables import ITERATE, called, spanned
from adcompiler.frontend.indexing.subscripts import not_an_index, subscript
from adcompiler.frontend.library.builtins import BUILTINS, ELEMENTWISE, FUNCTIONALS, METHODS
from adcompiler.frontend.library.functionals import is_partial
from adcompiler.frontend.lowering.expressions import Steps
from adcompiler.frontend.lowering.program import no_result, result_span
from adcompiler.frontend.lowering.statements import Lowering, Returned, seen
from adcompiler.frontend.values.builtin_arguments import BoundError
from adcompiler.frontend.values.operations import NOTHING
from adcompiler.frontend.values.reductions import axes_of
from adcompiler.frontend.values.slices import SliceValue, step_of
from adcompiler.frontend.values.values import (
    AnyValue,
    Closure,
    Frame,
    FunctionValue,
    Value,
    describe,
    is_number,
)
from adcompiler.ir.nodes import const
from adcompiler.ops.table import TABLE

SCALAR = Value((), const(0.0, "f64"))  # stands for unknown values in messages about attributes


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown value, or (an `array`) an unknown number or array."""

    array: bool = False


ANY, ARRAY = Unknown(), Unknown(array=True)


def check(closure: Closure) -> None:
    """Raise the errors that a call of a definition raises for all arguments, as one error."""
    if found := mistakes(closure):
        raise Error.together(found)


def mistakes(closure: Closure, found: Sequence[Error] = ()) -> list[Error]:
    """The errors of a definition, and of those that it calls, for all arguments, after those already
    `found`."""
    checker = _Checker(closure.source)
    checker.errors += found
    work, seen = [closure], {closure.definition}
    while work:
        here = work.pop()
        with checker.collected():
            checker.definition(here)
            if here is closure:
                checker.no_result(here.definition)
        for other in checker.called:
            if other.definition not in seen:
                seen.add(other.definition)
                work.append(other)
        checker.called.clear()
    return checker.errors


class _Checker(Lowering):
    """Lowers nothing; `called` lists the definitions that were called."""

    def definition(self, closure: Closure) -> None:
        """Check the body of a definition on unknown arguments."""
        self.source = closure.source
        definition = closure.definition
        self.body = (*definition.parameters, *definition.body)
        given = {p.name: ARRAY if declared(p) else ANY for p in definition.parameters}
        names = [n for p in definition.parameters for n in names_in(p.annotation)]
        given |= {n: ARRAY for n in names if n not in closure.scope.get(OF_TEXT, ())}
        self.returned.clear()
        scope = {**seen(closure), **given}
        self.frame = Frame(scope)
        self.block(definition.body, scope)
        if not (returns(definition.body) or self.errors):
            self.never_returns(closure)

    def no_result(self, definition: tree.Def) -> None:
        """No call may return a string; definitions may, to each other."""
        texts = [next(_texts(value), None) for value in self.returned]
        if texts and all(text is not None for text in texts):
            no_result(self, texts[-1], result_span(definition))

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.returned: list[AnyValue] = []  # by the definition checked last
        self.called: list[Closure] = []
        self.errors: list[Error] = []
        self.elements = False  # whether the called builtin is elementwise

    # -- statements ----------------------------------------------------------------------------

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect errors raised inside."""
        try:
            yield
        except Error as error:
            self.errors.append(error)

    def block(self, statements: Sequence[tree.Statement], scope: dict[str, AnyValue]) -> Returned | None:
        for statement in statements:
            if isinstance(statement, tree.Raise):
                return None
            before = len(self.errors)
            with self.collected():
                self.one(statement, scope)
            if len(self.errors) > before:
                scope.update(dict.fromkeys(assigned((statement,)), ANY))
        return None

    def one(self, statement: tree.Statement, scope: dict[str, AnyValue]) -> None:
        """Check a statement; if the header of a block has an error, its body is checked as well."""
        match statement:
            case tree.Return():
                self.returned.append(ANY)
                self.returned[-1] = self.expression(statement.value, scope)
            case tree.If():
                self.either(statement, scope)
            case tree.For():
                item: AnyValue = ANY
                with self.collected():
                    item = self.run(self.iterated(statement.iterable, scope), scope)
                self.assign(statement.target, item, scope)
                self.once(statement, scope, item)
            case tree.While():
                with self.collected():
                    self.expression(statement.test, scope)
                self.once(statement, scope)
            case tree.Leave():
                pass
            case _:
                self.statement(statement, scope)

    def either(self, statement: tree.If, scope: dict[str, AnyValue]) -> None:
        """Check both branches, unless the condition is a number; assigned names become unknown."""
        test: AnyValue = ANY
        with self.collected():
            test = self.expression(statement.test, scope)
        if not isinstance(test, Unknown):
            self.block(statement.body if test else statement.otherwise, scope)
            return
        for block in (statement.body, statement.otherwise):
            self.block(block, dict(scope))
        scope.update(dict.fromkeys(assigned((statement,)), ANY))

    def once(
        self, statement: tree.For | tree.While, scope: dict[str, AnyValue], item: AnyValue = ANY
    ) -> None:
        """Check the body of a loop, in which assigned names are unknown, except its own `item`."""
        names = assigned((statement,))
        scope.update((n, ANY) for n in names if n in scope)
        if isinstance(statement, tree.For):
            self.assign(statement.target, item, scope)
        self.block(statement.body, scope)
        scope.update(dict.fromkeys(names, ANY))

    def assign(self, target: tree.Expression, value: AnyValue, scope: dict[str, AnyValue]) -> None:
        if isinstance(target, tree.Sequence) and isinstance(value, Unknown):
            for item in target.items:
                self.assign(item, ANY, scope)
        else:
            super().assign(target, value, scope)

    def store(self, target: tree.Subscript, value: AnyValue, scope: dict[str, AnyValue]) -> None:
        if isinstance(target.value, tree.Name):
            self.expression(target.value, scope)
            self.run(self.indices(target), scope)
            scope[target.value.id] = ANY
        else:
            super().store(target, value, scope)

    def append(self, statement: tree.Bare, name: str, scope: dict[str, AnyValue]) -> None:
        assert isinstance(statement.value, tree.Call)
        assert isinstance(statement.value.function, tree.Attribute)
        self.expression(statement.value.function.value, scope)
        for argument in statement.value.arguments:
            self.expression(argument, scope)
        scope[name] = ANY

    def print(self, call: tree.Call, scope: dict[str, AnyValue]) -> None:
        for argument in call.arguments:
            self.expression(argument, scope)

    # -- expressions ---------------------------------------------------------------------------

    def steps(self, node: tree.Expression, scope: dict[str, AnyValue]) -> Steps:
        return (
            self.comprehended(node, scope)
            if isinstance(node, tree.Comprehension)
            else super().steps(node, scope)
        )

    def comprehended(self, node: tree.Comprehension, scope: Mapping[str, AnyValue]) -> Steps:
        inner = dict(scope)
        for clause in node.clauses:
            item = yield from self.iterated(clause.iterable, inner)
            inner.update(dict.fromkeys(clause.targets, item if len(clause.targets) == 1 else ANY))
            for condition in clause.conditions:
                yield condition, inner
        yield node.element, inner
        return ANY

    def iterated(self, node: tree.Expression, scope: dict[str, AnyValue]) -> Steps:
        """An item of the iterable after `in`."""
        name = called(node, scope)
        if name is None:
            value = yield node, scope
            if isinstance(value, Value) and value.rank:
                return ARRAY
            if not isinstance(value, Unknown | tuple):
                self.fail(DtypeError, f"cannot iterate over {describe(value)}", node.span, ITERATE)
            return value if value is ARRAY else ANY
        assert isinstance(node, tree.Call)
        if name == "range":
            return (yield from self.ranged(node, scope))
        for argument in node.arguments:
            yield from self.iterated(argument, scope)
        return ANY

    def ranged(self, node: tree.Call, scope: dict[str, AnyValue]) -> Steps:
        """A number of a range; unknown bounds may be any integers."""
        bounds = []
        for argument in node.arguments:
            value = yield argument, scope
            bounds.append(1 if isinstance(value, Unknown) else value)
        if bounds:
            spanned(self, bounds, node.span)
        return ARRAY

    def subscripted(self, node: tree.Subscript) -> Steps:
        value = yield node.value
        indices = yield from self.indices(node)
        if isinstance(value, tuple) and not any(map(_is_unknown, indices)):
            return subscript(self, value, indices, node.span)
        if is_number(value) or isinstance(value, str):
            return subscript(self, value, [0], node.span)
        for index in indices:
            if isinstance(index, float) or (isinstance(index, str) and len(indices) > 1):
                not_an_index(self, index, node.span)
            if isinstance(index, SliceValue):
                bounds = (
                    None if isinstance(b, Unknown) else b for b in (index.start, index.stop, index.step)
                )
                step_of(self, SliceValue(*bounds), node.span)
        return ARRAY if value is ARRAY else ANY

    def operated(
        self, symbol: str, left: AnyValue, right: AnyValue, span: Span, displays: tuple[bool, bool]
    ) -> AnyValue:
        if not any(isinstance(v, Unknown) for v in (left, right)):
            return super().operated(symbol, left, right, span, displays)
        if symbol == "@" and any(is_number(v) or isinstance(v, str) for v in (left, right)):
            return super().operated(symbol, SCALAR, SCALAR, span, displays)
        if symbol == "@" or any(isinstance(v, tuple) for v in (left, right)):
            return ANY
        self.elementwise(self.operator(symbol, span), (left, right), span)
        return ARRAY if all(is_number(v) or v is ARRAY for v in (left, right)) else ANY

    def elementwise(self, op: str, args: Sequence[AnyValue], span: Span) -> AnyValue:
        if any(isinstance(a, Unknown) for a in args):
            if TABLE[op].orders is not None and not isinstance(args[0], Unknown):
                self.order(op, args[0], span)
            bits = TABLE[op].kind == "integer" and any(isinstance(a, float) for a in args)
            if not bits and all(isinstance(a, Unknown) or is_number(a) for a in args):
                return ARRAY
            args = [SCALAR if isinstance(a, Unknown) else a for a in args]  # another argument is refused
        return super().elementwise(op, args, span)

    def compare(self, node: tree.Compare) -> Steps:
        left = yield node.operands[0]
        known = not isinstance(left, Unknown)
        for symbol, operand in zip(node.ops, node.operands[1:], strict=True):
            right = yield operand
            known = known and not isinstance(right, Unknown)
            if symbol not in ("==", "!=", "in", "not in") and not any(
                isinstance(v, tuple) for v in (left, right)
            ):
                self.elementwise("less", (left, right), node.span)
            left = right
        return (yield from super().compare(node)) if known else ANY

    def boolean(self, node: tree.Boolean) -> Steps:
        values = []
        for operand in node.operands:
            values.append((yield operand))
        unknown = any(isinstance(v, Unknown) for v in values)
        return ANY if unknown else (yield from super().boolean(node))

    def ternary(self, node: tree.Ternary) -> Steps:
        test = yield node.test
        if not isinstance(test, Unknown):
            return (yield node.then if test else node.otherwise)
        yield node.then
        yield node.otherwise
        return ANY

    def sequence(self, node: tree.Sequence) -> Steps:
        items = []
        for item in node.items:
            items.append((yield item))
        return ANY if node.kind == "list" else tuple(items)

    def part(self, value: AnyValue, node: tree.Attribute) -> AnyValue:
        """A field of a container may have any name, except Python's dunder names."""
        private = node.name.startswith("__") and node.name.endswith("__")
        known = node.name in ("T", "shape", "ndim", "size")
        if isinstance(value, Unknown) and (known or not (value.array or private)):
            return ARRAY if value.array and node.name != "shape" else ANY
        return super().part(SCALAR if isinstance(value, Unknown) else value, node)

    def default(self, parameter: tree.Parameter, scope: dict[str, AnyValue]) -> AnyValue:
        assert parameter.default is not None
        value = self.expression(parameter.default, scope)
        return value if isinstance(value, Unknown) else super().default(parameter, scope)

    # -- calls ---------------------------------------------------------------------------------

    def callee(self, node: tree.Call, scope: dict[str, AnyValue]) -> Any:
        if isinstance(node.function, tree.Name) and isinstance(scope.get(node.function.id), Unknown):
            return BUILTINS.get(node.function.id, ANY)
        return super().callee(node, scope)

    def call_of(self, node: tree.Call, scope: dict[str, AnyValue]) -> Steps:
        if is_partial(node, scope) or any(isinstance(a, tree.Starred) for a in node.arguments):
            return ANY
        return (yield from super().call_of(node, scope))

    def is_function(self, target: AnyValue) -> bool:
        return isinstance(target, Unknown) or super().is_function(target)

    def invoke(
        self, function: AnyValue, args: list[Any], keywords: Mapping[str, Any], span: Span
    ) -> AnyValue:
        self.called += [a for a in (function, *args, *keywords.values()) if isinstance(a, Closure)]
        if isinstance(function, Closure):
            self.arguments(function, args, keywords, span)
            return ANY
        target = function.call if isinstance(function, FunctionValue) else function
        given = (*args, *keywords.values())
        if target not in (*BUILTINS.values(), *METHODS.values()) or (
            given and target in FUNCTIONALS.values()
        ):
            return ANY
        self.elements = target in ELEMENTWISE and not any(isinstance(a, tuple) for a in given)
        with suppress(BoundError):
            target(self, args, keywords, span)
        return ANY if any(isinstance(a, tuple) for a in args) else ARRAY

    def bound(self, span: Span, given: Mapping[str, AnyValue] = NOTHING) -> None:
        """Bind the arguments of a builtin; only axes and strings are checked."""
        if not isinstance(given.get("axis", ANY), Unknown):
            axes_of(self, given["axis"], span)
        if not (self.elements or isinstance(next(iter(given.values()), ANY), str)):
            raise BoundError


def _is_unknown(index: AnyValue) -> bool:
    """Whether an index, or a bound of a slice, is unknown."""
    if isinstance(index, SliceValue):
        return any(isinstance(bound, Unknown) for bound in (index.start, index.stop, index.step))
    return isinstance(index, Unknown)


def _texts(value: AnyValue) -> Iterator[str]:
    """The strings in a result."""
    if isinstance(value, str):
        yield value
    for part in value if isinstance(value, tuple) else ():
        yield from _texts(part)
