"""Reverse mode: from results and their cotangents to the cotangents of inputs, program to program.

For an array B, an operation over a domain with a body, the chain rule walks the body's elements from the root
to the reads. A contribution made in scope S (a set of the domain's axes) to an element t that depends on the
axes T is summed over S - T: t is one number for all those points. At a read `A[indices]` the sum over all
points is added to A's cotangent at those indices: reads become writes. Where the indices are distinct plain
axes, the write is a renamed array; else it accumulates.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

from adcompiler.ad.custom_rules import reverse as reverse_ruled
from adcompiler.ad.guards import (
    TRUE,
    Guarded,
    both,
    either,
    joined,
    mask,
    masked_sum,
    negation,
    pinned,
    plus,
    support,
    within,
)
from adcompiler.ad.guards import total as sum_of
from adcompiler.ad.library import pull
from adcompiler.ad.limits import MOST_GUARD_ELEMENTS
from adcompiler.ad.loops import reverse
from adcompiler.ad.partials import active_arrays, differentiable, linear_arrays, partial, times
from adcompiler.ad.products import attaining, factor
from adcompiler.ad.read_inverse import invert
from adcompiler.ad.singular import zeros_of
from adcompiler.analysis.loop_order import is_short
from adcompiler.analysis.mixed_radix import is_digit
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Const,
    Element,
    Index,
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
    neutral,
    read_whole,
    select,
    zeros_like,
)
from adcompiler.ir.origins import derived, gathered
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import arrays_of, elements_of, postorder, read_by, rewrite, separate, substitute
from adcompiler.ops.build import apply, cast
from adcompiler.ops.costs import costly

Scope = frozenset[int]
ZERO, ONE = const(0, "i64"), const(1, "i64")
NO_PUTS: Mapping[Array, Put] = MappingProxyType({})


class Contribution(NamedTuple):
    """A cotangent `value` for each point of `scope`, meaningful where `guard` holds."""

    guard: Element
    scope: Scope
    value: Element


def vjp(
    results: Sequence[Array],
    cotangents: Sequence[Array | None],
    wanted: Sequence[Array],
    guards: Sequence[Element] | None = None,
) -> list[Array | None]:
    """The cotangent of each array in `wanted`; None where it is known to be zero.

    `cotangents` are shaped like `results`; None stands for zeros. `guards` say where each cotangent is
    defined (over its result's axes): elsewhere it counts as zero, and is not multiplied by anything.
    """
    totals = _totals(results, _seeds(results, cotangents, guards), wanted)
    return [_whole(totals.get(a), a) for a in wanted]


def _seeds(
    results: Sequence[Array], cotangents: Sequence[Array | None], guards: Sequence[Element] | None = None
) -> list[Guarded | None]:
    """Cotangents with their guards."""
    guards = guards or [TRUE] * len(results)
    pairs = zip(results, cotangents, guards, strict=True)
    return [None if c is None else Guarded(g, Read(c, identity(r.shape))) for r, c, g in pairs]


def relevance(results: Sequence[Array], count: int, wanted: Sequence[Array]) -> list[Element]:
    """Where each of `results` matters to the derivative of the first `count` of them.

    A saved temporary that is read only under a guard matters only there. Its derivative need not exist
    elsewhere, and its cotangent is zero there.
    """
    first = [r if k < count and is_float(r.dtype) else None for k, r in enumerate(results)]
    totals = _totals(results, _seeds(results, first), wanted)
    return [TRUE if k < count or r not in totals else totals[r].guard for k, r in enumerate(results)]


def pulled(
    results: Sequence[Array],
    cotangents: Sequence[Guarded | None],
    wanted: Sequence[Array],
    unsafe: Collection[Array],
    puts: Mapping[Array, Put] = NO_PUTS,
) -> list[Guarded | None]:
    """The cotangent of each array in `wanted`, with its guard; None where it is known to be zero.

    Behind inputs that are `unsafe`, a zero may meet an infinite derivative. `puts` are arrays as what they
    store in the arrays that they read.
    """
    totals = _totals(results, cotangents, wanted, unsafe, puts)
    return [totals.get(a) for a in wanted]


def _totals(
    results: Sequence[Array],
    cotangents: Sequence[Guarded | None],
    wanted: Sequence[Array],
    unsafe: Collection[Array] = (),
    puts: Mapping[Array, Put] = NO_PUTS,
) -> dict[Array, Guarded]:
    """The cotangent of every array that a cotangent reaches."""
    order = arrays_of(results)
    puts = {**puts, **{a: a for a in order if isinstance(a, Put)}}
    stored = {*puts, *(put.base for put in puts.values())}
    active = active_arrays(order, wanted)
    pending: dict[Array, list[Guarded]] = defaultdict(list)
    for result, cotangent in zip(results, cotangents, strict=True):
        if cotangent is not None and result in active:
            pending[result].append(cotangent)
    totals: dict[Array, Guarded] = {}
    first = {a.loop: a for a in reversed(order) if isinstance(a, Item)}
    linear = linear_arrays(order, active, unsafe)
    zeros = zeros_of(order, active, set(unsafe)) if first else None
    for array in reversed(order):
        if pending[array]:
            if array in stored:
                total = _chain(array, pending[array])
            else:
                total = _shortened(Guarded(*sum_of(pending[array])), array, active, linear)
            totals[array] = total
            gathered(total, [c.value for c in pending[array]], array)
        if isinstance(array, Item) and first[array.loop] is array:
            # All cotangents of the loop's results are complete: their readers come later in `order`.
            items = [totals.get(a) for a in array.loop.items]
            if any(t is not None for t in items):
                assert zeros is not None
                for target, contribution in reverse(array.loop, items, active, zeros, pulled):
                    pending[target].append(contribution)
                    made = read_by((contribution.value,))
                    derived([i for a in made for i in (a.loop.items if isinstance(a, Item) else (a,))], array)
        elif pending[array] and isinstance(array, Ruled):
            for target, part in reverse_ruled(array, total, active):
                pending[target].append(part)
        elif pending[array] and isinstance(array, Call):
            for target, part in pull(array, total, active):
                pending[target].append(part)
                derived(part, array)
        elif pending[array] and not isinstance(array, Input | Item):
            put = puts.get(array)
            if put is not None:
                whole = closed(array.shape, total.value)
                if put.base in active:
                    pending[put.base].append(Guarded(TRUE, element_of(_before(put, whole))))
                shared = Guarded(total.guard, element_of(whole))
            else:
                shared = Guarded(total.guard, _shared(array.shape, total.value))
            for target, value in _Body(put or array, shared, active, linear, stored).pull():
                pending[target].append(value)
                derived(value, array)
    return totals


def _shortened(total: Guarded, array: Array, active: set[Array], linear: set[Array]) -> Guarded:
    """The total cotangent of an array with a guard of few elements, if the array reads several places: each
    would repeat a longer one, so that guards of one stencil after another grew as a power."""
    guard, value = total
    if len(elements_of((guard,))) <= MOST_GUARD_ELEMENTS or not _reads_neighbours(array, active):
        return total
    value = mask(value, guard)
    if array in linear:  # zeros do no harm there
        return Guarded(TRUE, value)
    return Guarded(apply("greater", separate(select(guard, ONE, ZERO), array.shape), ZERO), value)


def _reads_neighbours(array: Array, active: set[Array]) -> bool:
    """Whether an array reads another one at several places that move with its own."""
    reads = (e for e in elements_of(array.elements) if isinstance(e, Read) and e.axes and e.array in active)
    places = Counter(e.array for e in reads)
    return max(places.values(), default=0) > 1


def _chain(array: Array, pending: Sequence[Guarded]) -> Guarded:
    """The cotangent of an array in which an iteration stores: what it is after the store, to which others are
    added one by one, in place."""
    wholes = [c for c in pending if c.guard is TRUE and _is_kept(read_whole(array.shape, c.value))]
    first = wholes[0] if wholes else None
    whole = zeros_like(array) if first is None else read_whole(array.shape, first.value)
    assert whole is not None
    for c in pending:
        if c is not first:
            whole = _plus(whole, c)
    return Guarded(TRUE, element_of(whole))


def _is_kept(array: Array | None) -> bool:
    """Whether what a cotangent is after stores, or what an iteration carries, is an array: no new one."""
    return isinstance(array, Put | Input | Item)


def _plus(whole: Array, c: Guarded) -> Array:
    """An array to which a contribution is added."""
    match c.value:
        case Read(array=Accumulate() as sums, args=args) if args == identity(whole.shape):
            guard: Element = TRUE
            body = sums.body
            while isinstance(body, Select) and is_const(body.otherwise, 0):
                guard, body = both(guard, body.guard), body.then
            return Put(whole, "add", sums.domain, sums.indices, guard, body)
    return Put(whole, "add", whole.shape, identity(whole.shape), c.guard, c.value)


def _before(put: Put, cotangent: Array) -> Array:
    """The cotangent of the array in which values are stored: what they replace has none."""
    if put.op == "add":
        return cotangent
    return Put(cotangent, "set", put.domain, put.indices, put.guard, const(0, put.dtype))


def _whole(total: Guarded | None, array: Array) -> Array | None:
    """The cotangent of an array as an array."""
    if total is None:
        return None
    made = closed(array.shape, mask(total.value, total.guard))
    gathered((made,), [total.value], array)
    return made


def _shared(shape: Shape, element: Element) -> Element:
    """`element` as a read of an array over only those axes of `shape` that it depends on."""
    if isinstance(element, Read | Const):
        return element
    return separate(element, shape)


def _holding(condition: Element, shape: Shape, lengths: Shape) -> Reduce:
    """Positive numbers where a condition holds at some point along more axes of these lengths."""
    return Reduce("max", shape, lengths, select(condition, ONE, neutral("max", "i64")))


def _of_transposed(read: Read) -> Read:
    """A read of a transpose as a read of the array that it transposes."""
    while isinstance(made := read.array, Map) and isinstance(made.body, Read):
        inner = made.body
        axes = [i.axis for i in inner.args if isinstance(i, Index)]
        lengths = tuple(made.shape[k] for k in axes)
        if sorted(axes) != list(range(made.rank)) or lengths != inner.array.shape:
            break
        read = Read(inner.array, tuple(read.args[k] for k in axes))
    return read


class _Body:
    """The chain rule inside one array, in the coordinates of its domain."""

    def __init__(
        self,
        array: Array,
        cotangent: Guarded,
        active: set[Array],
        linear: set[Array],
        stored: Set[Array] = frozenset(),
    ) -> None:
        self.array, self.cotangent, self.linear, self.stored_in = array, cotangent, linear, stored
        self.domain = array.domain
        # Along an axis of length 1 the index is 0, so that nothing depends on the axis.
        ones = {k: const(0, "i64") for k, n in enumerate(self.domain) if is_const(n, 1)}
        *self.indices, self.body = (substitute(e, ones) for e in array.elements)
        self.order = elements_of((self.body,))
        self.active: set[Element] = set()
        for e in self.order:
            reads = isinstance(e, Read) and e.array in active
            if reads or (differentiable(e) and any(a in self.active for a in e.args)):
                self.active.add(e)

    def pull(self) -> Iterable[tuple[Array, Guarded]]:
        """For each read of an active array its contribution, over that array's own axes."""
        scope = frozenset(k for k, n in enumerate(self.domain) if not is_const(n, 1))
        pending: dict[Element, list[Contribution]] = defaultdict(list)
        guard, seed = self.seed()
        pending[self.body].append(Contribution(guard, scope, seed))
        for element in reversed(self.order):
            if element not in self.active:
                continue
            for contribution in self.merged(pending.pop(element, []), element):
                if isinstance(element, Read):
                    read = _of_transposed(element)
                    yield read.array, self.write(read, contribution)
                else:
                    for arg, passed in self.through(element, contribution):
                        pending[arg].append(passed)

    def seed(self) -> Guarded:
        """The cotangent of the body at each point of the domain."""
        guard, cotangent = self.cotangent
        match self.array:
            case Accumulate():
                moved = dict(enumerate(self.indices))
                return Guarded(substitute(guard, moved), substitute(cotangent, moved))
            case Put():
                *indices, inside = self.indices
                moved = dict(enumerate(indices))
                return Guarded(within(inside, substitute(guard, moved)), substitute(cotangent, moved))
            case Reduce(op="min" | "max") as array:
                attains, count = attaining(array, self.body)
                return Guarded(both(guard, attains), apply("divide", cotangent, count))
            case Reduce() as array if (rate := factor(array, self.body)) is not None:
                return Guarded(guard, apply("multiply", cotangent, rate))
        return self.cotangent

    def value(self, element: Element) -> Element:
        """The value of `element` in a partial derivative: for the body of a map, a read of the map itself.

        A body that varies along fewer axes than the map is used as it is: the cotangent has been summed over
        the others, so they are not in scope.
        """
        whole = Read(self.array, identity(self.array.shape))
        if element is self.body and isinstance(self.array, Map) and element.axes == whole.axes:
            return whole
        return element

    def through(self, element: Element, passed: Contribution) -> Iterable[tuple[Element, Contribution]]:
        """The cotangents that an operation passes to its active arguments."""
        guard, scope, value = passed
        if isinstance(element, Select):
            then, otherwise = both(guard, element.guard), both(guard, negation(element.guard))
            derived((value, then, otherwise), element, self.array)
            yield element.then, Contribution(then, scope, value)
            yield element.otherwise, Contribution(otherwise, scope, value)
            return
        assert isinstance(element, Apply)
        for k, arg in enumerate(element.args):
            if arg in self.active:
                product = times(value, partial(element, k, self.value(element)))
                where = None if product is None else support(product)
                derived(() if product is None else (product,), element, self.array, argument=k)
                if product is not None and where is not None:
                    yield arg, Contribution(within(guard, where), scope, cast(product, arg.dtype))

    def merged(self, pending: list[Contribution], element: Element) -> list[Contribution]:
        """Contributions to one element, summed over the axes on which neither it nor a guard depends.

        They become one contribution under the union of their guards. They stay separate if that guard would
        depend on an axis over which one of them has been summed already.
        """
        if not pending:
            return []
        pending = [Contribution(g, *c) for g, c in joined([(c.guard, (c.scope, c.value)) for c in pending])]
        guard = either(c.guard for c in pending)
        scope = element.axes | guard.axes
        if self.leaves(element, guard) and all(scope <= c.scope for c in pending):
            return [self.outside(guard, pending, element)]
        if all(scope <= c.scope for c in pending):
            groups = [(guard, pending)]
        else:
            by_guard: dict[Element, list[Contribution]] = defaultdict(list)
            for c in pending:
                by_guard[c.guard].append(c)
            groups = list(by_guard.items())
        return [self.gathered(guard, group, element) for guard, group in groups]

    def leaves(self, element: Element, guard: Element) -> bool:
        """Whether contributions are summed over axes of their guard before they pass an element: if it has
        axes that the guard lacks, it takes less time to find out where the guard holds at all."""
        sides = guard.axes - element.axes, element.axes - guard.axes
        are_long = (any(not is_short(self.domain[k]) for k in side) for side in sides)
        return not isinstance(element, Read) and all(are_long)

    def outside(self, guard: Element, pending: list[Contribution], element: Element) -> Contribution:
        """The sum of contributions over all axes on which an element does not depend."""
        total = self.gathered(TRUE, pending, element)
        kept, gone = sorted(guard.axes & element.axes), sorted(guard.axes - element.axes)
        holds = _holding(self.renamed(guard, (*kept, *gone)), self.sizes(kept), self.sizes(gone))
        anywhere = Read(holds, tuple(map(Index, kept)))
        return total._replace(guard=apply("greater", anywhere, ZERO))

    def gathered(self, guard: Element, group: list[Contribution], element: Element) -> Contribution:
        """The sum of a group under `guard`: first within each scope, then over axes."""
        scope = element.axes | guard.axes
        by_scope: dict[Scope, list[tuple[Element, Element]]] = defaultdict(list)
        for c in group:
            by_scope[c.scope].append((c.guard, c.value))
        terms = [self.summed(masked_sum(parts, guard), made, scope) for made, parts in by_scope.items()]
        total = plus(terms)
        of = element.array if isinstance(element, Read) else element
        gathered((total,), [c.value for c in group], of)
        return Contribution(guard, scope, total)

    def summed(self, value: Element, made: Scope, scope: Scope) -> Element:
        """`value`, made in scope `made`, summed over the axes outside `scope`."""
        kept, gone = sorted(scope), sorted(made - scope)
        if not gone:
            return value
        body = self.renamed(value, (*kept, *gone))
        array = Reduce("sum", self.sizes(kept), self.sizes(gone), body)
        return Read(array, tuple(Index(k) for k in kept))

    def sizes(self, axes: Sequence[int]) -> Shape:
        return tuple(self.domain[k] for k in axes)

    def renamed(self, value: Element, axes: Sequence[int]) -> Element:
        """`value` with the axis `axes[p]` of the domain called p."""
        return substitute(value, {k: Index(p) for p, k in enumerate(axes)})

    def write(self, read: Read, contribution: Contribution) -> Guarded:
        """The contribution of a read to its array's cotangent, over that array's axes."""
        guard, scope, value = contribution
        shape = read.array.shape
        inverse = None if read.array in self.stored_in else invert(read, self.domain, scope, guard)
        if inverse is None:
            points = sorted(scope)
            indices = tuple(self.renamed(i, points) for i in read.args)

            def written(element: Element) -> Element:
                body = self.renamed(element, points)
                return Read(Accumulate(shape, self.sizes(points), indices, body), identity(shape))

            def added(condition: Element) -> Element:
                return written(select(condition, ONE, ZERO))

            return Guarded(self.anywhere(read, guard, added), written(mask(value, guard)))
        places, free, gone = inverse.places, inverse.free, sorted(inverse.free)
        is_whole = inverse.lengths == self.sizes(gone)
        if any(map(is_digit, places.values())):
            value = self.stored(value, scope, scope)
        elif gone and is_whole:
            summed = frozenset(axis for place in free.values() for axis in place.axes)
            varied = frozenset(k for k, place in (places | free).items() if place.axes & summed)
            value = self.stored(value, scope, varied)
        if guard.axes <= places.keys() and inverse.inside is TRUE:
            guard = substitute(guard, places)
        else:
            value = mask(value, guard)

            def any_of(element: Element) -> Element:
                holds = both(inverse.inside, substitute(element, places | free))
                return Read(_holding(holds, shape, inverse.lengths), identity(shape))

            is_everywhere = is_whole and inverse.inside is TRUE
            there = pinned(guard, {k: self.domain[k] for k in gone}) if is_everywhere else None
            if there is None or read.array in self.linear:
                guard = self.anywhere(read, guard, any_of)
            else:
                guard = substitute(there, places)
        body = mask(substitute(value, places | free), inverse.inside)
        if gone:
            body = Read(Reduce("sum", shape, inverse.lengths, body), identity(shape))
        return Guarded(inverse.guard if guard is TRUE else both(inverse.guard, guard), body)

    def stored(self, value: Element, scope: Scope, varied: Scope) -> Element:
        """A value that each point of an array adds up, with the costly parts that are the same at several
        points of `scope` as arrays: they would be computed for each pair of points. Those that no `varied`
        axis changes are the same in the whole sum."""
        known: dict[Element, bool] = {}

        def is_part(element: Element) -> bool:
            fewer = bool(element.axes & varied) and element.axes < scope
            return fewer and is_float(element.dtype) and costly(element, known)

        parts = [e for e in postorder((value,), lambda e: () if is_part(e) else e.args) if is_part(e)]
        made = {e: separate(e, self.domain) for e in parts if not isinstance(e, Read)}
        return rewrite((value,), lambda e: e, dict(made))[0] if made else value

    def anywhere(self, read: Read, guard: Element, gather: Callable[[Element], Element]) -> Element:
        """Where the guard holds at any of the points that read an element: where `gather` of it is positive.

        A temporary that no taken branch reads must contribute no derivative: its own may be infinite.
        """
        if guard is TRUE or read.array in self.linear:
            return TRUE
        return apply("greater", gather(guard), ZERO)
