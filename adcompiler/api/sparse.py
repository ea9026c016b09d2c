"""Sparse Jacobians and Hessians: one direction per color, all in one batched program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from adcompiler.ad.programs.coloring import Coloring, coloring
from adcompiler.ad.programs.jacobians import pulled, pushed
from adcompiler.api.limits import MOST_COLORINGS, SEED_ENTRIES
from adcompiler.api.transforms import Derived, Gradient
from adcompiler.errors import Error
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.interpreter.reference import extent
from adcompiler.interpreter.sparsity import pattern
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Input, Shape, Size
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.lazy import Memo, cached_property
from adcompiler.passes.pipeline import OPTIMISE, SIMPLIFY, run
from adcompiler.pytree.kinds import Types
from adcompiler.pytree.structures import grafted, unflatten
from adcompiler.runtime.arguments.adapters import is_adapted
from adcompiler.runtime.arguments.signature import find_hook, wrapper_of
from adcompiler.runtime.programs.program import Program


class SparseDerivative(Derived):
    """The derivative of every output of `of` with respect to every input in `wrt`, in CSR matrices.

    A Hessian is the symmetric derivative of a gradient. The sparsity pattern follows from the program, the
    lengths and the integers of a call, never from floats; it is kept, with its coloring, for calls alike.
    """

    def _trace(self, types: Types) -> Lowered:
        raise Error(
            f"{self.__name__} is sparse: it is computed in several programs",
            remedy="transform the function itself, or omit sparse=True",
        )

    @public
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        program, values = self.at(args, keywords)
        return unflatten(program.structure, program(values))

    @public
    def colors(self, *args: Any, **keywords: Any) -> int:
        """The number of directions for these arguments: colors, and rows computed one by one."""
        program, values = self.at(args, keywords)
        return program.coloring(values, program.base.sizes(values)).directions

    def at(self, args: Sequence[Any], keywords: dict[str, Any]) -> tuple[SparseProgram, list[Any]]:
        """The program for the types of these arguments, and the values of its inputs."""
        hook = find_hook(self, args, keywords)
        if hook is not None and not is_adapted(hook):
            self._in_order(args, keywords)
            self._trace(())
        wrapper_of(self._of, args, keywords)  # labels agree, which matrices have not
        call = self._describe(args, keywords, rows=False)  # a block is one matrix
        return self._derived(call.types, lambda: self._made(call.types)), call.values

    def _made(self, types: Types) -> SparseProgram:
        """The program that is differentiated: the function's own, or that of its gradient."""
        positions, wanted = self._of._wanted(self._wrt, types)
        row = self._places(positions, types)
        of = Gradient(self._of, self._wrt, "grad") if self.symmetric else self._of
        program = Program.of(of._trace(types), self._backend)
        rows = row if self.symmetric else program.structure
        structure = grafted(rows, row, [0] * len(program.func.results))
        return SparseProgram(program, wanted, structure, self.symmetric)

    @property
    def symmetric(self) -> bool:
        """Whether this is a Hessian."""
        return False


class SparseHessian(SparseDerivative):
    """The Hessian of a scalar function, in CSR matrices."""

    @property
    def symmetric(self) -> bool:
        return True


class _Mode(NamedTuple):
    """One batched mode of differentiation: which of its seeds exist, and its program."""

    seeded: list[int]
    compiled: Program


class SparseProgram:
    """What is computed for arguments of given types."""

    def __init__(self, base: Program, wanted: Sequence[int], structure: Any, symmetric: bool) -> None:
        self.base, self.structure, self.symmetric = base, structure, symmetric
        self.func = base.func
        self.inputs = [self.func.inputs[k] for k in wanted]
        self._colorings: Memo[Any, Coloring] = Memo(MOST_COLORINGS)

    # -- patterns ------------------------------------------------------------------------------

    def coloring(self, values: Sequence[Any], sizes: Sequence[int]) -> Coloring:
        """The pattern and coloring for these lengths and integers; those of the last calls are kept."""
        integers = self.integers(values)
        make = lambda: coloring(self.pattern(integers, sizes), self.symmetric)  # noqa: E731
        return self._colorings.made(key_of(integers, sizes), make)

    def integers(self, values: Sequence[Any]) -> dict[Array, Any]:
        """The inputs that are not floats: patterns follow from them."""
        pairs = zip(self.func.inputs, values, strict=True)
        return {i: np.asarray(v, NUMPY[i.dtype]) for i, v in pairs if not is_float(i.dtype)}

    def pattern(self, integers: dict[Array, Any], sizes: Sequence[int]) -> Any:
        """Where the derivative may have entries other than zero, as a sparse matrix."""
        found = pattern(run(OPTIMISE, self.func).results, self.inputs, integers, sizes)
        if self.symmetric:
            found = (found + found.T).tocsr()
        found.sort_indices()
        return found

    # -- programs ------------------------------------------------------------------------------

    @cached_property
    def forward(self) -> _Mode:
        """The tangents of all results, for seeds of the inputs."""
        axes = (Size(len(self.func.size_names)),)
        seeds = self._seeds(self.inputs, axes)
        found = pushed(self.func, dict(zip(self.inputs, seeds, strict=True)), axes, guarded=True)
        return _Mode(list(range(len(seeds))), self._compiled(seeds, found))

    @cached_property
    def reverse(self) -> _Mode:
        """The cotangents of all inputs, for seeds of the results that are floats."""
        axes = (Size(len(self.func.size_names)),)
        floats = [k for k, r in enumerate(self.func.results) if is_float(r.dtype)]
        seeds = self._seeds([self.func.results[k] for k in floats], axes)
        found = pulled(self.func, dict(zip(floats, seeds, strict=True)), self.inputs, axes, guarded=True)
        return _Mode(floats, self._compiled(seeds, found))

    def _seeds(self, arrays: Sequence[Array], axes: Shape) -> list[Input]:
        first = len(self.func.inputs)
        return [Input(first + k, a.dtype, axes + a.shape) for k, a in enumerate(arrays)]

    def _compiled(self, seeds: Sequence[Input], found: Sequence[Array]) -> Program:
        """The program of directions; it takes the arguments, then the seeds."""
        names, labels = [f"seed{k}" for k in range(len(seeds))], [f"j{k}" for k in range(len(found))]
        made = self.func.extended(self.func.name, seeds, names, found, labels)
        made = made.with_(size_names=distinct([*made.size_names, "directions"]))
        return Program(run(SIMPLIFY, made), self.base.backend)

    # -- calls ---------------------------------------------------------------------------------

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The blocks, output by output."""
        from scipy.sparse import csr_array

        sizes = self.base.sizes(values)
        plan = self.coloring(values, sizes)
        data = self.entries(plan, values, sizes)
        tops, lefts = (self.bounds(a, sizes) for a in (self.func.results, self.inputs))
        shape = (tops[-1], lefts[-1])
        places = (plan.columns, plan.rows) if plan.transposed else (plan.rows, plan.columns)
        whole = csr_array((data, places), shape=shape)
        rows = zip(pairwise(tops), self.func.results, strict=True)
        return [
            whole[top:bottom, left:right].astype(NUMPY[result.dtype])
            for (top, bottom), result in rows
            for left, right in pairwise(lefts)
        ]

    def bounds(self, arrays: Sequence[Array], sizes: Sequence[int]) -> list[int]:
        """Where each array begins among the entries of all, and the end."""
        counts = [prod(extent(a.shape, sizes)) for a in arrays]
        return [0, *np.cumsum(counts, dtype=int).tolist()]

    def entries(self, plan: Coloring, values: Sequence[Any], sizes: Sequence[int]) -> np.ndarray:
        """The entries at the places of the plan."""
        data = np.zeros(len(plan.rows))
        lone = plan.lone_of[plan.rows]
        color = np.where(lone < 0, plan.colors[plan.columns], -1)
        for first, found in self._runs(plan.colors, plan.count, plan.transposed, values, sizes):
            _take(data, color, plan.rows, first, found)
        if not len(plan.lone):
            return data
        # Lone rows are columns of a symmetric matrix, and asked for as columns.
        mirrored = plan.lone_of[plan.columns] if self.symmetric else np.full_like(lone, -1)
        mirrored = np.where(lone < 0, mirrored, -1)
        reverse = not (self.symmetric or plan.transposed)
        for first, found in self._runs(plan.lone_of, len(plan.lone), reverse, values, sizes):
            _take(data, lone, plan.columns, first, found)
            _take(data, mirrored, plan.rows, first, found)
        return data

    def _runs(
        self, colors: np.ndarray, count: int, reverse: bool, values: Sequence[Any], sizes: Sequence[int]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """The directions of all colors, so many at a time: the first color, and a row for each."""
        at_once = max(1, SEED_ENTRIES // max(len(colors), 1))
        for first in range(0, max(count, 1), at_once):
            number = max(1, min(at_once, count - first))
            here = np.flatnonzero((colors >= first) & (colors < first + number))
            seeds = np.zeros((number, len(colors)))
            seeds[colors[here] - first, here] = 1.0
            yield first, self._directions(seeds, reverse, values, sizes)

    def _directions(
        self, seeds: np.ndarray, reverse: bool, values: Sequence[Any], sizes: Sequence[int]
    ) -> np.ndarray:
        """The derivatives along directions: a row for each."""
        mode = self.reverse if reverse else self.forward
        arrays = self.func.results if reverse else self.inputs
        bounds = self.bounds(arrays, sizes)
        given = []
        for k in mode.seeded:
            shape = extent(arrays[k].shape, sizes)
            part = seeds[:, bounds[k] : bounds[k + 1]].reshape(len(seeds), *shape)
            given.append(np.ascontiguousarray(part, NUMPY[arrays[k].dtype]))
        found = mode.compiled.bind([*values, *given], given=[*sizes, len(seeds)]).run()
        rows = [np.reshape(f, (len(seeds), -1)) for f in found]
        return np.concatenate(rows or [np.zeros((len(seeds), 0))], axis=1)


def key_of(integers: Mapping[Array, Any], sizes: Sequence[int]) -> Any:
    """What a pattern follows from, as a key of a dictionary."""
    digest = blake2b()
    for value in integers.values():
        digest.update(value.tobytes())
    return tuple(sizes), digest.digest()


def _take(data: np.ndarray, color: np.ndarray, position: np.ndarray, first: int, found: np.ndarray) -> None:
    """Write the entries that these directions have found."""
    here = np.flatnonzero((color >= first) & (color < first + len(found)))
    data[here] = found[color[here] - first, position[here]]
