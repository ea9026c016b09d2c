"""Copies of arrays with their axes in another order are not made for loops: a loop reads the array itself.

What an inner loop reads along another axis than the first, such as table[k, j] in `for j in range(m)`, is a
row of a copy whose first axis is that one (`ir/bodies.py`). If the inner loop becomes a sum, nothing reads
rows any more, but the copy would still be a constant of the loops around it. These would read single elements
far apart, and add to the copy's derivative in its order. A copy whose rows are read, as those of a transposed
matrix, stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Array, Call, Element, Func, Index, Map, Read
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, arrays_of, arrays_read, elements_of, has_loops, substitute


def views(func: Func) -> Func:
    """The program with loops that read arrays in the order in which they are stored."""
    return _Views().func(func) if has_loops(func.roots) else func


class _Views(Rewriter):
    def _loop(self, loop: Loop) -> Loop:
        return super()._loop(_through_views(loop))


def _through_views(loop: Loop) -> Loop:
    """The loop with arrays as constants in the place of their views."""
    slots = zip(loop.consts, loop.const_slots, strict=True)
    found = {
        a: body for a, slot in slots
        if (body := _viewed(a)) is not None and _pays(slot, body, loop.roots)
    }  # fmt: skip
    if not found:
        return loop
    consts = tuple(found[a].array if a in found else a for a in loop.consts)
    new = Loop(loop.length, loop.inits, loop.scanned, consts, (), (), None, loop.backward)
    places: dict[Array, Array] = dict(zip(loop.slots, new.slots, strict=True))
    for slot, const in zip(loop.const_slots, loop.consts, strict=True):
        if const in found:
            places[slot] = Map(slot.shape, Read(places[slot], found[const].args))
    roots = _Through(places).run(loop.roots)
    count = len(loop.results)
    test = None if loop.test is None else roots[-1]
    rest = roots[:count], roots[count : count + len(loop.outs)], test, loop.backward
    return Loop(loop.length, loop.inits, loop.scanned, consts, *rest)


def _viewed(array: Array) -> Read | None:
    """The read of another array that each element of an array is, if it only has its axes in another
    order."""
    if not (isinstance(array, Map) and isinstance(array.body, Read)):
        return None
    axes = [i.axis for i in array.body.args if isinstance(i, Index)]
    is_other = len(axes) == len(array.body.args) and axes != sorted(axes) == list(range(array.rank))
    return array.body if is_other else None


def _pays(slot: Array, body: Read, roots: Sequence[Array]) -> bool:
    """Whether loops read only single elements of a view, `slot`, and these are beside each other in the array
    that `body` reads."""
    if slot in roots:
        return False
    for array in arrays_of(roots):
        if isinstance(array, Item):
            loop = array.loop
            inner = [s for s, a in zip(loop.const_slots, loop.consts, strict=True) if a is slot]
            whole = slot in (*loop.inits, *loop.scanned)
            if whole or not all(_pays(s, body, loop.roots) for s in inner):
                return False
        elif isinstance(array, Call | Ruled) and slot in arrays_read(array):
            return False
        for e in elements_of(array.elements):
            if isinstance(e, Read) and e.array is slot:
                there = substitute(body, dict(enumerate(e.args)))
                if isinstance(e.args[-1], Index) or not isinstance(there.args[-1], Index):
                    return False
    return True


class _Through(Replace):
    """Replaces slots; elements of views are read where they are stored."""

    def element(self, element: Element) -> Element:
        body = _viewed(element.array) if isinstance(element, Read) else None
        return element if body is None else substitute(body, dict(enumerate(element.args)))
