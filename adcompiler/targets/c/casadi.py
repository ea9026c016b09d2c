"""Functions with the C interface of CasADi's external functions.

Arguments are column-major matrices of doubles, or null pointers for zeros. A result whose pointer is null is
not wanted. Matrices have two axes; a vector is a column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adcompiler.errors import ShapeError
from adcompiler.ir.nodes import Array, Const
from adcompiler.ir.types import Dtype
from adcompiler.lazy_dataclass import dataclass
from adcompiler.targets.c.program import CProgram
from adcompiler.targets.c.tables import SparseValues, table
from adcompiler.targets.c.values import STORED

INTEGER, REAL = "casadi_int", "casadi_real"
HEAD = """\
#ifndef casadi_real
#define casadi_real double
#endif
#ifndef casadi_int
#define casadi_int long long int
#endif
#ifndef CASADI_SYMBOL_EXPORT
#if defined(_WIN32) || defined(__CYGWIN__)
#define CASADI_SYMBOL_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define CASADI_SYMBOL_EXPORT __attribute__((visibility("default")))
#else
#define CASADI_SYMBOL_EXPORT
#endif
#endif
"""


@dataclass(frozen=True)
class Matrix:
    """A dense argument or result. Of one that the program does not have, `array` is None: it is not read, or
    zero."""

    name: str
    shape: tuple[int, ...]
    array: int | None  # which input or result of the program it is

    @staticmethod
    def of(name: str, array: Array, number: int | None) -> Matrix:
        """An array of the program, whose lengths are known."""
        if array.rank > 2:
            raise ShapeError(
                f"{name} has {array.rank} axes", remedy="CasADi has matrices: use two axes at most"
            )
        return Matrix(name, tuple(_known(n, name) for n in array.shape), number)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.shape[0] if self.shape else 1

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.shape[1] if len(self.shape) == 2 else 1

    @property
    def size(self) -> int:
        """The number of entries that are stored."""
        return self.rows * self.columns

    def compressed(self) -> list[int]:
        """The pattern as CasADi writes it."""
        return [self.rows, self.columns, 1]

    def by_columns(self, places: np.ndarray) -> np.ndarray:
        """The places of entries in column-major order, from those in row-major order."""
        found: np.ndarray = places % self.columns * self.rows + places // self.columns
        return found


def _known(length: object, name: str) -> int:
    if not isinstance(length, Const):
        raise ShapeError(
            f"{name} has a length that is not known",
            remedy='CasADi needs all of them: --types "f64[100], f64"',
        )
    return int(length.value)


@dataclass(frozen=True)
class Block:
    """A sparse result. Its values are in the results of the program, one after the other."""

    name: str
    values: SparseValues

    def compressed(self) -> list[int]:
        """The pattern as CasADi writes it."""
        return self.values.compressed()


@dataclass(frozen=True)
class CasadiFunction:
    """A function for CasADi: it calls a program whose inputs are some of the `inputs`, then the `tables`."""

    name: str
    program: CProgram
    inputs: Sequence[Matrix]
    outputs: Sequence[Matrix | Block]
    tables: Sequence[np.ndarray] = ()

    @property
    def declaration(self) -> str:
        """The declaration of the function itself."""
        return f"int {self.name}(const {REAL} **arg, {REAL} **res, {INTEGER} *iw, {REAL} *w, int mem)"

    @property
    def declarations(self) -> list[str]:
        """CasADi needs no header."""
        return []

    @property
    def comment(self) -> str:
        """What a header would say."""
        return self.name

    @property
    def roots(self) -> list[str]:
        """The static functions that it needs."""
        return self.program.roots

    @property
    def own(self) -> str:
        """The prefix of its static names."""
        return f"{self.name}_adc"

    @property
    def definition(self) -> str:
        """All definitions."""
        parts = [self.program.definition, *self.constants(), self.evaluation(), self.description(), ""]
        return "\n".join(parts)

    # -- evaluation ----------------------------------------------------------------------------

    def constants(self) -> list[str]:
        """The tables that it reads."""
        found = [table(f"{self.own}_table{k}", t.ravel(), "int64_t") for k, t in enumerate(self.tables)]
        for k, output in enumerate(self.outputs):
            if isinstance(output, Block):
                found += output.values.tables(f"{self.own}_out{k}", INTEGER)
        return found

    def sizes(self) -> tuple[list[int], list[int]]:
        """The elements of the inputs and results of the program."""
        func = self.program.func
        given = [m.size for m in self.inputs if m.array is not None]
        results = [int(np.prod([_known(n, "a result") for n in r.shape])) for r in func.results]
        return given, results

    def evaluation(self) -> str:
        """The function itself. Copies of arguments and results, row-major, stand before the work memory."""
        func = self.program.func
        head = f"CASADI_SYMBOL_EXPORT {self.declaration}"
        lines = []
        passed = []
        for k, m in enumerate(self.inputs):
            if m.array is None:
                continue
            given = func.inputs[m.array]
            lines += [f"{STORED[given.dtype]} *const in{k} = (void *)w;", f"w += {m.size};"]
            value = _converted(f"arg[{k}][{_column_major(m)}]", given.dtype)
            lines += _each(m, f"in{k}[{_row_major(m)}] = arg[{k}] ? {value} : 0;")
            passed.append(f"in{k}" if given.rank else f"*in{k}")
        passed += [f"{self.own}_table{k}{'[0]' * (not t.ndim)}" for k, t in enumerate(self.tables)]
        start = 0
        lines.append(f"{REAL} *const all = w;") if func.results else None
        for k, (result, size) in enumerate(zip(func.results, self.sizes()[1], strict=True)):
            lines.append(f"{STORED[result.dtype]} *const out{k} = (void *)(all + {start});")
            passed.append(f"out{k}")
            start += size
        lines.append(f"const int status = {self.program.name}({', '.join([*passed, f'all + {start}'])});")
        lines += ["if (status)", "    return status;"]
        for k, output in enumerate(self.outputs):
            found = self.output(k, output)
            lines += [f"if (res[{k}]) {{", *(f"    {line}" for line in found), "}"] if found else []
        lines += ["(void)arg;", "(void)res;", "(void)iw;", "(void)w;", "(void)mem;", "return 0;"]
        return "\n".join([head, "{", *(f"    {line}" for line in lines), "}"])

    def output(self, k: int, output: Matrix | Block) -> list[str]:
        """Write one result."""
        if isinstance(output, Block):
            return output.values.gathered(f"{self.own}_out{k}", INTEGER, "all", f"res[{k}]")
        value = "0" if output.array is None else f"({REAL})out{output.array}[{_row_major(output)}]"
        return _each(output, f"res[{k}][{_column_major(output)}] = {value};")

    # -- description ---------------------------------------------------------------------------

    def description(self) -> str:
        """The functions by which CasADi asks for names, patterns and sizes."""
        name, count = self.name, len(self.inputs)
        given, results = self.sizes()
        lines = []
        for side, matrices in (("in", self.inputs), ("out", self.outputs)):
            lines.append(_function(f"{INTEGER} {name}_n_{side}(void)", [f"return {len(matrices)};"]))
            names = [f'"{m.name}"' for m in matrices]
            lines.append(_function(f"const char *{name}_name_{side}({INTEGER} i)", _switch(names)))
            patterns = [f"s{k}" for k in range(len(matrices))]
            tables = [
                f"static const {INTEGER} s{k}[{len(c)}] = {{{', '.join(map(str, c))}}};"
                for k, c in enumerate(m.compressed() for m in matrices)
            ]
            head = f"const {INTEGER} *{name}_sparsity_{side}({INTEGER} i)"
            lines.append(_function(head, [*tables, *_switch(patterns)]))
        sizes = f"{INTEGER} *sz_arg, {INTEGER} *sz_res, {INTEGER} *sz_iw, {INTEGER} *sz_w"
        words = f"{sum(given) + sum(results)} + ({INTEGER})({self.program.name}_work_size() / sizeof({REAL}))"
        values = {"arg": str(count), "res": str(len(self.outputs)), "iw": "0", "w": words}
        asked = [f"if (sz_{k})\n        *sz_{k} = {v};" for k, v in values.items()]
        lines.append(_function(f"int {name}_work({sizes})", [*asked, "return 0;"]))
        for head, end in (
            ("int {}_alloc_mem(void)", "return 0;"),
            ("int {}_init_mem(int mem)", "(void)mem;\n    return 0;"),
            ("void {}_free_mem(int mem)", "(void)mem;"),
            ("int {}_checkout(void)", "return 0;"),
            ("void {}_release(int mem)", "(void)mem;"),
            ("void {}_incref(void)", ""),
            ("void {}_decref(void)", ""),
            (f"{REAL} {{}}_default_in({INTEGER} i)", "(void)i;\n    return 0;"),
        ):
            lines.append(_function(head.format(name), [end] if end else []))
        return "\n".join(lines)


def _function(head: str, lines: Sequence[str]) -> str:
    return "\n".join([f"CASADI_SYMBOL_EXPORT {head}", "{", *(f"    {line}" for line in lines), "}", ""])


def _switch(values: Sequence[str]) -> list[str]:
    cases = [f"case {k}:\n        return {v};" for k, v in enumerate(values)]
    return ["switch (i) {", *cases, "default:\n        return 0;", "}"]


def _each(m: Matrix, statement: str) -> list[str]:
    """A statement for each element of a matrix."""
    if not m.shape:
        return [statement]
    axes = list(zip("ij", (m.rows, m.columns), strict=True))[: len(m.shape)]
    heads = [f"{'    ' * d}for ({INTEGER} {a} = 0; {a} < {n}; {a}++)" for d, (a, n) in enumerate(axes)]
    return [*heads, f"{'    ' * len(axes)}{statement}"]


def _row_major(m: Matrix) -> str:
    return ("0", "i", f"i * {m.columns} + j")[len(m.shape)]


def _column_major(m: Matrix) -> str:
    return ("0", "i", f"j * {m.rows} + i")[len(m.shape)]


def _converted(value: str, dtype: Dtype) -> str:
    """A double as another type; an integer is rounded towards 0."""
    return {"f64": value, "f32": f"(float){value}", "i64": f"adc_i64({value})", "bool": f"{value} != 0"}[
        dtype
    ]
