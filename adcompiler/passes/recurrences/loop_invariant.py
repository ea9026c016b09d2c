"""Loop-invariant code motion: loop-invariant arrays are computed before a program loop.

`ir/bodies.py` builds loops so, but passes turn parts of bodies into arrays. A loop-invariant array would be
computed in every iteration. If several loops contained it, it would be computed in several places, although
it is one array with one name and one buffer.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Array, Const, Func, Input, Map
from adcompiler.ir.walk import Rewriter, arrays_of, arrays_read, read_by


def hoist_loop_invariants(func: Func) -> Func:
    """The program with loops that compute no loop-invariant arrays."""
    return _Lift().func(func)


class _Lift(Rewriter):
    def _loop(self, loop: Loop) -> Loop:
        loop = super()._loop(loop)
        found = _unchanging(loop)
        if not found:
            return loop
        slots = loop.slots[len(loop.slots) - len(loop.consts) :]
        made = Replace(dict(zip(slots, loop.consts, strict=True))).run(found)
        lengths = read_by(chain.from_iterable(a.shape for a in made))
        # Slots are positional: consts that became equal arrays keep separate slots.
        more = dict.fromkeys(a for a in (*made, *lengths) if a not in loop.consts)
        operands = (loop.length, loop.inits, loop.scanned, (*loop.consts, *more))
        slots = Loop(*operands, (), (), None, loop.backward).slots[-len(operands[-1]) :]
        places = dict(zip(operands[-1], slots, strict=True))
        roots = Replace({a: places[m] for a, m in zip(found, made, strict=True)}).run(loop.roots)
        results, outs = roots[: len(loop.results)], roots[len(loop.results) :][: len(loop.outs)]
        return Loop(*operands, results, outs, None if loop.test is None else roots[-1], loop.backward)


def _unchanging(loop: Loop) -> list[Array]:
    """The loop-invariant arrays that an iteration would compute."""
    changing: set[Array] = set(loop.slots[: len(loop.slots) - len(loop.consts)])
    read = dict.fromkeys(loop.roots)
    for array in arrays_of(loop.roots):
        if any(a in changing for a in arrays_read(array)):
            changing.add(array)
        if array in changing or _is_number(array):
            read |= dict.fromkeys(_made_before(array))
    return [a for a in read if not (a in changing or isinstance(a, Input) or _is_number(a))]


def _is_number(array: Array) -> bool:
    """Whether an array is a scalar that is quickly computed: it needs no buffer."""
    return isinstance(array, Map) and not array.rank


def _made_before(array: Array) -> Iterable[Array]:
    """The arrays needed before an array. A loop fills constant initial values itself."""
    if not isinstance(array, Item):
        return arrays_read(array)
    whole = {*array.loop.scanned, *array.loop.consts}
    return [
        a
        for a in arrays_read(array)
        if a in whole or not (a in array.loop.inits and isinstance(a, Map) and isinstance(a.body, Const))
    ]
