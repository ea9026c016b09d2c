"""`out.append(v)` in loops: the list becomes an array as long as the loops, and appends become stores.

The loop is lowered twice. The first time determines how many elements an iteration appends, and their type.
Then the list is an array, and the place of each element follows from the iteration's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from adcompiler.analysis.affine import linear
from adcompiler.errors import DtypeError, ParseError, ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import Loop, appended, appends, assigned, last_appends, naming
from adcompiler.frontend.indexing.iterables import Iterable
from adcompiler.frontend.values.open_axes import ONE, ZERO
from adcompiler.frontend.values.operations import Context, over
from adcompiler.frontend.values.rearranging import combine, listed
from adcompiler.frontend.values.values import (
    AnyValue,
    AppendedList,
    AppendProbe,
    Listed,
    Value,
    as_array,
    describe,
)
from adcompiler.ir.bodies import fresh
from adcompiler.ir.nodes import Apply, Element, Index, Map, Read, Select, Shape, const, identity, select
from adcompiler.ir.walk import is_computed, postorder, substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, cast

Scope = dict[str, AnyValue]
START = "start with a list, out = [], or write concatenate((x, [v])) to add an element to an array"
SAME = "append numbers or arrays of one shape"


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists that a `loop` appends to, their lengths before it, and its number of iterations."""

    context: Context
    loop: tree.For
    names: Sequence[str]
    starts: Mapping[str, Element]
    length: Element

    def start(self, name: str, place: AppendedList, step: Element) -> Element:
        """The length of a list at the start of an iteration."""
        return combine("add", self.starts[name], combine("multiply", step, place.per[self.loop.span]))

    def enter(self, step: Element, scope: Scope) -> None:
        """The lists at the start of an iteration."""
        depth = len(self.context.binders.path)
        for name in self.names:
            place = scope[name]
            if isinstance(place, AppendProbe):
                place.count, place.depth = ZERO, depth
            else:
                around = (self.loop, *place.around)
                scope[name] = replace(place, count=self.start(name, place, step), depth=depth, around=around)

    def complete(self, step: Element, scope: Scope) -> None:
        """Require that each iteration appends the same number of elements."""
        for name in self.names:
            place, span = scope[name], self.loop.span
            if isinstance(place, AppendProbe):
                place.per[span] = place.count
            else:
                more = linear(place.count) - linear(self.start(name, place, step)) - linear(place.per[span])
                if more.constant != 0:
                    unknown_length(self.context, name, span, (self.loop,))

    def leave(self, scope: Scope) -> None:
        """The lists after the loop."""
        depth = len(self.context.binders.path)
        for name in self.names:
            place = scope[name]
            total = self.start(name, place, self.length)
            if isinstance(place, AppendProbe):
                place.count, place.depth, place.around = total, depth, place.around[1:]
            else:
                scope[name] = replace(place, count=total, depth=depth)


def append(context: Context, statement: tree.Bare, name: str, scope: Scope) -> None:
    """`name.append(value)`."""
    call = statement.value
    assert isinstance(call, tree.Call)
    assert isinstance(call.function, tree.Attribute)
    place = scope.get(name)
    if not isinstance(place, AppendedList | AppendProbe):
        place = context.expression(call.function.value, scope)
    if len(call.arguments) != 1 or call.keywords:
        context.fail(ParseError, "append takes exactly one value", call.span, "write out.append(v)")
    value = context.expression(call.arguments[0], scope)
    if isinstance(place, Listed):
        longer = listed(context, (*place, value), call.span)
        longer.grown = True
        scope[name] = context.aliases.longer(place, longer, name, call.span)
        return
    if not isinstance(place, AppendedList | AppendProbe):
        context.fail(DtypeError, f"{describe(place)} has no append", call.span, START)
    if len(context.binders.path) != place.depth:
        unknown_length(context, name, call.span, (statement, *place.around))
    row = row_of(context, context.aliases.read_all(value, call.span), call.span)
    if isinstance(place, AppendProbe):
        place.kinds[statement] = row
        place.count = combine("add", place.count, ONE)
        return
    own = [s for s in context.body if isinstance(s, tree.Statement)]
    if place.key not in scope or name not in assigned(own):
        cause = f"{name} is a list that the caller made"
        context.fail(DtypeError, cause, call.span, "append in its own function")
    array, count = scope[place.key], combine("add", place.count, ONE)
    if not place.around:  # after the loop, so the array is as long as the list
        array = lengthened(context, array, place.count, count)
    scope[place.key] = context.bind(
        name, with_row(context, array, place.count, row, name, call.span), call.span
    )
    scope[name] = replace(place, count=count)
    context.aliases.keep(value, place.kept)


def with_one_append(context: Context, statement: tree.If, scope: Scope) -> tuple[tree.Statement, ...] | None:
    """Split an `if` whose branches all append to one list of a loop last into one that selects the
    element, and the append after it; None for any other."""
    calls = last_appends((statement,))
    names = {name for c in calls if (name := appended(tree.Bare(c.span, c)))}
    if len(names) != 1 or not isinstance(scope.get(*names), AppendedList | AppendProbe):
        return None
    element = f"an element of {names.pop()}"
    call = replace(calls[0], arguments=(tree.Name(calls[0].span, element),))
    return *naming((statement,), element), tree.Bare(call.span, call)


def lengthened(context: Context, array: Value, count: Element, total: Element) -> Value:
    """An array with zeros after its first `count` rows."""
    kept = apply("less", Index(0), count)
    return Value((total, *array.shape[1:]), select(kept, array.element, const(0, array.dtype)), array.weak)


def row_of(context: Context, value: AnyValue, span: Span) -> Value:
    """The appended value as an element of an array; a tuple is a row."""
    value = as_array(listed(context, value, span) if isinstance(value, tuple) else value)
    if isinstance(value, int | float):
        return Value((), const(value, context.meet((value,))[0]), weak=True)
    if not isinstance(value, Value):
        context.fail(DtypeError, f"cannot append {describe(value)}", span, SAME)
    return value


def with_row(context: Context, array: Value, place: Element, row: Value, name: str, span: Span) -> Value:
    """An array with one row stored."""
    same_shape(context, name, array.shape[1:], row, span)
    dtype, weak = context.meet((array, row))
    element = over(row, array.shape[1:], dtype)
    if isinstance(element, Apply | Select):
        element = context.binders.enclose(Map, array.shape[1:], element)
    element = substitute(element, {k: Index(k + 1) for k in range(array.rank - 1)})
    here = apply("equal", Index(0), place)
    return Value(array.shape, select(here, element, cast(array.element, dtype)), weak)


def same_shape(context: Context, name: str, shape: Shape, row: Value, span: Span) -> None:
    """Require that all elements of a list have one shape."""
    what = f"the elements of {name}, a list that a loop appends to,"
    fits = row.rank == len(shape) and all(
        context.sizes.merge(a, b, what, span) for a, b in zip(shape, row.shape, strict=True)
    )
    if not fits:
        context.fail(ShapeError, f"{what} differ in shape", span, SAME)


def lists_of(context: Context, loop: Loop, scope: Scope) -> list[str]:
    """The lists defined before a loop to which it appends."""
    bound = set(assigned((loop,), lists=False))
    names = [n for n in appends(loop.body) if n not in bound]
    return [n for n in names if isinstance(scope.get(n), Listed | AppendedList | AppendProbe)]


def refuse_lists(context: Context, loop: Loop, scope: Scope) -> None:
    """A loop whose length depends on values must not append to lists."""
    if names := lists_of(context, loop, scope):
        unknown_length(context, names[0], loop.span, (loop,))


def growing(
    context: Context, loop: tree.For, items: Iterable, breaks: bool, scope: Scope, run: Callable[[Scope], Any]
) -> Lists:
    """Prepare the lists that a loop appends to; `run` lowers the loop in another scope."""
    names = lists_of(context, loop, scope)
    if names and (breaks or items.guard is not None):
        unknown_length(context, names[0], loop.span, (loop,))
    fixed = [n for n in names if not _is_active(scope[n])]
    for name in names:
        if name not in fixed and len(context.binders.path) != scope[name].depth:
            unknown_length(context, name, loop.span, (loop,))
    if fixed:
        depth = len(context.binders.path)
        probes = {n: AppendProbe(depth, _first(scope[n], scope)) for n in fixed}
        start = context.aliases.start()
        with context.binders.trial():
            run({**scope, **probes})
        context.aliases.again(start)
        for name, probe in probes.items():
            prepare(context, name, probe, scope, loop)
    for name in names:
        if isinstance(scope[name], AppendProbe):
            scope[name].around = (loop, *scope[name].around)
    return Lists(context, loop, names, {n: scope[n].count for n in names}, items.length)


def prepare(context: Context, name: str, probe: AppendProbe, scope: Scope, loop: tree.For) -> None:
    """Turn a list into an array of the length that it has after a loop."""
    rows = [*([] if probe.first is None else [probe.first]), *probe.kinds.values()]
    shape, span = rows[0].shape, loop.span
    for statement, row in probe.kinds.items():
        same_shape(context, name, shape, row, statement.span)
    if any(is_computed(n) or n.axes for n in (*shape, probe.count)):
        unknown_length(context, name, span, (loop,))
    before = scope[name]
    have = scope[before.key] if isinstance(before, AppendedList) else as_array(before)
    count = before.count if isinstance(before, AppendedList) else const(len(before), "i64")
    dtype, weak = context.meet(rows)
    if not isinstance(have, Value):
        if len(before):
            context.fail(DtypeError, f"{name} is {describe(before)} of different kinds", span, SAME)
        have = Value((ZERO, *shape), const(0, dtype))
    key = f"the list {name}"
    have = Value(have.shape, cast(have.element, dtype), weak)
    scope[key] = lengthened(context, have, count, combine("add", count, probe.count))
    kept = list(before.kept) if isinstance(before, AppendedList) else []
    if isinstance(before, Listed) and before.held is not None:
        kept.append(before.held)
    scope[name] = AppendedList(key, count, len(context.binders.path), (), probe.per, kept)


def unknown_length(context: Context, name: str, span: Span, around: Sequence[tree.Statement]) -> NoReturn:
    """Refuse a list whose length depends on values."""
    cause = f"the length of the list {name} is not known before the loop"
    context.fail(ShapeError, cause, span, comprehension(context, name, around) or _KEEP)


def comprehension(context: Context, name: str, around: Sequence[tree.Statement]) -> str | None:
    """A suggestion: a reduction with the same condition, or a list that keeps every element."""
    loop = next((s for s in around if isinstance(s, tree.For)), None)
    nodes = [] if loop is None else postorder(list[tree.Tree]([loop]), tree.children)
    calls = [n for n in nodes if isinstance(n, tree.Bare) and appended(n) == name]
    branches = [n for n in nodes if isinstance(n, tree.If) and not n.otherwise]
    tests = [b.test for b in branches if calls and b.body[-1] is calls[0]]
    if loop is None or len(calls) != 1 or len(tests) != 1 or not isinstance(calls[0].value, tree.Call):
        return None
    item, test = text(context, calls[0].value.arguments[0]), text(context, tests[0])
    clause = f"for {text(context, loop.target)} in {text(context, loop.iterable)}"
    if "" in (item, test) or len(loop.body) != 1:
        return None
    return f"reduce it: sum({item} {clause} if {test}), or keep all: [{item} if {test} else 0.0 {clause}]"


def text(context: Context, node: tree.Tree) -> str:
    """The source text, on one line."""
    span, source = node.span, context.source
    if source is None or span.line != span.end_line:
        return ""
    return source.text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]


_KEEP = "append in a for loop of known length, once per iteration: the value, or 0.0 if there is none"


def _is_active(value: AnyValue) -> bool:
    """Whether an enclosing loop appends to a list."""
    return isinstance(value, AppendProbe) or (isinstance(value, AppendedList) and bool(value.around))


def _first(value: AnyValue, scope: Scope) -> Value | None:
    """An element of the type of a list's existing elements."""
    array = scope[value.key] if isinstance(value, AppendedList) else as_array(value)
    if not isinstance(array, Value):
        return None
    return Value(
        array.shape[1:], Read(fresh(array.dtype, array.shape[1:]), identity(array.shape[1:])), array.weak
    )
