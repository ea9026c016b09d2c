"""Batching: one program over leading axes more, as many independent programs at once.

Several directions of a derivative are one more axis of this kind, not copies of the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adcompiler.ir.nodes import Accumulate, Array, Element, Index, Input, Map, Read, Reduce, Shape, identity
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of, with_args


def batch(results: Sequence[Array], batched: Mapping[Array, Array], axes: Shape) -> list[Array]:
    """`results` with leading axes of lengths `axes`, where the arrays `batched` are replaced by arrays
    that have those leading axes. A result that depends on none of them stays as it is."""
    found: dict[Array, Array] = dict(batched)
    for array in arrays_of(results):
        if array not in found and any(a in found for a in arrays_read(array)):
            assert not isinstance(array, Input)
            found[array] = _array(array, found, axes)
    return [found.get(result, result) for result in results]


def _array(array: Array, found: Mapping[Array, Array], axes: Shape) -> Array:
    elements = _shifted(array.elements, found, identity(axes))
    shape = axes + array.shape
    match array:
        case Map():
            return Map(shape, elements[-1])
        case Reduce(op=op, reduced=reduced):
            return Reduce(op, shape, reduced, elements[-1])
        case Accumulate(domain=domain):
            lead = identity(axes)
            return Accumulate(shape, axes + domain, lead + elements[:-1], elements[-1])
    raise AssertionError(f"cannot batch {type(array).__name__}")


def _shifted(
    elements: Sequence[Element], found: Mapping[Array, Array], lead: tuple[Element, ...]
) -> tuple[Element, ...]:
    """Elements behind the axes `lead`; reads of batched arrays read at those axes."""
    new: dict[Element, Element] = {}
    for element in elements_of(elements):
        args = tuple(new[a] for a in element.args)
        match element:
            case Index(axis=axis):
                new[element] = Index(axis + len(lead))
            case Read(array=array) if array in found:
                new[element] = Read(found[array], lead + args)
            case _:
                new[element] = with_args(element, args)
    return tuple(new[e] for e in elements)
