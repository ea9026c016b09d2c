"""The inverse of a read: for a point of the array, the point of the domain that reads it.

A read at plain axes has one: `A[i, j]` is read at (i, j). A read at `i + c` or `c - i` has one too, for a c
that depends on no axis: the point a is read at i = a - c or c - a, if i lies in the domain. The adjoint of
such a read is a renamed array under a guard, without a scatter. So has `(i - c) // m` where the read counts
only if m divides i - c: the point a is read at i = m * a + c. A read at `2 * i` has none: its adjoint would
compute what each point needs and use it at every other point only, so a scatter takes less time.

So has a window `x[i + k]` with k before m and i before n - m + 1, where n is the length of x: each k reads
the point a at i = a - k, and the adjoint is a sum over k. The bounds of its loop exclude each k for which i
would lie outside the domain, so it takes as many iterations as a scatter.

So have digits, as reshaped arrays are read (`analysis/mixed_radix.py`): the point a of `A[i * m + j]` is read
at (a // m, a % m), the point (a, b) of `A[i // m, i % m]` at a * m + b, and the point a of `A[i // m]` at
each of the m numbers from a * m on. If m is a number, as in pooling, the first of these is a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

from adcompiler.ad.guards import TRUE, both
from adcompiler.analysis.affine import linear, linear_constant
from adcompiler.analysis.mixed_radix import UNIT, Digit, Domain, Product, is_within, number, product_of
from adcompiler.ir.nodes import Apply, Const, Element, Index, Read, Shape, const, is_const
from adcompiler.ir.walk import operands, substitute
from adcompiler.ops.build import apply

ZERO = const(0, "i64")


class Inverse(NamedTuple):
    """`places` gives each axis of the domain in terms of the array's axes, where `guard` holds; elsewhere the
    array's point is not read. `free` are axes without such a place, in terms of axes of these `lengths` too,
    which are numbered after the array's; only those of their points that satisfy `inside` read the array's
    point."""

    places: dict[int, Element]
    guard: Element
    free: dict[int, Element]
    inside: Element
    lengths: Shape


class _Affine(NamedTuple):
    """(scale * axis + offset) / divisor, for a scale of 1 or -1; no axis for a constant index."""

    axis: int | None
    scale: int
    offset: Element
    divisor: int = 1


def invert(read: Read, domain: Shape, scope: frozenset[int], guard: Element = TRUE) -> Inverse | None:
    """The inverse of `read` in `domain`, summed over the axes of `scope`; None if its indices are of another
    kind. The read counts where the `guard` of its contribution holds."""
    pairs = zip(read.args, read.array.shape, strict=True)
    known = operands(guard, "logical_and")
    forms = [
        _affine(index) or _divided(index, known) or _window(index, size, domain) for index, size in pairs
    ]
    axes = [form.axis for form in forms if form is not None and form.axis is not None]
    if None in forms or len(set(axes)) < len(axes):
        return _digits(read, domain, scope)
    rank = len(read.array.shape)
    free: dict[int, Element] = {k: Index(rank + p) for p, k in enumerate(sorted(scope.difference(axes)))}
    places: dict[int, Element] = {}
    guard = TRUE
    inside: Element = TRUE
    for k, (form, index, size) in enumerate(zip(forms, read.args, read.array.shape, strict=True)):
        assert form is not None
        if not form.offset.axes <= free.keys():
            return None
        if is_const(size, 1) and is_const(index, 0):
            continue
        if form.axis is None:
            guard = both(guard, apply("equal", Index(k), form.offset))
            continue
        point, offset, length = Index(k), substitute(form.offset, free), domain[form.axis]
        place = places[form.axis] = _place(form._replace(offset=offset), point)
        if offset.axes:  # the place lies in the domain; solved for the offset, these are bounds of a loop
            inside = both(inside, apply("less_equal", offset, point))
            inside = both(inside, apply("less", apply("subtract", point, length), offset))
            continue
        for condition in _conditions(form, point, place, length, size):
            guard = both(guard, condition)
    return Inverse(places, guard, free, inside, tuple(domain[k] for k in sorted(free)))


class _Part(NamedTuple):
    """A digit of an axis: the product of the lengths of those below it, its length, if it is known, and its
    value in terms of an axis of the array."""

    below: Product
    length: Product | None
    value: Element
    axis: int


def _digits(read: Read, domain: Shape, scope: frozenset[int]) -> Inverse | None:
    """The inverse of a read at digits of the domain's axes; None if there is none."""
    inner, outer = Domain(domain), Domain(read.array.shape)
    parts: dict[int, list[_Part]] = {k: [] for k in scope}
    guard: Element = TRUE
    for k, (index, size) in enumerate(zip(read.args, read.array.shape, strict=True)):
        if not index.axes:
            if not (is_const(size, 1) and is_const(index, 0)):
                guard = both(guard, apply("equal", Index(k), index))
            continue
        digits = inner.digits_of(index)
        if digits is None:
            return None
        below = UNIT
        for position, (place, length) in enumerate(reversed(digits)):
            found = inner.digit(place)
            if found is None or found[0] not in parts:
                return None
            value: Element = Index(k)
            if below != UNIT:
                value = apply("floor_divide", value, below.element())
            if position < len(digits) - 1:
                if length is None or not length.powers:
                    return None  # of few numbers: a loop over these is written out, and shares what it needs
                value = apply("remainder", value, length.element())
            elif length is not None and below * length != outer.lengths[k]:
                whole = domain[place.axis] if isinstance(place, Index) else length.element()
                guard = both(guard, apply("less", value, whole))
            parts[found[0]].append(_Part(found[1], length, value, k))
            below = below if length is None else below * length
    made = Inverse({}, guard, {}, TRUE, ())
    for axis, own in sorted(parts.items()):
        extended = _axis(made, axis, list(own), domain[axis], read.array.shape)
        if extended is None:
            return None
        made = extended
        if own and all(p.length is not None for p in own) and axis in made.places:
            for factor in product_of(domain[axis]).powers:
                if factor not in outer.nonzero:  # else the domain has points where the array has
                    made = made._replace(guard=both(made.guard, apply("less", ZERO, factor)))
    return made


def _axis(made: Inverse, axis: int, parts: list[_Part], size: Element, shape: Shape) -> Inverse | None:
    """An inverse with one more axis, given its digits; digits that are not read are free."""
    lengths, digits, whole = list(made.lengths), list[Digit](), Domain((size,)).lengths[0]
    below: Product | None = UNIT
    places: list[int] = []
    while parts or (below is not None and below != whole):
        part = next((p for p in parts if p.below == below), None)
        if part is not None:
            assert below is not None
            parts.remove(part)
            places.append(part.axis)
            digits.insert(0, Digit(part.value, part.length))
            below = None if part.length is None else below * part.length
            continue
        above = min((p.below for p in parts), key=lambda p: len(p.powers), default=whole)
        length = None if below is None else above.over(below)
        if length is None or length == UNIT:
            return None
        lengths.append(length.element() if parts or digits else size)
        digits.insert(0, Digit(Index(len(shape) + len(lengths) - 1), length))
        below = above
    if places != sorted(places, reverse=True):
        return None  # neighbours in the array are far from each other: a scatter reads the domain in order
    place = number(digits)
    guard, inside = made.guard, made.inside
    if below is None and not _is_within(digits, shape, whole):
        if any(k >= len(shape) for k in place.axes):
            inside = both(inside, apply("less", place, size))
        else:
            guard = both(guard, apply("less", place, size))
    if any(k >= len(shape) for k in place.axes):
        return Inverse(made.places, guard, {**made.free, axis: place}, inside, tuple(lengths))
    return Inverse({**made.places, axis: place}, guard, made.free, inside, tuple(lengths))


def _is_within(digits: Sequence[Digit], shape: Shape, whole: Product) -> bool:
    """Whether all numbers of these digits lie on an axis, whose highest one is an index of the array."""
    highest = digits[0].place
    if not isinstance(highest, Index):
        return False
    outer = Domain(shape)
    total = outer.lengths[highest.axis]
    for digit in digits[1:]:
        assert digit.length is not None
        total *= digit.length
    return is_within(total, whole, outer.nonzero)


def _window(index: Element, size: Element, domain: Shape) -> _Affine | None:
    """An index as an axis plus a multiple of another axis, if their combined range is that of the array's
    axis, or if one of them alone covers it or is as long, as in windows with padding."""
    form = linear(index)
    parts = {a.axis: factor for a, factor in form.terms.items() if isinstance(a, Index)}
    if len(parts) != 2 or any(a is not None and a.axes and not isinstance(a, Index) for a in form.terms):
        return None
    for axis, other in permutations(parts):
        whole, width = linear(_positive(size)), linear(_positive(domain[other]))
        longer = whole - linear(_positive(domain[axis]))
        more = (width - linear_constant(1)) * abs(parts[other])
        is_padded = longer.constant == 0 and (whole - width).constant is None  # else a suffix, with fewer
        if parts[axis] == 1 and (longer in (more, more * -1) or is_padded):
            return _Affine(axis, 1, (form - linear(Index(axis))).element())
    return None


def _positive(length: Element) -> Element:
    """A length without its clamp at 0."""
    match length:
        case Apply(op="maximum", args=(x, zero)) if is_const(zero, 0):
            return x
    return length


def _place(form: _Affine, point: Element) -> Element:
    """The position along the domain's axis that reads `point`."""
    if form.divisor > 1:
        multiple = apply("multiply", const(form.divisor, "i64"), point)
        return multiple if is_const(form.offset, 0) else apply("subtract", multiple, form.offset)
    if is_const(form.offset, 0) and form.scale == 1:
        return point
    if form.scale == -1:
        return apply("subtract", form.offset, point)
    return apply("subtract", point, form.offset)


def _conditions(
    form: _Affine, point: Element, place: Element, length: Element, size: Element
) -> Sequence[Element]:
    """The conditions under which that position reads the point: it lies in the domain."""
    found = []
    if place is not point:
        found.append(apply("greater_equal", place, ZERO))
    if not (form.scale == form.divisor == 1 and _fills(length, form.offset, size)):
        found.append(apply("less", place, length))
    return found


def _fills(length: Element, offset: Element, size: Element) -> bool:
    """Whether `length` points from `offset` on reach the end of the axis: n from 0, or max(n - c, 0) from
    c."""
    if is_const(offset, 0):
        return length is size
    match length:
        case Apply(op="maximum", args=(Apply(op="subtract", args=(n, c)), zero)) if is_const(zero, 0):
            return n is size and c is offset
    return False


def _divided(index: Element, known: Sequence[Element]) -> _Affine | None:
    """A quotient of an axis plus an offset, where it is known that nothing remains."""
    match index:
        case Apply(op="floor_divide", args=(x, Const(value=value) as divisor)) if value > 1:
            form = _affine(x)
            whole = apply("equal", apply("remainder", x, divisor), ZERO)
            if whole in known and form is not None and form.scale == 1:
                return form._replace(divisor=int(value))
    return None


def _affine(index: Element) -> _Affine | None:
    """An index as scale * axis + offset; None for other scales than 1 and -1."""
    form = linear(index)
    axes = [a for a in form.terms if a is not None and a.axes]
    if not axes:
        return _Affine(None, 0, index)
    (axis, *others) = axes
    if others or not isinstance(axis, Index):
        return None
    scale = form.terms[axis]
    if abs(scale) > 1:
        return None
    return _Affine(axis.axis, scale, (form - linear(axis) * scale).element())
