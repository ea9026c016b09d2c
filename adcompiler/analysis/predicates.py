"""Predicates: conditions on the points of a reduction, and conditions of branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from math import isfinite

import numpy as np

from adcompiler.ir.nodes import Apply, Const, Element, Index, Select, const, is_const, neutral
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import elements_of, is_computed, operands, postorder
from adcompiler.ops.build import apply
from adcompiler.ops.table import TABLE

OPPOSITE = {  # what holds where a comparison does not
    "less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less",
    "not_equal": "equal",
}  # fmt: skip
COMPARISONS = frozenset((*OPPOSITE, "equal"))
MIRRORED = {  # a comparison with its operands exchanged
    "less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal",
}  # fmt: skip


def opposite(condition: Element) -> Element | None:
    """What holds where a comparison of integers does not; None for any other condition."""
    match condition:
        case Apply(op=op, args=args) if op in OPPOSITE and args[0].dtype == "i64":
            return apply(OPPOSITE[op], *args)
    return None


def without_negation(condition: Element) -> Element:
    """The comparison of integers that holds where a negated one does not; any other condition as it is."""
    match condition:
        case Apply(op="logical_not", args=(inner,)):
            return opposite(inner) or condition
    return condition


Conditions = tuple[tuple[Element, bool], ...]  # a conjunction: each condition once, and whether it holds
ALWAYS: Conditions = ()


def meet(a: Conditions, b: Conditions) -> Conditions:
    """The conditions common to two lists."""
    return tuple(c for c in a if c in b)


def join(a: Conditions, b: Conditions) -> Conditions:
    """The facts that hold under both."""
    return (*a, *(c for c in b if c not in a))


def facts(guard: Element, holds: bool) -> Conditions:
    """The facts implied by a guard that holds, or does not."""
    found: dict[tuple[Element, bool], None] = {}
    work = [(guard, holds)]
    while work:
        part, true = work.pop()
        if isinstance(part, Apply) and part.op == "logical_not":
            work.append((part.args[0], not true))
        elif isinstance(part, Apply) and part.op == ("logical_and" if true else "logical_or"):
            work.extend((a, true) for a in reversed(part.args))
        else:
            found[part, true] = None
    return tuple(found)


def stated(conditions: Conditions) -> list[Element]:
    """Conditions as elements that hold."""
    return [c if holds else apply("logical_not", c) for c, holds in conditions]


def needed_under(
    roots: Iterable[Element], here: Conditions = ALWAYS, counts: Callable[[Element], bool] = lambda _: True
) -> dict[Element, Conditions]:
    """The conditions under which each element below `roots` is needed, if these are needed under `here`. Of
    the guards of selects, those that `counts` are conditions."""
    roots = tuple(roots)
    found: dict[Element, Conditions] = dict.fromkeys(roots, here)
    for element in reversed(elements_of(roots)):
        where = found[element]
        sides = [where] * len(element.args)
        if isinstance(element, Select) and counts(element.guard):
            sides[1:] = (join(where, facts(element.guard, holds)) for holds in (True, False))
        for arg, side in zip(element.args, sides, strict=True):
            found[arg] = meet(found[arg], side) if arg in found else side
    return found


def conditions(op: str, body: Element) -> list[Element]:
    """The conditions under which a reduction includes a point, if its body begins with them."""
    return guarded(body, neutral(op, body.dtype).value)[0]


def guarded(body: Element, value: int | float = 0) -> tuple[list[Element], Element]:
    """The conditions outside which `body` is `value`, and its value where they hold. Factors and signs before
    a guarded value do not matter if `value` is 0."""
    found: list[Element] = []
    scale = 1.0
    while True:
        number, inside = _scaled(body) if value == 0 else (1.0, body)
        inside = _lifted(inside) if value == 0 else inside
        if not (isinstance(inside, Select) and is_const(inside.otherwise, value)):
            break
        scale *= number
        found += operands(inside.guard, "logical_and")
        body = inside.then
    if scale == 1:
        return found, body
    if scale == -1:
        return found, apply("negative", body)
    return found, apply("multiply", const(scale, body.dtype), body)


def _lifted(root: Element) -> Element:
    """An element that is 0 outside a condition, with the condition outermost, such as that of (x if c else
    0)**2; any other element as it is."""
    found: dict[Element, Element] = {}
    for e in postorder((root,), lambda e: e.args if _may_be_zero(e) else ()):
        parts = tuple(found[a] for a in e.args) if _may_be_zero(e) else ()
        conditional = [p for p in parts if isinstance(p, Select) and is_const(p.otherwise, 0)]
        found[e] = e
        if len({p.guard for p in conditional}) == 1 and all(p in conditional or _is_finite(p) for p in parts):
            inside = tuple(p.then if p in conditional and isinstance(p, Select) else p for p in parts)
            assert isinstance(e, Apply)
            found[e] = Select((conditional[0].guard, Apply(e.op, inside, e.dtype), const(0, e.dtype)))
    return found[root]


def _may_be_zero(element: Element) -> bool:
    """Whether an element is 0 if one of its operands is and all others are finite."""
    return isinstance(element, Apply) and (element.op == "multiply" or keeps_zero(element.op))


def _is_finite(element: Element) -> bool:
    """Whether an element chooses between finite constants."""
    if isinstance(element, Select):
        return _is_finite(element.then) and _is_finite(element.otherwise)
    return isinstance(element, Const) and isfinite(element.value)


@cache
def keeps_zero(op: str) -> bool:
    """Whether a unary operation maps 0 to 0."""
    row = TABLE.get(op)
    if row is None or len(row.params) != 1 or row.kind not in ("arithmetic", "float"):
        return False
    with np.errstate(all="ignore"):
        return bool(row.numpy(np.zeros(1))[0] == 0)


def _scaled(element: Element) -> tuple[float, Element]:
    """The constant factor of a value, and the rest."""
    match element:
        case Apply(op="negative", args=(x,)) if is_float(element.dtype):
            return -1.0, x
        case Apply(op="multiply", args=(Const(value=number), x)) if is_float(element.dtype):
            if isfinite(number):
                return float(number), x
    return 1.0, element


def ties(condition: Element) -> list[tuple[int, Element]]:
    """The axes that a condition equates with an index that does not depend on them: (axis, index)."""
    if not (isinstance(condition, Apply) and condition.op == "equal"):
        return []
    sides = (condition.args, condition.args[::-1])
    return [(k.axis, place) for k, place in sides if isinstance(k, Index) and k.axis not in place.axes]


def scalar_ties(condition: Element) -> list[tuple[int, Element]]:
    """The axes that a condition ties to a place that is the same at every point, with these places."""
    return [tie for tie in ties(condition) if not tie[1].axes]


def is_scalar(element: Element) -> bool:
    """Whether an element depends on no axis of an array's domain; axes of loop iterations are negative."""
    return all(a < 0 for a in element.axes)


def decides(guard: Element) -> bool:
    """Whether a guard is worth a branch: a scalar that does not depend on lengths alone. A condition on
    lengths nearly always holds, and a branch would only prevent the fusion of loops."""
    return is_scalar(guard) and (is_computed(guard) or bool(guard.axes))
