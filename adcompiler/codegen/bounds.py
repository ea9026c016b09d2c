"""Conditions on an axis as bounds of its loop: the sum over j < n where j < i runs to i.

What a reduction takes where its condition does not hold is nothing, so those turns may be left out. A
condition becomes a bound if it compares the axis with what the loops around it decide, and every reduction
inside the loop stands under it. If those loops decide it without the axis, the loop runs whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adcompiler.ir.nodes import Apply, Element, Index, Reduce, Select, const, neutral
from adcompiler.ops.build import apply
from adcompiler.passes.conditions import conditions, guarded

ONE = const(1, "i64")
Bound = tuple[str, Element]  # "start" or "stop", and its value; or "if", and what must hold


def without(op: str, body: Element, dropped: Sequence[Element]) -> Element:
    """A body without conditions that the loops see to."""
    outside = neutral(op, body.dtype)
    found, body = guarded(body, outside.value)
    guard: Element | None = None
    for condition in (c for c in found if c not in dropped):
        guard = condition if guard is None else apply("logical_and", guard, condition)
    return body if guard is None else Select((guard, body, outside))


def bound(condition: Element, axis: int, outer: frozenset[int]) -> Bound | None:
    """The bound of a loop over `axis` that a condition is, if the loops `outer` around it decide it."""
    if not isinstance(condition, Apply) or condition.op not in STRICTER:
        return None
    x, y = condition.args
    op = condition.op
    if y is Index(axis):
        x, y, op = y, x, MIRRORED[op]
    if x is not Index(axis) or not y.axes <= outer:
        return None
    side, more = STRICTER[op]
    return side, apply("add", y, ONE) if more else y


def switch(condition: Element, outer: frozenset[int]) -> Bound | None:
    """The bound that lets a loop run or not, if the loops `outer` around it decide the condition."""
    return ("if", condition) if condition.axes and condition.axes <= outer else None


STRICTER = {
    "less": ("stop", False), "less_equal": ("stop", True),
    "greater": ("start", True), "greater_equal": ("start", False),
}  # fmt: skip
MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}


def common(bodies: Iterable[tuple[Reduce, Element]]) -> list[Element]:
    """The conditions under which all of some reductions stand."""
    found: list[Element] | None = None
    for array, body in bodies:
        own = conditions(array.op, body)
        found = own if found is None else [c for c in found if c in own]
    return found or []
