"""Derivatives of functions are functions: transforms take and return them, so they nest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from adcompiler.ad.programs.split import value_and_grad as joint
from adcompiler.api.function import Function
from adcompiler.api.numba_functions import compiled_once, of_numba, why_refused
from adcompiler.api.python_functions import CACHED, compiled_plain, is_plain, undecorated
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.sizes import with_inputs
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Func
from adcompiler.ir.textform.printer import short_lengths
from adcompiler.ir.types import is_float
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.public_types import Values, Wrt
from adcompiler.pytree.kinds import Types
from adcompiler.pytree.structures import places_of
from adcompiler.runtime.arguments.signature import Parameter, adapter_in
from adcompiler.runtime.arguments.struct_arrays import alike
from adcompiler.runtime.programs.integer_lists import typed


def compiled(what: str, f: Any) -> Function:
    """A compiled function, the argument of `what`: `f`, or that of a Python function or one of numba;
    DtypeError for anything else."""
    if isinstance(f, Function):
        return f
    if isinstance(f, CACHED):
        return compiled(what, f.__wrapped__)
    if is_plain(f) or of_numba(f) is not None:
        found: Function = compiled_plain(f) if is_plain(f) else compiled_once(f)
        return found
    raise DtypeError(
        f"{what} takes a compiled function, not a {type(f).__name__}",
        remedy=why_refused(f) or undecorated(f) or "pass a Python function, or adc.compile(text)",
    )


def by(what: str, f: Any, wrt: Any, make: Callable[[Function, Any, str], Function]) -> Any:
    """A transform of a function for `wrt`, made once: `adc.grad(f)(x)` in a loop is made only in its first
    iteration."""
    f = compiled(what, f)
    chosen = f._canonical(wrt)
    return f._derived((what, make, repr(chosen)), lambda: make(f, chosen, what))


class Derived(Function):
    """A function made from another one, of the same arguments; behind them it takes `more`, under these names
    or similar ones that are free."""

    def __init__(self, of: Function, wrt: Any, name: str, more: Sequence[str] = ()) -> None:
        of = compiled(name, of)
        of = of._by_floats(of._canonical(wrt))
        fresh = distinct(more, of._names)
        parameters = (*of._parameters, *(Parameter(n, False, False) for n in fresh))
        super().__init__(f"{name}({of.__name__})", parameters, of._backend)
        self._of, self._wrt, self._batched, self._closure = of, wrt, of._batched, of._closure

    @property
    def _prints(self) -> bool:  # type: ignore[override]
        return self._of._prints

    def _with_integer_lists(self, types: Types) -> Types:
        """As those of the function; behind its arguments stand weights, or tangents for those in `wrt`."""
        given, rest = self._parted(types)
        own, rest = self._of._with_integer_lists(given), typed(rest, frozenset())
        if rest and isinstance(self._wrt, tuple):
            rest = tuple(alike(own[k], kind) for k, kind in zip(self._wrt, rest, strict=True))
        return (*own, *rest)

    def _parted(self, types: Types) -> tuple[Types, Types]:
        """The types of the function's own arguments, and of those behind them."""
        count = len(self._of._parameters)
        return types[:count], types[count:]

    @property
    def _more(self) -> list[str]:
        """The names of the parameters behind the function's own."""
        return [p.name for p in self._parameters[len(self._of._parameters) :]]

    def _lowered(self, of: Lowered, func: Func, structure: Any) -> Lowered:
        """The program of this function, from that of the other one, whose inputs it takes first."""
        return Lowered(run(SIMPLIFY, func), with_inputs(of.constraints, of.func, func), structure)

    def _places(self, positions: Sequence[int], types: Types) -> Any:
        """How derivatives with respect to parameters nest: as the parameters do."""
        found = tuple(places_of(types[k]) for k in positions)
        return found[0] if self._bare(positions) else found

    def _bare(self, positions: Sequence[int]) -> bool:
        """Whether the derivative stands alone: one parameter, and `wrt` is no tuple."""
        return not isinstance(self._wrt, tuple | list) and len(positions) == 1


class Gradient(Derived):
    """The gradient of a scalar function, with or without its value: one fused program."""

    def __init__(self, of: Function, wrt: Any, name: str) -> None:
        super().__init__(of, wrt, name)
        self._with_value = name == "value_and_grad"

    def _trace(self, types: Types) -> Lowered:
        positions, inputs = self._of._wanted(self._wrt, types)
        lowered = self._of._trace(types)
        self._check(lowered)
        func = joint(lowered.func, inputs, self._with_value)
        grads = self._places(positions, types)
        structure = (lowered.structure, grads) if self._with_value else grads
        return self._lowered(lowered, func, structure)

    def _check(self, lowered: Lowered) -> None:
        """A gradient is that of one scalar."""
        func, what = lowered.func, self._of.__name__
        remedy = f"reduce it: sum({what}(...)); for a cotangent of the result's shape use vjp"
        if len(func.results) != 1:
            raise ShapeError(
                f"{what} has {len(func.results)} results: a gradient needs one scalar", remedy=remedy
            )
        result = func.results[0]
        if result.rank:
            shape = ", ".join(short_lengths(func, result.shape)) + "," * (result.rank == 1)
            raise ShapeError(f"{what} returns an array of shape ({shape}), not a scalar", remedy=remedy)
        if not is_float(result.dtype):
            raise DtypeError(
                f"{what} returns {result.dtype}, which has no derivative", remedy="return a float"
            )


@public
def grad(f: Function, wrt: Wrt = None) -> Gradient:
    """The gradient of the scalar function `f`: a function of the same arguments.

    `wrt` is a parameter's name or position (the result is bare), a tuple of them (a tuple), or None
    for every float parameter (bare for one, else a tuple). A gradient has its input's shape and
    dtype; it is zero for an input that the result does not depend on. Raises ShapeError if `f` does not
    return one scalar.
    """
    found: Gradient = by("grad", f, wrt, Gradient)
    return found


@public
def value_and_grad(f: Function, wrt: Wrt = None) -> Gradient:
    """The value of the scalar function `f` and its gradient, computed by one kernel: a function of the same
    arguments that returns (value, grads).

    `wrt`, the structure of the gradient and errors are as in `grad`.
    """
    found: Gradient = by("value_and_grad", f, wrt, Gradient)
    return found


@public
def vjp(f: Function, *args: Values, wrt: Wrt = None) -> tuple[Values, Callable[[Values], tuple[Values, ...]]]:
    """The value of `f` at `args`, and the pullback of cotangents.

    `pullback(cotangent)` takes a cotangent shaped like the result (None for zero) and returns a tuple
    with the cotangent of each input in `wrt`, always a tuple; an entry has the shape and dtype of its input,
    and is None if it is known to be zero. A pullback may be called several times. What it needs is saved in
    the call of `vjp`. Raises ShapeError for a cotangent of another shape.
    """
    f = compiled("vjp", f)
    split = f.split(wrt)
    if (own := getattr(adapter_in(f, args), "pullback_of", None)) is not None:
        return own(f, f._in_order(args), wrt)  # type: ignore[no-any-return]
    value, saved = split.forward(*args)
    return value, partial(split.propagate, saved)
