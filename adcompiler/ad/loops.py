"""Derivatives of loops.

Reverse mode runs a loop backwards. The reverse iteration is the vjp of the iteration. It carries the
cotangents of the carried values, and for each const the sum of its contributions; for a row of a scanned
array it returns a row. It reads values of the iteration from stacks: the loop is run with outs for its
carried values and for values that are costly to recompute. A while loop is first counted, then treated as a
loop with that trip count.

Forward mode carries the tangents along.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

from adcompiler.ad.final_reads import final_reads
from adcompiler.ad.guards import TRUE, Guarded, Tangent, both, either, mask, masked, negation, within
from adcompiler.ad.liveness import liveness
from adcompiler.ad.partials import active_arrays
from adcompiler.ad.rows import row_cotangents
from adcompiler.ad.singular import Zeros, has_branches, is_singular, zeros_of
from adcompiler.ad.stacks import Outlined, fewest, is_small, longest, outlined, padded, stacked
from adcompiler.analysis.puts import is_stored_in, puts_of
from adcompiler.ir.bodies import (
    Body,
    Carried,
    Replace,
    build,
    const_places,
    fresh,
    like,
    opened,
    replaced,
    roots_of,
    with_roots,
)
from adcompiler.ir.loop import Loop, inside
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Element,
    Index,
    Input,
    Map,
    Put,
    Read,
    closed,
    const,
    element_of,
    identity,
    is_const,
    zeros_like,
)
from adcompiler.ir.origins import gathered
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    arrays_of,
    operands,
    read_by,
    substitute,
)
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

Pull = Callable[
    [Sequence[Array], Sequence[Guarded | None], Sequence[Array], Collection[Array], Mapping[Array, Put]],
    list[Guarded | None],
]
Orders = list[Tangent | None]  # the derivatives of an array in order, None for zero
Push = Callable[[Sequence[Array], Mapping[Array, Orders], bool], list[Orders]]


FALSE = const(False, "bool")


class _Flags:
    """Where each of the derivatives that a loop carries is nonzero, before any iteration: everywhere,
    nowhere, or where an array of truth values says so, which the loop carries too.

    Derivatives are known by their slots; `first` has their guards before the first iteration, None for zero.
    Those that are `plain` have no flags along axes: iterations store in parts of them, and flags would be
    changed all over in each.
    If the flags are not `exact`, a derivative is nonzero everywhere once an iteration gives it.
    """

    def __init__(
        self, first: Mapping[Array, Element | None], exact: bool, plain: Collection[Array] = ()
    ) -> None:
        self.first, self.exact, self.plain = first, exact, plain
        self.everywhere = {s for s, g in first.items() if s in plain and g is not None and g.axes}
        self.now: dict[Array, Element | None] = {}
        self.places: dict[Array, Array] = {}
        for slot, guard in first.items():
            if slot in self.everywhere:
                self.now[slot] = TRUE
            else:
                self.now[slot] = guard if guard in (None, TRUE) else self._flag(slot, guard.axes)

    def _flag(self, slot: Array, axes: Iterable[int]) -> Read:
        """A new flag for a slot, over some of its axes."""
        along = sorted(axes)
        place = self.places[slot] = fresh("bool", [slot.shape[k] for k in along])
        return Read(place, tuple(map(Index, along)))

    def grow(self, slot: Array, after: Element | None) -> bool:
        """Add a guard that a slot has after an iteration: whether it had to get another flag."""
        before = self.now[slot]
        if before is after or (not self.exact and before is TRUE):
            return False
        axes = {*(before or TRUE).axes, *(after or TRUE).axes}
        if slot in self.everywhere:
            return False
        if axes and slot in self.plain:
            self.everywhere.add(slot)
            self.now[slot] = TRUE
            self.places.pop(slot, None)
            return before is not TRUE
        if slot in self.places and axes == (before or TRUE).axes:
            return False
        self.now[slot] = self._flag(slot, axes) if self.exact else TRUE
        return True

    def given(self, slot: Array, value: Array) -> Guarded | None:
        """A derivative with its guard; None if it is zero."""
        guard = self.now[slot]
        return None if guard is None else Guarded(guard, element_of(value))

    def are_plain(self, found: Iterable[Guarded | None]) -> bool:
        """Whether all derivatives in an iteration are nonzero everywhere, or else nowhere."""
        own = {TRUE, *(g for g in self.now.values() if g is not None and not g.axes)}
        return all(g is None or own.issuperset(operands(g.guard, "logical_or")) for g in found)

    def tangent(self, slot: Array) -> Tangent | None:
        """The placeholder of a derivative with its guard; None if it is zero."""
        guard = self.now[slot]
        return None if guard is None else Tangent(guard, slot)

    def settled(self, after: Mapping[Array, Element | None], body: Body) -> dict[Array, Array]:
        """What stands for flags that need not be carried, as they are the same in all iterations, or in all
        but the first one; the others are `carried`."""
        new: dict[Array, Array] = {}
        self.carried: dict[Array, Carried] = {}
        for slot, place in self.places.items():
            first, then = self.first[slot], after[slot]
            if then is self.now[slot]:
                new[place] = self._over(slot, place, first)
            elif not place.rank and first in (None, TRUE) and then in (None, TRUE):
                later = _is_later(body)
                new[place] = Map((), later if first is None else negation(later))
            else:
                self.carried[slot] = Carried(
                    self._over(slot, place, first), place, self._over(slot, place, then)
                )
        return new

    def _over(self, slot: Array, place: Array, guard: Element | None) -> Array:
        """A guard as an array in the shape of a flag."""
        at = self.now[slot]
        assert isinstance(at, Read)
        own: dict[int, Element] = {i.axis: Index(p) for p, i in enumerate(at.args) if isinstance(i, Index)}
        return closed(place.shape, substitute(guard or FALSE, own))

    def end(self, slot: Array, final: Array | None, length: Element) -> Element:
        """The guard of a derivative after the loop, from the flag that it carries."""
        now, first = self.now[slot], self.first[slot]
        assert now is not None
        if now is TRUE:
            return TRUE
        assert isinstance(now, Read)
        if final is not None:
            return Read(final, now.args)
        if first in (None, TRUE) and not now.axes:
            has_iterations = apply("less", const(0, "i64"), length)
            return has_iterations if first is None else negation(has_iterations)
        assert first is not None
        return first


def _is_later(body: Body) -> Element:
    """Whether an iteration is not the first one that runs."""
    step = Read(body.step, ())
    if not body.backward:
        return apply("less", const(0, "i64"), step)
    assert body.length is not None
    return apply("less", step, apply("subtract", body.length, const(1, "i64")))


@dataclass(frozen=True)
class _Where:
    """Where contributions of iterations to an operand are nonzero, over some axes of what an iteration reads:
    everywhere, or where an array `known` before the loop says so, or a `flag` in each iteration."""

    axes: tuple[int, ...]
    known: Array | None = None
    flag: Array | None = None

    def any(self, whole: Array) -> Carried:
        """Whether the flag was set in any iteration, as the loop carries it."""
        assert self.flag is not None
        place = fresh("bool", self.flag.shape)
        both = Apply("logical_or", (element_of(place), element_of(self.flag)), "bool")
        init = Map(tuple(whole.shape[k] for k in self.axes), FALSE)
        return Carried(init, place, Map(place.shape, both))

    def at(self, final: Array | None) -> Element:
        """The guard over the axes of the operand, given what the loop carries in the end."""
        array = self.known or final
        return TRUE if array is None else Read(array, tuple(map(Index, self.axes)))

    def in_rows(self, whole: Array, stack: Array | None) -> Element:
        """The guard over the axes of an operand of which an iteration reads a row, given the flags of all."""
        at = tuple(Index(k + 1) for k in self.axes)
        if stack is None:
            return TRUE if self.known is None else Read(self.known, at)
        row = const(0, "i64") if is_const(whole.shape[0], 1) else Index(0)
        guard = Read(stack, (row, *at))
        return guard if stack.shape[0] is whole.shape[0] else both(apply("less", row, stack.shape[0]), guard)


def _where(
    guard: Element, place: Array, change: Replace, varying: set[Array], outside: Mapping[Array, Array]
) -> _Where:
    """Where a derivative over the axes of `place` is nonzero in an iteration, given what varies in it, and
    what its placeholders stand for."""
    if guard is TRUE:
        return _Where(())
    axes = tuple(sorted(guard.axes))
    own: dict[int, Element] = {k: Index(p) for p, k in enumerate(axes)}
    flag = closed(tuple(place.shape[k] for k in axes), substitute(guard, own))
    (flag,) = change.run((flag,))
    if varying.isdisjoint(arrays_of((flag,))):
        return _Where(axes, known=Replace(dict(outside)).run((flag,))[0])
    return _Where(axes, flag=flag)


def _guard_of_row(whole: Array, guard: Element) -> tuple[Element, list[tuple[Array, Array]]]:
    """The guard of one row, given that of the whole array, and the arrays of which it reads rows."""
    if guard is TRUE:
        return TRUE, []
    along = sorted(guard.axes - {0})
    axes = [0, *along] if 0 in guard.axes else along
    own: dict[int, Element] = {k: Index(p) for p, k in enumerate(axes)}
    flags = closed(tuple(whole.shape[k] for k in axes), substitute(guard, own))
    at = tuple(Index(k - 1) for k in along)
    if 0 not in guard.axes:
        return Read(flags, at), []
    row = fresh("bool", flags.shape[1:])
    return Read(row, at), [(flags, row)]


# -- reverse mode --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Iteration:
    """One iteration of a loop, with placeholders for its consts; `wanted` are the active operands, as the
    iteration refers to them."""

    body: Body
    outline: Outlined
    consts: tuple[tuple[Array, Array], ...]
    varied: tuple[Carried, ...]
    rows: tuple[tuple[Array, Array], ...]
    active: tuple[tuple[Array, Array], ...]

    @property
    def wanted(self) -> list[Array]:
        return [*(c.slot for c in self.varied), *(r for _, r in self.rows), *(p for _, p in self.active)]

    @property
    def operands(self) -> list[Array]:
        """The active operands, in the order of `wanted`."""
        return [*(c.init for c in self.varied), *(w for w, _ in self.rows), *(w for w, _ in self.active)]

    @cached_property
    def reached(self) -> set[Array]:
        """The arrays of the iteration through which a derivative flows."""
        return active_arrays(arrays_of(roots_of(self.body)), self.wanted)

    def zeros(self, outside: Zeros) -> Zeros:
        """The arrays of the iteration behind which a zero stays zero."""
        body = self.body
        order = arrays_of(roots_of(body))
        pairs = [(c.init, c.slot) for c in body.carried]
        pairs += [*body.rows, *self.consts]
        unsafe = {place for whole, place in pairs if whole not in outside.finite}
        unsafe.update(
            place
            for whole, place in zip(self.operands, self.wanted, strict=True)
            if whole not in outside.safe
        )
        while True:
            inside = zeros_of(order, self.reached, unsafe)
            more = {c.slot for c in body.carried if c.result not in inside.finite} - unsafe
            if not more:
                return inside
            unsafe |= more


def reverse(
    loop: Loop, totals: Sequence[Guarded | None], active: set[Array], zeros: Zeros, pull: Pull
) -> Iterator[tuple[Array, Guarded]]:
    """The contributions of a loop to the cotangents of its operands: pairs of operand and contribution.

    `totals` are the cotangents of the loop's results; `active` are the arrays that a derivative flows to;
    `zeros` says behind which of them a zero stays zero. `pull` is the vjp of a program without this loop.
    """
    iteration = _iteration(loop, active)
    inside = iteration.zeros(zeros)
    gate, totals = _gated(iteration, totals, zeros, inside)
    for part, contribution in _Reverse(loop, iteration, totals, zeros, inside, pull).run():
        yield part, contribution._replace(guard=within(gate, contribution.guard))


def _gated(
    iteration: _Iteration, totals: Sequence[Guarded | None], zeros: Zeros, inside: Zeros
) -> tuple[Element, Sequence[Guarded | None]]:
    """A condition outside of which a loop contributes nothing, and the cotangents of its results inside.

    If one condition guards all of them, the loop need not know it. Nor need it know any if zeros stay zero in
    it and behind it.
    """
    guards = list(dict.fromkeys(t.guard for t in totals if t is not None))
    are_scalar = not any(g.axes for g in guards)
    is_kept = inside.safe.issuperset(iteration.reached) and zeros.safe.issuperset(iteration.operands)
    if not is_kept and not (are_scalar and len(guards) == 1):
        return TRUE, totals
    masked = [t and Guarded(TRUE, mask(t.value, t.guard)) for t in totals]
    return either(guards) if are_scalar else TRUE, masked


class _Reverse:
    """A loop that runs backwards, with the cotangents of its results."""

    def __init__(
        self,
        loop: Loop,
        iteration: _Iteration,
        totals: Sequence[Guarded | None],
        zeros: Zeros,
        inside: Zeros,
        pull: Pull,
    ) -> None:
        self.loop, self.iteration, self.pull = loop, iteration, pull
        self.zeros, self.inside = zeros, inside
        self.rows: list[tuple[Array, Array]] = []  # of cotangents and flags of what iterations collect
        count = len(iteration.body.carried)
        self.slots = {c: like(c.init) for c in iteration.varied}
        self.partial = {s for c, s in self.slots.items() if s.rank and is_stored_in(c.result)}
        self.finals = {c: t for c, t in zip(iteration.body.carried, totals, strict=False) if c in self.slots}
        last = count + len(iteration.body.outs)
        pairs = zip(loop.items[count:last], totals[count:last], strict=True)
        self.seeds = [None if t is None else self.row(item, t) for item, t in pairs]
        is_guarded = any(t is not None and t.guard is not TRUE for t in totals)
        self.needs_flags = is_guarded or any(is_singular(a, iteration.reached) for a in iteration.reached)
        branches = any(has_branches(a, iteration.reached) for a in iteration.reached)
        is_kept = inside.safe.issuperset(iteration.reached)
        self.exact = self.needs_flags or (branches and not is_kept)
        length = loop.length if loop.length is not None else Read(loop.items[-1], ())
        self.back = Body(length, iteration.body.step, (), (), (), None, not loop.backward)

    def row(self, item: Array, total: Guarded) -> Guarded:
        """The cotangent of one row of what iterations collect."""
        whole = _gathered(item, total)
        row = fresh(whole.dtype, whole.shape[1:])
        self.rows.append((whole, row))
        guard, rows = _guard_of_row(item, total.guard)
        self.rows += rows
        return Guarded(guard, element_of(row))

    def run(self) -> Iterator[tuple[Array, Guarded]]:
        """The contributions to the cotangents of the loop's operands."""
        found = self.pulled()
        iteration, flags = self.iteration, self.flags
        after: dict[Array, Element | None] = {
            slot: None if (g := found[c.slot]) is None else g.guard for c, slot in self.slots.items()
        }
        self.change = Replace(flags.settled(after, self.back))
        slots = [(c, slot) for c, slot in self.slots.items() if flags.now[slot] is not None]
        self.flagged = {c.slot for c, slot in slots if flags.now[slot] is not TRUE}
        carried = [Carried(self.init(c), slot, self.value(c.slot, found[c.slot])) for c, slot in slots]
        flagged = {s: replace(c, result=self.change.run((c.result,))[0]) for s, c in flags.carried.items()}
        self.varying = {iteration.body.step, *(r for _, r in (*iteration.body.rows, *self.rows))}
        self.varying |= {c.slot for c in (*iteration.body.carried, *flagged.values())}
        sums, rows = [], []
        for whole, place in iteration.active:
            if (part := found[place]) is not None:
                guard = self.guard(whole, place, part)
                slot = like(whole)
                carried.append(Carried(zeros_like(whole), slot, _plus(slot, self.value(place, part))))
                carried += [] if guard.flag is None else [guard.any(whole)]
                sums.append((whole, guard))
        outs: list[Array] = []
        for whole, place in iteration.rows:
            if (part := found[place]) is not None:
                guard = self.guard(whole, place, part)
                rows.append((row_cotangents(whole, self.value(place, part)), guard))
                outs += [o for each in rows[-1][0] for o in each.outs]
                outs += [] if guard.flag is None else [guard.flag]
        back = replace(
            self.back,
            carried=(*carried, *flagged.values()),
            rows=(*iteration.body.rows, *self.rows),
            outs=tuple(outs),
        )
        built = build(_with_stacks(self.loop, iteration, back, self.puts))
        finals, stacks = iter(built.finals), iter(built.outs)
        ends = [next(finals) for _ in slots]
        totals = [(next(finals), w.at(None if w.flag is None else next(finals))) for _, w in sums]
        last = {slot: next(finals) for slot in flagged}
        for (c, slot), end in zip(slots, ends, strict=True):
            yield c.init, Guarded(self.end(c, last.get(slot)), element_of(end))
        for (whole, _), (total, condition) in zip(sums, totals, strict=True):
            yield whole, Guarded(condition, element_of(total))
        for parts, guard in rows:
            made = [part.of([next(stacks) for _ in part.outs]) for part in parts]
            condition = guard.in_rows(parts[0].whole, None if guard.flag is None else next(stacks))
            for total in made:
                yield parts[0].whole, Guarded(condition, element_of(total))

    def init(self, carried: Carried) -> Array:
        """The cotangent of a carried value after the loop."""
        final = self.finals[carried]
        if final is None:
            return zeros_like(carried.init)
        if self.slots[carried] in self.flags.everywhere:
            final = Guarded(TRUE, mask(final.value, final.guard))
        return _gathered(carried.init, final)

    def value(self, place: Array, found: Guarded | None) -> Array:
        """The cotangent that an iteration gives; zero where its guard does not hold, unless flags say so."""
        if found is None:
            return zeros_like(place)
        made = closed(place.shape, found.value if place in self.flagged else mask(found.value, found.guard))
        gathered((made,), [found.value], place)
        return self.change.run((made,))[0]

    def guard(self, whole: Array, place: Array, found: Guarded) -> _Where:
        """Where the contributions of all iterations to an operand are nonzero."""
        if found.guard is TRUE or whole in self.zeros.safe:
            return _Where(())
        consts = {place: const for const, place in self.iteration.consts}
        return _where(found.guard, place, self.change, self.varying, consts)

    def end(self, carried: Carried, flag: Array | None) -> Element:
        """The guard of a carried value's cotangent before the loop."""
        slot = self.slots[carried]
        if flag is None and carried.init in self.zeros.safe and self.flags.first[slot] in (None, TRUE):
            return TRUE  # its zeros stay zero
        assert self.back.length is not None
        return self.flags.end(slot, flag, self.back.length)

    def pulled(self) -> dict[Array, Guarded | None]:
        """The cotangents of what an iteration reads, for all that are nonzero in any iteration."""
        first: dict[Array, Element | None] = {
            self.slots[c]: None if t is None else t.guard for c, t in self.finals.items()
        }
        self.flags = _Flags(first, self.exact, self.partial)
        self.puts = {} if self.exact else puts_of(self.iteration.body)
        body, wanted = self.iteration.body, self.iteration.wanted
        roots = roots_of(replace(body, test=None))
        unsafe = set(self.inside.unsafe)
        if self.exact:
            unsafe.update(c.slot for c in self.iteration.varied)
        while True:
            incoming = [
                self.flags.given(self.slots[c], self.slots[c]) if c in self.slots else None
                for c in body.carried
            ]
            made = self.pull(roots, [*incoming, *self.seeds], wanted, unsafe, self.puts)
            found = dict(zip(wanted, made, strict=True))
            pairs = [(slot, found[c.slot]) for c, slot in self.slots.items()]
            changes = [self.flags.grow(slot, None if g is None else g.guard) for slot, g in pairs]
            if not any(changes):
                break
        if self.exact and not self.needs_flags and self.flags.are_plain(found.values()):
            self.exact = False
            return self.pulled()
        return found


def _gathered(array: Array, total: Guarded) -> Array:
    """The cotangent of an array as an array, which is meaningful where its guard holds."""
    made = closed(array.shape, total.value)
    gathered((made,), [total.value], array)
    return made


def _iteration(loop: Loop, active: set[Array]) -> _Iteration:
    """The iteration of a loop and its active operands."""
    places = const_places(loop)
    body = opened(loop, places)
    starts = [*(c.slot for c in body.carried), *(r for _, r in body.rows), *places.values()]
    reached = active_arrays(arrays_of(roots_of(body)), starts)
    outline = outlined(body, reached)
    body = with_roots(body, outline.roots, body.carried)
    consts = tuple(zip(loop.consts, places.values(), strict=True))
    rows = tuple((w, r) for w, r in body.rows if w in active)
    flowing = tuple((w, p) for w, p in consts if w in active)
    order = arrays_of(roots_of(body))
    varied = {c for c in body.carried if c.init in active}
    while True:
        wanted = [*(c.slot for c in varied), *(r for _, r in rows), *(p for _, p in flowing)]
        reached = active_arrays(order, wanted) | set(wanted)
        more = {c for c in body.carried if is_float(c.slot.dtype) and c.result in reached}
        if more <= varied:
            break
        varied |= more
    return _Iteration(body, outline, consts, tuple(c for c in body.carried if c in varied), rows, flowing)


def _plus(total: Array, contribution: Array) -> Array:
    body = apply("add", element_of(total), Read(contribution, identity(total.shape)))
    return Map(total.shape, body)


def _with_stacks(loop: Loop, iteration: _Iteration, back: Body, puts: Mapping[Array, Put]) -> Body:
    """The reverse body, with the values of iterations that it reads as rows of stacks, and its consts in
    place."""
    given = {r for _, r in iteration.body.rows} | {p for _, p in iteration.consts} | {iteration.body.step}
    ends = loop.items[: len(loop.results)]
    body = iteration.body
    roots, whole = final_reads(body, ends, back.length, roots_of(back), partial(is_small, body=body))
    roots, saved, restored = stacked(iteration.body, given, roots, puts)
    finals = dict(zip(iteration.body.carried, ends, strict=True))
    carried = (*back.carried, *(replace(r, init=finals[c]) for c, r in restored.items()))
    first = len(back.carried)
    roots = (*roots[:first], *(r.result for r in restored.values()), *roots[first:])
    saved = fewest(iteration.body, given, roots, saved)
    found = _where_read(iteration, given, roots, saved)
    shapes = [longest(a, iteration.body, given) or a.shape for a in saved]
    stacks = _stacks(
        loop, iteration, back, [padded(a, shape) for a, shape in zip(found, shapes, strict=True)]
    )
    new: dict[Array, Array] = {place: const for const, place in iteration.consts} | whole
    rows = [fresh(a.dtype, [inside(n, new) for n in shape]) for a, shape in zip(saved, shapes, strict=True)]
    parts = {a: _first_of(row, a, new) for a, row in zip(saved, rows, strict=True)}
    inner = zip(stacks, rows, strict=True)
    return replaced(with_roots(back, roots, carried, (*back.rows, *inner)), new | parts)


def _first_of(row: Array, array: Array, places: dict[Array, Array]) -> Array:
    """What a row of a stack has for an array, which may be shorter than the row."""
    shape = Replace(dict(places)).resized(array.shape)
    return row if row.shape == shape else Map(shape, Read(row, identity(shape)))


def _where_read(
    iteration: _Iteration, given: set[Array], roots: Sequence[Array], saved: Sequence[Array]
) -> list[Array]:
    """The saved arrays, with zeros where `roots` do not read them: their derivatives need not exist there.

    All reads of the reverse iteration count, including those of conditions and indices. A copy of an input of
    the iteration has a derivative everywhere, and stays as it is.
    """
    inputs = given | {c.slot for c in iteration.body.carried}

    def known(condition: Element) -> bool:
        reached = arrays_of(read_by((condition,)))
        return all(a in inputs for a in reached if isinstance(a, Input))

    def copied(array: Array) -> bool:
        return array in inputs or (
            isinstance(array, Map) and isinstance(array.body, Read) and array.body.array in inputs
        )

    live = liveness(roots, set(saved), known)
    return [a if copied(a) else closed(a.shape, mask(element_of(a), live[a])) for a in saved]


def _stacks(loop: Loop, iteration: _Iteration, back: Body, saved: Sequence[Array]) -> list[Array]:
    """The stacks of an iteration's arrays: outs of the loop, which is run again for those that it lacks."""
    body = iteration.body
    known: dict[Array, Array] = dict(zip(body.outs, loop.items[len(body.carried) :], strict=False))
    missing = [a for a in saved if a not in known]
    if missing:
        forward = Body(
            back.length, body.step, body.carried, body.rows, (*body.outs, *missing), None, loop.backward
        )
        roots = iteration.outline.inlined(roots_of(forward))  # a loop that computes the same can be merged
        forward = with_roots(forward, roots, forward.carried)
        built = build(replaced(forward, {place: whole for whole, place in iteration.consts}))
        known |= zip(missing, built.outs[len(body.outs) :], strict=True)
    return [known[a] for a in saved]


# -- forward mode --------------------------------------------------------------------------------------


def forward(loop: Loop, given: Mapping[Array, Orders], order: int, push: Push, exposed: bool) -> list[Orders]:
    """The derivatives of a loop's results up to an order, for the derivatives of its operands.

    `push` differentiates the body on placeholders for the derivatives of its slots. Which carried derivatives
    are zero is found from the body, repeated up to a fixed point: in all iterations, or, if they are
    `exposed` to an infinite derivative in the loop or behind it, in each iteration.
    """
    return _Forward(loop, given, order, push, exposed).run()


class _Forward:
    """A loop that carries the derivatives of what it carries along."""

    def __init__(
        self, loop: Loop, given: Mapping[Array, Orders], order: int, push: Push, exposed: bool
    ) -> None:
        self.loop, self.order, self.push = loop, order, push
        self.places = const_places(loop)
        self.body = opened(loop, self.places)
        inner = arrays_of(roots_of(self.body))
        consts = zip(loop.consts, self.places.values(), strict=True)
        pairs = [*((c.init, c.slot) for c in self.body.carried), *self.body.rows, *consts]
        reached = self.reached(inner, [place for whole, place in pairs if any(given.get(whole, ()))])
        self.exact = exposed or any(is_singular(a, reached) for a in reached)
        self.exposed = exposed or any(is_singular(a, reached, True) for a in reached)
        none: Orders = [None] * order
        self.given = {w: self.entry(w, given.get(w, none)) for w, _ in pairs}
        self.rows: list[tuple[Array, Array]] = []  # of derivatives and flags
        self.back: dict[Array, Array] = {place: whole for whole, place in self.consts}

    @property
    def consts(self) -> list[tuple[Array, Array]]:
        """The consts of the loop, each with its placeholder."""
        return list(zip(self.loop.consts, self.places.values(), strict=True))

    def reached(self, inner: Sequence[Array], starts: list[Array]) -> set[Array]:
        """The arrays of the body through which a derivative flows in some iteration."""
        while True:
            reached = active_arrays(inner, starts) | set(starts)
            more = [c.slot for c in self.body.carried if c.result in reached and c.slot not in starts]
            more = [slot for slot in more if is_float(slot.dtype)]
            if not more:
                return reached
            starts = [*starts, *more]

    def entry(self, whole: Array, orders: Orders) -> Orders:
        """The derivatives of an operand, with their guards if these count."""
        if self.exact:
            return orders
        return [None if t is None else Tangent(TRUE, masked(t, whole)) for t in orders]

    def row(self, whole: Array, tangent: Tangent) -> Tangent:
        """The derivative of one row."""
        row = fresh(tangent.value.dtype, tangent.value.shape[1:])
        self.rows.append((tangent.value, row))
        guard, rows = _guard_of_row(whole, tangent.guard)
        self.rows += rows
        return Tangent(guard, row)

    def const(self, whole: Array, place: Array, tangent: Tangent) -> Tangent:
        """The derivative of a const."""
        stand = like(place)
        self.back[stand] = tangent.value
        guard, axes = tangent.guard, sorted(tangent.guard.axes)
        if guard is not TRUE:
            own: dict[int, Element] = {k: Index(p) for p, k in enumerate(axes)}
            flags = closed(tuple(whole.shape[k] for k in axes), substitute(guard, own))
            guard = Read(flags, tuple(map(Index, axes)))
        return Tangent(guard, stand)

    def run(self) -> list[Orders]:
        """The derivatives of the loop's results."""
        body, count = self.body, len(self.body.carried)
        none: Orders = [None] * self.order
        roots = roots_of(replace(body, test=None))
        fixed: dict[Array, Orders] = {body.step: none}
        fixed |= {r: [t and self.row(w, t) for t in self.given[w]] for w, r in body.rows}
        fixed |= {p: [t and self.const(w, p, t) for t in self.given[w]] for w, p in self.consts}
        slots = {c.slot: [like(c.slot) for _ in range(self.order)] for c in body.carried}
        first: dict[Array, Element | None] = {
            slot: None if t is None else t.guard
            for c in body.carried
            for slot, t in zip(slots[c.slot], self.given[c.init], strict=True)
        }
        flags = _Flags(first, self.exact)
        while True:
            moving = {s: [flags.tangent(p) for p in places] for s, places in slots.items()}
            found = self.push(roots, {**fixed, **moving}, self.exposed)
            pairs = [
                (slot, t)
                for c, orders in zip(body.carried, found, strict=False)
                for slot, t in zip(slots[c.slot], orders, strict=True)
            ]
            after: dict[Array, Element | None] = {slot: None if t is None else t.guard for slot, t in pairs}
            changes = [flags.grow(slot, guard) for slot, guard in after.items()]
            if not any(changes):
                break
        results = dict(pairs)
        change = Replace(flags.settled(after, body))
        live = [
            (c, slot, t)
            for c in body.carried
            for slot, t in zip(slots[c.slot], self.given[c.init], strict=True)
            if flags.now[slot] is not None
        ]
        carried = []
        for c, slot, tangent in live:
            init = zeros_like(c.init) if tangent is None else tangent.value
            result = results[slot]
            value = zeros_like(c.slot) if result is None else masked(result, c.slot)
            if result is not None and flags.now[slot] is not TRUE:
                value = result.value
            carried.append(Carried(init, slot, change.run((value,))[0]))
        outside = Replace(dict(self.back))
        flagged = {
            s: Carried(outside.run((c.init,))[0], c.slot, change.run((c.result,))[0])
            for s, c in flags.carried.items()
        }
        varying = {body.step, *(r for _, r in (*body.rows, *self.rows))}
        varying |= {c.slot for c in (*body.carried, *carried, *flagged.values())}
        outs: list[Array] = []
        wheres: list[list[_Where | None]] = []
        for old, orders in zip(body.outs, found[count:], strict=True):
            wheres.append([])
            for t in orders:
                if t is None:
                    wheres[-1].append(None)
                    continue
                where = _Where(())
                if self.exact:
                    where = _where(t.guard, old, change, varying, self.back)
                outs.append(change.run((masked(t, old),))[0])
                outs += [] if where.flag is None else [where.flag]
                wheres[-1].append(where)
        made = replace(
            body,
            carried=(*body.carried, *carried, *flagged.values()),
            rows=(*body.rows, *self.rows),
            outs=tuple(outs),
        )
        built = build(replaced(made, self.back))
        length = self.loop.length if self.loop.length is not None else Read(self.loop.items[-1], ())
        finals, stacks = iter(built.finals[count:]), iter(built.outs)
        ends = {slot: next(finals) for _, slot, _ in live}
        last = {slot: next(finals) for slot in flagged}
        items: list[Orders] = [
            [
                Tangent(flags.end(p, last.get(p), length), ends[p]) if p in ends else None
                for p in slots[c.slot]
            ]
            for c in body.carried
        ]
        for item, row in zip(self.loop.items[count:], wheres, strict=False):
            items.append([None if w is None else _stacked(item, w, stacks) for w in row])
        return [*items, *(none for _ in self.loop.items[len(items) :])]


def _stacked(item: Array, where: _Where, stacks: Iterator[Array]) -> Tangent:
    """A derivative of what iterations collect, and its guard."""
    value = next(stacks)
    return Tangent(where.in_rows(item, None if where.flag is None else next(stacks)), value)
