"""Conditions: under which a reduction takes a point, and which a program branches by."""

from __future__ import annotations

from adcompiler.ir.nodes import Apply, Element, Index, Select, is_const, neutral
from adcompiler.ir.walk import is_computed


def conditions(op: str, body: Element) -> list[Element]:
    """What must hold for a reduction to take a point, if it says so first of all."""
    return guarded(body, neutral(op, body.dtype).value)[0]


def guarded(body: Element, value: int | float = 0) -> tuple[list[Element], Element]:
    """The conditions outside of which `body` is `value`, and what it is where they hold."""
    found: list[Element] = []
    while isinstance(body, Select) and is_const(body.otherwise, value):
        found += parts(body.guard)
        body = body.then
    return found, body


def parts(guard: Element) -> list[Element]:
    """The parts of a conjunction, in order."""
    found: list[Element] = []
    work = [guard]
    while work:
        part = work.pop()
        if isinstance(part, Apply) and part.op == "logical_and":
            work += reversed(part.args)
        else:
            found.append(part)
    return found


def ties(condition: Element) -> list[tuple[int, Element]]:
    """The axes that a condition says must equal a place that does not depend on them: (axis, place)."""
    if not (isinstance(condition, Apply) and condition.op == "equal"):
        return []
    sides = (condition.args, condition.args[::-1])
    return [(k.axis, place) for k, place in sides if isinstance(k, Index) and k.axis not in place.axes]


def is_scalar(element: Element) -> bool:
    """Whether an element has no axis of an array's domain; those of turns of loops are negative."""
    return all(a < 0 for a in element.axes)


def decides(guard: Element) -> bool:
    """Whether a guard is a condition to branch by: one number, and no matter of lengths alone, which all but
    ever holds and would only keep loops apart."""
    return is_scalar(guard) and (is_computed(guard) or bool(guard.axes))
