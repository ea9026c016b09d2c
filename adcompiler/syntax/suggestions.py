"""What to write instead of a name that the language has not."""

from __future__ import annotations

import builtins
import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from adcompiler.syntax.builtins import BUILTINS, CONSTANTS, METHODS
from adcompiler.syntax.operators import ELSEWHERE


def instead(method: str) -> str:
    """What to write for a method that there is not."""
    if method in BUILTINS:
        return f"write {method}(x) instead of x.{method}()"
    if method == "astype":
        return "convert the argument before the call"
    near = difflib.get_close_matches(method, METHODS, n=1, cutoff=0.7)
    return f"did you mean .{near[0]}()?" if near else f"there are {', '.join(sorted(METHODS))}"


def similar(name: str, scope: Mapping[str, Any]) -> str | None:
    """What to write for a name that there is not. A name that NumPy or Python has is no misspelling."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    if any(callable(getattr(module, name, None)) for module in (np, np.linalg, builtins)):
        return "it is not part of the language: docs/language.md lists what is"
    known = [n for n in (*scope, *BUILTINS, *CONSTANTS) if len(n) > 1]
    close_names = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    return f"did you mean {' or '.join(close_names)}?" if close_names else None
