"""A partitioned program as a task graph of Dask.

Each stage has one task per point of its grid. Partial results are combined by trees over the reduced grid
axes, `MOST_PARTS_JOINED` at a time in the order of the blocks. The order of every sum therefore depends only
on the chunks, not on workers or timing.

A later pass over the data reads it again, through a copy of its graph whose first tasks wait until the
previous pass is done (`reread`). Otherwise Dask would hold all blocks in memory from one pass to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate, product
from typing import Any

import numpy as np

from adcompiler.errors import Error, LimitError
from adcompiler.interop.dask.worker import StageProgram, checked, combine, pick, run
from adcompiler.interop.limits import MOST_PARTS_JOINED
from adcompiler.interpreter.reference import length
from adcompiler.ir.nodes import Array, Input, Size
from adcompiler.ir.textform.printer import show
from adcompiler.ir.types import NUMPY
from adcompiler.ir.walk import is_computed
from adcompiler.lazy_dataclass import dataclass
from adcompiler.passes.chunks.blocks import Leaf
from adcompiler.passes.chunks.partition import Output, Partition, Stage

Index = tuple[int, ...]
Chunks = tuple[int, ...]


@dataclass
class Graph:
    """The tasks of a program for one call.

    token a digest of the call, the suffix of its tasks' names; dashboards show the part before it sizes the
    lengths of the program's size symbols chunks the block lengths of each chunked size symbol given the
    program's inputs: Dask arrays in fitting chunks, or values keep whether blocks stay in memory from pass to
    pass
    """

    token: str
    backend: str
    plan: Partition
    sizes: Sequence[int]
    chunks: Mapping[Size, Chunks]
    given: Mapping[Array, Any]
    keep: bool = False
    arrays: dict[Array, Any] = field(default_factory=dict)  # inputs and stored arrays, as Dask arrays
    bound: dict[Array, Any] = field(default_factory=dict)  # inputs as the current pass reads them
    passes: int = 0
    starts: dict[Size, list[int]] = field(default_factory=dict)

    def build(self) -> None:
        """Make the tasks of all stages."""
        self.starts = {n: [0, *accumulate(lengths)] for n, lengths in self.chunks.items()}
        self.arrays.update({i: self.collected(i) for i in self.plan.inputs})
        self.bound = dict(self.arrays)
        for number, stage in enumerate(self.plan.stages):
            if stage.grid and stage.time > 1 and stage.time != self.passes:
                self.passes = stage.time
                self.read_again()
            self.add(number, stage)

    def collected(self, given: Input) -> Any:
        """An input as a Dask array."""
        from dask.array import Array as DaskArray
        from dask.base import tokenize

        value = self.given[given]
        if isinstance(value, DaskArray):
            return value
        value = np.asarray(value, NUMPY[given.dtype])
        name = f"adc-argument-{tokenize(value)}"
        key = (name, *(0 for _ in value.shape))
        return self.dask_array(name, {key: value}, [], tuple((n,) for n in value.shape), value.dtype)

    def dask_array(
        self, name: str, tasks: dict[Any, Any], needs: Sequence[Any], chunks: Any, dtype: Any
    ) -> Any:
        """A Dask array of the results of a stage."""
        from dask.array import Array as DaskArray
        from dask.highlevelgraph import HighLevelGraph

        layers = HighLevelGraph.from_collections(name, tasks, dependencies=needs)
        return DaskArray(layers, name, chunks=chunks, dtype=dtype)

    def read_again(self) -> None:
        """Let later stages read the inputs again, after all tasks added so far."""
        done = [a for k, a in self.arrays.items() if not isinstance(k, Input)]
        chunked = [i for i in self.plan.inputs if self.arrays[i].npartitions > 1]
        if not self.keep and chunked:
            suffix = f"pass-{self.passes // 2 + 1}-{self.token}"
            self.bound.update((i, reread(self.arrays[i], done, suffix)) for i in chunked)

    # -- stages ----------------------------------------------------------------------------------

    def add(self, number: int, stage: Stage) -> None:
        """Add the tasks of one stage, and Dask arrays for its outputs."""
        label = re.sub(r"\W+", "_", stage.func.name).strip("_")
        name = f"{label}-{self.token}-{number}"
        program = StageProgram(
            show(stage.func.with_(name="stage")), self.backend
        )  # passes may share programs
        own = f"{label}_program-{program.digest[:32]}-{self.backend}"
        tasks: dict[Any, Any] = {own: program}
        needs = {leaf.array: self.source(leaf.array) for leaf in stage.leaves}
        numbers = {output.stored: k for k, output in enumerate(stage.outputs)}
        for point in product(*(range(len(self.chunks[n])) for n in stage.grid)):
            before = self.before(stage, point)
            blocks = [
                block_key(needs[leaf.array], leaf, point)
                if leaf.carried is None or before is None
                else (take, (name, *before), numbers[leaf.carried])
                for leaf in stage.leaves
            ]
            tasks[(name, *point)] = (run, own, list(self.lengths(stage, point)), *blocks)
        whole = self.dask_array(name, tasks, list(needs.values()), self.grid_chunks(stage), object)
        self.store(label, f"{self.token}-{number}", stage, whole)

    def before(self, stage: Stage, point: Index) -> Index | None:
        """The block from which a block of a scan takes its carried values; None for the first one."""
        if stage.scan is None:
            return None
        axis, backward = stage.scan
        k = point[axis] + (1 if backward else -1)
        return (*point[:axis], k, *point[axis + 1 :]) if 0 <= k < len(self.chunks[stage.grid[axis]]) else None

    def source(self, array: Array) -> Any:
        """A stored array as the current pass reads it."""
        return self.bound[array] if isinstance(array, Input) else self.arrays[array]

    def grid_chunks(self, stage: Stage) -> tuple[Chunks, ...]:
        """The chunks along the axes of the blocks of a stage."""
        return tuple((1,) * len(self.chunks[n]) for n in stage.grid)

    def lengths(self, stage: Stage, point: Index) -> Iterator[int]:
        """The arguments of a stage that are lengths: those of the program, then block length and start of
        each grid axis."""
        yield from self.sizes
        for n, k in zip(stage.grid, point, strict=True):
            yield self.chunks[n][k]
            yield self.starts[n][k]

    def store(self, label: str, token: str, stage: Stage, whole: Any) -> None:
        """Make Dask arrays of a stage's outputs: blocks as they are, and totals by trees."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for k, output in enumerate(stage.outputs):
            if output.reduced:
                groups.setdefault(output.reduced, []).append(k)
            else:
                self.arrays[output.stored] = self.result(
                    f"{label}_block-{token}-{k}", stage, output, whole, k
                )
        for reduced, numbers in groups.items():
            suffix = f"{token}-{'-'.join(map(str, reduced))}"
            tree = self.tree(label, suffix, stage, reduced, numbers, whole)
            for place, k in enumerate(numbers):
                output = stage.outputs[k]
                self.arrays[output.stored] = self.result(
                    f"{label}_total-{token}-{k}", stage, output, tree, place
                )

    def result(self, name: str, stage: Stage, output: Output, source: Any, number: int) -> Any:
        """The array that is output `number` of each task of a grid, at the points that remain."""
        array, tasks = output.stored, {}
        ranges = [range(len(self.chunks[n])) for n in stage.grid]
        for g, last in output.chosen:
            ranges[g] = ranges[g][-1:] if last else ranges[g][:1]
        kept = [g for g in range(len(stage.grid)) if g not in output.reduced]
        for point in product(*(ranges[g] for g in kept)):
            at = dict(zip(kept, point, strict=True))
            key = (name, *(0 if g is None else at[g] for g in output.spec))
            tasks[key] = (take, (source.name, *point), number)
        chunks = tuple(
            (self.length(n),) if g is None else self.chunks[stage.grid[g]]
            for n, g in zip(array.shape, output.spec, strict=True)
        )
        return self.dask_array(name, tasks, [source], chunks, NUMPY[array.dtype])

    def length(self, size: Any) -> int:
        """A length of the program."""
        if is_computed(size):
            raise LimitError(
                "the length of a result depends on values, which a lazy array cannot have",
                remedy="take the length from a shape or from a Python int",
            )
        return max(length(size, self.sizes), 0)

    # -- trees -----------------------------------------------------------------------------------

    def tree(
        self, label: str, token: str, stage: Stage, reduced: Index, numbers: Sequence[int], whole: Any
    ) -> Any:
        """The tasks that combine some outputs of a stage over grid axes; the other axes are in their keys."""
        counts = [len(self.chunks[n]) for n in stage.grid]
        kept = [g for g in range(len(counts)) if g not in reduced]
        ops = [stage.outputs[k].op for k in numbers]
        name, part = f"{label}_combine-{token}", f"{label}_part-{token}"
        tasks: dict[Any, Any] = {}
        for point in product(*(range(counts[g]) for g in kept)):
            parts = []
            for rest in product(*(range(counts[g]) for g in reduced)):
                full = {**dict(zip(kept, point, strict=True)), **dict(zip(reduced, rest, strict=True))}
                source = tuple(full[g] for g in range(len(counts)))
                tasks[part, *source] = pick, list(numbers), (whole.name, *source)
                parts.append((part, *source))
            self.grow(name, point, ops, parts, tasks)
        chunks = tuple((1,) * counts[g] for g in kept)
        return self.dask_array(name, tasks, [whole], chunks, object)

    def grow(self, name: str, point: Index, ops: list[Any], parts: list[Any], tasks: dict[Any, Any]) -> None:
        """Add a tree over `parts`; its root is the task of `point`."""
        level = 0
        while True:
            groups = [parts[k : k + MOST_PARTS_JOINED] for k in range(0, len(parts), MOST_PARTS_JOINED)]
            last = len(groups) == 1
            inner = f"{name}-level-{level}"
            here = [(name, *point)] if last else [(inner, *point, k) for k in range(len(groups))]
            tasks.update({key: (combine, ops, group) for key, group in zip(here, groups, strict=True)})
            if last:
                return
            parts, level = here, level + 1

    # -- results ---------------------------------------------------------------------------------

    def results(self, words: Sequence[tuple[type[Error], str, str]]) -> list[Any]:
        """The program's results as Dask arrays; they wait for the program's checks."""
        found = [self.arrays[r] for r in self.plan.results]
        holds = [self.arrays[c] for c in self.plan.checks]
        return [self.guarded(a, holds, list(words)) for a in found] if holds else found

    def guarded(self, array: Any, holds: Sequence[Any], words: list[tuple[type[Error], str, str]]) -> Any:
        """An array that raises the error of the first check that fails when it is computed."""
        name = f"checked-{array.name}"
        keys = [(h.name,) for h in holds]
        points = product(*map(range, array.numblocks))
        tasks = {(name, *p): (checked, (array.name, *p), keys, [list(w) for w in words]) for p in points}
        return self.dask_array(name, tasks, [array, *holds], array.chunks, array.dtype)


def block_key(source: Any, leaf: Leaf, point: Index) -> tuple[Any, ...]:
    """The key of the block that a leaf reads at a point of a grid."""
    return (source.name, *(0 if g is None else point[g] for g in leaf.spec))


def take(results: Sequence[Any], number: int) -> Any:
    """One of the results of a task."""
    return results[number]


def reread(array: Any, done: Sequence[Any], suffix: str) -> Any:
    """A Dask array of the same values under other keys, none of which is computed before `done` is.

    Data inside the graph is shared, not copied. `dask.graph_manipulation.bind` is meant for this, but it does
    not rename references inside Dask's task objects, except in a blockwise layer: blocks of a rechunked array
    would be missing.
    """
    import dask
    from dask._task_spec import Alias, DataNode, Task, TaskRef, convert_legacy_graph
    from dask.array import Array as DaskArray
    from dask.graph_manipulation import checkpoint
    from dask.highlevelgraph import HighLevelGraph

    (array,) = dask.optimize(array)
    nodes = convert_legacy_graph(dict(array.__dask_graph__()))
    keys = {key: renamed(key, suffix) for key, node in nodes.items() if not isinstance(node, DataNode)}
    blocker = checkpoint(*done)
    tasks: dict[Any, Any] = {}
    for key, node in nodes.items():
        if key not in keys:
            tasks[key] = node
            continue
        own = node.substitute(keys, key=keys[key])
        is_first = keys.keys().isdisjoint(node.dependencies)
        tasks[keys[key]] = Task(keys[key], first, own, TaskRef(blocker.key)) if is_first else own
    for key in (k for k in nodes if isinstance(k, tuple) and k[0] == array.name and k not in keys):
        tasks[renamed(key, suffix)] = Alias(renamed(key, suffix), key)
    name = renamed(array.name, suffix)
    layers = HighLevelGraph.from_collections(name, tasks, dependencies=[blocker])
    return DaskArray(layers, name, chunks=array.chunks, dtype=array.dtype)


def renamed(key: Any, suffix: str) -> Any:
    """The key of a copy."""
    return (f"{key[0]}-{suffix}", *key[1:]) if isinstance(key, tuple) else f"{key}-{suffix}"


def first(value: Any, _done: Any) -> Any:
    """The value of a task that waits for another one."""
    return value
