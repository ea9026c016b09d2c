"""Flat programs whose derivatives and batches are flat programs again, of any order.

An engine of another library (PyTorch's autograd, JAX's tracers) needs four things of each operation: its
results, a pullback, a pushforward, and a batched form. Here each of them is a `Program`: arrays in, arrays
out, with lengths passed separately. One operation of the engine therefore serves every order and nesting. The
values of a program are its inputs, then its results; derivatives refer to them by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

from adcompiler.ad.jvp import jvp
from adcompiler.ad.programs.split import Pattern, Split, by_cost, pattern_text, rebind, split
from adcompiler.ad.vjp import vjp
from adcompiler.api.vmap import over
from adcompiler.fork import Locked
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Element, Func, Index, Input, Map, Node, Read, Reduce, Size, const
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.ops.build import apply, cast
from adcompiler.passes.known_lengths import Known, short
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.progress import compiling
from adcompiler.pytree.kinds import ArgType
from adcompiler.runtime.programs.lengths import nominal
from adcompiler.runtime.programs.specialise import MOST_FAST_PATHS, Executable, Specialisation

Own = tuple[bool, ...]  # for each leading axis of a gradient, whether its input has it as well
Place = tuple[int, Own]  # the number of the result that a gradient is


@dataclass(frozen=True)
class Derivative:
    """A pullback or pushforward: the numbers of the original program's values (inputs, then results) that it
    reads, before cotangents or tangents; and which of its results are not known to be zero."""

    program: Program
    reads: tuple[int, ...]
    known: Pattern


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


class Program:
    """A program of arrays.

    The caller wants the first `count` results; the others are saved for derivatives. `gradients` says which
    of these are gradients of the first result, by input; None for one known to be zero. `pushes` describes a
    pushforward. If `alone`, each derivative repeats the checks of indices: engines that eliminate dead code
    may drop the program and keep its pullback.
    """

    def __init__(
        self,
        func: Func,
        backend: str,
        count: int | None = None,
        gradients: dict[int, Place | None] | None = None,
        origin: Specialisation | None = None,
        pushes: Tangents | None = None,
        alone: bool = False,
    ) -> None:
        self.func, self.backend, self.pushes, self.alone = func, backend, pushes, alone
        self.count = len(func.results) if count is None else count
        self.gradients = gradients or {}
        self.origin = origin  # the same program, perhaps compiled
        self.on_host = not backend.startswith("cuda")
        self.dtypes = [NUMPY[r.dtype] for r in func.results]
        self.floats = tuple(is_float(i.dtype) for i in func.inputs)
        self.differentiable = tuple(is_float(r.dtype) for r in func.results)
        self.whole = [k for k, r in enumerate(func.results) if not is_float(r.dtype)]
        self.compiled = Specialisation(Lowered(func, (), (None,) * len(func.results)), backend)
        self.fast_paths: dict[tuple[int, ...], Callable[..., Any]] = {}  # by the lengths
        self.staged: dict[tuple[int, ...], Callable[..., Any]] = {}  # compiled by an engine, likewise
        self._made: dict[Any, Any] = {}
        self._making = Locked(RLock)

    def __repr__(self) -> str:
        return self.func.name

    def _derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """The object cached under a key; made once."""
        found = self._made.get(key)
        if found is None:
            with self._making.lock, compiling(self.func.name):
                found = self._made.get(key) or self._made.setdefault(key, make())
        return found

    def _program(self, func: Func, **about: Any) -> Program:
        """A program that is derived from this one."""
        return Program(func, self.backend, alone=self.alone, **about)

    @property
    def executable(self) -> Executable:
        """The program compiled for its backend."""
        if self.origin is not None:  # it shares the kernel
            self.compiled.use(self.origin.executable)
            self.origin = None
        return self.compiled.executable

    def run(self, sizes: tuple[int, ...], values: Sequence[Any]) -> tuple[Any, ...]:
        """The results for lengths that fit: arrays or numbers. Later calls at these lengths take a fast
        path."""
        fast_path = self.fast_paths.get(sizes) or self._fast_path(sizes, values)
        found: tuple[Any, ...] = fast_path(*values)
        return found

    def _fast_path(self, sizes: tuple[int, ...], values: Sequence[Any]) -> Callable[..., Any]:
        _ = self.executable

        def general(*values: Any) -> tuple[Any, ...]:
            return tuple(self.compiled.run(sizes, values, plain=False))

        types = [ArgType(i.dtype, (False,) * i.rank) for i in self.func.inputs]
        fast_path = self.compiled.fast_path(sizes, tuple(types), values, True, general)
        if fast_path is not general and len(self.fast_paths) < MOST_FAST_PATHS:
            self.fast_paths[sizes] = fast_path
        return fast_path

    # -- derivatives ------------------------------------------------------------------------------

    def saving(self, wanted: Pattern, sizes: Sequence[int] | None) -> Program:
        """A program with the same results, and the values that make the pullback to the inputs `wanted`
        cheap.

        If the result is one number, this is the gradient itself: value and gradient are one fused program.
        Else it is every value that is cheaper to save than to recompute, at these lengths if they are known.
        """
        found: Program = self._derived(("saving", wanted), lambda: self._saving(_positions(wanted), sizes))
        return found

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
        found: Derivative = self._derived(
            ("pulled", present, asked, held), lambda: self._pulled(present, asked, held)
        )
        return found

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
        found: Derivative = self._derived(("pushed", given, held), lambda: self._pushed(given, held))
        return found

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
        found: Derivative = self._derived(("restricted", used), lambda: self._restricted(used))
        return found

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
        found: Program = self._derived(("batched", mapped), lambda: self._batched(mapped))
        return found

    def _batched(self, mapped: Pattern) -> Program:
        func = self.func
        axes = [0 if here else None for here in mapped]
        made = run(SIMPLIFY, over(func, axes, Size(len(func.size_names)), f"vmap({func.name})"))
        gradients = {k: g and (g[0], (mapped[k], *g[1])) for k, g in self.gradients.items()}
        return self._program(made, count=self.count, gradients=gradients)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values."""
        return (*self.func.input_names, *self.func.result_names)


def known_lengths(found: Specialisation, sizes: Sequence[int]) -> Known:
    """What a program for these lengths alone may assume. A library makes its operation for the lengths of a
    call anyway."""
    return Known(short(sizes), found.equal_lengths(sizes))


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
