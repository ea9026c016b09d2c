"""`adc build --emit c`: the C files of a function and its derivatives, also with CasADi's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from adcompiler.api.export import SparseExport, pullback, pushforward, sparse_export
from adcompiler.api.function import Function
from adcompiler.api.transforms import grad
from adcompiler.cli.programs import ExportedProgram, Wrt
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.ir.nodes import Array, Func
from adcompiler.ir.types import is_float
from adcompiler.runtime.reports.foreign import prepared, traced_for_c
from adcompiler.runtime.reports.show import default_types
from adcompiler.targets.c.casadi import HEAD as CASADI_HEAD
from adcompiler.targets.c.casadi import Block, CasadiFunction, Matrix
from adcompiler.targets.c.files import c_files, source
from adcompiler.targets.c.functions import CFile
from adcompiler.targets.c.names import check_name
from adcompiler.targets.c.program import CProgram
from adcompiler.targets.c.sparse import CSparse
from adcompiler.targets.c.tables import SparseValues

ABIS = ("c", "casadi")
SPARSE = ("jacobian", "hessian")


def c_texts(f: Function, stem: str, programs: Mapping[str, ExportedProgram], wrt: Wrt, sparse: bool) -> Files:
    """The C files of programs, STEM.c and STEM.h; Jacobians and Hessians are `sparse` if wanted."""
    file = CFile()
    exports: dict[str, CProgram | CSparse] = {}
    for key, p in programs.items():
        if sparse and p.what in SPARSE:
            exports[key] = _sparse(f, file, key, p.what, wrt)
        else:
            exports[key] = CProgram(file, p.func, key, p.compared)
    texts = c_files(stem, file, list(exports.values()))
    return Files(texts, {key: one.declaration for key, one in exports.items()})


def casadi_texts(f: Function, name: str, stem: str) -> Files:
    """The file STEM.c of a function and of the derivatives that CasADi looks up: `jac_f`, `fwd1_f`, `adj1_f`
    and `jac_adj1_f`."""
    check_name(name)
    made = _Casadi(f, name)
    functions = [made.value(), *made.derivatives()]
    text = source(CASADI_HEAD, made.file, functions)
    return Files({f"{stem}.c": text}, {one.name: one.declaration for one in functions})


class Files(NamedTuple):
    """The texts of files, and the declarations of their functions."""

    texts: Mapping[str, str]
    declarations: Mapping[str, str]


def _sparse(f: Function, file: CFile, name: str, what: str, wrt: Wrt) -> CSparse:
    """A sparse Jacobian, or the lower triangle of a sparse Hessian."""
    check_name(name)
    types = default_types(f)
    _, wanted = f._wanted(wrt, types)
    lowered = traced_for_c(grad(f, wrt) if what == "hessian" else f)
    found = sparse_export(lowered, wanted, what == "hessian")
    program = CProgram(file, prepared(name, found.lowered, []), f"{name}_adc", static=True)
    shape = found.tops[-1], found.lefts[-1]
    values = SparseValues.of(shape, found.rows, found.columns, found.places, by_columns=False)
    return CSparse(name, program, values, found.tables)


class _Casadi:
    """The functions for CasADi of one function."""

    def __init__(self, f: Function, name: str) -> None:
        self.name = name
        self.lowered = traced_for_c(f)
        self.file = CFile()
        self.file.helpers.add("adc_i64")
        func = self.lowered.func
        self.floats = [k for k, i in enumerate(func.inputs) if is_float(i.dtype)]

    def program(self, lowered: Lowered, name: str) -> CProgram:
        """The static functions of a program."""
        func = prepared(name, lowered, [])
        return CProgram(self.file, func, f"{name}_adc", static=True)

    def value(self) -> CasadiFunction:
        """The function itself."""
        func = self.lowered.func
        program = self.program(self.lowered, self.name)
        return CasadiFunction(self.name, program, _matrices(func), _results(func))

    def derivatives(self) -> list[CasadiFunction]:
        """Its Jacobian, its tangents and cotangents, and the Jacobian of these."""
        func = self.lowered.func
        if not self.floats or not any(is_float(r.dtype) for r in func.results):
            return []
        forward, backward = pushforward(self.lowered, self.floats), pullback(self.lowered, self.floats)
        outs = [Matrix.of(f"out_{n}", r, None) for n, r in zip(func.result_names, func.results, strict=True)]
        own = _matrices(func)
        adjoint = self.directional(backward, f"adj1_{self.name}", "adj", outs, func.results, func.inputs)
        slopes = [m for m in adjoint.outputs if isinstance(m, Matrix)]
        return [
            self.jacobian(self.lowered, f"jac_{self.name}", own, _results(func), outs),
            self.directional(forward, f"fwd1_{self.name}", "fwd", outs, func.inputs, func.results),
            adjoint,
            self.jacobian(
                backward, f"jac_adj1_{self.name}", adjoint.inputs, slopes,
                [Matrix(f"out_{m.name}", m.shape, None) for m in slopes],
            ),
        ]  # fmt: skip

    def directional(
        self,
        lowered: Lowered,
        name: str,
        prefix: str,
        outs: Sequence[Matrix],
        given: Sequence[Array],
        wanted: Sequence[Array],
    ) -> CasadiFunction:
        """The function of tangents or cotangents: those of integers are not read, or zero."""
        func = self.lowered.func
        names = dict(zip((*func.inputs, *func.results), (*func.input_names, *func.result_names), strict=True))
        seeds = _numbered(given, f"{prefix}_", names, len(func.inputs))
        results = _numbered(wanted, f"{prefix}_", names, 0)
        return CasadiFunction(name, self.program(lowered, name), [*_matrices(func), *outs, *seeds], results)

    def jacobian(
        self,
        lowered: Lowered,
        name: str,
        inputs: Sequence[Matrix],
        results: Sequence[Matrix],
        outs: Sequence[Matrix],
    ) -> CasadiFunction:
        """The Jacobian of all results by all inputs, in blocks."""
        func = lowered.func
        floats = [m for m in inputs if m.array is not None and is_float(func.inputs[m.array].dtype)]
        found = sparse_export(lowered, [m.array for m in floats if m.array is not None])
        program = self.program(found.lowered, name)
        blocks = [
            Block(f"jac_{r.name}_{i.name}", _block(found, r, i, floats)) for r in results for i in inputs
        ]
        return CasadiFunction(name, program, [*inputs, *outs], blocks, found.tables)


def _block(found: SparseExport, result: Matrix, given: Matrix, floats: Sequence[Matrix]) -> SparseValues:
    """The derivative of a result by an input, in column-major order."""
    shape = result.size, given.size
    if result.array is None or given not in floats:
        nothing = np.zeros(0, np.int64)
        return SparseValues.of(shape, nothing, nothing, nothing, True)
    (top, bottom), (left, right) = (
        list(pairwise(bounds))[k]
        for bounds, k in ((found.tops, result.array), (found.lefts, floats.index(given)))
    )
    rows, columns = found.rows, found.columns
    here = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
    rows, columns = result.by_columns(rows[here] - top), given.by_columns(columns[here] - left)
    return SparseValues.of(shape, rows, columns, found.places[here], True)


def _matrices(func: Func) -> list[Matrix]:
    return [Matrix.of(n, i, k) for k, (n, i) in enumerate(zip(func.input_names, func.inputs, strict=True))]


def _results(func: Func) -> list[Matrix]:
    return [Matrix.of(n, r, k) for k, (n, r) in enumerate(zip(func.result_names, func.results, strict=True))]


def _numbered(arrays: Sequence[Array], prefix: str, names: dict[Array, str], first: int) -> list[Matrix]:
    """Matrices of which only those that are floats belong to a program, in order."""
    found = []
    for array in arrays:
        there = is_float(array.dtype)
        found.append(Matrix.of(f"{prefix}{names[array]}", array, first if there else None))
        first += there
    return found
