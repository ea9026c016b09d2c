"""What no kernel does without a reason, found in its schedule and in its loop IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adcompiler.analysis.affine import linear
from adcompiler.analysis.loop_order import is_short
from adcompiler.ir.nodes import Accumulate, Array, Element, Index, Map, Read, Reduce
from adcompiler.ir.walk import elements_of
from adcompiler.ir.walk import read_by as arrays_read_by
from adcompiler.kernels.emit.kernel import Kernel
from adcompiler.kernels.schedule.materialise import Recomputed, Scheduled
from adcompiler.kernels.schedule.schedule import CPU
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Schedule, Task
from adcompiler.loopir.dependence import Iteration
from adcompiler.loopir.nodes import Binary, For, Literal
from adcompiler.loopir.printer import text as text_of
from adcompiler.loopir.short_loops import has_loops
from adcompiler.loopir.walk import read_by, statements
from adcompiler.ops.costs import is_costly
from adcompiler.runtime.reports.reasons import innermost
from adcompiler.targets.llvm.quotients import in_strip, quotients

# -- index arithmetic --------------------------------------------------------------------------------


def divisions(kernel: Kernel) -> list[str]:
    """Divisions and remainders of integers in innermost loops that grow evenly from iteration to iteration,
    so that a counter has the same values. A divisor that is a literal is a multiplication. Around a loop in
    lanes, a division is rare."""
    found = []
    for function in kernel.transformed.values():
        for loop in innermost(function.body):
            if isinstance(loop, For) and not has_loops(loop.body):
                found += [f"{function.name}, loop over {loop.axis}: {one}" for one in _counters(loop)]
    return list(dict.fromkeys(found))


def _counters(loop: For) -> Iterator[str]:
    loop, _ = in_strip(loop, quotients(loop), "begin")
    iteration = Iteration(loop)
    for node in (n for s in statements(loop.body) for n in read_by(s)):
        match node:
            case Binary(op="//" | "%", left=left, right=right) if not isinstance(right, Literal):
                if iteration.step(left) and iteration.step(right) == 0:
                    yield text_of(node)


# -- unit stride -------------------------------------------------------------------------------------

Spot = tuple[Array, tuple[Element, ...]]


def strides(made: Scheduled, kernel: Kernel) -> list[str]:
    """Innermost loops for which another one of the loops around has more accesses at unit stride, and fewer
    at others; not in nests whose iterations are the lanes of vectors."""
    across = [nest for k, nest in enumerate(kernel.nests) if kernel.transformed[f"nest{k}"].lanes]
    return [line for chain in _chains(made.schedule, across) for line in _better(chain, kernel.arrays)]


def _chains(made: Schedule, but: Sequence[Loop] = ()) -> Iterator[list[Loop]]:
    """Loops with nothing beside the next one in them, whose order is free, outermost first."""
    for item in made.body:
        if isinstance(item, Recurrence):
            for part in (item.before, item.iteration):
                yield from _chains(part) if part is not None else ()
        elif isinstance(item, Loop) and item not in but:
            yield from _inside([item])


def _inside(chain: list[Loop]) -> Iterator[list[Loop]]:
    last = chain[-1]
    inner = [item for item in last.body if isinstance(item, Loop) and not is_short(item.size)]
    if not inner:
        yield chain
    for loop in inner:
        yield from _inside([*chain, loop] if len(last.body) == 1 and not loop.bounds else [loop])


def _better(chain: Sequence[Loop], names: dict[Array, str]) -> Iterator[str]:
    """The loops of a chain that would be better innermost ones. They are not if that would repeat a costly
    operation that now stands outside of the innermost loop."""
    *around, inner = chain
    if any(is_short(loop.size) for loop in chain):
        return
    accesses = [*dict.fromkeys(at for task in inner.tasks for at in _accesses(task))]
    costly = {e.axes for task in inner.tasks for e in elements_of(task.elements) if is_costly(e)}
    units, others = _counts(accesses, inner.number)
    for loop in around:
        more, rest = _counts(accesses, loop.number)
        repeats = any(loop.number in axes and inner.number not in axes for axes in costly)
        if more > units and rest < others and not repeats:
            made = ", ".join(names[t.array] for t in inner.tasks)
            yield (
                f"{made}: {units} accesses at unit stride and {others} at others along i{inner.number}, "
                f"but {more} and {rest} along i{loop.number}"
            )


def _accesses(task: Task) -> Iterator[Spot]:
    """Where a task reads and stores."""
    for e in elements_of(task.elements):
        if isinstance(e, Read) and e.array.rank:
            yield e.array, e.args
    if isinstance(task.array, Accumulate):
        yield task.array, task.elements[:-1]
    elif task.stored and isinstance(task.array, Map | Reduce):
        yield task.array, task.kept


def _counts(accesses: Sequence[Spot], number: int) -> tuple[int, int]:
    """How many accesses go along a loop at unit stride, and how many at others."""
    along = [indices for _, indices in accesses if any(number in i.axes for i in indices)]
    units = sum(_is_unit(indices, number) for indices in along)
    return units, len(along) - units


def _is_unit(indices: Sequence[Element], number: int) -> bool:
    *rows, last = indices
    terms = linear(last).terms
    alone = all(atom is None or atom is Index(number) or number not in atom.axes for atom in terms)
    return alone and terms.get(Index(number)) in (1, -1) and not any(number in i.axes for i in rows)


# -- no work twice -----------------------------------------------------------------------------------


def work_twice(made: Scheduled) -> list[str]:
    """Values over whole arrays that several nests compute, though storing them takes less time. Those that
    read the memory of a result, which is shared at the end, are left as they are."""
    found = Recomputed().candidates(made.func, made.schedule, CPU)
    kept = [c for c in found if made.buffers.keys().isdisjoint(arrays_read_by((c.uses[0].part.element,)))]
    return [f"{c.uses[0].part.element}, in nests {[use.nest for use in c.uses]}" for c in kept]
