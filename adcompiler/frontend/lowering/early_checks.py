"""Errors that occur for all arguments, found before the first call: names, attributes, arguments that a
function does not take, strings as operands.

A walk over the statements with the names that are known so far, most of them with unknown values. Arguments
are bound to the signatures of functions, and what is known at compile time is computed as in a call, by the
same functions, so errors have the same messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from adcompiler.errors import DtypeError, Error, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import Loop, appended, assigned, returns
from adcompiler.frontend.indexing.annotations import declared
from adcompiler.frontend.indexing.dimensions import CONSTANTS as OF_TEXT
from adcompiler.frontend.indexing.dimensions import names_in
from adcompiler.frontend.indexing.iterables import ITERATE, called, spanned, unpacked
from adcompiler.frontend.indexing.subscripts import not_an_index, subscript
from adcompiler.frontend.library.builtins import BUILTINS, ELEMENTWISE, FUNCTIONALS, METHODS, joins
from adcompiler.frontend.library.functionals import is_partial
from adcompiler.frontend.lowering.expressions import (
    STEPS,
    Scope,
    Steps,
    attribute,
    boolean,
    callee,
    compare,
    evaluated,
    indices,
    joined,
    operated,
    operator,
    passed,
    refuse_call,
    run,
    unsupported,
)
from adcompiler.frontend.lowering.program import no_result, result_span
from adcompiler.frontend.lowering.statements import (
    arguments,
    defined,
    is_print,
    never_returns,
    refuse_alone,
    seen,
    stored_name,
)
from adcompiler.frontend.values.builtin_arguments import BoundError
from adcompiler.frontend.values.operations import NOTHING, Context
from adcompiler.frontend.values.reductions import axes_of
from adcompiler.frontend.values.slices import SliceValue, step_of
from adcompiler.frontend.values.values import (
    AnyValue,
    Closure,
    Frame,
    FunctionValue,
    Unknown,
    Value,
    describe,
    is_number,
)
from adcompiler.ir.nodes import const
from adcompiler.ops.table import TABLE

SCALAR = Value((), const(0.0, "f64"))  # stands for unknown values in messages about attributes


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


class _Checker(Context):
    """Checks the definitions of a source; `called` lists those that were called."""

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.returned: list[AnyValue] = []  # by the definition checked last
        self.called: list[Closure] = []
        self.errors: list[Error] = []
        self.elements = False  # whether the called builtin is elementwise

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
            never_returns(closure)

    def no_result(self, definition: tree.Def) -> None:
        """No call may return a string; definitions may, to each other."""
        texts = [next(_texts(value), None) for value in self.returned]
        if texts and all(text is not None for text in texts):
            no_result(self, texts[-1], result_span(definition))

    # -- statements ----------------------------------------------------------------------------

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect errors raised inside."""
        try:
            yield
        except Error as error:
            self.errors.append(error)

    def block(self, statements: Sequence[tree.Statement], scope: Scope) -> None:
        """Check statements; the names that one with an error assigns are unknown."""
        for statement in statements:
            if isinstance(statement, tree.Raise):
                return
            before, self.frame.scope = len(self.errors), scope
            with self.collected():
                self.statement(statement, scope)
            if len(self.errors) > before:
                scope.update(dict.fromkeys(assigned((statement,)), ANY))

    def statement(self, statement: tree.Statement, scope: Scope) -> None:
        """Check a statement; if the header of a block has an error, its body is checked as well."""
        match statement:
            case tree.Return(value=value):
                self.returned.append(ANY)
                self.returned[-1] = self.expression(value, scope)
            case tree.If():
                self.either(statement, scope)
            case tree.For(iterable=iterable):
                item: AnyValue = ANY
                with self.collected():
                    item = run(self, self.iterated(iterable, scope), scope)
                self.assign(statement.target, item, scope)
                self.once(statement, scope, item)
            case tree.While(test=test):
                with self.collected():
                    self.expression(test, scope)
                self.once(statement, scope)
            case tree.Assign(targets=targets, value=value):
                found = self.expression(value, scope)
                for target in targets:
                    self.assign(target, found, scope)
            case tree.Augmented(target=target, value=value, op=op, span=span):
                left, right = self.expression(target, scope), self.expression(value, scope)
                self.assign(target, self.operated(op, left, right, span), scope)
            case tree.Def():
                scope[statement.name] = defined(self, statement, scope)
            case tree.Bare(value=tree.Call() as call) if is_print(call, scope):
                for argument in call.arguments:
                    self.expression(argument, scope)
            case tree.Bare(value=tree.Call() as call) if (name := appended(statement)) is not None:
                for argument in (tree.Name(call.function.span, name), *call.arguments):
                    self.expression(argument, scope)
                scope[name] = ANY
            case tree.Bare():
                refuse_alone(self, statement)

    def either(self, statement: tree.If, scope: Scope) -> None:
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

    def once(self, statement: Loop, scope: Scope, item: AnyValue = ANY) -> None:
        """Check the body of a loop, in which assigned names are unknown, except its own `item`."""
        names = assigned((statement,))
        scope.update((n, ANY) for n in names if n in scope)
        if isinstance(statement, tree.For):
            self.assign(statement.target, item, scope)
        self.block(statement.body, scope)
        scope.update(dict.fromkeys(names, ANY))

    def assign(self, target: tree.Expression, value: AnyValue, scope: Scope) -> None:
        """Bind a name, or each name of a tuple."""
        match target:
            case tree.Name(id=name):
                scope[name] = value
            case tree.Sequence(items=items):
                known = not isinstance(value, Unknown)
                parts = unpacked(self, value, len(items), target.span) if known else (ANY,) * len(items)
                for item, part in zip(items, parts, strict=True):
                    self.assign(item, part, scope)
            case tree.Subscript():
                place = stored_name(self, target)
                self.expression(place, scope)
                run(self, indices(self, target), scope)
                scope[place.id] = ANY
            case _:
                unsupported(self, target)

    # -- expressions ---------------------------------------------------------------------------

    def expression(self, root: tree.Expression, scope: Scope) -> AnyValue:
        return evaluated(self, CHECKS, root, scope)

    def comprehension(self, node: tree.Comprehension, scope: Scope) -> Steps:
        inner = dict(scope)
        for clause in node.clauses:
            item = yield from self.iterated(clause.iterable, inner)
            inner.update(dict.fromkeys(clause.targets, item if len(clause.targets) == 1 else ANY))
            for condition in clause.conditions:
                yield condition, inner
        yield node.element, inner
        return ANY

    def iterated(self, node: tree.Expression, scope: Scope) -> Steps:
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

    def ranged(self, node: tree.Call, scope: Scope) -> Steps:
        """A number of a range; unknown bounds may be any integers."""
        bounds = []
        for argument in node.arguments:
            value = yield argument, scope
            bounds.append(1 if isinstance(value, Unknown) else value)
        if bounds:
            spanned(self, bounds, node.span)
        return ARRAY

    def subscripted(self, node: tree.Subscript, scope: Scope) -> Steps:
        if (join := joins(node, scope)) is not None:
            return (yield from joined(self, join, node))
        value = yield node.value
        places = yield from indices(self, node)
        if isinstance(value, tuple) and not any(map(_is_unknown, places)):
            return subscript(self, value, places, node.span)
        if is_number(value) or isinstance(value, str):
            return subscript(self, value, [0], node.span)
        for index in places:
            if isinstance(index, float) or (isinstance(index, str) and len(places) > 1):
                not_an_index(self, index, node.span)
            if isinstance(index, SliceValue):
                bounds = (
                    None if isinstance(b, Unknown) else b for b in (index.start, index.stop, index.step)
                )
                step_of(self, SliceValue(*bounds), node.span)
        return ARRAY if value is ARRAY else ANY

    def binary(self, node: tree.Binary, scope: Scope) -> Steps:
        left = yield node.left
        right = yield node.right
        return self.operated(node.op, left, right, node.span)

    def operated(self, symbol: str, left: AnyValue, right: AnyValue, span: Span) -> AnyValue:
        """The value of `left symbol right`."""
        values = left, right
        if not any(isinstance(v, Unknown) for v in values):
            return operated(self, symbol, left, right, span, (False, False))
        if symbol == "@" and any(is_number(v) or isinstance(v, str) for v in values):
            return operated(self, symbol, SCALAR, SCALAR, span, (False, False))
        if symbol == "@" or any(isinstance(v, tuple) for v in values):
            return ANY
        self.elementwise(operator(self, symbol, span), values, span)
        return ARRAY if all(is_number(v) or v is ARRAY for v in values) else ANY

    def elementwise(self, op: str, args: Sequence[AnyValue], span: Span) -> AnyValue:
        if any(isinstance(a, Unknown) for a in args):
            if TABLE[op].orders is not None and not isinstance(args[0], Unknown):
                self.order(op, args[0], span)
            bits = TABLE[op].kind == "integer" and any(isinstance(a, float) for a in args)
            if not bits and all(isinstance(a, Unknown) or is_number(a) for a in args):
                return ARRAY
            args = [SCALAR if isinstance(a, Unknown) else a for a in args]  # another argument is refused
        return super().elementwise(op, args, span)

    def compare(self, node: tree.Compare, scope: Scope) -> Steps:
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
        return (yield from compare(self, node, scope)) if known else ANY

    def boolean(self, node: tree.Boolean, scope: Scope) -> Steps:
        values = []
        for operand in node.operands:
            values.append((yield operand))
        unknown = any(isinstance(v, Unknown) for v in values)
        return ANY if unknown else (yield from boolean(self, node, scope))

    def ternary(self, node: tree.Ternary, scope: Scope) -> Steps:
        test = yield node.test
        if not isinstance(test, Unknown):
            return (yield node.then if test else node.otherwise)
        yield node.then
        yield node.otherwise
        return ANY

    def sequence(self, node: tree.Sequence, scope: Scope) -> Steps:
        items = []
        for item in node.items:
            items.append((yield item))
        return ANY if node.kind == "list" else tuple(items)

    def attribute(self, node: tree.Attribute, scope: Scope) -> Steps:
        """A field of a container may have any name, except Python's dunder names."""
        steps = attribute(self, node, scope)
        try:
            value = yield next(steps)
            private = node.name.startswith("__") and node.name.endswith("__")
            known = node.name in ("T", "mT", "shape", "ndim", "size")
            if isinstance(value, Unknown) and (known or not (value.array or private)):
                return ARRAY if value.array and node.name != "shape" else ANY
            steps.send(SCALAR if isinstance(value, Unknown) else value)
        except StopIteration as done:
            return done.value

    # -- calls ---------------------------------------------------------------------------------

    def call_of(self, node: tree.Call, scope: Scope) -> Steps:
        if is_partial(node, scope) or any(isinstance(a, tree.Starred) for a in node.arguments):
            return ANY
        name = node.function.id if isinstance(node.function, tree.Name) else ""
        unknown = isinstance(scope.get(name), Unknown)
        target = BUILTINS.get(name, ANY) if unknown else callee(self, node, scope)
        if target is None:
            target = yield node.function
            if not isinstance(target, Unknown):
                refuse_call(self, node, target)
        args, keywords = yield from passed(self, node, target, scope)
        return self.invoke(target, args, keywords, node.span)

    def invoke(
        self, function: AnyValue, args: list[Any], keywords: Mapping[str, Any], span: Span
    ) -> AnyValue:
        self.called += [a for a in (function, *args, *keywords.values()) if isinstance(a, Closure)]
        if isinstance(function, Closure):
            arguments(self, function, args, keywords, span)
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


CHECKS = STEPS | {
    tree.Binary: _Checker.binary,
    tree.Compare: _Checker.compare,
    tree.Boolean: _Checker.boolean,
    tree.Ternary: _Checker.ternary,
    tree.Call: _Checker.call_of,
    tree.Attribute: _Checker.attribute,
    tree.Sequence: _Checker.sequence,
    tree.Subscript: _Checker.subscripted,
    tree.Comprehension: _Checker.comprehension,
}


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
