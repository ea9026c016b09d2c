"""Kernels as lines with their places: the loop IR, and the assembly made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from adcompiler.explain.page.places import Line, Places
from adcompiler.explain.page.programs import is_parameter
from adcompiler.explain.page.signs import Signs
from adcompiler.ir.nodes import Array, Func, Node, Read
from adcompiler.ir.origins import Origins, tracking
from adcompiler.kernels.emit.emitter import Emitter
from adcompiler.kernels.schedule.materialise import Scheduled, scheduled
from adcompiler.loopir.nodes import Assign, Expr, Function, Invoke, Stmt, UnsupportedError, Var
from adcompiler.loopir.printer import INDENT, Printer, Text, head
from adcompiler.loopir.rewrite import Rewriter
from adcompiler.loopir.walk import named, sets, statements, stores_of
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.llvm.runtime.assembly import listing as assembly


class Kernel:
    """The kernel of a program, for any lengths."""

    def __init__(self, func: Func, table: Origins, backend: str) -> None:
        self.table, self.backend = table, backend
        with tracking(table):
            self.made: Scheduled = scheduled(run((*OPTIMISE, *KERNEL), func))
            self.emitter = Emitter(self.made)
            kernel = self.emitter.kernel()
        self.labels = self._labels()
        self.nodes: list[Sequence[Node]] = [()]  # what expressions and statements come from, by their marks
        self.kernel = replace(kernel, functions=[self._marked(f) for f in kernel.bare])

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

    def _marked(self, function: Function) -> Function:
        """A function in which everything that comes from the program has a mark."""
        body = _Marking(self.table, self.nodes).body(function.body)
        found = _Body(self.labels, self.nodes, body)
        for s in statements(body):
            s.mark = len(self.nodes)
            self.nodes.append(found.nodes_of(s))
        return replace(function, body=body)

    def lines(self, places: Places) -> list[Line]:
        """Its functions, without comments."""
        places = places.by(self.table)
        signs = Signs[Node]()
        printer = _SigningPrinter(self.nodes, signs)
        find = partial(places.found, places.inputs_of(self.made.func))
        found: list[Line] = []
        for k, function in enumerate(self.kernel.bare):
            found += [Line("")] if k else []
            found.append(Line(head(function)))
            for text, s in printer.placed(function.body):
                found.append(signs.line(INDENT + text, find, find(*self.nodes[s.mark])))
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
        places = places.by(self.table)
        find = partial(places.found, places.inputs_of(self.made.func))
        each = [find(*nodes) for nodes in self.nodes]
        return [Signs[Node]().line(line.text, find, each[line.mark]) for line in found]


class _Marking(Rewriter):
    """Copies statements, and marks expressions that nodes of the program became. A read of an array that the
    program computes is left out: it is no operation."""

    def __init__(self, table: Origins, nodes: list[Sequence[Node]]) -> None:
        self.table, self.nodes = table, nodes

    def expr(self, e: Expr) -> Expr:
        return self.marked(super().expr(e), e)

    def marked(self, made: Expr, e: Expr) -> Expr:
        """The copy of an expression with its mark, if it has one."""
        known, node = self.table.emitted.get(id(e), (None, None))
        if known is not e or node is None or (isinstance(node, Read) and not is_parameter(node)):
            return made
        self.nodes.append((node,))
        return replace(made, mark=len(self.nodes) - 1)


class _SigningPrinter(Printer):
    """Prints the loop IR with signs around marked expressions."""

    def __init__(self, nodes: Sequence[Sequence[Node]], signs: Signs[Node]) -> None:
        self.nodes, self.signs = nodes, signs

    def printed(self, e: Expr) -> Text:
        text, level = super().printed(e)
        return Text(self.signs.around(text, self.nodes[e.mark][0]) if e.mark else text, level)


class _Body:
    """The statements of one function, whose expressions are marked."""

    def __init__(
        self, labels: Mapping[str, list[Array]], nodes: Sequence[Sequence[Node]], body: Sequence[Stmt]
    ) -> None:
        self.labels, self.nodes = labels, nodes
        self.set_by: dict[str, list[Stmt]] = {}
        for s in statements(body):
            for name in self.names(s):
                self.set_by.setdefault(name, []).append(s)

    def names(self, s: Stmt) -> list[str]:
        """The variables and arrays that a statement sets."""
        found = [*sets(s), *(at.array for at in stores_of(s))]
        if isinstance(s, Invoke) and s.name.startswith("library_"):
            found += [name for a in s.args[-1:] if (name := named(a))]  # the result
        return found

    def nodes_of(self, s: Stmt) -> list[Node]:
        """What a statement as a whole comes from: the arrays of the program that it sets, else what its value
        was written for; if that is a variable, the same as the variable."""
        found = self.own(s)
        value = getattr(s, "value", None)
        if not found and isinstance(value, Var):
            found = [n for v in self.set_by.get(value.name, ()) if v is not s for n in self.own(v)]
        return found

    def own(self, s: Stmt) -> list[Node]:
        """The arrays that a statement sets, or what its value was written for."""
        found: list[Node] = [a for name in self.names(s) for a in self.labels.get(name, ())]
        if not found and isinstance(s, Assign):
            found += [node for node in self.nodes[s.value.mark] if not isinstance(node, Read)]
        return found
