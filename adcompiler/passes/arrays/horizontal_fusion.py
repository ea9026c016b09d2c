"""Horizontal fusion: a sum of reductions over one domain is one reduction of a sum.

If x[i] and x[j] both occur in a pairwise body, the gradient has two sums over pairs. Merged, they share
common parts and one register. So (z + x) + y becomes z + (x + y) if x and y are such sums.

Two scatters that add to different computed places, such as both ends of the edges of a graph, are one scatter
whose last axis counts them: its iterations share what they read, and all add to one array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from adcompiler.ad.guards import conjunction, mask
from adcompiler.analysis.loop_order import long_axes
from adcompiler.analysis.predicates import conditions, guarded
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Const,
    Element,
    Func,
    Index,
    Read,
    Reduce,
    Select,
    const,
    is_const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of, is_computed
from adcompiler.ops.build import apply
from adcompiler.ops.costs import is_function
from adcompiler.passes.algebra.strict import StrictRewriter
from adcompiler.passes.arrays.transpose import in_order
from adcompiler.passes.limits import MOST_SUM_TERMS

OPPOSITE = {"add": "subtract", "subtract": "add"}


def fuse_horizontally(func: Func) -> Func:
    """The program with reductions merged that are only added to each other."""
    return _Merge(func.roots).func(func)


class _Merge(StrictRewriter):
    def __init__(self, roots: Iterable[Array]) -> None:
        roots = tuple(roots)
        super().__init__(roots)
        self.single = _single(roots)
        self.depth = cache(self._depth)
        self.stacked: dict[Array, tuple[Accumulate, ...]] = {}  # what scatters with an axis for it add

    def _moved(self, element: Element) -> Element:
        """Terms of strict sums keep their order, but two sums added directly are merged."""
        match super()._moved(element):
            case Apply(op="add" | "subtract" as op, args=(Read() as x, Read() as y)) as moved:
                return self.together(op, x, y) or moved
            case moved:
                return moved

    def element(self, element: Element) -> Element:
        match element:
            case Apply(op="add" | "subtract" as op, args=(x, y)):
                return self.joined(op, x, y) or element
        return element

    def joined(self, op: str, x: Element, y: Element) -> Element | None:
        """x + y, or x - y, with y merged into the sum x or one of its terms; None if none matches."""
        others: list[tuple[str, Element]] = []
        while (made := self.together(op, x, y)) is None:
            if len(others) == MOST_SUM_TERMS or not (isinstance(x, Apply) and x.op in OPPOSITE):
                return None
            rest, last = x.args
            if (made := self.together(op if x.op == "add" else OPPOSITE[op], last, y)) is not None:
                made = apply(x.op, rest, made)
                break
            others.append((x.op, last))
            x = rest
        for other, last in reversed(others):
            made = apply(other, made, last)
        return made

    def together(self, op: str, x: Element, y: Element) -> Element | None:
        """x + y, or x - y, as one sum, if both are sums, multiples of one number, or under one guard."""
        match x, y:
            case Read(array=a), Read(array=b):
                if x.args != y.args and b in self.single:
                    b, y = _transposed(b, y, x.args)
                    self.single.add(b)
                if x.args == y.args and (made := self.merged(op, a, b)) is not None:
                    self.single.add(made)
                    return Read(made, x.args)
            case Apply(op="multiply", args=(Const() as number, u)), Apply(op="multiply", args=(other, v)):
                total = self.together(op, u, v) if number is other else None
                return None if total is None else apply("multiply", number, total)
            case Select(guard=guard), Select(guard=other) if guard is other:
                then = self.together(op, x.then, y.then)
                otherwise = None if then is None else self.together(op, x.otherwise, y.otherwise)
                return None if then is None or otherwise is None else select(guard, then, otherwise)
            case Const(), Const() if is_const(x, 0) and x is y:
                return x
        return None

    def merged(self, op: str, a: Array, b: Array) -> Array | None:
        """The sum, or the difference, of two sums over one domain as one, if these have no other readers, and
        are ready at the same time or compute the same function."""
        if not (a in self.single and b in self.single and a.shape == b.shape):
            return None
        match a, b:
            case Reduce(op="sum"), Reduce(op="sum"):
                # Different conditions give loops with different bounds.
                alike = conditions(a.op, a.body) == conditions(b.op, b.body)
                if alike and a.reduced == b.reduced and self.depth(a) == self.depth(b):
                    return Reduce(a.op, a.shape, a.reduced, _combined(op, a, b))
            case Accumulate(), Accumulate() if self.depth(a) == self.depth(b) or not (
                _functions(a).isdisjoint(_functions(b))
            ):
                if a.domain == b.domain and a.indices == b.indices:
                    return Accumulate(a.shape, a.domain, a.indices, _combined(op, a, b))
                return self.stack(op, a, b)
        return None

    def stack(self, op: str, a: Accumulate, b: Accumulate) -> Array | None:
        """Two scatters over one domain as one: the last axis of its domain counts what is added at a point.
        None if places that differ are those of loops, which other passes and threads tell apart, or if loops
        over pairs share functions with other nests."""
        if len(long_axes(a)) > 1 and (_functions(a) or _functions(b)):
            return None
        added = self.stacked.get(b, (b,))
        parts = (*self.stacked.get(a, (a,)), *(map(_negative, added) if op == "subtract" else added))
        places = [{*index} for index in zip(*(p.indices for p in parts), strict=True)]
        differ = [i for found in places if len(found) > 1 for i in found]
        plain = any(not (is_computed(i) or isinstance(i, Const)) for i in differ)
        if plain or len({p.domain for p in parts}) > 1 or not all(map(_is_computed, parts)):
            return None
        made = _stacked(parts)
        self.stacked[made] = parts
        return made

    def _depth(self, array: Array) -> int:
        """The longest chain of reductions that an array depends on."""
        below = max((self.depth(a) for a in arrays_read(array)), default=0)
        return below + isinstance(array, Reduce | Accumulate)


def _is_computed(array: Accumulate) -> bool:
    """Whether a scatter adds at computed places."""
    return any(map(is_computed, array.indices))


def _functions(array: Array) -> set[Element]:
    """The functions that are computed for each point of a domain."""
    axes = len(array.domain)
    return {e for e in elements_of(array.elements) if len(e.axes) == axes and is_function(e)}


def _single(roots: Iterable[Array]) -> set[Array]:
    """The arrays read by one operation only; several arrays may contain it."""
    found = Counter(roots)
    elements: set[Element] = set()
    for array in arrays_of(roots):
        if isinstance(array, Item | Ruled | Call):
            found.update(array.loop.operands if isinstance(array, Item) else array.operands)
        found.update(e.array for e in array.elements if isinstance(e, Read))
        elements.update(elements_of(array.elements))
    found.update(a.array for e in elements for a in e.args if isinstance(a, Read))
    return {a for a, count in found.items() if count == 1}


def _transposed(array: Array, read: Read, places: tuple[Element, ...]) -> tuple[Array, Read]:
    """A sum read at plain axes, transposed to the order of `places`: b[j, i] as another b[i, j]."""
    axes = [i.axis for i in read.args if isinstance(i, Index)]
    if not isinstance(array, Reduce) or len(axes) < array.rank or set(read.args) != set(places):
        return array, read
    transposed = in_order(array, (read.args.index(place) for place in places))
    return transposed, Read(transposed, places)


def _combined(op: str, a: Array, b: Array) -> Element:
    """The body of the sum, or the difference, of two arrays. What both add only under a condition, they add
    together under it, so that a loop over pairs still has bounds by it."""
    x, y = a.elements[-1], b.elements[-1]
    if isinstance(a, Reduce):
        return apply(op, x, y)
    common, (one, other) = _under(x, y)
    made = apply(op, one, other)
    return select(conjunction(common), made, const(0, x.dtype)) if common else made


def _under(*bodies: Element) -> tuple[list[Element], list[Element]]:
    """The conditions under which all bodies are not zero, and what these are where they hold."""
    found = [guarded(body) for body in bodies]
    common = [c for c in found[0][0] if all(c in own for own, _ in found)]
    if not common:
        return [], [*bodies]
    return common, [mask(value, conjunction(c for c in own if c not in common)) for own, value in found]


def _stacked(parts: Sequence[Accumulate]) -> Accumulate:
    """Scatters over one domain as one, with a last axis for the parts."""
    first, axis = parts[0], Index(len(parts[0].domain))

    def chosen(values: Sequence[Element]) -> Element:
        made = values[-1]
        for k in reversed(range(len(values) - 1)):
            if values[k] is not made:
                made = select(apply("less", axis, const(k + 1, "i64")), values[k], made)
        return made

    common, bodies = _under(*(p.body for p in parts))
    body = select(conjunction(common), chosen(bodies), const(0, first.dtype)) if common else chosen(bodies)
    places = tuple(map(chosen, zip(*(p.indices for p in parts), strict=True)))
    return Accumulate(first.shape, (*first.domain, const(len(parts), "i64")), places, body)


def _negative(array: Accumulate) -> Accumulate:
    return Accumulate(array.shape, array.domain, array.indices, apply("negative", array.body))
