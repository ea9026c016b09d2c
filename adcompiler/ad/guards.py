"""Guards: where a cotangent means anything.

The adjoint of a branch flows unmasked along the branch's own chain, together with the condition
under which the branch is taken, and is masked only where it leaves that condition. Masked at the
start instead, where(x > 0, sqrt(x * y), 0) would multiply a zero by the infinite derivative of
sqrt at 0. A guard is an element of type bool; TRUE is no guard at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from adcompiler.ir.nodes import Apply, Element, const, select

TRUE = const(True, "bool")


def negation(condition: Element) -> Element:
    """Where `condition` does not hold."""
    if isinstance(condition, Apply) and condition.op == "logical_not":
        return condition.args[0]
    return Apply("logical_not", (condition,), "bool")


def both(guard: Element, condition: Element) -> Element:
    """Where both hold."""
    return condition if guard is TRUE else Apply("logical_and", (guard, condition), "bool")


def either(guards: Iterable[Element]) -> Element:
    """Where any of them holds; a condition and its negation under one parent are that parent."""
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


def mask(value: Element, guard: Element) -> Element:
    """`value` where `guard` holds, else zero."""
    return value if guard is TRUE else select(guard, value, const(0, value.dtype))


def _parts(guard: Element) -> tuple[Element, Element]:
    if isinstance(guard, Apply) and guard.op == "logical_and":
        return guard.args[0], guard.args[1]
    return TRUE, guard


def _ancestors(guard: Element) -> Iterable[Element]:
    """The weaker guards that `guard` stands under."""
    while guard is not TRUE:
        guard = _parts(guard)[0]
        yield guard
