"""Loops with carried state: `for` over what is iterable, and `while`.

The names that the body assigns and that have a value before the loop are carried. The body is lowered on
placeholders in the types of these values; where an iteration gives a wider type (an integer becomes a float,
a scalar an array) it is lowered again on that, until the types are those that an iteration keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold_left
from typing import Any

from adcompiler.errors import ShapeError, Span
from adcompiler.frontend.lowering.carries import Carries, Scope
from adcompiler.frontend.lowering.printing import TALLIES, after
from adcompiler.frontend.lowering.printing import carried as summed
from adcompiler.frontend.values.open_axes import ONE, ZERO, open_axes
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue, Foreign, Held, Tally, Value
from adcompiler.ir.bodies import Body, Carried, Replace, build, fresh, roots_of, with_roots
from adcompiler.ir.nodes import Array, Check, Element, Index, Map, Read, Reduce, const, select
from adcompiler.ir.origins import Within
from adcompiler.ir.walk import arrays_of, substitute
from adcompiler.ops.build import apply, cast

MOST_WIDENINGS = 8
UNROLL = 4  # iterations up to which a loop of constant length is written out
LOCAL = Foreign("assigned inside a loop only", "give it a value before the loop")


@dataclass(frozen=True, slots=True)
class LoopForm:
    """How a loop runs: `iteration(step, scope)` lowers one on a scope. A for loop has a `length`, and an
    iteration of it may have an effect where `guard(step)` holds only; a while loop has a `test(step, scope)`,
    and skips what a guard leaves out."""

    iteration: Callable[[Element, Scope], None]
    length: Element | None = None
    guard: Callable[[Element], Element] | None = None
    test: Callable[[Element, Scope], Value] | None = None


@dataclass(frozen=True, slots=True)
class _Iteration:
    """One iteration, lowered on placeholders.

    `tested` are the checks that its test makes, `before` those that are made before the loop, and `sound`
    stands for whether those of earlier iterations hold.
    """

    step: Array
    slots: list[Array]
    sound: Array
    results: list[AnyValue]
    held: list[Held | None]
    test: Element | None
    before: list[Check]
    tested: list[Check]
    checks: list[Check]
    returned: list[Any]
    tallies: list[Tally]


def run_loop(context: Context, form: LoopForm, names: Sequence[str], scope: Scope, span: Span) -> None:
    """Lower a loop: the carried `names` have their values after it."""
    carries = Carries(context, names, scope, span)
    start = context.aliases.start()
    for _ in range(MOST_WIDENINGS):
        context.aliases.again(start)
        iteration = _lowered(context, form, carries, scope, span)
        if not carries.widen(iteration.results):
            break
    else:
        remedy = "let each name keep its type and shape"
        context.fail(ShapeError, "what the loop carries changes its type in every iteration", span, remedy)
    carries.held = context.aliases.iterated(start, carries.held, iteration.held)
    carries.spread_evenly(iteration.slots, iteration.results)
    finals, tested, held, tallied = _built(context, form, carries, iteration)
    if iteration.tallies:
        context.binders.tallies += after(iteration.tallies, tallied)
    for label, array in zip(carries.labels, finals, strict=True):
        context.names.setdefault(array, label)
        context.place(array, span)
    context.returned += iteration.returned
    for check, holds in zip(iteration.tested + iteration.checks, tested + held, strict=True):
        context.binders.checks.append(replace(check, holds=holds))
    carries.bind(scope, carries.values(finals))


def _lowered(context: Context, form: LoopForm, carries: Carries, scope: Scope, span: Span) -> _Iteration:
    """One iteration on placeholders in the carried types."""
    binders = context.binders
    outer, binders.checks = binders.checks, []
    around, binders.enclosing = binders.enclosing, [*binders.enclosing, *outer]
    returned, context.returned = context.returned, []
    tallies, binders.tallies = binders.tallies, []
    step, slots, sound = fresh("i64", ()), carries.slots(), fresh("i64", ())
    number, inner = Read(step, ()), dict(scope)
    carrying, binders.carrying = binders.carrying, [*binders.carrying, (sound, slots)]
    within = context.within
    context.within = (*within, Within("loop", context.source, span, step=number))
    try:
        stay = carries.values(slots)
        carries.bind(inner, stay)
        own = _own_conditions(form, number, inner)
        tested, binders.checks = binders.checks, []
        if form.test is not None:
            binders.certain.update(c for c in own if not open_axes(c))
        skips = [] if form.test is None or form.guard is None else [form.guard(number)]
        with binders.under(*own, *skips):
            form.iteration(number, inner)
        results = carries.after(inner)
        held = [r.held if isinstance(r, Value) else None for r in results]
        carries.keep_shapes(results)
        found = (*(carries.type_of(r).lead for r in results), *map(open_axes, own))
        conditions = [*own, *binders.doubtful(axis for axes in found for axis in axes)]
        if form.test is None or any(open_axes(c) for c in conditions):
            for active in conditions:
                where = Value((), active)
                results = [context.where(where, r, s, span) for r, s in zip(results, stay, strict=True)]
        for active in skips:
            where = Value((), active)
            results = [context.where(where, r, s, span) for r, s in zip(results, stay, strict=True)]
        test = None if form.test is None else fold_left(_both, conditions)
        checks = binders.enclosing, tested, binders.checks
        return _Iteration(step, slots, sound, results, held, test, *checks, context.returned, binders.tallies)
    finally:
        binders.enclosing, binders.carrying = around, carrying
        binders.checks, context.within, context.returned = outer, within, returned
        binders.tallies = tallies


def _own_conditions(form: LoopForm, number: Element, scope: Scope) -> list[Element]:
    """Where an iteration of a loop has an effect."""
    if form.test is not None:
        return [cast(form.test(number, scope).element, "bool")]
    return [] if form.guard is None else [form.guard(number)]


def _both(x: Element, y: Element) -> Element:
    return apply("logical_and", x, y)


def _built(
    context: Context, form: LoopForm, carries: Carries, iteration: _Iteration
) -> tuple[list[Array], list[Array], list[Array], list[Array]]:
    """The arrays after the loop: the carried values, what the checks of its test hold when it ends, those of
    all iterations, and tallies.

    What the test checks is checked once more on the values after the loop, where it was evaluated last.
    """
    kinds = carries.types
    carried = [
        Carried(carries.array(init, kind), slot, carries.array(result, kind))
        for init, slot, result, kind in zip(
            carries.inits, iteration.slots, iteration.results, kinds, strict=True
        )
    ]
    held = [fresh("i64", ()) for _ in iteration.checks]
    for check, slot in zip(iteration.checks, held, strict=True):
        least = Map((), apply("minimum", Read(slot, ()), Read(check.holds, ())))
        carried.append(Carried(Map((), ONE), slot, least))
    for tally in summed(iteration.tallies):
        op, start = TALLIES[tally.kind]
        slot = fresh("f64", ())
        total = Map((), apply(op, Read(slot, ()), Read(tally.array, ())))
        carried.append(Carried(Map((), const(start, "f64")), slot, total))
    test = None if iteration.test is None else _going(context, iteration, iteration.test, carried, held)
    body = Body(form.length, iteration.step, tuple(carried), test=test)
    if iteration.sound in arrays_of(roots_of(body)):
        body = with_roots(body, Replace({iteration.sound: _sound_so_far(held)}).run(roots_of(body)), carried)
    built = build(body)
    finals = built.finals[: len(kinds)]
    rest = built.finals[len(kinds) :]
    ended = Replace(dict(zip(iteration.slots, finals, strict=True)))
    ended.arrays[iteration.sound] = _sound_so_far(rest[: len(held)])
    if built.count is not None:
        ended.arrays[iteration.step] = built.count
    tested = ended.run(c.holds for c in iteration.tested)
    return list(finals), list(tested), list(rest[: len(held)]), list(rest[len(held) :])


def _going(
    context: Context, iteration: _Iteration, test: Element, carried: Sequence[Carried], held: Sequence[Array]
) -> Array:
    """The test of a loop that has one; `held` stand for the checks of its earlier iterations.

    A check is raised after the program has run. Until then a loop must not wait for what a failed one made of
    the values: `while x[i] < v: i += 1` reads 0 behind the end of x. So the loop also ends where a check does
    not hold that the test made, or one before the loop or in an earlier iteration (also of a loop around that
    carries what it uses).
    """
    going, before = _any(context, test), [c.holds for c in iteration.before]
    read = arrays_of((going, *(a for c in carried for a in (c.init, c.result))))
    before += [sound for sound, slots in context.binders.carrying if any(a in read for a in slots)]
    made = [*(c.holds for c in iteration.tested), *held]
    if before:
        made.append(Map((), select(_sound(before), ONE, ZERO)))
    return Map((), _both(Read(going, ()), _sound(made))) if made else going


def _sound(checks: Iterable[Array]) -> Element:
    """Whether checks hold."""
    return fold_left(_both, (apply("not_equal", Read(c, ()), ZERO) for c in checks))


def _sound_so_far(held: Sequence[Array]) -> Array:
    """1 where the checks of the iterations so far hold, else 0."""
    return Map((), select(_sound(held), ONE, ZERO) if held else ONE)


def _any(context: Context, test: Element) -> Array:
    """Whether a condition holds for any of the points that it is open in."""
    lead = open_axes(test)
    if not lead:
        return Map((), test)
    body = substitute(select(test, ONE, ZERO), {a: Index(p) for p, a in enumerate(lead)})
    lengths = tuple(context.binders.lengths[a] for a in lead)
    return Map((), apply("greater", Read(Reduce("max", (), lengths, body), ()), ZERO))
