"""Differentiation during lowering: `diff` and `grad` inside the language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adcompiler.ad.custom_rules import forward
from adcompiler.ad.guards import TRUE, Tangent
from adcompiler.ad.jvp import jvp
from adcompiler.ad.limits import TAYLOR_ORDER
from adcompiler.ad.taylor import taylor
from adcompiler.ad.vjp import pulled, vjp
from adcompiler.ir.bodies import like, opened
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Accumulate, Array, Element, Index, Input, Put, Read, is_const
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.passes.algebra.smooth import smoothed

# -- pointwise ---------------------------------------------------------------------------------------
# Whether each entry depends on one entry only: then one tangent of ones gives all derivatives.
#
# Each axis of the argument is traced to an axis of every array. An array that reads two entries, or sums
# over such an axis, is not elementwise.


Axes = dict[int, int]  # which axis of an array each axis of the argument is


class _Mixed(Exception):  # noqa: N818
    """An entry depends on several entries."""


def pointwise(result: Array, argument: Array) -> bool:
    """Whether each entry of `result` depends on at most one entry of `argument`."""
    own = {k: k for k, n in enumerate(argument.shape) if not is_const(n, 1)}
    try:
        _placed((result,), {argument: own})
    except _Mixed:
        return False
    return True


def _placed(results: Sequence[Array], known: Mapping[Array, Axes]) -> dict[Array, Axes]:
    """The axes of every array below `results` that depends on the argument."""
    found = dict(known)
    for array in arrays_of(results):
        if array in found or isinstance(array, Input):
            continue
        if isinstance(array, Item):
            _loop(array.loop, found)
        elif isinstance(array, Ruled):
            _ruled(array, found)
        else:
            axes = _body(array, found)
            if axes is not None:
                found[array] = _kept(array, axes)
    return found


def _body(array: Array, found: Mapping[Array, Axes]) -> Axes | None:
    """The axes of an array's domain that the argument's axes are."""
    axes: Axes | None = None
    for element in elements_of(array.elements):
        if isinstance(element, Read) and element.array in found:
            here = {a: _axis(element.args[k]) for a, k in found[element.array].items()}
            if axes is not None and here != axes:
                raise _Mixed
            axes = here
    return axes


def _axis(index: Element) -> int:
    if not isinstance(index, Index):
        raise _Mixed
    return index.axis


def _kept(array: Array, axes: Axes) -> Axes:
    """Axes of the domain as axes of the array itself."""
    if isinstance(array, Put):
        raise _Mixed  # an iteration of a loop stores in it
    if isinstance(array, Accumulate):
        places = {i.axis: k for k, i in enumerate(array.indices) if isinstance(i, Index)}
    else:
        places = {k: k for k in range(array.rank)}
    if not all(k in places for k in axes.values()):
        raise _Mixed
    return {a: places[k] for a, k in axes.items()}


def _ruled(array: Ruled, found: dict[Array, Axes]) -> None:
    """The axes of an array's value, if its rule does not mix entries either."""
    ways = {a: like(a) for a in array.args if a in found}
    pushed = forward(array, {a: Tangent(TRUE, way) for a, way in ways.items()}, pulled)
    if array.value not in found or pushed is None:
        return
    tangent = pushed.value
    found[array] = found[array.value]
    inside = _placed((tangent,), {**found, **{way: found[a] for a, way in ways.items()}})
    if inside.get(tangent, found[array]) != found[array]:
        raise _Mixed


def _loop(loop: Loop, found: dict[Array, Axes]) -> None:
    """The axes of a loop's results; a carried value keeps its axes."""
    if not any(a in found for a in loop.operands):
        return
    body = opened(loop)
    rows = {row: _without_first(found[whole]) for whole, row in body.rows if whole in found}
    slots = {c.slot: found[c.init] for c in body.carried if c.init in found}
    while True:
        inside = _placed((*(c.result for c in body.carried), *body.outs), {**found, **rows, **slots})
        after = {c.slot: inside[c.result] for c in body.carried if c.result in inside}
        if any(slots.get(slot, axes) != axes for slot, axes in after.items()):
            raise _Mixed
        if after.keys() <= slots.keys():
            break
        slots |= after
    count = len(body.carried)
    for item, c in zip(loop.items, body.carried, strict=False):
        if c.slot in slots:
            found[item] = slots[c.slot]
    for item, out in zip(loop.items[count:], body.outs, strict=False):
        if out in inside:
            found[item] = {a: k + 1 for a, k in inside[out].items()}


def _without_first(axes: Axes) -> Axes:
    if 0 in axes.values():
        raise _Mixed
    return {a: k - 1 for a, k in axes.items()}


class Modes:
    """Forward mode for derivatives by one variable, reverse mode for gradients."""

    def along(self, result: Array, tangents: Mapping[Array, Array], order: int) -> Array | None:
        """The derivative of a result along tangents; None if it is zero."""
        (result,) = smoothed((result,))
        if order >= TAYLOR_ORDER:
            return taylor((result,), tangents, order)[0][-1]
        found: Array | None = result
        for _ in range(order):
            if found is None:
                return None
            (found,) = jvp((found,), tangents)
        return found

    def pull(self, result: Array, cotangent: Array, wanted: Sequence[Array]) -> list[Array | None]:
        """The cotangents of the arrays in `wanted`; None for zero."""
        return vjp(smoothed((result,)), (cotangent,), wanted)

    def pointwise(self, result: Array, argument: Array) -> bool:
        """Whether each entry of a result reads an argument at its own place only."""
        return pointwise(result, argument)


CALCULUS = Modes()
