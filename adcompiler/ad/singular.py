"""Singular arrays: those whose derivative may be infinite where their value and their arguments are finite.

Zero times such a derivative is NaN, so a derivative that is known to be zero must not be multiplied by it. A
partial derivative of the rule table is evaluated where functions have their singularities, at 0, 1 and a few
other numbers, as far as the arguments can be these: that of sqrt(x) is infinite at 0, that of sqrt(1 + x * x)
is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import product
from math import inf, isfinite, nextafter
from typing import NamedTuple

import numpy as np

from adcompiler.ad.limits import MOST_BOUNDED
from adcompiler.ad.partials import active_arrays, differentiable, linear_arrays, partial
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Call,
    Const,
    Element,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Select,
    Size,
    is_const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import DTYPES, NUMPY, is_float
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of
from adcompiler.lazy import Memo
from adcompiler.ops.table import TABLE

POINTS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)  # where functions of the table have their singularities
DECOMPOSITIONS = ("eigh_", "qr_", "svd_", "pinv")  # whose derivatives divide by gaps between values


class Bounds(NamedTuple):
    """The least and the largest value of an element; an infinite one is a value only if it `is_attained`."""

    least: float = -inf
    largest: float = inf
    is_attained: bool = False

    def points(self) -> tuple[float, ...]:
        """Finite numbers in these bounds near which a derivative may be infinite, and the ends."""
        ends = [x for x in self[:2] if isfinite(x) or self.is_attained]
        inner = [x for x in POINTS if self.least <= x <= self.largest]
        return tuple(sorted({*inner, *ends} or {0.5 * self.least + 0.5 * self.largest}))


ANY = Bounds()
ABOVE_ZERO = nextafter(0.0, 1.0)
NONNEGATIVE, POSITIVE = Bounds(0.0), Bounds(ABOVE_ZERO)
RANGES = {
    **dict.fromkeys(("sin", "cos", "tanh", "erf", "sign"), Bounds(-1.0, 1.0)),
    **dict.fromkeys(("exp", "exp2", "gamma"), POSITIVE),
    **dict.fromkeys(("sqrt", "softplus", "erfc"), NONNEGATIVE),
    "cosh": Bounds(1.0), "sigmoid": Bounds(ABOVE_ZERO, 1.0),
}  # fmt: skip


def is_singular(array: Array, active: Collection[Array], strict: bool = False) -> bool:
    """Whether the derivative of an array by `active` ones may be infinite at finite arguments, if `strict`
    where the value is finite as well."""
    return bool(singular_reads(array, active, strict))


def singular_reads(array: Array, active: Collection[Array], strict: bool) -> set[Array]:
    """The active arrays by which the derivative of another one may be infinite."""
    match array:
        case Input():
            return set()
        case Item(loop=loop):
            inner = arrays_of(loop.roots)
            moving = active_arrays(inner, [s for s in loop.slots if is_float(s.dtype)])
            everywhere = any(is_singular(a, moving, strict) for a in inner if a in moving)
        case Call(op=op):
            everywhere = op.startswith(DECOMPOSITIONS)
        case Ruled():
            everywhere = not all(map(_is_bounded, arrays_of(array.pulled)))
        case _:
            roots = _singular_arguments(array.elements[-1], active, strict)
            return {e.array for e in elements_of(roots) if isinstance(e, Read) and e.array in active}
    return {a for a in arrays_read(array) if a in active} if everywhere else set()


def _singular_arguments(body: Element, active: Collection[Array], strict: bool) -> list[Element]:
    """The arguments by which the derivative of an element inside a body may be infinite."""
    known: dict[Element, Bounds] = {}
    moving, found = set[Element](), list[Element]()
    for e in elements_of((body,)):
        if isinstance(e, Read):
            if e.array in active:
                moving.add(e)
        elif differentiable(e) and (moved := [k for k, a in enumerate(e.args) if a in moving]):
            moving.add(e)
            if isinstance(e, Apply):
                found += [e.args[k] for k in moved if _has_infinite(e, k, known, strict)]
    return found


def has_branches(array: Array, active: Collection[Array]) -> bool:
    """Whether the derivative of an array by `active` ones is zero in branches that are not taken."""
    if isinstance(array, Item):
        inner = arrays_of(array.loop.roots)
        moving = active_arrays(inner, [s for s in array.loop.slots if is_float(s.dtype)])
        return any(has_branches(a, moving) for a in inner if a in moving)
    if isinstance(array, Input | Call | Ruled):
        return isinstance(array, Ruled)
    is_extremum = isinstance(array, Reduce) and array.op in ("min", "max")
    return is_extremum or any(map(_is_branch, elements_of(array.elements[-1:])))


def _is_branch(element: Element) -> bool:
    """Whether a float is chosen by a condition, or its derivative is."""
    if not is_float(element.dtype):
        return False
    texts = TABLE[element.op].partials if isinstance(element, Apply) and element.op not in DTYPES else ()
    return isinstance(element, Select) or any("where" in text for text in texts)


class Zeros(NamedTuple):
    """The arrays behind which a cotangent that is zero stays zero, because no derivative down to the inputs
    is infinite (`safe`), and the arrays that are finite, if all inputs but the `unsafe` ones are both."""

    safe: set[Array]
    finite: set[Array]
    unsafe: set[Array]


def zeros_of(order: Sequence[Array], active: Collection[Array], unsafe: set[Array]) -> Zeros:
    """The arrays behind which a zero stays zero: linear ones, and regular functions of finite arrays. `order`
    has producers first."""
    safe, finite = linear_arrays(order, active, unsafe), set[Array]()
    for array in order:
        reads = arrays_read(array)
        if array in unsafe:
            continue
        if finite.issuperset(reads) and _is_bounded(array):
            finite.add(array)
        is_regular = finite.issuperset(reads) and safe.issuperset(reads)
        if array not in active or (array not in safe and is_regular and not is_singular(array, active)):
            safe.add(array)
    return Zeros(safe, finite, unsafe)


def exposed_arrays(order: Sequence[Array], active: Collection[Array], roots: Iterable[Array]) -> set[Array]:
    """The arrays whose tangents may meet an infinite derivative on their way, or reach one of `roots`.
    `order` has producers first."""
    found = set(roots)
    for array in reversed(order):
        if array in active:
            found |= set(arrays_read(array)) if array in found else singular_reads(array, active, True)
    return found


def _has_infinite(element: Apply, k: int, known: dict[Element, Bounds], strict: bool) -> bool:
    """Whether the derivative of a primitive by an argument may be infinite."""
    if element.op in DTYPES:
        return False
    parts = tuple(a if isinstance(a, Const) else bounds(a, known) for a in element.args)
    return _INFINITE.made(
        (element.op, element.dtype, k, strict, parts), lambda: _evaluated(element, parts, k, strict)
    )


def _is_bounded(array: Array) -> bool:
    """Whether an array is finite where what it reads is."""
    match array:
        case Input():
            return True
        case Item(loop=loop):
            return all(map(_is_bounded, arrays_of(loop.roots)))
        case Call() | Ruled():
            return False
        case Reduce(op="min" | "max", reduced=reduced) if not all(map(is_const, reduced)):
            return False
    known: dict[Element, Bounds] = {}
    return not any(_is_unbounded(e, known) for e in elements_of(array.elements))


def _is_unbounded(element: Element, known: dict[Element, Bounds]) -> bool:
    """Whether a primitive may be infinite, or no number, at finite arguments."""
    if isinstance(element, Const):
        return not isfinite(element.value)
    if not isinstance(element, Apply) or element.op in DTYPES or not is_float(element.dtype):
        return False
    parts = tuple(a if isinstance(a, Const) else bounds(a, known) for a in element.args)
    return _INFINITE.made((element.op, element.dtype, parts), lambda: _evaluated(element, parts))


_INFINITE: Memo[tuple[object, ...], bool] = Memo()


def _evaluated(
    element: Apply, parts: tuple[Const | Bounds, ...], k: int | None = None, strict: bool = False
) -> bool:
    """Whether a primitive, or its derivative where the value is a number, is infinite at some point."""
    places = tuple(
        a if isinstance(a, Const) else Read(Input(-1 - n, a.dtype, ()), ())
        for n, a in enumerate(element.args)
    )
    whole = Read(Input(-1 - len(places), element.dtype, ()), ())
    grid = np.array(list(product(*((p.value,) if isinstance(p, Const) else p.points() for p in parts))))
    values: dict[Element, np.ndarray] = {
        p: column.astype(NUMPY[p.dtype]) for p, column in zip(places, grid.T, strict=True)
    }
    with np.errstate(all="ignore"):
        values[whole] = np.asarray(TABLE[element.op].numpy(*(values[p] for p in places)))
        if k is None:
            return not np.isfinite(values[whole]).all()
        slope = partial(Apply(element.op, places, element.dtype), k, whole)
        found = _numbers(slope, values)
        counts = ~np.isnan(values[whole])
        if strict:  # but an argument may be infinite: the maximum of nothing
            counts &= np.isfinite(values[whole]) | ~np.isfinite(grid).all(axis=1)
    return bool((~np.isfinite(found) & counts).any())


def _numbers(root: Element, values: dict[Element, np.ndarray]) -> np.ndarray:
    """The values of an element, from those of others."""
    for e in elements_of((root,)):
        if e in values:
            continue
        args = [values[a] for a in e.args]
        match e:
            case Const():
                values[e] = NUMPY[e.dtype].type(e.value)
            case Select():
                values[e] = np.where(*args)
            case Apply(op=op) if op in DTYPES:
                values[e] = args[0].astype(NUMPY[e.dtype])
            case Apply(op=op):
                values[e] = np.asarray(TABLE[op].numpy(*args))
    return values[root]


# -- bounds --------------------------------------------------------------------------------------------


def bounds(element: Element, known: dict[Element, Bounds]) -> Bounds:
    """The bounds of an element, whose inputs may be any finite numbers."""
    if element not in known:
        rest = [element]
        while rest:
            e = rest[-1]
            missing = [a for a in _behind(e) if a not in known]
            if not missing or len(known) > MOST_BOUNDED:
                known[e] = _bounds(e, [known.get(a, ANY) for a in _behind(e)])
                rest.pop()
            rest += missing if len(known) <= MOST_BOUNDED else []
    return known[element]


def _behind(element: Element) -> tuple[Element, ...]:
    """The elements whose bounds decide those of another one."""
    match element:
        case Read(array=Map(body=body) | Reduce(body=body)):
            return (body,)
        case Apply() if is_float(element.dtype):
            return element.args
        case Select():
            return element.args[1:]
    return ()


def _bounds(element: Element, args: list[Bounds]) -> Bounds:
    match element:
        case Const(value=value):
            return ANY if value != value else Bounds(value, value, not isfinite(value))
        case Index() | Size():
            return NONNEGATIVE
        case Read(array=Map()):
            return args[0]
        case Read(array=Reduce() as array):
            return _reduced(array, args[0])
        case Select():
            one, other = args
            attained = one.is_attained or other.is_attained
            return Bounds(min(one.least, other.least), max(one.largest, other.largest), attained)
        case Apply() if args:
            return _applied(element, args)
    return ANY


def _reduced(array: Reduce, body: Bounds) -> Bounds:
    """The bounds of a reduction; an extremum of nothing is infinite."""
    if array.op in ("min", "max"):
        if all(map(is_const, array.reduced)):
            return body
        ends = (-inf, body.largest) if array.op == "max" else (body.least, inf)
        return Bounds(*ends, is_attained=True)
    return NONNEGATIVE if array.op in ("sum", "prod") and body.least >= 0 else ANY


def _applied(element: Apply, args: list[Bounds]) -> Bounds:
    """The bounds of a primitive."""
    op, x = element.op, args[0]
    y = args[-1]
    attained = any(a.is_attained for a in args)
    if op in RANGES:
        return RANGES[op]
    if op in DTYPES or op == "strict":
        return x
    if op == "negative":
        return Bounds(-x.largest, -x.least, attained)
    if op == "abs" or op == "square" or (op == "multiply" and element.args[0] is element.args[1]):
        return _even(x, 1 if op == "abs" else 2)
    if op == "power" and isinstance(element.args[1], Const):
        exponent = element.args[1].value
        if exponent > 0 and exponent % 2 == 0:
            return _even(x, exponent)
        return NONNEGATIVE if x.least >= 0 else ANY
    if op in ("maximum", "minimum"):
        pick = max if op == "maximum" else min
        return Bounds(pick(x.least, y.least), pick(x.largest, y.largest), attained)
    if op == "hypot":
        return Bounds(max(_even(x, 1).least, _even(y, 1).least), inf, attained)
    if op in ("add", "subtract", "multiply", "divide", "fma"):
        return _arithmetic(op, args)._replace(is_attained=attained)
    return ANY


def _even(x: Bounds, exponent: float) -> Bounds:
    """The bounds of a power of an absolute value."""
    least = max(x.least, -x.largest, 0.0)
    largest = max(-x.least, x.largest)
    lowest = max(_power(least, exponent), ABOVE_ZERO if least else 0.0)
    return Bounds(lowest, _power(largest, exponent), x.is_attained)


def _power(x: float, exponent: float) -> float:
    try:
        return float(x**exponent)
    except OverflowError:
        return inf


def _arithmetic(op: str, args: list[Bounds]) -> Bounds:
    """The bounds of sums, products and quotients."""
    x, y = args[:2]
    if op == "fma":
        return _arithmetic("add", [_arithmetic("multiply", args[:2]), args[2]])
    if op == "subtract":
        return _arithmetic("add", [x, Bounds(-y.largest, -y.least)])
    if op == "add":
        least, largest = x.least + y.least, x.largest + y.largest
        return Bounds(-inf if least != least else least, inf if largest != largest else largest)
    if op == "divide":
        if y.least <= 0 <= y.largest:
            return NONNEGATIVE if x.least >= 0 and y.least >= 0 else ANY
        y = Bounds(1 / y.largest, 1 / y.least)
    ends = [a * b for a in x[:2] for b in y[:2]]
    if any(e != e for e in ends):
        ends = [0.0 if e != e else e for e in ends]
    least, largest = min(ends), max(ends)
    if least == 0.0 and x.least > 0 and y.least > 0:
        least = ABOVE_ZERO
    return Bounds(least, largest)
