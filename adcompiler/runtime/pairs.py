"""SlangPy's styles of differentiation: `f.call`, `f.forward` and `f.backward` with pairs of a value and its
derivative. They are jvp and vjp, with the derivatives kept beside the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from adcompiler.ad.contributions import contributions, shared_axes
from adcompiler.ad.jvp import value_and_tangent
from adcompiler.codegen.buffers import POOL
from adcompiler.errors import DtypeError, Error, GraphError, ShapeError
from adcompiler.ir.types import NUMPY
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.graph import Node, is_variable
from adcompiler.runtime.masked import refuse_masked
from adcompiler.runtime.signature import ArgumentError, Parameter, bind
from adcompiler.runtime.snapshot import snapshot
from adcompiler.runtime.specialise import Specialisation, Traceable, Types
from adcompiler.runtime.splitting import SplitFunction
from adcompiler.runtime.tangents import flat
from adcompiler.syntax.containers import Container, mapped, opened
from adcompiler.syntax.program import Lowered
from adcompiler.syntax.structures import unflatten

ACCUMULATORS = ("sum", "push", "first")


class DiffPair:
    """A value `p` and its derivative `d`: a tangent for `forward`, what `backward` has gathered after it.

    d            shaped (and nested) like p; None stands for zero
    accumulator  how `backward` gathers what the entries of the result contribute, where they share p by
                 broadcasting: "sum" adds all to d, "push" appends each to the list d, "first" keeps in d the
                 first there ever was

    A pair is what needs a gradient: `backward` gives none to other arguments, unless there is no pair.
    """

    __slots__ = ("_accumulator", "d", "p")

    def __init__(self, p: Any, d: Any = None, accumulator: str = "sum") -> None:
        if isinstance(p, DiffPair):
            raise DtypeError(
                "a pair of a pair", remedy="for higher orders take adc.grad(f).forward(...), or adc.hvp"
            )
        self.p, self.d, self.accumulator = p, d, accumulator

    @property
    def accumulator(self) -> str:
        """How `backward` gathers: "sum", "push" or "first"."""
        return self._accumulator

    @accumulator.setter
    def accumulator(self, name: str) -> None:
        if name not in ACCUMULATORS:
            raise Error(f"unknown accumulator {name!r}", remedy=f"use one of {', '.join(ACCUMULATORS)}")
        self._accumulator = name

    def __repr__(self) -> str:
        return f"DiffPair({self.p!r}, {self.d!r})"

    def gather(self, found: Any) -> None:
        """Add to `d` what one `backward` found: a gradient, or a list of contributions."""
        found = mapped(snapshot, found)  # the caller gets what is gathered as well
        if self.accumulator == "push":
            self.d = [*(self.d if self.d is not None else ()), *found]
        elif self.accumulator == "first":
            self.d = found if self.d is None else self.d
        else:
            self.d = _added(self.d, found)


def _added(one: Any, other: Any) -> Any:
    """The sum of two gradients of one structure; None is zero."""
    if one is None or other is None:
        return other if one is None else one
    container = opened(other, "a gradient")
    if container is None:
        if np.shape(one) != np.shape(other):
            raise ShapeError(
                f"the pair's d has shape {np.shape(one)}, its gradient {np.shape(other)}",
                remedy="assign d = None to begin a new sum",
            )
        return _sum(one, other)
    before = opened(one, "a gradient")
    if before is None or before.keys != container.keys:
        raise ShapeError("the pair's d is not nested like its p", remedy="assign d = None to begin a new sum")
    return container.build([_added(a, b) for a, b in zip(before.parts, container.parts, strict=True)])


def _sum(one: Any, other: Any) -> Any:
    """The sum of two arrays, in memory that is used again: fresh memory costs more than the addition."""
    kinds = {type(one), type(other)}
    if kinds != {np.ndarray} or one.dtype != other.dtype:
        return one + other
    return np.add(one, other, out=POOL.empty(one.shape, one.dtype))


class Differentiable(Traceable, Protocol):
    """What is called in these styles."""

    __name__: str
    parameters: tuple[Parameter, ...]

    def split(self, wrt: Any = None) -> SplitFunction: ...


class Styles:
    """`forward` and `backward` of one function, with the programs made for them."""

    def __init__(self, f: Differentiable) -> None:
        self.f = f
        self._made: dict[Any, Specialisation] = {}

    def forward(self, bound: Sequence[Any]) -> Any:
        """A pair of value and tangent for each result, for pairs among the arguments."""
        f = self.f
        types, values, plain = f.describe([value_of(a) for a in bound], {})
        wanted: list[int] = []
        tangents: list[Any] = []
        for k, (arg, parameter) in enumerate(zip(bound, f.parameters, strict=True)):
            if isinstance(arg, DiffPair) and arg.d is not None:
                inputs = f.inputs_of(f.positions((k,), types), types)
                found = flat(arg.d, [values[n] for n in inputs], types[k], parameter.name)
                wanted += [n for n, d in zip(inputs, found, strict=True) if d is not None]
                tangents += [d for d in found if d is not None]
        key = (types, tuple(wanted))
        if key not in self._made:
            lowered = f.trace(types)
            func = run(SIMPLIFY, value_and_tangent(lowered.func, wanted))
            both = (lowered.structure, lowered.structure)
            self._made.setdefault(key, Specialisation(Lowered(func, lowered.constraints, both), f.backend))
        compiled = self._made[key]
        value, tangent = unflatten(compiled.lowered.structure, compiled([*values, *tangents], plain))
        return _paired(compiled.lowered.structure[0], value, tangent)

    def backward(self, bound: Sequence[Any], cotangent: Any) -> tuple[Any, ...]:
        """What each argument that needs a gradient gathered in this call; None for the others."""
        f = self.f
        values = [value_of(a) for a in bound]
        types, _, _ = f.describe(values, {})
        needed = [k for k, a in enumerate(bound) if _needs_gradient(a)]
        needed = list(f.positions(tuple(needed) if needed else None, types))
        apart = [k for k in needed if isinstance(bound[k], DiffPair) and bound[k].accumulator != "sum"]
        summed = tuple(k for k in needed if k not in apart)
        found: dict[int, Any] = {k: self._contributions(k, bound[k], values, cotangent) for k in apart}
        if summed:
            split = f.split(summed)
            _, saved = split.lent(*values)
            found |= zip(summed, split.propagate(saved, cotangent), strict=True)
        for k, gradient in found.items():
            if gradient is not None:
                _gather(bound[k], gradient)
        return tuple(found.get(k) for k in range(len(bound)))

    def _contributions(self, k: int, pair: DiffPair, values: Sequence[Any], cotangent: Any) -> Any:
        """The contributions of the result's entries to the gradient of a pair: a list, or the first one."""
        types, given, plain = self.f.describe(values, {})
        if cotangent is None:
            return None
        name = self.f.parameters[k].name
        if isinstance(types[k], Container):
            raise DtypeError(f'accumulator="{pair.accumulator}": {name} is a container', remedy='use "sum"')
        key = (types, k)
        if key not in self._made:
            self._made.setdefault(key, self._apart(k, types))
        compiled = self._made[key]
        result = compiled.func.inputs[-1]
        refuse_masked("the cotangent", cotangent)
        seed = np.asarray(cotangent)
        if seed.dtype.kind not in "biuf" or seed.ndim != result.rank:
            raise ShapeError(
                f"the cotangent is {seed.dtype} of shape {seed.shape}, the result has rank {result.rank}",
                remedy="a cotangent has its result's shape and is real",
            )
        seed = seed.astype(NUMPY[result.dtype])
        found = np.asarray(compiled([*given, seed if seed.ndim else seed[()]], plain)[0])
        shape = np.shape(given[self.f.inputs_of((k,), types)[0]])
        count = int(np.prod(found.shape[: found.ndim - len(shape)]))
        each = list(found.reshape(count, *shape))
        each = [float(c) for c in each] if plain else each
        return each if pair.accumulator == "push" else each[0] if each else None

    def _apart(self, k: int, types: Types) -> Specialisation:
        """The program of the contributions to the gradient of parameter `k`."""
        f, lowered = self.f, self.f.trace(types)
        name, func = f.parameters[k].name, lowered.func
        if len(func.results) != 1:
            raise ShapeError(
                f'{f.__name__} has {len(func.results)} results: "push" and "first" need one',
                remedy='use the accumulator "sum"',
            )
        (number,) = f.inputs_of((k,), types)
        axes = shared_axes(func.inputs[number].shape, func.results[0].shape)
        if axes is None:
            raise ShapeError(
                f'{name} is not broadcast to the result of {f.__name__}: "push" and "first" gather what '
                "each entry of the result contributes",
                remedy='use the accumulator "sum"',
            )
        made = run(SIMPLIFY, contributions(func, number, axes))
        return Specialisation(Lowered(made, lowered.constraints, None), f.backend)


def value_of(arg: Any) -> Any:
    """The value of an argument that may be a pair or a Variable."""
    if isinstance(arg, DiffPair):
        return arg.p
    return np.array(arg.data, order="C") if is_variable(arg) else arg


def _needs_gradient(arg: Any) -> bool:
    """Whether an argument asks for a gradient: a pair, or a leaf that requires one."""
    if is_variable(arg) and arg.requires_grad and not arg.is_leaf:
        raise GraphError(
            f"{arg.name} was computed: f.backward() leaves gradients in leaves only",
            remedy="call f on it, and backward() of the result",
        )
    return isinstance(arg, DiffPair) or (is_variable(arg) and arg.requires_grad)


def _gather(arg: Any, gradient: Any) -> None:
    """Leave a gradient with the argument that needs it."""
    if isinstance(arg, DiffPair):
        arg.gather(gradient)
    elif is_variable(arg) and arg.requires_grad:
        arg._accumulate(Node.kind(gradient), False)


def _paired(structure: Any, value: Any, tangent: Any) -> Any:
    """A pair, or a tuple of them for several results."""
    if not isinstance(structure, tuple):
        return DiffPair(value, tangent)
    triples = zip(structure, value, tangent, strict=True)
    return tuple(_paired(part, v, t) for part, v, t in triples)


def split_cotangent(
    name: str, parameters: Sequence[Parameter], args: Sequence[Any]
) -> tuple[tuple[Any, ...], Any]:
    """The arguments of `backward`, in order, and the cotangent behind them."""
    if len(args) != len(parameters) + 1:
        listed = ", ".join([*(p.name for p in parameters), "dresult"])
        raise ArgumentError(f"{name}.backward is given {len(args)} arguments", remedy=f"it takes ({listed})")
    return bind(name, parameters, args[:-1], {}), args[-1]
