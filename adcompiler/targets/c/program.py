"""A program as C: a function that checks lengths and calls the kernel, and the size of the memory it needs.

A caller passes the memory, so nothing is allocated, and no function has state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from adcompiler.errors import Error, Source, Span
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Func, Size
from adcompiler.kernels.emit.block_partition import Partition
from adcompiler.kernels.emit.call_plan import Buffer, Kind
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.emit.kernel import Kernel
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.kernels.schedule.schedule_tree import computed
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.c.body import INDENT
from adcompiler.targets.c.bounds import Allocation, allocations
from adcompiler.targets.c.driver import WORK, CDriver, LengthPlan, function
from adcompiler.targets.c.functions import CFile
from adcompiler.targets.c.names import local
from adcompiler.targets.c.one_thread import OneThread
from adcompiler.targets.c.values import INDEX_BITS, STORED, TYPES, CArray, CValue


class CProgram(CDriver):
    """The C functions of a program: `NAME`, and `NAME_work_size`. Their static functions go to `file`."""

    def __init__(
        self, file: CFile, func: Func, name: str, compared: Sequence[Constraint] = (), static: bool = False
    ) -> None:
        kernel = emit(scheduled(func))
        partitions = [Partition(kernel, k) for k in range(kernel.plan.nests)]
        super().__init__(file, kernel, kernel.plan, partitions, name, compared)
        self.linkage = "static " * static
        order = OneThread(kernel)
        self.driver = order.function(kernel.functions[-1])
        self.divided, self.added = order.divided, order.added
        self.allocated = allocations(self.driver, self.plan.sizes)
        _check_lengths(kernel, self.allocated)
        self.outs = [f"_out{k}" for k in range(len(self.plan.returned))]
        self.temporaries = [self.plan.buffers[k] for k in self.plan.temporaries]
        self.worked = [b for b in self.temporaries if not self.is_local(b)]

    def is_local(self, buffer: Buffer) -> bool:
        """Whether a temporary is so small that it is on the stack."""
        one = buffer.nest is None or buffer.nest not in self.divided or buffer.nest in self.added
        return one and buffer.is_small

    # -- signatures ----------------------------------------------------------------------------

    @property
    def declaration(self) -> str:
        """The declaration of the function, without the semicolon."""
        return f"{self.linkage}int {self.name}({', '.join([*self.params, f'void *{WORK}'])})"

    @property
    def size_declaration(self) -> str:
        """The declaration of the function for the size of the memory."""
        given = [f"int64_t {self.inputs[position]}" for position in self.counts.values()]
        return f"{self.linkage}size_t {self.name}_work_size({', '.join([*self.lengths, *given]) or 'void'})"

    @property
    def declarations(self) -> list[str]:
        """What a header declares."""
        return [f"{self.declaration};", f"{self.size_declaration};"]

    @property
    def roots(self) -> list[str]:
        """The static functions that it needs."""
        return [f"{self.name}_run"]

    # -- definitions ---------------------------------------------------------------------------

    @property
    def definition(self) -> str:
        """The definitions of both functions, after those of the kernel in `file`."""
        try:
            return f"{self._size()}\n{self._call()}"
        except UnsupportedError as error:
            raise Error(
                f"{self.func.name} needs {error}, which has no C form",
                remedy="build a library: --emit library",
            ) from None

    def _size(self) -> str:
        plan = LengthPlan(self)
        total = plan.all_bytes()
        if not total:
            return function(self.size_declaration, ["return 0;"])
        lines = [*plan.lines(), "size_t _bytes = 0;", *(f"_bytes += {n};" for n in total), "return _bytes;"]
        return function(self.size_declaration, [*plan.counts(lines), *lines])

    def _call(self) -> str:
        plan = LengthPlan(self)
        checks = plan.checks()
        blocks = plan.blocks()
        lengths = {b.name: plan.array_lengths(b.nest, b.shape) for b in self.plan.buffers}
        sizes = plan.all_bytes(but_last=True)
        local_names = [local(n) for n in self.plan.sizes]
        run, passed = self._run(lengths, blocks, local_names, plan)
        called = ", ".join([*passed[0], *passed[1], *(f"&{out}" for out in self.outs)])
        plan.read.update(n for n in passed[1] if n not in self.sizes)
        plan.read.update(n for n in (*blocks, *checks) if not n.isdigit())
        lines = [*self.refused([f"{n} < 0" for n in self.given]), *plan.lines(), *self.refused(checks)]
        for b in self.temporaries:
            if self.is_local(b):
                lines.append(f"{STORED[b.dtype]} {self.address(b)}[{max(prod(b.lengths), 1)}];")
        lines += self.memory(WORK, sizes)
        lines += [f"{TYPES[s.dtype]} {out};" for s, out in zip(self.plan.returned, self.outs, strict=True)]
        lines.append(f"{run}({called});")
        lines += [f"if (!{self.outs[k]})\n{INDENT * 2}return 2;" for k in self.plan.checks]
        for result, name in zip(self.plan.results, self.results, strict=True):
            if result.kind is not Kind.BUFFER:
                numbers = self.inputs if result.kind is Kind.INPUT else self.outs
                lines.append(f"*{name} = {numbers[result.number]};")
        return function(self.declaration, [*plan.counts(lines), *lines, "return 0;"])

    def _run(
        self,
        lengths: Mapping[str, Sequence[str]],
        blocks: Sequence[str],
        sizes: Sequence[str],
        plan: LengthPlan,
    ) -> tuple[str, tuple[list[str], list[str]]]:
        """Write the kernel; return its name, its arguments, and the lengths that it takes."""
        functions = {f.name: f for f in self.kernel.functions}
        names = dict.fromkeys(a.name for a in self.allocated)
        driver = replace(self.driver, params=[*self.driver.params, *names])
        args: list[CValue | CArray] = [CValue(n, "i64", bits=INDEX_BITS) for n in sizes]
        texts = [*self.sizes]
        for given, name in zip(self.func.inputs, self.inputs, strict=True):
            shape = tuple(sizes[n.number] if isinstance(n, Size) else plan.length(n) for n in given.shape)
            args.append(CArray(name, given.dtype, shape) if given.rank else CValue(name, given.dtype))
            texts.append(f"{name} != 0" if given.dtype == "bool" and not given.rank else name)
        for buffer in self.plan.buffers:
            args.append(CArray(buffer.name, buffer.dtype, tuple(lengths[buffer.name])))
            texts.append(self.address(buffer))
        args += [CValue(n, "i64", bits=INDEX_BITS) for n in blocks]
        texts += blocks
        kinds = {a.name: a.dtype for a in self.allocated}
        args += [CArray(n, kinds[n], ()) for n in names]
        texts += [f"_t_{n}" for n in names]
        results = [s.dtype for s in self.plan.returned]
        found = self.file.kernel_function(self.name, driver, functions, args, results)
        taken = [n for n in found.lengths if isinstance(n, str)]
        return found.name, ([texts[k] for k in found.used], taken)


def _check_lengths(kernel: Kernel, allocated: Sequence[Allocation]) -> None:
    """Raise an Error if nothing bounds the length of an array that the program computes."""
    func = kernel.func
    unknown = {a.name for a in allocated if None in a.shape}
    for array, name in kernel.arrays.items():
        if computed(array.shape) and (name in unknown or array in func.results):
            loops = (span for node, span in func.spans.items() if isinstance(node, Item))
            span = func.spans.get(array) or next(loops, None)
            bound = "bound the loop, as in for i in range(100), and leave it with break; or "
            raise Error(
                f"{func.name} has an array whose length depends on values, so that the memory it needs is "
                "unknown before a call",
                remedy=f"{bound * _is_loop(func.source, span)}use --emit library",
                source=func.source,
                span=span,
            )


def _is_loop(source: Source | None, span: Span | None) -> bool:
    """Whether a loop of the program stands at a place, and not a function that has one."""
    lines = [] if source is None or span is None else source.of(span).text.split("\n")
    text = lines[span.line - 1][span.column - 1 :] if span is not None and len(lines) >= span.line else ""
    return text.startswith(("for ", "while "))
