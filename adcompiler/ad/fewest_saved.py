"""The smallest set of arrays that an iteration saves for its reverse.

The reverse of an iteration reads carried values, but often only through other arrays that are computed from
them: of three fields it may need one curl. A minimum cut between the arrays that would be saved and those
that the reverse reads finds the arrays with the fewest elements from which it can compute the rest. An array
other than those that would be saved has to be smaller by a margin: it is computed in the forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.ad.limits import LEAST_SAVING
from adcompiler.ad.stacks import decided_by, elements_about, longest
from adcompiler.analysis.minimum_cut import sink_side
from adcompiler.ir.bodies import Body, roots_of
from adcompiler.ir.nodes import Array
from adcompiler.ir.walk import arrays_of, arrays_read, postorder


def fewest(body: Body, given: set[Array], roots: Sequence[Array], saved: list[Array]) -> list[Array]:
    """The arrays of the iteration `body` to save instead of `saved`, so that its reverse iteration `roots`
    can be computed from them and from the arrays `given`."""
    sources = set(saved)
    order = postorder(roots, lambda a: () if a in sources else arrays_read(a))
    decided = decided_by(sources | given, roots)
    known = set(sources)  # what depends on these; the rest of what is decided needs nothing saved
    for array in order:
        if array in decided and any(a in known for a in arrays_read(array)):
            known.add(array)
    needed = {a for reader in order if reader not in known for a in arrays_read(reader) if a in known}
    needed |= known.intersection(roots)
    if sources <= needed or not known - sources:
        return saved
    made = set(arrays_of(roots_of(body)))
    arcs: dict[tuple[object, object], float] = {}
    for array in order:
        if array not in known:
            continue
        size = float("inf")
        if array in sources:
            size = elements_about(array.shape)
            arcs["source", ("in", array)] = float("inf")
        elif array in made and longest(array, body, given) is not None:
            size = elements_about(array.shape) * LEAST_SAVING
        arcs[("in", array), ("out", array)] = size
        if array not in sources:
            for read in arrays_read(array):
                if read in known:
                    arcs[("out", read), ("in", array)] = float("inf")
        if array in needed:
            arcs[("out", array), "sink"] = float("inf")
    behind = sink_side(arcs)
    return [a for a in order if ("out", a) in behind and ("in", a) not in behind]
