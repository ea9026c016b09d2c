"""Move factors out of sums: the sum over i and a of f(i, a) g(a) is the sum over a of g(a) times that of f.

The first form multiplies for each pair (i, a) and each element of the result; the second adds up f once, for
all elements. In the gradient of a mixture of Gaussians, for example, the precision matrix is multiplied by
the sum of the points, not by every point. The rewrite applies if each of the two sums is over fewer long axes
than the original, and the array between them is no larger than the result; also if the sum over a is an array
that only the sum over i reads. It also applies if all other factors depend on every axis: the sum over i and
j of m(i) f(i, j), with m outside the innermost loop, may use sums over j that exist already. Sums of floats
change by rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce as fold_left

from adcompiler.analysis.loop_order import long_axes, loop_order
from adcompiler.ir.nodes import Apply, Array, Element, Func, Index, Map, Read, Reduce, const, select
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    Rewriter,
    arrays_of,
    arrays_read,
    elements_of,
    rewrite,
    substitute,
    with_elements,
)
from adcompiler.ops.build import apply


def factor(func: Func) -> Func:
    """The program with factors moved out of sums."""
    return _Factor().func(func)


class _Factor(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.readers: Counter[Array] = Counter()

    def run(self, results: Iterable[Array]) -> tuple[Array, ...]:
        """Rewrite arrays and all their operands, after counting the readers of each."""
        results = tuple(results)
        self.readers = Counter(results)
        for array in arrays_of(results):
            self.readers.update(set(arrays_read(array)))
        return super().run(results)

    def _rebuilt(self, array: Array) -> Array:
        return super()._rebuilt(self._in_one(array))

    def _in_one(self, array: Array) -> Array:
        """Merge a sum of sums into one sum if a factor can be moved out of it: the sum over i of the sum over
        a of f(i, a) g(a), if nothing else reads the inner sums."""
        while isinstance(array, Reduce) and array.op == "sum" and is_float(array.dtype):
            _, factors = factors_of(array.body)
            alone = (f for f in factors if _is_alone(f, factors))
            joined = next(filter(None, (self._joined(array, f) for f in alone)), None)
            axis = None if joined is None else _axis(joined)
            if joined is None or axis is None or not array.rank <= axis < len(array.domain):
                break
            array = joined
        return array

    def _joined(self, array: Reduce, factor: Element) -> Reduce | None:
        """Merge a sum with a factor that is itself a sum at each point."""
        if not isinstance(factor, Read) or self.readers[factor.array] != 1:
            return None
        inner, points = factor.array, len(array.domain)
        places = [i.axis for i in factor.args if isinstance(i, Index)]
        if not isinstance(inner, Reduce) or (inner.op, inner.dtype) != ("sum", array.dtype):
            return None
        if sorted(places) != list(range(points)) or len(places) < inner.rank:
            return None
        moved = dict(
            enumerate(map(Index, (*places, *range(points, points + len(inner.domain) - inner.rank))))
        )
        body = substitute(inner.body, moved)
        (body,) = rewrite((array.body,), lambda e: body if e is factor else e)
        return Reduce("sum", array.shape, (*array.domain[array.rank :], *inner.domain[inner.rank :]), body)

    def array(self, array: Array) -> Array:
        lengths: list[Element] = []
        while isinstance(array, Reduce) and array.op == "sum" and is_float(array.dtype):
            axis = _axis(array)
            if axis is None:
                break
            lengths.append(array.domain[axis])
            array = _in_two(array, axis)
        if not lengths:
            return array
        whole = array.elements[-1]
        return with_elements(array, lambda es: tuple(of_some(e, lengths) if e is whole else e for e in es))


def _is_alone(factor: Element, factors: Sequence[Element]) -> bool:
    """Whether no other factor reads the array of a factor: sin(s[i]) * s[i] needs all of s[i] twice."""
    others = [f for f in factors if f is not factor]
    read = {e.array for e in elements_of(others) if isinstance(e, Read)}
    return len(others) == len(factors) - 1 and not (isinstance(factor, Read) and factor.array in read)


def _axis(array: Reduce) -> int | None:
    """A reduced axis that some factors do not depend on, if splitting the sum there pays."""
    _, factors = factors_of(array.body)
    long = frozenset(long_axes(array))
    kept = sum(k < array.rank for k in long)
    for axis in sorted(long - set(range(array.rank))):
        own = _axes(f for f in factors if axis in f.axes)
        rest = _axes(f for f in factors if axis not in f.axes)
        if own and (rest - own) & long and len(own & long) - 1 <= max(kept, 1):
            return axis
    *_, inner = (-1, *(k for k in loop_order(array) if k in long))
    outer = [f for f in factors if inner not in f.axes]
    if inner >= array.rank and len(outer) < len(factors) and any(_reduced(array, f) & long for f in outer):
        return inner
    return None


def _reduced(array: Reduce, element: Element) -> frozenset[int]:
    """The axes of an element that an array sums over."""
    return frozenset(k for k in element.axes if k >= array.rank)


def _in_two(array: Reduce, axis: int) -> Array:
    """Split a sum into one over an axis, and one over the others."""
    negated, factors = factors_of(array.body)
    inside = _summed(array, [f for f in factors if axis in f.axes], axis)
    body = _product([inside, *(f for f in factors if axis not in f.axes)])
    return _without(array, axis, apply("negative", body) if negated else body)


def of_some(body: Element, lengths: Sequence[Element]) -> Element:
    """A body that is 0 if one of the lengths is 0: an empty sum is 0, even where a factor is infinite."""
    zero = const(0, "i64")
    for length in lengths:
        body = select(apply("less", zero, length), body, const(0, body.dtype))
    return body


def factors_of(body: Element) -> tuple[bool, list[Element]]:
    """Whether a body is negated, and its factors."""
    negated, found, work = False, list[Element](), [body]
    while work:
        element = work.pop()
        if isinstance(element, Apply) and element.op == "negative":
            negated = not negated
            work.append(element.args[0])
        elif isinstance(element, Apply) and element.op == "multiply":
            work.extend(reversed(element.args))
        else:
            found.append(element)
    return negated, found


def _axes(elements: Iterable[Element]) -> frozenset[int]:
    return frozenset[int]().union(*(e.axes for e in elements))


def _product(factors: Sequence[Element]) -> Element:
    return fold_left(lambda x, y: apply("multiply", x, y), factors)


def _summed(array: Reduce, factors: Sequence[Element], axis: int) -> Element:
    """The sum of a product over one axis, read at the other axes that it depends on."""
    axes = sorted(_axes(factors) - {axis})
    moved: dict[int, Element] = {k: Index(p) for p, k in enumerate((*axes, axis))}
    shape = tuple(array.domain[k] for k in axes)
    total = Reduce("sum", shape, (array.domain[axis],), substitute(_product(factors), moved))
    return Read(total, tuple(map(Index, axes)))


def _without(array: Reduce, axis: int, body: Element) -> Array:
    """A sum over all reduced axes of another sum except one."""
    body = substitute(body, {k: Index(k - (k > axis)) for k in range(len(array.domain))})
    reduced = tuple(n for k, n in enumerate(array.domain) if k >= array.rank and k != axis)
    return Reduce("sum", array.shape, reduced, body) if reduced else Map(array.shape, body)
