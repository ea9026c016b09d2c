"""Variables in which a backward pass stores gradients: leaves, those that retain one, or those requested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adcompiler.eager.graph.graph import Entry, Variable, is_variable, reachable
from adcompiler.eager.limits import MOST_NAMED
from adcompiler.errors import DtypeError, GraphError


def holders(output: Variable, entries: Sequence[Entry]) -> dict[int, Variable]:
    """The Variables whose `.grad` a backward pass fills: leaves that require one, and retaining ones."""
    alive = [(o.ref(), o.serial) for e in entries for o in e.outputs]
    read = [
        (v, e.serial)
        for n in entries
        if n.state == "live"
        for v, e in zip(n.inputs, n.edges, strict=True)
        if is_variable(v)
    ]
    return {
        serial: v
        for v, serial in ((output, output.serial), *read, *alive)
        if v is not None and v.serial == serial and v.requires_grad and (v.is_leaf or v.retains_grad)
    }


def leaves_of(v: Variable) -> str:
    """`: a, b` for a message: the leaves that require a gradient which a Variable was computed from."""
    edges = (e for n in reachable([v]) for e in n.edges if e.requires_grad and e.entry is None)
    names = list({e.serial: e.origin.name for e in edges if e.origin is not None}.values())
    return f": {', '.join(names[:MOST_NAMED])}{', ...' if len(names) > MOST_NAMED else ''}" if names else ""


def behind_freed(entries: Sequence[Entry]) -> dict[int, None]:
    """What freed operations have read, by serial number: a pass that would reach it raises."""
    return {e.serial: None for n in entries if n.state == "freed" for e in n.edges if e.requires_grad}


def asked(inputs: Any) -> dict[int, Variable]:
    """The Variables that `backward(inputs=...)` names. Raises Error if they hold none."""
    chosen = [inputs] if is_variable(inputs) else list(inputs)
    refuse_none(chosen, "backward")
    for v in chosen:
        if not is_variable(v):
            raise DtypeError(f"inputs holds a {type(v).__name__}", remedy="pass Variables")
        if not v.requires_grad:
            raise GraphError(f"{v.name} does not require a gradient", remedy=f"{v.name}.requires_grad_()")
    return {v.serial: v for v in chosen}


def refuse_none(inputs: Sequence[Any], what: str) -> None:
    """Raise GraphError if there are no Variables to differentiate with respect to."""
    if not inputs:
        raise GraphError(
            f"inputs is empty: {what} has nothing to differentiate with respect to",
            remedy="pass Variables; adc.parameters(model) finds only adc.Parameters",
        )


def retaining(entries: Iterable[Entry], found: Mapping[int, Variable]) -> dict[int, Variable]:
    """What was computed on the way, has a cotangent, and keeps it."""
    alive = ((o.ref(), o.serial) for e in entries for o in e.outputs if o.serial in found)
    return {s: v for v, s in alive if v is not None and v.serial == s and v.retains_grad}
