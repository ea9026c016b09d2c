"""Why a nest may take longer than its roofline: what its innermost loops do that processors do slowly.

A roofline takes vectors at unit stride for granted. The reasons follow from the transformed loop IR.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from adcompiler.ir.nodes import Call as Routine
from adcompiler.kernels.emit.calls import PRODUCTS
from adcompiler.kernels.emit.traffic import Work
from adcompiler.kernels.limits import PARALLEL_POINTS
from adcompiler.kernels.schedule.schedule_tree import Recurrence, Task
from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.dependence import Iteration, loop_variant, total
from adcompiler.loopir.nodes import (
    Access,
    Assign,
    Binary,
    Call,
    Expr,
    For,
    Function,
    Invoke,
    Literal,
    Stmt,
    While,
)
from adcompiler.loopir.python_modules import is_special
from adcompiler.loopir.short_loops import has_loops, short
from adcompiler.loopir.transformed_loops import LANE, Lane, Lanes
from adcompiler.loopir.walk import (
    accesses,
    assigned,
    in_order,
    mentions,
    read_by,
    read_names,
    sets,
    statements,
)
from adcompiler.runtime.limits import (
    FEW_ITERATIONS,
    LARGE_PART,
    LOOP_SECONDS,
    SHORT_SECONDS,
    THREAD_SECONDS,
)
from adcompiler.targets.cpu.timed import Timed
from adcompiler.targets.llvm.libmvec import vectors
from adcompiler.targets.llvm.quotients import in_strip, quotients
from adcompiler.targets.llvm.tables import CALLS

LIBRARY = "library_"  # how the names of routines on matrices begin


def reasons(timed: Timed, k: int, names: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """What slows down the nest `k` of a timed kernel; empty if its loops have nothing that does. `names` are
    those of arrays in the source, by their names in the kernel."""
    body = _driver(timed, k)
    called = [s for f in _functions(timed, body) for s in f.body]
    found = (reason for loop in innermost([*called, *body]) for reason in _of(loop, names))
    routines = (name.removeprefix(LIBRARY) for name in _called([*called, *body]) if name.startswith(LIBRARY))
    return list(dict.fromkeys([*found, *(_of_routine(name) for name in routines if name not in PRODUCTS)]))


def _of_routine(name: str) -> str:
    """What is said of a library routine on matrices."""
    return f"calls {name}, whose operations are not counted"


@dataclass(frozen=True)
class Circumstances:
    """What else is known of a nest: its `work`, how many threads share it (`own`) and could (`threads`), its
    time, the roofline, and the operations that it computes `again`, with the nest that has computed each."""

    work: Work
    own: int
    threads: int
    measured: float
    roof: float
    again: Mapping[str, int]


def circumstances(timed: Timed, k: int, of: Circumstances) -> Iterator[str]:
    """Why else a nest that has no slow loops takes long: it is on one of several threads, it computes what
    another nest has computed, its loops end soon, or it is short."""
    item, kernel, measured = timed.items[k], timed.kernel, of.measured
    if isinstance(item, Recurrence) and item.loop.length is None:
        yield "runs until a condition fails: the roofline is that of one iteration"
    if isinstance(item, Task) and isinstance(item.array, Routine) and item.array.op not in PRODUCTS:
        yield _of_routine(item.array.op)
    elif of.threads > 1 and of.own == 1 and measured > THREAD_SECONDS:
        nests = [kernel.scans.get(n, loop) for n, loop in enumerate(kernel.nests)]
        if item not in nests:
            yield "runs on one thread: its iterations run in order"
        elif nests.index(item) in kernel.sequential:
            yield "runs on one thread: several iterations may add to one place"
        else:
            yield f"runs on one thread: all nests together have fewer than {PARALLEL_POINTS:,} points"
    yield from (
        f"computes {op} again, as nest {n} did: storing it would take longer" for op, n in of.again.items()
    )
    yield from _short_loops(of, _lanes(timed, k))
    if measured < SHORT_SECONDS and of.roof < measured / 2:
        yield "is short: starting its loops takes most of the time"


def _short_loops(of: Circumstances, lanes: int) -> Iterator[str]:
    """That the innermost loops have few iterations, if starting and ending them takes a large part of the
    time beyond the roofline: vectors are not full, and each sum adds up its lanes."""
    short = [r for r in of.work.innermost if r.iterations <= FEW_ITERATIONS * r.starts]
    starts = sum(r.starts for r in short)
    lost = (of.measured - of.roof) * of.own
    if starts > 1 and of.roof < of.measured / 2 and starts / lanes * LOOP_SECONDS >= lost * LARGE_PART > 0:
        each = round(sum(r.iterations for r in short) / starts)
        plural = "s" * (each != 1)
        yield f"starts its innermost loops {starts:,} times, for {each:,} iteration{plural} each"


def _lanes(timed: Timed, k: int) -> int:
    """How many iterations of a nest are the lanes of a vector, of 64-bit numbers."""
    found = vectors()
    if found is None or not timed.has_clock:
        return 1
    inside = statements(s for f in _functions(timed, _driver(timed, k)) for s in f.body)
    most = max((s.vectors for s in inside if isinstance(s, Lanes)), default=0)
    return most * found.lanes("double") if most else 1


def _driver(timed: Timed, k: int) -> list[Stmt]:
    """The statements of the driver that run an item."""
    return _between(statements(timed.kernel.bare[-1].body), f"_start{k}", f"_stop{k}")


def _functions(timed: Timed, body: Sequence[Stmt]) -> list[Function]:
    """The functions that statements of the driver call, as they are compiled."""
    known = timed.kernel.transformed
    return [known[name] for name in _called(body) if name in known]


def _between(order: Sequence[Stmt], start: str, stop: str) -> list[Stmt]:
    """The statements that the clock is read before and after; the first time each stamp is only declared."""
    *_, first = (n for n, s in enumerate(order) if isinstance(s, Assign) and s.name == start)
    *_, last = (n for n, s in enumerate(order) if isinstance(s, Assign) and s.name == stop)
    return [*order[first + 1 : last]]


def _called(body: Sequence[Stmt]) -> list[str]:
    return [s.name for s in statements(body) if isinstance(s, Invoke)]


def innermost(body: Sequence[Stmt]) -> Iterator[For | While]:
    """The loops that have no long loop inside, and call nothing that has any, and those of lanes."""
    for s in dict.fromkeys(statements(body)):
        is_other = isinstance(s, For) and (s.kind in ("blocks", "edges") or short(s) is not None)
        is_innermost = isinstance(s, For | While) and not (is_other or has_loops(s.body) or _called(s.body))
        if isinstance(s, For | While) and (is_innermost or isinstance(s, Lanes)):
            yield s


def _of(loop: For | While, names: Mapping[str, str]) -> Iterator[str]:
    """What one innermost loop does that is slow."""
    if isinstance(loop, While):
        yield "its number of iterations is not known"
        return
    if isinstance(loop, Lanes):
        yield from _of_lanes(loop, names)
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
            yield from _moving(at, stored, iteration, names)
    for name in dict.fromkeys([*_carried(loop), *_carried_arrays(loop, iteration)]):
        yield f"its iterations wait for each other: each reads {names.get(name, name)} of the one before"


def _of_lanes(loop: Lanes, names: Mapping[str, str]) -> Iterator[str]:
    """The elements of its lanes that a loop gathers and scatters, where it has no loops inside: they are not
    side by side. Those that inner loops use are copied, and used often."""
    if has_loops(loop.together):
        return
    iteration = Iteration(replace(loop, axis=loop.axis + LANE, body=loop.together))
    iteration.changing = {name for name in iteration.changing if LANE in name}
    for at, stored in accesses(*loop.together):
        if isinstance(at, Lane) and not (at.row or at.beside):
            yield from _moving(at, stored, iteration, names)


def _moving(at: Access, stored: bool, iteration: Iteration, names: Mapping[str, str]) -> Iterator[str]:
    """How an access goes through memory, if not along a row, in words."""
    what = f"{'stores' if stored else 'reads'} {names.get(at.array, at.array)}"
    yield from (f"{what} {how}" for how in _movement(at, iteration))


def _movement(at: Access, iteration: Iteration) -> Iterator[str]:
    """How an access goes through memory from iteration to iteration, if not along a row."""
    steps = [iteration.step(index) for index in at.indices]
    if None in steps:
        yield "at computed places"
    elif any(steps[:-1]):
        yield "from row to row"
    elif steps[-1] not in (0, 1, -1):
        yield f"with a stride of {steps[-1]}"


def _carried_arrays(loop: For, iteration: Iteration) -> Iterator[str]:
    """The arrays of which an iteration reads an element that an earlier one stored."""
    found = [(at.array, [*map(iteration.expr, at.indices)], stored) for at, stored in accesses(*loop.body)]
    for name, indices, stored in found:
        steps = [iteration.step(index) for index in indices]
        if stored and None not in steps and any(steps):
            reads = (other for array, other, written in found if array == name and not written)
            if any(_distance(indices, other, steps) > 0 for other in reads):
                yield name


def _distance(stored: Sequence[Expr], read: Sequence[Expr], steps: Sequence[int | None]) -> int:
    """How many iterations before one that reads an element another one has stored it; 0 if that is not
    known."""
    found = set[int]()
    for a, b, step in zip(stored, read, steps, strict=True):
        rest = _terms(a)
        rest.subtract(_terms(b))
        apart = rest.pop(None, 0)
        if any(rest.values()) or (apart % step if step else apart):
            return 0
        if step:
            found.add(apart // step)
    return found.pop() if len(found) == 1 else 0


def _terms(e: Expr, sign: int = 1) -> Counter[Expr | None]:
    """The terms of a sum, each with how often it is added; None is the number 1."""
    match e:
        case Literal(value=int(n)):
            return Counter({None: sign * n})
        case Call(name="uint64" | "np.int64", args=(inner,)):
            return _terms(inner, sign)
        case Binary(op="+" | "-" as op, left=left, right=right):
            found = _terms(left, sign)
            found.update(_terms(right, sign if op == "+" else -sign))
            return found
    return Counter({e: sign})


def _carried(loop: For) -> list[str]:
    """The variables of which an iteration needs what the one before made, sums aside."""
    stored = assigned(*loop.body)
    sums = {name for s in statements(loop.body) if (name := total(s))}
    before: list[str] = []
    made: set[str] = set()
    for s in in_order(loop.body):
        before += [n for n in read_names(s) if n in stored and n not in made]
        made.update(sets(s))
    return [n for n in dict.fromkeys(before) if n not in sums]
