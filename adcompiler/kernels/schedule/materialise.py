"""Materialisation: which values of loop nests become arrays, decided on a schedule, before emission.

Passes put the bodies of arrays where they are read (`passes/arrays/inline.py`), so that a nest computes all
that it needs from inputs and sums. Only the schedule tells where that does the same work again. So candidates
are found in it, become arrays, and the schedule that is made again must bear them out: those that it does not
are computed where they were. In order: rows of one iteration of a nest (`scratchpads.py`), values that take
longer to compute again than to read (`recomputation.py`), and values in the memory of results
(`buffer_reuse.py`).

Bodies of loops of the program are left as they are: an iteration has no nests of its own, but for those that
threads divide, and a value of one iteration is in the cache when the next statement reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from adcompiler.ir.nodes import Array, Func
from adcompiler.kernels.schedule.buffer_reuse import Loans
from adcompiler.kernels.schedule.parts import Candidate, Materialiser
from adcompiler.kernels.schedule.recomputation import Recomputed
from adcompiler.kernels.schedule.schedule import CPU, Style, schedule
from adcompiler.kernels.schedule.schedule_tree import Schedule
from adcompiler.kernels.schedule.scratchpads import Rows


@dataclass(frozen=True)
class Scheduled:
    """A program whose kernels can be emitted: with arrays for what is materialised, its loop nests, and the
    arrays that stand in the memory of results, with these."""

    func: Func
    schedule: Schedule
    loans: Mapping[Array, Array] = field(default_factory=dict)


class Reason(Protocol):
    """A reason to materialise values."""

    def candidates(self, func: Func, made: Schedule, style: Style) -> Sequence[Candidate]:
        """The values that may become arrays."""
        ...

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Whether a schedule with all candidates bears one out: it is `array` there, and `result` its
        lender."""
        ...

    def pays(self, before: Schedule, after: Schedule, count: int) -> bool:
        """Whether a schedule with `count` candidates is better than that without."""
        ...


REASONS: tuple[Reason, ...] = (Rows(), Recomputed(), Loans())


def scheduled(func: Func, style: Style = CPU) -> Scheduled:
    """The program in loop nests, with what is worth it materialised."""
    made = Scheduled(func, schedule(func, style))
    for reason in REASONS:
        made = materialised(made, reason, style)
    return made


def materialised(made: Scheduled, reason: Reason, style: Style) -> Scheduled:
    """The program with arrays for the candidates of one reason that the new schedule bears out."""
    wanted = list(reason.candidates(made.func, made.schedule, style))
    while wanted:
        changed = Materialiser(wanted)
        func = changed.func(made.func)
        again = schedule(func, style)
        lenders = {c: None if c.lender is None else changed.arrays[c.lender] for c in wanted}
        kept = [c for c in wanted if reason.holds(c, changed.of(c), lenders[c], again)]
        if kept == wanted:
            loans = {changed.of(c): result for c, result in lenders.items() if result is not None}
            return Scheduled(func, again, loans) if reason.pays(made.schedule, again, len(wanted)) else made
        wanted = kept
    return made
