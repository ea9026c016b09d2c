"""What an iteration of a loop must leave behind for its reverse: stacks.

An iteration of a loop is a small program, and its reverse reads some of its arrays. All else is made again
from those, or from what is there in any iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from adcompiler.ad.saved_temporaries import is_over_pairs
from adcompiler.ir.bodies import Body, Replace, roots_of
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    identity,
    is_const,
)
from adcompiler.ir.walk import (
    arrays_of,
    arrays_read,
    elements_of,
    lengths_read,
    postorder,
    read_by,
    with_args,
)
from adcompiler.ops.costs import costly, is_costly
from adcompiler.ops.table import TABLE

MOST_PARTS = 2  # places at which what is carried is read, up to which these are saved in its stead


def outlined(roots: Sequence[Array]) -> tuple[Array, ...]:
    """The roots of an iteration with functions of elements as arrays of their own, which can be saved; those
    that are not are inlined again."""
    return _Outline({}).run(roots)


class _Outline(Replace):
    def array(self, array: Array) -> Array:
        if not isinstance(array, Map):
            return array
        own = identity(array.shape)
        axes = frozenset(i.axis for i in own if isinstance(i, Index))
        new: dict[Element, Element] = {}
        for e in elements_of((array.body,)):
            made = with_args(e, tuple(new[a] for a in e.args))
            apart = e is not array.body and e.axes == axes and _is_function(e)
            new[e] = Read(Map(array.shape, made), own) if apart else made
        return Map(array.shape, new[array.body])


def _is_function(element: Element) -> bool:
    """Whether an element is worth its bytes: a function such as tanh, but no quotient."""
    if not (isinstance(element, Apply) and is_costly(element)):
        return False
    return element.op != "divide" and TABLE[element.op].kind == "float"


def stacked(body: Body, given: set[Array], roots: Sequence[Array]) -> tuple[Sequence[Array], list[Array]]:
    """The roots of a reverse iteration, and what they read of the iteration `body`: what is carried, of which
    a part may do, and what is costly and no larger than that. The rest is computed again from these, and from
    what is `given` in any iteration."""
    slots = {c.slot for c in body.carried}
    own = _decided_by(slots | given, roots)
    made = set(arrays_of(roots_of(body)))
    most = max((_extent(c.init) for c in body.carried), default=0)
    sizes = [Counter(_lengths(c.init)) for c in body.carried]
    kept = slots & own
    for a in own - given:
        if a in made:
            small = _extent(a) <= most and _is_worth_saving(a) and not is_over_pairs(a)
        else:  # the stacks of a loop in the iteration: it need not run again
            small = isinstance(a, Item) and any(Counter(_lengths(a)) <= size for size in sizes)
        if small and not lengths_read(a):  # rows of different lengths make no stack
            kept.add(a)
    parts = _Parts(kept, slots, own)
    parts.find(roots)
    roots = parts.run(roots)
    kept |= parts.made
    return roots, [a for a in postorder(roots, lambda a: () if a in kept else arrays_read(a)) if a in kept]


def _decided_by(leaves: set[Array], roots: Sequence[Array]) -> set[Array]:
    """The arrays that are made of `leaves`, and of nothing else that has no value yet."""
    found: set[Array] = set()
    for array in postorder(roots, lambda a: () if a in leaves else arrays_read(a)):
        if array in leaves or not (
            isinstance(array, Input) or any(a not in found for a in arrays_read(array))
        ):
            found.add(array)
    return found


class _Parts(Replace):
    """Reads what is carried at places that are known before: then only these parts of it need be saved."""

    def __init__(self, kept: set[Array], slots: set[Array], own: set[Array]) -> None:
        super().__init__({a: a for a in kept})
        self.kept, self.slots, self.own = kept, slots, own
        self.whole: set[Array] = set()  # what is read in more places
        self.made: set[Array] = set()

    def find(self, roots: Sequence[Array]) -> None:
        """Find what is read whole."""
        places: dict[Array, set[tuple[Element | None, ...]]] = {}
        self.whole.update(roots)
        for array in postorder(roots, lambda a: () if a in self.kept else arrays_read(a)):
            if array in self.kept:
                continue
            reads = [e for e in elements_of((*array.domain, *array.elements)) if isinstance(e, Read)]
            self.whole.update(set(arrays_read(array)) - {r.array for r in reads})
            for read in reads:
                places.setdefault(read.array, set()).add(self.placed(read))
        self.whole |= {a for a, found in places.items() if len(found) > MOST_PARTS}

    def placed(self, read: Read) -> tuple[Element | None, ...]:
        """The indices of a read that are one place each, decided by the iteration."""
        return tuple(
            i if not i.axes and not isinstance(i, Const) and self.own.issuperset(read_by((i,))) else None
            for i in read.args
        )

    def element(self, element: Element) -> Element:
        if not isinstance(element, Read) or element.array not in self.slots - self.whole:
            return element
        places = self.placed(element)
        shape = tuple(n for n, p in zip(element.array.shape, places, strict=True) if p is None)
        if len(shape) == len(places):
            return element
        free = iter(identity(shape))
        part = Map(shape, Read(element.array, tuple(next(free) if p is None else p for p in places)))
        self.made.add(part)
        return Read(part, tuple(i for i, p in zip(element.args, places, strict=True) if p is None))


def _extent(array: Array) -> int:
    """The number of an array's axes that are not of length 1."""
    return len(_lengths(array))


def _lengths(array: Array) -> list[Element]:
    return [n for n in array.shape if not is_const(n, 1)]


def _is_worth_saving(array: Array) -> bool:
    match array:
        case Item() | Reduce():
            return True
        case Map(body=Const()):
            return False
        case Map(body=body):
            return costly(body, {})
    return not isinstance(array, Input)
