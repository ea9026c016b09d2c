"""The names that generated modules import and define: what a user's name cannot be (`names.py`)."""

from __future__ import annotations

from adcompiler.loopir.intrinsics import INTRINSICS

NUMBA = ("carray", "njit", "types", "uint64")
SPECIAL = ("bessel", "series")
CUDA = (
    "add_rn", "bessel", "cuda", "div_rn", "fma", "math", "mul_rn", "narrow", "np", "reduce_add", "reduce_max",
    "reduce_min", "rsqrt", "select", "series", "sub_rn", "uint64", "wide",
    *(f"_{team}_{what}" for team in ("block", "warp") for what in ("max", "min", "prod", "sum", "sync")),
)  # fmt: skip
DEFINED = ("call", "cfunc", "entry", "int64", "jit", "kernel", "need", "parallel", "prange", "scalars")
PYTHON = (
    "False", "None", "True", "abs", "bool", "float", "int", "len", "max", "min", "print", "range", "round",
)  # fmt: skip
RESERVED = frozenset((*NUMBA, *INTRINSICS, *SPECIAL, *CUDA, *DEFINED, *PYTHON))
