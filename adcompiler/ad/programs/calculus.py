"""Differentiation as lowering asks for it: `diff` and `grad` inside the language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adcompiler.ad.jvp import jvp
from adcompiler.ad.programs.pointwise import pointwise
from adcompiler.ad.taylor import taylor
from adcompiler.ad.vjp import vjp
from adcompiler.ir.nodes import Array

TAYLOR = 3  # from this order on, Taylor mode has fewer operations than nested forward mode


class Modes:
    """Forward mode for derivatives by one variable, reverse mode for gradients."""

    def along(self, result: Array, tangents: Mapping[Array, Array], order: int) -> Array | None:
        if order >= TAYLOR:
            return taylor((result,), tangents, order)[0][-1]
        found: Array | None = result
        for _ in range(order):
            if found is None:
                return None
            (found,) = jvp((found,), tangents)
        return found

    def pull(self, result: Array, cotangent: Array, wanted: Sequence[Array]) -> list[Array | None]:
        return vjp((result,), (cotangent,), wanted)

    def pointwise(self, result: Array, argument: Array) -> bool:
        return pointwise(result, argument)


CALCULUS = Modes()
