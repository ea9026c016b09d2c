"""The conditions under which a reduction takes a point."""

from __future__ import annotations

from adcompiler.ir.nodes import Apply, Element, Select, neutral


def conditions(op: str, body: Element) -> list[Element]:
    """What must hold for a reduction to take a point, if it says so first of all."""
    found: list[Element] = []
    while isinstance(body, Select) and body.otherwise is neutral(op, body.dtype):
        found += _parts(body.guard)
        body = body.then
    return found


def _parts(guard: Element) -> list[Element]:
    if isinstance(guard, Apply) and guard.op == "logical_and":
        return [c for part in guard.args for c in _parts(part)]
    return [guard]
