"""Inline custom derivative rules: after differentiation, arrays with rules are replaced by their values."""

from __future__ import annotations

from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Array, Func
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter


def inline_rules(func: Func) -> Func:
    """The program without rules."""
    return _Dissolve().func(func)


class _Dissolve(Rewriter):
    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return None if isinstance(loop, Ruled) else _Dissolve()

    def array(self, array: Array) -> Array:
        return array.value if isinstance(array, Ruled) else array
