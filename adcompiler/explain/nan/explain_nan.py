"""`adc.explain_nan`: the first operation, forward or backward, whose result is NaN or infinite, and a remedy.

The program is traced again with a table of origins (`ir/origins.py`), differentiated, interpreted operation
by operation, and walked back from the non-finite value (`interpreter/nonfinite.py`). Kernels are only used to
check whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from adcompiler.api.function import Function
from adcompiler.api.numba_functions import of_numba
from adcompiler.api.transforms import compiled, value_and_grad
from adcompiler.api.transforms import vjp as pullback_of
from adcompiler.eager.graph.graph import is_variable
from adcompiler.eager.variable.gradients import grad
from adcompiler.eager.variable.variable import Variable
from adcompiler.explain.nan.anomaly import NanError, anomaly
from adcompiler.explain.nan.nan_program import explained, traced
from adcompiler.explain.nan.nan_report import NanExplanation, finite
from adcompiler.frames import public
from adcompiler.public_types import AnyFunction, Values, Wrt
from adcompiler.pytree.containers import leaves_in, mapped
from adcompiler.pytree.kinds import Types
from adcompiler.runtime.arguments.signature import ArgumentError


@public
def explain_nan(f: AnyFunction, *args: Values, wrt: Wrt = None) -> NanExplanation:
    """The first operation of `f(*args)`, or of its derivative, whose result is NaN or infinite.

    f     a compiled function, which may be a derivative itself: `explain_nan(adc.grad(f), x)` examines second
          derivatives too; or a Python function of Variables, which runs under `adc.tape.anomaly`
    wrt   the parameters to differentiate with respect to, as in `grad`; None is every float parameter, ()
          examines only values. The cotangent is 1 for each element of each float result

    Returns an object whose text is the explanation, and which is true if something is not finite. Its fields
    are those of `NanExplanation`: phase, operation, value, line, column, span, element, iteration, operands,
    partial, suggestion, guard and others. Raises like a call of `f`.
    """
    if callable(f) and not isinstance(f, Function) and of_numba(f) is None:
        return _eager(f, args, wrt)
    f = compiled("explain_nan", f)
    given = [mapped(lambda v: v.data if is_variable(v) else v, a) for a in args]
    types, values, *_ = f._describe(given)
    wanted = _wanted(f, wrt, types)
    kernel = _by_kernels(f, given, wrt, bool(wanted))
    program = traced(f, types, values, wanted)
    return explained(program, values, kernel, f.__name__)


def _wanted(f: Function, wrt: Any, types: Types) -> tuple[int, ...]:
    """The inputs that are differentiated by; none where there is nothing to differentiate."""
    if wrt is None:
        floats = [k for k, t in enumerate(types) if f._inputs_of((k,), types)]
        return f._inputs_of(floats, types) if floats else ()
    return f._wanted(wrt, types)[1]


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
    return list(leaves_in(value))


# -- Python functions of Variables -------------------------------------------------------------------


def _eager(f: Callable[..., Any], args: Sequence[Any], wrt: Any) -> NanExplanation:
    """`explain_nan` of a Python function: run on Variables and walked back, with anomalies as errors."""
    name = getattr(f, "__name__", "f")
    chosen = range(len(args)) if wrt is None else _chosen(f, name, args, wrt)
    leaves = _leaves(args)

    def run() -> bool:
        given = [mapped(lambda v: v.detach().requires_grad_() if is_variable(v) else v, a) for a in leaves]
        outputs = [r for r in _flat(f(*given)) if is_variable(r)]
        wanted = [v for k in chosen for v in _flat(given[k]) if is_variable(v)]
        grads = grad(outputs, wanted) if outputs and wanted else []
        return all(np.isfinite(v.data).all() for v in (*outputs, *grads) if v is not None)

    if run():
        return finite(name)
    for infinite in (True, False):
        try:
            with anomaly(infinite):
                run()
        except NanError as error:
            return error.explanation
    return finite(name)


def _leaves(args: Sequence[Any]) -> list[Any]:
    """Arguments with their floats as Variables; integers are floats where there is nothing else."""
    args = [mapped(lambda v: np.array(v) if type(v) is list else v, a) for a in args]
    floats = [v for v in _flat(tuple(args)) if _is_float(v)]

    def leaf(value: Any) -> Any:
        if _is_float(value) or (not floats and type(value) is int):
            return Variable(np.array(value.data if is_variable(value) else value, None if floats else float))
        return value

    return [mapped(leaf, a) for a in args]


def _is_float(value: Any) -> bool:
    if is_variable(value) or isinstance(value, np.ndarray):
        return bool(value.dtype.kind == "f")
    return isinstance(value, float | np.floating)


def _chosen(f: Callable[..., Any], name: str, args: Sequence[Any], wrt: Any) -> list[int]:
    """The positions of the arguments that a Python function is differentiated by."""
    names = list(signature(f).parameters)
    found = [names.index(w) if w in names else w for w in (wrt if isinstance(wrt, tuple | list) else (wrt,))]
    for w in found:
        if type(w) is not int or not 0 <= w < len(args):
            cause = f"wrt={w!r}: {name} has no such parameter"
            raise ArgumentError(cause, remedy=f"it takes ({', '.join(names)})")
    return found
