"""What stands in the text of a kernel where turns are lanes (`lanes.py`): statements for all lanes, and the
elements of arrays that each lane has."""

from __future__ import annotations

import ast
from math import inf

from adcompiler.codegen.trees import parsed

LANE = ".v"  # what stands behind the names of variables that are vectors
TOTALS = {"reduce_add": 0.0, "reduce_max": -inf, "reduce_min": inf}  # sums, and what they start from
COPY = "_copied"  # the turn of loops over what lanes have


class Lanes(ast.For):
    """A loop that runs `together`, where the variables of its turns are vectors, or else its body. It adds to
    `totals` of the function, each by an operation, works on copies of the rows of some arrays, whose lengths
    are those of the axis given, and adds to arrays of which each lane has `sums` of its own: these are filled
    `before` it, and added up `after` it."""

    _fields = (*ast.For._fields, "together", "before", "after")
    together: list[ast.stmt]
    before: list[ast.stmt]
    after: list[ast.stmt]
    totals: dict[str, str]
    copies: dict[str, int]
    sums: list[str]


class Lane(ast.Subscript):
    """An element for each lane: `row` tells whether the array has the lanes side by side, as rows and copies
    have, and `beside` whether the elements of any other are neighbours in memory. In a loop that each lane
    does `alone` it is the element of that lane."""

    row: bool
    beside: bool
    alone: bool


class Alone(ast.stmt):
    """A loop that lanes do one after the other, each with its own bounds: `head` has those of all lanes. It
    reads the variables `names` of the lane."""

    _fields = ("head", "loop")
    head: ast.Call
    loop: ast.For
    names: list[str]


class Total(ast.Assign):
    """What all lanes add to one element of an array."""


class Kept(ast.Assign):
    """What each lane that has a turn adds to a sum of its own."""


def laned(name: str, index: ast.expr, ctx: ast.expr_context, row: bool, beside: bool = False) -> Lane:
    """An element of an array for each lane."""
    new = Lane(ast.Name(name, ast.Load()), index, ctx)
    new.row, new.beside, new.alone = row, beside, False
    return new


def filled(name: str, how: str, rank: int) -> ast.stmt:
    """Loops that fill the sums of lanes with what they start from."""
    own = laned(name, axes(rank), ast.Store(), row=True)
    return all_over(name, rank, ast.Assign([own], ast.Constant(TOTALS[how])))


def added_up(name: str, how: str, rank: int) -> ast.stmt:
    """Loops that add the sums of all lanes to those of the block."""
    spot = ast.Subscript(
        ast.Name(name, ast.Load()),
        ast.Tuple([ast.Name("block", ast.Load()), *axes(rank).elts], ast.Load()),
        ast.Load(),
    )
    own = laned(name, axes(rank), ast.Load(), row=True)
    return all_over(name, rank, Total([spot], ast.Call(ast.Name(how, ast.Load()), [spot, own], [])))


def axes(rank: int) -> ast.Tuple:
    """The turns of loops over all elements of an array."""
    return ast.Tuple([ast.Name(f"{COPY}{d}", ast.Load()) for d in range(rank)], ast.Load())


def all_over(name: str, rank: int, statement: ast.stmt) -> ast.stmt:
    """Loops over all elements that an array has for a block."""
    for d in reversed(range(rank)):
        text = f"for {COPY}{d} in range(uint64(0), uint64({name}.shape[{d + 1}])): pass"
        (loop,) = parsed(text).body
        assert isinstance(loop, ast.For)
        loop.body, statement = [statement], loop
    return statement
