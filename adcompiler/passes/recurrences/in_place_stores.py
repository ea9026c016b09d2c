"""Stores in arrays that a loop carries become nodes, each a store in place.

Up to here such a store is an array that selects, so that passes and derivatives treat it as any other. A loop
that is still a recurrence then carries an array through a chain of these: each becomes a `Put` in the one
before. Its kernel stores in order, and reads what has been stored before.
"""

from __future__ import annotations

from collections.abc import Collection

from adcompiler.analysis.puts import as_put
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Array, Func
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, has_loops


def in_place_stores(func: Func) -> Func:
    """The program with stores in what loops carry as nodes."""
    return _Stores(()).func(func) if has_loops(func.roots) else func


class _Stores(Rewriter):
    """Rewrites an iteration; `chains` are the arrays that store in what it carries."""

    def __init__(self, chains: Collection[Array]) -> None:
        super().__init__()
        self.chains = chains

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return _Stores(_chains(loop)) if isinstance(loop, Loop) else None

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        put = as_put(new) if array in self.chains else None
        return new if put is None else put


def _chains(loop: Loop) -> set[Array]:
    """The arrays of an iteration that store in a carried array, or in what stores before them have made of
    it, if nothing else keeps one of them."""
    found: set[Array] = set()
    for slot, result in zip(loop.slots[1:], loop.results, strict=False):
        chain: list[Array] = []
        array: Array | None = result
        while array is not None and array is not slot:
            put = as_put(array)
            if put is not None:
                chain.append(array)
                array = put.base
            else:
                carried = isinstance(array, Item) and array.k < len(array.loop.inits)
                array = array.loop.inits[array.k] if carried and isinstance(array, Item) else None
        others = [a for a in loop.roots if a is not result]
        if array is slot and not any(a in others for a in chain):
            found.update(chain)
    return found
