"""Types in signatures of public functions that Python's annotations cannot say, each with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

# Numbers, arrays of any library, Variables, pairs, and containers of these: their classes belong to libraries
# that need not be installed. Results nest like arguments, which no annotation follows.
Values: TypeAlias = Any

# Compiled functions, and those of Python, numba and SymPy: they have no class in common.
AnyFunction: TypeAlias = Any

# What another library takes or returns, such as SciPy's options: it is imported when it is needed, and its
# types belong to it.
Foreign: TypeAlias = Any

# By which parameters a function is differentiated: their names or positions; None for all that are floats.
Wrt: TypeAlias = str | int | Sequence[str | int] | None
