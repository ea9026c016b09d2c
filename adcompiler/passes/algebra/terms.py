"""Common subexpressions modulo associativity and commutativity: (a b) c is (a c) b, and like terms are
merged.

Every value is a number times a core. Numbers are moved out of products, out of the terms of sums and out of
sums over axes, where they cost nothing: 2 x y + 2 (y x) becomes 4 (x y). The terms a z - b z become one
multiplication, (a - b) z. A sum of c x(i) is c times the sum of x(i), if the program has that sum.

This finds repeated terms in second derivatives, and keeps careful user code intact:

- no product is formed that the program does not compute somewhere, except for a leading number: of several
  orders of the same factors the first is taken, and factors that occur in only one order keep it;
- terms of opposite signs never cancel, and a sum with such a pair is not split: code that computes the
  rounding error of a sum looks like this;
- no division is introduced. If a and b are both infinite, the value was and is NaN; if only z is infinite,
  (a - b) z is infinite where a z - b z was NaN.

A program that does not become cheaper is not changed. Sums and products change by rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from functools import reduce as fold_left
from typing import TypeGuard

from adcompiler.ad.guards import TRUE
from adcompiler.analysis.loop_order import loop_order
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Func,
    Map,
    Read,
    Reduce,
    Select,
    const,
    identity,
    is_const,
    neutral,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, arrays_of, elements_of, substitute
from adcompiler.ops.build import apply
from adcompiler.ops.costs import NOMINAL_LENGTH, nanoseconds
from adcompiler.passes.algebra.factor import of_some
from adcompiler.passes.algebra.strict import StrictRewriter
from adcompiler.passes.limits import LARGEST_NUMBER, MOST_FACTORS

Scaled = tuple[float, Element]  # a number, and the core it multiplies


def terms(func: Func) -> Func:
    """The program with equal products and like terms merged, if that makes it cheaper."""
    made = _Terms(func.roots).func(func)
    return made if _time(made.roots) < _time(func.roots) else func


def _time(roots: Iterable[Array]) -> float:
    """The nominal time of all elements, each computed once in the loops of its axes."""
    time = 0.0
    seen: set[object] = set()
    for array in arrays_of(roots):
        if isinstance(array, Item) and array.loop not in seen:
            seen.add(array.loop)
            time += _time(array.loop.roots)
        for element in elements_of(array.elements):
            if isinstance(element, Apply) and (array.domain, element) not in seen:
                seen.add((array.domain, element))
                long = sum(not isinstance(array.domain[k], Const) for k in element.axes)
                time += nanoseconds(element) * float(NOMINAL_LENGTH) ** long
    return time


class _Terms(StrictRewriter):
    def __init__(self, roots: Iterable[Array]) -> None:
        super().__init__(roots)
        self.scaled: dict[Element, Scaled] = {}  # elements that are a number times a core
        self.factors: dict[Element, tuple[Element, ...]] = {}  # the factors of cores that are products
        self.products: dict[frozenset[tuple[Element, int]], Element] = {}  # by their factors
        self.addends: dict[Element, tuple[Scaled, ...]] = {}  # the terms of cores that are sums
        self.sums: set[Array] = set()
        self.drawn: set[Array] = set()  # maps that multiply a sum over axes by factors moved out of it

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        """Each body is judged separately, because other programs have the same body in other contexts."""
        cheaper = _time(type(self)(loop.roots).run(loop.roots)) < _time(loop.roots)
        return super().inner(loop) if cheaper else None

    def array(self, array: Array) -> Array:
        if not isinstance(array, Reduce) or array.op != "sum" or not is_float(array.dtype):
            return array
        signed, core = self.split(array.body)
        known = self.known(array, core)
        number, core = self.positive(array.body)
        if known is not None:
            sign, value = known
            made = Map(array.shape, self.times(signed * sign, value))
        elif number == 1 or any(k >= array.rank for k in loop_order(array)[: array.rank]):
            self.sums.add(array)  # an extra map would read and write a sum that is not in a register
            return array
        else:
            total = Reduce("sum", array.shape, array.reduced, core)
            self.sums.add(total)
            made = Map(array.shape, self.times(number, Read(total, identity(array.shape))))
        self.drawn.add(made)
        return made

    def known(self, array: Reduce, core: Element) -> Scaled | None:
        """A sum as a number and an existing sum times factors, and divided by others, that do not depend on
        the reduced axes."""
        reduced = set(range(array.rank, len(array.domain)))
        guard: Element = TRUE
        sign, inside = 1.0, core
        if isinstance(core, Select) and is_const(core.otherwise, 0):
            guard, (sign, inside) = core.guard, self.split(core.then)
        factors, divisors = list(self.factors_of(inside)), list[Element]()
        while True:
            same = [f for f in factors if not f.axes & reduced]
            own = [f for f in factors if f.axes & reduced]
            if (same or divisors) and (other := self.known_sum(array, guard, own)) is not None:
                break
            fraction = next((f for f in own if _is_divided(f, reduced)), None)
            if fraction is None:
                return None
            factors.remove(fraction)
            factors += self.factors_of(fraction.args[0])
            divisors.append(fraction.args[1])
        made = fold_left(self.multiplied, [*same, Read(other, identity(array.shape))])
        for divisor in reversed(divisors):
            made = apply("divide", made, divisor)
        return sign, of_some(made, array.reduced) if guard is TRUE else _where_some(array, guard, made)

    def known_sum(self, array: Reduce, guard: Element, factors: Sequence[Element]) -> Reduce | None:
        """The sum of a product where a guard holds, if the program has it."""
        body = self.known_product(Counter(factors))
        if body is None:
            return None
        body = body if guard is TRUE else select(guard, body, const(0, array.dtype))
        total = Reduce("sum", array.shape, array.reduced, body)
        return total if total in self.sums else None

    def element(self, element: Element) -> Element:
        if not is_float(element.dtype):
            return element
        match element:
            case Read(array=Map(body=body) as array, args=indices) if array in self.drawn:
                number, core = self.split(body)
                return self.times(number, substitute(core, dict(enumerate(indices))))
            case Apply(op="negative", args=(x,)):
                number, core = self.split(x)
                return self.times(-number, core)
            case Apply(op="multiply", args=(x, y)):
                return self.product(element, x, y)
            case Apply(op="divide", args=(x, y)) if not isinstance(x, Const):
                number, core = self.split(x)
                return self.times(number, apply("divide", core, y))
            case Apply(op="add" | "subtract" as op, args=(x, y)):
                (one, first), (other, second) = self.split(x), self.split(y)
                return self.total((one, first), (other if op == "add" else -other, second))
            case Select(args=(guard, then, otherwise)) if is_const(otherwise, 0):
                number, core = self.positive(then)
                return self.times(number, select(guard, core, otherwise))
        return element

    # -- numbers -------------------------------------------------------------------------------

    def split(self, element: Element) -> Scaled:
        """An element as a number times a core."""
        return self.scaled.get(element, (1.0, element))

    def positive(self, element: Element) -> Scaled:
        """Split an element into a positive number and the rest, so that zeros keep their sign."""
        number, core = self.split(element)
        return abs(number), core if number > 0 else self.times(-1, core)

    def times(self, number: float, core: Element) -> Element:
        """A number times a core, as an element."""
        if number == 1:
            return core
        made = apply("negative", core) if number == -1 else apply("multiply", const(number, core.dtype), core)
        self.scaled[made] = number, core
        return made

    # -- products ------------------------------------------------------------------------------

    def product(self, element: Element, x: Element, y: Element) -> Element:
        """The product of two elements: one element for all orders of the same factors."""
        for one, other in ((x, y), (y, x)):
            if _is_number(one):
                number, core = self.split(other)
                number *= float(one.value)
                return self.times(number, core) if _in_range(number) else element
        (one_number, first), (other_number, second) = self.split(x), self.split(y)
        number = one_number * other_number
        if not _in_range(number):
            return element
        return self.times(number, self.multiplied(first, second))

    def multiplied(self, x: Element, y: Element) -> Element:
        """The product of the factors of two cores, in the form first seen."""
        made = apply("multiply", x, y)
        found = self.factors_of(x) + self.factors_of(y)
        if len(found) > MOST_FACTORS:
            return made
        made = self.products.setdefault(frozenset(Counter(found).items()), made)
        self.factors.setdefault(made, found)
        return made

    def factors_of(self, core: Element) -> tuple[Element, ...]:
        return self.factors.get(core, (core,))

    # -- sums ----------------------------------------------------------------------------------

    def total(self, x: Scaled, y: Scaled) -> Element:
        """The sum of two terms, which may be sums themselves."""
        found = (*self.addends_of(x), *self.addends_of(y))
        if len(found) > MOST_FACTORS:
            return self.plain(x, y)
        signs: dict[Element, float] = {}
        for number, core in found:
            if signs.setdefault(core, number) * number < 0:
                return self.plain(x, y)
        numbers: dict[Element, float] = {}
        for number, core in found:
            numbers[core] = numbers.get(core, 0.0) + number
        if not all(map(_in_range, numbers.values())):
            return self.plain(x, y)
        together = self.factored([(number, core) for core, number in numbers.items()])
        if len(together) == len(found):
            made = self.plain(x, y)
            number, core = self.split(made)
            self.addends[core] = tuple((n / number, c) for n, c in found)
            return made
        return self.added(together)

    def addends_of(self, term: Scaled) -> tuple[Scaled, ...]:
        """The terms of a number times a core."""
        number, core = term
        if core not in self.addends:
            return (term,)
        return tuple((number * n, c) for n, c in self.addends[core])

    def plain(self, x: Scaled, y: Scaled) -> Element:
        """The sum of two terms in their order, with their common number factored out."""
        least = _common((x, y))
        (one, first), (other, second) = sorted(((n / least, c) for n, c in (x, y)), key=lambda t: t[0] < 0)
        made = apply(
            "subtract" if other < 0 else "add", self.times(one, first), self.times(abs(other), second)
        )
        return self.times(least, made)

    def factored(self, found: Sequence[Scaled]) -> list[Scaled]:
        """Replace each a z - b z by (a - b) z, if the program has the product z."""
        rest: list[Scaled] = []
        for number, core in found:
            for k, (other, before) in enumerate(rest):
                if other == -number and (made := self.difference(before, core)) is not None:
                    rest[k] = other, made
                    break
            else:
                rest.append((number, core))
        return rest

    def difference(self, x: Element, y: Element) -> Element | None:
        """x - y as a product, if all their factors but one each are equal."""
        one, other = Counter(self.factors_of(x)), Counter(self.factors_of(y))
        common = one & other
        a, b = list((one - common).elements()), list((other - common).elements())
        if not common or len(a) != 1 or len(b) != 1:
            return None
        z = self.known_product(common)
        return None if z is None else self.multiplied(apply("subtract", a[0], b[0]), z)

    def known_product(self, factors: Counter[Element]) -> Element | None:
        """The product of some factors, if the program has it."""
        if factors.total() == 1:
            return next(iter(factors))
        return self.products.get(frozenset(factors.items()))

    def added(self, found: Sequence[Scaled]) -> Element:
        """The sum of terms in their order, a positive one first, with a common number factored out."""
        least = _common(found)
        start = next(k for k, (number, _) in enumerate(found) if number / least > 0)
        ordered = [found[start], *found[:start], *found[start + 1 :]]
        (number, core), *others = [(number / least, core) for number, core in ordered]
        made = self.times(number, core)
        for number, core in others:
            made = apply("add" if number > 0 else "subtract", made, self.times(abs(number), core))
        if others:
            self.addends[made] = tuple((number / least, core) for number, core in ordered)
        number, core = self.split(made)
        return self.times(least * number, core)


def _is_divided(element: Element, reduced: Set[int]) -> bool:
    """Whether an element is a quotient by a number that does not depend on the reduced axes."""
    return isinstance(element, Apply) and element.op == "divide" and not element.args[1].axes & reduced


def _where_some(array: Reduce, guard: Element, made: Element) -> Element:
    """An element where a guard holds at some reduced point, else 0: its factors may be infinite."""
    one, least = const(1, "i64"), neutral("max", "i64")
    holds = Reduce("max", array.shape, array.reduced, select(guard, one, least))
    some = apply("greater", Read(holds, identity(array.shape)), const(0, "i64"))
    return select(some, made, const(0, made.dtype))


def _common(found: Sequence[Scaled]) -> float:
    """The number to factor out of a sum of terms; it leaves integers, not all of them negative."""
    least = min(abs(number) for number, _ in found)
    if not all((number / least).is_integer() for number, _ in found):
        least = 1.0
    return -least if all(number < 0 for number, _ in found) else least


def _is_number(element: Element) -> TypeGuard[Const]:
    return isinstance(element, Const) and _in_range(float(element.value))


def _in_range(number: float) -> bool:
    return 1 / LARGEST_NUMBER <= abs(number) <= LARGEST_NUMBER
