"""From the syntax tree to the IR, for arguments of given types.

Expressions may be deeper than Python's stack, so each lowering method is a generator: it yields
the subtree it needs and is resumed with that subtree's value. `_run` keeps the stack.
"""

from __future__ import annotations

import difflib
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from adcompiler.errors import LimitError, ParseError, Span
from adcompiler.syntax import tree
from adcompiler.syntax.builtins import BUILTINS, CONSTANTS, PREFIXES
from adcompiler.syntax.context import Context
from adcompiler.syntax.values import AnyValue, Closure, Foreign, Value, describe, is_number

Steps = Generator[tree.Expression, AnyValue, AnyValue]

BINARY = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power", "//": "floor_divide",
    "%": "remainder", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "left_shift",
    ">>": "right_shift",
}  # fmt: skip
COMPARE = {
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal",
    "!=": "not_equal",
}  # fmt: skip
LOGICAL = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}
CALL_DEPTH = 100
# What other languages and libraries call it.
ELSEWHERE = {
    "ln": "the natural logarithm is log",
    "sec": "write 1 / cos(x)",
    "csc": "write 1 / sin(x)",
    "cot": "write 1 / tan(x)",
    "print": "programs have no output but their result",
}


class _Returned(Exception):  # noqa: N818 (control flow, no error)
    """A `return` was reached; carries its value."""


class Lowering(Context):
    """Lowers the body of a definition; `scope` holds the names that are visible."""

    calls = 0

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

    def assign(self, target: tree.Expression, value: AnyValue, scope: dict[str, AnyValue]) -> None:
        """Bind a name, or each name of a tuple."""
        match target:
            case tree.Name(id=name):
                scope[name] = self.bind(name, value, target.span)
            case tree.Sequence(items=items):
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

    def unsupported(self, node: tree.Tree) -> None:
        """Refuse what the grammar knows but lowering does not take."""
        kind = type(node).__name__.lower()
        self.fail(ParseError, f"{kind}: this construct is not supported yet", node.span)

    # -- calls of defs -------------------------------------------------------------------------

    def call(self, closure: Closure, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        """The value of a definition's body on these arguments."""
        scope = {**closure.scope, **self.arguments(closure.definition, args, keywords, span)}
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

    # -- expressions ---------------------------------------------------------------------------

    def expression(self, root: tree.Expression, scope: dict[str, AnyValue]) -> AnyValue:
        """The value of an expression."""
        stack: list[Steps] = [self.steps(root, scope)]
        value: AnyValue = None
        while stack:
            try:
                stack.append(self.steps(stack[-1].send(value), scope))
                value = None
            except StopIteration as done:
                stack.pop()
                value = done.value
        return value

    def steps(self, node: tree.Expression, scope: dict[str, AnyValue]) -> Steps:
        """The generator that lowers one node."""
        match node:
            case tree.Number() | tree.Text():
                return self.literal(node)
            case tree.Name():
                return self.name(node, scope)
            case tree.Unary():
                return self.unary(node)
            case tree.Binary():
                return self.binary(node)
            case tree.Compare():
                return self.compare(node)
            case tree.Boolean():
                return self.boolean(node)
            case tree.Ternary():
                return self.ternary(node)
            case tree.Call():
                return self.call_of(node, scope)
            case tree.Attribute():
                return self.attribute(node, scope)
            case tree.Sequence():
                return self.sequence(node)
        self.unsupported(node)
        raise AssertionError

    def literal(self, node: tree.Number | tree.Text) -> Steps:
        return node.value
        yield node

    def name(self, node: tree.Name, scope: dict[str, AnyValue]) -> Steps:
        if node.id in scope:
            value = scope[node.id]
            if isinstance(value, Foreign):
                self.fail(ParseError, f"{node.id!r} is {value.what}", node.span, value.remedy)
            return value
        if node.id in CONSTANTS:
            return CONSTANTS[node.id]
        remedy = f"{node.id} is a function: call it as {node.id}(...)" if node.id in BUILTINS else None
        self.fail(ParseError, f"unknown name {node.id!r}", node.span, remedy or _similar(node.id, scope))
        yield node

    def unary(self, node: tree.Unary) -> Steps:
        operand = yield node.operand
        match node.op:
            case "+":
                return self.elementwise("multiply", (1, operand), node.span) if _is_bool(operand) else operand
            case "-":
                return self.elementwise("negative", (operand,), node.span)
            case "~":
                op = "logical_not" if _is_bool(operand) else "invert"
                return self.elementwise(op, (operand,), node.span)
        return self.elementwise("logical_not", (operand,), node.span)

    def binary(self, node: tree.Binary) -> Steps:
        left = yield node.left
        right = yield node.right
        op = self.operator(node.op, node.span)
        if op in LOGICAL and _is_bool(left) and _is_bool(right):
            op = LOGICAL[op]
        elif op == "power" and _is_integer(left) and isinstance(right, int) and right < 0:
            right = float(right)
        return self.elementwise(op, (left, right), node.span)

    def operator(self, symbol: str, span: Span) -> str:
        """The primitive of a binary operator."""
        if symbol not in BINARY:
            self.fail(ParseError, f"the operator {symbol} is not supported yet", span)
        return BINARY[symbol]

    def compare(self, node: tree.Compare) -> Steps:
        left = yield node.operands[0]
        result: AnyValue = None
        for symbol, operand in zip(node.ops, node.operands[1:], strict=True):
            right = yield operand
            here = self.elementwise(COMPARE[symbol], (left, right), node.span)
            result = here if result is None else self.elementwise("logical_and", (result, here), node.span)
            left = right
        return result

    def boolean(self, node: tree.Boolean) -> Steps:
        result = yield node.operands[0]
        for operand in node.operands[1:]:
            if is_number(result) and bool(result) == (node.op == "or"):
                return result
            right = yield operand
            if is_number(result):
                result = right
            else:
                result = self.elementwise(f"logical_{node.op}", (result, right), node.span)
        return result

    def ternary(self, node: tree.Ternary) -> Steps:
        test = yield node.test
        if not isinstance(test, Value):
            return (yield node.then if test else node.otherwise)
        then = yield node.then
        otherwise = yield node.otherwise
        if isinstance(then, tuple) and isinstance(otherwise, tuple) and len(then) == len(otherwise):
            return tuple(self.where(test, a, b, node.span) for a, b in zip(then, otherwise, strict=True))
        return self.where(test, then, otherwise, node.span)

    def sequence(self, node: tree.Sequence) -> Steps:
        if node.kind == "list":
            self.unsupported(node)
        items = []
        for item in node.items:
            items.append((yield item))
        return tuple(items)

    def attribute(self, node: tree.Attribute, scope: dict[str, AnyValue]) -> Steps:
        if isinstance(node.value, tree.Name) and node.value.id in PREFIXES and node.value.id not in scope:
            if node.name in CONSTANTS:
                return CONSTANTS[node.name]
            self.fail(
                ParseError, f"unknown name {node.value.id}.{node.name}", node.span, _similar(node.name, {})
            )
        value = yield node.value
        if isinstance(value, Value):
            if node.name == "shape":
                return tuple(Value((), self.sizes.find(n), weak=True) for n in value.shape)
            if node.name == "ndim":
                return value.rank
        self.fail(
            ParseError, f"{describe(value)} has no attribute {node.name!r} in this language", node.span,
            "shape and ndim are the attributes of an array",
        )  # fmt: skip

    def call_of(self, node: tree.Call, scope: dict[str, AnyValue]) -> Steps:
        target = self.callee(node, scope)
        args, keywords = [], {}
        for argument in node.arguments:
            args.append((yield argument))
        for name, argument in node.keywords:
            if name in keywords:
                self.fail(ParseError, f"the argument {name!r} is given twice", node.span)
            keywords[name] = yield argument
        if isinstance(target, Closure):
            return self.call(target, args, keywords, node.span)
        return target(self, args, keywords, node.span)

    def callee(self, node: tree.Call, scope: dict[str, AnyValue]) -> Any:
        """What is called: a def, another compiled function, or a builtin."""
        match node.function:
            case tree.Name(id=name):
                if isinstance(scope.get(name), Closure):
                    return scope[name]
                if isinstance(scope.get(name), Foreign):
                    self.fail(
                        ParseError, f"{name!r} is {scope[name].what}", node.function.span, scope[name].remedy
                    )
                if name in BUILTINS:
                    return BUILTINS[name]
                if name in CONSTANTS:
                    self.fail(
                        ParseError,
                        f"{name} is a number",
                        node.function.span,
                        f"write * to multiply: {name} * (...)",
                    )
                if name in scope:
                    self.fail(
                        ParseError,
                        f"{name!r} is {describe(scope[name])}, not a function",
                        node.function.span,
                        f"write * to multiply: {name} * (...)",
                    )
                self.fail(ParseError, f"unknown function {name!r}", node.function.span, _similar(name, scope))
            case tree.Attribute(value=tree.Name(id=prefix), name=name) if (
                prefix in PREFIXES and prefix not in scope
            ):
                if name in BUILTINS:
                    return BUILTINS[name]
                self.fail(
                    ParseError, f"unknown function {prefix}.{name}", node.function.span, _similar(name, {})
                )
            case tree.Attribute(name=name):
                remedy = (
                    f"write {name}(x) instead of x.{name}()"
                    if name in BUILTINS
                    else "call a function by its name"
                )
                self.fail(
                    ParseError,
                    f"methods such as .{name}() are not part of the language",
                    node.function.span,
                    remedy,
                )
        self.fail(ParseError, "only a function's name can be called", node.function.span)


def _similar(name: str, scope: Mapping[str, Any]) -> str | None:
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    known = [n for n in (*scope, *BUILTINS, *CONSTANTS) if len(n) > 1]
    close_names = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    return f"did you mean {' or '.join(close_names)}?" if close_names else None


def _is_bool(value: AnyValue) -> bool:
    return value.dtype == "bool" if isinstance(value, Value) else isinstance(value, bool)


def _is_integer(value: AnyValue) -> bool:
    return value.dtype in ("bool", "i64") if isinstance(value, Value) else isinstance(value, int)
