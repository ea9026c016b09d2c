"""Expressions, from the syntax tree to values.

Expressions may be deeper than Python's stack, so each lowering method is a generator: it yields
the subtree it needs and is resumed with that subtree's value. `expression` keeps the stack.
"""

from __future__ import annotations

import difflib
from collections.abc import Generator, Mapping
from typing import Any, NoReturn

from adcompiler.errors import ParseError, Span
from adcompiler.syntax import tree
from adcompiler.syntax.builtins import BUILTINS, CONSTANTS, PREFIXES
from adcompiler.syntax.containers import Container
from adcompiler.syntax.context import Context
from adcompiler.syntax.shapes import matmul, transpose
from adcompiler.syntax.subscripts import SliceValue, subscript
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
# What other languages and libraries call it.
ELSEWHERE = {
    "ln": "the natural logarithm is log",
    "sec": "write 1 / cos(x)",
    "csc": "write 1 / sin(x)",
    "cot": "write 1 / tan(x)",
    "print": "programs have no output but their result",
}


class Expressions(Context):
    """Lowers expressions; `scope` holds the names that are visible."""

    def call(self, closure: Closure, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        """The value of a definition's body on these arguments."""
        raise NotImplementedError

    def unsupported(self, node: tree.Tree) -> NoReturn:
        """Refuse what the grammar knows but lowering does not take."""
        kind = type(node).__name__.lower()
        self.fail(ParseError, f"{kind}: this construct is not supported yet", node.span)

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
            case tree.Subscript():
                return self.subscripted(node)
        self.unsupported(node)
        raise AssertionError

    def literal(self, node: tree.Number | tree.Text) -> Steps:
        return node.value
        yield node  # never reached: it makes a generator of a method that needs no subtree

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

    def subscripted(self, node: tree.Subscript) -> Steps:
        value = yield node.value
        indices: list[Any] = []
        for index in node.indices:
            if isinstance(index, tree.Slice):
                parts = []
                for part in (index.start, index.stop, index.step):
                    parts.append(None if part is None else (yield part))
                indices.append(SliceValue(*parts))
            else:
                given = yield index
                indices.extend(given if isinstance(given, tuple) else (given,))
        return subscript(self, value, indices, node.span)

    def binary(self, node: tree.Binary) -> Steps:
        left = yield node.left
        right = yield node.right
        if node.op == "@":
            return matmul(self, left, right, node.span)
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
            if symbol in ("==", "!=") and (_is_static(left) or _is_static(right)):
                here: AnyValue = (left == right) == (symbol == "==")
            else:
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
            whole = f"{node.value.id}.{node.name}"
            remedy = f"call it as {whole}(...)" if node.name in BUILTINS else _similar(node.name, {})
            self.fail(ParseError, f"unknown name {whole}", node.span, remedy)
        value = yield node.value
        if isinstance(value, Value):
            if node.name == "T":
                return transpose(self, value, None, node.span)
            if node.name == "shape":
                return tuple(Value((), self.sizes.find(n), weak=True) for n in value.shape)
            if node.name == "ndim":
                return value.rank
        if isinstance(value, Container) and value.kind is not dict:
            if node.name in value.keys:
                return value.parts[value.keys.index(node.name)]
            self.fail(
                ParseError, f"{value.what} has no field {node.name!r}", node.span,
                f"its fields are {', '.join(value.keys)}",
            )  # fmt: skip
        self.fail(
            ParseError, f"{describe(value)} has no attribute {node.name!r} in this language", node.span,
            'write p["name"]' if isinstance(value, Container) else "an array has shape, ndim and T",
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


def _is_static(value: AnyValue) -> bool:
    """Whether a value is compared while compiling: a text or None, as a container may hold."""
    return value is None or isinstance(value, str)


def _is_integer(value: AnyValue) -> bool:
    return value.dtype in ("bool", "i64") if isinstance(value, Value) else isinstance(value, int)
