"""Vector statements of outer-loop vectorisation (`outer_vectorisation.py`), and array elements per lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from adcompiler.loopir.intrinsics import REDUCTIONS
from adcompiler.loopir.nodes import (
    BLOCK,
    Access,
    Call,
    Expr,
    For,
    Length,
    Node,
    Stmt,
    Store,
    Var,
    counted,
    literal,
)

LANE = ".v"  # what stands behind the names of variables that are vectors
COPY = "_copied"  # the axis of loops over what lanes have


@dataclass(eq=False, slots=True)
class Lanes(For):
    """A loop that runs `together`, where the variables of its iterations are vectors, or else its body. It
    adds to `totals` of the function, each by an operation, works on copies of the rows of some arrays, whose
    lengths are those of the axis given, and adds to arrays of which each lane has `sums` of its own: these
    are filled `before` it, and added up `after` it."""

    together: list[Stmt] = field(default_factory=list)
    before: list[Stmt] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)
    totals: dict[str, str] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    sums: list[str] = field(default_factory=list)

    @property
    def parts(self) -> Sequence[Node]:
        return *self.bounds, *self.body, *self.together, *self.before, *self.after


@dataclass(frozen=True, slots=True)
class Lane(Access):
    """An element for each lane: `row` tells whether the array has the lanes side by side, as rows and copies
    have, and `beside` whether the elements of any other are neighbours in memory. In a loop that each lane
    does `alone` it is the element of that lane."""

    row: bool = False
    beside: bool = False
    alone: bool = False


@dataclass(eq=False, slots=True)
class LaneByLane(Stmt):
    """A loop that lanes do one after the other, each with its own bounds: `start` and `stop` have those of
    all lanes. It reads the variables `names` of the lane."""

    start: Expr
    stop: Expr
    loop: For
    names: list[str]


@dataclass(eq=False, slots=True)
class LaneTotal(Store):
    """What all lanes add to one element of an array: a call of the element, and of what each lane has."""


@dataclass(eq=False, slots=True)
class LaneUpdate(Store):
    """The addition of each active lane to its own sum."""


def filled(name: str, how: str, rank: int) -> Stmt:
    """Loops that fill the sums of lanes with what they start from."""
    return all_over(name, rank, Store(Lane(name, axes(rank), row=True), literal(REDUCTIONS[how])))


def added_up(name: str, how: str, rank: int) -> Stmt:
    """Loops that add the sums of all lanes to those of the block."""
    spot = Access(name, (BLOCK, *axes(rank)))
    return all_over(name, rank, LaneTotal(spot, Call(how, (spot, Lane(name, axes(rank), row=True)))))


def axes(rank: int) -> tuple[Var, ...]:
    """The axes of loops over all elements of an array."""
    return tuple(Var(f"{COPY}{d}") for d in range(rank))


def all_over(name: str, rank: int, statement: Stmt) -> Stmt:
    """Loops over all elements that an array has for a block."""
    for d in reversed(range(rank)):
        statement = counted(f"{COPY}{d}", Length(name, d + 1), [statement])
    return statement
