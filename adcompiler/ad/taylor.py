"""Taylor mode: all derivatives of t ↦ f(x + t v) at 0 up to an order, program to program.

For each array and element u along the line, u', u'', ... are computed in order. One rule serves every
primitive r = p(a, b, ...) of the rule table, using its partial derivatives p_a, p_b, ...:

    r' = sum over a of a' p_a,   so   r^(k) = sum over a, j of C(k-1, j-1) a^(j) p_a^(k-j)

A partial derivative is computed from the arguments and r itself, whose lower derivatives are known: exp gives
the recurrence of exp, sine and cosine that of the pair. Order k costs k^2 products; nested forward mode takes
2^k. Products and quotients have their own rule (Leibniz's), which is half as long. Derivatives carry guards
as tangents do (jvp.py). A loop carries the derivatives of its carried values, by the same rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from math import comb

from adcompiler.ad.custom_rules import forward as forward_ruled
from adcompiler.ad.guards import TRUE, Tangent, mask, masked, support, total, within
from adcompiler.ad.jvp import gathered, read, selected, somewhere, stored
from adcompiler.ad.library import push as pushed_call
from adcompiler.ad.loops import Orders, forward
from adcompiler.ad.partials import active_arrays, differentiable, partial, times
from adcompiler.ad.products import factor
from adcompiler.ad.singular import exposed_arrays
from adcompiler.ad.vjp import pulled
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Call,
    Const,
    Element,
    Input,
    Map,
    Put,
    Read,
    Reduce,
    Select,
    const,
    element_of,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import DTYPES
from adcompiler.ir.walk import arrays_of
from adcompiler.ops.build import apply, cast

Wanted = tuple[Element, int]
Steps = Generator[Wanted, Tangent | None, Tangent | None]


def taylor(
    results: Sequence[Array], directions: Mapping[Array, Array], order: int
) -> list[list[Array | None]]:
    """The derivatives of each result from the first to `order`, along fixed directions of some arrays.

    None means zero. A direction has its array's shape and dtype.
    """
    line = _Line(directions)
    line.reach(results, order)
    found = []
    for r in results:
        tangents = [line.arrays[r][k] if r in line.arrays else None for k in range(order)]
        found.append([None if t is None else masked(t, r) for t in tangents])
    return found


class _Line:
    """The derivatives of arrays along a line: `arrays[a][k - 1]` is that of order k, None for zero."""

    def __init__(self, directions: Mapping[Array, Array]) -> None:
        self.given = set(directions)
        self.arrays: dict[Array, list[Tangent | None]] = {
            a: [Tangent(TRUE, d)] for a, d in directions.items()
        }
        self.elements: dict[Array, dict[Wanted, Tangent | None]] = defaultdict(dict)
        self.loops: set[Loop] = set()
        self.exposed: set[Array] = set()  # arrays whose derivatives may meet infinite ones

    def reach(self, results: Sequence[Array], order: int, exposed: bool = False) -> None:
        """Find the derivatives of all arrays below `results` up to `order`."""
        arrays = arrays_of(results)
        active = active_arrays(arrays, list(self.given))
        self.exposed |= exposed_arrays(arrays, active, results if exposed else ())
        for array in arrays:
            found = self.arrays.setdefault(array, [])
            if isinstance(array, Item) and array not in self.given:
                self.loop(array.loop, order)
            while len(found) < order:
                found.append(None)  # zero for a use inside its own computation, which would recurse
                if array not in self.given and not isinstance(array, Input | Item):
                    found[-1] = self.array(array, len(found))

    def array(self, array: Array, k: int) -> Tangent | None:
        """The derivative of order k of an array."""
        if isinstance(array, Ruled | Call):
            return self.by_rule(array, k)
        body = array.elements[-1]
        if isinstance(array, Reduce) and (slope := factor(array, body)) is not None:
            found = self.run(array, self.chain([(body, slope)], k, body))
            if found is None:
                return None
            total = Reduce("sum", array.shape, array.reduced, mask(found.value, found.guard))
            return Tangent(self.guard(array, found), total)
        found = self.run(array, self.element(array, body, k))
        if isinstance(array, Put):
            base = self.arrays[array.base][k - 1]
            return stored(array, None if base is None else masked(base, array.base), found)
        if found is None:
            return None
        if isinstance(array, Map):
            return Tangent(found.guard, Map(array.shape, found.value))
        return Tangent(self.guard(array, found), gathered(array, body, mask(found.value, found.guard)))

    def guard(self, array: Array, found: Tangent) -> Element:
        """Where a derivative of a reduction is nonzero, as far as that matters."""
        return somewhere(array, found.guard) if array in self.exposed else TRUE

    def by_rule(self, array: Ruled | Call, k: int) -> Tangent | None:
        """The derivative of order k - 1 of the first derivative, which the array's own rule gives as an
        array."""
        ways = {a: t for a in array.operands if (t := self.arrays[a][0]) is not None}
        if isinstance(array, Call):
            slope = pushed_call(array, [ways.get(a) for a in array.operands])
        else:
            slope = forward_ruled(array, ways, pulled)
        if slope is None or k == 1:
            return slope
        whole = masked(slope, array)
        self.reach((whole,), k - 1)
        return self.arrays[whole][k - 2]

    def loop(self, loop: Loop, order: int) -> None:
        """The derivatives of a loop's results: a loop that carries the derivatives of its carried values."""
        if loop in self.loops and len(self.arrays[loop.items[0]]) >= order:
            return
        self.loops.add(loop)
        given = {a: self.arrays[a][:order] for a in loop.operands}
        is_exposed = not self.exposed.isdisjoint(loop.items)
        for item, found in zip(loop.items, forward(loop, given, order, _along, is_exposed), strict=True):
            self.arrays[item] = found

    # -- inside an array -----------------------------------------------------------------------------

    def run(self, array: Array, root: Steps) -> Tangent | None:
        """Run steps, which yield requests for derivatives of elements; results are cached."""
        known = self.elements[array]
        stack: list[tuple[Wanted | None, Steps]] = [(None, root)]
        value: Tangent | None = None
        while stack:
            key, steps = stack[-1]
            try:
                wanted = steps.send(value)
            except StopIteration as done:
                stack.pop()
                value = done.value
                if key is not None:
                    known[key] = value
                continue
            value = None
            if wanted in known:
                value = known[wanted]
            else:
                stack.append((wanted, self.element(array, *wanted)))
        return value

    def element(self, array: Array, element: Element, k: int) -> Steps:
        """The derivative of order k of an element in an array's domain."""
        match element:
            case Read():
                return self.read(element, k)
            case Select():
                return self.select(element, k)
            case Apply() if differentiable(element):
                body = isinstance(array, Map) and element is array.body
                return self.apply(element, k, element_of(array) if body else element)
        return self.zero()

    def zero(self) -> Steps:
        return None
        yield  # unreachable: it makes this a generator

    def read(self, element: Read, k: int) -> Steps:
        if len(self.arrays.get(element.array, ())) < k:
            self.reach((element.array,), k)
        tangent = self.arrays[element.array][k - 1]
        return None if tangent is None else read(tangent, element)
        yield

    def select(self, element: Select, k: int) -> Steps:
        found = {}
        for branch in (element.then, element.otherwise):
            made = yield branch, k
            if made is not None:
                found[branch] = made
        return selected(element, found)

    def apply(self, element: Apply, k: int, value: Element) -> Steps:
        if element.op in DTYPES:
            found = yield element.args[0], k
            return None if found is None else Tangent(found.guard, cast(found.value, element.dtype))
        if element.op == "multiply":
            x, y = element.args
            return (yield from (self.square(x, k) if x is y else self.product(x, y, k, range(k + 1))))
        if element.op == "divide":
            return (yield from self.quotient(element, k, value))
        slopes = [(a, partial(element, i, value)) for i, a in enumerate(element.args)]
        return (yield from self.chain(slopes, k, element))

    def order(self, element: Element, k: int) -> Steps:
        """The derivative of order k, where order 0 is the element itself."""
        return Tangent(TRUE, element) if k == 0 else (yield element, k)

    def product(self, x: Element, y: Element, k: int, orders: range) -> Steps:
        """The terms of (x y)^(k) with these orders of x."""
        parts = []
        for j in orders:
            a = yield from self.order(x, j)
            b = None if a is None else (yield from self.order(y, k - j))
            if a is not None and b is not None:
                parts.append(_product(comb(k, j), a, b))
        return _sum(parts)

    def square(self, x: Element, k: int) -> Steps:
        """(x x)^(k): each pair of orders once."""
        parts = []
        for j in range(k // 2 + 1):
            a = yield from self.order(x, j)
            b = None if a is None else (yield from self.order(x, k - j))
            if a is not None and b is not None:
                parts.append(_product(comb(k, j) * (1 if 2 * j == k else 2), a, b))
        return _sum(parts)

    def quotient(self, element: Apply, k: int, value: Element) -> Steps:
        """From x = r y: r^(k) = (x^(k) - the terms of (y r)^(k) without y r^(k)) / y."""
        x, y = element.args
        parts = []
        first = yield x, k
        if first is not None:
            parts.append(first)
        rest = yield from self.product(y, value, k, range(1, k + 1))
        if rest is not None:
            parts.append(Tangent(rest.guard, apply("negative", rest.value)))
        return _sum([Tangent(p.guard, apply("divide", p.value, y)) for p in parts])

    def chain(self, slopes: Sequence[tuple[Element, Element]], k: int, element: Element) -> Steps:
        """The sum over arguments a with partial derivatives p of (a' p)^(k - 1)."""
        parts = []
        for argument, slope in slopes:
            for j in range(k if isinstance(slope, Const) else 1, k + 1):
                a = yield argument, j
                if a is None:
                    continue
                way = Tangent(a.guard, cast(a.value, element.dtype))
                if j == k:
                    term = times(way.value, slope)
                    where = None if term is None else support(term)
                    if term is not None and where is not None:
                        parts.append(Tangent(within(where, way.guard), term))
                    continue
                p = yield slope, k - j
                if p is not None:
                    parts.append(_product(comb(k - 1, j - 1), way, p))
        return _sum(parts)


def _along(roots: Sequence[Array], given: Mapping[Array, Orders], exposed: bool) -> list[Orders]:
    """The derivatives of a body's roots, for those of its placeholders.

    The derivative of one placeholder is the next placeholder: rules differentiate arrays that read them.
    """
    (order,) = {len(orders) for orders in given.values()}
    line = _Line({})
    for place, orders in given.items():
        line.arrays[place] = orders
        line.arrays |= {t.value: orders[k:] for k, t in enumerate(orders, 1) if t is not None}
    line.given = set(line.arrays)
    line.reach(roots, order, exposed)
    return [line.arrays[r][:order] for r in roots]


def _product(count: int, a: Tangent, b: Tangent) -> Tangent:
    """`count` times a product, zero where either is."""
    guard = a.guard if a.guard is b.guard else within(a.guard, b.guard) if a.guard is not TRUE else b.guard
    product = times(a.value, b.value)
    value = const(0, a.value.dtype) if product is None else product
    return Tangent(guard, value if count == 1 else apply("multiply", const(count, value.dtype), value))


def _sum(parts: Sequence[Tangent]) -> Tangent | None:
    return Tangent(*total(parts)) if parts else None
