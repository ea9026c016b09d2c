"""Matrix products as calls, if lengths make that worthwhile.

A sum of a product whose factors split into two groups is a matrix product, however it was written. Its rows
are the axes that occur in one group only, its columns those in the other group only, and its terms the axes
that are summed over. Several axes become one: `x[u, v, m] @ W[m, q]` is a product of (u v, m) and (m, q).
Other axes that both groups share are batch cases.

Whether a call beats the fused loops depends on lengths: `found` lists possible calls, `chosen` selects, and
`with_calls` rewrites the program. Loops keep in registers what calls must store, so a product with small
factors and a large result, such as over all pairs of points, is never chosen. Calls also split loops: what
these shared is stored or computed again. Unless products are so large that this does not matter
(`is_certain`), the targets compare the predicted times of both programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import prod

from adcompiler.analysis.affine import linear
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Array,
    Const,
    Contraction,
    Element,
    Func,
    Index,
    Read,
    Reduce,
    Select,
    Shape,
    closed,
    is_const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, arrays_of, elements_of, is_computed, rewrite, separate, substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, product
from adcompiler.ops.costs import costly
from adcompiler.ops.library import call
from adcompiler.passes.limits import (
    CASE_POINTS,
    CERTAIN_INTENSITY,
    KERNEL_POINTS,
    MOST_RESULT_RATIO,
    SHORTEST_LENGTH,
    SHORTEST_PACKED_LENGTH,
)
from adcompiler.passes.order.factors import factors_of

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """A sum that is a matrix product: its axes, and the groups of factors over (rows, terms) and (terms,
    columns). The terms are the axes that it sums over."""

    array: Reduce
    cases: Axes
    rows: Axes
    columns: Axes
    left: Element
    right: Element
    in_loop: bool = False  # whether iterations of a loop compute it

    @property
    def lengths(self) -> Shape:
        """The lengths of the cases, of rows, columns and terms."""
        cases = tuple(self.array.domain[a] for a in self.cases)
        return cases + tuple(self.length(axes) for axes in (self.rows, self.columns, self.terms))

    @property
    def is_packed(self) -> bool:
        """Whether its factors are packed from what they read, such as windows, instead of stored."""
        return any(map(_is_packed, (self.left, self.right)))

    @property
    def terms(self) -> Axes:
        """The axes that the product sums over."""
        return tuple(range(self.array.rank, len(self.array.domain)))

    def length(self, axes: Axes) -> Element:
        """The length of several axes flattened into one."""
        return product(self.array.domain[a] for a in axes)

    def place(self, axes: Axes) -> Element:
        """The index on several axes flattened into one."""
        place: Element = Index(axes[0])
        for a in axes[1:]:
            place = apply("add", apply("multiply", place, self.array.domain[a]), Index(a))
        return place

    def places(self, axes: Axes, place: Element) -> Iterator[tuple[int, Element]]:
        """The index on each of several axes, from the index on the flattened one."""
        for a in reversed(axes[1:]):
            length = self.array.domain[a]
            yield a, apply("remainder", place, length)
            place = apply("floor_divide", place, length)
        yield axes[0], place


def found(func: Func) -> list[Product]:
    """The matrix products of a program, in order."""
    made = [product_of(a) for a in arrays_of(func.roots) if isinstance(a, Reduce)]
    return [p for p in made if p is not None]


def found_in_loops(func: Func) -> list[Product]:
    """The matrix products of the iterations of a program's loops, of arrays as they are."""
    loops = dict.fromkeys(a.loop for a in arrays_of(func.roots) if isinstance(a, Item))
    work, found = [*loops], dict[Array, Product]()
    while work:
        for array in arrays_of(work.pop().roots):
            if isinstance(array, Item) and array.loop not in loops:
                loops[array.loop] = None
                work.append(array.loop)
            product = product_of(array)
            if product is not None and not product.is_packed:
                found[array] = replace(product, in_loop=True)
    return [*found.values()]


def chosen(lengths: Sequence[int], fewest: int | None = None, packed: bool = False) -> bool:
    """Whether a product of these lengths may be a call: cases, i, j, k. One whose factors are `packed` may
    have fewer rows or columns: the loops would read as many windows."""
    *cases, i, j, k = lengths
    points = i * j * k
    return (
        min(i, j) >= (SHORTEST_PACKED_LENGTH if packed else SHORTEST_LENGTH)
        and min(max(i, j), k) >= SHORTEST_LENGTH
        and (not cases or points >= CASE_POINTS)
        and prod(cases) * points >= (fewest or KERNEL_POINTS)
        and i * j <= MOST_RESULT_RATIO * k * (i + j)
    )


def is_certain(lengths: Sequence[int]) -> bool:
    """Whether calls are faster for a product of these lengths, even if the library's operands and its result
    are stored for it alone."""
    i, j, k = lengths[-3:]
    return i * j * k >= CERTAIN_INTENSITY * (i * j + i * k + j * k)


def with_calls(func: Func, products: Iterable[Product], packs: bool = False) -> Func:
    """The program with calls replacing these sums. If a target `packs`, those whose factors are not arrays as
    they are, such as windows, become contractions, whose tiles read them in place."""
    return _Calls({p.array: p for p in products}, packs).func(func)


class _Calls(Rewriter):
    def __init__(self, products: dict[Reduce, Product], packs: bool) -> None:
        super().__init__()
        self.products, self.packs = products, packs

    def inner(self, loop: Loop | Ruled) -> _Calls | None:
        return _Calls(self.products, self.packs) if isinstance(loop, Loop) else None

    def _rebuilt(self, array: Array) -> Array:
        made = super()._rebuilt(array)
        if isinstance(array, Reduce) and array in self.products:
            again = product_of(made)
            if again is None:
                return made
            if self.packs and again.is_packed:
                left = _factor(again, again.left, again.rows, again.terms)
                right = _factor(again, again.right, again.terms, again.columns)
                return Contraction(made.shape, again.array.reduced, left, right)
            return _called(again)
        return made


def product_of(array: Array) -> Product | None:
    """A sum as a matrix product, if it is one."""
    if not (isinstance(array, Reduce) and array.op == "sum"):
        return None
    if not is_float(array.dtype) or any(is_const(n, 1) or is_computed(n) for n in array.domain):
        return None
    factors = factors_of(array.body)
    for i in range(array.rank):
        for j in range(array.rank):
            made = _grouped(array, factors, i, j) if i != j else None
            if made is not None:
                return made
    return None


def _grouped(array: Reduce, factors: Sequence[Element], i: int, j: int) -> Product | None:
    """The product in which j is a column and i a row; None if the factors do not split that way."""
    left = [f for f in factors if j not in f.axes]
    right = [f for f in factors if j in f.axes]
    a, b = (frozenset[int]().union(*(f.axes for f in group)) for group in (left, right))
    terms = frozenset(range(array.rank, len(array.domain)))
    if i not in a - b or not (terms <= a & b and a | b == frozenset(range(len(array.domain)))):
        return None
    cases, rows, columns = (tuple(sorted(axes - terms)) for axes in (a & b, a - b, b - a))
    return Product(array, cases, rows, columns, product(left), product(right))


def _is_packed(group: Element) -> bool:
    """Whether a group of factors as a matrix would be a copy that is larger than what it reads, or have zeros
    around it: it reads windows, which place depends on several axes, or under conditions on places."""
    return any(
        any(len(i.axes) > 1 for i in e.args) if isinstance(e, Read) else _is_placed(e)
        for e in elements_of((group,))
        if is_float(e.dtype)
    )


def _factor(product: Product, group: Element, *ends: Axes) -> Element:
    """A factor of a contraction. One that is costly becomes an array, as for a call, unless it is packed."""
    if _is_packed(group) or not costly(group, {}):
        return group
    order = (*product.cases, *chain(*_layout(product, group, *ends)))
    axes = [a for a in order if a in group.axes]
    places: dict[int, Element] = {a: Index(k) for k, a in enumerate(axes)}
    array = closed(tuple(product.array.domain[a] for a in axes), substitute(group, places))
    return Read(array, tuple(map(Index, axes)))


def _layout(product: Product, group: Element, *ends: Axes) -> tuple[Axes, ...]:
    """The order of the axes of a group of factors that matches most of the arrays that it reads."""
    domain = product.array.domain
    transposed = _along(group, domain, *ends) > _along(group, domain, *reversed(ends))
    return ends[::-1] if transposed else ends


def _is_placed(element: Element) -> bool:
    """Whether a value depends on a condition on places."""
    return isinstance(element, Select) and bool(element.guard.axes) and not is_computed(element.guard)


def _called(product: Product) -> Array:
    """A product as a call, read in the order of the sum's axes."""
    array, rows, columns = product.array, product.rows, product.columns
    (left, transposed), (right, other) = (
        _matrix(product, product.left, rows, product.terms),
        _matrix(product, product.right, product.terms, columns),
    )
    cases = tuple(Index(a) for a in product.cases)
    if transposed and other:
        made, ends = call("matmul", right, left), (columns, rows)
    else:
        op = "matmul_tn" if transposed else "matmul_nt" if other else "matmul"
        made, ends = call(op, left, right), (rows, columns)
    return closed(array.shape, Read(made, (*cases, *map(product.place, ends))))


def _matrix(product: Product, group: Element, *ends: Axes) -> tuple[Array, bool]:
    """A group of factors as matrices, and whether they are transposed, to match the layout of most arrays
    read."""
    cases = product.cases if set(product.cases) <= group.axes else ()
    domain = product.array.domain
    layout = _layout(product, group, *ends)
    shape = [domain[a] for a in cases]
    places: dict[int, Element] = {a: Index(k) for k, a in enumerate(cases)}
    for axes in layout:
        places.update(product.places(axes, Index(len(shape))))
        shape.append(product.length(axes))
    return closed(tuple(shape), substitute(_shared(group, domain), places)), layout != ends


def _shared(group: Element, domain: Shape) -> Element:
    """A group of factors with costly parts that depend on fewer axes as arrays: where several axes become one
    row or column, no loop shows that these are the same for several elements."""
    known: dict[Element, bool] = {}
    parts = [e for e in elements_of((group,)) if 0 < len(e.axes) < len(group.axes) and costly(e, known)]
    inner = {a for e in parts for a in e.args}
    made = {e: separate(e, domain) for e in parts if e not in inner}
    return rewrite((group,), lambda e: e, dict(made))[0]


def _along(group: Element, domain: Shape, axes: Axes, across: Axes) -> int:
    """The number of matrices in a group whose rows are contiguous along some of the axes, and that depend on
    some of the others."""
    reads = (e for e in elements_of((group,)) if isinstance(e, Read) and len(e.args) > 1)
    found = (_contiguous(e.args[-1], domain) for e in reads if e.axes.intersection(across))
    return sum(axis in axes for axis in found)


def _contiguous(last: Element, domain: Shape) -> int | None:
    """The axis along which the last index counts; of several, as in windows, one of a length that is not
    known."""
    counted = [a.axis for a, n in linear(last).terms.items() if isinstance(a, Index) and n in (1, -1)]
    return min(counted, key=lambda axis: isinstance(domain[axis], Const), default=None)
