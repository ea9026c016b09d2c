"""Size symbols during lowering: one per axis of each argument, merged if axes must agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from adcompiler.analysis.affine import linear
from adcompiler.errors import Error, OutOfRangeError, ShapeError, Span
from adcompiler.frontend.values.blame import Blame
from adcompiler.ir.nodes import Apply, Const, Element, Func, Input, Read, Shape, Size, is_const
from adcompiler.ir.walk import Resized, elements_of, is_computed, rewrite
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

BROADCAST = "lengths must be equal or 1"
NOT_NEGATIVE = "lengths must be 0 or more"


@dataclass(frozen=True, slots=True)
class Constraint:
    """Two lengths that must be equal (or, for `at_least`, the left one no smaller); `what` describes the
    reason in terms of the user's program. A `merged` constraint holds if the lengths of merged symbols
    agree."""

    left: Element
    right: Element
    what: str
    span: Span | None
    remedy: str
    merged: bool = True
    at_least: bool = False
    reach: Element | None = None  # if this length is 0, nothing is required


class Sizes:
    """A union-find over size symbols that records why two of them were merged.

    Requirements on computed lengths are checked `by_value`, like indices."""

    def __init__(
        self, by_value: Callable[[Element, Shape, str, str, Span | None, type[Error]], None], blame: Blame
    ) -> None:
        self.by_value, self.blame = by_value, blame
        self.parent: list[Element] = []
        self.owners: list[str] = []
        self.named: dict[str, Element] = {}
        self.constraints: list[Constraint] = []
        self.whole: dict[Input, str] = {}  # the scalar int64 inputs and their names
        self.counts: dict[Input, Size] = {}
        self.single: set[Element] = set()  # lengths of slices that are 1 by construction, or 0

    def fresh(self, owner: str) -> Size:
        """A new symbol: the length of `owner`, a description of an axis."""
        size = Size(len(self.parent))
        self.parent.append(size)
        self.owners.append(owner)
        return size

    def of_input(self, element: Element) -> Element:
        """The symbol for the value of an int64 input of rank 0; other elements unchanged."""
        if not (isinstance(element, Read) and element.array in self.whole):
            return element
        given = element.array
        assert isinstance(given, Input)
        if given not in self.counts:
            self.counts[given] = self.fresh(f"the value of {self.whole[given]}")
        return self.counts[given]

    def describe(self, size: Element) -> str:
        """A description of a length: its value if known, and its axis."""
        known = self.find(size)
        if not isinstance(known, Size | Const):
            return "a computed length"
        text = str(known.value) if isinstance(known, Const) else ""
        return f"{text} ({self.owners[size.number]})".strip() if isinstance(size, Size) else text

    def find(self, size: Element) -> Element:
        """The symbol or constant that `size` was merged into, or the length that it was defined as."""
        while isinstance(size, Size) and self.parent[size.number] is not size:
            size = self.parent[size.number]
        if isinstance(size, Size | Const):
            return size
        return rewrite((size,), lambda e: self.find(e) if isinstance(e, Size) else e)[0]

    def found(self, shape: Shape) -> Shape:
        """A shape with the symbols and constants that its sizes were merged into."""
        return rewrite(shape, self.find)

    def same(self, left: Element, right: Element) -> bool:
        """Whether two sizes are known to be equal."""
        return self.find(left) is self.find(right)

    def fits(self, left: Element, right: Element) -> bool:
        """Whether two lengths may be equal: one that is 1 and one of an axis, whose symbol is never 1, are
        not."""
        a, b = self.find(left), self.find(right)
        return unit(a) == unit(b) or not isinstance(a if unit(b) else b, Size | Const)

    def demand(
        self, size: Element, least: Element, what: str, span: Span | None, reach: Element | None = None
    ) -> None:
        """Require that a size is at least `least`, unless `reach` is 0."""
        remedy = "the index must be inside the axis"
        self.require(Constraint(size, least, what, span, remedy, False, True, reach))

    def require(self, wanted: Constraint) -> None:
        """Require something of lengths not known at compile time."""
        if not (is_computed(wanted.left) or is_computed(wanted.right)):
            self._record(wanted)
        elif wanted.at_least:
            holds = apply("less_equal", wanted.right, wanted.left)
            if is_const(wanted.right, 0):
                self._check(replace(wanted, remedy=NOT_NEGATIVE), holds, "it is negative", ShapeError)
            else:
                self._check(wanted, holds, "an axis is too short", OutOfRangeError)
        else:
            self._check(wanted, apply("equal", wanted.left, wanted.right), "two lengths differ", ShapeError)

    def _record(self, wanted: Constraint) -> None:
        what, span = self.blame.cause(wanted.what), self.blame.place(wanted.span)
        self.constraints.append(replace(wanted, what=what, span=span))

    def _check(self, wanted: Constraint, holds: Element, cause: str, error: type[Error]) -> None:
        self.by_value(holds, (), f"{wanted.what}: {cause}", wanted.remedy, wanted.span, error)

    def merge(
        self, left: Element, right: Element, what: str, span: Span | None, remedy: str = BROADCAST
    ) -> bool:
        """Require that two sizes are equal; False if they are known to differ."""
        a, b = self.find(left), self.find(right)
        whole, other = self.without_one(a), self.without_one(b)
        if whole is not None and other is not None:
            a, b = whole, other
        if a is b:
            return True
        if not all(isinstance(n, Size | Const) for n in (a, b)):
            if not _alike(a, b):
                self.require(Constraint(left, right, what, span, remedy, merged=False))
            return True
        if isinstance(b, Size) and (not isinstance(a, Size) or a.number < b.number):
            a, b = b, a
        if not isinstance(a, Size):
            return False
        self._record(Constraint(left, right, what, span, remedy))
        self.parent[a.number] = b
        return True

    def define(self, size: Element, length: Element, what: str, span: Span | None, remedy: str) -> bool:
        """Let the symbol of an axis be a length computed from other axes; False if it is none of these."""
        own, whole = self.find(size), self.find(length)
        if not isinstance(own, Size) or own in self.counts.values() or isinstance(whole, Size | Const):
            return False
        inside = elements_of((whole,))
        if own in inside or is_computed(whole) or any(e in self.counts.values() for e in inside):
            return False
        self._record(Constraint(length, size, what, span, remedy))
        self.parent[own.number] = whole
        return True

    def without_one(self, length: Element) -> Size | None:
        """The axis of which x[1:] or x[:-1] leaves out one element. Two such lengths are equal if the axes
        are, because a symbol of an axis is never 1."""
        match length:
            case Apply(op="maximum", args=(Apply(op="subtract", args=(size, one)), zero)):
                size = self.find(size)
                if is_const(one, 1) and is_const(zero, 0) and isinstance(size, Size):
                    return None if size in self.counts.values() else size
        return None


def _alike(left: Element, right: Element) -> bool:
    """Whether two computed lengths are equal, like 1 + k - 1 and k."""
    if not (is_computed(left) and is_computed(right)):
        return False
    one, other = rewrite((left, right), lambda e: linear(e).element() if e.dtype == "i64" else e)
    return one is other


def renumbered(constraints: Iterable[Constraint], number: Callable[[int], int]) -> tuple[Constraint, ...]:
    """Constraints with renumbered size symbols."""

    def moved(size: Element) -> Element:
        return rewrite((size,), lambda e: Size(number(e.number)) if isinstance(e, Size) else e)[0]

    return tuple(
        replace(
            c, left=moved(c.left), right=moved(c.right), reach=None if c.reach is None else moved(c.reach)
        )
        for c in constraints
    )


def with_inputs(constraints: Sequence[Constraint], of: Func, more: Func) -> tuple[Constraint, ...]:
    """Constraints of a program in terms of one with additional inputs: the axes of these come before the
    values of integers."""
    own, all_axes = _axes(of), _axes(more)
    return renumbered(constraints, lambda k: k if k < own else k + all_axes - own)


def _axes(func: Func) -> int:
    """The number of input axes with a symbol."""
    return sum(not is_const(n, 1) for i in func.inputs for n in i.shape)


def settle(func: Func, sizes: Sizes) -> Func:
    """`func` with each class of equal sizes as one symbol, numbered by first appearance in the inputs."""
    order: dict[Element, Size] = {}
    for found in (sizes.find(n) for i in func.inputs for n in i.shape):
        if isinstance(found, Size):
            order.setdefault(found, Size(len(order)))
    for count in sizes.counts.values():
        order.setdefault(count, Size(len(order)))
    for found in (sizes.find(n) for i in func.inputs for n in i.shape):
        for size in elements_of((found,)):  # of a defined length
            if isinstance(size, Size):
                order.setdefault(size, Size(len(order)))
    all_found = [sizes.find(Size(k)) for k in range(len(sizes.parent))]
    settled = rewrite(all_found, lambda e: order.get(e, e))
    mapping = {Size(k): found for k, found in enumerate(settled)}
    counts = tuple((order[size].number, given.position) for given, size in sizes.counts.items())
    made = Resized(mapping).func(func)
    return made.with_(size_names=_names(list(order), sizes), counts=counts)


def _names(order: Sequence[Element], sizes: Sizes) -> tuple[str, ...]:
    """Annotated names first, the others from n, m, k, ..."""
    given = {sizes.find(size): name for name, size in reversed(sizes.named.items())}
    free = (name for name in canonical_names() if name not in sizes.named)
    return tuple(given[size] if size in given else next(free) for size in order)


def canonical_names() -> list[str]:
    """The names of sizes that the user did not name, in order."""
    return [*"nmkpqrstuvw", *(f"n{i}" for i in range(2, 200))]


def unit(size: Element) -> bool:
    """Whether a size is the constant 1."""
    return is_const(size, 1)
