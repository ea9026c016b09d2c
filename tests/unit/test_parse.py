"""The parser agrees with Python's own: the same structure, the same precedence, the same places."""

from __future__ import annotations

import ast
import gc
import inspect
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adcompiler.errors import ParseError, Span
from adcompiler.syntax import tree
from adcompiler.syntax.parse import parse, parse_expression

# ---- Both trees, written in the same way: nested tuples, and the text of every node in the same order ----

OPERATORS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "MatMult": "@",
    "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>",
    "UAdd": "+", "USub": "-", "Invert": "~", "Not": "not", "And": "and", "Or": "or",
    "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=",
}  # fmt: skip


def ours(node: Any, places: list[Any]) -> Any:
    if isinstance(node, tuple):
        return tuple(ours(n, places) for n in node)
    if not isinstance(node, tree.Tree):
        return node
    if isinstance(node, tree.Expression):
        places.append((type(node).__name__, node.span))
    match node:
        case tree.Number(value=value) | tree.Text(value=value):
            return "constant", type(value), repr(value)
        case tree.Name(id=name):
            return name
        case tree.Bare(value=value) | tree.Return(value=value):
            return type(node).__name__, ours(value, places)
        case tree.Sequence(kind=kind, items=items):
            return kind, *ours(items, places)
        case tree.Subscript(value=value, indices=indices):
            return "index", ours(value, places), *ours(indices, places)
        case tree.Ternary():
            return "ternary", *(ours(n, places) for n in (node.test, node.then, node.otherwise))
        case tree.Call():
            keywords = tuple((key, ours(value, places)) for key, value in node.keywords)
            return "call", ours(node.function, places), ours(node.arguments, places), keywords
    fields = [getattr(node, f) for f in type(node).__dataclass_fields__ if f != "span"]
    return type(node).__name__.lower(), *(ours(f, places) for f in fields)


def pythons(node: Any, places: list[Any]) -> Any:
    def below(*parts: Any) -> tuple[Any, ...]:
        return tuple(pythons(part, places) for part in parts)

    if isinstance(node, list | tuple):
        return below(*node)
    if isinstance(node, ast.expr):
        span = Span(node.lineno, node.col_offset + 1, node.end_lineno or 0, (node.end_col_offset or 0) + 1)
        places.append((type(node).__name__, span))
    symbol = OPERATORS.get(type(getattr(node, "op", None)).__name__, "")
    match node:
        case ast.Constant(value=bool() | None):
            return str(node.value)
        case ast.Constant(value=int() | float() | str()):
            return "constant", type(node.value), repr(node.value)
        case ast.Name():
            return node.id
        case ast.UnaryOp():
            return "unary", symbol, *below(node.operand)
        case ast.BinOp():
            return "binary", symbol, *below(node.left, node.right)
        case ast.BoolOp():
            return "boolean", symbol, *below(node.values)
        case ast.Compare():
            ops = tuple(OPERATORS[type(op).__name__] for op in node.ops)
            return "compare", ops, *below([node.left, *node.comparators])
        case ast.IfExp():
            return "ternary", *below(node.test, node.body, node.orelse)
        case ast.Attribute():
            return "attribute", *below(node.value), node.attr
        case ast.Call(func=ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript()):
            return "call", *below(node.func, node.args), tuple((k.arg, *below(k.value)) for k in node.keywords)
        case ast.Subscript(slice=ast.Tuple() as index) if index.elts and index.end_col_offset != -1:
            return "index", *below(node.value), *below(*index.elts)
        case ast.Subscript():
            return "index", *below(node.value, node.slice)
        case ast.Slice():
            return "slice", *(None if n is None else pythons(n, places) for n in (node.lower, node.upper, node.step))
        case ast.List() | ast.Tuple():
            return type(node).__name__.lower(), *below(*node.elts)
        case ast.ListComp() | ast.GeneratorExp():
            kind = "list" if isinstance(node, ast.ListComp) else "generator"
            return "comprehension", kind, *below(node.elt, node.generators)
        case ast.comprehension():
            targets = [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]
            return "clause", tuple(targets), *below(node.iter, node.ifs)
        case ast.Assign():
            return "assign", *below(node.targets, node.value)
        case ast.AugAssign():
            return "augmented", *below(node.target), symbol, *below(node.value)
        case ast.Expr():
            return "Bare", *below(node.value)
        case ast.Return():
            return "Return", *below(node.value)
        case ast.If():
            return "if", *below(node.test, node.body, node.orelse)
        case ast.For(orelse=[]):
            return "for", *below(node.target, node.iter, node.body)
        case ast.While(orelse=[]):
            return "while", *below(node.test, node.body)
        case ast.FunctionDef():
            docstring = ast.get_docstring(node, clean=False)
            body = node.body[1:] if docstring else node.body
            return "def", node.name, below(*node.args.args), below(*body), docstring
        case ast.arg(annotation=ast.Constant(value=str(quoted))):
            return "parameter", node.arg, pythons(ast.parse(quoted, mode="eval").body, [])
        case ast.arg():
            return "parameter", node.arg, None if node.annotation is None else pythons(node.annotation, [])
    raise SyntaxError(f"outside of our language: {ast.dump(node)}")
