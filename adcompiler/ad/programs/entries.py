"""Derivatives entry by entry: the nonzero entries of a Jacobian as arrays, without directions.

An array whose body reads `x[i + 1]` has, at the point i, one derivative by that entry of x: the derivative of
the body by this read. So each read of an input contributes a family of entries, one for each point of the
domain. A read of another array contributes what that array's families do, times the derivative by the read
(the chain rule along each path). The values of a family are one array of the program, which kernels compute
like any other; zeros never occur, and no seed is read.

Paths multiply from array to array. Where many arrive at one array, families of the same places are added up
there, so that no array has more of them than its entries depend on inputs. A value that readers need at
several places is an array then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product

from adcompiler.ad.guards import TRUE, both, mask, total
from adcompiler.ad.jvp import slope
from adcompiler.ad.limits import (
    LEAST_STORED,
    MOST_APART,
    MOST_FAMILIES,
    MOST_UNROLLED,
    MOST_UNROLLED_TOGETHER,
)
from adcompiler.ad.partials import active_arrays, times
from adcompiler.analysis.intervals import Ranges, up_to
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Call,
    Const,
    Element,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Shape,
    const,
    identity,
    is_const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import arrays_of, elements_of, operands, rewrite, separate, substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, cast
from adcompiler.passes.algebra.fold import Fold


@dataclass(frozen=True)
class Family:
    """For each point of `domain` the derivative, `value`, of an array's entry at `rows` by an entry of
    `source` at `columns`; it is zero where `guard` does not hold, whatever `value` is there."""

    domain: Shape
    rows: tuple[Element, ...]
    source: Array
    columns: tuple[Element, ...]
    guard: Element
    value: Element

    def read_at(self, read: Read, domain: Shape, rows: tuple[Element, ...]) -> Family | None:
        """The family where `read`, an element over `domain`, reads this one's array: derivatives of what is
        at `rows`. Axes that the array sums over are added to the domain. None if this one's rows are not
        plain axes and constants."""
        axes: dict[int, Element] = {}
        inside: list[Element] = []
        for index, row, n in zip(read.args, self.rows, read.array.shape, strict=True):
            if isinstance(row, Index) and row.axis not in axes:
                axes[row.axis] = index
                inside += apply("less_equal", const(0, "i64"), index), apply("less", index, n)
            elif is_const(row):
                inside.append(apply("equal", index, row))
            else:
                return None
        added = [k for k in range(len(self.domain)) if k not in axes]
        axes |= {k: Index(len(domain) + p) for p, k in enumerate(added)}
        found = self.at(axes, domain + tuple(self.domain[k] for k in added))
        return replace(found, rows=rows, guard=_all((*inside, found.guard)))

    def at(self, axes: dict[int, Element], domain: Shape) -> Family:
        """The family over another domain, for the elements of it that its axes are."""
        rows, columns = (tuple(substitute(e, axes) for e in part) for part in (self.rows, self.columns))
        guard, value = substitute(self.guard, axes), substitute(self.value, axes)
        return Family(domain, rows, self.source, columns, guard, value)

    def scaled(self, guard: Element, factor: Element) -> Family | None:
        """The family times a factor that is zero outside of its guard; None if it is zero everywhere."""
        value = times(cast(factor, self.value.dtype), self.value)
        return None if value is None else replace(self, guard=_all((guard, self.guard)), value=value)

    def unrolled(self) -> Iterator[Family]:
        """A family for each position along short axes: conditions on these axes are then decided."""
        short = _short(self.domain)
        rest = [k for k in range(len(self.domain)) if k not in short]
        kept: dict[int, Element] = {k: Index(p) for p, k in enumerate(rest)}
        domain = tuple(self.domain[k] for k in rest)
        for places in product(*(range(int(self.domain[k].value)) for k in short)):  # type: ignore[attr-defined]
            at: dict[int, Element] = {k: const(p, "i64") for k, p in zip(short, places, strict=True)}
            yield self.at(kept | at, domain)

    def stored(self) -> Family:
        """The family with its values as an array, if they take several operations."""
        value = self.value
        return (
            self
            if len(elements_of((value,))) < LEAST_STORED
            else replace(self, value=separate(value, self.domain))
        )


def _short(domain: Shape) -> list[int]:
    """The short axes of a domain, as long as they have few positions together."""
    short, count = [], 1
    for k, n in enumerate(domain):
        if isinstance(n, Const) and count * n.value <= MOST_UNROLLED_TOGETHER and n.value <= MOST_UNROLLED:
            short.append(k)
            count *= max(int(n.value), 1)
    return short


class _Folding:
    """Families with constants folded. Those of one domain share most of their elements."""

    def __init__(self) -> None:
        self.known: dict[Shape, tuple[Fold, dict[Element, Element]]] = {}

    def family(self, family: Family) -> Family:
        """A family with constants folded."""
        domain = family.domain
        if domain not in self.known:
            ranges: Ranges = {Index(k): up_to(n) for k, n in enumerate(domain)}
            self.known[domain] = Fold(ranges=ranges), {}
        fold, memo = self.known[domain]

        def simple(element: Element) -> Element:
            return rewrite((element,), fold.element, memo)[0]

        rows, columns = (tuple(map(simple, part)) for part in (family.rows, family.columns))
        guard = _all(simple(part) for part in operands(family.guard, "logical_and"))
        return Family(domain, rows, family.source, columns, guard, simple(family.value))


def families(results: Sequence[Array], wanted: Sequence[Input]) -> list[list[Family]] | None:
    """The families of each result by the inputs `wanted`, or None: for loops, routines, extrema, and reads at
    computed places of sums at computed places."""
    order = arrays_of(results)
    if any(isinstance(a, Reduce) and a.op != "sum" and is_float(a.dtype) for a in order):
        return None  # an extremum must be the very number that it was chosen from
    active = active_arrays(order, wanted)
    moved = _read_at_several_places(order)
    found: dict[Array, list[Family]] = {}
    folding = _Folding()
    count = 0
    for array in order:
        if array in wanted:
            found[array] = [_itself(array)]
        elif array in active:
            if isinstance(array, Item | Call | Ruled):
                return None
            made = [*_of_array(array, found, active)]
            if any(family is None for family in made):
                return None
            known = [family for family in made if family is not None]
            if len(known) > MOST_APART:
                known = _joined(known, folding)
                known = [family.stored() for family in known] if array in moved else known
            found[array] = known
            if (count := count + len(known)) > MOST_FAMILIES:
                return None
    return [_joined(found.get(r, []), folding) for r in results]


def _read_at_several_places(order: Sequence[Array]) -> set[Array]:
    """The arrays that elements read at several places along long axes."""
    places: dict[Array, set[tuple[Element, ...]]] = {}
    for array in order:
        for read in elements_of(array.elements):
            if isinstance(read, Read):
                short = _short(read.array.shape)
                at = tuple(i for k, i in enumerate(read.args) if k not in short)
                places.setdefault(read.array, set()).add(at)
    return {array for array, found in places.items() if len(found) > 1}


def _itself(array: Array) -> Family:
    """The family of an input by itself."""
    places = identity(array.shape)
    return Family(array.shape, places, array, places, TRUE, const(1, array.dtype))


def _of_array(array: Array, found: dict[Array, list[Family]], active: set[Array]) -> Iterator[Family | None]:
    """The families of an array from those of the arrays that it reads; None for what has none."""
    body = array.elements[-1]
    rows = array.indices if isinstance(array, Accumulate) else identity(array.shape)
    for read in elements_of((body,)):
        if not isinstance(read, Read) or read.array not in active:
            continue
        factor = slope(body, read)
        if factor is None:
            continue
        for inner in found[read.array]:
            if (there := inner.read_at(read, array.domain, rows)) is not None:
                family = there.scaled(factor.guard, factor.value)
            elif (axes := _inverse(read, inner.rows, array.domain)) is not None:
                guard, value, *places = (substitute(e, axes) for e in (*factor, *rows))
                family = replace(inner, rows=tuple(places)).scaled(guard, value)
            else:
                yield None
                continue
            if family is not None:
                yield family


def _inverse(read: Read, places: Sequence[Element], domain: Shape) -> dict[int, Element] | None:
    """The point of a domain at which `read` reads the entry at `places`; None if there may be several."""
    axes = {i.axis: place for i, place in zip(read.args, places, strict=True) if isinstance(i, Index)}
    plain = sum(isinstance(i, Index) for i in read.args) == len(axes)
    plain &= all(
        isinstance(i, Index) or is_const(n, 1) for i, n in zip(read.args, read.array.shape, strict=True)
    )
    return axes if plain and all(k in axes or is_const(n, 1) for k, n in enumerate(domain)) else None


def _joined(given: Sequence[Family], folding: _Folding) -> list[Family]:
    """The families written out; those of the same places are one, the sum."""
    groups: dict[tuple[object, ...], list[Family]] = {}
    for family in (folding.family(one) for whole in given for one in whole.unrolled()):
        if not is_const(family.guard, 0) and not is_const(family.value, 0):
            place = (family.domain, family.rows, family.source, family.columns)
            groups.setdefault(place, []).append(family)
    found = []
    for first, *others in groups.values():
        if others:
            guard, value = total([(f.guard, f.value) for f in (first, *others)])
            first = replace(first, guard=guard, value=value)
        found.append(first)
    return found


def _all(conditions: Iterator[Element] | Sequence[Element]) -> Element:
    """The conjunction of conditions, each once."""
    parts = dict.fromkeys(part for c in conditions for part in operands(c, "logical_and"))
    if any(is_const(part, 0) for part in parts):
        return const(False, "bool")
    left = [part for part in parts if not is_const(part, 1)]
    return reduce(both, left) if left else TRUE


def values_of(family: Family, guard: Element) -> Array:
    """The values of a family as an array of its domain, with zeros where `guard` does not hold."""
    return Map(family.domain, cast(mask(family.value, guard), "f64"))
