"""Functions on vectors that the C library has: glibc's libmvec, on x86-64.

A function of eight numbers at once costs little more than of one. libmvec has no more than 4 ulp of error
and leaves `errno` alone; docs/accuracy.md has what was measured. The most usual functions of the widest
vectors are our own instead, under libmvec's names until they are inlined (`llvm/second.py`). Where it is
missing (other processors, musl, macOS, Windows) kernels call the scalar functions.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from math import inf, nan
from typing import NamedTuple

LIBRARY = "libmvec.so.1"
# The C names of the functions, and how many arguments they take; those of float32 end in f.
FUNCTIONS: Mapping[str, int] = {
    **dict.fromkeys(
        ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh",
         "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "cbrt", "erf", "erfc"), 1
    ),
    **dict.fromkeys(("pow", "atan2", "hypot"), 2),
}  # fmt: skip
# Functions of our own for the longest vectors (`llvm/newton.py`).
OWN = frozenset(("rsqrt",))


class Outside(NamedTuple):
    """What a function is below one number and above another, and a number between them.

    libmvec is slow there: lane by lane. Tails of distributions and masked elements are often there.
    """

    low: float
    below: float
    high: float = inf
    above: float = inf
    inside: float = 0.5


# For float64, and for float32 if that differs; float32 has all numbers that stand here for it.
OUTSIDE: Mapping[str, tuple[Outside, ...]] = {
    "exp": (Outside(-745.25, 0.0, 709.8), Outside(-104.0, 0.0, 88.75)),
    "exp2": (Outside(-1075.0, 0.0, 1024.0), Outside(-150.0, 0.0, 128.0)),
    "expm1": (Outside(-40.0, -1.0, 709.8), Outside(-20.0, -1.0, 88.75)),
    "erfc": (Outside(-7.0, 2.0, 28.0, 0.0), Outside(-5.0, 2.0, 11.0, 0.0)),
    **dict.fromkeys(("log", "log2", "log10"), (Outside(0.0, nan),)),
    "log1p": (Outside(-1.0, nan),),
    **dict.fromkeys(("asin", "acos", "atanh"), (Outside(-1.0, nan, 1.0, nan),)),
    "acosh": (Outside(1.0, nan, inside=2.0),),
}
# The letter of an instruction set in the names of vector functions, what it needs, and its bits.
SETS = (("e", ("avx512f", "avx512dq", "avx512vl"), 512), ("d", ("avx2", "fma"), 256))
SIZES = {"double": 64, "float": 32}


class Set(NamedTuple):
    """The vectors of a processor: their letter, and how many bits they have."""

    letter: str
    bits: int

    def lanes(self, kind: str) -> int:
        """How many numbers of LLVM's type `kind` a vector has."""
        return self.bits // SIZES[kind]

    def has(self, name: str) -> bool:
        """Whether there is a function of our own."""
        return name in OWN and self.letter == "e"

    def symbol(self, name: str, kind: str) -> str:
        """The name of a function of vectors: our own, or that in libmvec by the vector ABI of x86-64."""
        if self.has(name):
            return f"adc_{name}_v{self.lanes(kind)}f{SIZES[kind]}"
        suffix = "" if kind == "double" else "f"
        return f"_ZGV{self.letter}N{self.lanes(kind)}{'v' * FUNCTIONS[name]}_{name}{suffix}"


WIDEST = Set("e", 512)  # AVX-512


def vectors() -> Set | None:
    """The widest vectors of this processor for which the C library has functions; None if there are none.

    The environment variable ADC_VECTOR_MATH says otherwise: "0" for none, "256" for no wider ones.
    """
    return _found(os.environ.get("ADC_VECTOR_MATH", ""))


@cache
def _found(wanted: str) -> Set | None:
    from llvmlite import binding as llvm

    if wanted == "0" or not sys.platform.startswith("linux"):
        return None
    with suppress(RuntimeError):  # the C library has none, or LLVM does not know the processor
        llvm.load_library_permanently(LIBRARY)
        features = llvm.get_host_cpu_features()
        for letter, needed, bits in SETS:
            if all(features.get(f) for f in needed) and not (wanted.isdigit() and bits > int(wanted)):
                return Set(letter, bits)
    return None


def known(found: Set, name: str, kind: str) -> bool:
    """Whether there is a function of vectors; old C libraries have few."""
    from llvmlite import binding as llvm

    return found.has(name) or (name in FUNCTIONS and bool(llvm.address_of_symbol(found.symbol(name, kind))))
