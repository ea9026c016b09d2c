"""A kernel that times its nests: the driver reads the processor's clock between them.

The nests are the same functions as in the kernel that is called, so nothing else about them changes.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter

from adcompiler.ir.nodes import Call
from adcompiler.kernels.emit.emitter import Emitter
from adcompiler.kernels.schedule.materialise import Scheduled
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Task
from adcompiler.loopir.nodes import Assign, literal
from adcompiler.loopir.nodes import Call as LoopCall
from adcompiler.targets.cpu.compiled import CpuKernel, Mode
from adcompiler.targets.limits import FEWEST_CALLS, MOST_CALLS


class _Stamped(Emitter):
    """Writes a kernel that returns when each item of its schedule starts and ends, 0 if it does not run."""

    def __init__(self, made: Scheduled, has_clock: bool, divides: bool) -> None:
        super().__init__(made, divides=divides)
        self.has_clock = has_clock
        self.items: list[Loop | Task] = []  # nests, program loops and calls
        self.rest: list[Task] = []
        count = sum(isinstance(i, Loop | Recurrence) or _is_call(i) for i in self.schedule.body)
        self.stamps = [f"_{when}{k}" for k in range(count) for when in ("start", "stop")] if has_clock else []
        for name in self.stamps:
            self.driver.add(Assign(name, literal(0)))

    def drive(self, item: Loop | Task) -> None:
        if not (isinstance(item, Loop | Recurrence) or _is_call(item)):
            self.rest.append(item)
            super().drive(item)
            return
        k = len(self.items)
        self.items.append(item)
        self.stamp(f"_start{k}")
        super().drive(item)
        self.stamp(f"_stop{k}")

    def stamp(self, name: str) -> None:
        """Read the clock."""
        if self.has_clock:
            self.driver.add(Assign(name, LoopCall("ticks", ())))


def _is_call(item: Loop | Task) -> bool:
    return isinstance(item, Task) and isinstance(item.array, Call)


class Timed(CpuKernel):
    """A program whose kernel has a clock. `items` are timed, `rest` are scalar statements.

    `threaded` makes it run on all threads or on one; otherwise lengths decide, as at any call.
    """

    def __init__(
        self,
        made: Scheduled,
        precise: bool = False,
        threaded: bool | None = None,
        divided: bool = False,
        threads: int | None = None,
    ) -> None:
        emitter = _Stamped(made, self.has_clock, divided)
        super().__init__(made, precise, threads, Mode(divided=divided), kernel=emitter.kernel())
        self.items, self.rest, self.threaded = emitter.items, emitter.rest, threaded

    def in_parallel(self, sizes: Sequence[int]) -> bool:
        return super().in_parallel(sizes) if self.threaded is None else self.threaded

    @property
    def has_clock(self) -> bool:
        """Whether items are timed: only x86 processors let programs read their counters."""
        return platform.machine().lower() in ("x86_64", "amd64")


def repeated(call: Callable[[], object], least: float) -> list[float]:
    """The start times of calls that take `least` seconds together (at least five), and the end of the last; a
    first call compiles."""
    call()
    starts = [perf_counter()]
    while len(starts) <= FEWEST_CALLS or (starts[-1] - starts[0] < least and len(starts) < MOST_CALLS):
        call()
        starts.append(perf_counter())
    return starts


def fastest(call: Callable[[], object], least: float) -> float:
    """The time of the fastest of such calls."""
    return min(b - a for a, b in pairwise(repeated(call, least)))
