"""Guards: the predicate under which a cotangent is defined.

The adjoint of a branch flows unmasked along the branch's own chain, together with the condition
under which the branch is taken, and is masked only where it leaves that condition. If it were masked
at the start, where(x > 0, sqrt(x * y), 0) would multiply zero by the infinite derivative of sqrt at
0. A guard is an element of type bool; TRUE means no guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

from adcompiler.ad.limits import MOST_CONDITIONS
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Index,
    Map,
    Read,
    Reduce,
    Select,
    const,
    identity,
    is_const,
    neutral,
    select,
)
from adcompiler.ir.walk import operands, substitute
from adcompiler.lazy import WeakMemo
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

TRUE = const(True, "bool")
K = TypeVar("K")
Cube = Mapping[Element, bool]  # conditions, each of which must hold or must not


class Guarded(NamedTuple):
    """A cotangent for each point of an array, meaningful where `guard` holds."""

    guard: Element
    value: Element


class Tangent(NamedTuple):
    """A tangent, an array or an element; it is zero where `guard` does not hold, whatever `value` is
    there."""

    guard: Element
    value: Any


def negation(condition: Element) -> Element:
    """The predicate that `condition` does not hold."""
    if isinstance(condition, Apply) and condition.op == "logical_not":
        return condition.args[0]
    return Apply("logical_not", (condition,), "bool")


def both(guard: Element, condition: Element) -> Element:
    """The conjunction. `i != 3 and i == 2` becomes `i == 2`, which keeps the guards of many stores short."""
    place = _place_of(condition)
    elsewhere = None if place is None else _exclusions(guard)
    if place is not None and elsewhere is not None and elsewhere.implied(*place):
        guard = elsewhere.rest
    return condition if guard is TRUE else Apply("logical_and", (guard, condition), "bool")


def conjunction(conditions: Iterable[Element]) -> Element:
    """The conjunction of several conditions; of none, what always holds."""
    found: Element = TRUE
    for condition in conditions:
        found = both(found, condition)
    return found


@dataclass(frozen=True, slots=True)
class _Exclusions:
    """The guard `rest` and "`integer` equals none of the first `count` numbers".

    `numbers` maps each number to its position, and is shared with longer guards that begin with this one.
    """

    integer: Element
    numbers: dict[int, int]
    count: int
    rest: Element

    def implied(self, integer: Element, number: int) -> bool:
        """Whether `integer == number` implies that `integer` equals none of the numbers."""
        return integer is self.integer and self.numbers.get(number, self.count) >= self.count

    def longer(self, number: int) -> _Exclusions:
        """The guard with one more number."""
        shared = len(self.numbers) == self.count
        numbers = self.numbers if shared else dict(list(self.numbers.items())[: self.count])
        numbers.setdefault(number, self.count)
        return replace(self, numbers=numbers, count=len(numbers))


_KNOWN: WeakMemo[Element, _Exclusions] = WeakMemo()


def _exclusions(guard: Element) -> _Exclusions | None:
    """The exclusions at the end of a guard, if its last conditions are `integer != number`."""
    chain = list[tuple[Element, Element, int]]()
    while guard not in _KNOWN:
        rest, condition = _parts(guard)
        place = _place_of(negation(condition))
        if place is None or (chain and chain[0][1] is not place[0]):
            break
        chain.append((guard, *place))
        guard = rest
    found = _KNOWN.get(guard)
    if found is not None and chain and chain[0][1] is not found.integer:
        found = None
    for here, integer, number in reversed(chain):
        found = _Exclusions(integer, {number: 0}, 1, guard) if found is None else found.longer(number)
        _KNOWN[here] = found
    return found


def _place_of(condition: Element) -> tuple[Element, int] | None:
    """`integer` and `number` if the condition is `integer == number`."""
    match condition:
        case Apply(op="equal", args=(integer, Const(value=number, dtype="i64"))):
            return integer, int(number)
    return None


def either(guards: Iterable[Element]) -> Element:
    """The disjunction; a condition and its negation under one parent are that parent."""
    work = dict.fromkeys(guards)
    merged = True
    while merged:
        merged = False
        for guard in list(work):
            parent, condition = _parts(guard)
            sibling = both(parent, negation(condition))
            if guard is not TRUE and sibling in work:
                del work[guard], work[sibling]
                work[parent] = None
                merged = True
                break
    kept = [g for g in work if not any(a in work for a in _ancestors(g))]
    result = kept[0]
    for guard in kept[1:]:
        result = Apply("logical_or", (result, guard), "bool")
    return result


def pinned(guard: Element, lengths: Mapping[int, Element]) -> Element | None:
    """The condition under which a guard holds for some point along axes of these lengths; None unless it
    equates each of them with an index."""
    parts = operands(guard, "logical_and")
    for axis, length in lengths.items():
        tie = next((p for p in parts if _place(p, axis, lengths) is not None), None)
        place = None if tie is None else _place(tie, axis, lengths)
        if place is None:
            return None
        parts = [substitute(p, {axis: place}) for p in parts if p is not tie]
        parts += [apply("less", place, length), apply("less_equal", const(0, "i64"), place)]
    found: Element = TRUE
    for part in reversed(parts):
        found = within(part, found)
    return found


def _place(condition: Element, axis: int, lengths: Mapping[int, Element]) -> Element | None:
    """The index that a condition equates with an axis, if it depends on none of the axes."""
    if not (isinstance(condition, Apply) and condition.op == "equal"):
        return None
    sides = (condition.args, condition.args[::-1])
    return next((y for x, y in sides if x is Index(axis) and y.axes.isdisjoint(lengths)), None)


def joined(pairs: Sequence[tuple[Element, K]]) -> list[tuple[Element, K]]:
    """Pairs of a guard and what it guards; those of equal values in different branches become one."""
    guards: dict[K, list[Element]] = {}
    for guard, value in pairs:
        guards.setdefault(value, []).append(guard)
    wholes = {value: united(own) for value, own in guards.items() if len(own) > 1}
    made = [(g if (whole := wholes.get(value)) is None else whole, value) for g, value in pairs]
    return [pair for k, pair in enumerate(made) if wholes.get(pair[1]) is None or made.index(pair) == k]


def united(guards: Sequence[Element]) -> Element | None:
    """Where any of several guards holds, if at most one of them does at any point; else None.

    What is stored at one place in both branches of a condition is unchanged at all others: four guards become
    `not (i == k and j == m)`.
    """
    unique = dict.fromkeys(guards)
    cubes = [cube for guard in unique if (cube := _literals(guard)) is not None]
    atoms = {atom for cube in cubes for atom in cube}
    apart = all(_are_apart(one, other) for one, other in combinations(cubes, 2))
    if not cubes or len(unique) < len(guards) or len(atoms) > MOST_CONDITIONS or not apart:
        return None
    shared = {a: holds for a, holds in cubes[0].items() if all(c.get(a) == holds for c in cubes)}
    inside, outside = _cases([{a: h for a, h in c.items() if a not in shared} for c in cubes])
    more: Element = TRUE
    if outside:
        more = _any_of(inside) if len(inside) < len(outside) else negation(_any_of(outside))
    return within(_all_of(shared), more)


def _literals(guard: Element) -> Cube | None:
    """The conditions of a guard; None if they contradict each other, so that it never holds."""
    found: dict[Element, bool] = {}
    for part in [] if guard is TRUE else operands(guard, "logical_and"):
        is_not = isinstance(part, Apply) and part.op == "logical_not"
        if found.setdefault(part.args[0] if is_not else part, not is_not) is is_not:
            return None
    return found


def _are_apart(one: Cube, other: Cube) -> bool:
    """Whether no point has both."""
    return any(other.get(atom, holds) != holds for atom, holds in one.items())


def _cases(cubes: Sequence[Cube]) -> tuple[list[Cube], list[Cube]]:
    """The points where any of the cubes holds, and all others, as cubes."""
    if not all(cubes):
        return [{}], []
    atom = next((a for cube in cubes for a in cube), None)
    if atom is None:
        return [], [{}]
    sides = []
    for holds in (True, False):
        rest = [c for c in cubes if c.get(atom, holds) == holds]
        sides.append(_cases([{a: h for a, h in c.items() if a is not atom} for c in rest]))
    (yes_in, yes_out), (no_in, no_out) = sides
    if (yes_in, yes_out) == (no_in, no_out):
        return yes_in, yes_out
    inside = [_with(atom, True, c) for c in yes_in] + [_with(atom, False, c) for c in no_in]
    outside = [_with(atom, True, c) for c in yes_out] + [_with(atom, False, c) for c in no_out]
    return inside, outside


def _with(atom: Element, holds: bool, cube: Cube) -> Cube:
    return {atom: holds, **cube}


def _any_of(cubes: Sequence[Cube]) -> Element:
    return either(map(_all_of, cubes))


def _all_of(cube: Cube) -> Element:
    return conjunction(atom if holds else negation(atom) for atom, holds in cube.items())


def total(parts: Sequence[tuple[Element, Element]]) -> tuple[Element, Element]:
    """The union of the guards and the sum of the values of (guard, value) pairs."""
    parts = joined(parts)
    guard = either(g for g, _ in parts)
    return guard, masked_sum(parts, guard)


def masked_sum(parts: Iterable[tuple[Element, Element]], guard: Element) -> Element:
    """The sum of the values of (guard, value) pairs, each zero outside of its guard, where `guard` holds.
    Values under one guard are added before it masks them: numbers are then added once, not at each point."""
    by_guard: dict[Element, list[Element]] = {}
    for g, value in parts:
        by_guard.setdefault(g, []).append(value)
    sums = _chosen({g: plus(values) for g, values in by_guard.items()})
    return plus(value if g is guard else mask(value, g) for g, value in sums.items())


def _chosen(sums: Mapping[Element, Element]) -> Mapping[Element, Element]:
    """Values by their guards, where those of both sides of a condition become one that it chooses."""
    found, work = dict(sums), list(sums)
    for guard in work:
        parent, condition = _parts(guard)
        sibling = both(parent, negation(condition))
        if guard in found and guard is not TRUE and sibling in found and parent not in found:
            one, other = found.pop(guard), found.pop(sibling)
            if isinstance(condition, Apply) and condition.op == "logical_not":
                condition, one, other = condition.args[0], other, one
            found[parent] = select(condition, one, other)
            work.append(parent)
    return found


def plus(values: Iterable[Element]) -> Element:
    """The sum of some values, in order."""
    return reduce(lambda a, b: apply("add", a, b), values)


def support(element: Element) -> Element | None:
    """Where an element that selects zeros is nonzero; None if it is zero everywhere.

    A derivative such as where(x > 0, 1, 0) is a branch like any other: its factor counts only where it is not
    zero.
    """
    if is_const(element, 0):
        return None
    if not isinstance(element, Select):
        return TRUE
    then, otherwise = support(element.then), support(element.otherwise)
    parts = []
    if then is not None:
        parts.append(within(element.guard, then))
    if otherwise is not None:
        parts.append(within(negation(element.guard), otherwise))
    return either(parts) if parts else None


def within(guard: Element, inner: Element) -> Element:
    """Where both guards hold; `inner` may be TRUE."""
    return guard if inner is TRUE else both(guard, inner)


def holding(guard: Element, array: Map | Reduce) -> Element:
    """A guard over the domain of an array as one over its own axes: whether it holds at some point."""
    if isinstance(array, Map) or all(k < array.rank for k in guard.axes):
        return guard
    bits = select(guard, const(1, "i64"), neutral("max", "i64"))
    most = Reduce("max", array.shape, array.reduced, bits)
    return apply("greater", Read(most, identity(array.shape)), const(0, "i64"))


def mask(value: Element, guard: Element) -> Element:
    """`value` where `guard` holds, else zero."""
    if guard is TRUE or _is_masked(value, frozenset(operands(guard, "logical_or"))):
        return value
    return select(guard, value, const(0, value.dtype))


def masked(tangent: Tangent, array: Array) -> Array:
    """The tangent of an array as an array, with zeros where its guard does not hold."""
    value: Array = tangent.value
    if tangent.guard is TRUE:
        return value
    return Map(array.shape, mask(Read(value, identity(array.shape)), tangent.guard))


def _is_masked(value: Element, guards: frozenset[Element]) -> bool:
    """Whether a value is a sum of terms that are zero but where one of the guards holds."""
    terms = operands(value, "add")
    guarded = [t for t in terms if isinstance(t, Select) and is_const(t.otherwise, 0)]
    return len(guarded) == len(terms) and guards.issuperset(t.guard for t in guarded)


def _parts(guard: Element) -> tuple[Element, Element]:
    if isinstance(guard, Apply) and guard.op == "logical_and":
        return guard.args[0], guard.args[1]
    return TRUE, guard


def _ancestors(guard: Element) -> Iterable[Element]:
    """The weaker guards that `guard` extends."""
    while guard is not TRUE:
        guard = _parts(guard)[0]
        yield guard
