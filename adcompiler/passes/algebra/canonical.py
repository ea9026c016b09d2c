"""Give equal terms one form, so that f(x[i], x[j]) and its mirror image with i and j exchanged become one.

Two operands that differ only in their axes are sorted by these axes: m[j] * m[i] becomes m[i] * m[j]. Signs
are moved out of squares, and out of the terms of a sum: (x[j] - x[i]) * g becomes -((x[i] - x[j]) * g). Every
value keeps its bits, except for the sign of a zero where the sum or the square ignores it.
"""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    Select,
    const,
    is_const,
    select,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, arrays_of, elements_of, postorder, rewrite, substitute
from adcompiler.ops.build import apply

COMMUTATIVE = frozenset(("add", "multiply", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"))
Signed = tuple[bool, Element]  # whether a value is negated, and the value without its sign


def canonical(func: Func) -> Func:
    """The same program with one form for terms that are equal up to an exchange of axes."""
    pairs = any(len(array.domain) > 1 for array in arrays_of(func.roots))
    return _Canonical().func(func) if pairs else func


class _Canonical(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.skeletons: dict[Element, Element] = {}
        self.signs: dict[Element, Signed] = {}

    def array(self, array: Array) -> Array:
        if not isinstance(array, Reduce) or array.op != "sum" or not is_float(array.dtype):
            return array
        negated, body = self.signed(array.body)
        return Reduce("sum", array.shape, array.reduced, apply("negative", body) if negated else body)

    def element(self, element: Element) -> Element:
        match element:
            case Apply(op="multiply", args=(x, y)) if x is y:
                x = self.signed(x)[1]
                return apply("multiply", x, x)
            case Apply(op="square" | "abs" | "cos" | "cosh" as op, args=(x,)):
                return apply(op, self.signed(x)[1])
            case Apply(op=op, args=(x, y)) if op in COMMUTATIVE and self.exchanged(x, y):
                return apply(op, y, x)
            case Read(array=Map() | Reduce() as array):
                return self.with_sorted_axes(element, array)
        return element

    def with_sorted_axes(self, read: Read, array: Map | Reduce) -> Read:
        """`read` with its axes sorted, if the array is symmetric in them: d[j, i] is d[i, j]."""
        axes = [i.axis for i in read.args if isinstance(i, Index)]
        places = {axis: p for p, axis in enumerate(sorted(axes))}
        if not len(places) == len(axes) == array.rank or axes == sorted(axes):
            return read
        body = substitute(array.body, {k: Index(places[axis]) for k, axis in enumerate(axes)})
        body = rewrite((body,), self.element)[0]
        match array:
            case Map():
                other: Array = Map(array.shape, body)
            case Reduce():
                other = self.array(Reduce(array.op, array.shape, array.reduced, body))
        same = all(array.shape[k] is array.shape[places[axis]] for k, axis in enumerate(axes))
        return Read(array, tuple(Index(axis) for axis in sorted(axes))) if same and other is array else read

    def exchanged(self, x: Element, y: Element) -> bool:
        """Whether y is x with other axes, and its axes sort first."""
        return x is not y and self.skeleton(x) is self.skeleton(y) and _axes(y) < _axes(x)

    def skeleton(self, element: Element) -> Element:
        """`element` with all its axes replaced by one."""
        return substitute(element, dict.fromkeys(element.axes, Index(0)), self.skeletons)

    def signed(self, root: Element) -> Signed:
        """`root` split into a sign and the rest."""
        found = self.signs
        for element in postorder((root,), lambda e: () if e in found else _carriers(e)):
            if element not in found:
                found[element] = self.drawn(element, [found[a] for a in _carriers(element)])
        return found[root]

    def drawn(self, element: Element, parts: Sequence[Signed]) -> Signed:
        """Split one operation into a sign and the rest, given its split operands."""
        match element, parts:
            case Const(value=value), _ if is_float(element.dtype) and value < 0:
                return True, const(-value, element.dtype)
            case Apply(op="negative"), [(sign, x)]:
                return not sign, x
            case Apply(op="multiply"), [(sign, x), (other, y)]:
                return sign != other, self.element(apply("multiply", x, y))
            case Apply(op="divide", args=(_, y)), [(sign, x)]:
                return sign, apply("divide", x, y)
            case Apply(op="add" | "subtract" as op), [(sign, x), (other, y)]:
                return self.total(sign, x, other != (op == "subtract"), y)
            case Select(guard=guard), [(sign, x), (other, y)]:
                if sign == other or is_const(y, 0):
                    return sign, select(guard, x, y)
                return False, select(guard, _negated(sign, x), _negated(other, y))
        return False, element

    def total(self, sign: bool, x: Element, other: bool, y: Element) -> Signed:
        """The sum of two signed terms. A difference starts with its positive term, unless its terms are
        exchanged."""
        if sign == other:
            return sign, self.element(apply("add", x, y))
        if self.skeleton(x) is self.skeleton(y):
            swap = self.exchanged(x, y)
            return sign != swap, apply("subtract", y, x) if swap else apply("subtract", x, y)
        return False, apply("subtract", y, x) if sign else apply("subtract", x, y)


def _carriers(element: Element) -> tuple[Element, ...]:
    """The operands whose signs can be moved out of the operation."""
    match element:
        case Apply(op="add" | "subtract" | "multiply" | "negative"):
            return element.args
        case Apply(op="divide"):
            return element.args[:1]
        case Select():
            return element.args[1:]
    return ()


def _negated(sign: bool, element: Element) -> Element:
    return apply("negative", element) if sign else element


def _axes(element: Element) -> list[int]:
    """The axes of an element, in order of occurrence."""
    return [e.axis for e in elements_of((element,)) if isinstance(e, Index)]
