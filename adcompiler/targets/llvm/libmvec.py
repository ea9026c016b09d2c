"""Vector functions of the C library: glibc's libmvec, on x86-64.

A function of eight numbers at once costs little more than of one. libmvec has errors of at most 4 ulp and
leaves `errno` alone; docs/accuracy.md lists measurements. The most common functions on the widest vectors are
our own instead, under libmvec's names until they are inlined (`vectormath/second_pass.py`). Where libmvec is
missing (other processors, musl, macOS, Windows) kernels call the scalar functions.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from adcompiler.loopir.intrinsics import BY_NAME

LIBRARY = "libmvec.so.1"
# The letter of an instruction set in the names of vector functions, its CPU features, and its vector bits.
SETS = (("e", ("avx512f", "avx512dq", "avx512vl"), 512), ("d", ("avx2", "fma"), 256))
SIZES = {"double": 64, "float": 32}


class Set(NamedTuple):
    """The vectors of a processor: their letter and width in bits."""

    letter: str
    bits: int

    def lanes(self, kind: str) -> int:
        """The number of lanes of LLVM type `kind`."""
        return self.bits // SIZES[kind]

    def has(self, name: str) -> bool:
        """Whether only we provide the vector function."""
        function = BY_NAME[name]
        return function.inlined and not function.libmvec and self.letter == "e"

    def symbol(self, name: str, kind: str) -> str:
        """The name of a vector function: our own, or libmvec's by the x86-64 vector ABI."""
        if self.has(name):
            return f"adc_{name}_v{self.lanes(kind)}f{SIZES[kind]}"
        suffix = "" if kind == "double" else "f"
        return f"_ZGV{self.letter}N{self.lanes(kind)}{'v' * BY_NAME[name].libmvec}_{name}{suffix}"


WIDEST = Set("e", 512)  # AVX-512


def vectors() -> Set | None:
    """The widest vectors of this processor for which the C library has functions; None if there are none.

    The environment variable ADC_VECTOR_MATH overrides this: "0" for none, "256" for at most 256 bits.
    """
    return _found(os.environ.get("ADC_VECTOR_MATH", ""))


@cache
def _found(wanted: str) -> Set | None:
    from llvmlite import binding as llvm

    if wanted == "0" or not sys.platform.startswith("linux"):
        return None
    with suppress(RuntimeError):  # no such library, or a processor unknown to LLVM
        llvm.load_library_permanently(LIBRARY)
        features = llvm.get_host_cpu_features()
        for letter, needed, bits in SETS:
            if all(features.get(f) for f in needed) and not (wanted.isdigit() and bits > int(wanted)):
                return Set(letter, bits)
    return None


def known(found: Set, name: str, kind: str) -> bool:
    """Whether a vector function exists; old C libraries have few."""
    from llvmlite import binding as llvm

    if not BY_NAME[name].libmvec:
        return found.has(name)
    return bool(llvm.address_of_symbol(found.symbol(name, kind)))
