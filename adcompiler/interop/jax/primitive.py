"""The primitive: a program applied to arrays, with JAX's rules for jvp, transposition, batching and lowering.

Its parameters are the program and the lengths of its size symbols. The tangents of a call are a call of the
program's pushforward, the transpose of that is a call of its pullback, and a batch of calls is a call of the
batched program. The same rules apply to each of these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import ad as internal
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import ad, batching, mlir, partial_eval

from adcompiler.ad.programs.split import Pattern
from adcompiler.errors import GraphError
from adcompiler.interop.jax.arguments import canonical
from adcompiler.interop.jax.ffi import target
from adcompiler.interpreter.reference import extent
from adcompiler.ir.nodes import Array
from adcompiler.ir.types import NUMPY
from adcompiler.runtime.programs.program import Derivative, Program

call_p = Primitive("adc")
call_p.multiple_results = True
Sizes = tuple[int, ...]


def call(program: Program, sizes: Sizes, operands: Sequence[Any]) -> list[Any]:
    """The results of a program, for lengths that fit."""
    found: list[Any] = call_p.bind(*operands, program=program, sizes=sizes)
    return found


def _avals(arrays: Iterable[Array], sizes: Sizes) -> list[Any]:
    return [ShapedArray(extent(a.shape, sizes), canonical(a.dtype)) for a in arrays]


@call_p.def_abstract_eval
def _abstract(*operands: Any, program: Program, sizes: Sizes) -> list[Any]:
    for given, wanted in zip(operands, _avals(program.func.inputs, sizes), strict=True):
        assert (given.shape, given.dtype) == (wanted.shape, wanted.dtype), (program, given, wanted)
    return _avals(program.func.results, sizes)


call_p.def_impl(lambda *operands, **params: _compiled(**params)(*operands))


def _compiled(program: Program, sizes: Sizes) -> Callable[..., Any]:
    """A call outside jit, compiled once."""
    return program.staged.made(sizes, lambda: jax.jit(lambda *operands: call(program, sizes, operands)))


# -- derivatives ---------------------------------------------------------------------------------------


def _picked(found: Derivative, sizes: Sizes, values: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The results of a derivative, None for those known to be zero. `values` are those of the original
    program, `others` the cotangents or tangents."""
    if not any(found.known):
        return [None] * len(found.known)
    return found.spread(call(found.program, sizes, [*(values[k] for k in found.reads), *others]))


def _pattern(given: Iterable[Any], program: Program) -> Pattern:
    """Which inputs of a program have a tangent."""
    return tuple(bool(here) and f for here, f in zip(given, program.floats, strict=True))


def _tangents(results: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    """Tangents of results, with JAX's zero for those known to be zero."""
    zeros = (ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results)
    return [z if t is None else t for z, t in zip(zeros, found, strict=False)]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, sizes: Sizes) -> Any:
    results = call(program, sizes, primals)
    given = _pattern((type(t) is not ad.Zero for t in tangents), program)
    own = [t for t, here in zip(tangents, given, strict=True) if here]
    return results, _tangents(results, _picked(program.pushed(given), sizes, primals, own))


def _linearised(
    reverse: bool, nonzeros: Sequence[bool], *primals: Any, program: Program, sizes: Sizes
) -> tuple[Any, ...]:
    """The results, which of them have tangents, the residuals, and a function from the residuals to tangents.

    In reverse mode the called program also returns its gradient, or the values that are cheap to save. The
    tangents are never computed then, only transposed.
    """
    if not reverse:
        rule = internal.fallback_linearize_rule
        found: tuple[Any, ...] = rule(call_p, reverse, nonzeros, *primals, program=program, sizes=sizes)
        return found
    given = _pattern(nonzeros, program)
    saving = program.saving(given, sizes)
    values = call(saving, sizes, primals)
    results, pushed = values[: len(program.func.results)], saving.pushed(given, held=True)

    def tangents(kept: Sequence[Any], *tangents: Any) -> list[Any]:
        own = [t for t, here in zip(tangents, given, strict=True) if here]
        return _tangents(results, _picked(pushed, sizes, kept, own))

    return results, pushed.known[: len(results)], (*primals, *values), tangents


def _transpose(cotangents: Sequence[Any], *operands: Any, program: Program, sizes: Sizes) -> list[Any]:
    asked = tuple(ad.is_undefined_primal(o) for o in operands)
    present = tuple(type(c) is not ad.Zero for c in cotangents)
    found: list[Any] = [ad.Zero(o.aval) if here else None for o, here in zip(operands, asked, strict=True)]
    if not any(present):
        return found
    given = [c for c, here in zip(cotangents, present, strict=True) if here]
    pulled = _products(program, present, operands, given) or _pulled(
        program, present, asked, operands, given, sizes
    )
    return [z if c is None else c for z, c in zip(found, pulled, strict=True)]


def _pulled(
    program: Program,
    present: Pattern,
    asked: Pattern,
    operands: Sequence[Any],
    given: Sequence[Any],
    sizes: Sizes,
) -> list[Any]:
    """Cotangents by the transposed program."""
    derived = program.transposed(present, asked)
    if any(asked[k] for k in derived.reads):
        raise GraphError(
            f"JAX transposes {program}, which is not linear in that argument",
            remedy="differentiate it with jax.vjp",
        )
    return _picked(derived, sizes, operands, given)


def _products(
    program: Program, present: Pattern, operands: Sequence[Any], given: Sequence[Any]
) -> list[Any] | None:
    """Cotangents as products with gradients that are already computed, which XLA can fuse with later
    operations."""
    pushes = program.pushes
    if pushes is None or not pushes.held or not pushes.of.scales(pushes.present(present), pushes.given):
        return None
    places = [pushes.of.gradients[k] for k, here in enumerate(pushes.given) if here]
    if any(place and place[1] for place in places):  # batched
        return None
    gradients = [None if place is None else operands[len(pushes.given) + place[0]] for place in places]
    scaled = [None if g is None else (given[0] * g).astype(g.dtype) for g in gradients]
    return [None] * pushes.values + scaled


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, program: Program, sizes: Sizes) -> Any:
    pairs = list(zip(operands, axes, strict=True))
    moved = [o if axis is None else jax.numpy.moveaxis(o, axis, 0) for o, axis in pairs]
    cases = next(m.shape[0] for m, (_, axis) in zip(moved, pairs, strict=True) if axis is not None)
    found = call(program.batched(tuple(axis is not None for axis in axes)), (*sizes, cases), moved)
    return found, [0] * len(found)


def _unused(used: Sequence[bool], equation: Any) -> tuple[list[bool], Any]:
    """Dead code elimination: the operands that a call needs for its `used` results, and a call for these;
    None if there are none."""
    operands, results = equation.invars, equation.outvars
    if not any(used):
        return [False] * len(operands), None
    derived = equation.params["program"].restricted(tuple(used))
    reads = set(derived.reads)
    made = equation.replace(
        invars=[operands[k] for k in derived.reads],
        outvars=[r for r, here in zip(results, used, strict=True) if here],
        params={**equation.params, "program": derived.program},
    )
    return [k in reads for k in range(len(operands))], made


ad.primitive_jvps[call_p] = _jvp
ad.primitive_transposes[call_p] = _transpose
batching.primitive_batchers[call_p] = _batch
partial_eval.dce_rules[call_p] = _unused
if [*signature(getattr(internal, "fallback_linearize_rule", _jvp)).parameters][1:3] == [
    "_is_vjp",
    "_nonzeros",
]:
    internal.primitive_linearizations[call_p] = _linearised  # else JAX linearises with the jvp rule


# -- lowering ------------------------------------------------------------------------------------------


def run(program: Program, sizes: Sizes, operands: Sequence[Any]) -> list[np.ndarray]:
    """The results on NumPy arrays, in JAX's dtypes."""
    values = [
        np.asarray(o, NUMPY[i.dtype])[() if i.rank == 0 else ...]
        for o, i in zip(operands, program.func.inputs, strict=True)
    ]
    results = zip(program.at(sizes, values), program.func.results, strict=True)
    return [np.asarray(value, canonical(r.dtype)) for value, r in results]


def _by_callback(*operands: Any, program: Program, sizes: Sizes) -> Any:
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in _avals(program.func.results, sizes)]
    return jax.pure_callback(lambda *given: run(program, sizes, given), shapes, *operands)


def _on_cpu(ctx: Any, *operands: Any, program: Program, sizes: Sizes) -> Any:
    """A direct call of the machine code; numbers are converted where JAX's dtypes differ from the
    kernel's."""
    found = target(program.executable, sizes)
    if found is None:
        return by_callback(ctx, *operands, program=program, sizes=sizes)
    func = program.func
    avals = [
        [ShapedArray(extent(a.shape, sizes), NUMPY[a.dtype]) for a in arrays]
        for arrays in (func.inputs, func.results)
    ]
    avals[1] += [ShapedArray((found.scratch,), np.dtype(np.uint8))] * bool(found.scratch)
    given = [_converted(o, a) for o, a in zip(operands, avals[0], strict=True)]
    rule = jax.ffi.ffi_lowering(found.name)
    results = rule(ctx.replace(avals_in=avals[0], avals_out=avals[1]), *given)
    return [_converted(r, a) for r, a in zip(results, ctx.avals_out, strict=False)]


def _converted(value: Any, aval: Any) -> Any:
    wanted = mlir.ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(aval.dtype))
    return value if value.type == wanted else stablehlo.convert(wanted, value)


by_callback = mlir.lower_fun(_by_callback, multiple_results=True)
mlir.register_lowering(call_p, by_callback)
mlir.register_lowering(call_p, _on_cpu, platform="cpu")
