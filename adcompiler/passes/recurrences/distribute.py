"""Loop distribution: functions that do not depend on carried values are computed before the loop.

A loop that carries scalars runs in order and calls functions one by one. Functions of rows, of the iteration
number and of constants, such as time[i]**a, need not wait: in a separate nest before the loop they are
vectorised and run in parallel, and the loop reads a row. That takes one number per iteration, as their
operands' rows do. Of an inner loop, such functions are computed before the outer one, which would repeat
them, if they depend on nothing that an iteration of the outer loop changes. All others would need an array
for each iteration of the outer loop.

If a collected value is a row, such as a function that a backward pass reads again, the row's array replaces
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Call,
    Const,
    Element,
    Func,
    Index,
    Input,
    Map,
    Node,
    Read,
    closed,
)
from adcompiler.ir.origins import follow
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import (
    Rewriter,
    arrays_of,
    arrays_read,
    elements_of,
    is_computed,
    postorder,
    with_args,
)
from adcompiler.ops.costs import is_function
from adcompiler.passes.algebra.strict import STRICT
from adcompiler.passes.limits import FEWEST_SPLIT_ITERATIONS
from adcompiler.passes.recurrences.loop_invariant import hoist_loop_invariants


def distribute(func: Func) -> Func:
    """The program with functions that do not depend on carried values in nests before the loops."""
    while True:
        parted: list[Loop] = []
        func = _Distribute(parted).func(func)
        if not parted:
            return func
        func = hoist_loop_invariants(func)  # what reverse loops read of these is now known before them


class _Distribute(Rewriter):
    """`around` is the loop whose body is rewritten, if it is one, and `parted` gets the inner loops that were
    distributed."""

    def __init__(self, parted: list[Loop], around: Loop | None = None) -> None:
        super().__init__()
        self.parted, self.around = parted, around
        self.collected: dict[Loop, list[Array]] = {}  # the new items of each loop
        self.fixed: set[Array] = set()  # arrays that are the same in each iteration of the loop around

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        """Rules are unchanged."""
        return _Distribute(self.parted, loop) if isinstance(loop, Loop) else None

    def run(self, results: Iterable[Array]) -> tuple[Array, ...]:
        """Rewrite arrays of the program, or those of an iteration."""
        if self.around is not None:
            self.fixed |= {self.arrays.get(s, s) for s in self.around.const_slots}
        return super().run(results)

    def array(self, array: Array) -> Array:
        """An array as it is."""
        inside = self.around is not None and not isinstance(array, Input)
        if inside and self.fixed.issuperset(arrays_read(array)):
            self.fixed.add(array)
        return array

    def _item(self, item: Item) -> Array:  # type: ignore[override]
        if item.loop not in self.loops:
            made = self.loops[item.loop] = self._loop(item.loop)
            self.loops[item.loop], self.collected[item.loop] = _without_rows(made)
        return self.collected[item.loop][item.k]

    def _loop(self, loop: Loop) -> Loop:
        loop = super()._loop(loop)
        length = loop.length
        if length is None or loop.test is not None or is_computed(length):
            return loop
        few = isinstance(length, Const) and int(length.value) < FEWEST_SPLIT_ITERATIONS
        if self.around is None and few:
            return loop
        before = _Before(loop)
        found = {e: closed((length,), before.values[e]) for e in before.functions(loop.roots)}
        if self.around is not None:
            found = {e: a for e, a in found.items() if self.fixed.issuperset(arrays_read(a))}
            self.parted += [loop] if found else []
        if not found:
            return loop
        body = _Body(loop, found)
        self.bodies.append(body)
        return body.loop


class _Before:
    """The elements of a loop's body that are known before the loop. `values` gives them as elements over the
    iterations, and `rows` are those that read a row."""

    def __init__(self, loop: Loop) -> None:
        first = 1 + len(loop.inits)
        last = first + len(loop.scanned)
        self.step, self.consts = loop.slots[0], dict(zip(loop.slots[last:], loop.consts, strict=True))
        slots = loop.slots[first:last]
        self.wholes: dict[Array, Array] = dict(zip(slots, loop.scanned, strict=True))
        self.values: dict[Element, Element] = {}
        self.rows: set[Element] = set()
        self.stepping: set[Element] = set()  # those that depend on the iteration's number
        self.numbers: dict[Array, Element] = {}
        for array in arrays_of(loop.roots):
            for element in elements_of(array.elements):
                if element not in self.values:
                    self.enter(element)
            if isinstance(array, Map) and not array.rank and array.body in self.values:
                self.numbers[array] = array.body

    def enter(self, element: Element) -> None:
        """Add an element, if all its operands are known."""
        if isinstance(element, Index) or not all(a in self.values for a in element.args):
            return
        made = self.rows.intersection(element.args)
        args = tuple(self.values[a] for a in element.args)
        value: Element | None = None
        if not isinstance(element, Read):
            value = with_args(element, args)
        elif element.array in self.numbers:
            number = self.numbers[element.array]
            value, made = self.values[number], self.rows.intersection((number,))
        elif element.array in self.wholes:
            value, made = Read(self.wholes[element.array], (Index(0), *args)), {element}
        elif element.array in self.consts:
            value = Read(self.consts[element.array], args)
            if not self.stepping.isdisjoint(element.args):
                made = {element}
        elif element.array is self.step:
            value = Index(0)
        if value is not None:
            self.values[element] = value
            if 0 in value.axes:
                self.stepping.add(element)
            follow({element: value})
            if made:
                self.rows.add(element)

    def functions(self, roots: Iterable[Node]) -> list[Element]:
        """The functions of rows that the body needs, except those inside other ones."""

        def parts(node: Node) -> Iterable[Node]:
            if isinstance(node, Array):
                operands = node.operands if isinstance(node, Call | Ruled) else ()
                operands = node.loop.operands if isinstance(node, Item) else operands
                return (*node.shape, *node.domain, *node.elements, *operands)
            assert isinstance(node, Element)
            if node in self.rows and is_function(node):
                return ()
            return (*node.args, node.array) if isinstance(node, Read) else node.args

        needed = postorder([*roots], parts) if self.rows else []
        return [n for n in needed if isinstance(n, Element) and n in self.rows and is_function(n)]


def _whole_rows(loop: Loop) -> dict[Array, Array]:
    """The arrays that a loop reads row by row, by the slots of the rows."""
    rows = zip(loop.slots[1 + len(loop.inits) :], loop.scanned, strict=False)
    return {slot: whole for slot, whole in rows if whole.shape[0] is loop.length}


def _without_rows(loop: Loop) -> tuple[Loop, list[Array]]:
    """The loop without collected values that are rows, and the arrays of its results."""
    wholes, count = _whole_rows(loop), len(loop.results)
    same = [_row(out, wholes) for out in loop.outs]
    outs = tuple(out for out, whole in zip(loop.outs, same, strict=True) if whole is None)
    if len(outs) < len(loop.outs):
        operands = (loop.length, loop.inits, loop.scanned, loop.consts)
        loop = Loop(*operands, loop.results, outs, loop.test, loop.backward)
    items = iter(loop.items)
    finals = [next(items) for _ in range(count)]
    return loop, [*finals, *(next(items) if whole is None else whole for whole in same), *items]


def _row(out: Array, wholes: Mapping[Array, Array]) -> Array | None:
    """The array whose row a collected number is. A mark says nothing about a value that is stored."""
    body = out.body if isinstance(out, Map) and not out.rank else None
    while isinstance(body, Apply) and body.op == STRICT:
        body = body.args[0]
    return wholes.get(body.array) if isinstance(body, Read) and not body.args else None


class _Body(Replace):
    """Rebuilds a loop so that it reads some elements of its body from rows of arrays."""

    def __init__(self, loop: Loop, wholes: Mapping[Element, Array]) -> None:
        more = dict.fromkeys(w for w in wholes.values() if w not in loop.scanned)
        scanned = (*loop.scanned, *more)
        operands = (loop.length, loop.inits, scanned, loop.consts)
        slots = Loop(*operands, (), (), None, loop.backward).slots
        consts = len(slots) - len(loop.consts)
        kept = (*slots[: len(loop.slots) - len(loop.consts)], *slots[consts:])
        super().__init__(dict(zip(loop.slots, kept, strict=True)))
        rows = dict(zip(scanned, slots[1 + len(loop.inits) :], strict=False))
        self.elements.update((e, Read(rows[whole], ())) for e, whole in wholes.items())
        roots = self.run(loop.roots)
        results, outs = roots[: len(loop.results)], roots[len(loop.results) :]
        self.loop = Loop(*operands, results, outs, None, loop.backward)
