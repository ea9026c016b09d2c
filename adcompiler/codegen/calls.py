"""Calls of library routines in a kernel: one after the other, for each of their cases."""

from __future__ import annotations

from adcompiler.codegen.writer import Writer
from adcompiler.ir.call import Call
from adcompiler.ir.nodes import Array, is_const
from adcompiler.loopir.nodes import Access, Expr, Invoke, Var, literal


def routine(op: str) -> str:
    """The name of a routine in generated code."""
    return f"library_{op}"


def call(writer: Writer, made: Array) -> None:
    """What fills the result of a call."""
    assert isinstance(made, Call)
    axes = [f"c{k}" for k in range(len(made.cases))]
    heads = [writer.over(axis, n, d) for d, (axis, n) in enumerate(zip(axes, made.cases, strict=True))]
    operands = [_part(writer, a, axes[len(axes) + 2 - a.rank :]) for a in made.operands]
    into = _part(writer, made, axes)
    writer.headed(heads, Invoke(routine(made.op), (*operands, into)))


def _part(writer: Writer, array: Array, axes: list[str]) -> Expr:
    """The matrix of one case."""
    spots = [literal(0) if is_const(n, 1) else Var(a) for a, n in zip(axes, array.shape, strict=False)]
    indices = (*writer.row(array), *spots)
    return Access(writer.label(array), indices) if indices else Var(writer.label(array))
