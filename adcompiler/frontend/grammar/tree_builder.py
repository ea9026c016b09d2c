"""From the grammar's rules to the syntax tree: one method per rule, called when the rule is complete.

Every method takes the parts of its rule, tokens included, so the span of a node always extends from its first
part to its last. A part is a token, a node, or the tuple of statements of a line or suite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from lark import Token

from adcompiler.errors import Span
from adcompiler.frontend.grammar import literals, tree
from adcompiler.frontend.grammar.control_flow import LoopT, outside, with_else
from adcompiler.frontend.grammar.definite_assignment import leaving
from adcompiler.frontend.grammar.fault import Fault
from adcompiler.frontend.grammar.layout import token_span

Parts = list[Any]


def span_of(part: Any) -> Span:
    """The span of a token, a node, or a tuple of statements."""
    if isinstance(part, Token):
        return token_span(part)
    if isinstance(part, tuple):
        return between(part)
    span: Span = part.span
    return span


def between(parts: Any) -> Span:
    """The span from the first part to the last."""
    return span_of(parts[0]).to(span_of(parts[-1]))


def _expressions(parts: Parts) -> tuple[tree.Expression, ...]:
    return tuple(part for part in parts if isinstance(part, tree.Expression))


def _statements(parts: Parts) -> tuple[tree.Statement, ...]:
    """All statements among the parts, in order; those of a line come as a tuple."""
    lines = (part if isinstance(part, tuple) else (part,) for part in parts)
    return tuple(part for line in lines for part in line if isinstance(part, tree.Statement))


@dataclass(frozen=True)
class _Decorator:
    """What stands behind the @ above a def."""

    expression: tree.Expression


class Builder:
    """Stateless except for `read_quoted`, which parses the expression in the quotes of an annotation."""

    def __init__(self, read_quoted: Callable[[Token], tree.Expression]) -> None:
        self.read_quoted = read_quoted

    # ---- Expressions ----

    def name(self, parts: Parts) -> tree.Name:
        return tree.Name(between(parts), literals.identifier(parts[0].value))

    def number(self, parts: Parts) -> tree.Number:
        return tree.Number(between(parts), literals.number(parts[0].value))

    def text(self, parts: Parts) -> tree.Text:
        """Adjacent strings are one, as in Python."""
        return tree.Text(between(parts), "".join(literals.string(part.value) for part in parts))

    def unary(self, parts: Parts) -> tree.Unary:
        return tree.Unary(between(parts), parts[0].value, parts[1])

    def binary(self, parts: Parts) -> tree.Binary:
        left, op, right = parts
        return tree.Binary(between(parts), op.value, left, right)

    def comparison(self, parts: Parts) -> tree.Compare:
        return tree.Compare(between(parts), tuple(op.value for op in parts[1::2]), tuple(parts[::2]))

    def identity(self, parts: Parts) -> tree.Compare:
        *operands, last = parts
        if not (isinstance(last, tree.Name) and last.id == "None"):
            raise Fault(token_span(parts[1]), "'is' compares with None only", "compare with ==")
        return tree.Compare(between(parts), ("==" if len(parts) == 3 else "!=",), (operands[0], last))

    def membership(self, parts: Parts) -> tree.Compare:
        return tree.Compare(between(parts), ("in" if len(parts) == 3 else "not in",), (parts[0], parts[-1]))

    def conjunction(self, parts: Parts) -> tree.Boolean:
        return tree.Boolean(between(parts), parts[1].value, tuple(parts[::2]))

    disjunction = conjunction

    def ternary(self, parts: Parts) -> tree.Ternary:
        then, _, test, _, otherwise = parts
        return tree.Ternary(between(parts), test, then, otherwise)

    def attribute(self, parts: Parts) -> tree.Attribute:
        return tree.Attribute(between(parts), parts[0], literals.identifier(parts[2].value))

    def argument(self, parts: Parts) -> tree.Expression:
        argument: tree.Expression = parts[0]
        return argument

    def starred(self, parts: Parts) -> tree.Starred:
        return tree.Starred(between(parts), parts[1])

    def keyword(self, parts: Parts) -> tuple[Token, tree.Expression]:
        return parts[0], parts[2]

    def call(self, parts: Parts) -> tree.Call:
        function, _, *inner, _ = parts
        if isinstance(function, tree.Number | tree.Text | tree.Sequence):
            raise Fault(
                between(parts),
                "only functions can be called",
                "to multiply, write a * before the parenthesis",
            )
        keywords: dict[str, tree.Expression] = {}
        for part in inner:
            if isinstance(part, tuple):
                key = literals.identifier(part[0].value)
                if key in keywords:
                    raise Fault(span_of(part[0]), f"the argument '{key}' is given twice", "remove one")
                keywords[key] = part[1]
            elif keywords and isinstance(part, tree.Expression):
                remedy = "move it before them, or pass it by name"
                raise Fault(span_of(part), "a positional argument follows a keyword argument", remedy)
        return tree.Call(between(parts), function, _expressions(inner), tuple(keywords.items()))

    def sliced(self, parts: Parts) -> tree.Slice:
        bounds: list[tree.Expression | None] = [None]
        for part in parts:
            if isinstance(part, Token):  # a colon
                bounds.append(None)
            else:
                bounds[-1] = part
        start, stop, step = (*bounds, None)[:3]
        return tree.Slice(between(parts), start, stop, step)

    def ellipsis(self, parts: Parts) -> tree.Ellipsis:
        return tree.Ellipsis(between(parts))

    def subscript(self, parts: Parts) -> tree.Subscript:
        return tree.Subscript(between(parts), parts[0], _expressions(parts[2:]))

    def expressions(self, parts: Parts) -> tree.Sequence:
        return tree.Sequence(between(parts), "tuple", _expressions(parts))

    targets = expressions

    def parenthesised(self, parts: Parts) -> tree.Expression:
        """The same node, with the parentheses in its span; `()` is the empty tuple."""
        if len(parts) == 2:
            return tree.Sequence(between(parts), "tuple", ())
        inner: tree.Expression = replace(parts[1], span=between(parts))
        return inner

    def listed(self, parts: Parts) -> tree.Sequence:
        return tree.Sequence(between(parts), "list", _expressions(parts))

    def list_comprehension(self, parts: Parts) -> tree.Comprehension:
        return tree.Comprehension(between(parts), "list", parts[1].element, parts[1].clauses)

    def comprehension(self, parts: Parts) -> tree.Comprehension:
        return tree.Comprehension(between(parts), "generator", parts[0], tuple(parts[1:]))

    def clause(self, parts: Parts) -> tree.Clause:
        iterable, *conditions = _expressions(parts)
        return tree.Clause(between(parts), parts[1], iterable, tuple(conditions))

    def names(self, parts: Parts) -> tuple[str, ...]:
        return tuple(literals.identifier(part.value) for part in parts if part.type == "NAME")

    # ---- Statements ----

    def module(self, parts: Parts) -> tuple[tree.Statement, ...]:
        return _statements(parts)

    line = suite = module

    def bare(self, parts: Parts) -> tree.Statement:
        match parts[0]:
            case tree.Call(
                function=tree.Attribute(value=tree.Name() as x, name="sort"), arguments=(), keywords=()
            ):
                return _stored(between(parts), x, tree.Call(x.span, tree.Name(x.span, "sort"), (x,), ()))
            case tree.Call(function=tree.Attribute(value=tree.Name() as x, name="fill"), arguments=(value,)):
                return _stored(between(parts), x, value)
            case tree.Name(id="break" | "continue" as word):
                return tree.Leave(between(parts), word)
        return tree.Bare(between(parts), parts[0])

    def assignment(self, parts: Parts) -> tree.Assign:
        *targets, value = parts[::2]
        for target in targets:
            _check_target(target)
        return tree.Assign(between(parts), tuple(targets), value)

    def augmented(self, parts: Parts) -> tree.Augmented:
        target, op, value = parts
        if isinstance(target, tree.Sequence):
            raise Fault(span_of(target), f"'{op}' changes one variable", "write one line for each of them")
        _check_target(target)
        return tree.Augmented(between(parts), target, op.value[:-1], value)

    def result(self, parts: Parts) -> tree.Return:
        value = parts[1] if len(parts) > 1 else tree.Name(between(parts), "None")
        return tree.Return(between(parts), value)

    def failure(self, parts: Parts) -> tree.Raise:
        return tree.Raise(between(parts), *_exception(parts[1]))

    def assertion(self, parts: Parts) -> tree.If:
        """`assert test, message` is `if not test: raise AssertionError(message)`."""
        span, test = between(parts), parts[1]
        message = parts[3].value if len(parts) > 3 and isinstance(parts[3], tree.Text) else ""
        failed = tree.Unary(test.span, "not", test)
        return tree.If(span, failed, (tree.Raise(span, "AssertionError", message),), ())

    def decorator(self, parts: Parts) -> _Decorator:
        return _Decorator(parts[1])

    def parameter(self, parts: Parts) -> tree.Parameter:
        given = {part.type: after for part, after in pairwise(parts) if isinstance(part, Token)}
        annotation, default = given.get("COLON"), given.get("EQUAL")
        return tree.Parameter(between(parts), literals.identifier(parts[0].value), annotation, default)

    def quoted(self, parts: Parts) -> tree.Expression:
        return self.read_quoted(parts[0])

    def definition(self, parts: Parts) -> tree.Def:
        decorators = tuple(part.expression for part in parts if isinstance(part, _Decorator))
        parts = parts[len(decorators) :]
        parameters = tuple(part for part in parts if isinstance(part, tree.Parameter))
        seen: set[str] = set()
        for parameter in parameters:
            if parameter.name in seen:
                raise Fault(parameter.span, f"the parameter '{parameter.name}' occurs twice", "rename one")
            seen.add(parameter.name)
        _check_defaults(parameters)
        body, docstring = parts[-1], None
        match body:
            case (tree.Bare(value=tree.Text(value=str(text))), *_):
                body, docstring = body[1:], text
        if stray := outside((*body,)):
            cause = f"'{stray.word}' is outside a loop"
            raise Fault(stray.span, cause, "move it into a for or while loop")
        name = literals.identifier(parts[1].value)
        return tree.Def(between(parts), name, parameters, body, docstring, decorators)

    def branch(self, parts: Parts) -> tree.If:
        otherwise = parts[4] if len(parts) > 4 else ()
        return tree.If(between(parts), parts[1], parts[3], otherwise)

    def otherwise(self, parts: Parts) -> tuple[tree.Statement, ...]:
        """An `elif` is a nested If."""
        return (self.branch(parts),)

    def alternative(self, parts: Parts) -> tuple[tree.Statement, ...]:
        body: tuple[tree.Statement, ...] = parts[2]
        return body

    def loop(self, parts: Parts) -> tree.For | tree.If:
        _, target, _, iterable, _, body, *otherwise = parts
        _check_target(target)
        return _loop(tree.For(between(parts), target, iterable, body), *otherwise)

    def repetition(self, parts: Parts) -> tree.While | tree.If:
        _, test, _, body, *otherwise = parts
        return _loop(tree.While(between(parts), test, body), *otherwise)


def _loop(loop: LoopT, otherwise: tuple[tree.Statement, ...] | None = None) -> LoopT | tree.If:
    """A loop, with its `else` if there is one."""
    loop = leaving(loop, otherwise)
    return loop if otherwise is None else with_else(loop, otherwise)


def _stored(span: Span, array: tree.Name, value: tree.Expression) -> tree.Assign:
    """`array[:] = value`."""
    everything = tree.Slice(array.span, None, None, None)
    return tree.Assign(span, (tree.Subscript(array.span, array, (everything,)),), value)


def _exception(node: tree.Expression) -> tuple[str, str]:
    """The class of an exception, and its message if it is a string literal."""
    made = node if isinstance(node, tree.Call) else None
    named = node if made is None else made.function
    if not isinstance(named, tree.Name | tree.Attribute):
        remedy = 'write the class of an exception, with a text: raise ValueError("...")'
        raise Fault(node.span, "this is not an exception", remedy)
    first = made.arguments[0] if made is not None and made.arguments else None
    message = first.value if isinstance(first, tree.Text) else ""
    return named.id if isinstance(named, tree.Name) else named.name, message


def _check_defaults(parameters: tuple[tree.Parameter, ...]) -> None:
    """Parameters with defaults must come last."""
    for before, parameter in pairwise(parameters):
        if before.default is not None and parameter.default is None:
            remedy = f"move it before {before.name}, or give it a default"
            raise Fault(parameter.span, f"'{parameter.name}' without a default follows one with", remedy)


def _check_target(target: tree.Expression) -> None:
    """Only names, subscripts and tuples of them can be assigned to."""
    todo = [target]
    while todo:
        node = todo.pop()
        if isinstance(node, tree.Sequence):
            todo.extend(reversed(node.items))
        elif isinstance(node, tree.Name) and node.id in ("break", "continue"):
            raise Fault(node.span, f"'{node.id}' is a statement and cannot be a name", "choose another name")
        elif not isinstance(node, tree.Name | tree.Subscript):
            kind = type(node).__name__.lower()
            raise Fault(
                node.span,
                f"cannot assign to this {kind if kind in _KINDS else 'expression'}",
                "write def f(x): return ..., or the expression alone"
                if kind == "call"
                else "assign to a name, a subscript or a tuple of them; == compares",
            )


_KINDS = ("number", "text", "call", "attribute", "ternary", "comprehension")
