"""Strict floating point for values that decide: no contraction, no reassociation, no algebraic rewriting.

In a comparison, an extremum or a rounding, one last bit can select another element, branch or integer. Its
operand is often recomputed elsewhere: the derivative of max(f(i) for i in range(n)) compares f(i) with the
maximum, a program uses max(t) - t, and the backward pass tests which branch was taken. All of them must see
the same value, so it is computed by the same operations in the same order, each rounded separately, in every
loop, kernel and program.

The pass marks such values with the primitive `strict`, the identity, which no algebraic pass looks through:

- operands of comparisons, extrema, rounding and similar functions, and of reductions that take extrema;
- the same values elsewhere, with any names of axes: t[j] and t[i] are one value at different places;
- functions that a marked value is computed from, where they are called elsewhere too: that is one call;
- what a marked value depends on in other maps, also those that a loop reads, and in sums short enough to be
  unrolled. A longer sum and a result of a loop are computed once: all their readers have the same value.

Below a mark, passes that change rounding change nothing (`StrictRewriter`), and kernels multiply without
contraction (`kernels/schedule/strict_elements.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import Apply, Array, Const, Element, Func, Index, Map, Read, Reduce, Select, Size
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    Rewriter,
    arrays_of,
    elements_of,
    postorder,
    read_by,
    rewrite,
    substitute,
    with_args,
)
from adcompiler.ops.build import apply
from adcompiler.ops.costs import is_function
from adcompiler.ops.decisions import decision_operands, is_extremum, is_repeatable

STRICT = "strict"


def strict(func: Func) -> Func:
    """The program with every deciding value, and each of its occurrences, marked as strict."""
    found = _Decided(func.roots)
    return _Mark(found, None).func(func) if found.marked or found.sums else func


Body = Loop | None  # the body of a loop, or the whole program


class _Decided:
    """Finds the elements to mark in a program and its loop bodies, and the short sums whose reads to mark.
    Bodies are kept separate: slots of two loops may be one node."""

    def __init__(self, roots: Iterable[Array]) -> None:
        self.arrays: dict[Body, list[Array]] = {}
        self.outside: dict[Loop, list[Body]] = {}  # the bodies that contain a loop
        self.enter(None, roots)
        self.marked: dict[Body, set[Element]] = {}
        self.sums: dict[Body, set[Array]] = {}
        self.followed: set[tuple[Body, Array]] = set()
        self.pending = [
            (body, e)
            for body, a in self.arrays.items()
            for array in a
            for g in decision_operands(array)
            for e in g
        ]
        self.spread()
        for body, marked in self.marked.items():
            self.pending += ((body, e) for e in _elsewhere(marked, self.arrays[body]))
        self.spread()

    def enter(self, body: Body, roots: Iterable[Array]) -> None:
        """Collect the arrays of a program and of its loop bodies."""
        work: list[tuple[Body, Iterable[Array]]] = [(body, roots)]
        while work:
            body, roots = work.pop()
            self.arrays[body] = arrays_of(roots)
            for loop in dict.fromkeys(a.loop for a in self.arrays[body] if isinstance(a, Item)):
                if loop not in self.outside:
                    work.append((loop, loop.roots))
                self.outside.setdefault(loop, []).append(body)

    def spread(self) -> None:
        """Mark pending elements, and their operands in other arrays."""
        while self.pending:
            body, element = self.pending.pop()
            marked = self.marked.setdefault(body, set())
            if isinstance(element, Select):  # mark the branches separately; zeros stay visible
                self.pending += ((body, e) for e in element.args[1:])
            elif isinstance(element, Apply) and element.op != STRICT and element not in marked:
                marked.add(element)
            elif not isinstance(element, Read):
                continue
            for array in read_by((element,)):
                self.follow(body, array)

    def follow(self, body: Body, array: Array) -> None:
        """Mark the elements of an array that a marked value reads, unless it is computed once."""
        if (body, array) in self.followed or not is_float(array.dtype):
            return
        self.followed.add((body, array))
        if is_repeatable(array):
            self.pending += ((body, e) for e in array.elements)
            if isinstance(array, Reduce) and not is_extremum(array):
                self.sums.setdefault(body, set()).add(array)
        elif isinstance(array, Slot) and isinstance(body, Loop):
            for outside in self.outside[body]:
                self.follow(
                    outside, body.operands[array.position - 1]
                )  # the first slot is the iteration's number


# -- one value at different places --------------------------------------------------------------


def _elsewhere(marked: set[Element], arrays: Iterable[Array]) -> list[Element]:
    """The elements of a program that equal marked ones, and functions elsewhere that are below one."""
    roots = [e for array in arrays for e in array.elements]
    outside = postorder(roots, lambda e: () if e in marked else e.args)
    below = {e for e in elements_of(marked) if is_function(e)} - marked
    found = _equal_elsewhere(marked, elements_of(roots), marked)
    return [*found, *_equal_elsewhere(below, outside, marked)]


def _equal_elsewhere(
    values: set[Element], elements: Iterable[Element], marked: set[Element]
) -> list[Element]:
    """Those of some elements of a program that equal `values` up to the names of axes, and are not marked."""
    alike = _alike()
    kinds = {alike(e) for e in values}
    forms = {_renumbered(e) for e in values}
    return [
        e for e in elements
        if isinstance(e, Apply) and e not in marked and alike(e) in kinds and _renumbered(e) in forms
    ]  # fmt: skip


def _alike() -> Callable[[Element], int]:
    """A hash of elements that ignores the names of axes."""
    known: dict[Element, int] = {}

    def own(e: Element) -> object:
        match e:
            case Const():
                return e
            case Index():
                return Index
            case Size(number=number):
                return number
            case Read(array=array):
                return array
        return getattr(e, "op", type(e))

    def alike(element: Element) -> int:
        for e in postorder((element,), lambda e: () if e in known else e.args):
            if e not in known:
                known[e] = hash((own(e), e.dtype, *(known[a] for a in e.args)))
        return known[element]

    return alike


def _renumbered(element: Element) -> Element:
    """An element with its axes renumbered in order of occurrence."""
    axes = dict.fromkeys(e.axis for e in elements_of((element,)) if isinstance(e, Index))
    return substitute(element, {k: Index(p) for p, k in enumerate(axes)})


class _Mark(Rewriter):
    """Marks elements, and reads of sums, in one program."""

    def __init__(self, found: _Decided, body: Body) -> None:
        super().__init__()
        self.found = found
        self.marked, self.sums = found.marked.get(body, set()), found.sums.get(body, set())
        self.lengths: dict[Element, Element] = {}

    def _resize(self, lengths: tuple[Element, ...]) -> tuple[Element, ...]:
        """Do not mark lengths: each is computed once per call, and slots are as long as their operands."""

        def moved(element: Element) -> Element:
            return Read(self.arrays[element.array], element.args) if isinstance(element, Read) else element

        return rewrite(lengths, moved, self.lengths)

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return type(self)(self.found, loop) if isinstance(loop, Loop) else None

    def _change(self, elements: tuple[Element, ...]) -> tuple[Element, ...]:
        done = self.elements
        for e in postorder(elements, lambda e: () if e in done else e.args):
            if e not in done:
                made = self._visit(with_args(e, tuple(done[a] for a in e.args)))
                marked = e.array in self.sums if isinstance(e, Read) else e in self.marked
                done[e] = apply(STRICT, made) if marked else made
        return tuple(done[e] for e in elements)


# -- below a mark -------------------------------------------------------------------------------


def strict_elements(roots: Iterable[Array]) -> set[Element]:
    """The marks of a program, all elements below them, and those of the maps that they read."""
    found: set[Element] = set()
    work = [e for a in arrays_of(roots) for e in elements_of(a.elements) if is_strict(e)]
    while work:
        below = [e for e in elements_of(work) if e not in found]
        found.update(below)
        work = [e.array.body for e in below if isinstance(e, Read) and isinstance(e.array, Map)]
        work = [e for e in work if e not in found]
    return found


def is_strict(element: Element) -> bool:
    """Whether an element is the mark of a strict value."""
    return isinstance(element, Apply) and element.op == STRICT


class StrictRewriter(Rewriter):
    """A rewriter that changes rounding of non-strict elements only."""

    def __init__(self, roots: Iterable[Array]) -> None:
        super().__init__()
        self.strict = strict_elements(roots)

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return type(self)(loop.roots)

    def _change(self, elements: tuple[Element, ...]) -> tuple[Element, ...]:
        kept = tuple(e for e in elements_of(elements) if e in self.strict)
        rewrite(kept, self._moved, self.elements)
        return super()._change(elements)

    def _moved(self, element: Element) -> Element:
        return Read(self.arrays[element.array], element.args) if isinstance(element, Read) else element
