"""Loop distribution: functions of what no iteration carries are computed for all iterations before the loop.

A loop that carries numbers runs in order and calls functions one after the other. Those of rows, of the
iteration's number and of constants, such as time[i]**a, need not wait: in a nest of their own, before the
loop, they are vectorised and run in parallel, and the loop reads a row. That takes a number for each
iteration, as the row does of which the function is. Only loops of the program itself are distributed, not
those inside others: an inner loop would have such an array for each iteration of the outer one.
"""

from __future__ import annotations

from collections.abc import Mapping

from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Array, Const, Element, Func, Index, Map, Read, closed
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, arrays_of, elements_of, is_computed, with_args
from adcompiler.ops.costs import is_function

FEWEST = 16  # iterations from which a nest before the loop pays


def distribute(func: Func) -> Func:
    """The program with functions that read nothing that loops carry in nests before the loops."""
    return _Distribute().func(func)


class _Distribute(Rewriter):
    def inner(self, loop: Loop | Ruled) -> None:
        """Loops inside loops stay as they are."""

    def _loop(self, loop: Loop) -> Loop:
        loop = super()._loop(loop)
        length = loop.length
        if length is None or loop.test is not None or is_computed(length):
            return loop
        if isinstance(length, Const) and int(length.value) < FEWEST:
            return loop
        before = _Before(loop)
        found = {e: closed((length,), before.values[e]) for e in before.largest()}
        if not found:
            return loop
        body = _Body(loop, found)
        self.bodies.append(body)
        return body.loop


class _Before:
    """The elements of a loop's body that are known before the loop: `values` are those of arrays over the
    iterations, and None for other elements."""

    def __init__(self, loop: Loop) -> None:
        rows = 1 + len(loop.inits)
        consts = rows + len(loop.scanned)
        self.consts = dict(zip(loop.slots[consts:], loop.consts, strict=True))
        self.step = loop.slots[0]
        self.rows = {
            slot: whole
            for slot, whole in zip(loop.slots[rows:consts], loop.scanned, strict=True)
            if whole.shape[0] is loop.length
        }
        self.arrays = arrays_of(loop.roots)
        self.values: dict[Element, Element | None] = {}
        self.worth: dict[Element, tuple[bool, bool]] = {}  # whether it reads a row, and calls a function
        self.numbers: dict[Array, Element] = {}
        for array in self.arrays:
            for element in elements_of(array.elements):
                if element not in self.values:
                    self.values[element] = self.value(element)
            if isinstance(array, Map) and not array.rank and self.values[array.body] is not None:
                self.numbers[array] = array.body

    def value(self, element: Element) -> Element | None:
        """What an element is in an array over the iterations."""
        args = tuple(a for e in element.args if (a := self.values[e]) is not None)
        reads, calls = (any(self.worth[a][k] for a in element.args if a in self.worth) for k in (0, 1))
        self.worth[element] = reads, calls or is_function(element)
        if len(args) < len(element.args) or isinstance(element, Index):
            return None
        if not isinstance(element, Read):
            return with_args(element, args)
        array = element.array
        if array in self.numbers:
            self.worth[element] = self.worth[self.numbers[array]]
            return self.values[self.numbers[array]]
        if array in self.rows:
            self.worth[element] = True, calls
            return Read(self.rows[array], (Index(0), *args))
        if array is self.step:
            return Index(0)
        return Read(self.consts[array], args) if array in self.consts else None

    def largest(self) -> list[Element]:
        """Those with a function of a row that are part of no larger one."""
        known = {e for e, value in self.values.items() if value is not None}
        within = {a for e in known for a in e.args}
        used = {e for a in self.arrays if a not in self.numbers for e in a.elements}
        used |= {a for e in self.values if e not in known for a in e.args}
        return [e for e in known if all(self.worth[e]) and (e in used or e not in within)]


class _Body(Replace):
    """Rebuilds the body of a loop with some of its elements read from rows of arrays."""

    def __init__(self, loop: Loop, wholes: Mapping[Element, Array]) -> None:
        more = dict.fromkeys(w for w in wholes.values() if w not in loop.scanned)
        scanned = (*loop.scanned, *more)
        operands = (loop.length, loop.inits, scanned, loop.consts)
        slots = Loop(*operands, (), (), None, loop.backward).slots
        count = len(loop.consts)
        kept = (*slots[: len(loop.slots) - count], *slots[len(slots) - count :])
        super().__init__(dict(zip(loop.slots, kept, strict=True)))
        rows = dict(zip(scanned, slots[1 + len(loop.inits) :], strict=False))
        self.elements.update((e, Read(rows[whole], ())) for e, whole in wholes.items())
        roots = self.run(loop.roots)
        results, outs = roots[: len(loop.results)], roots[len(loop.results) :]
        self.loop = Loop(*operands, results, outs, None, loop.backward)
