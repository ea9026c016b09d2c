"""Calls of library routines in a kernel: one after the other, for each of their cases."""

from __future__ import annotations

from adcompiler.codegen.writer import Writer
from adcompiler.ir.call import Call
from adcompiler.ir.nodes import Array, is_const


def routine(op: str) -> str:
    """The name of a routine in generated code."""
    return f"library_{op}"


def call(writer: Writer, made: Array) -> None:
    """The lines that fill the result of a call."""
    assert isinstance(made, Call)
    axes = [f"c{k}" for k in range(len(made.cases))]
    headers = [writer.over(axis, n, d) for d, (axis, n) in enumerate(zip(axes, made.cases, strict=True))]
    operands = [_part(writer, a, axes[len(axes) + 2 - a.rank :]) for a in made.operands]
    into = _part(writer, made, axes)
    writer.headed(headers, f"{routine(made.op)}({', '.join((*operands, into))})")


def _part(writer: Writer, array: Array, axes: list[str]) -> str:
    """The matrix of one case."""
    spots = ["0" if is_const(n, 1) else a for a, n in zip(axes, array.shape, strict=False)]
    row = writer.prefixes.get(array, "").removesuffix(", ")
    listed = ", ".join(filter(None, (row, *spots)))
    return f"{writer.label(array)}[{listed}]" if listed else writer.label(array)
