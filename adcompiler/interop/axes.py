"""Label propagation: which axes of arguments are paired, and the axes that each axis of a result corresponds
to.

A union-find over the axes of a program's arrays. Two axes are in one class if some element reads both at the
same index. An axis of a result is in the class of the axes read at its own index. Derivatives have the axes
of their argument or result, and pair the axes that their function pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, product
from typing import Any, NamedTuple, TypeGuard

from scipy.cluster.hierarchy import DisjointSet

from adcompiler.api.modes import Hessian, Jacobian, Tangent, given_floats
from adcompiler.api.taylor import Line
from adcompiler.api.transforms import Gradient
from adcompiler.errors import Error
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import Accumulate, Array, Call, Element, Func, Index, Input, Put, Read, Size
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, elements_of, is_computed, rewrite, substitute
from adcompiler.pytree.kinds import ArgType
from adcompiler.pytree.structures import arrays_in
from adcompiler.pytree.trees import map_leaves

InputAxis = tuple[int, int]  # an input of the program, and one of its axes


class LabelOrigin(NamedTuple):
    """The origin of a result's labels: for each of its axes, the corresponding axes of inputs; and the inputs
    whose name it takes, such as that of the argument for a gradient. None stands for all."""

    axes: tuple[tuple[InputAxis, ...], ...]
    namesakes: tuple[int, ...] | None = None

    def outer(self, other: LabelOrigin) -> LabelOrigin:
        """The axes of both, such as those of a Jacobian's block."""
        return LabelOrigin(self.axes + other.axes, ())


class Flow(NamedTuple):
    """The classes of paired axes of inputs, and the origin of each result."""

    paired: list[list[InputAxis]]
    results: list[LabelOrigin]


def flow(function: Any, types: Any) -> Flow:
    """The flow of labels through a function for arguments of these types; cached."""
    found: Flow = function._derived(("labels", types), lambda: _flow(function, types))
    return found


def own_axes(types: Any, k: int) -> LabelOrigin:
    """The axes of an input, which are also those of its gradient."""
    return LabelOrigin(tuple(((k, a),) for a in range(len(arrays_in(types)[k].ones))), (k,))


def _flow(f: Any, types: Any) -> Flow:
    match f:
        case Gradient():
            of = flow(f._of, types)
            return Flow(of.paired, [*(of.results if f._with_value else ()), *_wanted(f, types)])
        case Jacobian():
            of = flow(f._of, types)
            return Flow(of.paired, [r.outer(x) for r, x in product(of.results, _wanted(f, types))])
        case Hessian():
            pairs = product(_wanted(f, types), repeat=2)
            return Flow(flow(f._of, types).paired, [x.outer(y) for x, y in pairs])
        case Tangent():
            return _along(f, types, 1 + f._with_value)
        case Line():
            return _along(f, types, 1 + f.order)
    return _of_program(_generic(f, types))


def _wanted(f: Any, types: Any) -> list[LabelOrigin]:
    """The axes of the inputs by which a function differentiates."""
    return [own_axes(types, k) for k in f._of._wanted(f._wrt, types)[1]]


def _along(f: Any, types: Any, count: int) -> Flow:
    """A function and its derivatives along tangents, which are inputs after its own, paired with these."""
    own, tangents = f._parted(types)
    of, arrays, first = flow(f._of, own), arrays_in(types), len(arrays_in(own))
    given = [t for k, d in zip(f._wrt, tangents, strict=True) for t in given_floats(own[k], d)]
    wanted = [x for x, here in zip(f._of._inputs_of(f._wrt, own), given, strict=True) if here]
    paired = list(of.paired)
    for x, dx in zip(wanted, range(first, len(arrays)), strict=True):
        paired += [[(x, a), (dx, a)] for a in range(len(arrays[x].ones))]
    return Flow(paired, of.results * count)


# -- programs that are not derivatives ----------


def _generic(f: Any, types: Any) -> Func:
    """The program for axes of any length: in a program for axes of length 1 they are not paired."""
    try:
        return f._trace(tuple(map_leaves(_lengthened, t) for t in types)).func  # type: ignore[no-any-return]
    except Error:  # the length must be 1
        return f._trace(types).func  # type: ignore[no-any-return]


def _lengthened(kind: Any) -> Any:
    return replace(kind, ones=(False,) * len(kind.ones)) if isinstance(kind, ArgType) else kind


def _of_program(func: Func) -> Flow:
    classes = _Classes()
    classes.add(func.results)
    classes.close()
    inputs = [(k, a) for k, given in enumerate(func.inputs) for a in range(given.rank)]
    by_class: dict[Any, list[InputAxis]] = {}
    for k, a in inputs:
        by_class.setdefault(classes.of((), func.inputs[k], a), []).append((k, a))
    found = [
        LabelOrigin(tuple(tuple(by_class.get(classes.of((), r, a), ())) for a in range(r.rank)))
        for r in func.results
    ]
    return Flow([each for each in by_class.values() if len(each) > 1], found)


Scope = tuple[Loop, ...]  # the loops around
Axis = tuple[Scope, Array, int]
POSITION, ANY = Index(0), Size(0)


class _Classes:
    """The classes of the axes of all arrays of a program, including those in the bodies of loops."""

    def __init__(self) -> None:
        self.sets = DisjointSet()
        self.views: list[tuple[Axis, Element, Axis]] = []  # an axis, and the index at which it reads another

    def of(self, scope: Scope, array: Array, axis: int) -> Any:
        """The representative of an axis's class."""
        self.sets.add((scope, array, axis))
        return self.sets[scope, array, axis]

    def add(self, roots: Iterable[Array], scope: Scope = ()) -> None:
        """Add all arrays below some roots."""
        loops: dict[Loop, None] = {}
        for array in arrays_of(roots):
            if isinstance(array, Item):
                loops[array.loop] = None
            elif isinstance(array, Ruled):
                self._join_all(scope, array, scope, array.value)
            elif isinstance(array, Call):
                self._call(scope, array)
            elif not isinstance(array, Input):
                self._nest(scope, array)
        for loop in loops:
            self._loop(scope, loop)

    def close(self) -> None:
        """Join axes that axes of one class read at the same index, such as rows of slices."""
        joined = True
        while joined:
            joined = False
            at: dict[tuple[Any, Element], Axis] = {}
            for axis, index, other in self.views:
                before = at.setdefault((self.of(*axis), index), other)
                joined = self._join(before, other) or joined

    def _join(self, one: Axis, other: Axis) -> bool:
        self.sets.add(one)
        self.sets.add(other)
        return bool(self.sets.merge(one, other))

    def _join_all(self, scope: Scope, array: Array, inner: Scope, other: Array, first: int = 0) -> None:
        """Join the axes of an array, from `first` on, with those of another."""
        for a in range(other.rank):
            self._join((scope, array, first + a), (inner, other, a))

    def _nest(self, scope: Scope, array: Array) -> None:
        """Join the axes that an array's elements read at one index, and its own axes at their own indices."""
        at: dict[Element, Axis] = {}
        own = array.indices if isinstance(array, Accumulate | Put) else map(Index, range(array.rank))
        if isinstance(array, Put):
            self._join_all(scope, array, scope, array.base)
        reads = (e for e in elements_of(array.elements) if isinstance(e, Read))
        for indexed, indices in chain([(array, own)], ((read.array, read.args) for read in reads)):
            for a, index in enumerate(map(_of_any_length, indices)):
                if index.axes or is_computed(index):
                    axis = scope, indexed, a
                    self._join(at.setdefault(index, axis), axis)
                    if _is_iteration(index):
                        self._join((scope, index.array, 0), axis)
                    self.views += _view(scope, array, index, axis)

    def _call(self, scope: Scope, call: Call) -> None:
        """A routine on matrices: its axes of equal length count as paired."""
        first: dict[Element, Axis] = {}
        for array in (call, *call.operands):
            for a, size in enumerate(array.shape):
                if isinstance(size, Size):
                    self._join(first.setdefault(size, (scope, array, a)), (scope, array, a))

    def _loop(self, scope: Scope, loop: Loop) -> None:
        """Join the axes of a loop's operands and results with those in its body; rows of one iteration are
        paired."""
        inner, items = (*scope, loop), iter(loop.items)
        number, *operands = loop.slots
        slots = iter(operands)
        for init, result in zip(loop.inits, loop.results, strict=True):
            slot = next(slots)
            for where, array in ((scope, init), (inner, result), (scope, next(items))):
                self._join_all(where, array, inner, slot)
        for array in loop.scanned:
            self._join((inner, number, 0), (scope, array, 0))
            self._join_all(scope, array, inner, next(slots), first=1)
        for array in loop.consts:
            self._join_all(scope, array, inner, next(slots))
        for out in loop.outs:
            item = next(items)
            self._join((inner, number, 0), (scope, item, 0))
            self._join_all(scope, item, inner, out, first=1)
        self.add(loop.roots, inner)


def _view(scope: Scope, array: Array, index: Element, axis: Axis) -> Iterator[tuple[Axis, Element, Axis]]:
    """The view of an axis that reads another axis at an index depending on its own position alone."""
    k = min(index.axes, default=array.rank)
    is_own = not isinstance(array, Accumulate | Put) and len(index.axes) == 1 and k < array.rank
    if is_own and axis[1] is not array:
        yield (scope, array, k), substitute(index, {k: POSITION}), axis


def _of_any_length(index: Element) -> Element:
    """An index with one symbol for all lengths: lengths that a call compares may be two symbols here."""
    return rewrite((index,), lambda e: ANY if isinstance(e, Size) else e)[0]


def _is_iteration(index: Element) -> TypeGuard[Read]:
    """Whether an index is the iteration number of the enclosing loop."""
    return isinstance(index, Read) and isinstance(index.array, Slot) and index.array.position == 0
