"""Axes that comprehensions bind, and conditions that hold inside them.

In `for i in range(n)` the index i is an axis that no array has yet: such *open* axes are `Index(-1)`,
`Index(-2)`, ..., the inner ones below the outer ones. A value is open in the axes that its element
depends on. An array that is made of an open element has those axes as its first ones, and is read at
them. Comprehensions can therefore nest freely, and only names and reductions make arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, reduce

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.intervals import Range, facts_of, never_negative
from adcompiler.errors import Error, OutOfRangeError, Span
from adcompiler.frontend.values.values import Tally
from adcompiler.ir.nodes import (
    Array,
    Check,
    Const,
    Element,
    Index,
    Map,
    Read,
    Reduce,
    Shape,
    const,
    identity,
    is_const,
    neutral,
    select,
)
from adcompiler.ir.walk import is_computed, substitute
from adcompiler.ops.build import apply

ZERO, ONE = const(0, "i64"), const(1, "i64")


class Binders:
    """The open axes of a program that is lowered, the conditions that hold, and checks to be made."""

    def __init__(self) -> None:
        self.lengths: dict[int, Element] = {}
        self.ranges: dict[Element, Range] = {}
        self.path: list[Element] = []
        self.around: list[tuple[int | None, Element]] = []  # the ranges around: an open axis, and the length
        self.checks: list[Check] = []  # of the program, or of the iteration that is lowered
        self.enclosing: list[Check] = []  # made before the loops around it, and in their iterations
        # Whether the checks of earlier iterations hold, of each loop around, and what it carries.
        self.carrying: list[tuple[Array, list[Array]]] = []
        self.observed = False  # whether what is printed is computed
        self.printed = 0  # how many things are printed
        self.tallies: list[Tally] = []
        self.certain: set[Element] = set()  # conditions that hold wherever what they govern is computed

    def fresh(self, length: Element, last: Linear, step: int = 1) -> Element:
        """The index of a new axis; `step` times the index is at most `last`."""
        axis = -1 - len(self.lengths)
        self.lengths[axis] = length
        index = ZERO if is_const(length, 1) else Index(axis)
        self.know(index, last, step)
        return index

    def know(self, index: Element, last: Linear, step: int = 1) -> None:
        """Remember that `step` times an index is at most `last`."""
        if not is_const(index):
            self.ranges[index] = Range(last, step, len(self.ranges) + 1)

    @contextmanager
    def under(self, *conditions: Element) -> Iterator[None]:
        """Code lowered inside runs under the conditions."""
        count = len(self.path)
        self.path.extend(conditions)
        try:
            yield
        finally:
            del self.path[count:]

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Code lowered inside is not part of the program: it leaves no checks, and prints nothing."""
        checks, tallies = len(self.checks), len(self.tallies)
        try:
            yield
        finally:
            del self.checks[checks:], self.tallies[tallies:]

    def doubtful(self, axes: Iterable[int]) -> list[Element]:
        """The conditions around that may not hold where what they govern is computed all the same; those
        that depend on no other open axes than `axes`."""
        return [c for c in self.path if c not in self.certain and set(open_axes(c)) <= set(axes)]

    # -- arrays of open elements -----------------------------------------------------------------

    def enclose(self, make: Callable[[Shape, Element], Array], shape: Shape, element: Element) -> Read:
        """The read of an array that `make` makes of a shape and an element that may be open."""
        lead = open_axes(element)
        if not lead:
            return Read(make(shape, element), identity(shape))
        moved: dict[int, Element] = {k: Index(k + len(lead)) for k in element.axes if k >= 0}
        moved |= {a: Index(p) for p, a in enumerate(lead)}
        outer = tuple(self.lengths[a] for a in lead)
        array = make(outer + shape, substitute(element, moved))
        return Read(array, tuple(Index(a) for a in lead) + identity(shape))

    # -- what is known and what must be checked ----------------------------------------------------

    def sure(self, form: Linear, shape: Shape = ()) -> bool:
        """Whether a form is never negative here; `shape` are the lengths of a value's own axes."""
        facts = [fact for condition in self.path for fact in facts_of(condition)]
        return never_negative(form, self.within(shape), facts)

    def within(self, shape: Shape) -> dict[Element, Range]:
        """The ranges of the indices around, and of a value's own axes of lengths `shape`."""
        own = enumerate(shape)
        return self.ranges | {
            Index(k): Range(linear(n) - linear_constant(1), 1, len(self.ranges) + 1) for k, n in own
        }

    def inside(self, axis: int | None, length: Element) -> None:
        """Code lowered from now on runs once for each index below a length, or not at all."""
        self.around.append((axis, length))

    def reach(self) -> Element | None:
        """1 if no range around is empty, 0 if one is; None if that takes more than lengths to tell."""
        reached: Element = ONE
        for _, length in self.around:
            if is_const(length):
                reached = reached if _is_positive(length) else ZERO
            elif length.axes or is_computed(length):
                return None
            else:
                some = apply("minimum", length, ONE)
                reached = some if reached is ONE else apply("multiply", reached, some)
        return reached

    def check(
        self,
        holds: Element,
        shape: Shape,
        cause: str,
        remedy: str,
        span: Span | None,
        error: type[Error] = OutOfRangeError,
    ) -> None:
        """Demand that `holds` is true at all points where what is lowered now happens."""
        happens = list(self.path)
        own = holds.axes.union(*(c.axes for c in happens))
        for axis, length in self.around:  # nothing happens in an empty range
            if axis is not None and axis not in own and not _is_positive(length):
                happens.append(apply("greater", length, ZERO))
        bit = select(holds, ONE, ZERO)
        if happens:  # said first of all, it bounds the loops that find out
            happening = reduce(partial(apply, "logical_and"), happens)
            bit = select(happening, bit, neutral("min", bit.dtype))
        axes = sorted(bit.axes)
        lengths = tuple(self.lengths[a] if a < 0 else shape[a] for a in axes)
        body = substitute(bit, {a: Index(p) for p, a in enumerate(axes)})
        array = Reduce("min", (), lengths, body) if axes else Map((), body)
        if not any(c.holds is array and c.cause == cause for c in self.checks):
            self.checks.append(Check(array, cause, remedy, span, error))


def _is_positive(length: Element) -> bool:
    return isinstance(length, Const) and length.value > 0


def open_axes(element: Element) -> list[int]:
    """The open axes that an element depends on, outermost first."""
    return sorted((a for a in element.axes if a < 0), reverse=True)
