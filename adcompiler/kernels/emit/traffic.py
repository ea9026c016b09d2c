"""The minimum work of a kernel: bytes moved and operations, by nest.

Counts follow the schedule. An operation runs once per iteration of the innermost loop that it depends on;
both sides of a select are counted. An array moves once: in if another nest or the caller computed it, out if
it is stored. Values in registers do not move. Iterations of loops whose bounds depend on other loops are
summed over all iterations of those, or over a sample.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any, NamedTuple

import numpy as np

from adcompiler.analysis.loop_order import is_short
from adcompiler.analysis.predicates import Conditions
from adcompiler.interpreter.reference import REAL, evaluate
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Contraction,
    Element,
    Func,
    Index,
    Read,
    Reduce,
    is_const,
)
from adcompiler.ir.textform.printer import lengths
from adcompiler.ir.types import NUMPY, Dtype, is_float
from adcompiler.ir.walk import elements_of, is_computed, read_by, substitute
from adcompiler.kernels.emit.calls import PRODUCTS
from adcompiler.kernels.emit.contraction import Tiles
from adcompiler.kernels.limits import (
    CACHE_BYTES,
    CALL_NANOSECONDS,
    CLEARLY_SLOWER,
    FUNCTION_WEIGHT,
    LANES_DEPTH,
    PACKING_NANOSECONDS,
    PANEL_COLUMNS,
    PRODUCT_NANOSECONDS,
    SAMPLED_POINTS,
    START_NANOSECONDS,
    STRIP_ROWS,
    UPDATE_NANOSECONDS,
)
from adcompiler.kernels.routines.library import TERMS, TILE, WIDE
from adcompiler.kernels.schedule.materialise import Scheduled
from adcompiler.kernels.schedule.numbers import stood
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Schedule, Task, tasks_of
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.costs import CHEAP, CHEAP_NANOSECONDS, INSTRUCTIONS, NOMINAL_LENGTH, is_costly, weight

BYTE_NANOSECONDS, CACHED_BYTE_NANOSECONDS = 0.16, 0.04  # nominal, as those of operations
FREE = frozenset(("negative", "abs", "strict", "bool", "i64", "f32", "f64"))  # not counted as arithmetic
STEPS = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}
Operations = Counter[tuple[str, Dtype]]


class Repeated(NamedTuple):
    """An innermost loop that is not written out: how often it starts, and its iterations of all times."""

    starts: int
    iterations: int


@dataclass
class Work:
    """The work of one item of a schedule: a nest of loops, a program loop, or a call."""

    loops: list[str] = field(default_factory=list)
    made: dict[str, None] = field(default_factory=dict)
    registers: dict[str, None] = field(default_factory=dict)  # the arrays of `made` that are not stored
    reads: dict[str, float] = field(default_factory=dict)  # in bytes
    writes: dict[str, float] = field(default_factory=dict)
    operations: Operations = field(default_factory=Counter)
    again: Operations = field(default_factory=Counter)  # those of them that an item before has, too
    exact: bool = True
    in_order: bool = False  # iterations of a program loop
    products: list[tuple[Call | Contraction, tuple[int, ...]]] = field(default_factory=list)  # and lengths
    innermost: list[Repeated] = field(default_factory=list)
    done: set[Element] = field(default_factory=set, repr=False)  # already counted: variables hold these

    @property
    def bytes(self) -> float:
        """The minimum number of bytes moved."""
        return sum(self.reads.values()) + sum(self.writes.values())


class Space:
    """The iterations of nested loops, as weighted sample points. `index` has their places in each loop, and
    `weight` the number of iterations that each represents."""

    def __init__(self, index: Mapping[int, np.ndarray], weight: np.ndarray, sampled: bool = False) -> None:
        self.index, self.weight, self.sampled = index, weight, sampled

    @property
    def iterations(self) -> int:
        """The number of iterations."""
        return round(float(self.weight.sum()))

    def inside(self, number: int, start: np.ndarray, stop: np.ndarray) -> Space:
        """The iterations of an inner loop, from `start` to before `stop` at each point."""
        iterations = np.maximum(np.broadcast_to(stop - start, self.weight.shape), 0)
        count = np.minimum(iterations, max(1, SAMPLED_POINTS // max(len(self.weight), 1)))
        parent = np.repeat(np.arange(len(count)), count)
        nth = np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count)
        step = iterations[parent] / np.maximum(count[parent], 1)
        place = np.broadcast_to(start, self.weight.shape)[parent] + ((nth + 0.5) * step).astype(np.int64)
        index = {k: v[parent] for k, v in self.index.items()} | {number: place}
        return Space(index, self.weight[parent] * step, self.sampled or bool((count < iterations).any()))


ONCE = Space({}, np.ones(1))


class Counted:
    """Counts for given lengths. `values` are the scalar inputs, from which lengths may be computed, and
    `labels` the names of arrays in the generated source."""

    def __init__(
        self, func: Func, labels: Mapping[Array, str], sizes: Sequence[int], values: Mapping[Array, Any]
    ) -> None:
        self.func, self.labels, self.sizes, self.values = func, labels, sizes, dict(values)
        self.stands: dict[Array, Array] = {}  # what placeholders of program loops stand for
        self.done: set[Element] = set()  # what any item computes

    def item(self, item: Loop | Task) -> Work:
        """The work of an item of the kernel."""
        work = Work()
        self.add(work, item, ONCE)
        made = {a for t in tasks_of(item) for a in t.arrays}
        outside = (name for array, name in self.labels.items() if array not in made)
        work.reads = {name: work.reads[name] for name in outside if name in work.reads}
        return work

    def numbers(self, tasks: Iterable[Task]) -> Work:
        """Count statements outside loops."""
        work = Work()
        for task in tasks:
            work.made[self.labels[task.array]] = None
            self.operations(work, task.elements, [], ONCE)
        return work

    def repeated(self, items: Iterable[Loop | Task]) -> list[str]:
        """Costly values computed in several loops that do not share them."""
        places: dict[Element, set[Element]] = {}
        for task in (t for i in items if isinstance(i, Loop) for t in i.tasks):
            memo: dict[Element, Element] = {}
            for e in elements_of(task.array.elements):
                if e.axes and is_costly(e):
                    places.setdefault(e, set()).add(substitute(e, task.index, memo))
        times = [(e.op, len(p)) for e, p in places.items() if isinstance(e, Apply) and len(p) > 1]
        return [f"{op} ({count} times)" for op, count in times]

    def again(self, items: Sequence[Loop | Task]) -> list[dict[str, int]]:
        """For each item, the costly operations that it shares with an earlier one, and which one that is."""
        first: dict[Element, int] = {}
        found: list[dict[str, int]] = [{} for _ in items]
        for k, item in enumerate(items):
            for task in item.tasks if isinstance(item, Loop) else ():
                for e in elements_of(task.array.elements):
                    if isinstance(e, Apply) and e.axes and is_costly(e) and first.setdefault(e, k) < k:
                        found[k].setdefault(e.op, first[e])
        return found

    # -- loops ---------------------------------------------------------------------------------

    def add(self, work: Work, item: Loop | Task, around: Space) -> None:
        """Add the work of an item in each iteration of the loops around it."""
        if isinstance(item, Loop):
            self.nest(work, item, around)
        elif isinstance(item, Recurrence):
            self.recurrence(work, item, around)
        elif isinstance(item.array, Call):
            self.call(work, item.array, around)
        elif isinstance(item.array, Contraction):
            self.contraction(work, item.array, around)
        else:
            self.operations(work, item.elements, [], around)

    def nest(self, work: Work, loop: Loop, around: Space) -> None:
        """Add a loop nest: each element counts once, in the innermost loop that it depends on."""
        spaces: list[tuple[int, Space]] = []
        work.loops.append(self.enter(work, loop, around, spaces))
        places = dict(spaces)
        self.operations(work, [e for t in loop.tasks for e in t.elements], spaces, around)
        for task in loop.tasks:
            label, size = self.labels[task.array], self.size(work, task.array)
            work.made[label] = None
            if task.stored and task.array.rank and not task.dropped:  # a row stays in the cache
                work.writes[label] = size
            elif task.array.rank:
                work.registers[label] = None
            if isinstance(task.array, Reduce | Accumulate) and task.array.dtype != "bool":
                step = STEPS.get(task.array.op, "add") if isinstance(task.array, Reduce) else "add"
                iterations = places[task.loops[-1].number].iterations if task.loops else around.iterations
                work.operations[step, task.array.dtype] += iterations
        inside = {a for t in loop.tasks for a in t.arrays}
        for read in elements_of(e for t in loop.tasks for e in t.written):
            if isinstance(read, Read) and read.array.rank and read.array not in inside:
                label, item = self.labels[read.array], NUMPY[read.array.dtype].itemsize
                more = self.iterations(read, spaces, around) * item
                whole = self.size(work, read.array)
                work.reads[label] = min(work.reads.get(label, 0) + more, whole)

    def enter(self, work: Work, loop: Loop, around: Space, spaces: list[tuple[int, Space]]) -> str:
        """Add the iterations of a loop and of its inner loops, outermost first; return a description of
        them."""
        space = self.inside(work, loop, around)
        spaces.append((loop.number, space))
        each = space.iterations / max(around.iterations, 1)
        average = " on average" if loop.bounds else ""
        inner = [self.enter(work, item, space, spaces) for item in loop.body if isinstance(item, Loop)]
        if not (inner or is_short(loop.size)):
            work.innermost.append(Repeated(around.iterations, space.iterations))
        nested = f" ({', '.join(inner)})" if inner else ""
        return f"{self.named(loop.size)} = {each:,.0f}{average}{nested}"

    def inside(self, work: Work, loop: Loop, around: Space) -> Space:
        """The iterations of a loop, within its bounds."""
        start, stop = np.zeros(1, np.int64), self.value(work, loop.size, around)
        for side, element in loop.bounds:
            if is_computed(element) or not all(a in around.index for a in element.axes):
                work.exact = False  # it depends on array contents
                continue
            limit = self.value(work, element, around)
            if side == "start":
                start = np.maximum(start, limit)
            else:
                stop = np.where(limit, stop, 0) if side == "if" else np.minimum(stop, limit)
            work.exact = work.exact and not around.sampled
        return around.inside(loop.number, start, stop)

    def recurrence(self, work: Work, rec: Recurrence, around: Space) -> None:
        """Add a program loop: the work of all its iterations, and its operands and results in full."""
        loop = rec.loop
        length = self.unknown() if loop.length is None else self.value(work, loop.length, around)
        work.exact = work.exact and loop.length is not None
        work.in_order = True
        self.stands |= zip(rec.consts, loop.consts, strict=True)
        iterations = around.inside(rec.number, np.zeros(1, np.int64), length)
        name = "a while loop, one iteration" if loop.length is None else self.named(loop.length)
        work.loops.append(f"{name} = {iterations.iterations / max(around.iterations, 1):,.0f} in order")
        for part in (rec.before, rec.iteration):
            if part is not None:
                self.schedule(work, part, iterations)
        for arrays, moved in ((loop.operands, work.reads), (loop.items, work.writes)):
            for array in arrays:
                if array.rank and array in self.labels:
                    moved[self.labels[array]] = self.size(work, array)
        work.made |= dict.fromkeys(self.labels[a] for a in loop.items if a in self.labels)

    def unknown(self) -> np.ndarray:
        """The iterations that a while loop counts as."""
        return np.ones(1, np.int64)

    def schedule(self, work: Work, made: Schedule, iterations: Space) -> None:
        """Add the operations of iterations of a loop; their values stay in the cache."""
        part = Work(done=work.done)
        for item in made.body:
            self.add(part, item, iterations)
        work.operations.update(part.operations)
        work.again.update(part.again)
        work.innermost += part.innermost
        work.products += part.products
        work.exact = work.exact and part.exact

    def call(self, work: Work, call: Call, around: Space) -> None:
        """Add a library routine; operations are counted for products only."""
        work.loops.append(call.op)
        work.made[self.labels[call]] = None
        work.writes[self.labels[call]] = self.size(work, call)
        for array in call.operands:
            work.reads[self.labels[array]] = self.size(work, array)
        if call.op in PRODUCTS:
            (a, b), (row, summed, column) = call.operands, PRODUCTS[call.op]
            shape = (*call.cases, a.shape[row], a.shape[summed], b.shape[column])
            lengths = (around.iterations, *(int(self.value(work, n, ONCE)[0]) for n in shape))
            points = prod(lengths)
            work.products.append((call, lengths))
            work.operations["add", call.dtype] += points
            work.operations["multiply", call.dtype] += points
        else:
            work.exact = False

    def contraction(self, work: Work, made: Contraction, around: Space) -> None:
        """Add a contraction: its result, and each array that it reads once."""
        tiles = Tiles(made)
        work.loops.append("contraction")
        work.made[self.labels[made]] = None
        work.writes[self.labels[made]] = self.size(work, made)
        for array in read_by(made.elements):
            if array.rank:
                work.reads[self.labels[array]] = self.size(work, array)
        sides = (*map(tiles.length, (tiles.rows, tiles.terms, tiles.columns)),)
        cases = tiles.length(tiles.cases)
        lengths = (around.iterations, *(int(self.value(work, n, ONCE)[0]) for n in (cases, *sides)))
        points = prod(lengths)
        work.products.append((made, lengths))
        work.operations["add", made.dtype] += points
        work.operations["multiply", made.dtype] += points

    # -- elements ------------------------------------------------------------------------------

    def operations(
        self, work: Work, roots: Sequence[Element], spaces: Sequence[tuple[int, Space]], around: Space
    ) -> None:
        """Count the float operations of elements and of all their arguments."""
        for e in elements_of(roots):
            if isinstance(e, Apply) and is_float(e.dtype) and e.op not in FREE and e not in work.done:
                times = self.iterations(e, spaces, around)
                work.operations[e.op, e.dtype] += times
                work.done.add(e)
                one = _renumbered(e) if is_costly(e) else e
                if one in self.done:
                    work.again[e.op, e.dtype] += times
                self.done.add(one)

    def iterations(self, element: Element, spaces: Sequence[tuple[int, Space]], around: Space) -> int:
        """How often an element is computed: once per iteration of the innermost loop that it depends on."""
        return next((s.iterations for k, s in reversed(spaces) if k in element.axes), around.iterations)

    def size(self, work: Work, array: Array) -> float:
        """The bytes of an array."""
        each = (float(self.value(work, n, ONCE).max()) for n in array.shape)
        return NUMPY[array.dtype].itemsize * prod(each)

    def value(self, work: Work, element: Element, space: Space) -> np.ndarray:
        """An integer at the points of a space; a nominal one if arrays decide it."""
        element = stood(element, self.stands)
        reads = {e.array for e in elements_of((element,)) if isinstance(e, Read)}
        if not reads <= self.values.keys() or not all(a in space.index for a in element.axes):
            work.exact = False
            return np.full(1, NOMINAL_LENGTH)
        known: dict[Element, Any] = {Index(k): v for k, v in space.index.items()}
        found = evaluate((element,), (), self.values, self.sizes, REAL, known)[0]
        return np.atleast_1d(np.asarray(found))

    def named(self, size: Element) -> str:
        """A length as it is printed; "length" if the program computes it."""
        return "length" if is_computed(size) or size.axes else lengths(self.func, (size,))[0]


class _Unnamed(Counted):
    """Counts of which nothing is printed."""

    def named(self, size: Element) -> str:
        return ""


class Time(NamedTuple):
    """The nominal nanoseconds of a program, those of its operations outside products alone, without what a
    nest computes again, and those that calls of products in iterations of its loops would take as loops."""

    whole: float
    computing: float
    in_loops: float = 0.0


def _renumbered(element: Element) -> Element:
    """An element with its axes numbered as they occur: the same in arrays whose axes have another order."""
    axes = dict.fromkeys(e.axis for e in elements_of((element,)) if isinstance(e, Index))
    return substitute(element, {axis: Index(k) for k, axis in enumerate(axes)})


def predicted_time(made: Scheduled) -> Callable[[Sequence[int]], Time]:
    """The nominal nanoseconds of a program by its lengths: in each nest the longer of moving and computing.

    It compares forms of one program on any machine: one that computes or moves more is slower. It does not
    know how well loops use the processor. What runs only if numbers are not finite does not count.
    """

    def time(sizes: Sequence[int]) -> Time:
        labels: defaultdict[Array, str] = defaultdict(lambda: str(len(labels)))
        counted = _Unnamed(made.func, labels, sizes, {})
        usual = [item for item in made.schedule.body if not is_exceptional(item.needed)]
        works = [counted.item(item) for item in usual]
        again = sum(_arithmetic(work.again) for work in works) * CHEAP_NANOSECONDS
        inside = (lengths for work in works if work.in_order for _, lengths in work.products)
        whole, computing = sum(map(_time, works, usual)), sum(map(_computing, works)) - again
        return Time(whole, computing, sum(map(time_as_loops, inside)))

    return time


def is_exceptional(needed: Conditions) -> bool:
    """Whether something runs only if a number is not finite (`passes/order/structural_zeros.py`)."""
    bounds = (c.args[-1] for c, holds in needed if not holds and c.args)
    return any(is_const(most, math.inf) for most in bounds)


def _time(work: Work, item: Loop | Task) -> float:
    """The nominal nanoseconds of an item, with those to start its innermost loops. Iterations of a nest of
    few loops may be lanes, which start them for many iterations at once."""
    starts = (
        sum(r.starts for r in work.innermost) if isinstance(item, Loop) and _depth(item) > LANES_DEPTH else 0
    )
    return _nominal(work) + starts * START_NANOSECONDS


def _depth(loop: Loop) -> int:
    """The number of nested loops."""
    return 1 + max((_depth(inner) for inner in loop.body if isinstance(inner, Loop)), default=0)


def _nominal(work: Work) -> float:
    moving = work.bytes * (BYTE_NANOSECONDS if work.bytes > CACHE_BYTES else CACHED_BYTE_NANOSECONDS)
    calls = 0.0
    for made, sides in work.products:
        packs = isinstance(made, Contraction)
        both = packs or (isinstance(made, Call) and made.op == "matmul_tn")
        calls += _product(made.dtype, both, sides, WIDE if packs else TILE)
    return max(moving, _computing(work) + calls)


def _computing(work: Work) -> float:
    """The nominal nanoseconds of operations outside products."""
    points = sum(prod(lengths) for _, lengths in work.products)
    return (_arithmetic(work.operations) - points) * CHEAP_NANOSECONDS


def _arithmetic(operations: Operations) -> int:
    """Operations as simple ones; an instruction multiplies and adds."""
    each: Counter[str] = Counter()
    for (op, _), n in operations.items():
        each[op] += n
    both = max(each.pop("add", 0), each.pop("multiply", 0))
    return both + sum(n * _weight(op) for op, n in each.items())


def calls_pay(products: Iterable[tuple[Dtype, Sequence[int]]]) -> bool | None:
    """Whether calls of matrix products take less time than loops, even if their operands and results are
    stored for them alone; False if they take much longer although nothing is stored, and None if the rest of
    the program decides. A product is its type and lengths: cases, rows, columns and terms."""
    calls = stores = loops = 0.0
    for dtype, (*cases, rows, columns, terms) in products:
        stored = rows * columns + rows * terms + columns * terms
        calls += _product(dtype, True, (*cases, rows, terms, columns))
        stores += 2 * prod(cases) * stored * NUMPY[dtype].itemsize * CACHED_BYTE_NANOSECONDS
        loops += time_as_loops((*cases, rows, columns, terms))
    return True if calls + stores <= loops else False if calls >= CLEARLY_SLOWER * loops else None


def time_as_loops(lengths: Sequence[int]) -> float:
    """The nominal nanoseconds of the points of a product in loops."""
    return prod(lengths) * CHEAP_NANOSECONDS


def _product(dtype: Dtype, both: bool, lengths: tuple[int, ...], most: int = TILE) -> float:
    """The nominal nanoseconds of a matrix product (`targets/llvm/runtime/gemm.py`): its multiplications, in
    whole vectors, packing (of `both` factors, or one), updates of the result, and calls for tiles of at
    `most` so many columns."""
    *cases, rows, terms, columns = lengths
    high, wide, times = -(-rows // TILE), -(-columns // most), -(-terms // TERMS)
    strips = -(-rows // STRIP_ROWS) * -(-columns // PANEL_COLUMNS)
    packed = terms * (high * columns + (wide * rows if both else 0))
    vector = PANEL_COLUMNS // 2
    each = rows * -(-columns // vector) * vector * terms * PRODUCT_NANOSECONDS[dtype]
    each += packed * PACKING_NANOSECONDS + strips * times * UPDATE_NANOSECONDS
    return prod(cases) * (each + high * wide * times * CALL_NANOSECONDS)


def _weight(op: str) -> int:
    """The simple operations that one takes as long as, in loops over vectors."""
    return weight(op) if op in CHEAP or op in INSTRUCTIONS else FUNCTION_WEIGHT
