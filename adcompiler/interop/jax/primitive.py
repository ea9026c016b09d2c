"""The primitive: a program applied to arrays, with JAX's rules for jvp, transposition, batching and lowering.

Its parameters are the program (`programs.py`) and the lengths of its size symbols. The tangents of a
call are a call of the program's tangents, the transpose of that is a call of its reverse mode, a batch of
calls is a call of the batched program: the rules hold for each of these again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import ad, batching, mlir

from adcompiler.codegen.reference import extent
from adcompiler.errors import GraphError
from adcompiler.interop.jax.arguments import canonical
from adcompiler.interop.jax.ffi import target
from adcompiler.interop.jax.programs import Pattern, Program
from adcompiler.ir.nodes import Array
from adcompiler.ir.types import NUMPY, is_float

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
    """A call outside of jit, compiled once."""
    if sizes not in program.eager:
        program.eager[sizes] = jax.jit(lambda *operands: call(program, sizes, operands))
    found: Callable[..., Any] = program.eager[sizes]
    return found


# -- derivatives ---------------------------------------------------------------------------------------


def _picked(program: Program, sizes: Sizes, values: Sequence[Any]) -> list[Any]:
    """The results that a derived program has, None for those that are known to be zero."""
    found = iter(call(program, sizes, [values[k] for k in program.reads]) if any(program.known) else ())
    return [next(found) if known else None for known in program.known]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, sizes: Sizes) -> Any:
    results = call(program, sizes, primals)
    which = tuple(
        k
        for k, (t, i) in enumerate(zip(tangents, program.func.inputs, strict=True))
        if type(t) is not ad.Zero and is_float(i.dtype)
    )
    pushed: list[Any] = [None] * len(results)
    if which:
        pushed = _picked(program.tangent(which), sizes, [*primals, *(tangents[k] for k in which)])
    zeros = (ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results)
    return results, [z if t is None else t for z, t in zip(zeros, pushed, strict=True)]


def _transpose(cotangents: Sequence[Any], *operands: Any, program: Program, sizes: Sizes) -> list[Any]:
    asked = tuple(k for k, o in enumerate(operands) if ad.is_undefined_primal(o))
    present = tuple(type(c) is not ad.Zero for c in cotangents)
    found: list[Any] = [None] * len(operands)
    for k in asked:
        found[k] = ad.Zero(operands[k].aval)
    if any(present):
        derived = program.transposed(present, asked)
        given = [c for c, here in zip(cotangents, present, strict=True) if here]
        if any(k in asked for k in derived.reads):
            raise GraphError(
                f"JAX transposes {program}, which is not linear in what it is transposed by",
                remedy="differentiate it by jax.vjp",
            )
        pulled = _picked(derived, sizes, [*operands, *given])
        for k, cotangent in zip(asked, pulled, strict=True):
            found[k] = found[k] if cotangent is None else cotangent
    return found


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, program: Program, sizes: Sizes) -> Any:
    mapped: Pattern = tuple(axis is not None for axis in axes)
    moved = [
        o if axis is None else jax.numpy.moveaxis(o, axis, 0) for o, axis in zip(operands, axes, strict=True)
    ]
    derived = program.batched(mapped)
    cases = next(o.shape[0] for o, m in zip(moved, mapped, strict=True) if m)
    found = call(derived, (*sizes, cases), moved)
    return found, [0 if known else None for known in derived.known]


ad.primitive_jvps[call_p] = _jvp
ad.primitive_transposes[call_p] = _transpose
batching.primitive_batchers[call_p] = _batch


# -- lowering ------------------------------------------------------------------------------------------


def run(program: Program, sizes: Sizes, operands: Sequence[Any]) -> list[np.ndarray]:
    """The results on NumPy's arrays, in JAX's dtypes."""
    values = [
        np.asarray(o, NUMPY[i.dtype])[() if i.rank == 0 else ...]
        for o, i in zip(operands, program.func.inputs, strict=True)
    ]
    found = program.call.run(sizes, values, False)
    results = zip(found, program.func.results, strict=True)
    return [np.asarray(value, canonical(r.dtype)) for value, r in results]


def _by_callback(*operands: Any, program: Program, sizes: Sizes) -> Any:
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in _avals(program.func.results, sizes)]
    return jax.pure_callback(lambda *given: run(program, sizes, given), shapes, *operands)


def _on_cpu(ctx: Any, *operands: Any, program: Program, sizes: Sizes) -> Any:
    """A call of the machine code itself; numbers are converted where JAX has other dtypes than the kernel."""
    found = target(program.call.executable, sizes)
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
