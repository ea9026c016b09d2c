"""The cheap gradient principle, counted: what derivatives compute and store beside what they are made of.

Counted is what stands in the schedule, for lengths of any size; nothing is compiled or timed. Lengths that a
program computes count as the longest that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from judges.subject import GRADIENT, JOINT, PRODUCT, VALUE, Subject, UnknownError

from adcompiler.analysis.loop_order import is_short
from adcompiler.ir.nodes import Accumulate, Call, Contraction, Element, Read, Reduce, Select
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import elements_of
from adcompiler.kernels.emit.traffic import ONCE, Counted, Space, Work, is_exceptional
from adcompiler.kernels.schedule.carried_updates import InPlace
from adcompiler.kernels.schedule.numbers import stood
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Task
from adcompiler.ops.costs import INSTRUCTIONS, weight
from adcompiler.ops.table import TABLE
from adcompiler.targets.cpu.timed import Timed


def of_gradient(subject: Subject, scales: Sequence[int]) -> list[float]:
    """How many times the work of the value its value and gradient are, for each factor of all lengths."""
    return _ratios(subject, JOINT, VALUE, scales)


def of_product(subject: Subject, scales: Sequence[int]) -> list[float]:
    """How many times the work of the gradient a product with the Hessian is."""
    return _ratios(subject, PRODUCT, GRADIENT, scales)


def _ratios(subject: Subject, what: str, of: str, scales: Sequence[int]) -> list[float]:
    """To the work of the program below belong the elements of what it takes, whether it reads them or not:
    its derivative has as many."""
    each = ((work(subject, what, n), work(subject, of, n) + subject.taken(n)) for n in scales)
    return [one / other for one, other in each]


def repeated(subject: Subject, what: str, scale: int) -> list[str]:
    """The functions that several loops of a program compute, as "exp (2 times)"."""
    try:
        timed, counted = _counted(subject, what, scale)
    except UnknownError:
        return []
    found = {one: one.split()[0] for one in counted.repeated(timed.items)}
    return [one for one, op in found.items() if op not in INSTRUCTIONS and TABLE[op].kind == "float"]


def _counted(subject: Subject, what: str, scale: int) -> tuple[Timed, _Counted]:
    timed, program = subject.timed(what, scale), subject.program(what)
    values = program.lengths.values(subject.values(what, scale))
    return timed, _Counted(timed.func, dict(timed.kernel.arrays), subject.sizes(scale), values)


def work(subject: Subject, what: str, scale: int) -> float:
    """Weighted operations, selects, elements that loops store or add up, and tests of while loops. What runs
    only if a number is not finite does not count."""
    timed, counted = _counted(subject, what, scale)
    products = [t for t in timed.rest if isinstance(t.array, Contraction)]
    usual = (item for item in (*timed.items, *products) if not is_exceptional(item.needed))
    parts = [*map(counted.item, usual), counted.numbers(t for t in timed.rest if t not in products)]
    return counted.elements + sum(n * weight(op) for part in parts for (op, _), n in part.operations.items())


# The multiplications, and as many additions, of routines on a matrix of n rows and one of m columns.
ROUTINES: dict[str, Callable[[float, float], float]] = {
    "lu": lambda n, _: n**3 / 3,
    "cholesky": lambda n, _: n**3 / 6,
    "solve": lambda n, m: n**2 * m,
    "solve_transposed": lambda n, m: n**2 * m,
    "pivoted": lambda n, _: n**2 / 2,
    "cofactors": lambda n, _: n**3,
    "triangular": lambda n, m: n**2 * m / 2,
    "triangular_transposed": lambda n, m: n**2 * m / 2,
}


def _is_scatter(task: Task) -> bool:
    return isinstance(task.array, Accumulate)


class _Counted(Counted):
    """Counts elements too, in the iterations of loops as well, and what library routines do."""

    elements = 0.0
    written_out: frozenset[int] = frozenset()  # short loops over what a scatter adds: they choose nothing

    def call(self, work: Work, call: Call, around: Space) -> None:
        super().call(work, call, around)
        if call.op in ROUTINES:
            rows, columns = (float(self.value(work, n, ONCE)[0]) for n in call.shape[-2:])
            cases = prod(float(self.value(work, n, ONCE)[0]) for n in call.cases)
            points = round(around.iterations * cases * ROUTINES[call.op](rows, columns))
            work.operations["multiply", call.dtype] += points
            work.operations["add", call.dtype] += points

    def nest(self, work: Work, loop: Loop, around: Space) -> None:
        spaces: list[tuple[int, Space]] = []
        self.enter(work, loop, around, spaces)
        places = dict(spaces)
        inner = (n for n in loop.walk() if is_short(n.size))
        self.written_out = frozenset(n.number for n in inner if all(map(_is_scatter, n.tasks)))
        for task in loop.tasks:
            if task.loops and (task.stored or isinstance(task.array, Reduce | Accumulate)):
                self.elements += places[task.loops[-1].number].iterations
        super().nest(work, loop, around)

    def operations(
        self, work: Work, roots: Sequence[Element], spaces: Sequence[tuple[int, Space]], around: Space
    ) -> None:
        super().operations(work, roots, spaces, around)
        for e in elements_of(roots):
            chosen = isinstance(e, Select) and not (e.guard.axes and e.guard.axes <= self.written_out)
            if chosen and is_float(e.dtype) and e not in work.done:
                self.elements += self.iterations(e, spaces, around)
                work.done.add(e)

    def recurrence(self, work: Work, rec: Recurrence, around: Space) -> None:
        super().recurrence(work, rec, around)
        length = self.unknown() if rec.loop.length is None else self.value(work, rec.loop.length, around)
        iterations = around.inside(rec.number, np.zeros(1, np.int64), length).iterations
        stores = [s for r in rec.results if isinstance(r, InPlace) for s in r.stores]
        numbers = [*(s.array for s in stores), *rec.outs]
        self.elements += iterations * (sum(not a.rank for a in numbers) + (rec.loop.length is None))

    def unknown(self) -> np.ndarray:
        return np.full(1, max(self.sizes, default=1))

    def value(self, work: Work, element: Element, space: Space) -> np.ndarray:
        element = stood(element, self.stands)
        found = super().value(work, element, space)
        unknown = {e.array for e in elements_of((element,)) if isinstance(e, Read)} - self.values.keys()
        return self.unknown() if unknown else found
