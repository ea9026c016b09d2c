"""Parses source text to loop IR: hand-written routines, and printed kernels."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence

from adcompiler.ir.types import Dtype
from adcompiler.loopir.limits import MOST_ATTEMPTS
from adcompiler.loopir.nodes import (
    BLOCK,
    EDGE,
    Access,
    Allocate,
    Assign,
    AssignAll,
    Binary,
    Break,
    Call,
    Choice,
    Compare,
    Expr,
    For,
    Foreign,
    Function,
    If,
    Invoke,
    Kind,
    Length,
    Logical,
    Return,
    Stmt,
    Store,
    Unary,
    Update,
    Var,
    Verbatim,
    While,
    literal,
)

BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
UNARY: Mapping[type[ast.unaryop], str] = {ast.USub: "-", ast.Invert: "~", ast.Not: "not"}
COMPARE: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
CONSTANTS: Mapping[str, float] = {
    f"{module}.{name}": getattr(math, name) for module in ("math", "np") for name in ("inf", "nan", "pi", "e")
}
DTYPES: Mapping[str, Dtype] = {
    "np.bool": "bool", "np.int64": "i64", "np.float32": "f32", "np.float64": "f64"
}  # fmt: skip
PROGRAM = "iteration"  # the prefix of the axes of a program's loops


def parsed(text: str) -> ast.Module:
    """The Python syntax tree of a generated text.

    Python 3.11 counts the depth of trees over all threads: if another thread parses at the same time, it may
    reject a valid tree (gh-106905).
    """
    for _ in range(MOST_ATTEMPTS):
        try:
            return ast.parse(text)
        except (SystemError, RecursionError):
            pass
    return ast.parse(text)


def functions(text: str) -> tuple[Function, ...]:
    """The functions of a module."""
    return tuple(function(n) for n in parsed(text).body if isinstance(n, ast.FunctionDef))


def function(tree: ast.FunctionDef) -> Function:
    """The function of a Python syntax tree."""
    return Function(tree.name, [a.arg for a in tree.args.args], _body(tree.body))


def expression(text: str) -> Expr:
    """One expression."""
    (statement,) = parsed(text).body
    assert isinstance(statement, ast.Expr)
    return _expression(statement.value)


def _body(found: Sequence[ast.stmt]) -> list[Stmt]:
    return [made for s in found if (made := _statement(s)) is not None]


def _statement(s: ast.stmt) -> Stmt | None:
    """A statement; None if it does nothing."""
    match s:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return None
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Attribute(attr="empty"), args=[ast.Tuple(elts=lengths), dtype]),
        ):
            return Allocate(name, DTYPES[ast.unparse(dtype)], _expressions(lengths))
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            places = [t for t in _expressions(targets) if isinstance(t, Var | Access)]
            return AssignAll(tuple(places), _expressions(values))
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return Assign(name, _expression(value))
        case ast.Assign(targets=[ast.Subscript() as target], value=value):
            return Store(_access(target), _expression(value))
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            return Assign(name, Binary(BINARY[type(op)], Var(name), _expression(value)))
        case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
            return Update(_access(target), BINARY[type(op)], _expression(value))
        case ast.For(target=ast.Name(id=axis), iter=ast.Call(func=ast.Name(id="range"), args=args)):
            return _loop(axis, _expressions(args), _body(s.body))
        case ast.While(test=test, body=body):
            return While(_expression(test), _body(body))
        case ast.If(test=test, body=body, orelse=otherwise):
            return If(_expression(test), _body(body), _body(otherwise))
        case ast.Break():
            return Break()
        case ast.Return(value=ast.Tuple(elts=values)):
            return Return(_expressions(values))
        case ast.Return(value=value):
            return Return(() if value is None else (_expression(value),))
        case ast.Expr(value=ast.Call(func=called, args=args)):
            return Invoke(ast.unparse(called), _expressions(args))
    return Foreign(ast.unparse(s))


def _loop(axis: str, bounds: Sequence[Expr], body: list[Stmt]) -> For:
    """A loop; its kind follows from the naming of kernels."""
    prefixes: dict[str, Kind] = {PROGRAM: "program", BLOCK.name: "blocks", EDGE: "edges"}
    found = [kind for prefix, kind in prefixes.items() if axis.startswith(prefix)]
    kind: Kind = found[0] if found else "elements"
    start, stop, *step = bounds if len(bounds) > 1 else (literal(0), *bounds)
    return For(axis, start, stop, body, step[0] if step else None, kind)


def _expressions(found: Sequence[ast.expr]) -> tuple[Expr, ...]:
    return tuple(map(_expression, found))


def _access(node: ast.Subscript) -> Access:
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return Access(ast.unparse(node.value), _expressions(indices))


def _expression(node: ast.expr) -> Expr:
    match node:
        case ast.Name(id=name):
            return Var(name)
        case ast.Constant(value=bool() | int() | float() as value):
            return literal(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return literal(-value)
        case ast.UnaryOp(operand=ast.BinOp(op=ast.Pow())) if ast.unparse(node) == "-2 ** 63":
            return literal(-(2**63))
        case ast.BinOp(left=ast.BinOp(op=ast.Pow())) if ast.unparse(node) == "2 ** 63 - 1":
            return literal(2**63 - 1)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
            return Unary(UNARY[type(op)], _expression(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return Binary(BINARY[type(op)], _expression(left), _expression(right))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARE for op in ops):
            values = _expressions([left, *others])
            found = tuple(
                Compare(COMPARE[type(op)], a, b) for op, a, b in zip(ops, values, values[1:], strict=False)
            )
            return found[0] if len(found) == 1 else Logical("and", found)
        case ast.BoolOp(op=op, values=args):
            return Logical("and" if isinstance(op, ast.And) else "or", _expressions(args))
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            return Choice(*map(_expression, (test, then, otherwise)))
        case ast.Call(func=called, args=args, keywords=[]):
            return Call(ast.unparse(called), _expressions(args))
        case ast.Attribute(value=ast.Name(id=name), attr="T"):
            return Call("transpose", (Var(name),))
        case ast.Attribute() if (name := ast.unparse(node)) in CONSTANTS:
            return literal(CONSTANTS[name])
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(axis))
        ):
            return Length(name, axis)
        case ast.Subscript(value=ast.Name()):
            return _access(node)
    return Verbatim(ast.unparse(node))
