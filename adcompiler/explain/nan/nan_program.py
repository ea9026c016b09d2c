"""Programs to explain: traced with their origins, interpreted, and walked back from a NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adcompiler.ad.vjp import vjp
from adcompiler.api.function import Function
from adcompiler.explain.nan.nan_report import NanExplanation, finite, not_reproduced, report
from adcompiler.interpreter.history import Frame
from adcompiler.interpreter.nonfinite import first_cause
from adcompiler.ir.nodes import Array, Func, Map, const
from adcompiler.ir.origins import Origins, tracking
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.pytree.kinds import Types
from adcompiler.runtime.programs.program import Program


class TracedProgram(NamedTuple):
    """A program with its gradients as further results, behind its `own` first ones; `sizes` are the
    lengths of a call."""

    func: Func
    own: int
    table: Origins
    sizes: Sequence[int]


def traced(f: Function, types: Types, values: Sequence[Any], wanted: Sequence[int]) -> TracedProgram:
    """The program for these types with its gradients, and where its operations come from."""
    with tracking() as table:
        lowered = f._trace(types)
        func, count = with_gradients(lowered.func, wanted)
    return TracedProgram(func, count, table, Program.of(lowered, "numpy").sizes(values))


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
    program: TracedProgram, values: Sequence[Any], kernel: Sequence[Any] | None, name: str
) -> NanExplanation:
    """The explanation for the inputs of a call; `kernel` are the results by kernels, if these were run."""
    func = program.func
    inputs: dict[Array, np.ndarray] = {
        i: np.asarray(v, NUMPY[i.dtype]) for i, v in zip(func.inputs, values, strict=True)
    }
    frame = Frame((), inputs, program.sizes)
    cause = None
    for results in (func.results[: program.own], func.results):
        if cause is None:  # gradients are computed where the values are finite
            frame.add(results)
            cause = first_cause(frame, results, program.table.computed)
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
