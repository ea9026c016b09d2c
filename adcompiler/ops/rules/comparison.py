"""Comparisons, classification and logic, which have no derivatives."""

from __future__ import annotations

from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.rules.shorthand import entry


def _compare(name: str, symbol: str, sympy: str) -> Primitive:
    doc, kernel = f"Whether x {symbol} y.", f"{{x}} {symbol} {{y}}"
    return entry(name, "x y", (), doc, kind="bool", kernel=kernel, sympy=f"{sympy}(x, y)")


def _logic(name: str, params: str, doc: str, kernel: str) -> Primitive:
    return entry(name, params, (), doc, kind="logical", kernel=kernel, sympy=None)


COMPARISON = (
    _compare("less", "<", "Lt"),
    _compare("less_equal", "<=", "Le"),
    _compare("greater", ">", "Gt"),
    _compare("greater_equal", ">=", "Ge"),
    _compare("equal", "==", "Eq"),
    _compare("not_equal", "!=", "Ne"),
    entry("isnan", "x", (), "Whether x is NaN.", kind="bool", kernel="{x} != {x}", sympy=None),
    entry("isinf", "x", (), "Whether x is an infinity.", kind="bool", sympy=None),
    entry("isfinite", "x", (), "Whether x is neither NaN nor infinite.", kind="bool", sympy=None),
    _logic("logical_and", "x y", "Whether both are true.", "{x} & {y}"),
    _logic("logical_or", "x y", "Whether at least one is true.", "{x} | {y}"),
    _logic("logical_xor", "x y", "Whether exactly one is true.", "{x} != {y}"),
    _logic("logical_not", "x", "Whether x is false.", "not {x}"),
)
