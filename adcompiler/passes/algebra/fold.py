"""Fold constants and conditions that always hold in a loop, and drop no-ops; results are bitwise equal.

Only identities that hold for every float are used: x * 1, x - 0, x / 1, x ** 1, -(-x), (-x) * y, x + -0.0.
Not x + 0 (which turns -0.0 into 0.0), and never x * 0 (which hides inf and NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from adcompiler.ad.guards import support
from adcompiler.analysis.affine import Linear, differ
from adcompiler.analysis.intervals import Range, Ranges, always_holds, never_holds, up_to
from adcompiler.analysis.mixed_radix import Domain
from adcompiler.analysis.predicates import opposite
from adcompiler.ir.loop import Item, Loop, inside
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Const,
    Element,
    Func,
    Index,
    Input,
    Map,
    Put,
    Read,
    Reduce,
    Select,
    Size,
    closed,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import (
    Rewriter,
    elements_of,
    is_number,
    read_by,
    rewrite,
    substitute,
    with_elements,
)
from adcompiler.ops.build import apply, cast, evaluated
from adcompiler.ops.costs import costly
from adcompiler.passes.limits import MOST_ELEMENTS_AGAIN

# The minimum and the maximum of no elements.
_LAST = {"f64": (-np.inf, np.inf), "f32": (-np.inf, np.inf), "i64": (-(2**63), 2**63 - 1)}


def fold(func: Func) -> Func:
    """The same program, with operations folded that constants decide."""
    return Fold().func(func)


def _is_of_sizes(element: Element) -> bool:
    """Whether an element is computed from sizes alone."""
    return not element.axes and not read_by((element,))


def folded(
    element: Element, ranges: Ranges | None = None, seen: Callable[[Element], Element] | None = None
) -> Element:
    """An element, with operations folded that constants or the ranges of iteration numbers decide. `seen` is
    a condition in terms of these numbers."""
    return rewrite((element,), Fold(ranges=ranges, seen=seen).element)[0]


class Fold(Rewriter):
    """Folds what constants, conditions that are `known` to hold and `ranges` of iteration numbers decide.
    `seen` is a condition in terms of these numbers."""

    def __init__(
        self,
        known: frozenset[Element] = frozenset(),
        ranges: Ranges | None = None,
        seen: Callable[[Element], Element] | None = None,
    ) -> None:
        super().__init__()
        self.known, self.ranges = known, ranges or {}
        self.seen = seen or (lambda condition: condition)

    def inner(self, loop: Loop | Ruled) -> Rewriter:
        """A rewriter that knows what holds in an iteration: the loop is not empty, and the numbers of this
        iteration and the enclosing ones are below the loops' lengths."""
        if not isinstance(loop, Loop) or loop.length is None:
            return type(self)()
        step = Read(loop.slots[0], ())
        places = dict(zip(loop.consts, loop.const_slots, strict=True))
        around = frozenset(c for c in self.known if not read_by((c,)))
        length = folded(loop.length)
        if any(a not in places for a in read_by((length,))):  # it reads a slot of the enclosing loop
            return type(self)(around)
        length = inside(length, places)
        iterations = apply("less", const(0, "i64"), length)
        ranges = dict(self.numbers_in(places))
        depth = max((r.depth for r in ranges.values()), default=-1) + 1
        known = {iterations, *_values(places)}
        return type(self)(around | known, {**ranges, step: replace(up_to(length), depth=depth)})

    def numbers_in(self, places: Mapping[Array, Array]) -> Iterator[tuple[Element, Range]]:
        """The known ranges of iteration numbers that an inner loop reads from slots, given the arrays of
        these slots."""
        for whole, slot in places.items():
            number = whole.body if isinstance(whole, Map) else None if whole.rank else Read(whole, ())
            found = None if number is None else self.ranges.get(number)
            if found is not None and all(a in places for a in read_by(found.last.atoms)):
                terms = {a and inside(a, places): factor for a, factor in found.last.terms.items()}
                yield Read(slot, ()), replace(found, last=Linear(terms))

    def settled(self, element: Element) -> Element:
        """An element, or what a condition is in every iteration of the enclosing loop."""
        if element in self.known:
            return const(True, "bool")
        if element.dtype != "bool" or not (self.ranges or _is_of_sizes(element)):
            return element
        seen = self.seen(element)
        if any(Index(a) not in self.ranges for a in seen.axes):
            return element
        if always_holds(seen, self.ranges):
            return const(True, "bool")
        if opposite(seen) in self.known or never_holds(seen, self.ranges):
            return const(False, "bool")
        return element

    def _resize(self, lengths: tuple[Element, ...]) -> tuple[Element, ...]:
        """A range that ends before it begins is empty. Lengths that only sizes decide are the same in loops
        and outside, whatever is known in an iteration: what a loop carries keeps its shape."""
        zero = const(0, "i64")
        plain = type(self)() if self.known or self.ranges else self
        found = ((plain if _is_of_sizes(n) else self)._change((n,))[0] for n in lengths)
        return tuple(zero if isinstance(n, Const) and n.value < 0 else n for n in found)

    def array(self, array: Array) -> Array:
        """Remove axes of length 1: their index is 0, and nothing is reduced over them.

        Accumulating in one place is a reduction, and reading all of an array is that array. The maximum of
        equal values is that value.
        """
        if isinstance(array, Reduce) and array.op in ("max", "min"):
            array = _repeated(array)
        if isinstance(array, Reduce) and array.op == "sum":
            if is_const(array.body, 0):
                return Map(array.shape, array.body)
            array = _masked(array)
        array = _proved(array)
        if isinstance(array, Reduce):
            array = _once(array)
        if isinstance(array, Map):
            array = closed(array.shape, array.body)
        ones = {k for k, n in enumerate(array.domain) if is_const(n, 1)}
        one_place = isinstance(array, Accumulate) and not array.rank
        if isinstance(array, Input | Item | Ruled | Call) or not (ones or one_place):
            return array
        own = range(
            0 if isinstance(array, Accumulate | Put) else array.rank
        )  # axes of the array itself are kept
        kept = [k for k in range(len(array.domain)) if k not in ones or k in own]
        places: dict[int, Element] = {k: Index(p) for p, k in enumerate(kept)}
        places |= dict.fromkeys(ones, const(0, "i64"))
        memo: dict[Element, Element] = {}
        *indices, body = (substitute(e, places, memo) for e in array.elements)
        sizes = tuple(array.domain[k] for k in kept)
        match array:
            case Put(base=base, op=op):
                *indices, guard = indices
                return Put(base, op, sizes, tuple(indices), guard, body)
            case Accumulate() if indices:
                return Accumulate(array.shape, sizes, tuple(indices), body)
            case Accumulate() if sizes:
                return Reduce("sum", (), sizes, body)
            case Reduce() if len(sizes) > array.rank:
                return Reduce(array.op, array.shape, sizes[array.rank :], body)
        return Map(array.shape, body)

    def element(self, element: Element) -> Element:
        element = self.settled(element)
        match element:
            case Read(array=array) if is_number(array):
                return element
            case Read(array=Map(body=(Const() | Read()) as body), args=indices):
                return substitute(body, dict(enumerate(indices)))  # a map that only renames or repeats
            case Read(array=Map(body=Select() as body), args=indices):
                return _stored(body, dict(enumerate(indices))) or element
            case Read(array=Map(body=Apply() as body), args=indices) if indices and all(
                map(is_const, indices)
            ):
                return _of_stored(body, dict(enumerate(indices))) or element
            case Select():
                return _select(element)
            case Apply(op=op, args=(x,)) if op in DTYPES:
                return cast(x, element.dtype) if isinstance(x, Const) or x.dtype == op else element
            case Apply():
                if all(isinstance(a, Const) for a in element.args):
                    return evaluated(element)
                if element.op == "greater":
                    return _greater(element)
                return _offset(element) if element.dtype == "i64" else _identity(element)
        return element


def _values(places: Mapping[Array, Array]) -> Iterator[Element]:
    """What slots of integers are equal to, in terms of other slots, given the arrays of the slots."""
    for whole, slot in places.items():
        value = whole.body if isinstance(whole, Map) and not whole.rank else None
        if isinstance(value, Apply) and value.dtype == "i64" and all(a in places for a in read_by((value,))):
            yield apply("equal", Read(slot, ()), inside(value, places))


def _once(array: Reduce) -> Array:
    """A reduction that does not depend on some of its own axes, computed once for all of these."""
    used = array.body.axes.union(*(n.axes for n in array.reduced))
    kept = [k for k in range(array.rank) if k in used or is_const(array.shape[k], 1)]
    if len(kept) == array.rank:
        return array
    order = (*kept, *range(array.rank, len(array.domain)))
    places: dict[int, Element] = {k: Index(p) for p, k in enumerate(order)}
    *lengths, body = (substitute(e, places) for e in (*array.reduced, array.body))
    total = Reduce(array.op, tuple(array.shape[k] for k in kept), tuple(lengths), body)
    own = identity(array.shape)
    return Map(array.shape, Read(total, tuple(own[k] for k in kept)))


def _stored(body: Element, places: dict[int, Element]) -> Element | None:
    """The value of a selecting map at a place that decides its guard, if that is a read or constant: x[i]
    after x[i] = y.

    Chains of such maps, as after many stores, are followed.
    """
    found: tuple[Element, dict[int, Element]] | None = None
    while isinstance(body, Select):
        holds = _holds_at(body.guard, places)
        if holds is None:
            break
        body = body.then if holds else body.otherwise
        if isinstance(body, Const | Read):
            found = body, places
            if isinstance(body, Read) and isinstance(body.array, Map) and isinstance(body.array.body, Select):
                if body.args != identity(body.array.shape):
                    places = {k: substitute(i, places) for k, i in enumerate(body.args)}
                body = body.array.body
    return None if found is None else substitute(*found)


def _of_stored(body: Element, places: dict[int, Element]) -> Element | None:
    """The value of a map at a place that decides all arrays that it reads: y * y after y[1] = x."""
    elements = elements_of((body,))
    if len(elements) > MOST_ELEMENTS_AGAIN or costly(body, {}):
        return None
    found: dict[Element, Element] = {}
    for read in elements:
        if not isinstance(read, Read):
            continue
        if not isinstance(read.array, Map) or not isinstance(read.array.body, Select):
            return None
        indices = (substitute(i, places) for i in read.args)
        stored = _stored(read.array.body, dict(enumerate(indices)))
        if stored is None:
            return None
        found[read] = stored
    if not found:
        return None
    (made,) = rewrite((body,), lambda e: e, dict(found))
    return substitute(made, places)


def _holds_at(guard: Element, places: dict[int, Element]) -> bool | None:
    """Whether a guard holds at a place; None if the place does not decide it."""
    match guard:
        case Apply(op="equal", args=(Index(axis=axis), Const() as number)) if axis in places:
            place = places[axis]
            if isinstance(place, Const) and place.dtype == number.dtype:
                return bool(place.value == number.value)
    here = substitute(guard, places)
    if all(isinstance(place, Const) for place in places.values()):
        found = folded(here)
    else:
        (found,) = rewrite((here,), _AtPlace().element)
    return bool(found.value) if isinstance(found, Const) else None


class _AtPlace(Fold):
    """Folds a condition at a place. Conditions of the arrays that it reads are not followed: each of them may
    read others at several places in turn, and so on."""

    def element(self, element: Element) -> Element:
        match element:
            case Read(array=Map(body=Select())):
                return element
        return super().element(element)


def _repeated(array: Reduce) -> Array:
    """A maximum or minimum without the reduced axes that its body does not depend on."""
    axes = range(array.rank, len(array.domain))
    kept = [k for k in axes if k in array.body.axes]
    if len(kept) == len(axes):
        return array
    body = substitute(array.body, {k: Index(array.rank + p) for p, k in enumerate(kept)})
    for k in axes:
        if k not in kept:
            body = some(array, k, body)
    sizes = tuple(array.domain[k] for k in kept)
    return Reduce(array.op, array.shape, sizes, body) if sizes else Map(array.shape, body)


def _proved(array: Array) -> Array:
    """An array without checks that an index is below the constant length of its axis, and without quotients
    and remainders that are among the digits of a place."""
    short = {k: n.value for k, n in enumerate(array.domain) if isinstance(n, Const)}

    def visit(element: Element) -> Element:
        match element:
            case Apply(op="less", args=(Index(axis=k), Const(value=n))) if k in short and short[k] <= n:
                return const(True, "bool")
        return _select(element) if isinstance(element, Select) else element

    found = elements_of(array.elements)
    if short and any(visit(e) is not e for e in found):
        array = with_elements(array, lambda elements: rewrite(elements, visit))
    if any(isinstance(e, Apply) and e.op in ("floor_divide", "remainder") and e.axes for e in found):
        array = with_elements(array, Domain(array.domain).simplified)
    return array


def _masked(array: Reduce) -> Reduce:
    """Turn a sum of -(x where a guard holds, else 0) into one of (-x where it holds, else 0): the sign of
    zero does not matter."""
    match array.body:
        case Apply(op="negative", args=(Select(guard=guard, then=then, otherwise=otherwise),)):
            if is_const(otherwise, 0):
                body = select(guard, apply("negative", then), const(0, array.dtype))
                return Reduce("sum", array.shape, array.reduced, body)
    return array


def some(array: Reduce, axis: int, body: Element) -> Element:
    """`body` if an axis that is no longer reduced is not empty; else the maximum or minimum of no
    elements."""
    neutral = const(_LAST[array.dtype][array.op == "min"], array.dtype)
    return select(apply("less", const(0, "i64"), array.domain[axis]), body, neutral)


def _greater(element: Apply) -> Element:
    """Simplify "greater than a constant" for a select whose other side never is: (1 if c else 0) > 0 is c."""
    number, bound = element.args
    guard: Element = const(True, "bool")
    while isinstance(number, Select) and isinstance(bound, Const) and _at_most(number.otherwise, bound):
        guard = number.guard if is_const(guard, True) else Apply("logical_and", (guard, number.guard), "bool")
        number = number.then
    if number is element.args[0]:
        return element
    if not (isinstance(number, Const) and isinstance(bound, Const)):
        return Apply("logical_and", (guard, apply("greater", number, bound)), "bool")
    return guard if number.value > bound.value else const(False, "bool")


def _at_most(number: Element, bound: Const) -> bool:
    """Whether a number is a constant not greater than another one; false for NaN."""
    return isinstance(number, Const) and bool(number.value <= bound.value)


def _select(element: Select) -> Element:
    guard, then, otherwise = element.args
    if isinstance(guard, Const):
        return then if guard.value else otherwise
    if then is otherwise or (is_const(otherwise, 0) and support(then) is guard):
        return then
    if isinstance(guard, Apply) and guard.op == "logical_not":
        return select(guard.args[0], otherwise, then)
    return element


def _offset(element: Apply) -> Element:
    """Write an integer plus constants as the integer plus one positive constant: i - -1 is i + 1."""
    base: Element = element
    total = 0
    while isinstance(base, Apply) and base.op in ("add", "subtract"):
        x, y = base.args
        if isinstance(y, Const):
            total += int(y.value) if base.op == "add" else -int(y.value)
            base = x
        elif isinstance(x, Const) and base.op == "add":
            total += int(x.value)
            base = y
        else:
            break
    if base is element:
        return _identity(element)
    if not total:
        return base
    return apply("add" if total > 0 else "subtract", base, const(abs(total), "i64"))


def _identity(element: Apply) -> Element:
    """Drop a neutral operand or a double negation."""
    match element.op, element.args:
        case "multiply", (x, y):
            for kept, factor in ((x, y), (y, x)):
                if is_const(factor, 1):
                    return kept
                if is_const(factor, -1):
                    return apply("negative", kept)
            signs = [isinstance(e, Apply) and e.op == "negative" for e in (x, y)]
            if is_float(element.dtype) and any(signs):  # an enclosing sum absorbs the sign
                pairs = zip((x, y), signs, strict=True)
                product = apply("multiply", *(e.args[0] if negated else e for e, negated in pairs))
                return product if all(signs) else apply("negative", product)
        case "add", (x, y):
            for kept, term in ((x, y), (y, x)):
                if _negative_zero(term):
                    return kept
                if isinstance(term, Apply) and term.op == "negative":
                    return apply("subtract", kept, term.args[0])
        case "subtract", (x, y):
            if is_const(y, 0) and not _negative_zero(y):
                return x
            if isinstance(y, Apply) and y.op == "negative":
                return apply("add", x, y.args[0])
        case (("divide" | "power"), (x, y)):
            if is_const(y, 1):
                return x
        case (("floor_divide" | "remainder"), (x, _)) if is_const(x, 0) and x.dtype == element.dtype == "i64":
            return x  # also by 0
        case "maximum", (Size() as x, y) | (y, Size() as x) if is_const(y, 0):
            return x  # a length is not negative
        case "negative", (Apply(op="negative", args=(x,)),):
            return x
        case "strict", ((Apply(op="strict") | Index() | Size() | Read(array=Input())) as x,):
            return x
        case "abs", (Apply(op="negative", args=(x,)),) if is_float(x.dtype):
            return apply("abs", x)
        case (("logical_and" | "logical_or"), (x, y)):
            for kept, other in ((x, y), (y, x)):
                if isinstance(other, Const):
                    return kept if bool(other.value) == (element.op == "logical_and") else other
                if kept is other or _absorbs(element.op, kept, other):
                    return kept
                if isinstance(other, Apply) and other.op == "logical_not" and other.args[0] is kept:
                    return const(element.op == "logical_or", "bool")
        case (
            ("equal" | "not_equal"),
            (Read(array=Input() as a, args=()), Read(array=Input() as b, args=())),
        ) if a.position > b.position:  # one form for i == j and j == i
            return apply(element.op, *element.args[::-1])
        case (("equal" | "not_equal"), (x, y)) if x is y and not is_float(x.dtype):
            return const(element.op == "equal", "bool")
        case (("equal" | "not_equal"), (x, y)) if x.dtype == y.dtype == "i64" and differ(x, y):
            return const(element.op == "not_equal", "bool")
    return element


def _absorbs(op: str, kept: Element, other: Element) -> bool:
    """a and (a or b) is a; so is a or (a and b)."""
    dual = "logical_or" if op == "logical_and" else "logical_and"
    return isinstance(other, Apply) and other.op == dual and kept in other.args


def _negative_zero(element: Element) -> bool:
    return is_const(element, 0) and element.dtype != "i64" and bool(np.signbit(element.value))
