"""Contractions in a kernel: tiles of a matrix product, whose factors are packed from any expression.

    for each tile of rows and columns:
        for each part of the terms:
            pack rows and columns of this part: the values of both factors, side by side
            multiply them (`targets/llvm/runtime/gemm.py`), and add the product to that of the parts before
        store the tile in the result

So no matrix of all windows of an image is ever stored. Rows, columns and terms are groups of axes, each
counted as one. The innermost loop of packing goes along the axis that is contiguous in memory, and conditions
that are intervals of it, such as those of padding, cut its range: nothing is tested for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import NamedTuple

from adcompiler.analysis.affine import linear, linear_constant
from adcompiler.analysis.intervals import facts_of
from adcompiler.analysis.predicates import guarded
from adcompiler.ir.nodes import Const, Contraction, Element, Index, Read, Shape, const, is_const, select
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.ir.walk import elements_of
from adcompiler.kernels.emit.writer import BRANCH_AXIS, Writer, axis_name, zero
from adcompiler.kernels.limits import LINE_BYTES, WHOLE_PLACES
from adcompiler.kernels.routines.library import TERMS, TILE, WIDE
from adcompiler.kernels.schedule.schedule_tree import Bound, Loop
from adcompiler.loopir.nodes import (
    Access,
    Allocate,
    Binary,
    Call,
    Choice,
    Compare,
    Expr,
    For,
    If,
    Invoke,
    Logical,
    Store,
    Var,
    all_of,
    literal,
    unsigned,
)
from adcompiler.ops.build import apply, product

Axes = tuple[int, ...]
LEFT, RIGHT, TILED = "_left", "_right", "_tile"  # the local arrays: packed factors, and their product
ONE = const(1, "i64")


class Part(NamedTuple):
    """Some consecutive places of a group of axes that is counted as one: from `first` on, before `stop`. It
    has all places of the last axes, of short lengths; the first `cut` axes may have some of theirs only."""

    axes: Axes
    cut: int
    first: Expr
    stop: Expr


class Tiles:
    """The tiles of a contraction: its axes as cases, rows, columns and terms, and the factor of each side.
    The last axis of the result is a column, so that rows of a tile are stored side by side."""

    def __init__(self, made: Contraction) -> None:
        self.made, self.domain = made, made.domain
        self.left, self.right = 0, 1  # the numbers of the factors
        axes = [k for k, n in enumerate(self.domain) if not is_const(n, 1)]
        kept = [k for k in axes if k < made.rank]
        both = made.left.axes & made.right.axes
        ends = [k for k in kept if k not in both]
        if ends and ends[-1] in made.left.axes:
            self.left, self.right = 1, 0
        other = made.elements[self.right].axes
        self.cases = tuple(k for k in kept if k in both)
        self.rows = tuple(k for k in ends if k not in other)
        self.columns = tuple(k for k in ends if k in other)
        self.terms = self._along([k for k in axes if k >= made.rank])

    def _along(self, terms: Sequence[int]) -> Axes:
        """The axes of the terms, last the one along which the factors are contiguous."""
        found = [contiguous(e, self.domain) for e in self.made.elements]
        votes = [k for k in found if k is not None and k in terms]
        last = min(votes, key=lambda k: isinstance(self.domain[k], Const), default=None)
        return tuple(sorted(terms, key=lambda k: (k == last, isinstance(self.domain[k], Const))))

    def length(self, axes: Axes) -> Element:
        """The length of a group of axes."""
        return product(self.domain[k] for k in axes) if axes else ONE

    @property
    def count(self) -> Element:
        """The number of tiles."""
        sides = self._tiles(self.rows, TILE), self._tiles(self.columns, WIDE)
        return product([*(self.domain[k] for k in self.cases), *sides])

    def whole(self, axes: Axes) -> tuple[int, int]:
        """How many axes of a group come before those that parts have all places of, and the number of these
        places."""
        cut, places = len(axes), 1
        while (
            cut
            and isinstance(size := self.domain[axes[cut - 1]], Const)
            and places * size.value <= WHOLE_PLACES
        ):
            cut, places = cut - 1, places * max(int(size.value), 1)
        return cut, places

    def most(self, axes: Axes, limit: int) -> int:
        """The places of a part of a group, at most `limit`."""
        _, places = self.whole(axes)
        return limit // places * places

    def _tiles(self, axes: Axes, limit: int) -> Element:
        most = self.most(axes, limit)
        above = apply("add", self.length(axes), const(most - 1, "i64"))
        return apply("floor_divide", above, const(most, "i64"))

    @property
    def points(self) -> Shape:
        """The points of a tile."""
        groups = (self.rows, TILE), (self.columns, WIDE)
        sides = (apply("minimum", self.length(axes), const(most, "i64")) for axes, most in groups)
        return *sides, self.length(self.terms)

    # -- the nest ------------------------------------------------------------------------------

    def write(self, writer: Writer, elements: Sequence[Element]) -> None:
        """Write the tiles from `start` to `stop`, of two factors."""
        number, dtype = len(self.domain), self.made.dtype
        factors = elements[self.left], elements[self.right]
        inner = [self.inner(e, own) for e, own in zip(factors, (self.rows, self.columns), strict=True)]
        line = LINE_BYTES // NUMPY[dtype].itemsize  # rows begin in different sets of a cache
        left = (TERMS, TILE + line) if inner[0] in self.rows else (TILE, TERMS + line)
        right = (WIDE, TERMS + line) if inner[1] in self.terms else (TERMS, WIDE + line)
        for name, shape in ((LEFT, left), (RIGHT, right), (TILED, (TILE, WIDE))):
            writer.own.add(name)
            writer.add(Allocate(name, dtype, tuple(map(literal, shape))))
        sides = "nt"[inner[0] in self.rows] + "nt"[inner[1] in self.terms]
        op = "library_tile" + ("" if sides == "nn" else f"_{sides}")
        start, end = Var("start"), Var("stop")
        high = writer.written(self._tiles(self.rows, TILE))
        wide = writer.written(self._tiles(self.columns, WIDE))
        size, most = self.length(self.terms), literal(self.most(self.terms, TERMS))
        times = Var(writer.assign(Call("max", (_quotient(writer.written(size), most), literal(1)))))
        writer.open(Loop(self.count, number), For(axis_name(number), unsigned(start), unsigned(end)))
        place, column = self.split(writer, index(number), wide)
        place, row = self.split(writer, place, high)
        first = Compare("==", index(number), start)
        with self.case(writer, place):
            rows = self.part(writer, self.rows, row, TILE)
            columns = self.part(writer, self.columns, column, WIDE)
            writer.open(
                Loop(size, number + 1), For(axis_name(number + 1), unsigned(literal(0)), unsigned(times))
            )
            terms = self.part(writer, self.terms, index(number + 1), TERMS)
            # One part of all terms that the tile before has is packed already.
            several = Compare(">", times, literal(1))
            again = any_of((several, first, Compare("==", column, literal(0))))
            with self.if_needed(writer, again):
                self.pack(writer, LEFT, factors[0], rows, inner[0], terms)
            again = any_of((several, first, Compare("==", row, literal(0)), Compare(">", wide, literal(1))))
            with self.if_needed(writer, again):
                self.pack(writer, RIGHT, factors[1], columns, inner[1], terms)
            counts = (Binary("-", p.stop, p.first) for p in (rows, columns, terms))
            writer.add(Invoke(op, (Var(LEFT), Var(RIGHT), Var(TILED), *counts, terms.first)))
            writer.close()
            self.store(writer, rows, columns)
        writer.close()

    @contextmanager
    def if_needed(self, writer: Writer, test: Expr) -> Iterator[None]:
        """Write the body under a condition."""
        writer.open(Loop(const(0, "i64"), BRANCH_AXIS), If(test))
        yield
        writer.close()

    def inner(self, element: Element, own: Axes) -> int | None:
        """The axis of the innermost loop that packs a factor: the last of its own or of the terms."""
        last = [group[-1] for group in (own, self.terms) if group]
        found = contiguous(element, self.domain)
        return found if found in last else next(iter(last), None)

    def split(self, writer: Writer, place: Expr, length: Expr) -> tuple[Expr, Expr]:
        """A number as quotient and remainder."""
        return Var(writer.assign(Binary("//", place, length))), Var(writer.assign(Binary("%", place, length)))

    @contextmanager
    def case(self, writer: Writer, place: Expr) -> Iterator[None]:
        """Enter one case."""
        found: list[tuple[int, Expr]] = []
        for k in reversed(self.cases):
            place, own = self.split(writer, place, writer.written(self.domain[k]))
            found.append((k, own))
        for k, own in reversed(found):
            after = Binary("+", own, literal(1))
            writer.open(Loop(self.domain[k], k), For(axis_name(k), unsigned(own), unsigned(after)))
        yield
        for _ in found:
            writer.close()

    def part(self, writer: Writer, axes: Axes, number: Expr, most: int) -> Part:
        """A part of a group of axes, of at most so many places."""
        most = self.most(axes, most)
        first = Var(writer.assign(Binary("*", number, literal(most))))
        size = writer.written(self.length(axes))
        stop = Var(writer.assign(Call("min", (Binary("+", first, literal(most)), size))))
        return Part(axes, self.whole(axes)[0], first, stop)

    # -- loops over a part ---------------------------------------------------------------------

    def limits(self, writer: Writer, part: Part, depth: int, base: Expr | None) -> tuple[Expr, Expr]:
        """The places of an axis of a part, where those before it are at `base`."""
        if depth >= part.cut > 0:
            return literal(0), writer.written(self.domain[part.axes[depth]])
        stride = self.stride(writer, part, depth)
        first, stop = (p if base is None else Binary("-", p, base) for p in (part.first, part.stop))
        if stride is not None:
            positive = Call("max", (stride, literal(1)))
            first, stop = Binary("//", first, positive), _quotient(stop, positive)
        size = writer.written(self.domain[part.axes[depth]])
        start = Call("max", (first, literal(0)))
        return Var(writer.assign(start)), Var(writer.assign(Call("min", (stop, size))))

    def stride(self, writer: Writer, part: Part, depth: int) -> Expr | None:
        """The places between two of an axis; None for 1."""
        rest = part.axes[depth + 1 :]
        return writer.written(self.length(rest)) if rest else None

    def enter(self, writer: Writer, part: Part, depth: int) -> Expr | None:
        """Open loops over the first axes of a part; returns the place where they are."""
        base: Expr | None = None
        for d, axis in enumerate(part.axes[:depth]):
            start, stop = self.limits(writer, part, d, base)
            writer.open(Loop(self.domain[axis], axis), For(axis_name(axis), unsigned(start), unsigned(stop)))
            base = Var(writer.assign(self.place(writer, part, d, base)))
        return base

    def place(self, writer: Writer, part: Part, depth: int, base: Expr | None) -> Expr:
        """The place of an axis inside those before it."""
        here: Expr = index(part.axes[depth])
        stride = self.stride(writer, part, depth)
        here = here if stride is None else Binary("*", here, stride)
        return here if base is None else Binary("+", base, here)

    def spot(self, writer: Writer, part: Part, base: Expr | None) -> Expr:
        """The index in a tile of the place where all loops over a part are."""
        return literal(0) if base is None else unsigned(Binary("-", base, part.first))

    # -- packing -------------------------------------------------------------------------------

    def pack(
        self, writer: Writer, name: str, element: Element, own: Part, inner: int | None, terms: Part
    ) -> None:
        """Write the values of a factor in a part of the terms; `inner` is the axis of the innermost loop."""
        along = terms if inner in terms.axes else own
        other = own if along is terms else terms
        opened = len(writer.loops)
        first = self.enter(writer, along, len(along.axes) - 1)
        base = self.enter(writer, other, len(other.axes))
        beside = self.spot(writer, other, base)
        beside = beside if base is None else Var(writer.assign(beside))
        if inner is None:
            writer.add(Store(Access(name, (beside, literal(0))), writer.written(element)))
        else:
            depth = len(along.axes) - 1

            def spot() -> Access:
                at = self.spot(writer, along, self.place(writer, along, depth, first))
                return Access(name, (beside, at))

            self.row(writer, element, inner, self.limits(writer, along, depth, first), spot)
        while len(writer.loops) > opened:
            writer.close()

    def row(
        self,
        writer: Writer,
        element: Element,
        axis: int,
        limits: tuple[Expr, Expr],
        spot: Callable[[], Access],
    ) -> None:
        """Write the values of a factor along an axis: zeros outside the interval where conditions hold."""
        value, bounds = solved(element, axis)
        writer.assured, more = self.inside(writer, value, axis, bounds)
        bounds += more
        writer.expect((value, *(e for _, e in bounds)))
        (start, stop), name = limits, axis_name(axis)
        first, last = start, stop
        if bounds:
            begin = [writer.written(e) for side, e in bounds if side == "start"]
            end = [writer.written(e) for side, e in bounds if side == "stop"]
            tests = [writer.written(e) for side, e in bounds if side == "if"]
            first = Var(writer.assign(Call("min", (reduce(_greater, begin, start), stop))))
            inside: Expr = Call("max", (reduce(_lesser, end, stop), first))
            inside = Choice(all_of(tests), inside, first) if tests else inside
            last = Var(writer.assign(inside))
            nothing = Store(spot(), zero(element.dtype))
            if begin:
                writer.add(For(name, unsigned(start), unsigned(first), [nothing]))
            if end or tests:
                writer.add(For(name, unsigned(last), unsigned(stop), [nothing]))
        loop = Loop(self.domain[axis], axis, bounds=list(bounds))
        writer.open(loop, For(name, unsigned(first), unsigned(last)))
        writer.add(Store(spot(), writer.written(value)))
        writer.close()
        writer.assured = ()

    def inside(
        self, writer: Writer, value: Element, axis: int, bounds: Sequence[Bound]
    ) -> tuple[list[tuple[Element, Element]], list[Bound]]:
        """The indices of a factor that may lie outside an axis of its array, where it is zero, and the bounds
        inside which they do not."""
        assured, found = list[tuple[Element, Element]](), list[Bound]()
        if isinstance(value, Read):
            writer.loops.append(Loop(self.domain[axis], axis, bounds=[*bounds]))
            pairs = zip(value.args, value.array.shape, strict=True)
            pairs_outside = [pair for pair in pairs if not writer.fits(*pair)]
            writer.loops.pop()
            for index, size in pairs_outside:
                ends = apply("greater_equal", index, const(0, "i64")), apply("less", index, size)
                own = [_bounds(end, axis) for end in ends]
                if None not in own:
                    assured.append((index, size))
                    found += [bound for each in own for bound in each or ()]
        return assured, found

    def store(self, writer: Writer, rows: Part, columns: Part) -> None:
        """Store a tile in the result."""
        opened = len(writer.loops)
        at = [self.enter(writer, part, len(part.axes)) for part in (rows, columns)]
        spots = [self.spot(writer, part, base) for part, base in zip((rows, columns), at, strict=True)]
        kept = [literal(0) if is_const(n, 1) else Var(axis_name(k)) for k, n in enumerate(self.made.shape)]
        writer.add(Store(writer.element(self.made, kept), Access(TILED, tuple(spots))))
        while len(writer.loops) > opened:
            writer.close()


def contiguous(element: Element, domain: Shape) -> int | None:
    """The axis along which most of a factor's memory is contiguous: the one that its last index counts, of
    several, as in windows, one of a length that is not known."""
    found: list[tuple[bool, bool, int]] = []
    for read in elements_of((element,)):
        if isinstance(read, Read) and read.args and is_float(read.dtype):
            for atom, n in linear(read.args[-1]).terms.items():
                if isinstance(atom, Index):
                    found.append((isinstance(domain[atom.axis], Const), abs(n) != 1, atom.axis))
    return min(found)[-1] if found else None


def solved(element: Element, axis: int) -> tuple[Element, list[Bound]]:
    """A factor as its value inside bounds along an axis, outside of which it is zero."""
    found, value = guarded(element)
    bounds: list[Bound] = []
    for condition in found:
        own = _bounds(condition, axis)
        if own is None:
            value = select(condition, value, const(0, value.dtype))
        else:
            bounds += own
    return value, bounds


def _bounds(condition: Element, axis: int) -> list[Bound] | None:
    """The bounds of an axis that are equivalent to a condition; None if there are none."""
    if axis not in condition.axes:
        return [("if", condition)]
    bounds: list[Bound] = []
    for form in facts_of(condition):
        step = form.terms.get(Index(axis), 0)
        rest = form - linear(Index(axis)) * step
        if step not in (1, -1) or axis in rest.axes:
            return None
        limit = rest * -1 if step == 1 else rest + linear_constant(1)
        bounds.append(("start" if step == 1 else "stop", limit.element()))
    return bounds or None


def any_of(tests: Sequence[Expr]) -> Expr:
    """Whether one of several conditions holds."""
    return Logical("or", tuple(tests))


def index(axis: int) -> Expr:
    """The place on an axis."""
    return Call("np.int64", (Var(axis_name(axis)),))


def _quotient(x: Expr, y: Expr) -> Expr:
    """A quotient rounded up."""
    return Binary("//", Binary("+", x, Binary("-", y, literal(1))), y)


def _greater(x: Expr, y: Expr) -> Expr:
    return Call("max", (x, y))


def _lesser(x: Expr, y: Expr) -> Expr:
    return Call("min", (x, y))
