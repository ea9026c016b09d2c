"""Arrays that are read at a part of their places, such as a row of which each iteration needs the first few
elements: the loops that compute them have the bounds of the loops that read them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from adcompiler.analysis.predicates import conditions, facts, needed_under
from adcompiler.ir.nodes import Accumulate, Array, Element, Index, Input, Map, Read, Reduce
from adcompiler.ir.walk import arrays_read, elements_of, read_by, substitute

Where = tuple[Element, ...]  # conditions on the places of an array, in terms of its axes


def partly_read(made: Sequence[Array], roots: Collection[Array]) -> dict[Array, Where]:
    """The conditions outside of which no loop reads an array that is none of `roots`. `made` lists producers
    first."""
    wanted = {a for a in made if isinstance(a, Map) and a.rank > 1 and a not in roots}
    found: dict[Array, Where] = {}
    for reader in reversed(made) if wanted else ():
        if reader in found:
            found[reader] = tuple(c for c in found[reader] if _is_known(c, reader))
        for array, here in _of_reads(reader, found.get(reader, ()), wanted.intersection(arrays_read(reader))):
            found[array] = tuple(c for c in found.get(array, here) if c in here)
    return found


def _is_known(condition: Element, array: Array) -> bool:
    """Whether what a condition reads exists wherever an array is computed. Placeholders are no inputs: they
    may change in place."""
    read = (a for a in read_by((condition,)) if a not in arrays_read(array))
    return all(type(a) is Input and a.position >= 0 for a in read)


def _of_reads(reader: Array, own: Where, read: Collection[Array]) -> Iterator[tuple[Array, Where]]:
    """What holds at each read of some arrays, and nothing if they are read in other ways; `own` holds where
    the reader is read itself."""
    elements = reader.elements if isinstance(reader, Map | Reduce | Accumulate) else ()
    if not elements or not read:
        yield from ((array, ()) for array in read)
        return
    yield from ((array, ()) for array in read_by(reader.domain))
    if not isinstance(reader, Map):
        own = tuple(conditions(reader.op if isinstance(reader, Reduce) else "sum", elements[-1]))
    needed = needed_under(elements)
    for e in elements_of(elements):
        if isinstance(e, Read) and e.array in read:
            places = {i.axis: Index(k) for k, i in enumerate(e.args) if isinstance(i, Index)}
            plain = len(places) == e.array.rank
            holds = [c for c in own if isinstance(reader, Map) or {*facts(c, True)} <= {*needed[e]}]
            yield e.array, tuple(substitute(c, places) for c in holds if plain and c.axes <= places.keys())
