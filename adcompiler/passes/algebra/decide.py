"""Decide conditions, minima and maxima of integers by the ranges of axes and by the conditions around them.

An element of an array is computed only where its axes have points: in `array (i < n) {...}` the size n is at
least 1, so min(1, n) is 1, and i < n holds. Inside of a select, its condition holds, or does not. What is
left are the conditions that single out parts of an axis, such as the first element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.intervals import (
    Ranges,
    always_holds,
    factors,
    facts_of,
    never_holds,
    never_negative,
    up_to,
)
from adcompiler.analysis.predicates import COMPARISONS, Conditions, needed_under, stated
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Func,
    Index,
    Input,
    Select,
    const,
    is_const,
    select,
)
from adcompiler.ir.origins import follow
from adcompiler.ir.walk import elements_of, operands, postorder, rewrite, with_args, with_elements
from adcompiler.ops.build import apply
from adcompiler.passes.algebra.fold import Fold
from adcompiler.passes.limits import MOST_FACTS


def decide(func: Func) -> Func:
    """The same program, without conditions, minima and maxima of integers that ranges decide."""
    return Decide().func(func)


def alternatives(func: Func) -> Func:
    """The program, decided where a condition on places has alternatives, such as all parts of an axis; other
    arrays are only folded."""
    return _Alternatives().func(func)


class Decide(Fold):
    """Folds, with the ranges of the axes of each array."""

    def array(self, array: Array) -> Array:
        if (
            not isinstance(array, Input)
            and (array.domain or self.ranges)
            and any(map(_is_open, elements_of(array.elements)))
        ):
            array = with_elements(array, lambda elements: self.decided(array, elements), lambda shape: shape)
        return super().array(array)

    def decided(self, array: Array, elements: tuple[Element, ...]) -> tuple[Element, ...]:
        """Elements at the points of an array's domain."""
        depth = max((r.depth for r in self.ranges.values()), default=-1) + 1
        ranges = dict(self.ranges)
        ranges |= {Index(k): replace(up_to(n), depth=depth + k) for k, n in enumerate(array.domain)}
        lasts = [r.last for r in ranges.values() if r.step == 1]
        around = [*lasts, *(form for last in lasts for form in factors(last))]
        around += [fact for condition in self.known for fact in facts_of(condition)]
        under = needed_under(elements)
        found: dict[Element, Element] = {}
        for e in elements_of(elements):
            made = with_args(e, tuple(found[a] for a in e.args)) if e.args else e
            several = isinstance(made, Select) and _is_conjunction(made.guard)
            if several or _is_open(made) or _is_alternative(made):
                made = _Here(ranges, [*around, *_facts(under[e], found)]).simpler(made)
            found[e] = self.element(made) if made is not e else made
        follow(found)
        return tuple(found[e] for e in elements)


class _Alternatives(Decide):
    def array(self, array: Array) -> Array:
        if any(map(_is_alternative, elements_of(array.elements))):
            return super().array(array)
        return Fold.array(self, array)


class _Here:
    """What is known at the points where an element is needed: ranges, and forms that are not negative."""

    def __init__(self, ranges: Ranges, facts: Sequence[Linear]) -> None:
        self.ranges, self.facts = ranges, facts[:MOST_FACTS]

    def sure(self, form: Linear) -> bool:
        """Whether a form is not negative."""
        return never_negative(form, self.ranges, self.facts)

    def simpler(self, made: Element) -> Element:
        """A simpler form of an integer operation, a comparison of integers, or a select by several
        conditions."""
        if isinstance(made, Select):
            return select(self.conjunction(made.guard), made.then, made.otherwise)
        return self.decided(made) if isinstance(made, Apply) else made

    def conjunction(self, guard: Element) -> Element:
        """Conditions without those that follow from the others, and without selects that these decide."""
        parts = list(dict.fromkeys(operands(guard, "logical_and")))
        parts = [_under(part, [p for p in parts if p is not part]) for part in parts]
        for part in parts[::-1]:
            others = [p for p in parts if p is not part]
            if isinstance(part, Apply) and _is_open(part):
                facts = [fact for other in others for fact in facts_of(other)]
                parts[parts.index(part)] = _Here(self.ranges, [*facts, *self.facts]).decided(part)
            parts = [p for p in dict.fromkeys(parts) if not is_const(p, True)]
        if any(is_const(p, False) for p in parts):
            return const(False, "bool")
        return reduce(partial(apply, "logical_and"), parts) if parts else const(True, "bool")

    def disjunction(self, made: Element) -> Element:
        """Conditions of which one suffices, each as it is where the others do not hold. Those of all parts of
        an axis hold together at every point."""
        parts = list(dict.fromkeys(operands(made, "logical_or")))
        if len(parts) > MOST_FACTS:
            return made
        for _ in range(len(parts)):
            before = list(parts)
            for part in before:
                others = [p for p in parts if p is not part]
                facts = [fact for other in others for fact in facts_of(apply("logical_not", other))]
                if part not in parts or not facts:
                    continue
                own = _Here(self.ranges, [*facts, *self.facts]).condition(part)
                if is_const(own, True):
                    return own
                parts = [own if p is part else p for p in parts if p is not part or not is_const(own, False)]
                parts = list(dict.fromkeys(parts))
            if parts == before:
                break
        if parts == operands(made, "logical_or"):
            return made
        return reduce(partial(apply, "logical_or"), parts) if parts else const(False, "bool")

    def condition(self, made: Element) -> Element:
        """A simpler form of a conjunction, or of a comparison of integers."""
        if _is_conjunction(made):
            return self.conjunction(made)
        return self.decided(made) if isinstance(made, Apply) and _is_open(made) else made

    def decided(self, made: Apply) -> Element:
        """A simpler form of an integer operation or of a comparison of integers."""
        if made.op == "logical_or":
            return self.disjunction(made)
        if made.op in ("minimum", "maximum"):
            x, y = made.args
            less, more = (x, y) if made.op == "minimum" else (y, x)
            difference = linear(y) - linear(x)
            return less if self.sure(difference) else more if self.sure(difference * -1) else made
        if made.op in COMPARISONS:
            return self.comparison(made)
        return _reduced(made)

    def comparison(self, made: Apply) -> Element:
        """A comparison that is decided, or without a maximum that is positive where it holds and the part of
        a minimum that is surely larger."""
        if always_holds(made, self.ranges, self.facts):
            return const(True, "bool")
        if never_holds(made, self.ranges, self.facts):
            return const(False, "bool")
        x, y = made.args
        if made.op == "less" and isinstance(y, Apply) and y.op == "maximum" and self.sure(linear(x)):
            inner = [a for a in y.args if not is_const(a, 0)]
            if len(inner) == 1:
                return apply("less", x, inner[0])
        if made.op == "less" and isinstance(y, Apply) and y.op == "minimum":
            left = [a for a in y.args if not self.sure(linear(a) - linear(x) - linear_constant(1))]
            return apply("less", x, left[0]) if len(left) == 1 else made
        return made


def _under(condition: Element, others: Sequence[Element]) -> Element:
    """A condition where others hold as well: what it selects by these is known."""

    def visit(element: Element) -> Element:
        if isinstance(element, Select) and set(operands(element.guard, "logical_and")) <= known:
            return element.then
        return element

    known = set(others)
    return rewrite((condition,), visit)[0] if others else condition


def _is_open(element: Element) -> bool:
    """Whether an element is an operation on integers that ranges may decide or shorten."""
    if not isinstance(element, Apply) or not element.args or element.args[0].dtype != "i64":
        return False
    if element.op in COMPARISONS or element.op in ("minimum", "maximum"):
        return True
    return element.op in ("add", "subtract") and not any(isinstance(a, Const | Index) for a in element.args)


def _is_alternative(element: Element) -> bool:
    """Whether an element says that one of several conditions on places holds."""
    return isinstance(element, Apply) and element.op == "logical_or" and any(map(_is_open, _parts(element)))


def _parts(condition: Element) -> list[Element]:
    """The conditions that one is made of."""
    return postorder((condition,), lambda e: e.args if e.dtype == "bool" else ())


def _is_conjunction(element: Element) -> bool:
    return isinstance(element, Apply) and element.op == "logical_and"


def _facts(conditions: Conditions, found: dict[Element, Element]) -> list[Linear]:
    """The forms that are not negative under conditions, which may have been simplified."""
    now = tuple((found.get(condition, condition), holds) for condition, holds in conditions)
    return [fact for condition in stated(now) for fact in facts_of(condition)]


def _reduced(made: Apply) -> Element:
    """A sum of integers with terms that cancel each other left out."""
    form = linear(made).element()
    return form if len(elements_of((form,))) < len(elements_of((made,))) else made
