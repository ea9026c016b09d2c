"""Kernels as lines with their places: the loop IR, and the assembly made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adcompiler.explain.page.places import Line, Mark, Places
from adcompiler.ir.nodes import Array, Func, Node, Read
from adcompiler.ir.origins import Origins
from adcompiler.kernels.emit.emitter import Emitter
from adcompiler.kernels.schedule.materialise import Scheduled, scheduled
from adcompiler.kernels.schedule.schedule_tree import Loop, Task
from adcompiler.loopir.nodes import For, Stmt, Var
from adcompiler.loopir.printer import INDENT, head, placed
from adcompiler.loopir.walk import read_by, sets, statements, stores_of
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.llvm.runtime.assembly import listing as assembly
from adcompiler.targets.llvm.values import UnsupportedError


class Kernel:
    """The kernel of a program, for any lengths."""

    def __init__(self, func: Func, table: Origins, backend: str) -> None:
        self.table, self.backend = table, backend
        self.made: Scheduled = scheduled(run((*OPTIMISE, *KERNEL), func))
        self.emitter = Emitter(self.made)
        self.kernel = self.emitter.kernel()
        self.labels = self._labels()
        self.nodes: list[list[Node]] = [[]]  # what each statement comes from, by its mark
        for function in self.kernel.bare:
            self._mark(function.body)

    def _labels(self) -> dict[str, list[Array]]:
        """The arrays and sums that a variable or an array in memory holds."""
        found: dict[str, list[Array]] = {}
        for array, label in self.emitter.labels.items():
            found.setdefault(label, []).append(array)
        for task, register in self.emitter.registers.items():
            found.setdefault(register, []).append(task.array)
        return found

    def _mark(self, body: Sequence[Stmt]) -> None:
        """Give the statements of a function their marks."""
        found = _Statements(self, body)
        for s in statements(body):
            s.mark = len(self.nodes)
            self.nodes.append(found.nodes_of(s))

    def lines(self, places: Places) -> list[Line]:
        """Its functions, without comments."""
        found: list[Line] = []
        for k, function in enumerate(self.kernel.bare):
            found += [Line("")] if k else []
            found.append(Line(head(function)))
            found += [
                _whole(INDENT + text, places.of_all(self.nodes[s.mark])) for text, s in placed(function.body)
            ]
        return found

    def assembly(self, places: Places) -> list[Line] | None:
        """The assembly for this machine's processor; None if numba compiles the kernel."""
        if not self.backend.startswith("cpu"):
            return None
        compiled = CpuKernel(self.made, self.backend.startswith("cpu-precise"), kernel=self.kernel)
        try:
            found = assembly(compiled.source)
        except UnsupportedError:
            return None
        return [_whole(line.text, places.of_all(self.nodes[line.mark])) for line in found]

    @property
    def tasks(self) -> Iterator[Task]:
        """The arrays that it computes, and how."""
        for item in self.made.schedule.body:
            yield from item.tasks if isinstance(item, Loop) else [item]


def _whole(text: str, places: tuple[int, ...]) -> Line:
    """A line that comes from some places as a whole."""
    indent = len(text) - len(text.lstrip())
    return Line(text, (Mark(indent, len(text), places),) if places else ())


class _Statements:
    """What the statements of one function come from."""

    def __init__(self, kernel: Kernel, body: Sequence[Stmt]) -> None:
        self.labels, self.emitted = kernel.labels, kernel.table.emitted
        self.set_by: dict[str, list[Stmt]] = {}
        for s in statements(body):
            for name in self.names(s):
                self.set_by.setdefault(name, []).append(s)

    def names(self, s: Stmt) -> list[str]:
        """The variables and arrays that a statement sets."""
        return [*sets(s), *(at.array for at in stores_of(s))]

    def nodes_of(self, s: Stmt) -> list[Node]:
        """The operations that a statement does, and the arrays of the program that it sets; of a copy of a
        variable, those of the variable."""
        nodes = [*self.operations(s), *self.targets(s)]
        value = getattr(s, "value", None)
        if not nodes and isinstance(value, Var):
            copied = [v for v in self.set_by.get(value.name, ()) if v is not s]
            nodes = [n for v in copied for n in (*self.operations(v), *self.targets(v))]
        return nodes

    def operations(self, s: Stmt) -> Iterator[Node]:
        """The operations of the program that a statement itself does. Reads are no operations."""
        if isinstance(s, For):
            return
        for expression in read_by(s):
            made, node = self.emitted.get(id(expression), (None, None))
            if made is expression and node is not None and not isinstance(node, Read):
                yield node

    def targets(self, s: Stmt) -> Iterator[Array]:
        """The arrays of the program that a statement sets."""
        for name in self.names(s):
            yield from self.labels.get(name, ())
