"""Output of print statements: a separate program computes it before the call itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adcompiler.ad.programs.calculus import CALCULUS
from adcompiler.frontend.lowering.printing import Line, PrintedValue
from adcompiler.frontend.lowering.program import Lowered, lower
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.pytree.kinds import Types
from adcompiler.runtime.limits import MOST_PRINTED
from adcompiler.runtime.programs.program import Program


def show_prints(f: Any, types: Types, values: Sequence[Any]) -> None:
    """Print what a call with these arguments prints, of a derivative what its function does."""
    while hasattr(f, "_of"):
        f = f._of
    own = types[: len(f._parameters)]
    found, lines, tallies = f._derived(("print", own), lambda: _observing(f, own))
    given = values[: len(found.func.inputs)]
    results = found.run(found.sizes(given), given, False)
    by = {(t.number, t.kind): np.asarray(r) for t, r in zip(tallies, results, strict=True)}
    for line in lines:
        if (count := int(by[line.number, "sum"])) > 0:
            print(*(_text(part, by) for part in line.parts), *_often(line, count, by), flush=True)


def _observing(f: Any, types: Types) -> tuple[Program, Any, Any]:
    lowered = observed(f._closure, types)
    return Program.of(lowered, f._backend), *lowered.lines


def observed(closure: Any, types: Types) -> Lowered:
    """The program whose results are what is printed; without checks, to show what precedes an error."""
    lowered = lower(closure, types, calculus=CALCULUS, observed=True)
    return replace(lowered, func=run(SIMPLIFY, lowered.func.with_(checks=())))


def _often(line: Line, count: int, by: dict[Any, Any]) -> list[str]:
    alone = all((p.number, "whole") in by for p in line.parts if isinstance(p, PrintedValue))
    return [] if alone and count == 1 else [f"({count} times)"]


def _text(part: Any, by: dict[Any, Any]) -> str:
    """One value of a line."""
    if isinstance(part, tuple):
        return "(" + ", ".join(_text(p, by) for p in part) + ")"
    if not isinstance(part, PrintedValue):
        return str(part)
    whole = by.get((part.number, "whole"))
    if whole is not None and whole.size <= MOST_PRINTED:
        return np.array2string(whole, precision=6, threshold=MOST_PRINTED)
    low, high, missing = (by[part.number, kind] for kind in ("min", "max", "sum"))
    text = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
    if not low <= high:
        text = "nan"
    elif missing:
        text += f" and {int(missing)} nan"
    return text if whole is None else f"{whole.shape} {text}"
