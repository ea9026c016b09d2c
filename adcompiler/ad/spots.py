"""Spots: elements over an array that are zero but at one place of some axes, such as the adjoint of x[k]."""

from __future__ import annotations

from collections.abc import Mapping

from adcompiler.ad.guards import TRUE, both, mask
from adcompiler.analysis.predicates import scalar_ties
from adcompiler.ir.nodes import Apply, Const, Element, Index, Select, is_const
from adcompiler.ir.walk import operands, substitute
from adcompiler.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Spot:
    """`value` where the axes of `ties` are at their places and `guard` holds, 0 elsewhere."""

    ties: Mapping[int, Element]
    guard: Element
    value: Element

    def free(self, rank: int) -> list[int]:
        """The axes of an array that have no place."""
        return [k for k in range(rank) if k not in self.ties]

    def inside(self, rank: int) -> Element:
        """The value at the places, over the free axes alone."""
        at: dict[int, Element] = {k: Index(p) for p, k in enumerate(self.free(rank))} | dict(self.ties)
        return substitute(mask(self.value, self.guard), at)


def spots(body: Element) -> list[Spot] | None:
    """The terms of a sum, if each is zero but at a place of some axis."""
    found: list[Spot] = []
    work = [body]
    while work:
        match work.pop():
            case Apply(op="add", args=args):
                work += reversed(args)
            case Select(args=(guard, then, zero)) if is_const(zero, 0):
                spot = _spot(guard, then)
                if spot is not None:
                    found.append(spot)
                elif isinstance(guard, Apply) and guard.op == "logical_or":
                    work.append(then)  # its terms are zero where the condition does not hold
                else:
                    return None
            case Const(value=0):
                pass
            case _:
                return None
    return found or None


def _spot(guard: Element, value: Element) -> Spot | None:
    ties: dict[int, Element] = {}
    rest: Element = TRUE
    for condition in operands(guard, "logical_and"):
        tie = next((t for t in scalar_ties(condition) if t[0] not in ties), None)
        if tie is None:
            rest = both(rest, condition)
        else:
            ties[tie[0]] = tie[1]
    return Spot(ties, rest, value) if ties else None
