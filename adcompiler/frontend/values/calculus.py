"""What lowering asks of differentiation, which is built on top of it and given to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from adcompiler.ir.nodes import Array


class Calculus(Protocol):
    """Derivatives of arrays, program to program."""

    def along(self, result: Array, tangents: Mapping[Array, Array], order: int) -> Array | None:
        """The derivative of `order` along fixed tangents of some arrays; None where it is zero."""

    def pull(self, result: Array, cotangent: Array, wanted: Sequence[Array]) -> list[Array | None]:
        """The cotangents of `wanted`; None where it is zero."""

    def pointwise(self, result: Array, argument: Array) -> bool:
        """Whether each entry of `result` depends on one entry of `argument` at most."""
