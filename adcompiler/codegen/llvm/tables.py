"""What the operators and functions of generated source are in LLVM: numba's choice for each."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping

from adcompiler.codegen.functions import BY_TEXT
from adcompiler.ir.types import Dtype

TYPES: Mapping[Dtype, str] = {"bool": "i1", "i64": "i64", "f32": "float", "f64": "double"}
BYTES: Mapping[str, int] = {"i1": 1, "i64": 8, "float": 4, "double": 8}  # in memory
RANKS = ("i1", "i64", "float", "double")

# Functions written in Python (`routines.py`): the first part of their names in kernels, and where they stand.
SOURCES: Mapping[str, str] = {
    **{f: f"adcompiler.ops.{f}" for f in ("series", "bessel", "whole")},
    "library": "adcompiler.codegen.library adcompiler.codegen.decompositions",
}  # fmt: skip
# What may become a call of a function of vectors.
CALLS = {text for text, f in BY_TEXT.items() if f.scalar != "intrinsic" or f.libmvec}
CASTS: Mapping[str, str] = {
    "bool": "i1", "np.bool": "i1", "np.int64": "i64", "np.float32": "float", "np.float64": "double"
}  # fmt: skip
FLOATS: Mapping[type[ast.operator], str] = {
    ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"
}  # fmt: skip
INTEGERS: Mapping[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "ashr",
}  # fmt: skip
BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)
# Of floats, of integers, and of truth values and indices.
COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str, str]] = {
    ast.Lt: ("olt", "slt", "ult"), ast.LtE: ("ole", "sle", "ule"), ast.Gt: ("ogt", "sgt", "ugt"),
    ast.GtE: ("oge", "sge", "uge"), ast.Eq: ("oeq", "eq", "eq"), ast.NotEq: ("une", "ne", "ne"),
}  # fmt: skip
CONSTANTS: Mapping[str, float] = {
    f"{module}.{name}": getattr(math, name) for module in ("math", "np") for name in ("inf", "nan", "pi")
}
LIMITS: Mapping[str, int] = {"-2 ** 63": -(2**63), "2 ** 63 - 1": 2**63 - 1}
INFINITIES = (math.inf, -math.inf)
