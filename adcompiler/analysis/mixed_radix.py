"""Places on several axes at once, as numbers of several digits.

Element (i, j) of rows of m elements is element i * m + j of all rows; i and j are its digits. Element p of
all rows is (p // m, p % m). Lengths are products of factors, so a group of axes is read as another one
without a division where digits of one are digits of the other, as in reshape(x, (n, m)) of x: [n, a, b] with
m = a * b.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial, reduce
from typing import NamedTuple

from adcompiler.analysis.limits import MOST_TERMS
from adcompiler.ir.nodes import Apply, Const, Element, Index, Shape, const, is_const
from adcompiler.ir.walk import operands, rewrite
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

ZERO, ONE = const(0, "i64"), const(1, "i64")


@dataclass(frozen=True, slots=True)
class Product:
    """A length as the product of a number and of powers of other lengths."""

    number: int
    powers: Mapping[Element, int]

    def __mul__(self, other: Product) -> Product:
        powers = dict(self.powers)
        for factor, power in other.powers.items():
            powers[factor] = powers.get(factor, 0) + power
        return Product(self.number * other.number, powers)

    def over(self, other: Product) -> Product | None:
        """The quotient, if it is a product too."""
        powers = dict(self.powers)
        for factor, power in other.powers.items():
            powers[factor] = powers.get(factor, 0) - power
        if not other.number or self.number % other.number or any(p < 0 for p in powers.values()):
            return None
        return Product(self.number // other.number, {f: p for f, p in powers.items() if p})

    def element(self) -> Element:
        """The product as an element."""
        parts = [f for f, power in self.powers.items() for _ in range(power)]
        if self.number != 1 or not parts:
            parts.insert(0, const(self.number, "i64"))
        return reduce(partial(apply, "multiply"), parts)


UNIT = Product(1, {})
Factors = Mapping[Element, Product]  # of lengths that are known to be products


def product_of(length: Element, known: Factors | None = None) -> Product:
    """A length as a product. Where the axis has points, max(n, 0) is n."""
    found = UNIT
    factors = operands(length, "multiply")
    for factor in factors:
        match factor:
            case Const(value=value):
                found *= Product(int(value), {})
            case Apply(op="maximum", args=(x, zero)) if is_const(zero, 0):
                factors += operands(x, "multiply")
            case _:
                found *= in_factors(Product(1, {factor: 1}), known)
    return found


def in_factors(total: Product, known: Factors | None) -> Product:
    """A product with lengths that are known to be products as such."""
    if not known or known.keys().isdisjoint(total.powers):
        return total
    parts = (known.get(f, Product(1, {f: 1})) for f, power in total.powers.items() for _ in range(power))
    return reduce(Product.__mul__, parts, Product(total.number, {}))


def exact_quotients(one: Shape, other: Shape) -> Factors:
    """The lengths that quotients divide without a remainder, as products, if two shapes have the same number
    of elements and that is not zero.

    In (n, 4, d // 4) there are at most n * d elements, and as many as in (n, d) only if 4 divides d. The
    quotients are clamped, since it is not evident from d that they are not zero.
    """
    totals = [reduce(Product.__mul__, map(product_of, shape), UNIT) for shape in (one, other)]
    found: dict[Element, Product] = {}
    for factor in (*totals[0].powers, *totals[1].powers):
        match factor:
            case Apply(op="floor_divide", args=(x, y)) if x not in found:
                found[factor] = Product(1, {apply("maximum", factor, ONE): 1})
                found[x] = found[factor] * product_of(y)
    wholes = [{f for f in total.powers if f in found and not _is_quotient(f)} for total in totals]
    if not found or all(wholes) or in_factors(totals[0], found) != in_factors(totals[1], found):
        return {}
    return found


def is_digit(place: Element) -> bool:
    """Whether a place is a quotient or remainder."""
    return isinstance(place, Apply) and place.op in ("floor_divide", "remainder")


def _is_quotient(length: Element) -> bool:
    return isinstance(length, Apply) and length.op == "floor_divide"


def is_within(total: Product, whole: Product, nonzero: Collection[Element]) -> bool:
    """Whether a product is no greater than another one, as 4 * (n // 4) and n, where some lengths are not
    zero."""
    for factor in total.powers:
        inner = _clamped(factor)
        match inner if inner in nonzero else factor:
            case Apply(op="floor_divide", args=(x, y)):
                rest = total.over(Product(1, {factor: 1}) * product_of(y))
                if rest is not None and rest * product_of(x) == whole:
                    return True
    return total == whole


class Digit(NamedTuple):
    """A digit, and the number of its values; None if that is unknown."""

    place: Element
    length: Product | None


def number(digits: Sequence[Digit]) -> Element:
    """The number of these digits, the highest first. x // m and x % m are x."""
    parts: list[Digit] = []
    for digit in digits:
        parts.append(digit)
        while len(parts) > 1 and (whole := _joined(*parts[-2:])) is not None:
            parts[-2:] = [whole]
    made: Element | None = None
    for place, length in parts:
        if made is None:
            made = place
        elif length != UNIT:
            assert length is not None
            above = apply("multiply", made, length.element())
            made = place if is_const(made, 0) else above if is_const(place, 0) else apply("add", above, place)
    return ZERO if made is None else made


def _joined(high: Digit, low: Digit) -> Digit | None:
    """Two digits as one, if they are the quotient and the remainder of a number."""
    match low.place, high.place:
        case Apply(op="remainder", args=(x, m)), Apply(op="floor_divide", args=(y, n)) if x is y and m is n:
            return Digit(x, None if high.length is None or low.length is None else high.length * low.length)
    return None


def take(digits: list[Digit], length: Product) -> Element | None:
    """Remove the lowest digits, of which there are `length` values, and return their number; None if some of
    the digits have neither a factor of the values nor a multiple."""
    taken: list[Digit] = []
    while length != UNIT:
        if not digits:
            return None
        place, own = digits[-1]
        if own is None:
            return None
        if (rest := length.over(own)) is not None:
            taken.append(digits.pop())
            length = rest
        elif (above := own.over(length)) is not None:
            by = length.element()
            digits[-1] = Digit(apply("floor_divide", place, by), above)
            taken.append(Digit(apply("remainder", place, by), length))
            break
        else:
            return None
    return number(taken[::-1])


def _clamped(length: Element) -> Element | None:
    """n, for max(n, 1)."""
    match length:
        case Apply(op="maximum", args=(x, one)) if is_const(one, 1):
            return x
    return None


class Domain:
    """The places that are read at the points of a domain. Some lengths are `known` to be products; what is
    read has as many points, in the shape `other`."""

    def __init__(self, shape: Shape, known: Factors | None = None, other: Shape = ()) -> None:
        # Where there is a point, no factor of a length is zero.
        self.nonzero = {f for n in (*shape, *other) for f in product_of(n).powers}
        self.known = known or {}
        self.lengths = [self.product(n) for n in shape]

    def product(self, length: Element) -> Product:
        """A length as a product. Quotients that are not zero are clamped, as they are where that is not
        evident; other lengths are not."""
        found = UNIT
        for factor, power in product_of(length).powers.items():
            inner = _clamped(factor)
            if inner is not None and not _is_quotient(inner) and self.is_positive(product_of(inner)):
                factor = inner
            elif _is_quotient(factor) and factor in self.nonzero:
                factor = apply("maximum", factor, ONE)
            for _ in range(power):
                found *= in_factors(Product(1, {factor: 1}), self.known)
        return Product(found.number * product_of(length).number, found.powers)

    def is_positive(self, product: Product) -> bool:
        """Whether a product is positive where the domain has points."""
        return product.number > 0 and all(
            f in self.nonzero or f in self.known or _clamped(f) is not None for f in product.powers
        )

    def digit(self, place: Element) -> tuple[int, Product] | None:
        """The axis of which a place is a digit, and the product of the lengths of the digits below; None if
        the place is no digit."""
        below = UNIT
        while not isinstance(place, Index):
            match place:
                case Apply(op="floor_divide" | "remainder" as op, args=(x, y)) if not y.axes:
                    by = self.product(y)
                    if not self.is_positive(by):
                        return None
                    place, below = x, below * by if op == "floor_divide" else below
                case _:
                    return None
        return place.axis, below

    def digits_of(self, element: Element) -> list[Digit] | None:
        """The digits of a place, the highest first; None if it is no such number."""
        work, terms = [(element, UNIT)], list[tuple[Element, Product]]()
        while work:
            e, times = work.pop()
            match e:
                case Apply(op="add", args=(x, y)):
                    work += (x, times), (y, times)
                case Apply(op="multiply", args=(x, y)) if not y.axes:
                    work.append((x, times * self.product(y)))
                case Apply(op="multiply", args=(x, y)) if not x.axes:
                    work.append((y, times * self.product(x)))
                case _ if e.axes:
                    terms.append((e, times))
                case _ if not is_const(e, 0):
                    return None
            if len(terms) > MOST_TERMS:
                return None
        found: list[Digit] = []
        above: Product | None = UNIT
        while terms:
            place = next((e for e, times in terms if times == above), None)
            if place is None or above is None:
                return None
            terms.remove((place, above))
            length = self.length_of(place)
            found.append(Digit(place, length))
            above = None if length is None else above * length
        return found[::-1]

    def length_of(self, place: Element) -> Product | None:
        """The number of values of an index, of a remainder, or of a quotient of these; None if unknown."""
        above = UNIT
        while True:
            match place:
                case Index(axis=axis) if axis < len(self.lengths):
                    whole = self.lengths[axis]
                case Apply(op="remainder", args=(_, y)) if not y.axes:
                    whole = self.product(y)
                case Apply(op="floor_divide", args=(x, y)) if not y.axes:
                    place, above = x, above * self.product(y)
                    continue
                case _:
                    return None
            return whole.over(above) if self.is_positive(whole) else None

    def simplified(self, elements: tuple[Element, ...]) -> tuple[Element, ...]:
        """Elements without quotients and remainders that are digits of the places that they are taken of,
        and without places that are put together from all their digits."""
        split: set[Element] = set()  # what is computed from a quotient or remainder

        def visit(element: Element) -> Element:
            made = element
            match element:
                case Apply(op="floor_divide" | "remainder", args=(x, y), dtype="i64"):
                    if x.axes and not y.axes:
                        made = self._part(element, x, self.product(y))
                    split.add(made)
                case Apply(op="multiply", args=args, dtype="i64") if not split.isdisjoint(args):
                    split.add(element)
                case Apply(op="add", args=args, dtype="i64") if not split.isdisjoint(args):
                    own = self.digits_of(element)
                    whole = element if own is None else number(own)
                    made = whole if isinstance(whole, Index) or is_digit(whole) else element
                    split.add(made)
            return made

        return rewrite(elements, visit)

    def _part(self, element: Apply, whole: Element, by: Product) -> Element:
        """A quotient or remainder of a number by a length."""
        own = self.digits_of(whole)
        if own is None or not self.is_positive(by):
            return element
        low = take(own, by)
        return element if low is None else low if element.op == "remainder" else number(own)


def regrouped(places: Sequence[Element], shape: Shape, old: Shape) -> list[Element]:
    """The place in the shape `old` of an element with `places` in another one of as many elements, in
    row-major order."""
    known = exact_quotients(shape, old)
    pairs = zip(places, shape, strict=True)
    digits = [Digit(p, product_of(n, known)) for p, n in pairs if not is_const(n, 1)]
    wide = [k for k, n in enumerate(old) if not is_const(n, 1)]
    found: list[Element] = [ZERO] * len(old)
    lengths = {k: product_of(old[k], known) for k in wide}
    while wide and digits and digits[0].length == lengths[wide[0]]:
        found[wide.pop(0)] = digits.pop(0).place
    while len(wide) > 1:
        rest = list(digits)
        place = take(rest, lengths[wide[-1]])
        if place is None:
            break
        digits, found[wide.pop()] = rest, place
    flat = number(digits)
    for k in wide[:0:-1]:
        found[k], flat = apply("remainder", flat, old[k]), apply("floor_divide", flat, old[k])
    if wide:
        found[wide[0]] = flat
    return found
