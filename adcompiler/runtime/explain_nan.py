"""`adc.explain_nan`: the first operation, forward or backward, whose result is NaN or infinite, and a remedy.

The program is traced again with a table of origins (`ir/origins.py`), differentiated, interpreted operation
by operation, and walked back from what is not finite (`codegen/nonfinite.py`). Kernels are asked for one
thing only: whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adcompiler.ad.vjp import vjp
from adcompiler.codegen.history import Frame
from adcompiler.codegen.nonfinite import first_cause
from adcompiler.frames import public
from adcompiler.ir.nodes import Array, Func, Map, const
from adcompiler.ir.origins import Origins, tracked, tracking
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.function import Function
from adcompiler.runtime.graph import is_variable
from adcompiler.runtime.nanreport import NanExplanation, finite, not_reproduced, report
from adcompiler.runtime.specialise import Specialisation, Types
from adcompiler.runtime.transforms import compiled, value_and_grad
from adcompiler.runtime.transforms import vjp as pullback_of
from adcompiler.syntax.containers import mapped


class Program(NamedTuple):
    """A program with its gradients as further results, behind its `own` first ones; `sizes` are the
    lengths of a call."""

    func: Func
    own: int
    table: Origins
    sizes: Sequence[int]


@public
def explain_nan(f: Any, *args: Any, wrt: Any = None) -> NanExplanation:
    """The first operation of `f(*args)`, or of its derivative, whose result is NaN or infinite.

    f     a compiled function, which may be a derivative itself: `explain_nan(adc.grad(f), x)` looks at second
          derivatives too
    wrt   what is differentiated by, as in `grad`; None is every float parameter, () looks at values alone.
          The cotangent is one for each element of each float result

    Returns an object whose text is the explanation, and that is true if something is not finite. Its fields
    are those of `NanExplanation`: phase, operation, value, line, column, span, element, iteration, operands,
    partial, suggestion, guard and others. Raises as a call of `f` does.
    """
    f = compiled("explain_nan", f)
    given = [mapped(lambda v: v.data if is_variable(v) else v, a) for a in args]
    types, values, _ = f.describe(given, {})
    wanted = _wanted(f, wrt, types)
    kernel = _by_kernels(f, given, wrt, bool(wanted))
    program = traced(f, types, values, wanted)
    return explained(program, values, kernel, f.__name__)


def _wanted(f: Function, wrt: Any, types: Types) -> tuple[int, ...]:
    """The inputs that are differentiated by; none where there is nothing to differentiate."""
    if wrt is None:
        floats = [k for k, t in enumerate(types) if f.inputs_of((k,), types)]
        return f.inputs_of(floats, types) if floats else ()
    return f.inputs_of(f.positions(wrt, types), types)


def traced(f: Function, types: Types, values: Sequence[Any], wanted: Sequence[int]) -> Program:
    """The program for these types with its gradients, and where its operations come from."""
    with tracking() as table:
        lowered = f.trace(types)
        func, count = with_gradients(lowered.func, wanted)
    return Program(func, count, table, Specialisation(lowered, "numpy").sizes(values))


def with_gradients(func: Func, wanted: Sequence[int]) -> tuple[Func, int]:
    """A program with the gradients of the sum of its float results behind these; how many they are."""
    seeds = [Map(r.shape, const(1, r.dtype)) if is_float(r.dtype) else None for r in func.results]
    targets = [func.inputs[k] for k in wanted]
    grads = vjp(func.results, seeds, targets)
    known = [(k, g) for k, g in zip(wanted, grads, strict=True) if g is not None]
    made = func.with_(
        results=(*func.results, *(g for _, g in known)),
        result_names=(*func.result_names, *(f"d{func.input_names[k]}" for k, _ in known)),
    )
    return run(SIMPLIFY, made), len(func.results)


def explained(
    program: Program, values: Sequence[Any], kernel: Sequence[Any] | None, name: str
) -> NanExplanation:
    """The explanation for the inputs of a call; `kernel` are the results by kernels, if these were run."""
    func = program.func
    inputs: dict[Array, np.ndarray] = {
        i: np.asarray(v, NUMPY[i.dtype]) for i, v in zip(func.inputs, values, strict=True)
    }
    assert tracked() is None
    frame = Frame(func.roots, inputs, program.sizes)
    cause = None
    for results in (func.results[: program.own], func.results):
        cause = cause or first_cause(frame, results)
    bad = None if kernel is None else next((k for k, v in enumerate(kernel) if not is_finite(v)), None)
    if cause is None:
        return finite(name) if bad is None else not_reproduced(func, bad, kernel or ())
    return report(program.func, program.own, program.table, cause, kernel is None or bad is not None)


def is_finite(value: Any) -> bool:
    """Whether a result is finite throughout; what is no float is."""
    if value is None:
        return True
    array = np.asarray(value.copy_to_host() if hasattr(value, "copy_to_host") else value)
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _by_kernels(f: Function, args: Sequence[Any], wrt: Any, gradients: bool) -> list[Any]:
    """The results and the gradients as kernels give them, flat."""
    value = f(*args)
    if not gradients:
        return _flat(value)
    if isinstance(value, float | np.floating):
        return _flat(value_and_grad(f, wrt)(*args))
    value, pull = pullback_of(f, *args, wrt=wrt)
    return [*_flat(value), *_flat(pull(mapped(_ones, value)))]


def _ones(value: Any) -> Any:
    return np.ones_like(value) if np.asarray(value).dtype.kind == "f" else None


def _flat(value: Any) -> list[Any]:
    """The arrays of a nested result, in order."""
    found: list[Any] = []
    collect: Callable[[Any], None] = found.append
    mapped(collect, value)
    return found
