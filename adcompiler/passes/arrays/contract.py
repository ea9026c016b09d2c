"""Contract sums against Kronecker deltas: sum_k [d == k] e(k) = e(d).

A delta is the one-hot direction of a Jacobian. It is first lifted to the top of a body, through the
operations that are linear in it: off the diagonal a derivative is known to be zero, whatever its factors. The
sum then has one term, if d is inside the axis.

A sum over axes of a scatter is the scatter without these axes: what is added at table[i, place[i]] and then
summed over i is added at total[place[i]].
"""

from __future__ import annotations

from adcompiler.ad.guards import TRUE, both, conjunction, mask
from adcompiler.ad.partials import is_delta
from adcompiler.analysis.affine import Linear, linear
from adcompiler.analysis.predicates import guarded, ties
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    Select,
    Size,
    const,
    is_const,
    select,
)
from adcompiler.ir.walk import Rewriter, substitute
from adcompiler.ops.build import apply
from adcompiler.passes.algebra.fold import some


def contract(func: Func) -> Func:
    """The program with sums against deltas replaced by their only nonzero term."""
    return _Contract().func(func)


def pick(func: Func) -> Func:
    """The program with sums of one element at a constant place replaced by the element. This runs before
    inlining, so that each of many stores is looked up in its own array."""
    return _Pick().func(func)


class _Pick(Rewriter):
    def array(self, array: Array) -> Array:
        if isinstance(array, Reduce) and array.op == "sum":
            tied = _contracted(array)
            if tied is not None and is_const(tied[1]):
                return _without(array, *tied)
        return array


class _Contract(Rewriter):
    def element(self, element: Element) -> Element:
        if not isinstance(element, Apply):
            return element
        deltas = [a for a in element.args if is_delta(a)]
        match element.op, deltas:
            case "multiply", [delta, *_]:
                rest = element.args[1] if element.args[0] is delta else element.args[0]
                return _lifted(delta, apply("multiply", delta.then, rest))
            case "divide", [delta] if element.args[0] is delta:
                return _lifted(delta, apply("divide", delta.then, element.args[1]))
            case "negative" | "f32" | "f64", [delta]:
                return _lifted(delta, Apply(element.op, (delta.then,), element.dtype))
            case "add" | "subtract", [one, other] if one.guard is other.guard:
                return _lifted(one, apply(element.op, one.then, other.then))
        return element

    def array(self, array: Array) -> Array:
        if isinstance(array, Accumulate) and array.rank:
            array = _shifted(array) if array.domain else _at_one_place(array)
        if isinstance(array, Reduce) and array.op == "sum":
            array = _scattered(array)
        while isinstance(array, Reduce) and (array.op == "sum" or _any(array)):
            tied = _contracted(array)
            if tied is None:
                return array
            array = _without(array, *tied)
        return array


def _any(array: Reduce) -> bool:
    """Whether an array tests if a condition holds at any point: the maximum of ones and zeros, where only
    ones count."""
    return array.op == "max" and isinstance(array.body, Select) and is_const(array.body.then, 1)


def _at_one_place(array: Accumulate) -> Map:
    """A sum added at one place, as a map with zeros elsewhere."""
    guard = conjunction(apply("equal", Index(k), index) for k, index in enumerate(array.indices))
    return Map(array.shape, select(guard, array.body, const(0, array.dtype)))


def _shifted(array: Accumulate) -> Array:
    """A sum of what is added at shifted loop indices, as a map or a sum: an element of `out` gets one term of
    `out[i + 1] += x[i]`, that of i = k - 1. Anything else as it is."""
    moved: dict[int, Element] = {}
    guard: Element = TRUE
    for k, index in enumerate(array.indices):
        form = linear(index)
        axes = [a for a in form.terms if a is not None and a.axes]
        if len(axes) != 1 or not isinstance(axes[0], Index) or form.terms[axes[0]] != 1:
            return array
        axis, rest = axes[0].axis, form - Linear({axes[0]: 1})
        if axis in moved or any(a is not None and not isinstance(a, Size) for a in rest.terms):
            return array
        moved[axis] = place = (linear(Index(k)) - rest).element()
        if not (isinstance(place, Index) and array.shape[k] is array.domain[axis]):
            for condition in _inside(place, array.domain[axis]):
                guard = both(guard, condition)
    others = [a for a in range(len(array.domain)) if a not in moved]
    moved |= {a: Index(array.rank + p) for p, a in enumerate(others)}
    body = substitute(array.body, moved)
    body = mask(body, guard)
    reduced = tuple(array.domain[a] for a in others)
    return Reduce("sum", array.shape, reduced, body) if reduced else Map(array.shape, body)


def _scattered(array: Reduce) -> Array:
    """A sum over axes of a scatter as the scatter without these axes; anything else as it is."""
    terms = [array.body]
    while isinstance(terms[-1], Apply) and terms[-1].op == "add" and is_const(terms[-1].args[0], 0):
        terms.append(terms[-1].args[1])  # a sum begins with 0 anyway
    table = terms[-1]
    if not isinstance(table, Read) or not isinstance(table.array, Accumulate) or not table.array.domain:
        return array
    scatter = table.array
    at = {i.axis: k for k, i in enumerate(table.args) if isinstance(i, Index)}
    if len(at) < len(table.args) or sorted(at) != list(range(len(array.domain))):
        return array
    if any(scatter.shape[k] is not array.domain[axis] for axis, k in at.items()):
        return array
    body = scatter.body
    for axis in range(array.rank, len(array.domain)):
        place, size = scatter.indices[at[axis]], scatter.shape[at[axis]]
        if not (isinstance(place, Index) and scatter.domain[place.axis] is size):
            body = mask(body, conjunction(_inside(place, size)))
    if not array.rank:
        return Reduce("sum", (), scatter.domain, body)
    return Accumulate(
        array.shape, scatter.domain, tuple(scatter.indices[at[k]] for k in range(array.rank)), body
    )


def _lifted(delta: Select, value: Element) -> Element:
    """`value` where the delta is nonzero."""
    return select(delta.guard, value, const(0, value.dtype))


def _contracted(array: Reduce) -> tuple[int, Element, Element] | None:
    """A reduced axis that a delta at the top of the body ties to a place: (axis, place, the rest)."""
    conditions, body = guarded(array.body)
    for condition in conditions:
        tied = [tie for tie in ties(condition) if tie[0] >= array.rank]
        if tied:
            axis, place = max(tied, key=lambda tie: tie[0])  # the last axis
            rest = [c for c in conditions if c is not condition]
            guard = conjunction((*_range(place, array.domain[axis], array), *rest))
            return axis, place, mask(body, guard)
    return None


def _range(place: Element, size: Element, array: Reduce) -> list[Element]:
    """The conditions for a place to be inside an axis."""
    if isinstance(place, Index) and array.domain[place.axis] is size:
        return []
    if is_const(place) and is_const(size) and 0 <= place.value < size.value:
        return []
    return _inside(place, size)


def _inside(place: Element, size: Element) -> list[Element]:
    return [apply("less_equal", const(0, "i64"), place), apply("less", place, size)]


def _without(array: Reduce, gone: int, place: Element, body: Element) -> Array:
    """`array` with the reduced axis `gone` set to `place`."""
    if array.op == "max":
        body = some(array, gone, body)
    moved: dict[int, Element] = {gone: place}
    body = substitute(body, moved)
    later: dict[int, Element] = {k: Index(k - 1) for k in range(gone + 1, len(array.domain))}
    body = substitute(body, later)
    reduced = tuple(n for k, n in enumerate(array.reduced, array.rank) if k != gone)
    return Reduce(array.op, array.shape, reduced, body) if reduced else Map(array.shape, body)
