"""Contract sums against Kronecker deltas: sum_k [d == k] e(k) = e(d).

A delta is the one-hot direction of a Jacobian. It is first lifted to the top of a body, through the
operations that are linear in it: off the diagonal a derivative is zero, known to be so, whatever it is
multiplied with. The sum then has one term. It applies where the two axes have the same length, so that
d always meets some k.
"""

from __future__ import annotations

from adcompiler.ad.partials import is_delta
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Element,
    Func,
    Index,
    Map,
    Reduce,
    Select,
    const,
    is_const,
    select,
)
from adcompiler.ir.walk import Rewriter, substitute
from adcompiler.ops.build import apply


def contract(func: Func) -> Func:
    """The program with sums against deltas replaced by the one term that counts."""
    return _Contract().func(func)


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
        while isinstance(array, Reduce) and array.op == "sum":
            axis = _contracted(array)
            if axis is None:
                return array
            array = _without(array, *axis)
        return array


def _lifted(delta: Select, value: Element) -> Element:
    """`value` where the delta is one."""
    return select(delta.guard, value, const(0, value.dtype))


def _contracted(array: Reduce) -> tuple[int, int, Element] | None:
    """A reduced axis that a delta on top of the body ties to another axis: (reduced, other, the rest)."""
    body, wrap = array.body, list[Select]()
    while isinstance(body, Select) and is_const(body.otherwise, 0):
        tied = _tied(body.guard, array)
        if tied is not None:
            rest = body.then
            for outer in reversed(wrap):
                rest = Select((outer.guard, rest, outer.otherwise))
            return *tied, rest
        wrap.append(body)
        body = body.then
    return None


def _tied(guard: Element, array: Reduce) -> tuple[int, int] | None:
    """The reduced axis and the axis it must equal, if `guard` says just that."""
    match guard:
        case Apply(op="equal", args=(Index(axis=a), Index(axis=b))) if array.domain[a] is array.domain[b]:
            if b >= array.rank:
                return b, a
            if a >= array.rank:
                return a, b
    return None


def _without(array: Reduce, gone: int, other: int, body: Element) -> Array:
    """`array` with the reduced axis `gone` set to `other`."""
    moved: dict[int, Element] = {gone: Index(other)}
    body = substitute(body, moved)
    later: dict[int, Element] = {k: Index(k - 1) for k in range(gone + 1, len(array.domain))}
    body = substitute(body, later)
    reduced = tuple(n for k, n in enumerate(array.reduced, array.rank) if k != gone)
    return Reduce(array.op, array.shape, reduced, body) if reduced else Map(array.shape, body)
