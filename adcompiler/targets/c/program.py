"""A program as C: a function that checks lengths and calls the kernel, and the size of the memory it needs.

A caller passes the memory, so nothing is allocated, and no function has state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import prod

from adcompiler.errors import Error, Source, Span
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.loop import Item
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Const, Element, Func, Size, const
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.kernels.emit.block_partition import blocks_of, rows_of
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.emit.kernel import Buffer, Kernel
from adcompiler.kernels.emit.writer import Writer
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.kernels.schedule.schedule_tree import computed
from adcompiler.loopir.nodes import (
    Assign,
    Call,
    Compare,
    Expr,
    Function,
    Return,
    Var,
    all_of,
    literal,
)
from adcompiler.loopir.rewrite import Renamed
from adcompiler.targets.c.body import INDENT
from adcompiler.targets.c.bounds import Allocation, allocations
from adcompiler.targets.c.expressions import UnknownError
from adcompiler.targets.c.functions import CFile, KernelBody
from adcompiler.targets.c.names import check_name, local
from adcompiler.targets.c.one_thread import OneThread
from adcompiler.targets.c.values import INDEX_BITS, STORED, TYPES, CArray, CValue
from adcompiler.targets.numba.ahead import comment

ONE = const(1, "i64")
WORK = "work"


class CProgram:
    """The C functions of a program: `NAME`, and `NAME_work_size`. Their static functions go to `file`."""

    def __init__(
        self, file: CFile, func: Func, name: str, compared: Sequence[Constraint] = (), static: bool = False
    ) -> None:
        check_name(name)
        self.file, self.name, self.compared = file, name, compared
        self.linkage = "static " * static
        self.kernel: Kernel = emit(scheduled(func))
        self.func = func = self.kernel.func
        self.order = OneThread(self.kernel)
        self.driver = self.order.function(self.kernel.functions[-1])
        self.allocated = allocations(self.driver, self.kernel.sizes)
        _check_lengths(self.kernel, self.allocated)
        self.counts = dict(func.counts)
        wanted = [*func.size_names, *func.input_names, *func.result_names]
        order = sorted(range(len(wanted)), key=lambda k: k in self.counts)
        found = distinct([local(wanted[k]) for k in order], (WORK,))
        names = [n for _, n in sorted(zip(order, found, strict=True))]
        split = len(func.size_names), len(func.size_names) + len(func.inputs)
        self.sizes, self.inputs, self.results = (
            names[: split[0]],
            names[split[0] : split[1]],
            names[split[1] :],
        )
        self.outs = [f"_out{k}" for k in range(len(self.kernel.scalars))]
        direct = {self.kernel.arrays[r] for r in func.results if r.rank}
        self.temporaries = [b for b in self.kernel.buffers if b.name not in direct]
        self.worked = [b for b in self.temporaries if not self.is_local(b)]

    def is_local(self, buffer: Buffer) -> bool:
        """Whether a temporary is so small that it is on the stack."""
        one = buffer.nest is None or buffer.nest not in self.order.divided or buffer.nest in self.order.added
        return one and buffer.is_small

    # -- signatures ----------------------------------------------------------------------------

    @property
    def lengths(self) -> list[str]:
        """The parameters for lengths: those that no other parameter gives."""
        return [f"int64_t {n}" for k, n in enumerate(self.sizes) if k not in self.counts]

    @property
    def declaration(self) -> str:
        """The declaration of the function, without the semicolon."""
        inputs = [
            f"const {STORED[i.dtype]} *{n}" if i.rank else f"{STORED[i.dtype]} {n}"
            for i, n in zip(self.func.inputs, self.inputs, strict=True)
        ]
        results = [f"{STORED[r.dtype]} *{n}" for r, n in zip(self.func.results, self.results, strict=True)]
        return (
            f"{self.linkage}int {self.name}({', '.join([*self.lengths, *inputs, *results, f'void *{WORK}'])})"
        )

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
    def comment(self) -> str:
        """The arguments and results, for a header."""
        return comment(self.func)

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
        except UnknownError as error:
            raise Error(
                f"{self.func.name} needs {error}, which has no C form",
                remedy="build a library: --emit library",
            ) from None

    def _size(self) -> str:
        plan = _Plan(self)
        total = plan.all_bytes()
        if not total:
            return _function(self.size_declaration, ["return 0;"])
        lines = [*plan.lines(), "size_t _bytes = 0;", *(f"_bytes += {n};" for n in total), "return _bytes;"]
        return _function(self.size_declaration, [*plan.counts(lines), *lines])

    def _call(self) -> str:
        plan = _Plan(self)
        checks = plan.checks()
        blocks = plan.blocks()
        lengths = {b.name: plan.array_lengths(b.nest, b.shape) for b in self.kernel.buffers}
        sizes = plan.all_bytes(but_last=True)
        local_names = [local(n) for n in self.kernel.sizes]
        run, passed = self._run(lengths, blocks, local_names)
        called = self._called(passed, plan)
        plan.read.update(n for n in passed[1] if n not in self.sizes)
        plan.read.update(n for n in (*blocks, *checks) if not n.isdigit())
        lines = [f"if ({n} < 0)\n{INDENT * 2}return 1;" for n in self._signed()]
        lines += plan.lines()
        lines += [f"if ({c})\n{INDENT * 2}return 1;" for c in checks]
        lines += self._memory(sizes)
        lines += [f"{TYPES[s.dtype]} {out};" for s, out in zip(self.kernel.scalars, self.outs, strict=True)]
        lines.append(f"{run}({called});")
        for check in self.func.checks:
            lines.append(f"if (!{self.outs[self.kernel.scalars.index(check.holds)]})\n{INDENT * 2}return 2;")
        for result, name in zip(self.func.results, self.results, strict=True):
            if not result.rank:
                lines.append(f"*{name} = {self._number(result)};")
        return _function(self.declaration, [*plan.counts(lines), *lines, "return 0;"])

    def _signed(self) -> list[str]:
        return [n for k, n in enumerate(self.sizes) if k not in self.counts]

    def _run(
        self, lengths: Mapping[str, Sequence[str]], blocks: Sequence[str], sizes: Sequence[str]
    ) -> tuple[str, tuple[list[str], list[str]]]:
        """Write the kernel; return its name, its arguments, and the lengths that it takes."""
        functions = {f.name: f for f in self.kernel.functions}
        names = dict.fromkeys(a.name for a in self.allocated)
        driver = replace(self.driver, params=[*self.driver.params, *names])
        args: list[CValue | CArray] = [CValue(n, "i64", bits=INDEX_BITS) for n in sizes]
        texts = [*self.sizes]
        for given, name in zip(self.func.inputs, self.inputs, strict=True):
            shape = tuple(self._length(n, sizes) for n in given.shape)
            args.append(CArray(name, given.dtype, shape) if given.rank else CValue(name, given.dtype))
            texts.append(f"{name} != 0" if given.dtype == "bool" and not given.rank else name)
        for buffer in self.kernel.buffers:
            args.append(CArray(buffer.name, buffer.dtype, tuple(lengths[buffer.name])))
            texts.append(self._address(buffer))
        args += [CValue(n, "i64", bits=INDEX_BITS) for n in blocks]
        texts += blocks
        kinds = {a.name: a.dtype for a in self.allocated}
        args += [CArray(n, kinds[n], ()) for n in names]
        texts += [f"_t_{n}" for n in names]
        results = [s.dtype for s in self.kernel.scalars]
        found = self.file.kernel_function(self.name, driver, functions, args, results)
        taken = [n for n in found.lengths if isinstance(n, str)]
        return found.name, ([texts[k] for k in found.used], taken)

    def _called(self, passed: tuple[list[str], list[str]], plan: _Plan) -> str:
        return ", ".join([*passed[0], *passed[1], *(f"&{out}" for out in self.outs)])

    def _length(self, length: Element, sizes: Sequence[str]) -> str:
        if isinstance(length, Const):
            return str(int(length.value))
        assert isinstance(length, Size)
        return sizes[length.number]

    def _address(self, buffer: Buffer) -> str:
        """What a call passes for a buffer: a result, or a temporary."""
        for result, name in zip(self.func.results, self.results, strict=True):
            if result.rank and self.kernel.arrays[result] == buffer.name:
                return name
        return f"_t_{buffer.name}"

    def _memory(self, sizes: Sequence[str]) -> list[str]:
        """The addresses of the temporaries."""
        lines = []
        for b in self.temporaries:
            if self.is_local(b):
                lines.append(f"{STORED[b.dtype]} {self._address(b)}[{max(prod(b.lengths), 1)}];")
        parts = [(STORED[b.dtype], self._address(b)) for b in self.worked]
        parts += {a.name: (STORED[a.dtype], f"_t_{a.name}") for a in self.allocated}.values()
        if parts:
            lines.append(f"char *_place = {WORK};")
        for (kind, address), count in zip_longest(parts, sizes):
            lines.append(f"{kind} *const {address} = (void *)_place;")
            lines += [f"_place += {count};"] * (count is not None)
        return lines

    def _number(self, result: Array) -> str:
        """A result of rank 0."""
        if result in self.kernel.scalars:
            return self.outs[self.kernel.scalars.index(result)]
        return self.inputs[self.func.inputs.index(result)]


class _Plan:
    """What a function computes from lengths: statements of the loop IR, and the names of their values."""

    def __init__(self, program: CProgram) -> None:
        self.program, self.kernel = program, program.kernel
        self.writer = Writer(self.kernel.arrays, tuple(program.sizes), (), {})
        self.count = 0
        self.partitions: dict[int, tuple[str, str]] = {}
        self.read: set[str] = set()  # what the statements compute and others read
        self.known: dict[Element, str] = {}

    def assign(self, what: str, value: Expr) -> str:
        name = f"_{what}{self.count}"
        self.count += 1
        self.writer.add(Assign(name, value))
        return name

    def counts(self, lines: Sequence[str]) -> list[str]:
        """The lengths that parameters give, as far as statements need them."""
        program, words = self.program, set(re.findall(r"\w+", " ".join(lines)))
        pairs = [(program.sizes[k], program.inputs[position]) for k, position in program.counts.items()]
        pairs = [pair for pair in pairs if pair[0] in words]
        return [f"const int64_t {size} = {given} > 0 ? {given} : 0;" for size, given in pairs]

    def length(self, length: Element) -> str:
        """A length: a number, the name of a size, or a variable."""
        if isinstance(length, Const):
            return str(max(int(length.value), 0))
        if isinstance(length, Size):
            return local(self.kernel.sizes[length.number])
        if length not in self.known:
            value = Call("max", (self.writer.written(length), literal(0)))
            self.known[length] = self.assign("length", value)
        return self.known[length]

    def partition(self, nest: int) -> tuple[str, str]:
        """The iterations of a block of a nest, and the number of blocks."""
        if nest not in self.partitions:
            if nest in self.program.order.divided:
                rows = self.assign("rows", rows_of(self.writer, self.kernel, nest))
                blocks = blocks_of(self.writer, self.kernel, nest, Var(rows))
                self.partitions[nest] = rows, self.assign("blocks", blocks)
            else:
                self.partitions[nest] = "0", "1"
        return self.partitions[nest]

    def blocks(self) -> list[str]:
        """The numbers that the kernel takes for all nests."""
        return [n for k in range(len(self.kernel.nests)) for n in reversed(self.partition(k))]

    def number(self, nest: int) -> str:
        """The number of blocks whose partial results have memory."""
        return "1" if nest in self.program.order.added else self.partition(nest)[1]

    def array_lengths(self, nest: int | None, shape: Sequence[Element]) -> list[str]:
        """The lengths of an array, of which one is the number of blocks."""
        return [*([] if nest is None else [self.number(nest)]), *map(self.length, shape)]

    def all_bytes(self, but_last: bool = False) -> list[str]:
        """The bytes of all arrays in the work memory, without those of the last one if it is left out."""
        program = self.program
        groups: dict[str, list[Allocation]] = {}
        for a in program.allocated:
            groups.setdefault(a.name, []).append(a)
        makers = [*(partial(self.bytes, b) for b in program.worked)]
        makers += [partial(self.bound, group) for group in groups.values()]
        return [make() for make in (makers[:-1] if but_last else makers)]

    def bound(self, group: Sequence[Allocation]) -> str:
        """The bytes of an array whose lengths the kernel computes: those of the largest one."""
        names = Renamed(dict(zip(self.kernel.sizes, self.program.sizes, strict=True)))
        found = []
        for shape in zip(*(a.shape for a in group), strict=True):
            highs = [names.expr(n) for n in shape if n is not None]
            found.append(self.assign("bound", Call("max", (*dict.fromkeys(highs), literal(0)))))
        self.read.update(found)
        return _bytes(found, group[0].dtype)

    def bytes(self, buffer: Buffer) -> str:
        """The bytes of a temporary."""
        factors = [] if buffer.nest is None else [self.number(buffer.nest)]
        for n in buffer.shape:
            factors.append(self.program.sizes[n.number] if isinstance(n, Size) else self.length(n))
        self.read.update(f for f in factors if not f.isdigit())
        return _bytes(factors, buffer.dtype)

    def checks(self) -> list[str]:
        """Conditions under which the lengths of a call do not fit."""
        found = []
        for one in self.program.compared:
            reach, left, right = (self.writer.written(n or ONE) for n in (one.reach, one.left, one.right))
            test = all_of([
                Compare(">", reach, literal(0)), Compare("<" if one.at_least else "!=", left, right)
            ])  # fmt: skip
            found.append(self.assign("bad", test))
        return found

    def lines(self) -> list[str]:
        """The C statements that compute what is read."""
        params = [*self.program.sizes]
        values = tuple(map(Var, sorted(self.read)))
        function = Function("plan", params, [*self.writer.scopes[0], Return(values)])
        args = [CValue(n, "i64", bits=INDEX_BITS) for n in params]
        body = _PlanBody(self.program.file, "", function, {}, args)
        body.run()
        return [line.removeprefix(INDENT) for line in body.lines]


def _bytes(factors: Sequence[str], dtype: Dtype) -> str:
    """The bytes of an array, so that whatever follows it is aligned for any type."""
    size = NUMPY[dtype].itemsize
    known = prod((int(f) for f in factors if f.isdigit()), start=size)
    product = " * ".join([str(known), *(f"(size_t){f}" for f in factors if not f.isdigit())])
    return product if size == 8 else f"({product} + 7) / 8 * 8"


class _PlanBody(KernelBody):
    """The statements of a plan; what it returns is read by the function around it."""

    def give(self, values: Sequence[Expr]) -> None:
        for value in values:
            self.value(value)


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
    lines = [] if source is None or span is None else source.text.split("\n")
    text = lines[span.line - 1][span.column - 1 :] if span is not None and len(lines) >= span.line else ""
    return text.startswith(("for ", "while "))


def _function(head: str, lines: Sequence[str]) -> str:
    """A definition; parameters that it does not use are marked."""
    text = "\n".join(lines)
    params = re.findall(r"(\w+)(?=,|\)$)", head.partition("(")[2])
    unused = [p for p in params if p != "void" and not re.search(rf"\b{p}\b", text)]
    body = [*lines[:-1], *(f"(void){p};" for p in unused), lines[-1]]
    return "\n".join([head, "{", *(f"{INDENT}{line}" for line in body), "}", ""])
