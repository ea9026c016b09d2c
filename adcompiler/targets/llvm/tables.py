"""Operators and functions of the loop IR in LLVM, with numba's semantics."""

from __future__ import annotations

import math
from collections.abc import Mapping

from adcompiler.ir.types import Dtype
from adcompiler.loopir.intrinsics import BY_TEXT

TYPES: Mapping[Dtype, str] = {"bool": "i1", "i64": "i64", "f32": "float", "f64": "double"}
BYTES: Mapping[str, int] = {"i1": 1, "i64": 8, "float": 4, "double": 8}  # in memory
RANKS = ("i1", "i64", "float", "double")

# Functions that may become calls of vector functions.
CALLS = {text for text, f in BY_TEXT.items() if f.scalar in ("library", "expression") or f.libmvec}
FLOATS: Mapping[str, str] = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
INTEGERS: Mapping[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "ashr"
}  # fmt: skip
BITS = ("&", "|", "^")
# Of floats, of integers, and of booleans and indices.
COMPARISONS: Mapping[str, tuple[str, str, str]] = {
    "<": ("olt", "slt", "ult"), "<=": ("ole", "sle", "ule"), ">": ("ogt", "sgt", "ugt"),
    ">=": ("oge", "sge", "uge"), "==": ("oeq", "eq", "eq"), "!=": ("une", "ne", "ne"),
}  # fmt: skip
INFINITIES = (math.inf, -math.inf)
