"""Forms of a function for readers: SymPy, LaTeX, and the display in notebooks."""

from __future__ import annotations

from typing import Any

from adcompiler.frames import public
from adcompiler.interpreter.to_sympy import to_sympy
from adcompiler.passes.pipeline import OPTIMISE, run
from adcompiler.pytree.structures import unflatten
from adcompiler.runtime.arguments.adapters import interop
from adcompiler.runtime.arguments.signature import FLOAT


class Displayed:
    """The forms in which a function can be shown."""

    __slots__ = ()

    def sympy(self: Any) -> Any:
        """The function of scalars as SymPy expressions in its parameters' names, nested like its result.

        Raises DtypeError for arrays, and for functions that SymPy does not have.
        """
        lowered = self._trace(tuple(FLOAT for _ in self._parameters))
        return unflatten(lowered.structure, to_sympy(run(OPTIMISE, lowered.func)))

    @public
    def latex(self: Any, *args: Any, gradient: bool = False) -> str:
        """The function in LaTeX, by SymPy: its result, or a tuple of several.

        Of an array it is the element at indices, i, j, ... from 0; reductions are sums over indices. It is
        written for arguments like `args`, else as last called, else as annotated, for scalars.

        gradient  equations instead, of the value and of the gradient by each float parameter, as the compiler
                  differentiates: in an `aligned` environment, without dollars

        Raises DtypeError for loops, scatters, routines on matrices and what SymPy does not have, LimitError
        for more than 2000 operations, ShapeError for the gradient of an array.
        """
        found: str = interop("display").formula(self, args, gradient)
        return found

    def _repr_latex_(self) -> str | None:
        """Its value and its gradient as equations, for notebooks; None where there is no such form."""
        found: str | None = interop("display").latex(self)
        return found

    def _repr_html_(self) -> str:
        """Its signature, source and equations, for notebooks."""
        return str(interop("display").html(self))
