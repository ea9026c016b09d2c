"""Loops with carried state: `for` over iterables, and `while`.

Names that the body assigns and that have a value before the loop are carried. The body is lowered on
placeholders with the types of these values. If an iteration gives a wider type (an integer becomes a float, a
scalar an array), it is lowered again with that type, until an iteration keeps its types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce as fold_left
from typing import Any

from adcompiler.analysis.affine import linear
from adcompiler.errors import DtypeError, Error, ParseError, ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import effects
from adcompiler.frontend.limits import MOST_WIDENINGS
from adcompiler.frontend.lowering.printing import TALLIES, after
from adcompiler.frontend.lowering.printing import carried as summed
from adcompiler.frontend.values.derivatives import whole_of
from adcompiler.frontend.values.open_axes import ONE, ZERO, open_axes
from adcompiler.frontend.values.operations import Context, over
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import (
    LOCAL,
    RESULT,
    UNSET,
    AnyValue,
    Held,
    Tally,
    Value,
    as_array,
    describe,
    is_number,
    plain,
)
from adcompiler.ir.bodies import Body, Carried, Replace, build, fresh, roots_of, with_roots
from adcompiler.ir.nodes import Array, Check, Const, Element, Index, Map, Read, Shape, Size, const, select
from adcompiler.ir.origins import Within
from adcompiler.ir.types import Dtype, is_float
from adcompiler.ir.walk import arrays_of, arrays_read, postorder, read_by
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, cast

KEEP = "keep its shape"
LENGTH = "keep its length, and store in a part of it: v[:k] = ..."
Scope = dict[str, AnyValue]


class CarriedError(Exception):
    """An iteration changes the shape or kind of a name that the loop carries."""

    def __init__(self, error: Error) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _refusals() -> Iterator[None]:
    """Code whose errors are about what a loop carries."""
    try:
        yield
    except Error as error:
        raise CarriedError(error) from error


WALKED = ("enumerate", "zip")


@dataclass(frozen=True, slots=True)
class CarriedType:
    """The type of one carried scalar or array on which an iteration is lowered, open in the axes `lead`."""

    dtype: Dtype
    shape: Shape
    lead: tuple[int, ...]
    weak: bool


class Carries:
    """The carried names of one loop, as a flat list of arrays and their nesting."""

    def __init__(self, context: Context, names: Sequence[str], scope: Scope, span: Span) -> None:
        self.context, self.names, self.span = context, names, span
        self.before = {name: scope[name] for name in names}
        self.inits: list[AnyValue] = []
        self.labels: list[str] = []
        for name in names:
            self.collect(name, self.before[name])
        self.types = [self.type_of(v) for v in self.inits]
        self.held: list[Held | None] = [self.holds(v) for v in self.inits]

    def collect(self, name: str, value: AnyValue) -> None:
        """The numbers and arrays of a value, in order."""
        value = as_array(value)
        if isinstance(value, tuple):
            for part in value:
                self.collect(name, part)
        elif isinstance(value, Value) or is_number(value):
            self.inits.append(value)
            self.labels.append(name)

    def nested(self, value: AnyValue, leaves: list[Value]) -> AnyValue:
        """A value with its numbers and arrays replaced in order."""
        value = as_array(value)
        if isinstance(value, tuple):
            return tuple(self.nested(part, leaves) for part in value)
        return leaves.pop(0) if isinstance(value, Value) or is_number(value) else value

    def bind(self, scope: Scope, leaves: Sequence[Value]) -> None:
        """Bind the names to their values."""
        rest = list(leaves)
        for name in self.names:
            scope[name] = self.nested(self.before[name], rest)

    def type_of(self, value: AnyValue) -> CarriedType:
        """The type with which a value is carried."""
        if not isinstance(value, Value):
            return CarriedType(self.context.meet((value,))[0], (), (), True)
        return CarriedType(value.dtype, value.shape, tuple(open_axes(value.element)), value.weak)

    def holds(self, value: AnyValue) -> Held:
        """The elements held by a value, distinguished from equal ones held by others."""
        held = value.held if isinstance(value, Value) else None
        return self.context.aliases.fresh() if held is None else Held(held.storage, held.store, origin=held)

    # -- the arrays ------------------------------------------------------------------------------

    def slots(self) -> list[Array]:
        """Placeholders with the types of the carried values."""
        return [fresh(t.dtype, self.whole_shape(t)) for t in self.types]

    def whole_shape(self, kind: CarriedType) -> Shape:
        """The shape of the array that is carried for a type."""
        return self.context.binders.opened(also=kind.lead).lengths + kind.shape

    def values(self, arrays: Sequence[Array]) -> list[Value]:
        """The carried values, read from arrays whose leading axes are the open axes."""
        return [
            Value(t.shape, Read(a, self.lead(t) + _own_indices(t)), t.weak, held if t.shape else None)
            for t, a, held in zip(self.types, arrays, self.held, strict=True)
        ]

    def lead(self, kind: CarriedType) -> tuple[Element, ...]:
        """The axes in front of an array that is carried: those that are open."""
        lengths = self.context.binders.lengths
        return tuple(ZERO if unit(lengths[a]) else Index(a) for a in kind.lead)

    def array(self, value: AnyValue, kind: CarriedType) -> Array:
        """A value as an array of a type that it fits."""
        lead = self.context.binders.opened(also=kind.lead)
        return whole_of(lead, Value(kind.shape, over(value, kind.shape, kind.dtype)))

    # -- an iteration ----------------------------------------------------------------------------------

    def after(self, scope: Scope) -> list[AnyValue]:
        """The numbers and arrays of the names after an iteration."""
        found: list[AnyValue] = []
        for name in self.names:
            self.match(name, self.before[name], scope[name], found)
        return found

    def match(self, name: str, before: AnyValue, now: AnyValue, found: list[AnyValue]) -> None:
        """Collect the parts of a value after an iteration; its nesting must not change."""
        before, now = as_array(before), as_array(now)
        if isinstance(before, tuple) and isinstance(now, tuple) and len(before) == len(now):
            for one, other in zip(before, now, strict=True):
                self.match(name, one, other, found)
        elif (isinstance(before, Value) or is_number(before)) and (isinstance(now, Value) or is_number(now)):
            found.append(now)
        elif before is not now:
            if before is UNSET:
                self.context.fail(ParseError, f"{name!r} is {LOCAL.what}", self.span, LOCAL.remedy)
            if name == RESULT:
                kind = describe(now) if isinstance(now, tuple) else "a value that is not a number or array"
                cause = f"a loop of the program cannot return {kind} here"
                remedy = "assign the names before the loop, change them, break, and return them after it"
                self.context.fail(DtypeError, cause, self.span, remedy)
            self.context.fail(
                DtypeError,
                f"{name} is {describe(before)} before the loop and {describe(now)} after an iteration",
                self.span, "keep one kind of value",
            )  # fmt: skip

    def keep_shapes(self, results: Sequence[AnyValue]) -> None:
        """Require that no array shrinks in an iteration."""
        for name, kind, result in zip(self.labels, self.types, results, strict=True):
            shape = result.shape if isinstance(result, Value) else ()
            if len(shape) < len(kind.shape):
                self.changed(name, len(kind.shape), len(shape))
            for k, n in enumerate(kind.shape):
                if not unit(self.context.sizes.find(n)) and unit(self.context.sizes.find(shape[k])):
                    cause = f"axis {k} of {name} has length 1 after an iteration, but not before the loop"
                    self.context.fail(ShapeError, cause, self.span, KEEP)

    def same_length(self, name: str, before: Shape, after: Shape) -> None:
        """Refuse an array that each iteration lengthens or shortens by the same number of elements."""
        for one, other in zip(before, after, strict=False):
            lengths = self.context.sizes.find(one), self.context.sizes.find(other)
            more = linear(lengths[1]) - linear(lengths[0])
            if len(before) == len(after) and more.constant and not any(map(unit, lengths)):
                cause = f"{name} has another length after an iteration: {abs(more.constant)} elements "
                cause += "more" if more.constant > 0 else "less"
                self.context.fail(ShapeError, cause, self.span, LENGTH)

    def keep_lengths(self, results: Sequence[AnyValue]) -> None:
        """Require that lengths computed from those before an iteration are known to be equal to them."""
        for name, kind, result in zip(self.labels, self.types, results, strict=True):
            shape = result.shape if isinstance(result, Value) else ()
            for pair in zip(kind.shape, shape, strict=False):
                one, other = map(self.context.sizes.find, pair)
                if one is not other and not all(isinstance(n, Size | Const) for n in (one, other)):
                    cause = f"{name} has another length after an iteration"
                    self.context.fail(ShapeError, cause, self.span, LENGTH)

    def changed(self, name: str, before: int, after: int) -> None:
        """Refuse a name whose rank the loop changes."""
        cause = f"{name} has rank {before} before the loop and {after} after an iteration"
        self.context.fail(ShapeError, cause, self.span, KEEP)

    def spread_evenly(self, slots: Sequence[Array], results: Sequence[AnyValue]) -> None:
        """Require that arrays broadcast to a larger shape by the loop are only used elementwise: in the first
        iteration they are still smaller, and a sum would differ."""
        for name, kind, init, slot in zip(self.labels, self.types, self.inits, slots, strict=True):
            start = self.type_of(init).shape
            same = [*map(self.context.sizes.find, start)] == [*map(self.context.sizes.find, kind.shape)]
            if same or name == RESULT or init is UNSET:  # a loop does not use its returned value
                continue
            behind = {slot}
            for array in arrays_of(_arrays_in(results)):
                if any(a in behind for a in arrays_read(array)):
                    behind.add(array)
                    if not isinstance(array, Map):
                        cause = f"{name} is {_ranked(start)} before the loop and {_ranked(kind.shape)} after"
                        if len(start) == len(kind.shape):
                            cause = f"{name} may have other lengths after an iteration than before the loop"
                        remedy = f"start with its later shape: {name} = zeros(...)"
                        self.context.fail(ShapeError, cause, self.span, remedy)

    def widen(self, results: Sequence[AnyValue]) -> bool:
        """Widen the types to hold the results of an iteration; returns whether any changed."""
        wider = [self.join(*pair) for pair in zip(self.labels, self.types, results, self.inits, strict=True)]
        changed, self.types = wider != self.types, wider
        return changed

    def join(self, name: str, kind: CarriedType, result: AnyValue, init: AnyValue) -> CarriedType:
        """The type that holds both."""
        other = self.type_of(result)
        here = Value(kind.shape, const(0, kind.dtype), kind.weak)
        there = Value(other.shape, const(0, other.dtype), other.weak)
        dtype, weak = self.context.meet((here, there))
        if not is_float(kind.dtype) and kind.weak and not other.weak:
            dtype, weak = other.dtype if dtype == other.dtype else dtype, False
        self.same_length(name, here.shape, there.shape)
        shape = self.context.broadcast(f"{name}, which the loop carries", (here, there), self.span)
        start = self.type_of(init)
        if start.shape and len(start.shape) != len(shape):
            self.changed(name, len(start.shape), len(shape))
        lead = tuple(sorted({*kind.lead, *other.lead}, reverse=True))
        return CarriedType(dtype, shape, lead, weak)


def _arrays_in(values: Sequence[AnyValue]) -> tuple[Array, ...]:
    """The arrays that values read."""
    return read_by(v.element for v in values if isinstance(v, Value))


def _ranked(shape: Shape) -> str:
    return f"an array of rank {len(shape)}" if shape else "a scalar"


def _own_indices(kind: CarriedType) -> tuple[Element, ...]:
    """The indices of a value's own axes."""
    return tuple(ZERO if unit(n) else Index(k) for k, n in enumerate(kind.shape))


@dataclass(frozen=True, slots=True)
class LoopForm:
    """How a loop runs: `iteration(step, scope)` lowers one iteration. A for loop has a `length`, and its
    iterations may have an effect only where `guard(step)` holds. A while loop has a `test(step, scope)`.
    With `few` iterations, a loop that changes lengths can be written out."""

    iteration: Callable[[Element, Scope], None]
    length: Element | None = None
    guard: Callable[[Element], Element] | None = None
    test: Callable[[Element, Scope], Value] | None = None
    few: bool = False


@dataclass(frozen=True, slots=True)
class _Iteration:
    """One iteration, lowered on placeholders.

    `tested` are the checks of its test, `before` those made before the loop, and `sound` stands for whether
    those of earlier iterations hold.
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
    """Lower a loop, and bind the carried `names` to their values after it."""
    carries = Carries(context, names, scope, span)
    start = context.aliases.start()
    for _ in range(MOST_WIDENINGS):
        context.aliases.again(start)
        iteration = _lowered(context, form, carries, scope, span)
        with _refusals():
            if form.few:
                carries.keep_lengths(iteration.results)
            changed = carries.widen(iteration.results)
        if not changed:
            break
    else:
        remedy = "keep the type and shape of each name"
        context.fail(ShapeError, "the loop's variables change type in every iteration", span, remedy)
    carries.held = context.aliases.iterated(start, carries.held, iteration.held)
    carries.spread_evenly(iteration.slots, iteration.results)
    finals, tested, held, tallied = _built(context, form, carries, iteration)
    if iteration.tallies:
        context.binders.tallies += after(iteration.tallies, tallied)
    for label, array in zip(carries.labels, finals, strict=True):
        context.names.setdefault(array, plain(label))
        context.place(array, span)
    context.returned += iteration.returned
    for check, holds in zip(iteration.tested + iteration.checks, tested + held, strict=True):
        context.binders.checks.append(replace(check, holds=holds))
    carries.bind(scope, carries.values(finals))


def _lowered(context: Context, form: LoopForm, carries: Carries, scope: Scope, span: Span) -> _Iteration:
    """One iteration, lowered on placeholders of the carried types."""
    binders = context.binders
    outer, binders.checks = binders.checks, []
    around, binders.enclosing = binders.enclosing, [*binders.enclosing, *outer]
    returned, context.returned = context.returned, []
    tallies, binders.tallies = binders.tallies, []
    step, slots, sound = fresh("i64", ()), carries.slots(), fresh("i64", ())
    number, inner = Read(step, ()), dict(scope)
    carrying, binders.carrying = binders.carrying, [*binders.carrying, (sound, slots)]
    within = context.within
    context.within = (*within, Within("loop", context.source, context.blame.place(span), step=number))
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
        with _refusals():
            results = carries.after(inner)
        held = [r.held if isinstance(r, Value) else None for r in results]
        with _refusals():
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
    """The conditions under which an iteration has an effect."""
    if form.test is not None:
        return [cast(form.test(number, scope).element, "bool")]
    return [] if form.guard is None else [form.guard(number)]


def _both(x: Element, y: Element) -> Element:
    return apply("logical_and", x, y)


def _built(
    context: Context, form: LoopForm, carries: Carries, iteration: _Iteration
) -> tuple[list[Array], list[Array], list[Array], list[Array]]:
    """The arrays after the loop: the carried values, the checks of its test at the end, those of all
    iterations, and tallies.

    The checks of the test are repeated on the values after the loop, where it was evaluated last.
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
    """The test of a while loop; `held` stands for the checks of its earlier iterations.

    A check raises only after the program has run. Until then a loop must not wait for values produced after a
    failed check: `while x[i] < v: i += 1` reads 0 past the end of x. So the loop also ends if a check fails
    that belongs to the test, an earlier iteration, or code before the loop (or an enclosing loop whose
    carried values it uses).
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
    """1 if the checks of the iterations so far hold, else 0."""
    return Map((), select(_sound(held), ONE, ZERO) if held else ONE)


def _any(context: Context, test: Element) -> Array:
    """Whether a condition holds at any point of its open axes."""
    lead = context.binders.opened(test)
    if not lead.axes:
        return Map((), test)
    return Map((), apply("greater", lead.greatest(select(test, ONE, ZERO)), ZERO))


def is_live(loop: tree.For, scope: Mapping[str, AnyValue]) -> bool:
    """Whether a loop iterates over arrays, or slices of them, to which its body stores and whose names it
    does not rebind: the iterable then means the same elements in every iteration."""
    names = _walked(loop.iterable, scope)
    kinds = {kind for kind, name in effects((loop,)) if name in names}
    return bool(kinds & {"store", "update"}) and "bind" not in kinds


def _walked(node: tree.Expression, scope: Mapping[str, AnyValue]) -> set[str]:
    """The arrays iterated over; none if anything else is."""
    match node:
        case tree.Name(id=name):
            value = as_array(scope.get(name))
            return {name} if isinstance(value, Value) and value.rank else set()
        case tree.Subscript(value=value, indices=indices) if all(map(_is_fixed, indices)):
            return _walked(value, scope)
        case tree.Attribute(value=value, name="T" | "mT"):
            return _walked(value, scope)
        case tree.Call(function=tree.Name(id=name), arguments=arguments) if name in WALKED:
            return set[str]().union(*(_walked(argument, scope) for argument in arguments))
    return set()


def _is_fixed(index: tree.Expression) -> bool:
    """Whether an index is the same slice or number in every iteration."""
    nodes = postorder(list[tree.Tree]([index]), tree.children)
    return all(isinstance(n, tree.Slice | tree.Number | tree.Unary | tree.Ellipsis) for n in nodes)
