"""The loops that transforms make, by the transform: jammed ones, tiled ones, and those of lanes with the
statements and array elements in them."""

from __future__ import annotations

from collections.abc import Iterator
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
class Jam(For):
    """A loop that runs `together` for consecutive iterations, whose variables are `axes`, and its body for
    the remaining ones."""

    together: list[Stmt] = field(default_factory=list)
    axes: list[str] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Tiled(For):
    """A loop that runs one tile of its innermost loop after the other."""

    @property
    def inner(self) -> For:
        """The innermost loop."""
        return list(chain(self))[-1]

    def over(self, first: str, stop: str) -> For:
        """The loop with its innermost one restricted to the range between two variables."""
        return _narrowed(self, Var(first), Var(stop))


def chain(loop: For) -> Iterator[For]:
    """A loop and those nested in it, as long as each ends with the next one."""
    yield loop
    last = loop.body[-1] if loop.body else None
    if type(last) is For:
        yield from chain(last)


def _narrowed(loop: For, start: Expr, stop: Expr) -> For:
    """A loop with other bounds of its innermost loop."""
    *before, last = loop.body
    if type(last) is not For:
        return For(loop.axis, start, stop, loop.body, mark=loop.mark)
    return For(loop.axis, loop.start, loop.stop, [*before, _narrowed(last, start, stop)], mark=loop.mark)


@dataclass(eq=False, slots=True)
class Lanes(For):
    """A loop that runs `together`, where the variables of its iterations are vectors, or else its body. It
    reduces into `totals` of the function, each with an operation. It works on copies of the rows of some
    arrays; `copies` has the axis of each row. It adds to arrays of which each lane has a copy, `sums`: these
    are filled `before` the loop, and added up `after` it. If it has `few` lengths, it runs `together` only
    where these are at `most` so large. An iteration is a lane of one of `vectors` vectors; the iterations of
    the loop are those `of_block`, or of a loop inside."""

    together: list[Stmt] = field(default_factory=list)
    before: list[Stmt] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)
    totals: dict[str, str] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    sums: list[str] = field(default_factory=list)
    few: list[Expr] = field(default_factory=list)
    most: int = 0
    vectors: int = 1
    of_block: bool = True


@dataclass(frozen=True, slots=True)
class Lane(Access):
    """An element per lane: `row` tells whether the lanes are adjacent in the array, as in rows and copies,
    of which each lane may read an element `apart` from those of the others, and `beside` whether the elements
    of another array are adjacent in memory. In a loop that each lane runs `alone` it is the element of that
    lane."""

    row: bool = False
    beside: bool = False
    apart: bool = False
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
class LaneRange(For):
    """A loop that lanes run together, each between bounds of its own: the start and the stop are vectors."""


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
