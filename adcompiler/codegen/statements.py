"""What one turn of the loops of a nest does, as text: assignments, and sums from their start to their end."""

from __future__ import annotations

from collections.abc import Mapping

from adcompiler.codegen.calls import call
from adcompiler.codegen.nests import Task
from adcompiler.codegen.reductions import neutral, operand_level, update
from adcompiler.codegen.writer import Writer
from adcompiler.ir.nodes import Accumulate, Array, Element, Func, Index, Map, Node, Read, Reduce, Shape
from adcompiler.loopir.nodes import Expr, Var, literal
from adcompiler.loopir.printer import text


class Statements:
    """Writes the statements of tasks: `labels` are the names of arrays, `registers` the variables of sums."""

    func: Func
    labels: dict[Array, str]
    registers: dict[Task, str]
    lent: Mapping[Array, Array] = {}  # results in whose memory other arrays stand until then

    def fill(
        self, writer: Writer, name: str, shape: Shape, value: str, before: str = "", kept: str = ""
    ) -> None:
        """Loops that set all elements of an array (of one block of it)."""
        axes = [f"i{d}" for d in range(len(shape))]
        writer.use(name)
        headers = [writer.over(axis, shape[d], d) for d, axis in enumerate(axes)]
        writer.headed(headers, f"{name}[{before}{', '.join(axes)}] = {value}")

    def begin(self, writer: Writer, task: Task) -> None:
        """Start a reduction inside a nest: a register, or the part of its array that the loops will fill."""
        if task.in_register:
            writer.line(f"{self.registers[task]} = {neutral(task.array)}")
            return
        self.blank(writer, task, task.first_reduced)

    def blank(self, writer: Writer, task: Task, depth: int) -> None:
        """Set what loops from `depth` on may fill of a reduction's array to what it is of nothing."""
        inner = [k for k in task.order[depth:] if k < task.array.rank]
        spot = kept(task)
        for d, k in enumerate(inner):
            spot[k] = Var(f"j{d}")
        headers = [writer.over(f"j{d}", task.array.shape[k], d) for d, k in enumerate(inner)]
        writer.headed(headers, f"{text(writer.element(task.array, spot))} = {neutral(task.array)}")

    def finish(self, writer: Writer, task: Task) -> None:
        """A sum of this turn is complete: its register has it from here on, and it is stored if need be."""
        if task.stored:
            writer.line(f"{self.place(writer, task)} = {self.kept(task, self.registers[task])}")
        writer.define(Read(task.array, task.kept), self.registers[task])

    def place(self, writer: Writer, task: Task) -> str:
        """Where a task's element of this turn is stored."""
        return text(writer.element(task.array, kept(task)))

    def statement(self, writer: Writer, task: Task, partial: dict[Task, str] | None = None) -> None:
        """What one turn of the innermost loop does for a task."""
        self.note(writer, task.array)
        match task.array:
            case Map(rank=0):
                writer.line(f"{self.labels[task.array]} = {writer.text(task.elements[0])}")
            case Map():
                read, value = Read(task.array, task.kept), writer.text(task.elements[0])
                if writer.uses[read] and not value.isidentifier():
                    value = writer.assign(value)
                if writer.uses[read]:
                    writer.define(read, value)
                if task.array in self.lent:  # whoever reads it from here on has a variable
                    writer.keep(Read(self.lent[task.array], task.kept))
                if task.stored:
                    writer.line(f"{self.place(writer, task)} = {self.kept(task, value)}")
            case Reduce():
                value = writer.text(task.elements[0], operand_level(task.array))
                spot = self.accumulator(writer, task, (partial or {}).get(task))
                writer.line(f"{spot} = {self.added(task.array, spot, value)}")
            case Accumulate():
                self.scatter(writer, task)
            case _:
                call(writer, task.array)

    def kept(self, task: Task, text: str) -> str:
        """A value as a task's array keeps it."""
        return text

    def added(self, array: Array, total: str, value: str) -> str:
        """One step of a reduction."""
        return update(array, total, value)

    def accumulator(self, writer: Writer, task: Task, partial: str | None) -> str:
        """The variable or the array element that a reduction adds to."""
        if task.in_register:
            return self.registers[task]
        if partial is None:
            return self.place(writer, task)
        spot = ", ".join(f"i{i.axis}" if isinstance(i, Index) else "0" for i in task.kept)
        return f"{writer.use(partial)}[block, {spot}]"

    def scatter(self, writer: Writer, task: Task) -> None:
        """One addition at computed indices."""
        *indices, body = task.elements
        self.put(writer, task.array, indices, body, "+=")

    def put(self, writer: Writer, array: Array, indices: list[Element], value: Element, how: str) -> None:
        """Store at computed indices, or add there; at a point outside the array nothing is done."""
        spot, inside = writer.place(array, indices, [writer.written(i) for i in indices])
        headers = [] if inside is None else [f"if {text(inside)}:"]
        writer.headed(headers, f"{text(spot)} {how} {writer.text(value)}")

    def note(self, writer: Writer, node: Node) -> None:
        """The line of the user's source that a statement computes, once in a function."""
        span, source = self.func.spans.get(node), self.func.source
        if span is not None and source is not None:
            lines = source.text.splitlines()
            if 0 < span.line <= len(lines):
                line = "".join(c if c.isprintable() else " " for c in lines[span.line - 1]).strip()
                if line not in writer.noted:
                    writer.noted.add(line)
                    writer.line(f"# {line[:100]}")


def kept(task: Task) -> list[Expr]:
    """The indices of the element that a turn of a task's loops gives."""
    return [Var(f"i{i.axis}") if isinstance(i, Index) else literal(0) for i in task.kept]
