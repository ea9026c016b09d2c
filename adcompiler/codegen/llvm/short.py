"""Loops of a known, small number of turns, which are written out: coordinates, small matrices.

Without them a loop around may be vectorised, and what they compute stays in registers.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from adcompiler.passes.loops import SHORT

LARGEST = 60_000  # nodes of the text that a loop is written out to


def short(loop: ast.AST) -> range | None:
    """The turns of a loop that is written out; None for any other."""
    match loop:
        case ast.For(
            iter=ast.Call(
                func=ast.Name(id="range"),
                args=[
                    ast.Call(func=ast.Name(id="uint64"), args=[ast.Constant(value=int(first))]),
                    ast.Call(func=ast.Name(id="uint64"), args=[ast.Constant(value=int(stop))]),
                ],
            ),
            body=body,
        ) if stop - first <= SHORT and (stop - first) * _size(body) <= LARGEST:
            return range(first, stop)
    return None


def has_loops(body: Sequence[ast.stmt]) -> bool:
    """Whether loops remain when the short ones are written out."""
    nodes = (n for s in body for n in ast.walk(s))
    return any(isinstance(n, ast.For | ast.While) and short(n) is None for n in nodes)


def _size(body: Sequence[ast.stmt]) -> int:
    """How much text a body is with its short loops written out."""
    total = 0
    for s in body:
        if isinstance(s, ast.For):
            turns = short(s)
            total += _size(s.body) * (1 if turns is None else len(turns))
        elif isinstance(s, ast.If):
            total += _size(s.body)
        else:
            total += sum(1 for _ in ast.walk(s))
    return total
