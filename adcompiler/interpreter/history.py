"""The interpreter with a history: all arrays of a program, and carried values of loops at any iteration.

A walk back through a program (`nonfinite.py`) asks for values at places. Loops keep their carried values at
the start of each iteration, or of every second, fourth, ... to save memory; values in between are recomputed
when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adcompiler.interpreter.limits import MOST_BYTES, MOST_FRAMES
from adcompiler.interpreter.reference import (
    REAL,
    Iterations,
    Values,
    compute_array,
    evaluate,
    extent,
    outs_of,
)
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import Array, Element, Index
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.lazy import Memo

State = list[np.ndarray]


class Frame:
    """The arrays of a program, or of one iteration of a loop, with their values.

    path  where it stands in the order of execution: for each loop around it the loop's place in the frame
          outside, and how many iterations were done before
    """

    def __init__(
        self,
        roots: Sequence[Array],
        values: Values,
        sizes: Sequence[int],
        inside: tuple[Frame, Loop, int, int] | None = None,
    ) -> None:
        self.values, self.sizes, self.inside = values, sizes, inside
        self.histories: dict[Loop, History] = {}
        self.order: dict[Array, int] = {}
        self.path: tuple[int, ...] = ()
        if inside is not None:
            outer, loop, done, _ = inside
            self.path = (*outer.path, outer.place(loop), done)
        self.add(roots)

    def add(self, roots: Sequence[Array]) -> None:
        """Compute further arrays."""
        with np.errstate(all="ignore"):
            for array in arrays_of(roots):
                first = array.loop.items[0] if isinstance(array, Item) else array
                self.order.setdefault(array, self.order.get(first, len(self.order)))
                if array not in self.values:
                    self._compute(array)

    def place(self, loop: Loop) -> int:
        """Where a loop stands among the arrays."""
        return min(self.order[i] for i in loop.items if i in self.order)

    @property
    def iterations(self) -> tuple[tuple[Loop, int], ...]:
        """The loops around this frame, the outermost first, with the numbers of their iterations."""
        if self.inside is None:
            return ()
        outer, loop, _, iteration = self.inside
        return (*outer.iterations, (loop, iteration))

    def _compute(self, array: Array) -> None:
        if isinstance(array, Item):
            history = self.histories[array.loop] = History(self, array.loop)
            self.values.update(zip(array.loop.items, history.found, strict=True))
        elif isinstance(array, Ruled):
            self.values[array] = self.values[array.value]
        else:
            self.values[array] = compute_array(array, self.values, self.sizes, REAL)

    def domain(self, array: Array) -> tuple[int, ...]:
        """The lengths of an array's domain."""
        return extent(array.domain, self.sizes, self.values)

    def at(self, array: Array, point: Sequence[int]) -> dict[Element, Any]:
        """The values of all elements of an array at a point of its domain."""
        order = elements_of(array.elements)
        found = self.over(array, order, point, (1,) * len(point))
        return {e: np.asarray(v).reshape(-1)[0] for e, v in zip(order, found, strict=True)}

    def over(
        self, array: Array, elements: Sequence[Element], kept: Sequence[int], domain: tuple[int, ...]
    ) -> list[Any]:
        """The values of elements over a domain whose first indices are given."""
        known: Mapping[Element, Any] = {Index(k): np.asarray(i, np.int64) for k, i in enumerate(kept)}
        with np.errstate(all="ignore"):
            return evaluate(elements, domain, self.values, self.sizes, REAL, known)


class History:
    """A loop that has run: `found` is what it gives, `iterations` the numbers of its iterations in their
    order."""

    def __init__(self, outer: Frame, loop: Loop) -> None:
        self.outer, self.loop = outer, loop
        self.iterations = Iterations(loop, outer.values, outer.sizes, REAL)
        self.kept: list[State] = []  # at the beginning of every `stride`-th iteration
        self.numbers: list[int] = []
        self.stride = 1
        self.frames: Memo[int, Frame] = Memo(MOST_FRAMES)
        self.found = self._run()

    def _run(self) -> list[np.ndarray]:
        carried: State = self.iterations.inits
        outs = outs_of(self.loop, self.iterations.count, self.outer.values, self.outer.sizes, REAL)
        size = max(sum(a.nbytes for a in carried), 1)
        for iteration, here in self.iterations.run():
            self._keep(carried, size)
            self.numbers.append(iteration)
            carried = [here[r] for r in self.loop.results]
            for out, array in zip(outs, self.loop.outs, strict=True):
                out[iteration] = here[array]
        self.last = carried
        counted = [np.asarray(len(self.numbers))] if self.loop.test is not None else []
        return [*carried, *outs, *counted]

    def _keep(self, carried: State, size: int) -> None:
        if len(self.numbers) % self.stride == 0:
            self.kept.append(carried)
        if len(self.kept) > 2 and len(self.kept) * size > MOST_BYTES:
            self.kept, self.stride = self.kept[::2], self.stride * 2

    def since(self, k: int, index: tuple[int, ...], done: int) -> int:
        """How many iterations had been done when the carried value at a place became what it is after `done`
        of them: NaN, or infinite."""
        kind = _kind((self.last if done == len(self.numbers) else self._states(done, done)[0])[k][index])
        with np.errstate(all="ignore"):
            return self._since(k, index, done, kind)

    def _since(self, k: int, index: tuple[int, ...], done: int, kind: str) -> int:
        while done:
            first = (done - 1) // self.stride * self.stride
            for state in reversed(self._states(first, done - 1)):
                if _kind(state[k][index]) != kind:
                    return done
                done -= 1
        return 0

    def _states(self, first: int, last: int) -> list[State]:
        """What was carried after `first` to `last` iterations, both included."""
        start = first // self.stride
        carried, found = self.kept[start], []
        for done in range(start * self.stride, last + 1):
            if done >= first:
                found.append(carried)
            if done < last:
                here = self.iterations.begin(self.numbers[done], carried)
                self.iterations.finish(here)
                carried = [here[r] for r in self.loop.results]
        return found

    def frame(self, done: int) -> Frame:
        """The iteration before which `done` others were done."""

        def make() -> Frame:
            iteration = self.numbers[done]
            here = self.iterations.begin(iteration, self._states(done, done)[0])
            return Frame(self.loop.roots, here, self.outer.sizes, (self.outer, self.loop, done, iteration))

        return self.frames.made(done, make)

    def done_before(self, iteration: int) -> int:
        """How many iterations were done before one."""
        return len(self.numbers) - 1 - iteration if self.loop.backward else iteration

    def operand(self, slot: Slot) -> tuple[str, int]:
        """What a slot of the body stands for: "step", "init", "row" or "const", and which of them."""
        place = slot.position - 1
        for kind, part in (
            ("init", self.loop.inits),
            ("row", self.loop.scanned),
            ("const", self.loop.consts),
        ):
            if 0 <= place < len(part):
                return kind, place
            place -= len(part)
        return "step", 0


def _kind(value: Any) -> str:
    return "nan" if np.isnan(value) else "inf" if np.isinf(value) else "finite"
