"""Derivatives entry by entry: the nonzero entries of a Jacobian as arrays, without directions.

An array whose body reads `x[i + 1]` has, at the point i, one derivative by that entry of x: the derivative of
the body by this read. So each read of an input contributes a family of entries, one for each point of the
domain. A read of another array contributes what that array's families do, times the derivative by the read
(the chain rule along each path). The values of a family are one array of the program, which kernels compute
like any other; zeros never occur, and no seed is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product

from adcompiler.ad.guards import TRUE, both, mask, total
from adcompiler.ad.jvp import slope
from adcompiler.ad.limits import MOST_FAMILIES, MOST_UNROLLED
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
from adcompiler.ir.walk import arrays_of, elements_of, operands, substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, cast
from adcompiler.passes.algebra.fold import folded


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

    def read_at(self, read: Read, domain: Shape, rows: tuple[Element, ...]) -> Family:
        """The family where `read`, an element over `domain`, reads this one's array: derivatives of what is
        at `rows`. Axes that the array sums over are added to the domain."""
        kept, added = len(read.args), len(domain)
        axes = dict(enumerate(read.args))
        axes |= {k: Index(added + k - kept) for k in range(kept, len(self.domain))}
        found = self.at(axes, domain + self.domain[kept:])
        inside = [
            condition
            for index, n in zip(read.args, read.array.shape, strict=True)
            for condition in (apply("less_equal", const(0, "i64"), index), apply("less", index, n))
        ]
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

    def folded(self) -> Family:
        """The family with constants folded."""
        ranges: Ranges = {Index(k): up_to(n) for k, n in enumerate(self.domain)}

        def simple(element: Element) -> Element:
            return folded(element, ranges)

        rows, columns = (tuple(map(simple, part)) for part in (self.rows, self.columns))
        guard = _all(simple(part) for part in operands(self.guard, "logical_and"))
        return Family(self.domain, rows, self.source, columns, guard, simple(self.value))

    def unrolled(self) -> Iterator[Family]:
        """A family for each position along short axes: conditions on these axes are then decided."""
        short = [k for k, n in enumerate(self.domain) if isinstance(n, Const) and n.value <= MOST_UNROLLED]
        rest = [k for k in range(len(self.domain)) if k not in short]
        kept: dict[int, Element] = {k: Index(p) for p, k in enumerate(rest)}
        domain = tuple(self.domain[k] for k in rest)
        for places in product(*(range(int(self.domain[k].value)) for k in short)):  # type: ignore[attr-defined]
            at: dict[int, Element] = {k: const(p, "i64") for k, p in zip(short, places, strict=True)}
            yield self.at(kept | at, domain).folded()


def families(results: Sequence[Array], wanted: Sequence[Input]) -> list[list[Family]] | None:
    """The families of each result by the inputs `wanted`, or None: for loops, routines, extrema, and reads at
    computed places of sums at computed places."""
    order = arrays_of(results)
    if any(isinstance(a, Reduce) and a.op != "sum" and is_float(a.dtype) for a in order):
        return None  # an extremum must be the very number that it was chosen from
    active = active_arrays(order, wanted)
    found: dict[Array, list[Family]] = {}
    count = 0
    for array in order:
        if array in wanted:
            found[array] = [_itself(array)]
        elif array in active:
            if isinstance(array, Item | Call | Ruled):
                return None
            found[array] = made = []
            for family in _of_array(array, found, active):
                if family is None or (count := count + 1) > MOST_FAMILIES:
                    return None
                made.append(family)
    return [_joined(found.get(r, [])) for r in results]


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
            if inner.rows == identity(read.array.shape):
                family = inner.read_at(read, array.domain, rows).scaled(factor.guard, factor.value)
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


def _joined(given: Sequence[Family]) -> list[Family]:
    """The families written out; those of the same places are one, the sum."""
    groups: dict[tuple[object, ...], list[Family]] = {}
    for family in (one for whole in given for one in whole.unrolled()):
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
