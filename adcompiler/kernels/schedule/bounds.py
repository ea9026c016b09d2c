"""Conditions on an axis as bounds of its loop: the sum over j < n where j < i runs to i.

What a reduction, or a scatter, takes where its condition does not hold is nothing, so those iterations may be
left out. A condition becomes a bound if it compares the axis with what the loops around it decide, and all
that is added up inside the loop stands under it. If those loops decide it without the axis, the loop runs
whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adcompiler.analysis.affine import shifted
from adcompiler.analysis.predicates import MIRRORED, conditions, guarded
from adcompiler.ir.nodes import Apply, Element, Index, Select, const, neutral
from adcompiler.ops.build import apply

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
    if not (isinstance(condition, Apply) and condition.op in STRICTER and condition.args[0].dtype == "i64"):
        return None
    (x, y), op = condition.args, condition.op
    for here, there, (side, more) in ((x, y, STRICTER[op]), (y, x, STRICTER[MIRRORED[op]])):
        base, less = shifted(here)
        if base is Index(axis) and there.axes <= outer:
            return side, apply("add", there, const(more - less, "i64")) if more != less else there
    return None


def switch(condition: Element, outer: frozenset[int]) -> Bound | None:
    """The bound that lets a loop run or not, if the loops `outer` around it decide the condition."""
    return ("if", condition) if condition.axes and condition.axes <= outer else None


STRICTER = {  # which bound, and what is added to it
    "less": ("stop", 0), "less_equal": ("stop", 1), "greater": ("start", 1), "greater_equal": ("start", 0),
}  # fmt: skip


def common(bodies: Iterable[tuple[str, Element]]) -> list[Element]:
    """The conditions under which all that some reductions take stand."""
    found: list[Element] | None = None
    for op, body in bodies:
        own = conditions(op, body)
        found = own if found is None else [c for c in found if c in own]
    return found or []
