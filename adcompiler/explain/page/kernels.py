"""Kernels as lines with their places: the loop IR, and the assembly made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from adcompiler.explain.page.places import Line, Places
from adcompiler.explain.page.programs import is_parameter
from adcompiler.explain.page.signs import Signs
from adcompiler.ir.nodes import Array, Func, Node, Read
from adcompiler.ir.origins import Origins
from adcompiler.kernels.emit.emitter import Emitter
from adcompiler.kernels.schedule.materialise import Scheduled, scheduled
from adcompiler.kernels.schedule.schedule_tree import Loop, Task
from adcompiler.loopir.nodes import Access, Assign, Expr, For, Invoke, Stmt, Var
from adcompiler.loopir.printer import INDENT, Printer, Text, head
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
        self.statements: list[_Statement] = [_Statement((), ())]  # what each comes from, by its mark
        for function in self.kernel.bare:
            self._mark(function.body)

    def _labels(self) -> dict[str, list[Array]]:
        """The arrays and sums that a variable or an array in memory holds."""
        found: dict[str, list[Array]] = {}
        for array, label in self.emitter.labels.items():
            found.setdefault(label, []).append(array)
        for task, register in self.emitter.registers.items():
            found.setdefault(register, []).append(task.array)
        for name, array in self.emitter.partials.items():
            found.setdefault(name, []).append(array)
        return found

    def _mark(self, body: Sequence[Stmt]) -> None:
        """Give the statements of a function their marks."""
        found = _Body(self, body)
        for s in statements(body):
            s.mark = len(self.statements)
            self.statements.append(found.statement(s))

    def lines(self, places: Places) -> list[Line]:
        """Its functions, without comments."""
        signs = Signs[Node]()
        printer = _SigningPrinter(self.table, signs)
        find = partial(places.found, places.inputs_of(self.made.func))
        found: list[Line] = []
        for k, function in enumerate(self.kernel.bare):
            found += [Line("")] if k else []
            found.append(Line(head(function)))
            for text, s in printer.placed(function.body):
                whole = find(*self.statements[s.mark].whole)
                found.append(signs.line(INDENT + text, find, whole))
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
        find = partial(places.found, places.inputs_of(self.made.func))
        each = [find(*s.whole, *s.operations) for s in self.statements]
        return [Signs[Node]().line(line.text, find, each[line.mark]) for line in found]

    @property
    def tasks(self) -> Iterator[Task]:
        """The arrays that it computes, and how."""
        for item in self.made.schedule.body:
            yield from item.tasks if isinstance(item, Loop) else [item]


class _SigningPrinter(Printer):
    """Prints the loop IR with signs around what nodes of the program became."""

    def __init__(self, table: Origins, signs: Signs[Node]) -> None:
        self.table, self.signs = table, signs

    def printed(self, e: Expr) -> Text:
        text, level = super().printed(e)
        node = _node(self.table, e)
        if node is not None and (is_parameter(node) or not isinstance(node, Read)):
            text = self.signs.around(text, node)
        return Text(text, level)


def _node(table: Origins, e: Any) -> Node | None:
    """The node of the program that an expression was written for."""
    made, node = table.emitted.get(id(e), (None, None))
    return node if made is e else None


class _Statement(NamedTuple):
    """What a statement comes from: `whole` as a whole, and the operations in it."""

    whole: Sequence[Node]
    operations: Sequence[Node]


class _Body:
    """The statements of one function."""

    def __init__(self, kernel: Kernel, body: Sequence[Stmt]) -> None:
        self.labels, self.table = kernel.labels, kernel.table
        self.set_by: dict[str, list[Stmt]] = {}
        for s in statements(body):
            for name in self.names(s):
                self.set_by.setdefault(name, []).append(s)

    def names(self, s: Stmt) -> list[str]:
        """The variables and arrays that a statement sets."""
        found = [*sets(s), *(at.array for at in stores_of(s))]
        if isinstance(s, Invoke) and s.name.startswith("library_"):
            found += [a.name for a in s.args[-1:] if isinstance(a, Var)]  # the result
            found += [a.array for a in s.args[-1:] if isinstance(a, Access)]
        return found

    def statement(self, s: Stmt) -> _Statement:
        """As a whole a statement comes from the arrays of the program that it sets, else from what its value
        was written for; where that is a variable, from the same as the variable."""
        whole: list[Node] = list(self.targets(s))
        value = getattr(s, "value", None)
        if not whole and isinstance(s, Assign):
            node = _node(self.table, value)
            whole = [node] if node is not None and not isinstance(node, Read) else []
        if not whole and isinstance(value, Var):
            copied = [v for v in self.set_by.get(value.name, ()) if v is not s]
            whole = [n for v in copied for n in (*self.operations(v), *self.targets(v))]
        return _Statement(whole, list(self.operations(s)))

    def operations(self, s: Stmt) -> Iterator[Node]:
        """The operations of the program that a statement itself does. Reads are no operations."""
        for expression in () if isinstance(s, For) else read_by(s):
            node = _node(self.table, expression)
            if node is not None and not isinstance(node, Read):
                yield node

    def targets(self, s: Stmt) -> Iterator[Array]:
        """The arrays of the program that a statement sets."""
        for name in self.names(s):
            yield from self.labels.get(name, ())
