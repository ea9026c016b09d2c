"""Which axis of an argument each axis of a result runs along, so that its labels are known.

In the program of a function, axes that meet have one size symbol, and an axis of a result has the labels of
the arguments' axes with its symbol. But not if elements are moved along them on the way, as by `x[::-1]` or
`x[p]`: all reads must be at plain indices. Derivatives have the axes of what they belong to, always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Accumulate, Array, Const, Element, Func, Index, Read, Size, is_const
from adcompiler.ir.walk import arrays_of, elements_of, is_computed
from adcompiler.runtime.modes import Hessian, Jacobian, Tangent
from adcompiler.runtime.taylor import Line
from adcompiler.runtime.transforms import Gradient
from adcompiler.syntax.structures import arrays_in

Place = tuple[int, int]  # an input of the program, and one of its axes


class Origin(NamedTuple):
    """For each axis of a result, the places where its labels are; and the inputs that it is called like: a
    gradient like what it belongs to, None stands for all."""

    axes: tuple[tuple[Place, ...], ...]
    namesakes: tuple[int, ...] | None = None

    def __mul__(self, other: Any) -> Origin:
        """The axes of both, as those of a Jacobian's block."""
        return Origin(self.axes + other.axes, ())


_known: WeakKeyDictionary[Any, dict[Any, list[Origin]]] = WeakKeyDictionary()


def origins(function: Any, types: Any) -> list[Origin]:
    """For each array among a function's results, where the labels of its axes are."""
    known = _known.setdefault(function, {})
    if types not in known:
        known[types] = _found(function, types)
    return known[types]


def whole(types: Any, k: int) -> Origin:
    """The axes of an input itself, which those of its gradient are."""
    return Origin(tuple(((k, a),) for a in range(len(arrays_in(types)[k].ones))), (k,))


def meeting(func: Func) -> list[list[Place]]:
    """The axes of inputs that meet, each group those of one length."""
    groups: dict[Size, list[Place]] = {}
    for k, given in enumerate(func.inputs):
        for a, size in enumerate(given.shape):
            if isinstance(size, Size):
                groups.setdefault(size, []).append((k, a))
    return [group for group in groups.values() if len(group) > 1]


def _found(f: Any, types: Any) -> list[Origin]:
    match f:
        case Gradient():
            own = origins(f.of, types) if f.with_value else []
            return [*own, *_wanted(f, types)]
        case Jacobian():
            return [out * given for out, given in product(origins(f.of, types), _wanted(f, types))]
        case Hessian():
            return [one * other for one, other in product(_wanted(f, types), repeat=2)]
        case Tangent():
            return origins(f.of, types[: len(f.of.parameters)]) * (1 + f.with_value)
        case Line():
            return origins(f.of, types[: len(f.of.parameters)]) * (1 + f.order)
    func = f.trace(types).func
    return [_of_result(func, result) for result in func.results]


def _wanted(f: Any, types: Any) -> list[Origin]:
    """The axes of what a function differentiates by."""
    return [whole(types, k) for k in f.of.inputs_of(f.of.positions(f.wrt, types), types)]


# -- programs that are no derivatives ----------


def _of_result(func: Func, result: Array) -> Origin:
    if not result.rank:
        return Origin(())
    moved = set(_moved(arrays_of((result,)), in_loop=False))
    axes = (
        () if n in moved and not is_const(n, 1) else tuple(_along(func, result, a))
        for a, n in enumerate(result.shape)
    )
    return Origin(tuple(axes))


def _along(func: Func, result: Array, axis: int) -> Iterator[Place]:
    """The axes of inputs with the length of an axis. Constant lengths may be equal by chance: then the shapes
    have to be the same."""
    size = result.shape[axis]
    for k, given in enumerate(func.inputs):
        if isinstance(size, Size):
            yield from ((k, a) for a, n in enumerate(given.shape) if n is size)
        elif given.shape == result.shape:
            yield k, axis


def _moved(arrays: Sequence[Array], in_loop: bool) -> Iterator[Element]:
    """The lengths of axes along which elements are read, or added, at other places than their own."""
    for array in arrays:
        if isinstance(array, Item):
            yield from _moved(arrays_of(array.loop.roots), in_loop=True)
        if isinstance(array, Accumulate):
            places = zip(array.shape, array.indices, strict=True)
            yield from (n for n, i in places if not isinstance(i, Index))
        for element in elements_of(array.elements):
            if isinstance(element, Read):
                pairs = zip(element.array.shape, element.args, strict=True)
                yield from (n for n, i in pairs if not _stays(n, i, in_loop))


def _stays(size: Element, index: Element, in_loop: bool) -> bool:
    """Whether an index leaves an element where it is, or takes the same one everywhere."""
    if isinstance(index, Index) or is_const(size, 1):
        return True
    return not (index.axes or isinstance(size, Const) or (in_loop and is_computed(index)))
