"""Loops with low trip counts in the turns of a program's loops: a kernel of its own, which lengths choose.

LLVM makes innermost loops for long arrays: whole vectors, several at a time, and what is left one by one.
Where the state of a recurrence is a few numbers, as in most filters and small systems, none of that runs,
and to make it takes most of the time of compiling.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence

from adcompiler.codegen.llvm.turns import is_of_program, mentions, turn_of
from adcompiler.codegen.trees import parsed, walk

LOW = 8  # turns of an innermost loop; from 12 on kernels for long ones are faster
WIDTH = 4  # lanes of its vectors
FUNCTIONS = {"range", "uint64", "min", "max"}


def are_low(text: str, sizes: Sequence[str]) -> Callable[[Sequence[int]], bool] | None:
    """Whether all loops in the turns of a kernel's text are short, by the sizes of a call; None if there are
    none, or their lengths are not known before it runs."""
    inner = [loop for turn in _turns(parsed(text)) for loop in _inside(turn)]
    known = {*sizes, *map(turn_of, inner)}
    used = {n.id for loop in inner for n in walk(loop.iter) if isinstance(n, ast.Name)} - FUNCTIONS
    places = [k for k, size in enumerate(sizes) if size in used]
    if not places or not used <= known:
        return None
    return lambda given: all(given[k] <= LOW for k in places)


def _turns(tree: ast.AST) -> Iterator[ast.For | ast.While]:
    """The loops of the program."""
    for node in walk(tree):
        if isinstance(node, ast.While) or (isinstance(node, ast.For) and is_of_program(turn_of(node))):
            yield node


def _inside(turn: ast.For | ast.While) -> Iterator[ast.For]:
    """The loops over elements in a turn."""
    for node in (n for s in turn.body for n in walk(s)):
        if isinstance(node, ast.For) and not is_of_program(turn_of(node)):
            yield node


def have_no_order(turn: str, body: Sequence[ast.stmt], changing: Collection[str]) -> bool:
    """Whether the turns of a loop store elements of their own, or add where the order of additions is free. A
    demand for vectors is leave for LLVM to change that order everywhere."""
    return all(_has_no_order(turn, statement, changing) for statement in body)


def _has_no_order(turn: str, statement: ast.stmt, changing: Collection[str]) -> bool:
    match statement:
        case (
            ast.Assign(targets=[ast.Subscript(slice=place)])
            | ast.AugAssign(target=ast.Subscript(slice=place))
        ):
            return mentions(place, [turn])
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Name(id=function), args=[ast.Name(id=same), _]),
        ) if name == same:
            return function.startswith("reduce_")
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name not in changing
    return False
