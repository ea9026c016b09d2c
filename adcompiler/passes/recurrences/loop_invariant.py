"""Loop-invariant code motion: loop-invariant arrays are computed before a program loop.

`ir/bodies.py` builds loops so, but passes turn parts of bodies into arrays. A loop-invariant array would be
computed in every iteration. If several loops contained it, it would be computed in several places, although
it is one array with one name and one buffer.

A function of loop-invariant values, such as exp(w[k]) in what an iteration computes, becomes such an array if
it is no larger than what it reads.

A row that is the same in each iteration is a constant of the loop, and a collected value that no iteration
changes is that value, whatever the iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from adcompiler.ir.bodies import Replace, made_before
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Array,
    Call,
    Const,
    Element,
    Func,
    Index,
    Input,
    Map,
    Read,
    Size,
    closed,
    identity,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    Rewriter,
    arrays_of,
    arrays_read,
    elements_of,
    is_small,
    read_by,
    rewrite,
    separate,
    with_elements,
)
from adcompiler.ops.costs import is_function
from adcompiler.passes.arrays.prune import prune


def hoist_loop_invariants(func: Func) -> Func:
    """The program with loops that compute no loop-invariant arrays."""
    known: list[Item] = []
    func = _Lift(known).func(func)
    return prune(func) if known else func


class _Lift(Rewriter):
    """`known` gets what loops need not collect."""

    def __init__(self, known: list[Item]) -> None:
        super().__init__()
        self.known = known

    def inner(self, loop: Loop | Ruled) -> Rewriter:
        return _Lift(self.known)

    def _item(self, item: Item) -> Array:  # type: ignore[override]
        new = super()._item(item)
        loop, k = new.loop, new.k - len(new.loop.results)
        if 0 <= k < len(loop.outs):
            consts: dict[Array, Array] = dict(zip(loop.const_slots, loop.consts, strict=True))
            value = consts.get(loop.outs[k])
            if value is not None and value.shape == new.shape[1:]:
                self.known.append(new)
                return closed(new.shape, Read(value, identity(new.shape)[1:]))
        return new

    def _loop(self, loop: Loop) -> Loop:
        loop = _outlined(_without_same_rows(super()._loop(loop)))
        found = _unchanging(loop)
        if not found:
            return loop
        slots = loop.const_slots
        made = Replace(dict(zip(slots, loop.consts, strict=True))).run(found)
        lengths = read_by(chain.from_iterable(a.shape for a in made))
        # Slots are positional: consts that became equal arrays keep separate slots.
        more = dict.fromkeys(a for a in (*made, *lengths) if a not in loop.consts)
        operands = (loop.length, loop.inits, loop.scanned, (*loop.consts, *more))
        slots = Loop(*operands, (), (), None, loop.backward).slots[-len(operands[-1]) :]
        places = dict(zip(operands[-1], slots, strict=True))
        roots = Replace({a: places[m] for a, m in zip(found, made, strict=True)}).run(loop.roots)
        return _with_roots(loop, operands, roots)


def _without_same_rows(loop: Loop) -> Loop:
    """The loop with rows that are the same in each iteration as constants."""
    first = 1 + len(loop.inits)
    rows = list(zip(loop.slots[first:], loop.scanned, strict=False))
    same = {slot: whole for slot, row in rows if (whole := _same(row)) is not None}
    if not same:
        return loop
    kept = [(slot, row) for slot, row in rows if slot not in same]
    more = dict.fromkeys(a for a in same.values() if a not in loop.consts)
    operands = (loop.length, loop.inits, tuple(row for _, row in kept), (*loop.consts, *more))
    new = Loop(*operands, (), (), None, loop.backward)
    slots = [*loop.slots[:first], *(slot for slot, _ in kept), *loop.const_slots]
    places: dict[Array, Array] = dict(zip(slots, new.slots, strict=False))
    consts = dict(zip(new.consts, new.const_slots, strict=True))
    places |= {slot: consts[a] for slot, a in same.items()}
    roots = Replace(places).run(loop.roots)
    return _with_roots(loop, operands, roots)


def _same(rows: Array) -> Array | None:
    """The array that each row is, if all are the same one."""
    if not (isinstance(rows, Map) and isinstance(rows.body, Read)):
        return None
    whole, args = rows.body.array, rows.body.args
    return whole if whole.shape == rows.shape[1:] and args == identity(rows.shape)[1:] else None


def _outlined(loop: Loop) -> Loop:
    """The loop with costly functions of loop-invariant values as arrays of their own."""
    fixed: set[Array] = set(loop.const_slots)
    for array in arrays_of(loop.roots):
        if not isinstance(array, Input) and fixed.issuperset(arrays_read(array)):
            fixed.add(array)
    roots = _Outline(fixed).run(loop.roots)
    if roots == loop.roots:
        return loop
    return _with_roots(loop, (loop.length, loop.inits, loop.scanned, loop.consts), roots)


Operands = tuple[Element | None, tuple[Array, ...], tuple[Array, ...], tuple[Array, ...]]


def _with_roots(loop: Loop, operands: Operands, roots: Sequence[Array]) -> Loop:
    """A loop over operands whose body computes `roots`, in the order of those of `loop`."""
    results, outs = tuple(roots[: len(loop.results)]), tuple(roots[len(loop.results) :][: len(loop.outs)])
    return Loop(*operands, results, outs, None if loop.test is None else roots[-1], loop.backward)


class _Outline(Replace):
    """Makes arrays of the largest elements that depend on `fixed` arrays only and call a function."""

    def __init__(self, fixed: set[Array]) -> None:
        super().__init__({a: a for a in fixed})
        self.fixed = fixed

    def array(self, array: Array) -> Array:
        if isinstance(array, Input | Item | Call) or array in self.fixed:
            return array
        new = {e: separate(e, array.domain) for e in self.costly(array) if e.axes and is_small(e)}
        if not new:
            return array
        return with_elements(array, lambda elements: rewrite(elements, lambda e: e, dict(new)))

    def costly(self, array: Array) -> Iterable[Element]:
        """The elements that depend on nothing else and call a function."""
        fixed: set[Element] = set()
        costs: set[Element] = set()
        for e in elements_of(array.elements):
            leaf = isinstance(e, Const | Size) or (isinstance(e, Index) and e.axis >= 0)
            whole = fixed.issuperset(e.args) and (not isinstance(e, Read) or e.array in self.fixed)
            if leaf or (e.args and whole) or (whole and isinstance(e, Read)):
                fixed.add(e)
            if (e.axes and is_float(e.dtype) and is_function(e)) or not costs.isdisjoint(e.args):
                costs.add(e)
        return [e for e in elements_of(array.elements) if e in fixed and e in costs and is_float(e.dtype)]


def _unchanging(loop: Loop) -> list[Array]:
    """The loop-invariant arrays that an iteration would compute."""
    changing: set[Array] = set(loop.slots[: len(loop.slots) - len(loop.consts)])
    read = dict.fromkeys(loop.roots)
    for array in arrays_of(loop.roots):
        if any(a in changing for a in arrays_read(array)):
            changing.add(array)
        if array in changing or _is_number(array):
            read |= dict.fromkeys(made_before(array))
    return [a for a in read if not (a in changing or isinstance(a, Input) or _is_number(a))]


def _is_number(array: Array) -> bool:
    """Whether an array is a scalar that is quickly computed: it needs no buffer."""
    return isinstance(array, Map) and not array.rank
