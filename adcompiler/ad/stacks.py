"""Stacks: what an iteration of a loop saves for its reverse.

An iteration of a loop is a small program, and its reverse reads some of its arrays. All others are
recomputed from those, or from what is available in every iteration.

A row of a stack has the same length in every iteration. The stacks of an inner loop whose length follows from
the iteration's number, as in `for j in range(i)`, are padded to the longest one.

The reverse of an iteration reads carried values, but often only through other arrays that are computed from
them: of three fields it may need one curl. A minimum cut between the arrays that would be saved and those
that the reverse reads finds the arrays with the fewest elements from which it can compute the rest. An array
other than those that would be saved has to be smaller by a margin: it is computed in the forward pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import NamedTuple

from adcompiler.ad.guards import TRUE, both
from adcompiler.ad.limits import LEAST_SAVING, MOST_LOOKED_THROUGH
from adcompiler.ad.restored import are_known, is_long, restored, stored_places
from adcompiler.ad.saved_temporaries import is_over_pairs, needed_elements
from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.minimum_cut import sink_side
from adcompiler.analysis.predicates import scalar_ties
from adcompiler.ir.bodies import Body, Carried, Replace, roots_of
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Input,
    Map,
    Put,
    Read,
    Reduce,
    Select,
    Shape,
    closed,
    const,
    element_of,
    identity,
    is_const,
    select,
)
from adcompiler.ir.origins import follow
from adcompiler.ir.walk import (
    arrays_of,
    arrays_read,
    elements_of,
    operands,
    postorder,
    read_by,
    rewrite,
    separate,
    substitute,
    with_args,
    with_elements,
)
from adcompiler.ops.build import apply
from adcompiler.ops.costs import NOMINAL_ROW, costly, is_costly
from adcompiler.ops.table import TABLE


class Outlined(NamedTuple):
    """The roots of an iteration with parts of elements as separate arrays, and these arrays."""

    roots: tuple[Array, ...]
    made: frozenset[Array]

    def inlined(self, roots: Sequence[Array]) -> tuple[Array, ...]:
        """Roots with these parts in their places again, as in the iteration's own arrays."""
        return _Inlined(self.made).run(roots)


def outlined(body: Body, active: set[Array]) -> Outlined:
    """The roots of an iteration with what could be saved as separate arrays: costly functions of elements,
    and what derivatives need that is computed from several arrays of the iteration. Those not saved are
    inlined again."""
    roots = roots_of(body)
    varying = {body.step, *(c.slot for c in body.carried), *(row for _, row in body.rows)}
    for array in arrays_of(roots):
        if any(a in varying for a in arrays_read(array)):
            varying.add(array)
    outline = _Outline(active, varying)
    made = outline.run(roots)
    return Outlined(made, frozenset(outline.made.difference(arrays_of(roots))))


class _Inlined(Replace):
    def __init__(self, made: frozenset[Array]) -> None:
        super().__init__({})
        self.made = made

    def _visit(self, element: Element) -> Element:
        new = super()._visit(element)
        if isinstance(element, Read) and element.array in self.made:
            assert isinstance(new, Read)
            return substitute(new.array.elements[-1], dict(enumerate(new.args)))
        return new


class _Outline(Replace):
    def __init__(self, active: set[Array], varying: set[Array]) -> None:
        super().__init__({})
        self.active, self.varying = active, varying
        self.made: set[Array] = set()

    def array(self, array: Array) -> Array:
        if not isinstance(array, Map | Reduce):
            return array
        whole = array.body if isinstance(array, Map) else None
        needed = {e for e in needed_elements(array, self.active) if self.reads_several(e)}
        new: dict[Element, Element] = {}
        arrays: dict[Element, Array] = {}
        for e in elements_of((array.body,)):
            new[e] = made = with_args(e, tuple(new[a] for a in e.args))
            axes = sorted(e.axes)
            if (axes or not array.domain) and e is not whole and (_is_function(e) or e in needed):
                new[e] = own = separate(made, array.domain, axes)
                arrays[e] = own.array
        self.made.update(arrays.values())
        follow(arrays, new)
        return with_elements(array, lambda elements: tuple(new[e] for e in elements), lambda shape: shape)

    def reads_several(self, element: Element) -> bool:
        """Whether an element is computed from elements of several arrays that are as long."""
        reads = [e for e in elements_of((element,)) if isinstance(e, Read) and e.axes >= element.axes]
        return len({e.array for e in reads} & self.varying) > 1 and not isinstance(element, Read)


def _is_function(element: Element) -> bool:
    """Whether an element is worth saving: a function such as tanh, but not a quotient."""
    if not (isinstance(element, Apply) and is_costly(element)):
        return False
    return element.op != "divide" and TABLE[element.op].kind == "float"


class Stacked(NamedTuple):
    """The roots of a reverse iteration, and the arrays of the iteration that they read. `restored` are arrays
    that the reverse loop carries too, by those of the iteration."""

    roots: Sequence[Array]
    saved: list[Array]
    restored: dict[Carried, Carried]


def stacked(
    body: Body, given: set[Array], roots: Sequence[Array], puts: Mapping[Array, Put] = MappingProxyType({})
) -> Stacked:
    """What the reverse of an iteration `body` reads of it.

    These are the carried values, and costly values that are no larger than the carried ones, or smaller parts
    of either if only those are read. The rest is recomputed from these and from the arrays `given` in every
    iteration. A carried array with a few stores, of which more is read, is restored.
    """
    slots = {c.slot for c in body.carried}
    stores = {c: s for c in body.carried if is_long(c.slot) and (s := stored_places(c)) is not None}
    places = read_by(place for each in stores.values() for s in each for place in s.values())
    own = decided_by(slots | given, (*roots, *places))
    made = set(arrays_of(roots_of(body)))
    most = max((_extent(c.init) for c in body.carried), default=0)
    kept = slots & own
    for a in own - given:
        if a in made:
            small = _extent(a) <= most and _is_worth_saving(a) and not is_over_pairs(a)
        else:  # the stacks of a loop in the iteration, which then need not run again
            small = isinstance(a, Item) and is_small(a, body)
        if small and longest(a, body, given) is not None:
            kept.add(a)
    elements = _StoredElements(kept, own, behind_stores(puts))
    roots = elements.run(roots)
    kept |= elements.made
    roots = _ThroughStores(kept, own).run(roots)
    parts = _Parts(kept, own)
    parts.find(roots)
    arrays = {c.slot for c in body.carried if is_long(c.slot)}
    chosen = [c for c in stores if c.slot in parts.whole and are_known(stores[c], kept, arrays)]
    if chosen:
        back = {c: restored(c, stores[c]) for c in chosen}
        changed = Replace({a: a for a in kept} | {c.slot: r.result for c, r in back.items()})
        roots = (*changed.run(roots), *(r.result for r in back.values()))
        parts = _Parts(kept, own)
        parts.find(roots)
    roots = parts.run(roots)
    kept |= parts.made
    saved = [a for a in postorder(roots, lambda a: () if a in kept else arrays_read(a)) if a in kept]
    first = len(roots) - len(chosen)
    pairs = zip(chosen, roots[first:], strict=True)
    return Stacked(roots[:first], saved, {c: replace(back[c], result=made) for c, made in pairs})


def is_small(item: Item, body: Body) -> bool:
    """Whether the stack of a loop in an iteration is no larger than what the iteration carries."""
    inits = [c.init for c in body.carried]
    long = max((sum(map(_is_long, a.shape)) for a in inits), default=0)
    if _extent(item) < max(map(_extent, inits), default=0) or _work(item.loop) <= long:
        return True
    return any(Counter(_lengths(item)) <= Counter(_lengths(a)) for a in inits)


def longest(array: Array, body: Body, given: set[Array]) -> Shape | None:
    """The lengths of an array of an iteration, or the largest that they are in any iteration; None if the
    iterations decide them otherwise than by their number."""
    steps = {body.step, *(row for _, row in body.rows)}
    bounds = [_largest(n, body, given - steps) for n in array.shape]
    found = tuple(n for n in bounds if n is not None)
    return found if len(found) == array.rank else None


def _largest(length: Element, body: Body, fixed: set[Array]) -> Element | None:
    """The largest value of a length, whose arrays are `fixed` but for the iteration's number."""
    if fixed.issuperset(read_by((length,))):
        return length
    match length:
        case Read(array=Map(body=value, shape=())):
            return _largest(value, body, fixed)
        case Apply(op="maximum" | "minimum", args=(x, y)):
            ends = _largest(x, body, fixed), _largest(y, body, fixed)
            return None if None in ends else apply(length.op, *(e for e in ends if e is not None))
    form = linear(length)
    number = Read(body.step, ())
    step = form.terms.get(number, 0)
    rest = form - Linear({number: step})
    if body.length is None or not fixed.issuperset(read_by(a for a in rest.terms if a is not None)):
        return None
    if step > 0:
        rest += (linear(body.length) - linear_constant(1)) * step
    return apply("maximum", rest.element(), const(0, "i64"))


def padded(array: Array, shape: Shape) -> Array:
    """An array with zeros up to a larger shape; one of that shape as it is."""
    if array.shape == shape:
        return array
    pairs = zip(identity(shape), array.shape, shape, strict=True)
    inside: Element = TRUE
    for i, length, whole in pairs:
        if length is not whole:
            inside = both(inside, apply("less", i, length))
    return closed(shape, select(inside, element_of(array), const(0, array.dtype)))


def decided_by(leaves: set[Array], roots: Sequence[Array]) -> set[Array]:
    """The arrays that are computed from `leaves` alone."""
    found: set[Array] = set()
    for array in postorder(roots, lambda a: () if a in leaves else arrays_read(a)):
        if array in leaves or not (
            isinstance(array, Input) or any(a not in found for a in arrays_read(array))
        ):
            found.add(array)
    return found


def behind_stores(puts: Mapping[Array, Put]) -> set[Array]:
    """The arrays behind more stores of an iteration than a read looks through."""
    counts: dict[Array, int] = {}
    for array in reversed(list(puts)):  # each lists what is stored last first
        counts[array] = counts.get(puts[array].base, 0) + 1
    return {array for array, count in counts.items() if count > MOST_LOOKED_THROUGH}


class _StoredElements(Replace):
    """Reads elements of the arrays `behind` many stores as numbers that the forward pass saves."""

    def __init__(self, kept: set[Array], own: set[Array], behind: set[Array]) -> None:
        super().__init__({a: a for a in kept})
        self.own, self.behind = own, behind
        self.made: set[Array] = set()

    def element(self, element: Element) -> Element:
        if not isinstance(element, Read) or element.array not in self.behind:
            return element
        if None in _placed(element, self.own):
            return element
        part = Map((), element)
        self.made.add(part)
        return Read(part, ())


class _ThroughStores(Replace):
    """Reads parts of an array in which the iteration has stored from the array before and from what was
    stored, where the indices are known in the forward pass: the array is then not read whole for them."""

    def __init__(self, kept: set[Array], own: set[Array]) -> None:
        super().__init__({a: a for a in kept})
        self.kept, self.own = kept, own

    def element(self, element: Element) -> Element:
        if not isinstance(element, Read):
            return element
        while True:
            reads = [e for e in elements_of((element,)) if isinstance(e, Read) and self.is_through(e)]
            if not reads:
                return element
            new: dict[Element, Element] = {
                e: substitute(e.array.elements[-1], dict(enumerate(e.args))) for e in reads
            }
            element = rewrite((element,), partial(_replaced, new))[0]

    def is_through(self, read: Read) -> bool:
        """Whether an element is read from an array with stores at a place known in the forward pass."""
        return (
            read.array not in self.kept
            and _is_stored(read.array)
            and any(p is not None for p in _placed(read, self.own))
        )


class _Parts(Replace):
    """Reads only parts of saved arrays where the indices are known in the forward pass: only these parts are
    saved."""

    def __init__(self, kept: set[Array], own: set[Array]) -> None:
        super().__init__({a: a for a in kept})
        self.kept, self.own = kept, own
        self.whole: set[Array] = set()  # arrays whose parts are not smaller
        self.made: set[Array] = set()

    def find(self, roots: Sequence[Array]) -> None:
        """Find the arrays that are read whole."""
        places: dict[Array, set[tuple[Element | None, ...]]] = {}
        self.whole.update(roots)
        for array in postorder(roots, lambda a: () if a in self.kept else arrays_read(a)):
            if array in self.kept:
                continue
            reads = [e for e in elements_of((*array.domain, *array.elements)) if isinstance(e, Read)]
            self.whole.update(set(arrays_read(array)) - {r.array for r in reads})
            for read in reads:
                places.setdefault(read.array, set()).add(_placed(read, self.own))
        for array, found in places.items():
            if sum(elements_about(_free(array, at)) for at in found) >= elements_about(array.shape):
                self.whole.add(array)

    def element(self, element: Element) -> Element:
        if not isinstance(element, Read) or element.array not in self.kept - self.whole:
            return element
        places = _placed(element, self.own)
        shape = _free(element.array, places)
        if len(shape) == len(places):
            return element
        free = iter(identity(shape))
        part = Map(shape, Read(element.array, tuple(next(free) if p is None else p for p in places)))
        self.made.add(part)
        return Read(part, tuple(i for i, p in zip(element.args, places, strict=True) if p is None))


def _placed(read: Read, own: set[Array]) -> tuple[Element | None, ...]:
    """For each index of a read, itself if it is single and known in the forward pass, that is computed from
    `own`, else None. Axes of constant length are saved whole, not element by element."""

    def is_single(index: Element) -> bool:
        return not index.axes and own.issuperset(read_by((index,)))

    pairs = zip(read.args, read.array.shape, strict=True)
    return tuple(i if is_single(i) and not _is_column(i, n) else None for i, n in pairs)


def _replaced(new: Mapping[Element, Element], element: Element) -> Element:
    return new.get(element, element)


def _is_stored(array: Array) -> bool:
    """Whether an array is another one but for the elements where conditions hold."""
    body = array.body if isinstance(array, Map) else None
    if not isinstance(body, Select):
        return False
    while isinstance(body, Select):
        body = body.otherwise
    return isinstance(body, Read) and body.args == identity(array.shape) and body.array.rank == array.rank


def _free(array: Array, places: Sequence[Element | None]) -> Shape:
    """The lengths of the axes that remain where some indices are fixed."""
    return tuple(n for n, p in zip(array.shape, places, strict=True) if p is None)


def elements_about(lengths: Shape) -> int:
    """The approximate number of elements."""
    return prod(int(n.value) if isinstance(n, Const) else NOMINAL_ROW for n in lengths)


def _extent(array: Array) -> int:
    """The number of an array's axes that are not of length 1."""
    return len(_lengths(array))


def _work(loop: Loop) -> int:
    """The number of long axes that a loop goes over: its own, and those of what one iteration computes.

    If they are no more than those of a carried array, the loop's stacks are no larger than the array. Running
    the loop again instead would need the array, saved whole in each iteration.
    """
    inside = arrays_of(loop.roots)
    inner = [_work(a.loop) if isinstance(a, Item) else _computed_axes(a) for a in inside]
    return (loop.length is None or _is_long(loop.length)) + max(inner, default=0)


def _computed_axes(array: Array) -> int:
    """The number of long axes over which an array is computed; those along which it is stored at one place do
    not count."""
    if isinstance(array, Input | Item):
        return 0
    if not array.elements:  # a library routine, which goes over all of its operands
        return max(sum(map(_is_long, a.shape)) for a in (array, *arrays_read(array)))
    long = {k for k, n in enumerate(array.domain) if _is_long(n)}
    most, body = 0, array.elements[-1]
    while isinstance(body, Select):
        conditions = operands(body.guard, "logical_and")
        most = max(most, len(long - {axis for c in conditions for axis, _ in scalar_ties(c)}))
        body = body.otherwise
    is_rest = (
        isinstance(body, Read) and body.args == identity(array.shape) and len(array.domain) == array.rank
    )
    return most if is_rest else len(long)


def _is_column(index: Element, length: Element) -> bool:
    return isinstance(index, Const) and isinstance(length, Const)


def _is_long(length: Element) -> bool:
    return not isinstance(length, Const)


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
