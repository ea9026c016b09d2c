"""What C functions that call kernels have in common: their parameters, and what they compute from lengths."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial
from math import prod

from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Const, Element, Size, const
from adcompiler.ir.textform.printer import lengths
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.kernels.emit.block_partition import Partition
from adcompiler.kernels.emit.call_plan import Buffer, CallPlan, Kind
from adcompiler.kernels.emit.kernel import Kernel
from adcompiler.kernels.emit.writer import Writer
from adcompiler.loopir.nodes import Assign, Call, Compare, Expr, Function, Return, Var, all_of, literal
from adcompiler.loopir.rewrite import Renamed
from adcompiler.targets.c.body import INDENT
from adcompiler.targets.c.bounds import Allocation
from adcompiler.targets.c.functions import CFile, KernelBody
from adcompiler.targets.c.names import check_name, local
from adcompiler.targets.c.values import INDEX_BITS, STORED, CValue

ONE = const(1, "i64")
WORK = "work"


class CDriver:
    """The parameters of a C function that calls the kernel of a program: lengths, inputs, results.

    partitions  how each nest is cut into blocks
    divided     the nests that are; the others run as one block
    added       those of them whose partial results need the memory of one block
    worked      the temporaries in memory that is allocated for a call
    allocated   the arrays whose lengths the kernel computes, if they are in that memory, too
    """

    divided: Collection[int]
    added: Collection[int] = ()
    worked: Sequence[Buffer]
    allocated: Sequence[Allocation] = ()

    def __init__(
        self,
        file: CFile,
        kernel: Kernel,
        plan: CallPlan,
        partitions: Sequence[Partition],
        name: str,
        compared: Sequence[Constraint] = (),
    ) -> None:
        check_name(name)
        self.file, self.name, self.compared = file, name, compared
        self.kernel, self.plan, self.partitions = kernel, plan, partitions
        self.func = func = kernel.func
        self.counts = dict(func.counts)
        wanted = [*func.size_names, *func.input_names, *func.result_names]
        order = sorted(range(len(wanted)), key=lambda k: k in self.counts)
        found = distinct([local(wanted[k]) for k in order], (WORK,))
        names = [n for _, n in sorted(zip(order, found, strict=True))]
        inputs, results = len(func.size_names), len(func.size_names) + len(func.inputs)
        self.sizes, self.inputs, self.results = names[:inputs], names[inputs:results], names[results:]

    @property
    def given(self) -> list[str]:
        """The lengths that are parameters: those that no other parameter gives."""
        return [n for k, n in enumerate(self.sizes) if k not in self.counts]

    @property
    def lengths(self) -> list[str]:
        """The parameters for lengths."""
        return [f"int64_t {n}" for n in self.given]

    @property
    def params(self) -> list[str]:
        """The parameters for lengths, inputs and results."""
        inputs = [
            f"const {STORED[i.dtype]} *{n}" if i.rank else f"{STORED[i.dtype]} {n}"
            for i, n in zip(self.func.inputs, self.inputs, strict=True)
        ]
        results = [f"{STORED[r.dtype]} *{n}" for r, n in zip(self.func.results, self.results, strict=True)]
        return [*self.lengths, *inputs, *results]

    @property
    def comment(self) -> str:
        """The arguments and results, for a header; lengths that parameters give have their names."""
        counts = {number: self.func.input_names[position] for number, position in self.func.counts}
        names = tuple(counts.get(k, n) for k, n in enumerate(self.func.size_names))
        func = self.func.with_(size_names=names)
        named = (*zip(func.input_names, func.inputs, strict=True),
                 *zip(func.result_names, func.results, strict=True))  # fmt: skip
        shapes = (
            f"{n}: {STORED[a.dtype]}{''.join(f'[{m}]' for m in lengths(func, a.shape))}" for n, a in named
        )
        return ", ".join(shapes)

    def refused(self, conditions: Sequence[str]) -> list[str]:
        """The statements that end a call whose lengths do not fit."""
        return [f"if ({c})\n{INDENT * 2}return 1;" for c in conditions]

    def address(self, buffer: Buffer) -> str:
        """The variable that has the address of a buffer: a result, or a temporary."""
        for result, name in zip(self.plan.results, self.results, strict=True):
            if result.kind is Kind.BUFFER and self.plan.buffers[result.number] is buffer:
                return name
        return f"_t_{buffer.name}"

    def memory(self, work: str, sizes: Sequence[str]) -> list[str]:
        """The addresses of the temporaries in memory; `sizes` are the bytes of all but the last."""
        parts = [(STORED[b.dtype], self.address(b)) for b in self.worked]
        parts += {a.name: (STORED[a.dtype], f"_t_{a.name}") for a in self.allocated}.values()
        lines = [f"char *_place = {work};"] * bool(parts)
        for k, (kind, address) in enumerate(parts):
            lines.append(f"{kind} *const {address} = (void *)_place;")
            lines += [f"_place += {count};" for count in sizes[k : k + 1]]
        return lines


class LengthPlan:
    """What a function computes from lengths: statements of the loop IR, and the names of their values."""

    def __init__(self, program: CDriver) -> None:
        self.program, self.plan = program, program.plan
        self.writer = Writer(program.kernel.arrays, tuple(program.sizes), (), {})
        self.count = 0
        self.partitions: dict[int, tuple[str, str]] = {}
        self.read: set[str] = set()  # what the statements compute and others read
        self.known: dict[Element, str] = {}

    def assign(self, what: str, value: Expr) -> str:
        """Write the value of a new variable; return its name."""
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
            return local(self.plan.sizes[length.number])
        if length not in self.known:
            value = Call("max", (self.writer.written(length), literal(0)))
            self.known[length] = self.assign("length", value)
        return self.known[length]

    def partition(self, nest: int) -> tuple[str, str]:
        """The iterations of a block of a nest, and the number of blocks."""
        if nest not in self.partitions:
            if nest in self.program.divided:
                cut = self.program.partitions[nest]
                rows = self.assign("rows", cut.rows(self.writer))
                blocks = cut.blocks(self.writer, Var(rows))
                self.partitions[nest] = rows, self.assign("blocks", blocks)
            else:
                self.partitions[nest] = "0", "1"
        return self.partitions[nest]

    def blocks(self) -> list[str]:
        """The numbers that the kernel takes for all nests."""
        return [n for k in range(self.plan.nests) for n in reversed(self.partition(k))]

    def number(self, nest: int) -> str:
        """The number of blocks whose partial results have memory."""
        return "1" if nest in self.program.added else self.partition(nest)[1]

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
        names = Renamed(dict(zip(self.plan.sizes, self.program.sizes, strict=True)))
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


def function(head: str, lines: Sequence[str]) -> str:
    """A definition; parameters that it does not use are marked."""
    text = "\n".join(lines)
    params = re.findall(r"(\w+)(?=,|\)$)", head.partition("(")[2])
    unused = [p for p in params if p != "void" and not re.search(rf"\b{p}\b", text)]
    body = [*lines[:-1], *(f"(void){p};" for p in unused), lines[-1]]
    return "\n".join([head, "{", *(f"{INDENT}{line}" for line in body), "}", ""])
