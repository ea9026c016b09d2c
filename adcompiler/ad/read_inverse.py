"""The inverse of a read: for a point of the array, the point of the domain that reads it.

A read at plain axes has one: `A[i, j]` is read at (i, j). A read at `i + c` or `c - i` has one too, for a c
that depends on no axis: the point a is read at i = a - c or c - a, if i lies in the domain. The adjoint of
such a read is a renamed array under a guard, without a scatter. So has `(i - c) // m` where the read counts
only if m divides i - c: the point a is read at i = m * a + c. A read at `2 * i` has none: its adjoint would
compute what each point needs and use it at every other point only, so a scatter takes less time.

So has a window `x[i + k]` with k before m and i before n - m + 1, where n is the length of x: each k reads
the point a at i = a - k, and the adjoint is a sum over k. The bounds of its loop exclude each k for which i
would lie outside the domain, so it takes as many iterations as a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

from adcompiler.ad.guards import TRUE, both
from adcompiler.analysis.affine import linear, linear_constant
from adcompiler.ir.nodes import Apply, Const, Element, Index, Read, Shape, const, is_const
from adcompiler.ir.walk import operands, substitute
from adcompiler.ops.build import apply

ZERO = const(0, "i64")


class Inverse(NamedTuple):
    """`places` gives each axis of the domain in terms of the array's axes, where `guard` holds; elsewhere the
    array's point is not read. Axes without a place are `free`, and numbered after the array's axes; only
    those of their points that satisfy `inside` read the array's point."""

    places: dict[int, Element]
    guard: Element
    free: dict[int, Element]
    inside: Element


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
        return None
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
    return Inverse(places, guard, free, inside)


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
