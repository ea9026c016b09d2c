"""Functions written in Python that kernels call, as loop IR: special functions (`ops/rules/series.py`,
`bessel.py`, `incomplete.py`) and routines on matrices (`kernels/routines/library.py`).

They are one source for all backends: Python runs them directly, numba compiles them, and LLVM and C translate
them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import NamedTuple

from adcompiler.loopir.nodes import Function
from adcompiler.loopir.parse import functions

SOURCES: Mapping[str, str] = {
    **{f: f"adcompiler.ops.rules.{f}" for f in ("series", "bessel", "whole")},
    "incomplete": "adcompiler.ops.rules.series adcompiler.ops.rules.incomplete",
    "library": " ".join(
        f"adcompiler.kernels.routines.{name}" for name in ("library", "decompositions", "cofactors")
    ),
}  # fmt: skip
INTRINSIC = "reduce_add"  # an instruction for compilers
MATRICES = "library"  # the module of routines on matrices
ORDER = "n"  # the parameter of a special function that is its order, an integer


class PythonModule(NamedTuple):
    """A module of functions: their definitions, and the values of its other names."""

    definitions: Mapping[str, Function]
    names: Mapping[str, object]

    def table(self, name: str) -> tuple[float, ...]:
        """A table of coefficients."""
        found = self.names[name]
        assert isinstance(found, tuple)
        return found


@cache
def source(module: str) -> PythonModule:
    """The functions of one of our modules, or of several under one name, parsed from source."""
    found = [import_module(name) for name in SOURCES[module].split()]
    made = [f for m in found for f in functions(inspect.getsource(m))]
    names = {name: value for m in found for name, value in vars(m).items()}
    return PythonModule({f.name: f for f in made if f.name != INTRINSIC}, names)


def is_special(name: str) -> bool:
    """Whether a function that a kernel calls is one of these, such as `series.digamma`."""
    return name.partition(".")[0] in SOURCES
