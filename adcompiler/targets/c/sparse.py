"""A sparse derivative as C: the values of its entries, and tables of their rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from adcompiler.kernels.emit.block_partition import lengths
from adcompiler.lazy_dataclass import dataclass
from adcompiler.targets.c.body import INDENT
from adcompiler.targets.c.driver import WORK
from adcompiler.targets.c.program import CProgram
from adcompiler.targets.c.tables import SparseValues, table
from adcompiler.targets.c.values import STORED

KIND = "int64_t"


@dataclass(frozen=True)
class CSparse:
    """The C functions of a sparse derivative: `NAME`, which writes the values, and `NAME_work_size`. The
    `program` has the values among its results; behind the arguments it takes `tables`."""

    name: str
    program: CProgram
    values: SparseValues
    tables: Sequence[np.ndarray]

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """The declarations of the arguments, and their names."""
        func = self.program.func
        count = len(func.inputs) - len(self.tables)
        pairs = zip(func.inputs[:count], self.program.inputs, strict=False)
        return [
            (f"const {STORED[i.dtype]} *{n}" if i.rank else f"{STORED[i.dtype]} {n}", n) for i, n in pairs
        ]

    @property
    def declaration(self) -> str:
        """The declaration of the function, without the semicolon."""
        return (
            f"int {self.name}({', '.join([*(d for d, _ in self.inputs), 'double *values', f'void *{WORK}'])})"
        )

    @property
    def declarations(self) -> list[str]:
        """What the header declares."""
        count, n = max(self.values.count, 1), self.name
        tables = [f"extern const {KIND} {n}_rows[{count}], {n}_columns[{count}];"]
        entries = f"enum {{ {n}_entries = {self.values.count} }};"
        return [f"{self.declaration};", f"size_t {n}_work_size(void);", entries, *tables]

    @property
    def comment(self) -> str:
        """What it is, for the header."""
        rows, columns = self.values.shape
        return (
            f"{rows} rows, {columns} columns: value k is that of the entry at {self.name}_rows[k], "
            f"{self.name}_columns[k]"
        )

    @property
    def roots(self) -> list[str]:
        """The static functions that it needs."""
        return self.program.roots

    @property
    def definition(self) -> str:
        """The definitions of the tables and of the functions."""
        own = f"{self.name}_adc"
        inner = self.program.definition
        counts = [prod(lengths(r.shape)(())) for r in self.program.func.results]
        total = sum(counts)
        direct = self.values.first == 0 and self.values.count == total
        parts = [table(f"{self.name}_rows", self.values.rows, KIND, "")]
        parts.append(table(f"{self.name}_columns", self.values.columns, KIND, ""))
        parts += [table(f"{own}_table{k}", t.ravel(), KIND) for k, t in enumerate(self.tables)]
        parts += [] if direct else self.values.tables(f"{own}_values", KIND)
        size = f"return {0 if direct else 8 * total} + {self.program.name}_work_size();"
        given = [n for _, n in self.inputs] + [
            f"{own}_table{k}{'[0]' * (not t.ndim)}" for k, t in enumerate(self.tables)
        ]
        starts = [sum(counts[:k]) for k in range(len(counts))]
        given += [f"{'values' if direct else '_all'} + {s}" for s in starts]
        lines = [] if direct else [f"double *const _all = {WORK};"]
        rest = WORK if direct else f"_all + {total}"
        lines.append(f"const int _status = {self.program.name}({', '.join([*given, rest])});")
        lines += ["if (_status)", f"{INDENT}return _status;"]
        lines += [] if direct else self.values.gathered(f"{own}_values", KIND, "_all", "values")
        lines += ["(void)values;"] if not self.values.count else []
        for head, body in (
            (f"size_t {self.name}_work_size(void)", [size]),
            (self.declaration, [*lines, "return 0;"]),
        ):
            parts.append("\n".join([head, "{", *(f"{INDENT}{line}" for line in body), "}", ""]))
        return "\n".join([inner, *parts])
