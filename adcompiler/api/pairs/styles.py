"""SlangPy's call styles; here `f.forward`: jvp with derivatives in pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from adcompiler.ad.programs.duals import Coefficient, completed, on_duals
from adcompiler.api.limits import MOST_NESTED_PAIRS
from adcompiler.api.pairs.pairs import DiffPair, bare, depth, nested, primal
from adcompiler.api.pairs.seeds import tangents
from adcompiler.errors import LimitError, ShapeError
from adcompiler.frames import public
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.pytree.structures import unflatten
from adcompiler.runtime.arguments.adapters import Wrapper
from adcompiler.runtime.arguments.signature import ArgumentError, Described, Parameter, bind, wrapper_of
from adcompiler.runtime.programs.program import Program
from adcompiler.runtime.programs.splitting import wrapped
from adcompiler.runtime.programs.traceable import Traceable


class Style:
    """A style of one function; `f.style.call(...)` is `f.style(...)`."""

    __slots__ = ("__call__", "f")  # what stands in the slot is called: see `Function`
    __call__: Callable[..., Any]

    def __init__(self, f: Traceable) -> None:
        self.f = f
        self.__call__ = self._call

    def _call(self, *args: Any, **keywords: Any) -> Any:
        raise NotImplementedError

    @property
    def call(self) -> Callable[..., Any]:
        """The same, as SlangPy's design notes write it."""
        return self.__call__

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} of {self.f!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.f, type(self).__name__.lower())

    def described(self, bound: Sequence[Any]) -> tuple[Described, Wrapper | None]:
        """The arguments, with the values of pairs among them, and how results go back."""
        values = [bare(a, primal) for a in bound]
        wrapper = wrapper_of(self.f, values, {})
        found = self.f._describe(values)
        self.f._last = found.types
        return found, wrapper


class Forward(Style):
    """Forward mode: a DiffPair for each result, along the tangents of DiffPairs among the arguments.

    `f.forward(*args)`: a pair may replace an argument or any part of one. A tangent of None, or a part of it,
    means zero, and so do arguments that are not pairs. Pairs of pairs are dual numbers: the results are
    nested equally deeply. Raises ShapeError for a tangent of another shape or structure, DtypeError for one
    of a value that is not a float, LimitError for pairs nested more than six deep.
    """

    __slots__ = ()

    @public
    def _call(self, *args: Any, **keywords: Any) -> Any:
        f = self.f
        bound = f._in_order(args, keywords)
        (types, values, plain, _), wrapper = self.described(bound)
        order = checked(max(1, *map(depth, bound)) if bound else 1)
        given = tangents(f._names, bound, types, values, order, wrapper)
        program = f._program(types, values)
        duals, inputs = on_dual_numbers(program, order, completed(given))
        found = duals.bind(coefficients(inputs, values, given), plain).run()
        structure, count = program.structure, len(found) >> order
        each = [wrapped(wrapper, structure, found[k * count : (k + 1) * count]) for k in range(1 << order)]
        parts = {k: unflatten(structure, part) for k, part in enumerate(each)}
        return _paired(structure, parts, order)


def on_dual_numbers(
    program: Program, order: int, taken: Sequence[Coefficient]
) -> tuple[Program, list[Coefficient]]:
    """The program on dual numbers, and the coefficients that its inputs are."""

    def make() -> tuple[Program, list[Coefficient]]:
        func, inputs = on_duals(program.func, order, set(taken), partial(run, SIMPLIFY))
        return program.extended(func), inputs

    return program.derived(("duals", order, tuple(taken)), make)


def checked(order: int) -> int:
    """How deep pairs nest, if that is not too deep."""
    if order > MOST_NESTED_PAIRS:
        raise LimitError(
            f"pairs are nested {order} deep; the limit is {MOST_NESTED_PAIRS}",
            remedy="use adc.taylor for high orders along one direction",
        )
    return order


def coefficients(
    inputs: Sequence[Coefficient], values: Sequence[Any], given: Mapping[Coefficient, Any]
) -> list[Any]:
    """What a program on dual numbers takes: values, and parts, which are zero where they are not given."""
    made = []
    for number, parts in inputs:
        if (number, parts) in given:
            made.append(given[number, parts])
        elif not parts and number < len(values):
            made.append(values[number])
        else:
            like = values[number] if number < len(values) else _any_part(number, given)
            zero = np.zeros_like(like)
            made.append(zero if zero.ndim else zero[()])
    return made


def _any_part(number: int, given: Mapping[Coefficient, Any]) -> Any:
    return next(v for (n, _), v in given.items() if n == number)


def _paired(structure: Any, parts: Mapping[int, Any], order: int) -> Any:
    """A pair, or a tuple of them for several results."""
    if not isinstance(structure, tuple):
        return nested(parts, order)
    each = enumerate(structure)
    return tuple(_paired(part, {p: v[k] for p, v in parts.items()}, order) for k, part in each)


def split_cotangent(
    name: str, parameters: Sequence[Parameter], args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Any]:
    """The arguments of `backward`, in order, and the cotangent: the last one, or `dresult=`, or the d of the
    pair `_result=`."""
    listed = ", ".join([*(p.name for p in parameters), "dresult"])
    named = [k for k in ("dresult", "_result") if k in keywords and all(k != p.name for p in parameters)]
    if len(named) > 1:
        raise ArgumentError(f"{name}.backward got both dresult and _result", remedy="pass one of them")
    if named:
        rest = {k: v for k, v in keywords.items() if k not in named}
        given = keywords[named[0]]
        return bind(name, parameters, args, rest), of_result(given) if named == ["_result"] else given
    if keywords:
        raise ArgumentError(
            f"{name}.backward got {', '.join(keywords)} by name, but no cotangent",
            remedy=f"pass it by name too: dresult=...; it takes ({listed})",
        )
    if len(args) != len(parameters) + 1:
        raise ArgumentError(f"{name}.backward got {len(args)} arguments", remedy=f"it takes ({listed})")
    return bind(name, parameters, args[:-1], {}), args[-1]


def of_result(pair: Any) -> Any:
    """The cotangent that the pair of a result holds, as SlangPy's backward takes it."""
    if not isinstance(pair, DiffPair) or pair.d is None:
        what = "a pair without a derivative" if isinstance(pair, DiffPair) else f"a {type(pair).__name__}"
        raise ShapeError(
            f"the result of backward is {what}",
            remedy="its d is the cotangent: DiffPair(value, np.ones(...))",
        )
    return pair.d
