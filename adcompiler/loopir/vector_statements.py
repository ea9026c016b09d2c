"""Vector statements of outer-loop vectorisation (`outer_vectorisation.py`), and array elements per lane."""

from __future__ import annotations

from dataclasses import field

from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.intrinsics import REDUCTIONS
from adcompiler.loopir.nodes import (
    BLOCK,
    Access,
    Call,
    Expr,
    For,
    Length,
    Stmt,
    Store,
    Var,
    counted,
    literal,
)

LANE = ".v"  # the suffix of variables that are vectors
COPY = "_copied"  # the axis of loops over the data of lanes


@dataclass(eq=False, slots=True)
class Lanes(For):
    """A loop that runs `together`, where the variables of its iterations are vectors, or else its body. It
    reduces into `totals` of the function, each with an operation. It works on copies of the rows of some
    arrays; `copies` has the axis of each row. It adds to arrays of which each lane has a copy, `sums`: these
    are filled `before` the loop, and added up `after` it."""

    together: list[Stmt] = field(default_factory=list)
    before: list[Stmt] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)
    totals: dict[str, str] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    sums: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lane(Access):
    """An element per lane: `row` tells whether the lanes are adjacent in the array, as in rows and copies,
    and `beside` whether the elements of another array are adjacent in memory. In a loop that each lane runs
    `alone` it is the element of that lane."""

    row: bool = False
    beside: bool = False
    alone: bool = False


@dataclass(eq=False, slots=True)
class LaneByLane(Stmt):
    """A loop that lanes run one after the other, each with its own bounds: `start` and `stop` have those of
    all lanes. It reads the variables `names` of the lane."""

    start: Expr
    stop: Expr
    loop: For
    names: list[str]


@dataclass(eq=False, slots=True)
class LaneTotal(Store):
    """An update of one element of an array by all lanes: a call with the element and the values of the
    lanes."""


@dataclass(eq=False, slots=True)
class LaneUpdate(Store):
    """An update by each active lane of its own sum."""


def filled(name: str, how: str, rank: int) -> Stmt:
    """Loops that initialise the sums of lanes."""
    return all_over(name, rank, Store(Lane(name, axes(rank), row=True), literal(REDUCTIONS[how])))


def added_up(name: str, how: str, rank: int) -> Stmt:
    """Loops that add the sums of all lanes to those of the block."""
    spot = Access(name, (BLOCK, *axes(rank)))
    return all_over(name, rank, LaneTotal(spot, Call(how, (spot, Lane(name, axes(rank), row=True)))))


def axes(rank: int) -> tuple[Var, ...]:
    """The axes of loops over all elements of an array."""
    return tuple(Var(f"{COPY}{d}") for d in range(rank))


def all_over(name: str, rank: int, statement: Stmt) -> Stmt:
    """Loops over all elements of an array that belong to a block."""
    for d in reversed(range(rank)):
        statement = counted(f"{COPY}{d}", Length(name, d + 1), [statement])
    return statement
