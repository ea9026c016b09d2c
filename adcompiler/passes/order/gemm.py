"""Matrix products as BLAS calls, if lengths make that worthwhile.

A sum over an axis k of a product whose factors fall in two groups, over (i, k) and over (k, j), is a matrix
product however it was written. Axes that both groups have are cases, and may be summed over afterwards.

Whether BLAS beats the fused loops depends on lengths: `found` lists possible calls, `chosen` selects, and
`with_calls` rewrites the program. Loops keep in registers what BLAS must store, so a product with small
factors and a large result, as of all pairs of points, is never chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from adcompiler.ir.nodes import (
    Apply,
    Array,
    Element,
    Func,
    Index,
    Read,
    Reduce,
    Shape,
    closed,
    const,
    is_const,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, arrays_of, is_computed, substitute
from adcompiler.ops.build import apply
from adcompiler.ops.library import call

SHORTEST_LENGTH = 32  # each of the three lengths
KERNEL_POINTS = 2**24  # points from which a product is worth a call, and a kernel of its own
CALL_POINTS = 2**20  # those from which it is worth a call beside the kernel
MOST_RESULT_RATIO = 8  # how many times as large as both factors the result may be


@dataclass(frozen=True)
class Product:
    """A sum that is a matrix product: its axes, and the groups of factors over (i, k) and (k, j)."""

    array: Reduce
    cases: tuple[int, ...]
    i: int
    j: int
    left: Element
    right: Element

    @property
    def lengths(self) -> Shape:
        """The lengths of the cases, of i, j and k."""
        return tuple(self.array.domain[a] for a in (*self.cases, self.i, self.j, self.k))

    @property
    def k(self) -> int:
        """The axis that the product sums over: the last one."""
        return len(self.array.domain) - 1


def found(func: Func) -> list[Product]:
    """The matrix products of a program, in order."""
    made = [_product(a) for a in arrays_of(func.roots) if isinstance(a, Reduce)]
    return [p for p in made if p is not None]


def chosen(lengths: Sequence[int], fewest: int | None = None) -> bool:
    """Whether to call BLAS for a product of these lengths: cases, i, j, k."""
    *cases, i, j, k = lengths
    # Cases are better in the fused loops: a library runs them one by one.
    return (
        not cases
        and min(i, j, k) >= SHORTEST_LENGTH
        and i * j * k >= (fewest or KERNEL_POINTS)
        and i * j <= MOST_RESULT_RATIO * k * (i + j)
    )


def with_calls(func: Func, products: Iterable[Product]) -> Func:
    """The program with calls in place of these sums."""
    return _Calls({p.array: p for p in products}).func(func)


class _Calls(Rewriter):
    def __init__(self, products: dict[Reduce, Product]) -> None:
        super().__init__()
        self.products = products

    def inner(self, loop: object) -> None:
        """Bodies of loops stay as they are."""

    def _rebuilt(self, array: Array) -> Array:
        made = super()._rebuilt(array)
        if isinstance(array, Reduce) and array in self.products:
            again = _product(made)
            return made if again is None else _called(again)
        return made


def _product(array: Array) -> Product | None:
    """A sum as a matrix product, if it is one."""
    if not (isinstance(array, Reduce) and array.op == "sum"):
        return None
    if not is_float(array.dtype) or any(is_const(n, 1) or is_computed(n) for n in array.domain):
        return None
    factors: list[Element] = []
    if not _flatten(array.body, factors):
        return None
    for i in range(array.rank):
        for j in range(array.rank):
            groups = _grouped(array, factors, i, j) if i != j else None
            if groups is not None:
                cases = tuple(a for a in range(len(array.domain) - 1) if a not in (i, j))
                return Product(array, cases, i, j, *groups)
    return None


def _flatten(element: Element, factors: list[Element]) -> bool:
    """Collect the factors of a product; False if it is none."""
    work = [element]
    while work:
        e = work.pop()
        match e:
            case Apply(op="multiply", args=(x, y)):
                work += (y, x)
            case Apply(op="divide", args=(x, y)):
                factors.append(apply("divide", const(1, e.dtype), y))
                work.append(x)
            case Apply(op="negative", args=(x,)):
                factors.append(const(-1, e.dtype))
                work.append(x)
            case _:
                factors.append(e)
    return len(factors) > 1


def _grouped(array: Reduce, factors: Sequence[Element], i: int, j: int) -> tuple[Element, Element] | None:
    """The factors over (i, k) and those over (k, j); None if they do not fall apart so. Of the other axes,
    the cases, a group has all or none, and one group has them."""
    k = len(array.domain) - 1
    cases, summed = frozenset(range(k)) - {i, j}, frozenset(range(array.rank, k))
    if any({i, j} <= f.axes for f in factors):
        return None
    left = [f for f in factors if j not in f.axes]
    right = [f for f in factors if j in f.axes]
    axes = [frozenset[int]().union(*(f.axes for f in group)) for group in (left, right)]
    if not ({i, k} <= axes[0] and {j, k} <= axes[1] and any(cases <= a for a in axes)):
        return None
    if not all(summed <= a and (cases <= a or not cases & a) for a in axes):
        return None
    return _times(left), _times(right)


def _times(factors: Sequence[Element]) -> Element:
    return reduce(lambda a, b: apply("multiply", a, b), factors)


def _called(product: Product) -> Array:
    """A product as a call, read in the order of the sum's axes."""
    array, k = product.array, product.k
    (left, turned), (right, other) = (
        _matrix(product, product.left, (product.i, k)),
        _matrix(product, product.right, (k, product.j)),
    )
    order = (*product.cases, product.i, product.j)
    if turned and other:
        made: Array = call("matmul", right, left)
        order = (*product.cases, product.j, product.i)
    else:
        made = call("matmul_tn" if turned else "matmul_nt" if other else "matmul", left, right)
    read = Read(made, tuple(Index(a) for a in order))
    over = array.reduced[:-1]
    return Reduce("sum", array.shape, over, read) if over else closed(array.shape, read)


def _matrix(product: Product, group: Element, ends: tuple[int, int]) -> tuple[Array, bool]:
    """A group of factors as matrices, and whether these are transposed, as an array is that it reads."""
    cases = product.cases if set(product.cases) <= group.axes else ()
    turned = False
    if isinstance(group, Read) and isinstance(group.args[-1], Index) and len(group.args) > 1:
        turned = group.args[-1].axis == ends[0]
    axes = (*cases, *(ends[::-1] if turned else ends))
    shape = tuple(product.array.domain[a] for a in axes)
    body = substitute(group, {a: Index(p) for p, a in enumerate(axes)})
    return closed(shape, body), turned
