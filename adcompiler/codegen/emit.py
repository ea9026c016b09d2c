"""From a schedule to readable numba source.

A nest runs block by block over its outermost loop: `nestK(block, start, stop, ...)` does one block,
and `run` calls the blocks in order, or in parallel with the same bits: a sum over the outermost loop
leaves one partial sum a block, and these are added in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from adcompiler.codegen.branches import ALWAYS, cases, meet
from adcompiler.codegen.calls import call
from adcompiler.codegen.kernel import Buffer, Kernel
from adcompiler.codegen.names import Names
from adcompiler.codegen.nests import Loop, Recurrence, Schedule, Task, computed, tasks_of
from adcompiler.codegen.recurrence import recurrence
from adcompiler.codegen.reductions import neutral, operand_level, update
from adcompiler.codegen.rows import with_rows
from adcompiler.codegen.schedule import CPU, Style
from adcompiler.codegen.writer import Writer, zero
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Element,
    Func,
    Index,
    Input,
    Map,
    Node,
    Read,
    Reduce,
    Shape,
)
from adcompiler.ir.types import NUMPY


def emit(func: Func, allocates: bool = True) -> Kernel:
    """The kernel of a program; `allocates`, if its functions may have small arrays of their own."""
    return Emitter(func, allocates=allocates).kernel()


class Emitter:
    """Writes the kernel of a program; `style` is that of its schedule."""

    def __init__(self, func: Func, style: Style = CPU, allocates: bool = True) -> None:
        self.allocates = allocates
        self.func, self.schedule = with_rows(func, style)
        func = self.func
        self.names = Names()
        self.sizes = tuple(self.names.fresh(name) for name in func.size_names)
        self.labels: dict[Array, str] = {}
        for given, name in zip(func.inputs, func.input_names, strict=True):
            self.labels[given] = self.names.fresh(name)
        for array, name in zip(func.results, func.result_names, strict=True):
            if array not in self.labels:
                self.labels[array] = self.names.fresh(name)
        self.buffers: list[Buffer] = []
        self.registers: dict[Task, str] = {}
        self.dropped: dict[Array, frozenset[int]] = {}  # axes that need no storage
        self.rows: dict[Array, Buffer] = {}  # where one turn after the other stores the rest
        self.nested = frozenset(self.schedule.tasks)
        self.adopt(self.schedule.tasks, {})
        self.nests: list[Loop] = []
        self.sequential: set[int] = set()
        self.functions: list[str] = []
        self.stamps: list[str] = []
        alone = [t for t in self.schedule.tasks if not t.order]
        self.driver = Writer(
            self.labels, self.sizes, (e for t in alone for e in t.written), self.local(alone)
        )
        self.driver.dropped = self.dropped

    def adopt(self, tasks: Sequence[Task], rows: Mapping[Array, str]) -> None:
        """Give the arrays of tasks names, and buffers where they are stored; `rows` have theirs, and nests
        have small rows themselves."""
        for task in tasks:
            for array in task.arrays:
                if array not in self.labels:
                    self.labels[array] = self.fresh(array)
                if array.rank and task.stored and not (array in rows or computed(array.shape)):
                    shape = tuple(n for k, n in enumerate(array.shape) if k not in task.dropped)
                    buffer = Buffer(self.labels[array], array.dtype, shape)
                    if task.dropped:
                        self.dropped[array], self.rows[array] = task.dropped, buffer
                    if not (task.dropped and task in self.nested and self.is_own(buffer)):
                        self.buffers.append(buffer)
            if isinstance(task.array, Reduce) and task.in_register:
                label = self.labels[task.array]
                self.registers[task] = label if not task.array.rank else self.names.fresh(label + "_sum")

    def fresh(self, array: Array) -> str:
        """A new name for an array."""
        return self.names.fresh(self.func.names.get(array, "t"))

    def is_own(self, row: Buffer) -> bool:
        """Whether a row is an array of the nest's function."""
        return row.is_small and self.allocates

    # -- the driver ----------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        self.run(self.driver, self.schedule, self.drive)
        given = (r for r in self.func.roots if not isinstance(r, Input))
        scalars = tuple(dict.fromkeys(r for r in given if not r.rank or computed(r.shape)))
        names = [*(self.labels[a] for a in scalars), *self.stamps]
        self.driver.line(f"return ({', '.join(names)}{',' if len(names) == 1 else ''})")
        params = [*self.sizes, *(self.labels[i] for i in self.func.inputs), *(b.name for b in self.buffers)]
        for k in range(len(self.nests)):
            params += [f"blocks{k}", f"rows{k}"]
        lines = [f"@jit\ndef run({', '.join(params)}):", *("    " + line for line in self.driver.scopes[0])]
        text = "\n".join([*self.functions, "\n".join(lines), ""])
        found = self.buffers, self.nests, self.sequential, scalars, self.labels, self.sizes
        return Kernel(self.comment(), text, self.func, *found, len(self.stamps))

    def drive(self, item: Loop | Task) -> None:
        """One item of the driver."""
        if isinstance(item, Loop):
            self.nest(item)
        else:
            self.body(self.driver, [item], {})

    def run(self, writer: Writer, made: Schedule, write: Callable[[Loop | Task], None]) -> None:
        """The items of a schedule in order, those under an `if` that only one branch needs."""
        for element, needed in made.needs.elements.items():
            writer.needs[element] = meet(writer.needs.get(element, needed), needed)
        for needed, group in made.groups():
            items = list(group)
            arrays = [a for i in items for t in tasks_of(i) for a in t.arrays]
            for array in arrays:
                if needed and not array.rank:
                    writer.line(f"{self.labels[array]} = {zero(array.dtype)}")
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
        """Space for the arrays of an item whose lengths the program computes, and zeros where it adds."""
        for task in tasks_of(item):
            for array in task.arrays:
                if task.stored and computed(array.shape) and array not in writer.prefixes:
                    lengths = "".join(f"max({writer.text(n)}, 0), " for n in array.shape)
                    writer.line(f"{self.labels[array]} = np.empty(({lengths}), np.{NUMPY[array.dtype]})")
            if isinstance(task.array, Accumulate) and task.array not in writer.grown:
                row = writer.prefixes.get(task.array, "")
                self.fill(writer, self.labels[task.array], task.array.shape, neutral(task.array), row)

    # -- nests ---------------------------------------------------------------------------------

    def nest(self, loop: Loop) -> None:
        """One nest: a function for a block, and the driver's loop over blocks."""
        k = len(self.nests)
        self.nests.append(loop)
        tasks = loop.tasks
        writer = Writer(self.labels, self.sizes, (e for t in tasks for e in t.written), self.local(tasks))
        writer.dropped = self.dropped
        for array in (t.array for t in tasks if t.array in self.rows):
            row = self.rows[array]
            if self.is_own(row):
                writer.line(f"{row.name} = np.empty({row.lengths}, np.{NUMPY[row.dtype]})")
                writer.own.add(row.name)
            else:
                row.nest = k
                writer.prefixes[array] = "block, "
        partial = [t for t in tasks if isinstance(t.array, Reduce) and t.first_reduced == 0]
        accumulators = {t: self.partial(writer, t, k) for t in partial}
        if any(isinstance(t.array, Accumulate) and Index(loop.number) not in t.elements[:-1] for t in tasks):
            self.sequential.add(k)
        for t in partial:
            self.start(writer, t, accumulators[t])
        self.cases(writer, loop, "uint64(start), uint64(stop)", accumulators)
        for t in partial:
            if t.in_register:
                writer.line(f"{accumulators[t]}[block] = {self.registers[t]}")
        params = ["block", "start", "stop", *writer.used]
        text = [
            f"@jit\ndef nest{k}({', '.join(params)}):",
            *("    " + line for line in writer.scopes[0]),
            "\n",
        ]
        self.functions.append("\n".join(text))
        size = self.driver.text(loop.size)
        self.driver.line(f"for block in range(blocks{k}):  # nest {k}")
        first, last = f"block * rows{k}", f"min((block + 1) * rows{k}, {size})"
        self.driver.line(f"    nest{k}({', '.join(['block', first, last, *writer.used])})")
        for name in writer.used:
            self.driver.use(name)
        for t in partial:
            self.combine(t, accumulators[t], k)

    def local(self, tasks: Sequence[Task]) -> dict[Element, str]:
        """Variables that bear the names which the user gave to what they hold."""
        wanted = {e: name for t in tasks for e, name in t.named(self.func.names).items()}
        return {e: self.names.fresh(name) for e, name in wanted.items() if e.args}

    def partial(self, writer: Writer, task: Task, nest: int) -> str:
        """The buffer of a task's partial sums, one a block."""
        name = f"part{len(self.buffers)}"
        shape = () if task.in_register else task.array.shape
        self.buffers.append(Buffer(name, task.array.dtype, shape, nest))
        return writer.use(name)

    def start(self, writer: Writer, task: Task, partial: str) -> None:
        """Set an accumulator to the neutral value of its reduction."""
        if task.in_register:
            writer.line(f"{self.registers[task]} = {neutral(task.array)}")
        else:
            self.fill(writer, partial, task.array.shape, neutral(task.array), "block, ")

    def combine(self, task: Task, partial: str, nest: int) -> None:
        """Combine the blocks' partial results in order."""
        name, writer = self.labels[task.array], self.driver
        if task.in_register:
            register = self.registers[task]
            writer.line(f"{register} = {neutral(task.array)}")
            writer.line(f"for block in range(blocks{nest}):  # in order")
            writer.line(f"    {register} = {update(task.array, register, f'{partial}[block]', fixed=True)}")
            if task.array.rank:
                writer.line(f"{self.place(writer, task)} = {register}")
            return
        self.fill(writer, name, task.array.shape, neutral(task.array))
        k = len(self.functions)
        axes = [f"i{d}" for d in range(task.array.rank)]
        spot = f"{name}[{', '.join(axes)}]"
        lines = [
            f"@jit\ndef nest{k}_sum({name}, {partial}, blocks):",
            "    for block in range(uint64(0), uint64(blocks)):",
        ]
        for d, axis in enumerate(axes):
            lines.append("    " * (d + 2) + f"for {axis} in range(uint64(0), uint64({name}.shape[{d}])):")
        value = update(task.array, spot, f"{partial}[block, {', '.join(axes)}]", fixed=True)
        lines.append("    " * (len(axes) + 2) + f"{spot} = {value}")
        self.functions.append("\n".join([*lines, "\n"]))
        writer.line(f"nest{k}_sum({name}, {partial}, blocks{nest})")

    def fill(
        self, writer: Writer, name: str, shape: Shape, value: str, before: str = "", kept: str = ""
    ) -> None:
        """Loops that set all elements of an array (of one block of it)."""
        axes = [f"i{d}" for d in range(len(shape))]
        writer.use(name)
        for d, axis in enumerate(axes):
            writer.line(writer.over(axis, shape[d], d))
        writer.line("    " * len(axes) + f"{name}[{before}{', '.join(axes)}] = {value}")

    # -- inside a nest -------------------------------------------------------------------------

    def body(self, writer: Writer, items: Sequence[Loop | Task], partial: dict[Task, str]) -> None:
        """Loops and statements in order."""
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
            limits = ", ".join(writer.limits(item))
            if depth:
                self.write_loop(writer, item, limits, partial)
            else:
                self.cases(writer, item, limits, partial)
            for task in starting:
                if task.in_register:
                    self.finish(writer, task)

    def write_loop(self, writer: Writer, loop: Loop, limits: str, partial: dict[Task, str]) -> None:
        """One loop of a nest."""
        writer.open(loop, f"for i{loop.number} in range({limits}):")
        self.body(writer, loop.body, partial)
        writer.close()

    def cases(self, writer: Writer, loop: Loop, limits: str, partial: dict[Task, str]) -> None:
        """The outermost loop of a nest, for each case of what decides between costly sides."""
        for case in cases(e for t in loop.tasks for e in t.elements):
            for task in loop.tasks:
                task.known = case
            with writer.under(case):
                self.write_loop(writer, loop, limits, partial)
        for task in loop.tasks:
            task.known = ALWAYS

    def begin(self, writer: Writer, task: Task) -> None:
        """Start a reduction inside a nest: a register, or the part of its array that the loops will fill."""
        value = neutral(task.array)
        if task.in_register:
            writer.line(f"{self.registers[task]} = {value}")
            return
        inner = [k for k in task.order[task.first_reduced :] if k < task.array.rank]
        spot = [f"i{i.axis}" if isinstance(i, Index) else "0" for i in task.kept]
        for d, k in enumerate(inner):
            spot[k] = f"j{d}"
            writer.line(writer.over(f"j{d}", task.array.shape[k], d))
        writer.line("    " * len(inner) + f"{writer.element(task.array, spot)} = {value}")

    def finish(self, writer: Writer, task: Task) -> None:
        """A sum of this turn is complete: its register has it from here on, and it is stored if need be."""
        if task.stored:
            writer.line(f"{self.place(writer, task)} = {self.registers[task]}")
        writer.define(Read(task.array, task.kept), self.registers[task])

    def place(self, writer: Writer, task: Task) -> str:
        """Where a task's element of this turn is stored."""
        return writer.element(task.array, [f"i{i.axis}" if isinstance(i, Index) else "0" for i in task.kept])

    def statement(self, writer: Writer, task: Task, partial: dict[Task, str] | None = None) -> None:
        """What one turn of the innermost loop does for a task."""
        self.note(writer, task.array)
        match task.array:
            case Map(rank=0):
                writer.line(f"{self.labels[task.array]} = {writer.text(task.elements[0])}")
            case Map():
                read, text = Read(task.array, task.kept), writer.text(task.elements[0])
                if writer.uses[read] and not text.isidentifier():
                    text = writer.assign(text)
                if writer.uses[read]:
                    writer.define(read, text)
                if task.stored:
                    writer.line(f"{self.place(writer, task)} = {text}")
            case Reduce():
                value = writer.text(task.elements[0], operand_level(task.array))
                spot = self.accumulator(writer, task, (partial or {}).get(task))
                writer.line(f"{spot} = {update(task.array, spot, value)}")
            case Accumulate():
                self.scatter(writer, task)
            case _:
                call(writer, task.array)

    def accumulator(self, writer: Writer, task: Task, partial: str | None) -> str:
        """The variable or the array element that a reduction adds to."""
        if task.in_register:
            return self.registers[task]
        if partial is None:
            return self.place(writer, task)
        spot = ", ".join(f"i{i.axis}" if isinstance(i, Index) else "0" for i in task.kept)
        return f"{writer.use(partial)}[block, {spot}]"

    def scatter(self, writer: Writer, task: Task) -> None:
        """One addition at computed indices; a point outside the array adds nothing."""
        *indices, body = task.elements
        spot, inside = writer.place(task.array, indices, [writer.written(i) for i in indices])
        value = writer.text(body)
        if inside:
            writer.line(f"if {inside}:")
        writer.line(("    " if inside else "") + f"{spot} += {value}")

    def note(self, writer: Writer, node: Node) -> None:
        """The line of the user's source that a statement computes, once in a function."""
        span, source = self.func.spans.get(node), self.func.source
        if span is not None and source is not None:
            lines = source.text.splitlines()
            if 0 < span.line <= len(lines):
                text = "".join(c if c.isprintable() else " " for c in lines[span.line - 1]).strip()
                if text not in writer.noted:
                    writer.noted.add(text)
                    writer.line(f"# {text[:100]}")
