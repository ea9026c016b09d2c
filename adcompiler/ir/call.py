"""Calls of library routines: solving, factorising, and what else is no loop over a domain."""

from __future__ import annotations

from adcompiler.ir.nodes import Array, Shape
from adcompiler.ir.types import Dtype


class Call(Array):
    """`call op(%a, %b)`: a routine of the library (`ops/library.py`) on whole arrays.

    Operands are matrices, or stacks of them: their last two axes are the routine's. Of the leading axes of
    the call, its *cases*, each operand has the last ones or none; one that has fewer is shared by the rest.
    """

    __slots__ = ("op", "operands")
    fields = ("op", "operands", "dtype", "shape")
    op: str
    operands: tuple[Array, ...]
    dtype: Dtype

    @property
    def cases(self) -> Shape:
        """The leading axes: one application of the routine for each of their points."""
        return max((a.shape[:-2] for a in self.operands), key=len)
