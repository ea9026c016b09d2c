"""The texts of the rule table, evaluated without the compiler.

One interpreter of Python's own syntax tree, and an algebra that says what a literal and a
primitive are: mpmath numbers, NumPy scalars, dual numbers over either, or kernel source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from typing import Any

import mpmath
import numpy as np
import sympy

from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import TABLE

OPERATORS = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power",
    ast.FloorDiv: "floor_divide", ast.Mod: "remainder", ast.And: "logical_and", ast.Or: "logical_or",
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
    ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip


@cache
def parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def evaluate(text: str | ast.expr, scope: dict[str, Any], algebra: Any) -> Any:
    """The value of a text in the language where names mean what `scope` says."""

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(number):
                return algebra.literal(number)
            case ast.Name(name):
                return scope[name]
            case ast.UnaryOp(ast.USub(), ast.Constant(number)):
                return algebra.literal(-number)
            case ast.UnaryOp(ast.USub(), operand):
                return algebra.call("negative", [value(operand)])
            case ast.BinOp(left, op, right):
                return algebra.call(OPERATORS[type(op)], [value(left), value(right)])
            case ast.Compare(left, [op], [right]):
                return algebra.call(OPERATORS[type(op)], [value(left), value(right)])
            case ast.BoolOp(op, operands):
                name = OPERATORS[type(op)]
                return reduce(lambda a, b: algebra.call(name, [a, b]), map(value, operands))
            case ast.Call(ast.Name("where"), [guard, then, otherwise]):
                return algebra.where(value(guard), lambda: value(then), lambda: value(otherwise))
            case ast.Call(ast.Name(name), args):
                return algebra.call(name, [value(a) for a in args])
        raise AssertionError(f"not of the language: {ast.unparse(node)}")

    return value(parse(text) if isinstance(text, str) else text)


def at_order(entry: Primitive, n: int) -> Primitive:
    """A primitive with an order as one of a fixed order, without that parameter."""
    (name, *params), reference = entry.params, entry.numpy

    def fixed(text: str | None) -> str:
        return re.sub(rf"\b{name}\b", str(n), text or "")

    return replace(
        entry, name=f"{entry.name}-{n}", params=tuple(params), orders=None, domain=entry.domain[1:],
        partials=tuple(map(fixed, entry.partials[1:])), kernel=fixed(entry.kernel.replace("{n}", "n")),
        sympy=fixed(entry.sympy), numpy=lambda *args: reference(np.float64(n), *args),
    )  # fmt: skip


def in_orders(entries: Iterable[Primitive], orders: Iterable[int] = range(4)) -> list[Primitive]:
    """Entries with an order stand for one entry an order."""
    orders = tuple(orders)
    return [
        e for entry in entries for e in ([at_order(entry, n) for n in orders] if entry.orders else [entry])
    ]


class Numbers:
    """NumPy scalars of one type, with the table's references."""

    def __init__(self, dtype: Any = np.float64) -> None:
        self.literal = dtype

    def call(self, name: str, args: list[Any]) -> Any:
        return TABLE[name].numpy(*args)

    def where(self, guard: Any, then: Any, otherwise: Any) -> Any:
        return then() if guard else otherwise()


class Precise:
    """mpmath numbers, with the table's SymPy forms."""

    literal = mpmath.mpf

    def call(self, name: str, args: list[Any]) -> Any:
        entry = TABLE[name]
        if entry.orders:
            return precise(at_order_of(name, int(args[0])))(*args[1:])
        return precise(entry)(*args) if entry.sympy else bool(entry.numpy(*args))

    where = Numbers.where


@dataclass
class Dual:
    """A value and its tangent; a tangent of None is known to be zero."""

    value: Any
    tangent: Any = None


@dataclass
class Duals:
    """Forward differentiation by the table's partials, over any algebra and so to any order."""

    base: Any

    def literal(self, number: Any) -> Dual:
        return Dual(self.base.literal(number))

    def call(self, name: str, args: list[Dual]) -> Dual:
        entry, values = TABLE[name], [a.value for a in args]
        result = self.base.call(name, values)
        scope = dict(zip(entry.params, values, strict=True)) | {"r": result}
        terms = [
            self.base.call("multiply", [evaluate(text, scope, self.base), arg.tangent])
            for text, arg in zip(entry.partials, args, strict=False)
            if arg.tangent is not None and text != "0"
        ]
        return Dual(result, reduce(lambda a, b: self.base.call("add", [a, b]), terms) if terms else None)

    def where(self, guard: Dual, then: Any, otherwise: Any) -> Any:
        return self.base.where(guard.value, then, otherwise)


@dataclass
class Kernels:
    """Source of a kernel, a statement a node; literals take the type that the compiler gives them."""

    dtype: str
    statements: list[str] = field(default_factory=list)

    def literal(self, number: Any) -> str:
        return self._name(f"np.{self.dtype}({number})")

    def call(self, name: str, args: list[str]) -> str:
        return self.apply(TABLE[name], args)

    def apply(self, entry: Primitive, args: list[str]) -> str:
        scope = dict(zip(entry.params, args, strict=True))
        if entry.expand:
            return str(evaluate(entry.expand, scope, self))
        return self._name(entry.kernel.format(**scope))

    def where(self, guard: str, then: Any, otherwise: Any) -> str:
        return self._name(f"{then()} if {guard} else {otherwise()}")

    def _name(self, expression: str) -> str:
        self.statements.append(f"v{len(self.statements)} = {expression}")
        return f"v{len(self.statements) - 1}"


def derivative(entry: Primitive, point: tuple[Any, ...], by: tuple[str, ...], algebra: Any) -> Any:
    """The derivative of a primitive by one parameter after another, by the table's rules alone."""
    values: list[Any] = [algebra.literal(v) for v in point]
    for name in by:
        one = algebra.literal(1)
        values = [Dual(v, one if p == name else None) for p, v in zip(entry.params, values, strict=True)]
        algebra = Duals(algebra)
    result = algebra.call(entry.name, values)
    for _ in by:
        if result is None or result.tangent is None:
            return 0.0
        result = result.tangent
    return result


@cache
def at_order_of(name: str, n: int) -> Primitive:
    return at_order(TABLE[name], n)


REALS = {
    "Abs": abs, "Min": min, "Max": max, "sign": mpmath.sign,
    "Heaviside": lambda x, h=0.5: mpmath.mpf(h if x == 0 else x > 0),
}  # fmt: skip


def symbols(entry: Primitive) -> dict[str, sympy.Symbol]:
    return {name: sympy.Symbol(name, real=True) for name in entry.params}


def form(entry: Primitive) -> sympy.Expr:
    """The entry's SymPy form, of real symbols."""
    return sympy.sympify(entry.sympy, locals=symbols(entry))


@cache
def precise(entry: Primitive, *by: str) -> Any:
    """A function of mpmath numbers: the SymPy form, differentiated by SymPy."""
    expression = form(entry)
    for name in by:
        expression = _between_jumps(expression.diff(symbols(entry)[name]))
    return sympy.lambdify(list(symbols(entry).values()), expression, [REALS, "mpmath"])


def _between_jumps(expression: sympy.Expr) -> sympy.Expr:
    """SymPy leaves the derivatives of steps unevaluated; away from the jumps they are 0."""
    steps = sympy.floor, sympy.ceiling, sympy.sign

    def left(node: sympy.Expr) -> bool:
        if isinstance(node, sympy.Derivative):
            assert isinstance(node.expr, steps), node
        if isinstance(node, sympy.Subs):
            assert node.expr == 0 or isinstance(node.expr.expr, steps), node
        return isinstance(node, (sympy.Derivative, sympy.Subs, sympy.DiracDelta))

    return expression.replace(left, lambda node: sympy.Integer(0))
