"""Loops are built from open bodies, and opened again for differentiation, batching and emission.

An open body consists of arrays that read placeholders (`fresh` inputs) for values that change from iteration
to iteration, and of other arrays. `build` closes it: arrays that do not depend on placeholders are computed
before the loop and become consts; a read at a place that depends only on the iteration, such as x[t + 1],
becomes a scanned row. Values carried unchanged are no longer carried, equal rows are one array, and neither
rows nor what does not change is collected. The body then contains only what must run in order, and equal
loops have one form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain, count

from adcompiler.ir.loop import Item, Loop, inside
from adcompiler.ir.nodes import (
    Array,
    Const,
    Element,
    Index,
    Input,
    Map,
    Read,
    Shape,
    closed,
    const,
    identity,
    is_const,
    zeros_like,
)
from adcompiler.ir.ruled import Ruled, slots_of
from adcompiler.ir.types import Dtype
from adcompiler.ir.walk import Rewriter, arrays_read, inputs_of_rule, postorder, read_by, rewrite, substitute
from adcompiler.lazy_dataclass import dataclass

_numbers = count(1_000_000)


class Number(Input):
    """A placeholder of the number of an iteration, which is never negative."""

    __slots__ = ()


def fresh(dtype: Dtype, shape: Sequence[Element]) -> Input:
    """A placeholder: an input unlike any other."""
    return Input(-next(_numbers), dtype, tuple(shape))


def fresh_number() -> Number:
    """A placeholder of the number of an iteration."""
    return Number(-next(_numbers), "i64", ())


def like(array: Array) -> Input:
    """A placeholder in the shape and dtype of an array."""
    return fresh(array.dtype, array.shape)


@dataclass(frozen=True)
class Carried:
    """One carried array: at first `init`, in an iteration `slot`, after it `result`."""

    init: Array
    slot: Array
    result: Array


@dataclass(frozen=True)
class Body:
    """An open body: `step` is the placeholder of the iteration's number, `rows` pairs of a scanned array and
    the placeholder of its row."""

    length: Element | None
    step: Array
    carried: tuple[Carried, ...]
    rows: tuple[tuple[Array, Array], ...] = ()
    outs: tuple[Array, ...] = ()
    test: Array | None = None
    backward: bool = False


class Replace(Rewriter):
    """Replaces arrays by others; the bodies of loops are closed and stay."""

    def __init__(self, replaced: dict[Array, Array]) -> None:
        super().__init__()
        self.arrays.update(replaced)

    def inner(self, loop: Loop | Ruled) -> None:
        """Bodies stay as they are."""

    def stays(self, array: Array) -> bool:
        """Only arrays are replaced; subclasses replace elements too."""
        return type(self) is Replace and self.reads_the_same(array)

    def resized(self, lengths: tuple[Element, ...]) -> tuple[Element, ...]:
        """Lengths that read what has been replaced."""
        self.run(read_by(lengths))
        return self._resize(lengths)


def closed_rule(
    value: Array, args: Sequence[Array], places: Sequence[Array], pulled: Sequence[Array]
) -> Ruled:
    """A value with a rule that is written with `places`: of the args, of the value and of its cotangent.

    Numbers that lengths read become args too, so that the rule is closed.
    """
    counts = [a for a in read_by(n for b in (*args, value) for n in b.shape) if a not in args]
    given = (*args, *counts)
    stand = (*places[: len(args)], *counts, *places[len(args) :])
    slots: tuple[Array, ...] = slots_of(value, given)
    roots = (*pulled, *map(zeros_like, counts))
    return Ruled(value, given, Replace(dict(zip(stand, slots, strict=True))).run(roots))


def opened_rule(array: Ruled, cotangent: Array, pulled: Sequence[Array]) -> tuple[Array, ...]:
    """Some of the arrays `pulled` of a rule in terms of the program around it."""
    slots: tuple[Array, ...] = inputs_of_rule(array)
    return Replace(dict(zip(slots, (*array.args, array, cotangent), strict=True))).run(pulled)


def opened(loop: Loop, places: Mapping[Array, Array] | None = None) -> Body:
    """The open body of a loop, with its own placeholders; `places` may say which stand for some slots.

    Consts are read where they are, unless they have a place.
    """
    step, *others = loop.slots
    inits, scanned = len(loop.inits), len(loop.scanned)
    new: dict[Array, Array] = dict(zip(others[inits + scanned :], loop.consts, strict=True))
    new |= places or {}
    new.setdefault(step, fresh_number())
    new |= {s: standing(s, new) for s in others[: inits + scanned] if s not in new}
    rows = tuple((a, new[s]) for a, s in zip(loop.scanned, others[inits:], strict=False))
    roots = Replace(new).run(loop.roots)
    carried = tuple(
        Carried(init, new[slot], result)
        for init, slot, result in zip(loop.inits, others[:inits], roots[:inits], strict=True)
    )
    outs = roots[inits : inits + len(loop.outs)]
    test = None if loop.test is None else roots[-1]
    return Body(loop.length, new[step], carried, rows, outs, test, loop.backward)


def const_places(loop: Loop) -> dict[Array, Array]:
    """A placeholder for the slot of each const of a loop. That of an outer number is one too."""
    slots = loop.const_slots
    lengths: dict[Array, Array] = {
        slot: fresh_number() if isinstance(const, Number) else like(slot)
        for slot, const in zip(slots, loop.consts, strict=True)
        if not slot.rank
    }
    return {slot: lengths[slot] if slot in lengths else standing(slot, lengths) for slot in slots}


def standing(slot: Array, places: Mapping[Array, Array]) -> Array:
    """A placeholder for a slot, whose lengths read what stands for other slots."""
    return fresh(slot.dtype, tuple(inside(n, places) for n in slot.shape))


@dataclass(frozen=True)
class Built:
    """The arrays that a loop gives, in the order of the body: finals, outs, and the number of iterations."""

    finals: tuple[Array, ...]
    outs: tuple[Array, ...]
    count: Array | None


def build(body: Body, kept: Set[Array] = frozenset()) -> Built:
    """Close a body and run it: the arrays that the loop gives. Arrays `kept` stay in the iteration."""
    unchanged: dict[Array, Array] = {}
    given = body.carried
    body = _without_equal_rows(body)
    while any(c.result is c.slot for c in body.carried):
        body = without_unchanged(body, unchanged)
    body = _with_rows(body)
    known = _known_outs(body)
    loop = _closed(replace(body, outs=tuple(a for a in body.outs if a not in known)), kept)
    items = iter(loop.items)
    finals = tuple(unchanged[c.slot] if c.slot in unchanged else next(items) for c in given)
    outs = tuple(known[a] if a in known else next(items) for a in body.outs)
    return Built(finals, outs, next(items, None))


def _without_equal_rows(body: Body) -> Body:
    """A body that reads one array where all rows of a scanned array are equal."""
    same: dict[Array, Array] = {}
    for whole, row in body.rows:
        if isinstance(whole, Map) and whole.shape[0] is body.length and 0 not in whole.body.axes:
            moved: dict[int, Element] = {k: Index(k - 1) for k in range(1, whole.rank)}
            same[row] = closed(whole.shape[1:], substitute(whole.body, moved))
    if not same:
        return body
    rows = [(whole, row) for whole, row in body.rows if row not in same]
    return with_roots(body, Replace(same).run(roots_of(body)), body.carried, rows)


def _known_outs(body: Body) -> dict[Array, Array]:
    """What a loop of known length would collect of loop-invariant arrays and of rows."""
    if body.length is None:
        return {}
    inside = varying(body)
    fixed = dict.fromkeys(a for a in body.outs if a not in inside)
    found = {a: _repeated(a, body.length) for a in fixed}
    return found | {row: whole for whole, row in body.rows if whole.shape[0] is body.length}


def _repeated(array: Array, length: Element) -> Array:
    """An array as each of the rows of another one."""
    shape = (length, *array.shape)
    return closed(shape, Read(array, identity(shape)[1:]))


def roots_of(body: Body) -> tuple[Array, ...]:
    """The values that a body computes."""
    return (*(c.result for c in body.carried), *body.outs, *(() if body.test is None else (body.test,)))


def with_roots(
    body: Body,
    roots: Sequence[Array],
    carried: Sequence[Carried],
    rows: Sequence[tuple[Array, Array]] | None = None,
) -> Body:
    """A body that computes `roots`, which stand for those of `carried`, its outs and its test."""
    kept = tuple(Carried(c.init, c.slot, r) for c, r in zip(carried, roots, strict=False))
    outs = tuple(roots[len(kept) : len(kept) + len(body.outs)])
    test = None if body.test is None else roots[-1]
    rows = body.rows if rows is None else tuple(rows)
    return Body(body.length, body.step, kept, rows, outs, test, body.backward)


def replaced(body: Body, new: Mapping[Array, Array]) -> Body:
    """A body with arrays replaced by others, also those that the lengths of its placeholders read."""
    change = Replace(dict(new))
    roots = change.run(roots_of(body))
    places = change.run((*(c.slot for c in body.carried), *(row for _, row in body.rows)))
    carried = [replace(c, slot=slot) for c, slot in zip(body.carried, places, strict=False)]
    rows = [(whole, row) for (whole, _), row in zip(body.rows, places[len(carried) :], strict=True)]
    return with_roots(body, roots, carried, rows)


def without_unchanged(body: Body, unchanged: dict[Array, Array]) -> Body:
    """A body that reads what it would carry unchanged where that comes from; `unchanged` gets the slots of
    these values with where they come from."""
    same = {c.slot: c.init for c in body.carried if c.result is c.slot}
    unchanged.update(same)
    kept = [c for c in body.carried if c.slot not in same]
    roots = Replace(same).run((*(c.result for c in kept), *roots_of(body)[len(body.carried) :]))
    return with_roots(body, roots, kept)


def varying(body: Body) -> set[Array]:
    """The arrays of a body that change from iteration to iteration."""
    found = {body.step, *(c.slot for c in body.carried), *(row for _, row in body.rows)}
    for array in postorder(roots_of(body), lambda a: () if a in found else arrays_read(a)):
        if any(a in found for a in arrays_read(array)):
            found.add(array)
    return found


def reached(roots: Iterable[Array], slots: Set[Array]) -> set[Array]:
    """The arrays that roots need in an iteration; slots are reached, and nothing behind them."""
    return set(postorder(roots, lambda a: () if a in slots else arrays_read(a)))


def dependents(slot: Array, result: Array) -> set[Array]:
    """A slot, and the arrays behind a result that depend on it."""
    found = {slot}
    for array in postorder((result,), arrays_read):
        if not found.isdisjoint(arrays_read(array)):
            found.add(array)
    return found


def _with_rows(body: Body) -> Body:
    """A body whose reads that the iteration's number places, or nothing in the loop, are rows and consts."""
    rewriter = _Rows(body)
    return with_roots(body, rewriter.run(roots_of(body)), body.carried, (*body.rows, *rewriter.rows.items()))


class _Rows(Replace):
    """Moves reads out of a loop whose indices no carried value decides."""

    def __init__(self, body: Body) -> None:
        self.length, self.step = body.length, body.step
        placed = {self.step, *(c.slot for c in body.carried), *(row for _, row in body.rows)}
        inside = varying(body)
        order = postorder(roots_of(body), lambda a: arrays_read(a) if a in inside - placed else ())
        self.outer = {a for a in order if a not in inside}
        super().__init__({a: a for a in (*placed, *self.outer)})
        self.rows: dict[Array, Array] = {}
        self.wholes = {row: whole for whole, row in body.rows}

    def element(self, element: Element) -> Element:
        if not isinstance(element, Read) or element.array not in self.outer:
            return element
        if isinstance(element.array, Map) and isinstance(element.array.body, Const):
            return element.array.body
        places = [k for k, index in enumerate(element.args) if self.moves(index)]
        stepping = [k for k in places if self.steps(element.args[k])]
        if self.length is None:  # there are no rows: the part of the array that all iterations read
            places, stepping = [k for k in places if k not in stepping], []
        if not places:
            return element
        rest = tuple(a for k, a in enumerate(element.args) if k not in places)
        if not stepping:
            return Read(self.slice(element, places, ()), rest)
        assert self.length is not None
        first = element.args[0]
        plain = stepping == places == [0] and isinstance(first, Read) and first.array is self.step
        whole = element.array if plain else self.slice(element, places, (self.length,))
        if whole not in self.rows:
            row = self.rows[whole] = fresh(whole.dtype, whole.shape[1:])
            self.wholes[row] = whole
        return Read(self.rows[whole], rest)

    def slice(self, read: Read, places: Sequence[int], iterations: Shape) -> Array:
        """The part of an array that a read with such indices reaches, for each of `iterations`."""
        shape = iterations + tuple(n for k, n in enumerate(read.array.shape) if k not in places)
        free = iter(identity(shape)[len(iterations) :])
        iteration = Index(0) if iterations and not is_const(iterations[0], 1) else const(0, "i64")

        def at(element: Element) -> Element:
            if isinstance(element, Read) and element.array in self.wholes:
                return Read(self.wholes[element.array], (iteration, *element.args))
            return iteration if isinstance(element, Read) and element.array is self.step else element

        indices = tuple(
            rewrite((index,), at)[0] if k in places else next(free) for k, index in enumerate(read.args)
        )
        return closed(shape, Read(read.array, indices))

    def moves(self, index: Element) -> bool:
        """Whether an index reads arrays, none of them at an axis, and none that is carried."""
        reads = read_by((index,))
        known = all(a in self.outer or self.is_iteration(a) for a in reads)
        return bool(reads) and not index.axes and known

    def steps(self, index: Element) -> bool:
        return any(self.is_iteration(a) for a in read_by((index,)))

    def is_iteration(self, array: Array) -> bool:
        """Whether an array is another in each iteration, but known before the loop."""
        return array is self.step or array in self.wholes


def _closed(body: Body, kept: Set[Array]) -> Loop:
    """The loop of a body: arrays from outside become consts, and all its inputs slots."""
    roots = roots_of(body)
    inside = varying(body) | kept
    placed = (body.step, *(c.slot for c in body.carried), *(row for _, row in body.rows))
    order = postorder(roots, lambda a: () if a in placed else arrays_read(a))
    read = dict.fromkeys(roots)
    for array in order:
        if array in inside and array not in placed:
            read |= dict.fromkeys(arrays_read(array))
    rows = [(whole, row) for whole, row in body.rows if row in read]
    fixed = [a for a in read if a not in inside]
    shapes = [c.init.shape for c in body.carried] + [row.shape for _, row in rows] + [a.shape for a in fixed]
    consts = list(dict.fromkeys((*fixed, *read_by(chain.from_iterable(shapes)))))
    outer = (body.step, *(c.slot for c in body.carried), *(row for _, row in rows), *consts)
    operands = tuple(c.init for c in body.carried), tuple(whole for whole, _ in rows), tuple(consts)
    slots = Loop(body.length, *operands, (), (), None, body.backward).slots
    closed_roots = Replace(dict(zip(outer, slots, strict=True))).run(roots)
    count = len(body.carried)
    return Loop(
        body.length,
        *operands,
        closed_roots[:count],
        closed_roots[count : count + len(body.outs)],
        None if body.test is None else closed_roots[-1],
        body.backward,
    )


def filling(array: Array) -> Const | None:
    """The constant that fills an array, if there is one."""
    return array.body if isinstance(array, Map) and isinstance(array.body, Const) else None


def made_before(array: Array) -> Sequence[Array]:
    """The arrays needed before an array. A loop fills constant initial values itself."""
    if not isinstance(array, Item):
        return arrays_read(array)
    loop = array.loop
    whole = {*loop.scanned, *loop.consts}
    return [a for a in arrays_read(array) if a in whole or a not in loop.inits or filling(a) is None]
