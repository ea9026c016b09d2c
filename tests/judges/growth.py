"""How much the compiler works, counted: the functions of Python and C that run, and the nodes that exist.

Counts do not depend on the machine or on its load, so a test can bound them. Code that other threads run, and
LLVM's own work, are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from cProfile import Profile
from pathlib import Path
from types import CodeType
from typing import Any

from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array, Func
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, elements_of

MOST_NAMED = 8  # functions that a message lists


def calls(run: Callable[[], Any]) -> Counter[str]:
    """How often each function ran, those of Python by where they stand."""
    profile = Profile(builtins=True)
    profile.enable()
    try:
        run()
    finally:
        profile.disable()
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        code = entry.code
        name = code if isinstance(code, str) else _place(code)
        found[name] += entry.callcount + entry.reccallcount
    return found


def _place(code: CodeType) -> str:
    """The name of a function, with its file and line."""
    path = Path(code.co_filename)
    return f"{code.co_qualname} ({path.parent.name}/{path.name}:{code.co_firstlineno})"


def nodes(func: Func) -> int:
    """The arrays of a program and the elements in them, with those in bodies of its loops."""
    return _nodes(func.roots)


def _nodes(roots: Sequence[Array]) -> int:
    order = arrays_of(roots)
    elements = elements_of(e for a in order for e in (*a.shape, *a.domain, *a.elements))
    loops = dict.fromkeys(a.loop for a in order if isinstance(a, Item))
    bodies = [*(loop.roots for loop in loops), *(a.pulled for a in order if isinstance(a, Ruled))]
    return len(order) + len(elements) + sum(map(_nodes, bodies))


def excess(figures: Sequence[float]) -> float:
    """By which factor the second step of three figures, of a size and its double and fourfold, is more than
    twice the first: 1 for linear growth, 2 for quadratic growth."""
    small, middle, large = figures
    return (large - middle) / max(2 * (middle - small), 1)


def frequent(found: Counter[str]) -> str:
    """The functions that ran most often, for messages."""
    return "\n".join(f"{count:9} {name}" for name, count in found.most_common(MOST_NAMED))
