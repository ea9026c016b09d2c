"""A program of arrays for one backend: run on arguments, differentiated, batched and cut, all by one class.

Each derivative and each batch of a program is a `Program` again, made once and remembered by it, so every
order and nesting comes from the same few transformations. The values of a program are its inputs, then its
results; derivatives refer to them by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from adcompiler.ad.jvp import jvp
from adcompiler.ad.programs.split import Pattern, Split, by_cost, pattern_text, rebind, split
from adcompiler.ad.vjp import vjp
from adcompiler.errors import LimitError
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.sizes import Constraint, with_inputs
from adcompiler.interpreter.reference import extent
from adcompiler.ir.batch import over
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Element, Func, Index, Input, Map, Node, Read, Reduce, Size, const
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.lazy import Memo, Sites, cached_property
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, cast
from adcompiler.passes.known_lengths import NOTHING, Known, for_lengths
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.progress import compiling
from adcompiler.pytree.kinds import ArgType, Types
from adcompiler.pytree.structures import unflatten
from adcompiler.runtime.arguments.ragged_arrays import with_rows
from adcompiler.runtime.limits import MOST_FAST_PATHS
from adcompiler.runtime.programs.backends import Executable, maker, optimised
from adcompiler.runtime.programs.call_lengths import CallLengths, nominal
from adcompiler.targets.buffers import Into
from adcompiler.targets.cpu.inline_cache import fast_path, fits

FLAT = object()  # the structure of results that do not nest
T = TypeVar("T")
Own = tuple[bool, ...]  # for each leading axis of a gradient, whether its input has it as well
Place = tuple[int, Own]  # the number of the result that a gradient is


@dataclass(frozen=True)
class Derivative:
    """A pullback or pushforward: the numbers of the original program's values (inputs, then results) that it
    reads, before cotangents or tangents; and which of its results are not known to be zero."""

    program: Program
    reads: tuple[int, ...]
    known: Pattern

    @property
    def func(self) -> Func:
        """The program's function."""
        return self.program.func

    def spread(self, found: Sequence[Any]) -> list[Any]:
        """The program's results, and None for each derivative that is known to be zero."""
        rest = iter(found)
        return [next(rest) if known else None for known in self.known]


@dataclass(frozen=True)
class Tangents:
    """The origin of a pushforward: the program, which of its inputs have a tangent, which results have one
    not known to be zero, and whether the program's results are among the pushforward's inputs."""

    of: Program
    given: Pattern
    known: Pattern
    held: bool

    @property
    def values(self) -> int:
        """The number of inputs before the tangents."""
        func = self.of.func
        return len(func.inputs) + self.held * len(func.results)

    def present(self, here: Pattern) -> Pattern:
        """A pattern of the pushforward's results as a pattern of the program's."""
        found = iter(here)
        return tuple(known and next(found) for known in self.known)


class Bound:
    """A program with arguments and lengths that fit: `run` gives its results in order, `result` as their
    caller sees them."""

    __slots__ = ("plain", "program", "sizes", "types", "values")

    def __init__(
        self, program: Program, values: Sequence[Any], plain: bool, types: Types, sizes: Sequence[int]
    ) -> None:
        self.program, self.values, self.plain, self.types, self.sizes = program, values, plain, types, sizes

    @property
    def structure(self) -> Any:
        """How the results nest; lists of arrays are as long as those among the arguments."""
        return with_rows(self.program.structure, self.types, self.values)

    def shape(self, k: int) -> tuple[int, ...]:
        """The shape of a result."""
        integers = self.program.lengths.values(self.values)
        return extent(self.program.func.results[k].shape, self.sizes, integers)

    def run(self, into: Into = None) -> list[Any]:
        """The results in order, written into buffers if there are any."""
        return self.program.run(self.sizes, self.values, self.plain, into)

    def result(self) -> Any:
        """The results, nested."""
        return unflatten(self.structure, self.run())

    def site(self) -> Callable[[Sequence[Any]], Any]:
        """What answers calls with inputs of the same types and lengths."""
        run, structure = self.program.runner(self.sizes, self.values, self.plain), self.structure
        return lambda inputs: unflatten(structure, run(*inputs))

    def fast_path(
        self, args: Sequence[Any], general: Callable[..., Any], types: Types | None = None
    ) -> Callable[..., Any]:
        """What answers calls like that with `args`: a function that does so at once, or `general`, where
        arguments must be converted or looked into. `types` are those of `args`, if they are others than those
        of the inputs' arguments."""
        program, kinds = self.program, self.types if types is None else types
        if not (program.has_fast_paths and all(map(fits, kinds, args))):
            return general

        def make() -> Callable[..., Any]:
            structure, plain = program.structure, self.plain
            made = fast_path(program.executable, self.sizes, kinds, args, structure, plain, general)
            return made or general

        key = (general, *self.sizes, *map(type, args))  # pairs and numbers go other general ways
        known = program.fast_paths
        return known.get(key) or known.of_repeated(key, make) or general


class Program:
    """A program, its executable (compiled when first called), and the programs derived from it.

    constraints  what must hold of the lengths of a call
    structure    the nesting of results; flat unless it is given
    count        the first results, which the caller wants; the others are saved for derivatives
    gradients    which results are gradients of the first one, by input; None for one known to be zero
    pushes       what a pushforward belongs to
    alone        whether each derivative repeats the checks of indices: engines that eliminate dead code may
                 drop the program and keep its pullback
    """

    def __init__(
        self,
        func: Func,
        backend: str,
        constraints: Sequence[Constraint] = (),
        structure: Any = FLAT,
        count: int | None = None,
        gradients: dict[int, Place | None] | None = None,
        pushes: Tangents | None = None,
        alone: bool = False,
    ) -> None:
        self.func, self.backend, self.pushes, self.alone = func, backend, pushes, alone
        self.constraints = constraints
        self.structure = (None,) * len(func.results) if structure is FLAT else structure
        self.count = len(func.results) if count is None else count
        self.gradients = gradients or {}
        self.lengths = CallLengths(func, constraints)
        self.sizes = self.lengths.sizes
        self.scalars = [(k, NUMPY[r.dtype].type) for k, r in enumerate(func.results) if not r.rank]
        self.has_fast_paths = not (func.counts or any(isinstance(r, Input) for r in func.results))
        # Functions by lengths: the fast paths of calls (also by the general way, and classes), what runs the
        # program, and what an engine has compiled.
        self.fast_paths: Sites[tuple[Any, ...], Callable[..., Any]] = Sites(MOST_FAST_PATHS)
        self.runners: Sites[tuple[int, ...], Callable[..., Any]] = Sites(MOST_FAST_PATHS)
        self.staged: Memo[tuple[int, ...], Callable[..., Any]] = Memo(MOST_FAST_PATHS)
        self._made: Memo[Any, Any] = Memo()

    @staticmethod
    def of(lowered: Lowered, backend: str) -> Program:
        """The program of a function for arguments of some types."""
        return Program(lowered.func, backend, lowered.constraints, lowered.structure)

    def __repr__(self) -> str:
        return self.func.name

    def derived(self, key: Any, make: Callable[[], T]) -> T:
        """What is derived from the program, made once for each key."""

        def made() -> T:
            with compiling(self.func.name):
                return make()

        found: T = self._made.made(key, made)
        return found

    def _program(self, func: Func, **about: Any) -> Program:
        """A flat program that is derived from this one."""
        return Program(func, self.backend, alone=self.alone, **about)

    def extended(self, func: Func, structure: Any = FLAT) -> Program:
        """A program that takes more inputs behind those of this one, whose lengths must fit as well."""
        return Program(func, self.backend, with_inputs(self.constraints, self.func, func), structure)

    # -- what it is ----------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values."""
        return (*self.func.input_names, *self.func.result_names)

    @cached_property
    def on_host(self) -> bool:
        """Whether its arrays are in the memory of the host."""
        return not self.backend.startswith("cuda")

    @cached_property
    def dtypes(self) -> list[np.dtype]:
        """The dtypes of the results."""
        return [NUMPY[r.dtype] for r in self.func.results]

    @cached_property
    def floats(self) -> Pattern:
        """The inputs that can have a tangent."""
        return tuple(is_float(i.dtype) for i in self.func.inputs)

    @cached_property
    def differentiable(self) -> Pattern:
        """The results that can have a cotangent."""
        return tuple(is_float(r.dtype) for r in self.func.results)

    @cached_property
    def whole(self) -> list[int]:
        """The numbers of the results that cannot."""
        return [k for k, d in enumerate(self.differentiable) if not d]

    # -- calls ---------------------------------------------------------------------------------

    @cached_property
    def executable(self) -> Executable:
        """The program compiled for its backend, with one for each of those that lengths choose."""
        make = maker(self.backend)
        with compiling(self.func.name):
            if self.backend == "numpy":
                return make(optimised(self.func))
            return make(self.func, known=self.lengths.known, optimised=optimised)

    def use(self, executable: Executable) -> None:
        """Run an executable made elsewhere."""
        vars(self)["executable"] = executable

    def bind(
        self,
        values: Sequence[Any],
        plain: bool = False,
        types: Types = (),
        given: Sequence[int] | None = None,
    ) -> Bound:
        """The program on these arguments; `plain` makes results of rank 0 Python numbers. `types` are those
        of the arguments where some nest, and `given` lengths that the arguments do not tell.

        Raises ShapeError that names the operands whose lengths do not fit.
        """
        return Bound(self, values, plain, types, self.sizes(values, given))

    def run(self, sizes: Sequence[int], args: Sequence[Any], plain: bool, into: Into = None) -> list[Any]:
        """The results, flat, for lengths that fit."""
        try:
            found = self.executable(sizes, args, into)
        except MemoryError as error:
            raise LimitError(
                f"{self.func.name} needs more memory than available", remedy=self.lengths.shapes(args)
            ) from error
        for k, kind in self.scalars:
            value = found[k]
            if not plain or kind is np.float32:
                found[k] = kind(value)
            elif type(value) is not float and hasattr(value, "item"):
                found[k] = value.item()
        return found

    def runner(
        self, sizes: Sequence[int], values: Sequence[Any], plain: bool = False
    ) -> Callable[..., Sequence[Any]]:
        """What runs the program on values like these, and gives its results flat: by a fast path if there is
        one."""

        def general(*values: Any) -> Sequence[Any]:
            return self.run(sizes, values, plain)

        types = [ArgType(i.dtype) for i in self.func.inputs]
        if not (self.has_fast_paths and all(map(fits, types, values))):
            return general
        flat = (None,) * len(self.func.results)
        return fast_path(self.executable, sizes, types, values, flat, plain, general) or general

    def at(self, sizes: tuple[int, ...], values: Sequence[Any]) -> Sequence[Any]:
        """The results for lengths that fit, as arrays or numbers; later calls at these lengths take a fast
        path."""
        runner = self.runners.get(sizes)
        if runner is None:
            runner = self.runners.of_repeated(sizes, lambda: self.runner(sizes, values, plain=True))
        return self.run(sizes, values, True) if runner is None else runner(*values)

    def for_lengths(self, known: Known, alone: bool = False) -> Program:
        """The program for what is known of the lengths of a call."""
        if known == NOTHING and not alone:
            return self
        make = lambda: Program(for_lengths(self.func, known), self.backend, alone=alone)  # noqa: E731
        return self.derived(("lengths", known, alone), make)

    # -- derivatives ------------------------------------------------------------------------------

    def saving(self, wanted: Pattern, sizes: Sequence[int] | None) -> Program:
        """A program with the same results, and the values that make the pullback to the inputs `wanted`
        cheap.

        If the result is one number, this is the gradient itself: value and gradient are one fused program.
        Else it is every value that is cheaper to save than to recompute, at these lengths if they are known.
        """
        return self.derived(("saving", wanted), lambda: self._saving(_positions(wanted), sizes))

    def _saving(self, wanted: Sequence[int], sizes: Sequence[int] | None) -> Program:
        func = self.func
        if self.count < len(func.results) or not any(self.differentiable):
            return self
        if len(func.results) > 1 or func.results[0].rank:
            made = split(func, wanted, by_cost(nominal(sizes)))
            return self._program(made.forward, count=made.count)
        found = vjp(
            func.results, [Map((), const(1, func.results[0].dtype))], [func.inputs[k] for k in wanted]
        )
        grads = {k: g for k, g in zip(wanted, found, strict=True) if g is not None}
        names = distinct([f"d{func.input_names[k]}" for k in grads], (*func.input_names, *func.result_names))
        joint = func.with_(
            results=(*func.results, *grads.values()), result_names=(*func.result_names, *names)
        )
        places: dict[int, Place | None] = {k: (1 + n, ()) for n, k in enumerate(grads)}
        places |= dict.fromkeys(set(wanted) - grads.keys())
        return self._program(run(SIMPLIFY, joint), count=1, gradients=places)

    def pulled(self, present: Pattern, asked: Pattern, held: bool = True) -> Derivative:
        """The pullback for a pattern of present cotangents, to the inputs `asked`. It reads results of the
        program only if they are `held`."""
        return self.derived(("pulled", present, asked, held), lambda: self._pulled(present, asked, held))

    def _pulled(self, present: Pattern, asked: Pattern, held: bool) -> Derivative:
        wanted = _positions(asked)
        if held and self.scales(present, asked):
            return self._scaled(wanted, asked)
        # Gradients are results like others; saved values matter only where a taken branch reads them.
        count = len(self.func.results) if self.gradients else self.count
        part = Split(self.func, count, wanted).propagate(present, (True,) * len(wanted), held, self.alone)
        known = iter(part.known)
        made = self._program(run(SIMPLIFY, part.func))
        return Derivative(made, part.reads, tuple(a and next(known) for a in asked))

    def scales(self, present: Pattern, asked: Pattern) -> bool:
        """Whether a pullback is a product with gradients that the program has computed."""
        return (
            bool(self.gradients)
            and _positions(present) == (0,)
            and self.gradients.keys() >= {*_positions(asked)}
        )

    def _scaled(self, wanted: Sequence[int], asked: Pattern) -> Derivative:
        """The pullback of a scalar's cotangent alone: its products with the computed gradients."""
        func, first = self.func, len(self.func.inputs)
        value = func.results[0]
        cotangent = Input(-1, value.dtype, value.shape)
        found = [place for k in wanted if (place := self.gradients[k]) is not None]
        numbers: dict[Array, int] = {func.results[n]: first + n for n, _ in found}
        results = tuple(_product(cotangent, func.results[n], own) for n, own in found)
        labels: dict[Node, str] = {cotangent: f"d{func.result_names[0]}"}
        made = Func(
            name=f"{func.name}.propagate[{pattern_text((True,))}|{pattern_text(asked)}]",
            inputs=(),
            input_names=(),
            results=results,
            result_names=tuple(f"d{func.input_names[k]}" for k in wanted if self.gradients[k]),
            size_names=func.size_names,
            names=labels,
        )
        made, reads = rebind(made, numbers, [cotangent], self.names)
        known = tuple(a and self.gradients[k] is not None for k, a in enumerate(asked))
        return Derivative(self._program(made), reads, known)

    def pushed(self, given: Pattern, held: bool = False) -> Derivative:
        """The pushforward of tangents of the inputs `given` to all results.

        It takes all inputs, and the results if they are `held`, for its transpose to read.
        """
        return self.derived(("pushed", given, held), lambda: self._pushed(given, held))

    def _pushed(self, given: Pattern, held: bool) -> Derivative:
        func = self.func
        wanted = _positions(given)
        values: list[Input] = [*func.inputs, *(_like(r, -1 - k) for k, r in enumerate(func.results) if held)]
        tangents = [_like(func.inputs[k], -1 - len(values) - k) for k in wanted]
        found = jvp(func.results, {func.inputs[k]: t for k, t in zip(wanted, tangents, strict=True)})
        known = tuple(d and t is not None for d, t in zip(self.differentiable, found, strict=True))
        live = [(t, n) for t, n, here in zip(found, func.result_names, known, strict=True) if here]
        labels = [*self.names[: len(values)], *(f"d{func.input_names[k]}" for k in wanted)]
        made = func.with_(
            name=f"{func.name}.tangent[{pattern_text(given)}]",
            results=tuple(t for t, _ in live if t is not None),
            result_names=tuple(f"d{name}" for _, name in live),
            checks=func.checks if self.alone else (),
            names=dict(zip((*values, *tangents), labels, strict=True)),
        )
        made, _ = rebind(made, {}, (*values, *tangents), ())
        program = self._program(run(SIMPLIFY, made), pushes=Tangents(self, given, known, held))
        return Derivative(program, tuple(range(len(values))), known)

    def transposed(self, present: Pattern, asked: Pattern) -> Derivative:
        """The transpose, for a pattern of cotangents, of a program that is linear in the inputs `asked`. It
        reads other inputs only. The transpose of a pushforward is reverse mode itself."""
        pushes = self.pushes
        if pushes is None or True in asked[: pushes.values]:
            return self.pulled(present, asked, held=False)
        tangents = iter(asked[pushes.values :])
        wanted = tuple(here and next(tangents) for here in pushes.given)
        pulled = pushes.of.pulled(pushes.present(present), wanted, pushes.held)
        known = (k for k, here in zip(pulled.known, pushes.given, strict=True) if here)
        return Derivative(pulled.program, pulled.reads, (*[False] * pushes.values, *known))

    # -- parts ------------------------------------------------------------------------------------

    def restricted(self, used: Pattern) -> Derivative:
        """The program of the results `used`, and of the inputs that these and the checks read. A pushforward
        keeps all inputs, since its transpose may read them."""
        return self.derived(("restricted", used), lambda: self._restricted(used))

    def _restricted(self, used: Pattern) -> Derivative:
        func, pushes = self.func, self.pushes
        part = func.with_(
            results=tuple(r for r, here in zip(func.results, used, strict=True) if here),
            result_names=tuple(n for n, here in zip(func.result_names, used, strict=True) if here),
            counts=(),
        )
        if pushes is not None:
            kept = replace(pushes, known=pushes.present(used))
            every = tuple(range(len(func.inputs)))
            return Derivative(self._program(part, pushes=kept), every, used)
        part, reads = rebind(part, {i: k for k, i in enumerate(func.inputs)}, (), func.input_names)
        return Derivative(self._program(part), reads, used)

    # -- batches ----------------------------------------------------------------------------------

    def batched(self, mapped: Pattern) -> Program:
        """The program over one more axis, the first one of the inputs `mapped` and of every result; its
        length comes after the others. Raises ShapeError for an integer in `mapped` that is a length."""
        return self.derived(("batched", mapped), lambda: self._batched(mapped))

    def _batched(self, mapped: Pattern) -> Program:
        func = self.func
        axes = [0 if here else None for here in mapped]
        made = run(SIMPLIFY, over(func, axes, Size(len(func.size_names)), f"vmap({func.name})"))
        gradients = {k: g and (g[0], (mapped[k], *g[1])) for k, g in self.gradients.items()}
        return self._program(made, count=self.count, gradients=gradients)


def _like(array: Array, number: int) -> Input:
    """A placeholder with the type and shape of an array."""
    return Input(number, array.dtype, array.shape)


def _positions(pattern: Pattern) -> tuple[int, ...]:
    return tuple(k for k, here in enumerate(pattern) if here)


def _product(cotangent: Array, gradient: Array, own: Own) -> Array:
    """A cotangent times a gradient, which has the cotangent's axes first, summed over those that the input
    does not have (`own`)."""
    leading, rest = gradient.shape[: len(own)], gradient.shape[len(own) :]
    kept = tuple(n for n, mine in zip(leading, own, strict=True) if mine)
    summed = tuple(n for n, mine in zip(leading, own, strict=True) if not mine)
    shape = (*kept, *rest)
    numbers, others = iter(range(len(kept))), iter(range(len(shape), len(shape) + len(summed)))
    places: list[Element] = [Index(next(numbers if mine else others)) for mine in own]
    behind = [Index(len(kept) + k) for k in range(len(rest))]
    product = apply("multiply", Read(cotangent, tuple(places)), Read(gradient, (*places, *behind)))
    body = cast(product, gradient.dtype)
    return Reduce("sum", shape, summed, body) if summed else Map(shape, body)
