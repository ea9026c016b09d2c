"""Programs called without this package: from numba code and from C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adcompiler.errors import ShapeError
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.nodes import Func, is_const
from adcompiler.ir.walk import is_computed
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.pytree.kinds import ArgType, Kind
from adcompiler.pytree.trees import map_kinds
from adcompiler.runtime.arguments.ragged_arrays import refuse
from adcompiler.runtime.arguments.signature import EITHER, FLOAT
from adcompiler.runtime.programs.call_lengths import in_symbols
from adcompiler.runtime.reports.show import default_types

INTEGER = ArgType("i64")


def for_c(f: Any, compared: list[Constraint] | None = None) -> Func:
    """The program for a function's annotated types, scalars where there are none."""
    return prepared(f.__name__, traced_for_c(f), compared)


def traced_for_c(f: Any) -> Lowered:
    """The same before it is prepared for kernels."""
    types = default_types(f)
    refuse(f"a C function of {f.__name__}", types)
    if directions := len(f._parameters) - len(types):  # typed as what they are directions of
        types += tuple(types[k] for k in f._wrt[:directions])
    return _traced(f, [t for t in types if isinstance(t, ArgType)])


def for_numba(f: Any, given: Sequence[Kind], compared: list[Constraint] | None = None) -> tuple[Func, Any]:
    """The program for arguments of these dtypes and ranks, and how its results nest.

    `compared` takes what has to hold between the lengths of a call. Raises ShapeError if there is such
    and nobody compares it: without `compared`, or where the lengths depend on values.
    """
    lowered = _traced(f, given)
    return prepared(f.__name__, lowered, compared), lowered.structure


def _traced(f: Any, given: Sequence[Kind]) -> Lowered:
    pairs = zip(given, f._parameters, strict=True)
    types = tuple(
        EITHER if p.counting and k == INTEGER else map_kinds(_as_float, k, p.integer) for k, p in pairs
    )
    lowered: Lowered = f._trace(f._with_integer_lists(types) if EITHER in types else types)
    return lowered


def _as_float(kind: Kind, integer: bool) -> Kind:
    """An integer of rank 0 counts as a float, as Python's do, unless it is annotated."""
    return FLOAT if kind == INTEGER and not integer else kind


def prepared(name: str, lowered: Lowered, compared: list[Constraint] | None = None) -> Func:
    """The program for kernels; `compared` takes what has to hold between the lengths of a call."""
    found = [c for c in lowered.constraints if not c.merged and not is_const(c.right, 0)]
    if found and (compared is None or any(is_computed(n) for c in found for n in (c.left, c.right))):
        raise ShapeError(f"{name} needs lengths checked at each call", remedy="call it from Python")
    if compared is not None:
        compared += in_symbols(lowered.func, found)
    return run((*OPTIMISE, *KERNEL), lowered.func)
