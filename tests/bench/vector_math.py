"""glibc's vector mathematics inside loops that numba compiles.

numba's wheels bring no vector library, so `math.exp` in a loop runs one lane at a time. LLVM's vectoriser
replaces a scalar call by a vector function if the call says which ones there are, in the attribute
"vector-function-abi-variant". libmvec, a part of glibc on x86-64, has such functions for 2, 4 and 8 lanes.
Where there is none, the functions here are those of `math`, with the same results to a few ulp.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from llvmlite.ir.instructions import CallInstrAttributes
from numba import njit
from numba.extending import intrinsic

REGISTERS = {"b": 16, "d": 32, "e": 64}  # letters of the vector ABI (SSE, AVX2, AVX-512) and bytes
PURE = ("nounwind", "memory(none)", "willreturn")  # else the vectoriser must keep every call


class Verbatim(CallInstrAttributes):
    """Attributes of a call, printed as they are: llvmlite refuses those that it does not know."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__()
        self.texts = texts

    def __bool__(self) -> bool:
        return bool(self.texts)

    def _to_list(self, *args: Any) -> list[str]:
        return super()._to_list(*args) + self.texts


def available() -> bool:
    """Whether libmvec can be loaded."""
    try:
        llvm.load_library_permanently("libmvec.so.1")
        ctypes.CDLL("libm.so.6")
    except (RuntimeError, OSError):
        return False
    return True


def variants(module: ir.Module, element: ir.Type, scalar: str, stem: str) -> str:
    """Declare the vector forms of a function and name them as the attribute does.

    The declarations are of use only when the vectoriser runs, long after unused ones are dropped: a global
    that must be kept refers to each.
    """
    found = []
    for letter, width in REGISTERS.items():
        lanes = width // (4 if isinstance(element, ir.FloatType) else 8)
        symbol = f"_ZGV{letter}N{lanes}v_{stem}"
        if symbol not in module.globals:
            vector = ir.VectorType(element, lanes)
            declared = ir.Function(module, ir.FunctionType(vector, [vector]), symbol)
            keep = ir.GlobalVariable(module, declared.type, f".keep.{symbol}")
            keep.initializer, keep.linkage = declared, "weak_odr"
        found.append(f"_ZGV_LLVM_N{lanes}v_{scalar}({symbol})")
    return ",".join(found)


def vectorised(name: str) -> Callable[[Any], Any]:
    """A function of one number for numba code, whose calls in loops become vector calls."""
    libm = ctypes.CDLL("libm.so.6")
    for stem in (name, f"{name}f"):
        # LLVM knows `exp` and would make an intrinsic of it, which is taken apart into lanes again.
        llvm.add_symbol(f"bench_{stem}", ctypes.cast(getattr(libm, stem), ctypes.c_void_p).value)

    @intrinsic
    def call(typing: Any, x: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element = args[0].type
            stem = name + ("f" if isinstance(element, ir.FloatType) else "")
            scalar, module = f"bench_{stem}", builder.module
            known = module.globals.get(scalar)
            function = known or ir.Function(module, ir.FunctionType(element, [element]), scalar)
            result = builder.call(function, args)
            forms = variants(module, element, scalar, stem)
            result.attributes = Verbatim([f'"vector-function-abi-variant"="{forms}"', *PURE])
            return result

        return x(x), lower

    return call


def function(name: str) -> Callable[[Any], Any]:
    """`name` of libm, on vectors where it can be."""
    return vectorised(name) if AVAILABLE else njit(getattr(math, name))


AVAILABLE = available()
exp, log, sin, cos = function("exp"), function("log"), function("sin"), function("cos")
erf, tanh = function("erf"), function("tanh")
