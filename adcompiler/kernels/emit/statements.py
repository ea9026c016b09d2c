"""The statements of one iteration of a nest: assignments, reductions and scatters."""

from __future__ import annotations

from collections.abc import Mapping

from adcompiler.analysis.puts import TRUE
from adcompiler.ir import nodes
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Element,
    Func,
    Index,
    Map,
    Node,
    Put,
    Read,
    Reduce,
    Shape,
)
from adcompiler.ir.types import is_float
from adcompiler.kernels.emit.calls import call
from adcompiler.kernels.emit.writer import Row, Writer, constant
from adcompiler.kernels.schedule.schedule_tree import Task
from adcompiler.loopir.nodes import (
    BLOCK,
    Access,
    Assign,
    Binary,
    Call,
    Comment,
    Expr,
    If,
    Store,
    Unary,
    Update,
    Var,
    all_of,
    assignment,
    literal,
)


def neutral(array: Array) -> Expr:
    """The initial value of a reduction or a scatter."""
    op = array.op if isinstance(array, Reduce) else "sum"
    return constant(nodes.neutral(op, array.dtype))


def update(array: Array, total: Expr, value: Expr, fixed: bool = False) -> Expr:
    """One step of a reduction. The vectoriser may reassociate sums of floats unless `fixed`."""
    assert isinstance(array, Reduce)
    if array.op == "sum":
        reassociated = is_float(array.dtype) and not fixed
        return Call("reduce_add", (total, value)) if reassociated else Binary("+", total, value)
    if array.op == "prod":
        return Binary("*", total, value)
    return Call(f"{'reduce_' if is_float(array.dtype) else ''}{array.op}", (total, value))


class Statements:
    """Writes the statements of tasks. `labels` names arrays, and `registers` the accumulator variables."""

    func: Func
    labels: dict[Array, str]
    registers: dict[Task, str]
    reused: Mapping[Array, Array] = {}  # results whose memory holds another array until they are computed

    def fill(self, writer: Writer, name: str, shape: Shape, value: Expr, row: Row = ()) -> None:
        """Write loops that set all elements of an array, or of a row of it."""
        axes = [f"i{d}" for d in range(len(shape))]
        writer.use(name)
        heads = [writer.over(axis, shape[d], d) for d, axis in enumerate(axes)]
        writer.headed(heads, Store(Access(name, (*row, *map(Var, axes))), value))

    def begin(self, writer: Writer, task: Task) -> None:
        """Initialise a reduction inside a nest: its register, or the part of its array that the loops
        fill."""
        if task.in_register:
            writer.add(Assign(self.registers[task], neutral(task.array)))
            return
        self.blank(writer, task, task.first_reduced)

    def blank(self, writer: Writer, task: Task, depth: int) -> None:
        """Set the part of a reduction's array that loops from `depth` on fill to the neutral value."""
        inner = [k for k in task.order[depth:] if k < task.array.rank]
        spot = kept(task)
        for d, k in enumerate(inner):
            spot[k] = Var(f"j{d}")
        heads = [writer.over(f"j{d}", task.array.shape[k], d) for d, k in enumerate(inner)]
        writer.headed(heads, Store(writer.element(task.array, spot), neutral(task.array)))

    def finish(self, writer: Writer, task: Task) -> None:
        """Define the value of a completed reduction as its register, and store it if needed."""
        register = self.registers[task]
        if task.stored:
            writer.add(Store(self.place(writer, task), self.kept(task, Var(register))))
        writer.define(Read(task.array, task.kept), register)

    def place(self, writer: Writer, task: Task) -> Access:
        """The place where a task's element of this iteration is stored."""
        return writer.element(task.array, kept(task))

    def statement(self, writer: Writer, task: Task, partial: dict[Task, str] | None = None) -> None:
        """The statements of one iteration of the innermost loop for a task."""
        self.note(writer, task.array)
        match task.array:
            case Map(rank=0, elements=(Apply(op=op, args=(_, term)),)) if task.array in writer.grown:
                name, value = self.labels[task.array], writer.written(term)
                writer.add(
                    Assign(name, Call("reduce_add", (Var(name), value if op == "add" else Unary("-", value))))
                )
            case Map(rank=0):
                writer.add(Assign(self.labels[task.array], writer.written(task.elements[0])))
            case Map():
                read, value = Read(task.array, task.kept), writer.written(task.elements[0])
                if writer.uses[read]:
                    value = value if isinstance(value, Var) else Var(writer.assign(value))
                    writer.define(read, value.name)
                if task.array in self.reused:  # later readers use a variable
                    writer.keep(Read(self.reused[task.array], task.kept))
                if task.stored:
                    writer.add(Store(self.place(writer, task), self.kept(task, value)))
            case Reduce():
                value = writer.written(task.elements[0])
                spot = self.accumulator(writer, task, (partial or {}).get(task))
                writer.add(assignment(spot, update(task.array, spot, value)))
            case Accumulate():
                self.scatter(writer, task)
            case Put(op=kind):
                *places, guard, stored = task.elements
                self.put(writer, task.array, places, stored, kind == "add", guard)
            case _:
                call(writer, task.array)

    def kept(self, task: Task, value: Expr) -> Expr:
        """A value in the form that a task's array stores."""
        return value

    def accumulator(self, writer: Writer, task: Task, partial: str | None) -> Expr:
        """The variable or the array element that a reduction adds to."""
        if task.in_register:
            return Var(self.registers[task])
        if partial is None:
            return self.place(writer, task)
        return Access(writer.use(partial), (BLOCK, *kept(task)))

    def scatter(self, writer: Writer, task: Task) -> None:
        """Add one value at computed indices."""
        *indices, body = task.elements
        self.put(writer, task.array, indices, body, added=True)

    def put(
        self,
        writer: Writer,
        array: Array,
        indices: list[Element],
        value: Element,
        added: bool = False,
        guard: Element = TRUE,
    ) -> None:
        """Store or add at computed indices where a guard holds; points outside the array are ignored."""
        spot, inside = writer.place(array, indices, [writer.written(i) for i in indices])
        assert isinstance(spot, Access)
        conditions = [] if guard is TRUE else [writer.written(guard)]
        conditions += [] if inside is None else [inside]
        made = writer.written(value)
        heads = [If(all_of(conditions))] if conditions else []
        writer.headed(heads, Update(spot, "+", made) if added else Store(spot, made))

    def note(self, writer: Writer, node: Node) -> None:
        """Add the source line that a statement computes as a comment, once per function."""
        span, source = self.func.spans.get(node), self.func.source
        if span is not None and source is not None:
            lines = source.of(span).text.splitlines()
            if 0 < span.line <= len(lines):
                line = "".join(c if c.isprintable() else " " for c in lines[span.line - 1]).strip()
                if line not in writer.noted:
                    writer.noted.add(line)
                    writer.add(Comment(line[:100]))


def kept(task: Task) -> list[Expr]:
    """The indices of the element that an iteration of a task's loops computes."""
    return [Var(f"i{i.axis}") if isinstance(i, Index) else literal(0) for i in task.kept]
