"""A program as a function of a C library: the machine code of its kernel, and the C function that calls it.

The kernel is the one that Python calls for any lengths, with its block partition, on one thread. So a library
for this processor gives the same bits.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence, Set

from adcompiler.errors import Error
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.nodes import Const, Element, Func, Size
from adcompiler.ir.types import Dtype
from adcompiler.kernels.emit.call_plan import Kind
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.c.driver import CDriver, LengthPlan, function
from adcompiler.targets.c.functions import CFile
from adcompiler.targets.c.helpers import helper_lines
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.llvm.runtime.entry import for_words
from adcompiler.targets.llvm.runtime.machine_code import object_code

# What machine code calls, other than the C library. It calls no matrix products: lengths choose those.
SHIMS = """\
#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN void *PyMem_RawMalloc(size_t size) { return malloc(size ? size : 1); }
HIDDEN void PyMem_RawFree(void *memory) { free(memory); }
"""
HEADERS = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stdint", "stdlib", "string"))


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A function of a library: its declaration without the semicolon, its definition, the helpers that this
    calls, its signature in words, and the machine code."""

    declaration: str
    definition: str
    helpers: Set[str]
    comment: str
    code: bytes


def compile_ahead(
    func: Func, name: str, native: bool, compared: Sequence[Constraint] = ()
) -> LibraryFunction:
    """The C function `name` of a program, which checks lengths: `int name(sizes, inputs, results)`.

    Sizes of arrays come first, in order of appearance; lengths given by integer parameters are computed
    inside. Arrays are contiguous, in row-major order; each result is written to its pointer. `native` code is
    for this machine's processor, otherwise for any of its architecture.
    """
    kernel = CpuKernel(scheduled(func), precise=not native)
    driver = _Driver(kernel, name, compared)
    try:
        code = for_words(kernel.source, driver.kernel_name)
    except UnsupportedError as error:
        remedy = "use --emit c or --emit python"
        raise Error(f"{func.name} needs numba, which libraries do not have", remedy=remedy) from error
    in_c = driver.declaration, driver.definition, driver.file.helpers, driver.comment
    return LibraryFunction(*in_c, object_code(code, native))


def source(header: str, functions: Sequence[LibraryFunction]) -> str:
    """The C source that is linked with the machine code of functions."""
    helpers = helper_lines(set[str]().union(*(f.helpers for f in functions)))
    return "\n".join([
        HEADERS, f'#include "{header}"\n', SHIMS, *helpers, *(f.definition for f in functions)
    ])  # fmt: skip


def libraries(functions: Sequence[LibraryFunction]) -> list[str]:
    """The options of the linker for the libraries that machine code needs."""
    vectors = sys.platform.startswith("linux") and any(b"_ZGV" in f.code for f in functions)
    return ["-lmvec"] * vectors + ["-lm"]


class _Driver(CDriver):
    """The C function. It allocates the temporaries, writes a call in words, and reads numbers from them."""

    def __init__(self, kernel: CpuKernel, name: str, compared: Sequence[Constraint]) -> None:
        plan = kernel.plan
        super().__init__(CFile(), kernel.kernel, plan, kernel.partitions, name, compared)
        if any(r.kind is Kind.COMPUTED for r in plan.results):
            raise Error(
                f"{self.func.name} has a result whose length depends on values", remedy="call it from Python"
            )
        self.divided = range(plan.nests)
        self.worked = [plan.buffers[k] for k in plan.temporaries]
        self.kernel_name = f"{name}_kernel"

    @property
    def declaration(self) -> str:
        """The declaration of the function, without the semicolon."""
        return f"int {self.name}({', '.join(self.params) or 'void'})"

    @property
    def definition(self) -> str:
        """The definition of the function."""
        lengths = LengthPlan(self)
        checks, words = lengths.checks(), self.words(lengths)
        sizes, work = lengths.all_bytes(but_last=True), " + ".join(lengths.all_bytes())
        lengths.read.update(n for n in (*checks, *words.values()) if n.startswith("_") and n.isidentifier())
        lines = [*self.refused([f"{n} < 0" for n in self.given]), *lengths.lines(), *self.refused(checks)]
        if work:
            lines += [f"char *const _work = malloc({work} + 1);", *self.refused(["!_work"])]
        lines += self.memory("_work", sizes)
        lines += [f"int64_t _words[{self.plan.words.count + 1}], _context[5] = {{0}};"]
        lines += [f"_words[{k}] = {value};" for k, value in words.items()]
        lines += self.numbers()
        lines.append(f"const int _failed = {self.kernel_name}(_words, _context, 0, 1);")
        lines += ["free(_work);"] * bool(work)
        returned = self.plan.words.returned
        lines += self.refused(["_failed", *(f"!_words[{returned[k]}]" for k in self.plan.checks)])
        for result, name in zip(self.plan.results, self.results, strict=True):
            if result.kind is Kind.SCALAR:
                lines.append(f"memcpy({name}, &_words[{returned[result.number]}], sizeof *{name});")
            elif result.kind is Kind.INPUT:
                lines.append(f"*{name} = {self.inputs[result.number]};")
        given = "int64_t *words, int64_t *context, int64_t launch, int64_t threads"
        called = f"extern int {self.kernel_name}({given});\n"
        return called + function(self.declaration, [*lengths.counts(lines), *lines, "return 0;"])

    def words(self, lengths: LengthPlan) -> dict[int, str]:
        """The words of the call: lengths, addresses and blocks, by their numbers."""
        words, found = self.plan.words, dict(enumerate(self.sizes))
        for given, name, place in zip(self.func.inputs, self.inputs, words.inputs, strict=True):
            if given.rank:
                shape = [self.length(n, lengths) for n in given.shape]
                found |= dict(enumerate([f"(int64_t)(intptr_t){name}", *shape], place))
        for buffer, place in zip(self.plan.buffers, words.buffers, strict=True):
            shape = [] if buffer.nest is None else [lengths.number(buffer.nest)]
            shape += [self.length(n, lengths) for n in buffer.shape]
            found |= dict(enumerate([f"(int64_t)(intptr_t){self.address(buffer)}", *shape], place))
        return found | dict(enumerate(lengths.blocks(), words.blocks))

    def length(self, length: Element, lengths: LengthPlan) -> str:
        """A length in C."""
        if isinstance(length, Size):
            return self.sizes[length.number]
        return str(int(length.value)) if isinstance(length, Const) else lengths.length(length)

    def numbers(self) -> list[str]:
        """The statements that write inputs of rank 0."""
        lines = []
        for given, name, place in zip(self.func.inputs, self.inputs, self.plan.words.inputs, strict=True):
            if not given.rank and given.dtype in WHOLE:
                lines.append(f"_words[{place}] = {name}{WHOLE[given.dtype]};")
            elif not given.rank:
                lines.append(f"memcpy(&_words[{place}], &{name}, sizeof {name});")
        return lines


WHOLE: dict[Dtype, str] = {"bool": " != 0", "i64": ""}
