"""Lowers a schedule to loop IR, which prints as readable numba source.

A nest runs block by block over its outermost loop: `nestK(block, start, stop, ...)` runs one block. `run`
calls the blocks in order, or in parallel with bitwise equal results: a sum over the outermost loop leaves one
partial sum per block, and these are added in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from adcompiler.analysis.loop_order import is_short
from adcompiler.analysis.predicates import Conditions, join, meet
from adcompiler.ir.nodes import Accumulate, Array, Contraction, Element, Input, Put, Read, Reduce, Shape
from adcompiler.ir.nodes import Call as ArrayCall
from adcompiler.kernels.emit import calls
from adcompiler.kernels.emit.call_plan import Buffer, CallPlan
from adcompiler.kernels.emit.contraction import Tiles
from adcompiler.kernels.emit.kernel import Kernel, over_blocks
from adcompiler.kernels.emit.names import Names
from adcompiler.kernels.emit.parallel_scan import ParallelScan, ParallelScanWriter
from adcompiler.kernels.emit.range_cuts import cut, edges
from adcompiler.kernels.emit.recurrence import recurrence
from adcompiler.kernels.emit.statements import Statements, neutral, update
from adcompiler.kernels.emit.writer import Row, Writer, zero
from adcompiler.kernels.schedule.branches import cases
from adcompiler.kernels.schedule.diagonals import Tie, at, elsewhere, tied_places
from adcompiler.kernels.schedule.materialise import Scheduled
from adcompiler.kernels.schedule.schedule_tree import (
    UNNUMBERED,
    Loop,
    Recurrence,
    Schedule,
    Task,
    adds_anywhere,
    computed,
    is_divisible,
    tasks_of,
)
from adcompiler.kernels.schedule.strict_elements import uncontracted, uncontracted_in
from adcompiler.loopir.nodes import (
    BLOCK,
    Access,
    Allocate,
    Assign,
    Binary,
    Call,
    Expr,
    For,
    Function,
    Invoke,
    Length,
    Return,
    Stmt,
    Store,
    Var,
    counted,
    literal,
    signed,
    unsigned,
)


def emit(made: Scheduled, divides: bool = False) -> Kernel:
    """The kernel of a program. With `divides`, threads share the iterations of its loops."""
    return Emitter(made, divides).kernel()


class Emitter(Statements):
    """Writes the kernel of a program.

    Loops inside an iteration of a program loop are part of the driver. With `divides` they are nests as well,
    at the cost of one call per nest and iteration.
    """

    fills = True  # rows, before the diagonals of a matrix
    cuts = True  # loops, where conditions matter only near their ends

    def __init__(self, made: Scheduled, divides: bool = False) -> None:
        self.divides = divides
        func, buffers = made.func, made.buffers
        self.func, self.schedule = func, made.schedule
        self.uncontracted, self.separate = uncontracted(self.schedule)
        self.names = Names()
        self.sizes = tuple(self.names.fresh(name) for name in func.size_names)
        self.labels: dict[Array, str] = {}
        for given, name in zip(func.inputs, func.input_names, strict=True):
            self.labels[given] = self.names.fresh(name)
        for array, name in zip(func.results, func.result_names, strict=True):
            if array not in self.labels:
                self.labels[array] = self.names.fresh(name)
        reused = {value: self.labels[result] for value, result in buffers.items()}
        self.reused = {result: value for value, result in buffers.items()}
        self.adding = {func.results[k] for k in func.adding}
        self.labels |= reused
        self.buffers: list[Buffer] = []
        self.registers: dict[Task, str] = {}
        self.dropped: dict[Array, frozenset[int]] = {}  # axes that need no storage
        self.rows: dict[Array, Buffer] = {}  # the stored axes, reused by each iteration
        self.nested = set(self.schedule.tasks)
        self.adopt(self.schedule.tasks, reused)
        self.nests: list[Loop] = []
        self.sequential: set[int] = set()
        self.in_iterations: set[int] = set()
        self.scans: dict[int, Recurrence] = {}  # loops of the program that are nests
        self.partials: dict[str, Array] = {}  # of which array a buffer has the partial sums
        self.whole: list[Loop] = []  # loops in iterations that might be nests
        self.functions: list[Function] = []
        self.stamps: list[str] = []
        alone = [t for t in self.schedule.tasks if not t.order]
        self.driver = Writer(
            self.labels, self.sizes, (e for t in alone for e in t.written), self.local(alone)
        )
        self.driver.dropped, self.driver.uncontracted = self.dropped, self.uncontracted

    def adopt(self, tasks: Sequence[Task], rows: Collection[Array]) -> None:
        """Name the arrays of tasks, with buffers for the stored ones. Those in `rows` have buffers, and nests
        keep small rows in local arrays."""
        for task in tasks:
            for array in task.arrays:
                if array not in self.labels:
                    self.labels[array] = self.fresh(array)
                if array.rank and task.stored and not (array in rows or computed(array.shape)):
                    shape = tuple(n for k, n in enumerate(array.shape) if k not in task.dropped)
                    buffer = Buffer(self.labels[array], array.dtype, shape)
                    if task.dropped:
                        self.dropped[array], self.rows[array] = task.dropped, buffer
                    if not (task.dropped and self.is_nested(task) and buffer.is_small):
                        self.buffers.append(buffer)
            if isinstance(task.array, Reduce) and task.in_register:
                label = self.labels[task.array]
                self.registers[task] = label if not task.array.rank else self.names.fresh(label + "_sum")

    def fresh(self, array: Array) -> str:
        """A new name for an array."""
        return self.names.fresh(self.func.names.get(array, "t"))

    def is_nested(self, task: Task) -> bool:
        """Whether a task's loops are a nest."""
        return task in self.nested or (self.divides and any(map(is_divisible, task.loops[:1])))

    # -- the driver ----------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """The kernel."""
        self.run(self.driver, self.schedule, self.drive)
        given = (r for r in self.func.roots if not isinstance(r, Input))
        scalars = tuple(dict.fromkeys(r for r in given if not r.rank or computed(r.shape)))
        names = [*(self.labels[a] for a in scalars), *self.stamps]
        self.driver.add(Return(tuple(map(Var, names))))
        buffers, nests = tuple(self.buffers), len(self.nests)
        plan = CallPlan.of(self.func, self.sizes, self.labels, buffers, nests, scalars, len(self.stamps))
        functions = [*self.functions, Function("run", [*plan.params], self.driver.scopes[0])]
        rows = frozenset(row.name for row in self.rows.values() if row.nest is not None)
        found = self.nests, self.sequential, self.labels, rows, self.in_iterations, self.whole, self.scans
        return Kernel(self.comment(), functions, self.func, plan, *found)

    def drive(self, item: Loop | Task) -> None:
        """Write one item of the driver."""
        if isinstance(item, Loop):
            self.nest(item)
        elif isinstance(item, Recurrence) and (scan := ParallelScan(item)).legal():
            self.parallel_scan(scan)
        elif isinstance(item, Task) and isinstance(item.array, Contraction):
            self.contraction(item, item.array)
        elif isinstance(item, Task) and calls.is_product(item.array):
            self.product(item, item.array)
        else:
            self.body(self.driver, [item], {})

    def in_iteration(self, writer: Writer, item: Loop | Task) -> None:
        """Write one item of an iteration of a loop."""
        if isinstance(item, Loop) and writer is self.driver and is_divisible(item):
            if self.divides:
                self.in_iterations.add(len(self.nests))
                self.nest(item)
                return
            self.whole.append(item)
        if isinstance(item, Task) and calls.is_product(item.array) and writer is self.driver:
            pieces = calls.pieces(item.array)
            if self.divides and not computed((pieces,)):
                self.in_iterations.add(len(self.nests))
                self.product(item, item.array)
                return
            self.whole.append(Loop(pieces, UNNUMBERED, [item]))
        self.body(writer, [item], {})

    def run(self, writer: Writer, made: Schedule, write: Callable[[Loop | Task], None]) -> None:
        """Write the items of a schedule in order, under an `if` if only one branch needs them."""
        for element, needed in made.needs.elements.items():
            writer.needs[element] = meet(writer.needs.get(element, needed), needed)
        for needed, group in made.groups():
            items = list(group)
            arrays = [a for i in items for t in tasks_of(i) for a in t.arrays]
            for array in arrays:
                if needed and not array.rank:
                    writer.add(Assign(self.labels[array], zero(array.dtype)))
            with writer.under(needed, arrays):
                for item in items:
                    self.prepare(writer, item)
                    write(item)

    def comment(self) -> str:
        """The program's name and the source it came from."""
        lines = [f"Kernel of {self.func.name}, generated by adcompiler."]
        if self.func.source is not None:
            lines += self.func.source.text.strip("\n").splitlines()[:60]
        return "".join(
            f"# {''.join(c if c.isprintable() else ' ' for c in line)}".rstrip() + "\n" for line in lines
        )

    def prepare(self, writer: Writer, item: Loop | Task) -> None:
        """Allocate the arrays of an item whose lengths the program computes, and zero those it adds to."""
        for task in tasks_of(item):
            for array in task.arrays:
                if task.stored and computed(array.shape) and array not in writer.prefixes:
                    lengths = (Call("max", (writer.written(n), literal(0))) for n in array.shape)
                    writer.add(Allocate(self.labels[array], array.dtype, tuple(lengths)))
            if isinstance(task.array, Put) and not self.in_place(writer, task.array):
                self.copy_base(writer, task.array)
            if isinstance(task.array, Accumulate) and task.array not in writer.grown | self.adding:
                row = writer.row(task.array)
                self.fill(writer, self.labels[task.array], task.array.shape, neutral(task.array), row)

    def in_place(self, writer: Writer, put: Put) -> bool:
        """Whether a store changes the memory of the array that it stores in."""
        return self.labels[put] == self.labels[put.base] and writer.row(put) == writer.row(put.base)

    def copy_base(self, writer: Writer, put: Put) -> None:
        """Copy the array that a store would change."""
        axes = [f"c{d}" for d in range(put.rank)]
        heads = [writer.over(axis, put.shape[d], d) for d, axis in enumerate(axes)]
        spots = [Var(axis) for axis in axes]
        writer.headed(heads, Store(writer.element(put, spots), writer.element(put.base, spots)))

    # -- nests ---------------------------------------------------------------------------------

    def nest(self, loop: Loop) -> None:
        """Write one nest: a function for a block, and the driver's loop over blocks."""
        k, tasks = len(self.nests), loop.tasks
        writer = self.function(loop, (e for t in tasks for e in t.written))
        if k in self.in_iterations:
            writer.nest_in(self.driver)
        self.keep_rows(writer, tasks, k)
        partial = [t for t in tasks if isinstance(t.array, Reduce) and t.first_reduced == 0]
        accumulators = {t: self.partial(writer, t, k) for t in partial}
        if adds_anywhere(loop):
            self.sequential.add(k)
        for t in partial:
            self.start(writer, t, accumulators[t])
        writer.cut = {loop.number}
        self.cases(writer, loop, writer.limits(loop), accumulators)
        for t in partial:
            if t.in_register:
                writer.add(Store(Access(accumulators[t], (BLOCK,)), Var(self.registers[t])))
        self.divide(k, writer)
        for t in partial:
            self.combine(t, accumulators[t], k)

    def parallel_scan(self, scan: ParallelScan) -> None:
        """Write a program loop as a nest, which runs all iterations of a block."""
        k, rec = len(self.nests), scan.rec
        writer = self.function(Loop(scan.size, UNNUMBERED, scan.tasks), ())
        self.scans[k] = rec
        self.nested |= set(scan.tasks)
        sums = {s: o for o, s in scan.collected if o in scan.sums}
        partial = {s: self.partial_sums(s, s.shape, k) for s in sums}
        ParallelScanWriter(self, writer, scan, k, partial).write()
        self.divide(k, writer)
        for stack, total in sums.items():
            self.add_up(self.labels[stack], stack.shape, total, partial[stack], k)

    def product(self, task: Task, made: ArrayCall) -> None:
        """Write a matrix product as a nest over its pieces."""
        k, writer = len(self.nests), self.function(Loop(calls.pieces(made), UNNUMBERED, [task]), ())
        if k in self.in_iterations:
            writer.nest_in(self.driver)
        calls.product(writer, made, Var("start"), Var("stop"))
        self.divide(k, writer)

    def contraction(self, task: Task, made: Contraction) -> None:
        """Write a contraction as a nest over its tiles."""
        k, tiles = len(self.nests), Tiles(made)
        writer = self.function(Loop(tiles.count, UNNUMBERED, [task]), task.written)
        tiles.write(writer, task.elements)
        self.divide(k, writer)

    def function(self, loop: Loop, roots: Iterable[Element]) -> Writer:
        """The writer for the function of a new nest, which computes `roots`."""
        self.nests.append(loop)
        writer = Writer(self.labels, self.sizes, roots, self.local(loop.tasks))
        writer.dropped, writer.uncontracted = self.dropped, self.uncontracted
        return writer

    def keep_rows(self, writer: Writer, tasks: Sequence[Task], number: int) -> None:
        """Place rows of a nest in local arrays, or in a buffer with one row per block."""
        for array in (t.array for t in tasks if t.array in self.rows):
            row = self.rows[array]
            if row.is_small:
                writer.add(Allocate(row.name, row.dtype, tuple(map(literal, row.lengths))))
                writer.own.add(row.name)
            else:
                self.rows[array] = reused = replace(row, nest=number)
                self.buffers[self.buffers.index(row)] = reused
                writer.prefixes[array] = (BLOCK,)

    def divide(self, k: int, writer: Writer) -> None:
        """Add the function of a nest, and the driver's loop over its blocks."""
        used, rows = list(writer.used), Var(f"rows{k}")
        params = ["block", "start", "stop", *used]
        self.functions.append(Function(f"nest{k}", params, writer.scopes[0]))
        size = self.driver.written(self.nests[k].size)
        first, following = Binary("*", BLOCK, rows), Binary("*", Binary("+", BLOCK, literal(1)), rows)
        args = BLOCK, first, Call("min", (following, size)), *map(Var, used)
        self.driver.add(over_blocks(k, Invoke(f"nest{k}", args), f"nest {k}"))
        for name in used:
            self.driver.use(name)

    def local(self, tasks: Sequence[Task]) -> dict[Element, str]:
        """Local variables for elements that the user named."""
        wanted = {e: name for t in tasks for e, name in t.named(self.func.names).items()}
        return {e: self.names.fresh(name) for e, name in wanted.items() if e.args}

    def partial(self, writer: Writer, task: Task, nest: int) -> str:
        """The buffer of a task's partial sums, one per block."""
        shape = () if task.in_register else task.array.shape
        return writer.use(self.partial_sums(task.array, shape, nest))

    def partial_sums(self, summed: Array, shape: Shape, nest: int) -> str:
        """A new buffer for partial sums of a nest: one array of `shape` per block."""
        name = f"part{len(self.buffers)}"
        self.buffers.append(Buffer(name, summed.dtype, shape, nest))
        self.partials[name] = summed
        return name

    def start(self, writer: Writer, task: Task, partial: str) -> None:
        """Set an accumulator to the neutral value of its reduction."""
        if task.in_register:
            writer.add(Assign(self.registers[task], neutral(task.array)))
        else:
            self.fill(writer, partial, task.array.shape, neutral(task.array), (BLOCK,))

    def combine(self, task: Task, partial: str, nest: int) -> None:
        """Combine the blocks' partial results in order."""
        name, writer = self.labels[task.array], self.driver
        if task.in_register:
            register = self.registers[task]
            writer.add(Assign(register, neutral(task.array)))
            value = update(task.array, Var(register), Access(partial, (BLOCK,)), fixed=True)
            writer.add(over_blocks(nest, Assign(register, value), "in order"))
            if task.array.rank:
                writer.add(Store(self.place(writer, task), Var(register)))
            return
        self.add_up(name, task.array.shape, task.array, partial, nest, writer.row(task.array))

    def add_up(self, name: str, shape: Shape, reduced: Array, partial: str, nest: int, row: Row = ()) -> None:
        """Combine arrays of partial results into one array, or into a row of one."""
        writer, iterations = self.driver, self.driver.iterations
        self.fill(writer, name, shape, neutral(reduced), row)
        axes = [Var(f"i{d}") for d in range(len(shape))]
        spot = Access(name, (*row, *axes))
        value = update(reduced, spot, Access(partial, (BLOCK, *axes)), fixed=True)
        body: Stmt = Store(spot, value)
        for d, axis in reversed(list(enumerate(axes, 1))):
            body = counted(axis.name, Length(partial, d), [body])
        loop = counted(BLOCK.name, Var("blocks"), [body], kind="blocks")
        called = f"nest{len(self.functions)}_sum"
        self.functions.append(Function(called, [name, partial, "blocks", *iterations], [loop]))
        writer.add(Invoke(called, tuple(map(Var, (name, partial, f"blocks{nest}", *iterations)))))

    # -- inside a nest -------------------------------------------------------------------------

    def body(self, writer: Writer, items: Sequence[Loop | Task], partial: dict[Task, str]) -> None:
        """Write loops and statements in order."""
        for item in items:
            if isinstance(item, Recurrence):
                recurrence(self, writer, item)
                continue
            if isinstance(item, Task):
                self.statement(writer, item, partial)
                continue
            depth = len(writer.loops) - writer.base
            starting = [t for t in item.tasks if isinstance(t.array, Reduce) and t.first_reduced == depth]
            for task in starting:
                self.begin(writer, task)
            for task in item.tasks if item.bounds else ():  # not all elements have an iteration
                if task.stored and item.begins(task) and not task.where:
                    self.blank(writer, task, depth)
            limits = writer.limits(item)
            if depth:
                self.write_loop(writer, item, limits, partial)
            else:
                self.cases(writer, item, limits, partial)
            for task in starting:
                if task.in_register:
                    self.finish(writer, task)

    def write_loop(
        self, writer: Writer, loop: Loop, limits: tuple[Expr, Expr], partial: dict[Task, str]
    ) -> None:
        """Write one loop of a nest, then overwrite the elements on diagonals."""
        found = {t: ties for t in loop.tasks if (ties := self.diagonals(writer, loop, t))}
        with self.assuming(writer, {t: elsewhere(t.known, ties) for t, ties in found.items()}):
            self.iterate(writer, loop, limits, partial)
        for task, ties in found.items():
            for indices, value in (at(task, loop.number, tie, ties) for tie in ties):
                writer.expect((*indices, value))
                self.uncontracted |= uncontracted_in((value,), task in self.separate)
                self.put(writer, task.array, indices, value)

    def iterate(
        self, writer: Writer, loop: Loop, limits: tuple[Expr, Expr], partial: dict[Task, str]
    ) -> None:
        """Write one loop, with its inside apart if conditions matter only near its ends."""
        found = cut(writer, loop) if self.cuts else None
        if found is None:
            writer.open(loop, For(f"i{loop.number}", *limits))
            self.body(writer, loop.body, partial)
            writer.close()
            return
        whole = signed(limits[0]), signed(limits[1])
        inside = found.limits(loop, writer, whole)
        head, place = edges(loop, whole, inside)
        with self.uncut():
            writer.open(loop, head)
            writer.add(place)
            self.body(writer, loop.body, partial)
            writer.close()
        with self.assuming(writer, {t: join(t.known, found.known) for t in loop.tasks}):
            writer.open(found.inside(loop), For(f"i{loop.number}", unsigned(inside[0]), unsigned(inside[1])))
            self.body(writer, loop.body, partial)
            writer.close()

    @contextmanager
    def assuming(self, writer: Writer, known: Mapping[Task, Conditions]) -> Iterator[None]:
        """Write what tasks compute under the conditions that they know here."""
        before = {t: t.known for t, now in known.items() if t.known != now}
        for task in before:
            task.known = known[task]
            self.uncontracted |= uncontracted_in(task.elements, task in self.separate)
        writer.expect(e for t in before for e in t.elements)
        yield
        for task, outside in before.items():
            task.known = outside

    @contextmanager
    def uncut(self) -> Iterator[None]:
        """Write loops as they are."""
        before, self.cuts = self.cuts, False
        yield
        self.cuts = before

    def diagonals(self, writer: Writer, loop: Loop, task: Task) -> list[Tie]:
        """The few places of a row that conditions single out, if nothing reads the row while it is
        computed."""
        if not self.fills or len(writer.loops) == writer.base or is_short(loop.size):
            return []
        found = tied_places(task, loop.number) if task in loop.body and task.stored else []
        return found if found and not writer.uses[Read(task.array, task.kept)] else []

    def cases(self, writer: Writer, loop: Loop, limits: tuple[Expr, Expr], partial: dict[Task, str]) -> None:
        """Write the outermost loop of a nest for each case of the conditions that choose between costly
        sides."""
        for case in cases(e for t in loop.tasks for e in t.elements):
            with self.assuming(writer, dict.fromkeys(loop.tasks, case)), writer.under(case):
                self.write_loop(writer, loop, limits, partial)
