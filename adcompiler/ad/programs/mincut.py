"""Choice of saved values by a minimum cut: bytes written and read against work repeated.

An array that propagate needs is either saved, which costs its bytes, or recomputed, which costs its work and
needs the arrays it reads. With a node in(a) and a node out(a) for each array, the arcs

    source -> in(a)      the work of computing a again
    in(a)  -> out(a)     the bytes of saving a
    out(p) -> in(a)      infinite, where a reads p
    out(a) -> sink       infinite, where propagate reads a

make every finite cut between source and sink a choice: an arc is paid for where it leads from the source's
side to the sink's, so an array whose out(a) is on the sink's side is saved if its in(a) is not, and if it is,
then all that it reads is on the sink's side too. The cheapest choice is a minimum cut (Ford and Fulkerson
1956). All items of a loop come from its iterations, so its work is on a separate arc.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from adcompiler.analysis.minimum_cut import sink_side
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Array, Call, Const, Func, Index, Input, Map, Node, Read, Shape, Size
from adcompiler.ir.types import NUMPY
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of
from adcompiler.ops.costs import CHEAP_NANOSECONDS, NOMINAL_LENGTH, Length, nanoseconds

READ, WRITE = 0.1, 0.35  # ns a byte; memory that is new to the process costs more than a store to it


def cheapest(forward: Func, count: int, needed: Sequence[Array], length: Length) -> list[Array]:
    """The arrays of `forward` to save, for a propagate that reads those `needed`.

    The first `count` results are available in any case; `length` evaluates lengths.
    """
    if not needed:
        return []
    given = set(forward.results[:count])
    order = arrays_of(needed)
    arcs: dict[tuple[object, object], float] = {}
    for array in order:
        maker: Node = array.loop if isinstance(array, Item) else array
        arcs["source", ("in", maker)] = 0.0 if isinstance(array, Input) else _work(array, length)
        size = _size(array, length)
        saving = READ * size if array in given or isinstance(array, Input) else (READ + WRITE) * size
        arcs[("in", array), ("out", array)] = np.inf if isinstance(array, Input) else saving
        if maker is not array:
            arcs[("in", maker), ("in", array)] = np.inf
        for read in arrays_read(array):
            arcs[("out", read), ("in", maker)] = np.inf
    for array in needed:
        arcs[("out", array), "sink"] = np.inf
    behind = sink_side(arcs)
    return [
        a for a in order
        if ("out", a) in behind and ("in", a) not in behind and not isinstance(a, Input) and a not in given
    ]  # fmt: skip


def _size(array: Array, length: Length) -> int:
    """The bytes of an array."""
    return NUMPY[array.dtype].itemsize * _points(array.shape, length)


def _points(shape: Shape, length: Length) -> int:
    return prod(length(n) for n in shape)


def _work(array: Array, length: Length) -> float:
    """Nanoseconds to compute an array from its operands; for a loop's result, those of the whole loop."""
    if isinstance(array, Item):
        return _iterations(array.loop, length)
    if isinstance(array, Call):  # routines on n x n matrices take about n multiplications an element
        return CHEAP_NANOSECONDS * max(_points(a.shape, length) * length(a.shape[-1]) for a in array.operands)
    if isinstance(array, Map) and isinstance(array.body, Const):
        return 0.0
    time = 0.0
    for element in elements_of(array.elements):
        if not isinstance(element, Const | Index | Size):
            plain = not isinstance(element, Read) or all(isinstance(i, Index) for i in element.args)
            axes = tuple(array.domain[k] for k in element.axes)
            time += _points(axes, length) * (nanoseconds(element) if plain else 10 * CHEAP_NANOSECONDS)
    return time if isinstance(array, Map) else time + CHEAP_NANOSECONDS * _points(array.domain, length)


def _iterations(loop: Loop, length: Length) -> float:
    """Nanoseconds of all iterations."""
    iterations = NOMINAL_LENGTH if loop.length is None else length(loop.length)
    seen: set[Node] = set()
    time = 1.0
    for array in arrays_of(loop.roots):
        maker: Node = array.loop if isinstance(array, Item) else array
        if maker not in seen and not isinstance(array, Input):
            seen.add(maker)
            time += _work(array, length)
    return iterations * time
