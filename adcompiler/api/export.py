"""Programs for export, beside those of transforms: pullbacks, and the entries of sparse derivatives.

The entries of a sparse derivative are values among the results of a program, at places that are known from
the lengths of its arrays alone: entry by entry where the program allows it (`ad/programs/entries.py`), else
by directions, one for each color, which come from constant tables of colors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from adcompiler.ad.jvp import value_and_tangent
from adcompiler.ad.programs.coloring import Coloring, colored
from adcompiler.ad.programs.jacobians import pulled, pushed
from adcompiler.ad.programs.split import pullback as joint
from adcompiler.api.sparse import SparseProgram
from adcompiler.api.sparse_entries import SparseFamilies
from adcompiler.errors import ShapeError
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.sizes import with_inputs
from adcompiler.interpreter.reference import extent
from adcompiler.ir.nodes import Array, Func, Index, Input, Map, Read, const, element_of
from adcompiler.ir.types import is_float
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, cast
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.programs.program import Program


def pullback(lowered: Lowered, wanted: Sequence[int], given: str = "adj", made: str = "adj") -> Lowered:
    """The program of the cotangents of some inputs. It takes the arguments, then a cotangent for each result
    that is a float. `given` and `made` begin the names of cotangents."""
    present = [is_float(r.dtype) for r in lowered.func.results]
    func, _ = joint(lowered.func, wanted, present, zeros=True, names=(f"{given}_", f"{made}_"))
    return _simplified(lowered, func.with_(name=lowered.func.name))


def pushforward(lowered: Lowered, wanted: Sequence[int], given: str = "fwd", made: str = "fwd") -> Lowered:
    """The program of the tangents of the results that are floats. It takes the arguments, then a tangent for
    each of some inputs."""
    func = lowered.func
    pushed = value_and_tangent(func, wanted, with_value=False)
    floats = [k for k, r in enumerate(func.results) if is_float(r.dtype)]
    return _with(
        lowered,
        pushed.inputs[len(func.inputs) :],
        [f"{given}_{func.input_names[k]}" for k in wanted],
        [pushed.results[k] for k in floats],
        [f"{made}_{func.result_names[k]}" for k in floats],
    )


def _with(
    lowered: Lowered,
    inputs: Sequence[Input],
    names: Sequence[str],
    results: Sequence[Array],
    labels: Sequence[str],
) -> Lowered:
    """A program with more inputs, and with other results."""
    func = lowered.func
    return _simplified(lowered, func.extended(func.name, inputs, names, results, labels))


def _simplified(lowered: Lowered, func: Func) -> Lowered:
    return Lowered(run(SIMPLIFY, func), with_inputs(lowered.constraints, lowered.func, func), None)


@dataclass(frozen=True)
class SparseExport:
    """A sparse derivative. The entry at `rows[k]`, `columns[k]` is the value at `places[k]` of all results of
    the program, one after the other; entries of one place are added. Behind the arguments the program takes
    `tables`. Results of the function begin at the rows `tops`, and inputs at the columns `lefts`."""

    lowered: Lowered
    tables: tuple[np.ndarray, ...]
    rows: np.ndarray
    columns: np.ndarray
    places: np.ndarray
    tops: list[int]
    lefts: list[int]


def sparse_export(lowered: Lowered, wanted: Sequence[int], symmetric: bool = False) -> SparseExport:
    """The derivative of all results by the inputs `wanted`, or the lower triangle of a symmetric one.

    Raises ShapeError if the program has arrays of unknown lengths.
    """
    func = lowered.func
    if func.counts:
        given = func.input_names[func.counts[0][1]]
        raise ShapeError(
            f"entries of a sparse derivative of {func.name} are at places that depend on {given}",
            remedy=f"export a function that calls this one with a number in place of {given}",
        )
    if func.size_names:
        raise ShapeError(
            f"entries of a sparse derivative of {func.name} are at places that depend on unknown lengths: "
            f"{', '.join(func.size_names)}",
            remedy='give numbers for them: --types "f64[100]"',
        )
    program = SparseProgram(Program.of(lowered, "cpu"), wanted, None, symmetric)
    tops, lefts = program.bounds(func.results, ()), program.bounds(program.inputs, ())
    families = SparseFamilies(program)
    placed = families.placed({}, ())
    if placed is None:
        made, tables, rows, columns, places = _by_directions(program, lowered, symmetric)
    else:
        results, tables, start = [], (), 0
        found = []
        for one in placed:
            results.append(one.values)
            found.append((one.rows, one.columns, start + one.kept))
            start += prod(one.domain)
        parts = zip(*found, strict=True) if found else ([], [], [])
        rows, columns, places = (np.concatenate([np.zeros(0, np.int64), *part]) for part in parts)
        made = _with(lowered, [], [], results, [f"e{k}" for k in range(len(results))])
    return SparseExport(made, tables, rows, columns, places, tops, lefts)


def _by_directions(
    program: SparseProgram, lowered: Lowered, symmetric: bool
) -> tuple[Lowered, tuple[np.ndarray, ...], np.ndarray, np.ndarray, np.ndarray]:
    """The program of all directions, and the places of the entries among its results."""
    func = lowered.func
    plan = colored(program.pattern({}, ()), symmetric)
    arrays = func.results if plan.transposed else program.inputs
    used = [a for a in arrays if is_float(a.dtype)]
    tables: list[np.ndarray] = []
    inputs: list[Input] = []
    seeds: list[Array] = []
    for a, first in zip(arrays, program.bounds(arrays, ()), strict=False):
        if is_float(a.dtype):
            tables.append(plan.colors[first : first + prod(extent(a.shape, ()))].reshape(extent(a.shape, ())))
            inputs.append(Input(len(func.inputs) + len(inputs), "i64", a.shape))
            seeds.append(_seed(inputs[-1], a, plan))
    axes = (const(plan.count, "i64"),)
    if plan.transposed:
        numbers = [func.results.index(a) for a in used]
        made = pulled(func, dict(zip(numbers, seeds, strict=True)), program.inputs, axes, guarded=True)
    else:
        made = pushed(func, dict(zip(program.inputs, seeds, strict=True)), axes, guarded=True)
    results = [Map(r.shape, cast(element_of(r), "f64")) for r in made]
    names = [f"colors{k}" for k in range(len(inputs))]
    program_of_all = _with(lowered, inputs, names, results, [f"e{k}" for k in range(len(results))])
    rows, columns = (plan.columns, plan.rows) if plan.transposed else (plan.rows, plan.columns)
    others = program.inputs if plan.transposed else func.results
    bounds = np.array(program.bounds(others, ()))
    part = np.searchsorted(bounds, plan.rows, "right") - 1
    sizes = np.diff(bounds)
    places = plan.count * bounds[part] + plan.colors[plan.columns] * sizes[part] + plan.rows - bounds[part]
    kept = rows >= columns if symmetric else np.ones(len(rows), bool)
    return program_of_all, tuple(tables), rows[kept], columns[kept], places[kept]


def _seed(colors: Input, array: Array, plan: Coloring) -> Array:
    """The directions of an array: one where its element has the color of the direction."""
    inner = tuple(Index(k + 1) for k in range(array.rank))
    color = Read(colors, inner)
    return Map((const(plan.count, "i64"), *array.shape), cast(apply("equal", color, Index(0)), array.dtype))
