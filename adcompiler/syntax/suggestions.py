"""What to write instead of a name that the language has not."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

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
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    known = [n for n in (*scope, *BUILTINS, *CONSTANTS) if len(n) > 1]
    close_names = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    return f"did you mean {' or '.join(close_names)}?" if close_names else None
