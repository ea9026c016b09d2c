"""Why a nest may take longer than its roofline: what its innermost loops do that processors do slowly.

A roofline takes vectors at unit stride for granted. The reasons follow from the transformed loop IR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from adcompiler.ir.nodes import Call as Routine
from adcompiler.kernels.emit.calls import PRODUCTS
from adcompiler.kernels.limits import PARALLEL_POINTS
from adcompiler.kernels.schedule.schedule_tree import Task
from adcompiler.loopir.dependence import Iteration, loop_variant, total
from adcompiler.loopir.nodes import Access, Assign, Binary, Call, For, Invoke, Literal, Stmt, While
from adcompiler.loopir.python_modules import is_special
from adcompiler.loopir.short_loops import has_loops, short
from adcompiler.loopir.transformed_loops import Lanes
from adcompiler.loopir.walk import accesses, assigned, mentions, read_by, read_names, sets, statements
from adcompiler.runtime.limits import SHORT_SECONDS, THREAD_SECONDS
from adcompiler.targets.cpu.timed import Timed
from adcompiler.targets.llvm.quotients import in_strip, quotients
from adcompiler.targets.llvm.tables import CALLS


def reasons(timed: Timed, k: int, names: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """What slows down the nest `k` of a timed kernel; empty if its loops have nothing that does. `names` are
    those of arrays in the source, by their names in the kernel."""
    kernel = timed.kernel
    body = _between(statements(kernel.bare[-1].body), f"_start{k}", f"_stop{k}")
    functions = [kernel.transformed[name] for name in _called(body) if name in kernel.transformed]
    called = [s for f in functions for s in f.body]
    found = (reason for loop in innermost([*called, *body]) for reason in _of(loop, names))
    return list(dict.fromkeys(found))


def circumstances(
    timed: Timed, k: int, threads: int, times: tuple[float, float], again: Mapping[str, int]
) -> Iterator[str]:
    """Why else a nest that has no slow loops takes long: it is on one of several `threads`, it computes
    `again` what another nest has computed, or it is short. `times` are the measured one and the roofline."""
    measured, roof = times
    item, kernel = timed.items[k], timed.kernel
    if isinstance(item, Task) and isinstance(item.array, Routine) and item.array.op not in PRODUCTS:
        yield f"calls {item.array.op}, whose operations are not counted"
    elif threads > 1 and measured > THREAD_SECONDS:
        nests = [kernel.scans.get(n, loop) for n, loop in enumerate(kernel.nests)]
        if item not in nests:
            yield "runs on one thread: its iterations run in order"
        elif nests.index(item) in kernel.sequential:
            yield "runs on one thread: several iterations may add to one place"
        else:
            yield f"runs on one thread: all nests together have fewer than {PARALLEL_POINTS:,} points"
    yield from (
        f"computes {op} again, as nest {n} did: storing it would take longer" for op, n in again.items()
    )
    if measured < SHORT_SECONDS and roof < measured / 2:
        yield "is short: starting its loops takes most of the time"


def _between(order: Sequence[Stmt], start: str, stop: str) -> list[Stmt]:
    """The statements that the clock is read before and after; the first time each stamp is only declared."""
    *_, first = (n for n, s in enumerate(order) if isinstance(s, Assign) and s.name == start)
    *_, last = (n for n, s in enumerate(order) if isinstance(s, Assign) and s.name == stop)
    return [*order[first + 1 : last]]


def _called(body: Sequence[Stmt]) -> list[str]:
    return [s.name for s in statements(body) if isinstance(s, Invoke)]


def innermost(body: Sequence[Stmt]) -> Iterator[For | While]:
    """The loops that have no long loop inside, and call nothing that has any."""
    for s in dict.fromkeys(statements(body)):
        is_other = isinstance(s, Lanes) or (
            isinstance(s, For) and (s.kind in ("blocks", "edges") or short(s) is not None)
        )
        if isinstance(s, For | While) and not is_other and not has_loops(s.body) and not _called(s.body):
            yield s


def _of(loop: For | While, names: Mapping[str, str]) -> Iterator[str]:
    """What one innermost loop does that is slow."""
    if isinstance(loop, While):
        yield "its number of iterations is not known"
        return
    loop, _ = in_strip(loop, quotients(loop), "begin")
    own = loop_variant(loop)
    for node in (n for s in statements(loop.body) for n in read_by(s)):
        match node:
            case Binary(op="//" | "%", right=right) if mentions(own, node) and not isinstance(right, Literal):
                yield "divides integers"
            case Call(name=name) if is_special(name) and name not in CALLS:
                yield f"calls {name} for one number at a time"
    iteration = Iteration(loop)
    for at, stored in accesses(*loop.body):
        if mentions(own, *at.indices):
            what = f"{'stores' if stored else 'reads'} {names.get(at.array, at.array)}"
            yield from (f"{what} {how}" for how in _movement(at, iteration))
    for name in _carried(loop):
        yield f"its iterations wait for each other: each reads {names.get(name, name)} of the one before"


def _movement(at: Access, iteration: Iteration) -> Iterator[str]:
    """How an access goes through memory from iteration to iteration, if not along a row."""
    steps = [iteration.step(index) for index in at.indices]
    if None in steps:
        yield "at computed places"
    elif any(steps[:-1]):
        yield "from row to row"
    elif steps[-1] not in (0, 1, -1):
        yield f"with a stride of {steps[-1]}"


def _carried(loop: For) -> list[str]:
    """The variables of which an iteration needs what the one before made, sums aside."""
    stored = assigned(*loop.body)
    sums = {name for s in statements(loop.body) if (name := total(s))}
    before: list[str] = []
    made: set[str] = set()
    for s in _in_order(loop.body):
        before += [n for n in read_names(s) if n in stored and n not in made]
        made.update(sets(s))
    return [n for n in dict.fromkeys(before) if n not in sums]


def _in_order(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Statements in the order in which they run, those inside after what they stand in."""
    for s in body:
        yield s
        yield from _in_order([p for p in s.parts if isinstance(p, Stmt)])
