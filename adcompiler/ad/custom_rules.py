"""Derivatives of arrays with a user's rule: its cotangents, and its transpose for tangents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from adcompiler.ad.guards import TRUE, Guarded, Tangent, either, holding, mask, negation, within
from adcompiler.errors import GradientError
from adcompiler.ir.bodies import Replace, like, opened_rule
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Element,
    Map,
    Put,
    Read,
    Reduce,
    Select,
    closed,
    element_of,
    identity,
    zeros_like,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of, read_by, substitute

# -- linearity ---------------------------------------------------------------------------------------
# Degrees in one array: whether a program is linear in it, by abstract interpretation.


FREE, LINEAR, OTHER = 0, 1, 2  # does not depend on it; linear, except for a part that is free; anything else
SUMS = ("add", "subtract", "negative", "strict", "f32", "f64")
Degrees = dict[Array, int]


def is_linear(roots: Iterable[Array], array: Array) -> bool:
    """Whether arrays are linear in `array`, up to parts that do not depend on it.

    Their derivatives then do not depend on `array`. The test is conservative: it may miss a linear program.
    """
    roots = tuple(roots)
    degrees: Degrees = {array: LINEAR}
    _follow(arrays_of(roots), degrees)
    return all(degrees[r] <= LINEAR for r in roots)


def _follow(order: Iterable[Array], degrees: Degrees) -> None:
    for array in order:
        if array not in degrees:
            degrees[array] = _degree(array, degrees)


def _degree(array: Array, degrees: Degrees) -> int:
    match array:
        case Item(loop=loop, k=k):
            return _loop(loop, degrees)[k]
        case Ruled(value=value):
            return degrees[value]
        case Call(operands=operands):
            return _free([degrees[a] for a in operands])
        case Map() | Reduce(op="sum"):
            return _element(array.elements[-1], degrees)
        case Accumulate():
            *places, body = (_element(e, degrees) for e in array.elements)
            return OTHER if any(places) else body
        case Put(base=base):
            *places, body = (_element(e, degrees) for e in array.elements)
            return OTHER if any(places) else max(body, degrees[base])
        case Reduce():
            return _free([_element(array.elements[-1], degrees)])
    return FREE


def _free(degrees: Iterable[int]) -> int:
    """The degree of an operation that is linear in none of its operands."""
    return OTHER if any(degrees) else FREE


def _loop(loop: Loop, degrees: Degrees) -> list[int]:
    """The degrees of a loop's results: those of carried values grow from iteration to iteration, up to a
    fixed point."""
    step, *slots = loop.slots
    carried = [degrees[a] for a in loop.inits]
    fixed = [degrees[a] for a in (*loop.scanned, *loop.consts)]
    while True:
        inner: Degrees = {step: FREE}
        inner.update(zip(slots, (*carried, *fixed), strict=True))
        _follow(arrays_of(loop.roots), inner)
        after = [max(inner[r], d) for r, d in zip(loop.results, carried, strict=True)]
        if after == carried:
            break
        carried = after
    test = FREE if loop.test is None else inner[loop.test]
    found = [*carried, *(inner[o] for o in loop.outs)]
    return [_free([test, d]) if test else d for d in found] + [_free([test])] * (loop.test is not None)


def _element(root: Element, degrees: Mapping[Array, int]) -> int:
    found: dict[Element, int] = {}
    for element in elements_of((root,)):
        found[element] = _applied(element, [found[a] for a in element.args], degrees)
    return found[root]


def _applied(element: Element, args: list[int], degrees: Mapping[Array, int]) -> int:
    match element:
        case Read(array=array):
            return OTHER if any(args) else degrees[array]
        case Select():
            return OTHER if args[0] else max(args[1:])
        case Apply(op="multiply"):
            return min(sum(args), OTHER)
        case Apply(op="divide"):
            return OTHER if args[1] else args[0]
        case Apply(op="fma"):
            return max(min(args[0] + args[1], OTHER), args[2])
        case Apply(op=op) if op in SUMS and is_float(element.dtype):
            return max(args)
    return _free(args)


Pull = Callable[
    [Sequence[Array], Sequence[Guarded | None], Sequence[Array], Collection[Array]], list[Guarded | None]
]


def reverse(array: Ruled, total: Guarded, active: set[Array]) -> Iterator[tuple[Array, Guarded]]:
    """The contributions to the cotangents of the array's arguments."""
    wanted = [k for k, a in enumerate(array.args) if a in active]
    cotangent = closed(array.shape, mask(total.value, total.guard))
    found = opened_rule(array, cotangent, [array.pulled[k] for k in wanted])
    guards = _guards(array, [array.pulled[k] for k in wanted], total.guard)
    for k, part, guard in zip(wanted, found, guards, strict=True):
        yield array.args[k], Guarded(guard, Read(part, identity(array.args[k].shape)))


def _guards(array: Ruled, pulled: Sequence[Array], guard: Element) -> list[Element]:
    """Where what a rule gives depends on a cotangent that counts where a guard holds."""
    if not guard.axes:
        return [guard for _ in pulled]
    place = like(array)
    roots = opened_rule(array, place, pulled)
    found: dict[Array, Element] = {place: guard}
    for each in arrays_of(roots):
        if each not in found and any(a in found for a in arrays_read(each)):
            found[each] = _guard_of(each, found)
    return [found.get(r, TRUE) for r in roots]


def _guard_of(array: Array, found: Mapping[Array, Element]) -> Element:
    """Where an array depends on others that count where their guards hold."""
    if not isinstance(array, Map | Reduce):
        return TRUE
    inside: dict[Element, Element] = {}
    for e in elements_of((array.body,)):
        if isinstance(e, Read) and e.array in found:
            inside[e] = substitute(found[e.array], dict(enumerate(e.args)))
        elif isinstance(e, Select):
            sides = ((e.guard, e.then), (negation(e.guard), e.otherwise))
            parts = [within(condition, inside[side]) for condition, side in sides if side in inside]
            inside |= {e: either(parts)} if parts else {}
        elif parts := [inside[a] for a in e.args if a in inside]:
            inside[e] = either(parts)
    return holding(inside.get(array.body, TRUE), array)


def forward(array: Ruled, tangents: Mapping[Array, Tangent], pull: Pull) -> Tangent | None:
    """The tangent of the array. The rule is linear in the cotangent c, so its transpose gives the tangent:
    the sum over arguments of (rule(c) · tangent) has the tangent as its gradient by c.

    Raises GradientError if the rule is not linear in the cotangent.
    """
    moving = [k for k, a in enumerate(array.args) if a in tangents and is_float(a.dtype)]
    if not moving:
        return None
    place = like(array)
    pulled = opened_rule(array, place, [array.pulled[k] for k in moving])
    ways = [tangents[array.args[k]] for k in moving]
    given = [Guarded(t.guard, element_of(t.value)) for t in ways]
    (found,) = pull(pulled, given, [place], [] if all(t.guard is TRUE for t in ways) else [place])
    if found is None:
        return Tangent(TRUE, zeros_like(array))
    tangent, guard = closed(array.shape, found.value), found.guard
    guarded = place in arrays_of(read_by((guard,)))
    if not guarded and place not in arrays_of((tangent,)):
        return Tangent(guard, tangent)
    if not is_linear(pulled, place):
        raise GradientError(
            "a rule is not linear in the cotangent, so it has no forward mode",
            remedy="use reverse mode: grad, vjp, or hessian by nested grad",
        )
    # Its value does not depend on the placeholder, which only recomputed carried values still read.
    return Tangent(TRUE if guarded else guard, Replace({place: zeros_like(place)}).run((tangent,))[0])
