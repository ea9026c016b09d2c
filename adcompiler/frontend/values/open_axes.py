"""Axes bound by comprehensions, and conditions inside them.

In `for i in range(n)` the index i is an axis that no array has yet: such *open* axes are `Index(-1)`,
`Index(-2)`, ..., inner ones below outer ones. A value is open in the axes that its element depends on. An
array made from an open element has those axes first, and is read at them. So comprehensions can nest freely,
and only names and reductions create arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, reduce

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.intervals import Range, facts_of, never_negative
from adcompiler.errors import Error, OutOfRangeError, Span
from adcompiler.frontend.values.blame import Blame
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
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

ZERO, ONE = const(0, "i64"), const(1, "i64")


@dataclass(frozen=True, slots=True)
class Opened:
    """Open axes, outermost first, and their lengths. Arrays of elements that are open in them have these axes
    first, and are read at them."""

    axes: tuple[int, ...]
    lengths: Shape

    @property
    def indices(self) -> tuple[Element, ...]:
        """The indices at which the arrays are read."""
        return tuple(map(Index, self.axes))

    def closed(self, element: Element) -> Element:
        """An element of such an array: its own axes come behind these."""
        places: dict[int, Element] = {k: Index(k + len(self.axes)) for k in element.axes if k >= 0}
        return substitute(element, places | {a: Index(p) for p, a in enumerate(self.axes)})

    def read(self, array: Array, shape: Shape) -> Read:
        """A read of such an array, whose own axes have the lengths `shape`."""
        return Read(array, self.indices + identity(shape))

    def greatest(self, element: Element) -> Element:
        """The greatest value of an element without axes of its own."""
        return Read(Reduce("max", (), self.lengths, self.closed(element)), ())


class Binders:
    """The open axes of a program being lowered, the conditions that hold, and checks to make."""

    def __init__(self, blame: Blame) -> None:
        self.blame = blame
        self.lengths: dict[int, Element] = {}
        self.ranges: dict[Element, Range] = {}
        self.path: list[Element] = []
        self.around: list[tuple[int | None, Element]] = []  # enclosing ranges: an open axis, and the length
        self.checks: list[Check] = []  # of the program, or of the iteration being lowered
        self.enclosing: list[Check] = []  # made before enclosing loops, and in their iterations
        # For each enclosing loop, whether the checks of earlier iterations hold, and its carried values.
        self.carrying: list[tuple[Array, list[Array]]] = []
        self.observed = False  # whether printed values are computed
        self.printed = 0  # the number of printed values
        self.tallies: list[Tally] = []
        self.certain: set[Element] = set()  # conditions that hold wherever the guarded code is computed

    def fresh(self, length: Element, last: Linear, step: int = 1) -> Element:
        """The index of a new axis; `step` times the index is at most `last`."""
        axis = -1 - len(self.lengths)
        self.lengths[axis] = length
        index = ZERO if is_const(length, 1) else Index(axis)
        self.know(index, last, step)
        return index

    def know(self, index: Element, last: Linear, step: int = 1) -> None:
        """Record that `step` times an index is at most `last`."""
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
        """Code lowered inside is discarded: it leaves no checks, and prints nothing."""
        checks, tallies = len(self.checks), len(self.tallies)
        try:
            yield
        finally:
            del self.checks[checks:], self.tallies[tallies:]

    def doubtful(self, axes: Iterable[int]) -> list[Element]:
        """The enclosing conditions that may fail where the guarded code is computed anyway, if they depend on
        no other open axes than `axes`."""
        return [c for c in self.path if c not in self.certain and set(open_axes(c)) <= set(axes)]

    # -- arrays of open elements -----------------------------------------------------------------

    def opened(self, *elements: Element, also: Iterable[int] = ()) -> Opened:
        """The open axes that elements depend on, and `also` others."""
        axes = sorted({a for e in elements for a in open_axes(e)}.union(also), reverse=True)
        return Opened(tuple(axes), tuple(self.lengths[a] for a in axes))

    def enclose(self, make: Callable[[Shape, Element], Array], shape: Shape, element: Element) -> Read:
        """A read of the array that `make` creates from a shape and a possibly open element."""
        lead = self.opened(element)
        return lead.read(make(lead.lengths + shape, lead.closed(element)), shape)

    # -- facts and checks --------------------------------------------------------------------------

    def sure(self, form: Linear, shape: Shape = ()) -> bool:
        """Whether a form is known to be nonnegative here; `shape` gives the lengths of a value's own axes."""
        facts = [fact for condition in self.path for fact in facts_of(condition)]
        return never_negative(form, self.within(shape), facts)

    def within(self, shape: Shape) -> dict[Element, Range]:
        """The ranges of the enclosing indices, and of a value's own axes of lengths `shape`."""
        own = enumerate(shape)
        return self.ranges | {
            Index(k): Range(linear(n) - linear_constant(1), 1, len(self.ranges) + 1) for k, n in own
        }

    def inside(self, axis: int | None, length: Element) -> None:
        """Code lowered from now on runs once per index below a length, or not at all."""
        self.around.append((axis, length))

    def reach(self) -> Element | None:
        """1 if no enclosing range is empty, 0 if one is; None if lengths alone do not decide."""
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
        """Require that `holds` is true at all points where the current code runs."""
        happens = list(self.path)
        own = holds.axes.union(*(c.axes for c in happens))
        for axis, length in self.around:  # nothing runs in an empty range
            if axis is not None and axis not in own and not _is_positive(length):
                happens.append(apply("greater", length, ZERO))
        bit = select(holds, ONE, ZERO)
        if happens:  # as the outermost condition, it bounds the loops of the check
            happening = reduce(partial(apply, "logical_and"), happens)
            bit = select(happening, bit, neutral("min", bit.dtype))
        axes = sorted(bit.axes)
        lengths = tuple(self.lengths[a] if a < 0 else shape[a] for a in axes)
        body = substitute(bit, {a: Index(p) for p, a in enumerate(axes)})
        array = Reduce("min", (), lengths, body) if axes else Map((), body)
        cause = self.blame.cause(cause)
        if not any(c.holds is array and c.cause == cause for c in self.checks):
            self.checks.append(Check(array, cause, remedy, self.blame.place(span), error))


def _is_positive(length: Element) -> bool:
    return isinstance(length, Const) and length.value > 0


def open_axes(element: Element) -> list[int]:
    """The open axes that an element depends on, outermost first."""
    return sorted((a for a in element.axes if a < 0), reverse=True)
