"""Comprehensions: index notation. `[... for i in range(n)]` builds an array, a generator is reduced.

Each clause binds an open axis (`frontend/values/open_axes.py`), whose index is arithmetic on its position. A
range that depends on other indices, such as `range(i)`, is an axis of the greatest possible length, with a
condition.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import field
from typing import Any

from adcompiler.errors import ParseError, ShapeError
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.iterables import Iterable, iterable, unpacked
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import array, listed
from adcompiler.frontend.values.values import AnyValue, GeneratorValue, Row, Value, describe
from adcompiler.ir.nodes import Element
from adcompiler.ir.origins import Within
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, cast

Steps = Generator[Any, AnyValue, AnyValue]


@dataclass
class _Opened:
    """The bindings of the clauses so far."""

    scope: dict[str, AnyValue]
    axes: list[int] = field(default_factory=list)
    conditions: list[Element] = field(default_factory=list)
    filtered: bool = False


def comprehension(context: Context, node: tree.Comprehension, scope: Mapping[str, AnyValue]) -> Steps:
    """The array of a list comprehension, or the family of a generator."""
    opened, start = _Opened(dict(scope)), None
    count, around = len(context.binders.path), len(context.binders.around)
    try:
        for k, clause in enumerate(node.clauses):
            items = yield from iterable(context, clause.iterable, opened.scope, unordered=True)
            start = start or context.aliases.start()
            if isinstance(items, tuple):
                return (yield from _unrolled(context, node, k, items, opened))
            _open(context, clause, items, opened)
            yield from _conditions(context, clause, opened)
        item = yield node.element, opened.scope
        if isinstance(item, Row):
            cause = f"an item of this list is {describe(item)}"
            remedy = "reduce it: [sum(row) for row in x]; a slice x[i : i + k] has k elements for every i"
            context.fail(ShapeError, cause, node.element.span, remedy)
        value = array(context, "a comprehension", item, node.element.span)
    finally:
        del context.binders.path[count:]
        del context.binders.around[around:]
    if start is not None:
        context.aliases.points(start)
    return _collected(context, node, opened, value)


def _open(context: Context, clause: tree.Clause, items: Iterable, opened: _Opened) -> None:
    """Bind a clause's targets to the items along a new axis."""
    index = context.binders.fresh(items.length, items.last, items.step)
    opened.filtered |= items.filtered or bool(clause.conditions)
    opened.axes.append(-len(context.binders.lengths))
    context.binders.inside(opened.axes[-1], items.length)
    if items.guard is not None:
        _require(context, items.guard(index), opened)
    _bind(context, clause, context.aliases.row(items.at(index)), opened.scope)


def _require(context: Context, condition: Element, opened: _Opened) -> None:
    opened.conditions.append(condition)
    context.binders.path.append(condition)


def _conditions(context: Context, clause: tree.Clause, opened: _Opened) -> Steps:
    for condition in clause.conditions:
        test = array(context, "a condition", (yield condition, opened.scope), condition.span)
        if test.rank:
            context.fail(ShapeError, "a condition is a scalar", condition.span, "use any(...) or all(...)")
        _require(context, cast(test.element, "bool"), opened)


def _bind(context: Context, clause: tree.Clause, item: AnyValue, scope: dict[str, AnyValue]) -> None:
    """Bind the names of a clause: one for the item, or one per part."""
    if len(clause.targets) == 1:
        scope[clause.targets[0]] = item
        return
    parts = unpacked(context, item, len(clause.targets), clause.span)
    scope.update(zip(clause.targets, parts, strict=True))


def _collected(context: Context, node: tree.Comprehension, opened: _Opened, value: Value) -> AnyValue:
    """The family of the values, as an array for a list comprehension."""
    lengths = tuple(context.binders.lengths[a] for a in opened.axes)
    guard: Element | None = None
    for condition in opened.conditions:
        guard = condition if guard is None else apply("logical_and", guard, condition)
    family = GeneratorValue(tuple(opened.axes), lengths, guard, value)
    if node.kind != "list":
        return family
    if guard is not None:
        context.fail(
            ShapeError,
            "the length of this list depends on values"
            if opened.filtered
            else "the rows of this list differ in length",
            node.span,
            "reduce it, or write `value if condition else 0` over the whole range",
        )
    built = family.value_of(value.element)
    context.ranked(built.shape, node.span)
    return built


def _unrolled(
    context: Context, node: tree.Comprehension, k: int, items: tuple[Any, ...], opened: _Opened
) -> Steps:
    """A clause over a tuple known at compile time: the comprehension is unrolled over its items."""
    clause, rest = node.clauses[k], node.clauses[k + 1 :]
    if opened.axes:
        remedy = "make it the first `for`, or nest comprehensions"
        context.fail(ParseError, "a `for` over a tuple must be the first one", clause.span, remedy)
    found = []
    within = context.within
    for number, item in enumerate(items):
        context.within = (*within, Within("item", context.source, context.blame.place(clause.span), number))
        scope = dict(opened.scope)
        _bind(context, clause, item, scope)
        if (yield from _kept(context, clause, scope)):
            inner = tree.Comprehension(node.span, "list", node.element, rest) if rest else node.element
            found.append((yield inner, scope))
    context.within = within
    return listed(context, found, node.span)


def _kept(context: Context, clause: tree.Clause, scope: dict[str, AnyValue]) -> Steps:
    """Whether an item of a tuple satisfies the conditions of its clause."""
    for condition in clause.conditions:
        test = yield condition, scope
        if isinstance(test, Value):
            context.fail(
                ShapeError, "the length of this list depends on values", condition.span,
                "use a condition that is known at compile time",
            )  # fmt: skip
        if not test:
            return False
    return True
