"""Loops of a known, small number of turns, which are written out: coordinates, small matrices.

Without them a loop around may be vectorised, and what they compute stays in registers.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from adcompiler.codegen.trees import walk
from adcompiler.passes.loops import SHORT

LARGEST = 1_500  # nodes of the text that a loop is written out to
FOLDING = 40_000  # where it asks which turn it is, as blocks of a Jacobian do: most of that is not there then
KNOWN = "written_out"
MOST = 32  # turns of such a loop and those inside


def short(loop: ast.AST) -> range | None:
    """The turns of a loop that is written out; None for any other. A loop remembers: it is asked often."""
    if not hasattr(loop, KNOWN):
        setattr(loop, KNOWN, _short(loop))
    found: range | None = getattr(loop, KNOWN)
    return found


def _short(loop: ast.AST) -> range | None:
    match loop:
        case ast.For(
            target=ast.Name(id=name),
            iter=ast.Call(
                func=ast.Name(id="range"),
                args=[
                    ast.Call(func=ast.Name(id="uint64"), args=[ast.Constant(value=int(first))]),
                    ast.Call(func=ast.Name(id="uint64"), args=[ast.Constant(value=int(stop))]),
                ],
            ),
            body=body,
        ) if stop - first <= SHORT:
            turns = range(first, stop)
            folds = len(turns) * _turns(body) <= MOST and _asks(body, name)
            return turns if len(turns) * _size(body) <= (FOLDING if folds else LARGEST) else None
    return None


def has_loops(body: Sequence[ast.stmt]) -> bool:
    """Whether loops remain when the short ones are written out."""
    nodes = (n for s in body for n in walk(s))
    return any(isinstance(n, ast.For | ast.While) and short(n) is None for n in nodes)


def _asks(body: Sequence[ast.stmt], turn: str) -> bool:
    """Whether a body compares the number of the turn with something."""
    compared = (n for s in body for n in walk(s) if isinstance(n, ast.Compare))
    return any(isinstance(n, ast.Name) and n.id == turn for c in compared for n in walk(c))


def _turns(body: Sequence[ast.stmt]) -> int:
    """How often the innermost of the short loops in a body is written."""
    inner = [(turns, s.body) for s in body if isinstance(s, ast.For) and (turns := short(s)) is not None]
    return max((len(turns) * _turns(s) for turns, s in inner), default=1)


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
            total += sum(1 for _ in walk(s))
    return total
