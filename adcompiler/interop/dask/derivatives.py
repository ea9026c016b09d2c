"""Derivatives of functions of Dask arrays: each is a program, partitioned like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from adcompiler.ad.programs.split import pullback
from adcompiler.api import transforms
from adcompiler.api.function import Function
from adcompiler.api.modes import Tangent, as_tuple, directed_like, directions_of, paired
from adcompiler.api.transforms import Derived, compiled
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.interop.dask.lazy import Blockwise, is_lazy, placeholder
from adcompiler.ir.types import NUMPY
from adcompiler.pytree.containers import mapped_by_path
from adcompiler.pytree.kinds import Types
from adcompiler.pytree.structures import flatten
from adcompiler.runtime.arguments.signature import Described
from adcompiler.runtime.programs.program import Program


@public
def value_and_grad(f: Function, wrt: Any = None, keep: bool = False) -> Blockwise:
    """The value of the scalar function `f` and its gradient on Dask arrays: lazily (value, grads).

    Like `adc.value_and_grad`. Gradients of chunked arguments have their chunks; those of others are one
    chunk, summed over all blocks by a tree that depends only on the chunks. See `blockwise` for `keep` and
    for errors.
    """
    return Blockwise(transforms.value_and_grad(f, wrt), keep)


@public
def grad(f: Function, wrt: Any = None, keep: bool = False) -> Blockwise:
    """The gradient of the scalar function `f` on Dask arrays: see `value_and_grad`."""
    return Blockwise(transforms.grad(f, wrt), keep)


@public
def hvp(f: Function, wrt: Any = None, keep: bool = False) -> Callable[[Sequence[Any], Any], Any]:
    """`product(args, v)`: the Hessian of the scalar function `f` times `v` on Dask arrays, lazily.

    Like `adc.hvp`: `args` is a tuple; `v` and the result are structured like the gradient.
    """
    return partial(_multiplied, transforms.grad(f, wrt), keep)


@public
def _multiplied(gradient: transforms.Gradient, keep: bool, args: Sequence[Any], v: Any) -> Any:
    args = as_tuple("hvp", "args", args)
    types = described(gradient, args).types
    return pushed(gradient, args, directions_of(gradient, types, v), False, keep)


@public
def jvp(f: Function, args: Sequence[Any], tangents: Sequence[Any], keep: bool = False) -> tuple[Any, Any]:
    """The value of `f` at `args`, some of them Dask arrays, and its derivative along `tangents`, lazily.

    Like `adc.jvp`: a tangent for each argument, of its shape, a Dask or NumPy array; None means zero.
    """
    args, tangents = paired("jvp", args, "tangents", tangents)
    directions = {k: t for k, t in enumerate(tangents) if t is not None}
    value, tangent = pushed(compiled("adc.dask.jvp", f), args, directions, True, keep)
    return value, tangent


def pushed(f: Function, args: Sequence[Any], directions: dict[int, Any], value: bool, keep: bool) -> Any:
    """The tangent of `f` along directions of some parameters, after its value if that is wanted."""
    call = described(f, args)
    f._positions(tuple(directions), call.types)  # raises for other types than floats
    for k, direction in directions.items():  # each with the shape and structure of its argument
        directed_like(f, k, mapped_by_path(placeholder, "", direction), call)
    wrt = tuple(directions)
    tangent = f._derived(("dask jvp", wrt, value), lambda: Tangent(f, wrt, value))
    return Blockwise(tangent, keep)(*args, *directions.values())


@public
def vjp(
    f: Function, *args: Any, wrt: Any = None, keep: bool = False
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of `f` at `args`, some of them Dask arrays, and the pullback of cotangents, both lazily.

    Like `adc.vjp`: `pullback(cotangent)` takes a cotangent shaped like the result, of Dask or NumPy arrays
    (None for zero), and returns a tuple with the gradient of each input in `wrt`. Nothing is saved from the
    blocks of the value: the pullback recomputes what it needs.
    """
    f = compiled("adc.dask.vjp", f)
    args = tuple(f._in_order(args))
    call = described(f, args)
    positions = f._positions(wrt, call.types)
    lowered = f._specialise(call.types, call.values)
    value = Blockwise(f, keep)(*args)
    return value, partial(_pulled, f, positions, keep, args, lowered, value)


@public
def _pulled(
    f: Function,
    wrt: tuple[int, ...],
    keep: bool,
    args: tuple[Any, ...],
    lowered: Program,
    value: Any,
    cotangent: Any,
) -> tuple[Any, ...]:
    """Apply a pullback; a module-level function, so that pullbacks can be pickled."""
    given = flatten(lowered.structure, cotangent, "the cotangent")
    results = lowered.func.results
    values = flatten(lowered.structure, value)
    for name, c, result in zip(lowered.func.result_names, given, values, strict=True):
        if c is not None:
            check_cotangent(name, c, result)
    present = tuple(c is not None for c in given)
    pulled = f._derived(("dask vjp", wrt, present), lambda: Pullback(f, wrt, lowered, present))
    pairs = [(c, NUMPY[r.dtype]) for c, r in zip(given, results, strict=True) if c is not None]
    seeds = [c.astype(dtype) if is_lazy(c) else np.asarray(c, dtype) for c, dtype in pairs]
    found: tuple[Any, ...] = Blockwise(pulled, keep)(*args, *seeds)
    return found


def check_cotangent(name: str, cotangent: Any, result: Any) -> None:
    """Raise DtypeError or ShapeError for a cotangent that does not fit its result."""
    if result.dtype.kind != "f":
        raise DtypeError(f"{name} is {result.dtype}, which has no cotangent", remedy="pass None for it")
    kind = cotangent.dtype if is_lazy(cotangent) else np.asarray(cotangent).dtype
    if np.shape(cotangent) != result.shape or kind.kind not in "biuf":
        raise ShapeError(
            f"the cotangent of {name} is {kind} of shape {np.shape(cotangent)}, not {result.shape}",
            remedy="a cotangent must be real and have the result's shape",
        )


class Pullback(Derived):
    """The gradients by the parameters `wrt`: a function of the arguments, then of a cotangent for each
    `present` result. A gradient that is known to be zero is zeros."""

    def __init__(
        self, of: Function, wrt: tuple[int, ...], lowered: Program, present: tuple[bool, ...]
    ) -> None:
        self.present = present
        named = zip(lowered.func.result_names, present, strict=True)
        super().__init__(of, wrt, "vjp", [f"d{n}" for n, here in named if here])

    def _with_integer_lists(self, types: Types) -> Types:
        own, cotangents = self._parted(types)
        return (*self._of._with_integer_lists(own), *cotangents)

    def _trace(self, types: Types) -> Lowered:
        own, _ = self._parted(types)
        lowered = self._of._trace(own)
        made, _ = pullback(lowered.func, self._of._inputs_of(self._wrt, own), self.present, zeros=True)
        return self._lowered(lowered, made.with_(name=self.__name__), self._places(self._wrt, own))


def described(f: Function, args: Sequence[Any]) -> Described:
    """Arguments, with arrays without memory in the place of Dask's."""
    return f._describe(args, rows=False, stand_in=placeholder)
