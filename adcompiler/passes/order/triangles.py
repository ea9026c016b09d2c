"""Sums over triangles of matrices, and the axis of their vector lanes.

A product L z with a lower triangular matrix takes half of the operations: structural zeros add nothing
(`passes/order/structural_zeros.py`). So does the gradient of L, a sum of y zᵀ over points, of which only the
lower triangle is read (`analysis/demand.py`). Either becomes a condition of the sum, and a bound of its
loops.

Rows of a triangle are short and of different lengths, so loops over them hardly fill vectors. But each
element is computed for equally many points, or other repetitions of the matrix: their loop becomes the
innermost one (`Func.across`). Arrays read there are laid out along it: temporaries have that axis last,
inputs are copied. Weights that may be too small for their type are scaled (`passes/order/scaled.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from adcompiler.analysis.demand import needed, read_whole
from adcompiler.analysis.loop_order import long_axes, loop_order, natural_order
from adcompiler.analysis.predicates import conditions
from adcompiler.analysis.regions import EVERYWHERE, Region, where
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Array, Element, Func, Index, Map, Read, Reduce, Shape, const, neutral, select
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    Rewriter,
    arrays_of,
    elements_of,
    is_computed,
    rewrite,
    separate,
    substitute,
    with_elements,
)
from adcompiler.ops.build import apply
from adcompiler.ops.costs import is_function
from adcompiler.passes.limits import FEWEST_POINTS, FEWEST_ROWS, MOST_MATRICES
from adcompiler.passes.order.scaled import scaled
from adcompiler.passes.order.structural_zeros import Zeros, finite


class Triangle(NamedTuple):
    """A sum over a triangle bounded by the axes `sides`, with vector lanes along `lanes`."""

    sides: frozenset[int]
    lanes: int


def triangles(func: Func) -> Func:
    """The program with sums over triangles whose lanes are points; unchanged if there are none."""
    bounded = _Bounded(func)
    made = bounded.func(func)
    found = {bounded.arrays[a]: t for a, t in bounded.found.items()}
    if not found:
        return func
    laid = _Laid(made, found)
    return scaled(laid.func(made).with_(across={laid.arrays[a]: k for a, k in laid.across.items()}))


def are_bounded(func: Func, sums: Iterable[Reduce]) -> list[bool]:
    """Whether loops of each of these sums may skip points: those not read, and structural zeros."""
    read, zeros = needed(func), Zeros()
    found: list[bool] = []
    for array in sums:
        own = (where(c) for c in conditions(array.op, array.body))
        regions = (read.get(array), zeros.support(array.body).region, *own)
        found.append(any(r != EVERYWHERE for r in regions))
    return found


def lengths(func: Func) -> Shape:
    """The lengths that decide whether triangles pay: for each, those of lanes and rows, and the number of
    matrices."""
    found: dict[Shape, None] = {}
    for array in (a for a in arrays_of(func.roots) if a in func.across):
        sides, lanes = _sides(array), func.across[array]
        many: Element = const(1, "i64")
        for case in (n for k, n in enumerate(array.domain) if k not in sides and k != lanes):
            many = apply("multiply", many, case)
        found |= dict.fromkeys((array.domain[lanes], array.domain[k], many) for k in sorted(sides))
    return tuple(n for one in found for n in one)


def pays(lengths: Sequence[int]) -> bool:
    """Whether triangles pay. With one matrix the rows must be longer, as laying out points takes time."""
    each = zip(*(lengths[k::3] for k in range(3)), strict=True)
    return all(
        lanes >= FEWEST_POINTS and rows * min(many, MOST_MATRICES) >= FEWEST_ROWS
        for lanes, rows, many in each
    )


def across_order(array: Array, lanes: int) -> tuple[int, ...]:
    """The loop order of an array with lanes along an axis."""
    return (*(k for k in natural_order(array) if k != lanes), lanes)


def _sides(array: Array) -> frozenset[int]:
    """The axes of a sum that its conditions bound by each other."""
    found: set[int] = set()
    if isinstance(array, Reduce):
        long = set(long_axes(array))
        for condition in conditions(array.op, array.body):
            if len(condition.axes) == 2 and condition.axes <= long and where(condition):
                found |= condition.axes
    return frozenset(found)


# -- conditions ----------------------------------------------------------------------------------------


class _Bounded(Rewriter):
    """Adds the conditions; `found` lists the sums over triangles."""

    def __init__(self, func: Func) -> None:
        super().__init__()
        self.needed, self.zeros = needed(func), Zeros()
        self.fixed = {*func.roots, *(b for a in arrays_of(func.roots) for b in read_whole(a))}
        self.found: dict[Array, Triangle] = {}

    def inner(self, loop: Loop | Ruled) -> None:
        """Loop bodies are unchanged."""

    def _rebuilt(self, array: Array) -> Array:
        made = super()._rebuilt(array)
        if not (isinstance(made, Reduce) and made.op == "sum" and is_float(made.dtype)):
            return made
        changed = self.bounded(made, self.needed.get(array), range(len(made.domain)))
        sides = _sides(changed)
        known = not any(map(is_computed, changed.domain))  # the lengths choose the kernel
        lanes = _lanes(changed, sides, array in self.fixed) if sides and known else None
        if lanes is None:  # keep the rows, without their zeros
            return self.bounded(made, None, loop_order(made))
        self.found[array] = Triangle(sides, lanes)
        return changed

    def bounded(self, array: Reduce, region: Region, order: Sequence[int]) -> Reduce:
        """A sum with conditions suited to a loop order: its elements are read (within `region`), and its
        terms are nonzero."""
        support = self.zeros.support(array.body)
        unread = _conditions(array, region, None, order, reduced=False)
        zero = _conditions(array, support.region, finite(support.finite), order, reduced=True)
        body = array.body
        for condition in (*unread, *zero):
            body = select(condition, body, neutral("sum", array.dtype))
        return Reduce("sum", array.shape, array.reduced, body)


def _conditions(
    array: Reduce, region: Region, holds: Element | None, order: Sequence[int], reduced: bool
) -> list[Element]:
    """The bounds of a region between two long axes of a sum, of which one or none is reduced, as conditions
    on the inner axis that apply if `holds`."""
    long, found = set(long_axes(array)), list[Element]()
    known: dict[tuple[Element, Element], int] = {}
    for c in conditions(array.op, array.body):
        known |= where(c) or {}
    for (x, y), most in (region or {}).items():
        if not (isinstance(x, Index) and isinstance(y, Index) and {x.axis, y.axis} <= long):
            continue
        is_reduced = max(x.axis, y.axis) >= array.rank
        if is_reduced != reduced or known.get((x, y), most + 1) <= most:
            continue
        if order.index(x.axis) > order.index(y.axis):  # x - y <= most
            stop = apply("add", y, const(most + 1, "i64")) if most + 1 else y
            whole = array.domain[x.axis]
            found.append(apply("less", x, stop if holds is None else select(holds, stop, whole)))
        else:
            start = apply("subtract", x, const(most, "i64")) if most else x
            none = const(0, "i64")
            found.append(apply("greater_equal", y, start if holds is None else select(holds, start, none)))
    return found


def _lanes(array: Reduce, sides: frozenset[int], fixed: bool) -> int | None:
    """The axis of the lanes: a reduced one, or one that a factor with both sides does not depend on. Lanes of
    an array that cannot be changed must be contiguous in memory."""
    free = [k for k in long_axes(array) if k not in sides]
    elements = elements_of(array.elements)
    costly = frozenset[int]().union(*(e.axes for e in elements if is_function(e) and e.axes & sides))
    if any(k >= array.rank for k in free):
        found = free[-1:] if all(k < array.rank for k in sides) else []
    else:
        matrices = [e for e in elements if isinstance(e, Read) and sides <= e.axes]
        found = [k for k in free if any(k not in e.axes for e in matrices)]
        found = [k for k in found[-1:] if not fixed or k == array.rank - 1]
    return found[0] if found and found[0] not in costly else None


# -- layout --------------------------------------------------------------------------------------------


class _Laid(Rewriter):
    """Moves the lanes of temporaries to the last axis; arrays that cannot be changed are copied."""

    def __init__(self, func: Func, found: Mapping[Array, Triangle]) -> None:
        super().__init__()
        self.lanes = {a: t.lanes for a, t in found.items()}
        order = arrays_of(func.roots)
        fixed = {*func.roots, *(b for a in order for b in read_whole(a))}
        self.last: dict[Array, int] = {}  # the axis that becomes last
        for array, lanes in self.lanes.items():
            if lanes < array.rank - 1:
                self.last[array] = lanes
        for array, lanes in self.lanes.items():
            for read in _strided_reads(array, lanes):
                axis = read.args.index(Index(lanes)) if Index(lanes) in read.args else -1
                if isinstance(read.array, Map | Reduce) and read.array not in fixed and axis >= 0:
                    self.last.setdefault(read.array, axis)
        self.across: dict[Array, int] = {}
        for array in order:
            own = self.lanes[array] if array in self.lanes else self.follows(array)
            if own is not None:
                self.across[array] = self.moved_axis(array, own)

    def inner(self, loop: Loop | Ruled) -> None:
        """Loop bodies are unchanged."""

    def follows(self, array: Array) -> int | None:
        """The axis along which an array reads arrays laid out by lanes."""
        if not isinstance(array, Reduce):
            return None
        reads = [e for e in elements_of(array.elements) if isinstance(e, Read) and e.array in self.last]
        axes = {e.args[self.last[e.array]] for e in reads}
        (axis,) = axes if len(axes) == 1 else (None,)
        if not isinstance(axis, Index):
            return None
        return axis.axis if axis.axis >= array.rank - 1 else None

    def moved_axis(self, array: Array, axis: int) -> int:
        """The new position of an axis of an array's domain."""
        last = self.last.get(array)
        if last is None or axis >= array.rank or axis < last:
            return axis
        return array.rank - 1 if axis == last else axis - 1

    def _visit(self, element: Element) -> Element:
        if isinstance(element, Read) and element.array in self.last:
            last = self.last[element.array]
            indices = (*element.args[:last], *element.args[last + 1 :], element.args[last])
            return Read(self.arrays[element.array], indices)
        return super()._visit(element)

    def _rebuilt(self, array: Array) -> Array:
        made = super()._rebuilt(array)
        if array in self.lanes:
            made = _copying(made, self.lanes[array])
        if array in self.last:
            made = _moved(made, self.last[array])
        return made


def _strided_reads(array: Array, lanes: int) -> list[Read]:
    """The reads that are not contiguous along the lanes."""
    reads = (e for e in elements_of(array.elements) if isinstance(e, Read) and len(e.args) > 1)
    return [e for e in reads if lanes in e.axes and e.args[-1] is not Index(lanes)]


def _copying(array: Array, lanes: int) -> Array:
    """An array that reads copies with contiguous lanes, if these are no larger than the originals."""
    new: dict[Element, Element] = {}
    for read in _strided_reads(array, lanes):
        axes = (*sorted(read.axes - {lanes}), lanes)
        if len(axes) <= len(read.args):
            new[read] = separate(read, array.domain, axes)
    if not new:
        return array
    return with_elements(array, lambda elements: rewrite(elements, lambda e: e, dict(new)))


def _moved(array: Array, axis: int) -> Array:
    """An array transposed so that `axis` is last."""
    order = [k for k in range(array.rank) if k != axis] + [axis]
    places: dict[int, Element] = {k: Index(p) for p, k in enumerate(order)}
    shape = tuple(array.shape[k] for k in order)
    if isinstance(array, Reduce):
        return Reduce(array.op, shape, array.reduced, substitute(array.body, places))
    assert isinstance(array, Map)
    return Map(shape, substitute(array.body, places))
