"""`f.split()`: explicit forward and propagate programs, one propagate for each pattern of None."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from adcompiler.ad.programs.split import (
    Choice,
    Pattern,
    Split,
    by_cost,
    by_names,
    pattern_text,
    split,
)
from adcompiler.errors import Error, GraphError
from adcompiler.frames import public
from adcompiler.ir.loop import Item
from adcompiler.ir.walk import arrays_of
from adcompiler.kernels.emit.names import Names
from adcompiler.lazy import Memo, cached_property
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.progress import compiling
from adcompiler.pytree.containers import opened
from adcompiler.pytree.kinds import Types
from adcompiler.pytree.structures import flatten, has_rows, places_of, unflatten
from adcompiler.runtime.arguments.adapters import Wrapper
from adcompiler.runtime.arguments.ragged_arrays import offsets_in, with_offsets
from adcompiler.runtime.arguments.signature import wrapper_of
from adcompiler.runtime.arguments.tangents import as_cotangent
from adcompiler.runtime.limits import MOST_COTANGENTS_BRANCHED
from adcompiler.runtime.programs.call_lengths import nominal
from adcompiler.runtime.programs.program import Derivative, Program
from adcompiler.runtime.programs.snapshot import read_only, snapshot

# -- dispatch ----------------------------------------------------------------------------------------
# The generated `propagate`: all branches on None stand at its top, each calls a specialised program.


Propagated = Callable[..., tuple[Any, ...]]


def dispatch_source(
    name: str, cotangents: Sequence[str], wanted: Sequence[str], seen: Sequence[Pattern]
) -> str:
    """The source of `propagate(saved, *cotangents)`: Python, one branch for each pattern of None.

    With many cotangents only the patterns seen so far have a branch; the last line finds the others.
    """
    names = Names()
    saved, *params = (names.fresh(n) for n in ("saved", *cotangents))
    patterns = (
        seen if len(params) > MOST_COTANGENTS_BRANCHED else list(product((True, False), repeat=len(params)))
    )
    lines = [
        f"def propagate({', '.join((saved, *params))}):",
        f'    """Gradients of {", ".join(wanted)} in {name}; None stands for zero, in and out."""',
    ]
    asked = "1" * len(wanted)
    for pattern in patterns:
        tests = [f"{p} is {'not ' * here}None" for p, here in zip(params, pattern, strict=True)]
        given = ", ".join((saved, *(p for p, here in zip(params, pattern, strict=True) if here)))
        lines.append(f"    if {' and '.join(tests) or 'True'}:")
        lines.append(f'        return programs["{pattern_text(pattern)}|{asked}"]({given})')
    if len(params) > MOST_COTANGENTS_BRANCHED:
        lines.append(f"    return programs.for_others({', '.join((saved, *params))})")
    return "\n".join(lines) + "\n"


def dispatcher(source: str, programs: Mapping[str, Propagated]) -> Propagated:
    """The function that `dispatch_source` wrote; its names are mangled, none is a user's."""
    namespace: dict[str, Any] = {"programs": programs}
    exec(compile(source, "<generated propagate>", "exec"), namespace)
    made: Propagated = namespace["propagate"]
    return made


Save = str | tuple[str, ...]
PARTIALS, AUTO = "partials", "auto"


def checked_save(save: Any) -> Save:
    """The choice of saved values: "partials", "auto", or names; Error for anything else."""
    if isinstance(save, str) and save in (PARTIALS, AUTO):
        return save
    if isinstance(save, tuple | list) and all(isinstance(n, str) for n in save):
        return tuple(save)
    raise Error(
        f"save={save!r} is not a choice of values to save",
        remedy=f'use "{PARTIALS}", "{AUTO}" or a list of names of temporaries: save=["t"]',
    )


class SplitProgram:
    """The programs of one split: forward, and the propagates made so far, by pattern. `origin` is the split
    function and the types that it is made again from, where it is unpickled."""

    def __init__(
        self, parts: Split, forward: Program, structure: Any, gradients: Any = None, origin: Any = None
    ) -> None:
        self.parts, self.forward, self.structure = parts, forward, structure
        self.gradients, self.origin = gradients, origin
        self.made: Memo[tuple[Pattern, Pattern], Derivative] = Memo()
        self._dispatch: Memo[int, Propagated] = Memo(1)  # by how many patterns have been seen

    def __reduce__(self) -> tuple[Any, ...]:
        return SplitFunction.at, self.origin

    @staticmethod
    def again(derivative: Derivative, wanted: tuple[int, ...]) -> SplitProgram:
        """The programs of a propagate program, made once."""
        program = derivative.program

        def make() -> SplitProgram:
            parts = split(program.func, wanted)
            return SplitProgram(parts, Program(parts.forward, program.backend), program.structure)

        return program.derived(("split", wanted), make)

    def propagate(self, present: Pattern, asked: Pattern) -> Derivative:
        """The program for a pattern; made when it is first seen."""

        def make() -> Derivative:
            with compiling("propagate"):
                part = self.parts.propagate(present, asked)
                program = Program(run(SIMPLIFY, part.func), self.forward.backend)
            return Derivative(program, part.reads, part.known)

        return self.made.made((present, asked), make)

    @property
    def usual(self) -> Derivative:
        """The program with cotangents of all results, for all gradients."""
        return self.propagate(self.parts.usual, self.parts.all_asked)

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """The values (forward's inputs, then its results) that some propagate reads."""
        return self.parts.propagate(self.parts.differentiable, self.parts.all_asked).reads

    @cached_property
    def constants(self) -> tuple[int, ...]:
        """The inputs that some propagate reads and that have no gradient."""
        inputs = len(self.parts.forward.inputs)
        return tuple(k for k in self.reads if k < inputs and k not in self.parts.wanted)

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """What forward keeps: the values that are read or, where there are loops, all. For fewer cotangents
        a loop gives fewer stacks, so it is another one, which reads other values."""
        forward = self.parts.forward
        if any(isinstance(a, Item) for a in arrays_of(forward.results)):
            return tuple(range(len(forward.inputs) + len(forward.results)))
        return self.reads

    @property
    def saved_names(self) -> tuple[str, ...]:
        """The names of those values."""
        names = self.parts.value_names()
        return tuple(names[k] for k in self.reads)

    # -- the dispatch on None ------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The generated `propagate`, with a branch for each pattern of None."""
        forward = self.parts.forward
        cotangents = [
            f"d{n}" for n, d in zip(forward.result_names, self.parts.differentiable, strict=True) if d
        ]
        wanted = [forward.input_names[k] for k in self.parts.wanted]
        seen = [self._compact(present) for present, asked in self.made if asked == self.parts.all_asked]
        return dispatch_source(forward.name.removesuffix(".forward"), cotangents, wanted, seen)

    def __call__(self, saved: Saved, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        """Run the generated `propagate` on a cotangent (or None) for each result of forward."""
        run = self._dispatch.made(len(self.made), lambda: dispatcher(self.source, _Programs(self)))
        return run(saved, *(c for c, d in zip(cotangents, self.parts.differentiable, strict=True) if d))

    def _compact(self, present: Pattern) -> Pattern:
        """The pattern of the results that can carry a cotangent."""
        return tuple(p for p, d in zip(present, self.parts.differentiable, strict=True) if d)

    def full_pattern(self, compact: Pattern) -> Pattern:
        """The pattern of all results from that of those which can carry a cotangent."""
        remaining = iter(compact)
        return tuple(d and next(remaining) for d in self.parts.differentiable)


class _Programs(dict[str, Any]):
    """The specialised programs by pattern, as the generated dispatch calls them."""

    def __init__(self, program: SplitProgram) -> None:
        super().__init__()
        self.program = program

    def __missing__(self, key: str) -> Any:
        compact = tuple(c == "1" for c in key.split("|")[0])
        present = self.program.full_pattern(compact)

        def call(saved: Saved, *cotangents: Any) -> tuple[Any, ...]:
            made = self.program.propagate(present, self.program.parts.all_asked)
            args = [*(saved.values[k] for k in made.reads), *cotangents]
            return tuple(made.spread(made.program.bind(args, saved.plain, given=saved.sizes).run()))

        self[key] = call
        return call

    def for_others(self, saved: Saved, *cotangents: Any) -> tuple[Any, ...]:
        """A pattern that has no branch yet."""
        key = pattern_text(tuple(c is not None for c in cotangents))
        found: tuple[Any, ...] = self[key](saved, *(c for c in cotangents if c is not None))
        return found


class Saved(tuple[Any, ...]):
    """The values that propagate reads, with the program that saved them, the lengths of its sizes, and the
    shapes of forward's results. `wrapper` is for gradients of arrays of another library."""

    program: SplitProgram
    values: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    plain: bool
    wrapper: Wrapper | None = None
    offsets: Mapping[str, tuple[int, ...]] = {}  # of the rows of lists of arrays

    @classmethod
    def of(
        cls,
        program: SplitProgram,
        values: Sequence[Any],
        sizes: Sequence[int],
        plain: bool,
        shapes: tuple[tuple[int, ...], ...] | None = None,
        wrapper: Wrapper | None = None,
    ) -> Saved:
        """Keep, of forward's inputs and results, those that a propagate may read. `shapes` are those of the
        results, where these are not all among the values."""
        kept: list[Any] = [None] * len(values)
        for k in program.kept:
            kept[k] = values[k]
        saved = cls(read_only(kept[k]) for k in program.reads)
        saved.program, saved.sizes, saved.plain = program, tuple(sizes), plain
        saved.values = tuple(kept)
        if wrapper is not None:
            saved.wrapper = wrapper
        results = values[len(program.parts.forward.inputs) :]
        saved.shapes = tuple(map(np.shape, results)) if shapes is None else shapes
        return saved

    def __reduce__(self) -> tuple[Any, ...]:
        made = self.program, self.values, self.sizes, self.plain, self.shapes, self.wrapper
        return Saved.of, made, {"offsets": self.offsets}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the saved values."""
        return self.program.saved_names


def wrapped(wrapper: Wrapper | None, structure: Any, found: Sequence[Any]) -> Sequence[Any]:
    """The arrays of results, nested as `structure` says, as their caller wants them."""
    if wrapper is None or has_rows(structure):
        return found
    return [wrapper.result(k, a) for k, a in enumerate(found)]


def _is_array(value: Any) -> bool:
    """Whether a value is a list of nothing but numbers, which is an array."""
    return type(value) is list and opened(value, "the cotangent") is None


class SplitFunction:
    """The explicit programs of a function: `forward(*args) -> (results, saved)` and
    `propagate(saved, cotangents) -> tuple`, None where a gradient is known to be zero."""

    def __init__(self, f: Any, wrt: Any = None, save: Save = PARTIALS) -> None:
        self.f, self.wrt, self.save = f, wrt, save
        self.lengths: Memo[Types, tuple[int, ...]] = Memo()  # of the first call
        self._programs: Memo[Any, SplitProgram] = Memo()

    def __repr__(self) -> str:
        f = self.f
        by = self.wrt if isinstance(self.wrt, tuple | list) else f._names if self.wrt is None else (self.wrt,)
        names = ", ".join(f._names[k] if isinstance(k, int) else k for k in by)
        return (
            f"<SplitFunction split({f.__name__}): forward({', '.join(f._names)}) -> (results, saved), "
            f"propagate(saved, cotangents) -> gradients by {names}>"
        )

    def at(
        self, types: Types, wanted: tuple[int, ...] | None = None, values: Sequence[Any] | None = None
    ) -> SplitProgram:
        """The programs for arguments of these types; `wanted` are the inputs that have gradients, if not all
        those of the parameters in `wrt`. `values` are those of a call."""
        if self.save == AUTO and values is not None:
            self.lengths.made(types, lambda: tuple(self.f._program(types, values).sizes(values)))
        key = types, wanted, self.lengths.get(types) if self.save == AUTO else None

        def make() -> SplitProgram:
            with compiling("forward and propagate"):
                return self._split(types, wanted)

        return self._programs.made(key, make)

    def _choice(self, types: Types) -> Choice | None:
        """What is saved besides what the partials name."""
        if self.save == PARTIALS:
            return None
        if self.save != AUTO:
            return by_names(self.save)
        return by_cost(nominal(self.lengths.get(types)))

    def _split(self, types: Types, wanted: tuple[int, ...] | None) -> SplitProgram:
        positions, everything = self.f._wanted(self.wrt, types)
        if wanted == everything:
            return self.at(types)
        lowered = self.f._trace(types)
        gradients = tuple(places_of(types[k]) for k in positions)
        parts = split(lowered.func, everything if wanted is None else wanted, self._choice(types))
        forward = Program(parts.forward, self.f._backend, lowered.constraints)
        return SplitProgram(parts, forward, lowered.structure, gradients, (self, types, wanted))

    @public
    def forward(self, *args: Any, **keywords: Any) -> tuple[Any, Saved]:
        """The results, and what propagate needs: inputs that it reads and temporaries.

        What is saved is a copy of arguments and results: the caller may write to its arrays before propagate.
        """
        wrapper = wrapper_of(self.f, args, keywords)
        types, values, plain, _ = self.f._describe(args, keywords)
        program = self.at(types, values=values)
        self.f._seen(types)
        bound = program.forward.bind(values, plain)
        self.lengths.made(types, lambda: tuple(bound.sizes))
        found = bound.run()
        offsets = offsets_in(types, values)
        results = unflatten(
            with_offsets(program.structure, offsets),
            wrapped(wrapper, program.structure, found[: program.parts.count]),
        )
        everything, open_ = [*values, *found], len(values) + program.parts.count
        for k in program.kept:
            if k < open_:
                everything[k] = snapshot(everything[k])
        saved = Saved.of(program, everything, bound.sizes, plain, None, wrapper)
        saved.offsets = offsets
        return results, saved

    @public
    def propagate(self, saved: Saved, cotangents: Any) -> tuple[Any, ...]:
        """Gradients of the inputs in `wrt`, for cotangents nested like the results.

        The cotangents of saved temporaries may follow those of the results in a flat tuple. None
        means zero, both ways, and for what carries no derivative.
        """
        if not isinstance(saved, Saved):
            raise GraphError(
                "propagate needs what forward saved", remedy="pass the second value of forward(...)"
            )
        program = saved.program
        given = self._given(program, cotangents)
        wrapper = saved.wrapper
        if wrapper is not None:
            count = program.parts.count
            given = [g if g is None or k >= count else wrapper.cotangent(k, g) for k, g in enumerate(given)]
        checked = [self._checked(program, k, g, saved) for k, g in enumerate(given)]
        flat = program(saved, checked)
        if wrapper is not None:
            pairs = zip(program.parts.wanted, flat, strict=True)
            flat = tuple(g if g is None else wrapper.gradient(n, g) for n, g in pairs)
        found: tuple[Any, ...] = unflatten(with_offsets(program.gradients, saved.offsets), flat)
        return found

    def _given(self, program: SplitProgram, cotangents: Any) -> list[Any]:
        """One cotangent for each result of forward."""
        results = program.parts.forward.results
        count = len(results)
        if program.structure is None and results[0].rank and _is_array(cotangents):
            return [cotangents, *[None] * (count - 1)]
        if isinstance(cotangents, tuple | list) and len(cotangents) == count != program.parts.count:
            return list(cotangents)
        given = [None] if cotangents is None else self._nested(program, cotangents)
        return [*given, *[None] * (count - len(given))]

    def _nested(self, program: SplitProgram, cotangents: Any) -> list[Any]:
        one = isinstance(cotangents, tuple | list) and len(cotangents) == 1 and program.structure is None
        return flatten(program.structure, cotangents[0] if one else cotangents, "the cotangent")

    def _checked(self, program: SplitProgram, k: int, value: Any, saved: Saved) -> Any:
        """A cotangent as a kernel takes it; it must be shaped like its result."""
        result, name = program.parts.forward.results[k], program.parts.forward.result_names[k]
        if value is None or not program.parts.differentiable[k]:
            return None
        return as_cotangent(value, name, result.dtype, saved.shapes[k])
