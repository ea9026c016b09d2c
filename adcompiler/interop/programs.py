"""Flat programs whose derivatives and batches are flat programs again, of any order.

An engine of another library (PyTorch's autograd, JAX's tracers) asks four things of each operation: its
results, a pullback, a pushforward, and the same over one axis more. Here each of them is a `Program`: arrays
in, arrays out, with lengths given beside. So one operation of the engine serves every order and nesting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adcompiler.ad.jvp import jvp
from adcompiler.ad.split import Pattern, Split, by_cost, pattern_text, rebind, split
from adcompiler.ad.vjp import vjp
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Element, Func, Index, Input, Map, Node, Read, Reduce, Size, const
from adcompiler.ir.types import is_float
from adcompiler.ops.build import apply, cast
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.lengths import nominal
from adcompiler.runtime.specialise import MOST_DOORS, Specialisation
from adcompiler.runtime.vmap import over
from adcompiler.syntax.program import Lowered
from adcompiler.syntax.sizes import Resized, merged
from adcompiler.syntax.values import ArgType

SHORT = 4  # lengths that are constants of a program: coordinates of points, colours, quaternions
Lengths = tuple[tuple[int, int], ...]  # numbers of size symbols, and a length or another number
Own = tuple[bool, ...]  # for each leading axis of a gradient, whether its input has it as well
Place = tuple[int, Own]  # the number of the result that a gradient is


@dataclass(frozen=True)
class Derivative:
    """A pullback or pushforward: what it reads of the values (inputs, then results) of the program that it is
    of, behind which come cotangents or tangents; and which of its results are not known to be zero."""

    program: Program
    reads: tuple[int, ...]
    known: Pattern


class Program:
    """A program of arrays.

    The first `count` results are those that somebody wants, the others are kept for derivatives. `gradients`
    says which of these are gradients of the first result, by input; None for one known to be zero.
    """

    def __init__(
        self,
        func: Func,
        backend: str,
        count: int | None = None,
        gradients: dict[int, Place | None] | None = None,
        origin: Specialisation | None = None,
    ) -> None:
        self.func, self.backend = func, backend
        self.count = len(func.results) if count is None else count
        self.gradients = gradients or {}
        self.origin = origin  # which has the same program, and perhaps its kernel
        self.floats = tuple(is_float(i.dtype) for i in func.inputs)
        self.differentiable = tuple(is_float(r.dtype) for r in func.results)
        self.whole = [k for k, r in enumerate(func.results) if not is_float(r.dtype)]
        self.compiled = Specialisation(Lowered(func, (), (None,) * len(func.results)), backend)
        self.doors: dict[tuple[int, ...], Callable[..., Any]] = {}  # by the lengths
        self._made: dict[Any, Any] = {}

    def run(self, sizes: tuple[int, ...], values: Sequence[Any]) -> tuple[Any, ...]:
        """The results for lengths that fit: arrays or numbers. A door answers further calls at these."""
        door = self.doors.get(sizes) or self._door(sizes, values)
        found: tuple[Any, ...] = door(*values)
        return found

    def _door(self, sizes: tuple[int, ...], values: Sequence[Any]) -> Callable[..., Any]:
        if self.origin is not None:  # whose kernel is that of this program
            self.compiled.use(self.origin.executable)
            self.origin = None

        def general(*values: Any) -> tuple[Any, ...]:
            return tuple(self.compiled.run(sizes, values, plain=False))

        types = [ArgType(i.dtype, (False,) * i.rank) for i in self.func.inputs]
        door = self.compiled.door(sizes, tuple(types), values, True, general)
        if door is not general and len(self.doors) < MOST_DOORS:
            self.doors[sizes] = door
        return door

    # -- derivatives ------------------------------------------------------------------------------

    def saving(self, wanted: Pattern, sizes: Sequence[int] | None) -> Program:
        """The same results, and whatever makes the pullback to the inputs `wanted` cheap.

        That is the gradient itself where there is one number as the result: value and gradient are one fused
        program, which saves nothing else. Else it is what costs less to keep than to compute again, at these
        lengths, if they are known.
        """
        key = "saving", wanted
        if key not in self._made:
            self._made.setdefault(key, self._saving(_positions(wanted), sizes))
        found: Program = self._made[key]
        return found

    def _saving(self, wanted: Sequence[int], sizes: Sequence[int] | None) -> Program:
        func = self.func
        if self.count < len(func.results) or not any(self.differentiable):
            return self
        if len(func.results) > 1 or func.results[0].rank:
            made = split(func, wanted, by_cost(nominal(sizes)))
            return Program(made.forward, self.backend, made.count)
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
        return Program(run(SIMPLIFY, joint), self.backend, 1, places)

    def pulled(self, present: Pattern, asked: Pattern) -> Derivative:
        """The pullback for a pattern of cotangents of results that are there, to the inputs `asked`."""
        key = "pulled", present, asked
        if key not in self._made:
            self._made.setdefault(key, self._pulled(present, asked))
        found: Derivative = self._made[key]
        return found

    def _pulled(self, present: Pattern, asked: Pattern) -> Derivative:
        wanted = _positions(asked)
        if self.gradients and _positions(present) == (0,) and self.gradients.keys() >= set(wanted):
            return self._scaled(wanted, asked)
        # gradients are results like others; what is saved matters only where a branch that is taken reads it
        count = len(self.func.results) if self.gradients else self.count
        part = Split(self.func, count, wanted).propagate(present, (True,) * len(wanted))
        known = iter(part.known)
        made = Program(run(SIMPLIFY, part.func), self.backend)
        return Derivative(made, part.reads, tuple(a and next(known) for a in asked))

    def _scaled(self, wanted: Sequence[int], asked: Pattern) -> Derivative:
        """The pullback of a scalar's cotangent alone: its products with the gradients, which are there."""
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
        made, reads = rebind(made, numbers, [cotangent], (*func.input_names, *func.result_names))
        known = tuple(a and self.gradients[k] is not None for k, a in enumerate(asked))
        return Derivative(Program(made, self.backend), reads, known)

    def pushed(self, given: Pattern) -> Derivative:
        """The pushforward of tangents of the inputs `given` to all results; it reads all inputs."""
        key = "pushed", given
        if key not in self._made:
            self._made.setdefault(key, self._pushed(given))
        found: Derivative = self._made[key]
        return found

    def _pushed(self, given: Pattern) -> Derivative:
        func = self.func
        primals = [func.inputs[k] for k in _positions(given)]
        names = distinct((*func.input_names, *(f"d{func.input_names[i.position]}" for i in primals)))
        tangents = [Input(len(func.inputs) + p, i.dtype, i.shape) for p, i in enumerate(primals)]
        found = jvp(func.results, dict(zip(primals, tangents, strict=True)))
        known = tuple(d and t is not None for d, t in zip(self.differentiable, found, strict=True))
        pairs = zip(found, func.result_names, known, strict=True)
        live = [(t, f"d{name}") for t, name, here in pairs if here and t is not None]
        made = func.with_(
            name=f"{func.name}.tangent[{pattern_text(given)}]",
            inputs=(*func.inputs, *tangents),
            input_names=names,
            results=tuple(t for t, _ in live),
            result_names=distinct([name for _, name in live], names),
            checks=(),
        )
        reads = tuple(range(len(func.inputs)))
        return Derivative(Program(run(SIMPLIFY, made), self.backend), reads, known)

    # -- batches ----------------------------------------------------------------------------------

    def batched(self, mapped: Pattern) -> Program:
        """The program over one axis more, the first one of the inputs `mapped` and of every result; its
        length stands behind the others. Raises ShapeError for an integer in `mapped` that is a length."""
        key = "batched", mapped
        if key not in self._made:
            func = self.func
            axes = [0 if here else None for here in mapped]
            made = run(SIMPLIFY, over(func, axes, Size(len(func.size_names)), f"vmap({func.name})"))
            gradients = {k: g and (g[0], (mapped[k], *g[1])) for k, g in self.gradients.items()}
            self._made.setdefault(key, Program(made, self.backend, self.count, gradients))
        found: Program = self._made[key]
        return found


def known_lengths(found: Specialisation, sizes: Sequence[int]) -> tuple[Lengths, Lengths]:
    """What a program for these lengths alone may know: which are short, and which of those that are likely to
    be equal are. A library's operation is made for the lengths of a call anyway."""
    short = tuple((k, n) for k, n in enumerate(sizes) if 1 < n <= SHORT)
    return short, found.equal_lengths(sizes)


def for_lengths(func: Func, known: tuple[Lengths, Lengths]) -> Func:
    """A program for lengths of which so much is known; the others keep their numbers."""
    short, equal = known
    constants: dict[Size, Element] = {Size(k): const(n, "i64") for k, n in short}
    return run(SIMPLIFY, Resized(constants).func(merged(func, equal)))


def _positions(pattern: Pattern) -> tuple[int, ...]:
    return tuple(k for k, here in enumerate(pattern) if here)


def _product(cotangent: Array, gradient: Array, own: Own) -> Array:
    """A cotangent times a gradient, whose first axes are those of the cotangent; it is summed over those that
    are not the input's `own`."""
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
