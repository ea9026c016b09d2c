"""Calls of compiled functions with Variables: aggregate operations, whose propagate is compiled too.

One call is one entry, however long the function. Its outputs are the results *and* the temporaries
that propagate reads: derivatives of higher order reach the inputs through these too, which
hand-written aggregates often miss. Each pattern of None has its own propagate program. When propagate
is differentiated, it is recorded as the next aggregate, with its own saved temporaries, and so on to
any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from adcompiler.eager.aggregates.kernel_values import kernel_array, kernel_value
from adcompiler.eager.graph.graph import Cotangents, Entry, Node, fresh_name, is_variable, perform, state
from adcompiler.eager.graph.provenance import identities
from adcompiler.eager.variable.elementwise import word
from adcompiler.pytree.kinds import Types
from adcompiler.pytree.structures import Column, unflatten
from adcompiler.runtime.programs.program import Derivative, Program
from adcompiler.runtime.programs.snapshot import snapshot
from adcompiler.runtime.programs.splitting import SplitProgram

Kernel = Callable[..., Sequence[Any]]  # from the values of inputs to the results, flat


def call_with_variables(function: Any, bound: Sequence[Any]) -> Any:
    """The results of a compiled function, as Variables nested like its results."""
    call = function._describe(bound, stand_in=lambda _, v: kernel_array(v) if is_variable(v) else v)
    types, values, args = call.types, call.values, call.leaves
    if any(isinstance(a, Column) for a in args):
        args = [column_of(a, v) if isinstance(a, Column) else a for a, v in zip(args, values, strict=True)]
    wanted = tuple(k for k, a in enumerate(args) if is_variable(a) and a.differentiable)
    run = partial(_run, function, types, prepared(function, types, values, wanted))
    function._last = types  # what `show` shows
    key, leaves = function._sites.key(bound, state.recording)
    site = types, lambda leaves: run(leaves, [kernel_value(a) for a in leaves])
    function._sites.keep(key, leaves, args, lambda: site)
    return run(args, values)


class Prepared(NamedTuple):
    """What runs calls with Variables at some lengths: the function's program, or the forward program of a
    `split` one, whose propagate is recorded."""

    split: SplitProgram | None
    program: Program
    lengths: tuple[int, ...]
    kernel: Kernel


def prepared(function: Any, types: Types, values: Sequence[Any], wanted: tuple[int, ...]) -> Prepared:
    """What runs calls with arguments like these; it is recorded if there are `wanted` inputs."""
    split = function.split().at(types, wanted, values) if wanted and state.recording else None
    program: Program = function._specialise(types) if split is None else split.forward
    lengths = tuple(program.sizes(values))
    return Prepared(split, program, lengths, program.runner(lengths, values))


def _run(function: Any, types: Types, by: Prepared, args: Sequence[Any], values: Sequence[Any]) -> Any:
    """The results of a call, nested."""
    if by.split is not None:
        made = _aggregate(function.__name__, by.split, args, values, by.lengths, by.kernel)
        return unflatten(by.split.structure, made[: by.split.parts.count])
    entry = Unrecorded(function.__name__, args)
    if state.anomaly is not None:
        state.anomaly.called(entry, None, values, function, types)
    return unflatten(by.program.structure, perform(entry, by.kernel(*values)))


def _aggregate(
    name: str,
    program: SplitProgram,
    args: Sequence[Any],
    values: Sequence[Any],
    lengths: Sequence[int],
    kernel: Kernel,
) -> list[Any]:
    """Run a forward program; its results and temporaries as Variables."""
    entry = Aggregate(name, program, args, values, lengths)
    if state.anomaly is not None:
        state.anomaly.called(entry, program, values)
    found = kernel(*values)
    stems = program.parts.forward.result_names[program.parts.count :]
    made = perform(entry, found, [None] * program.parts.count + [fresh_name(n) for n in stems])
    for k in program.reads:
        if k >= len(values):
            entry.keep(k - len(values), made[k - len(values)].data)
    return made


class Unrecorded(Entry):
    """A call that leaves nothing to differentiate: it is there to be shown."""

    __slots__ = ("given", "name", "shown")

    def __init__(self, name: str, args: Sequence[Any], wanted: Sequence[int] = ()) -> None:
        quiet = state.quiet is not None and not state.recording
        super().__init__(filter(is_variable, args) if quiet else [args[k] for k in wanted])
        self.name = name
        self.given = identities(args) if state.recording and len(wanted) < len(args) else ()
        self.shown = self._words(args) if len(self.inputs) < len(args) else None

    @staticmethod
    def _words(args: Iterable[Any]) -> list[Any]:
        return [a if type(a) is float else word(a) for a in args]

    def right(self) -> str:
        shown = [v.name for v in self.inputs] if self.shown is None else self.shown
        return f"{self.name}({', '.join(map(str, shown))})"


class Aggregate(Unrecorded):
    """A forward program that was run, with what its propagate programs read."""

    __slots__ = ("program", "saved", "sizes")

    def __init__(
        self,
        name: str,
        program: SplitProgram,
        args: Sequence[Any],
        values: Sequence[Any],
        sizes: Sequence[int],
    ) -> None:
        super().__init__(name, args, program.parts.wanted)
        self.program, self.sizes = program, tuple(sizes)
        self.saved = {k: snapshot(values[k]) for k in program.constants}

    @property
    def holds(self) -> bool:  # type: ignore[override]
        """Whether propagate reads anything."""
        return bool(self.program.reads)

    def clear(self) -> None:
        self.saved = {}

    def propagate(self, cotangents: Cotangents, wanted: Sequence[bool]) -> Cotangents:
        present, asked = tuple(c is not None for c in cotangents), tuple(wanted)
        made = self.program.propagate(present, asked)
        args = [*(self._read(k) for k in made.reads), *(c for c in cotangents if c is not None)]
        return made.spread(self._run(made, args) if any(made.known) else ())

    def _run(self, made: Derivative, args: Sequence[Any]) -> list[Any]:
        values, name = [kernel_value(a) for a in args], made.program.func.name
        if not state.recording:
            return perform(Unrecorded(name, args), made.program.bind(values, given=self.sizes).run())
        wanted = tuple(k for k, a in enumerate(args) if is_variable(a) and a.differentiable)
        program = SplitProgram.again(made, wanted)
        lengths = program.forward.sizes(values, self.sizes)

        def kernel(*values: Any) -> Sequence[Any]:
            return program.forward.run(lengths, values, False)

        return _aggregate(name, program, args, values, lengths, kernel)

    def _read(self, k: int) -> Any:
        """A value that propagate reads: an input or an output as a Variable, or a saved constant."""
        inputs = len(self.program.parts.forward.inputs)
        if k >= inputs:
            return self.output(k - inputs)
        wanted = self.program.parts.wanted
        return self.input(wanted.index(k)) if k in wanted else self.saved[k]


# -- stacked columns ---------------------------------------------------------------------------------
# A field of all items of a list as one Variable, for calls with Variables in structs.


class Stacked(Entry):
    """One array of many; its cotangent is the cotangents of these, item by item."""

    __slots__ = ("places",)
    holds = False

    def __init__(self, column: Sequence[Any]) -> None:
        self.places = tuple(k for k, v in enumerate(column) if is_variable(v))
        super().__init__(column[k] for k in self.places)

    def right(self) -> str:
        return f"stack({', '.join(v.name for v in self.inputs)})"

    def propagate(self, cotangents: Cotangents, wanted: Sequence[bool]) -> Cotangents:
        (c,) = cotangents
        if c is None:
            return [None] * len(self.places)
        if state.recording:
            return [c[k] for k in self.places]
        return [Node.kind.made(np.array(c.data[k]), None) for k in self.places]


def column_of(column: Sequence[Any], value: Any) -> Any:
    """The array `value` that a program reads, as a Variable if there are Variables among its items."""
    if not any(map(is_variable, column)):
        return value
    return perform(Stacked(column), [value])[0]
