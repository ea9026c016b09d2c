"""The table of functions that kernels call: one row per function, with its form on each target.

The meaning of a mathematical function, its derivative, its NumPy reference and its call in a kernel are in
the rule table (`ops/`). A function that expands into others has no row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan
from typing import Literal, NamedTuple

from adcompiler.ir.types import Dtype

Result = Literal["bool", "u64", "i64", "f32", "f64", "common", "number", "float"]


class Outside(NamedTuple):
    """The value of a function below one number and above another, and a number between them.

    libmvec is slow outside: lane by lane. Tails of distributions and masked elements are often outside.
    """

    low: float
    below: float
    high: float = inf
    above: float = inf
    inside: float = 0.5


class Function(NamedTuple):
    """One function, or several of one kind.

    name       the C library's for float64; f is appended for float32; "" if there is none
    texts      its names in generated source: in `math`, in NumPy, or our own
    scalar     its scalar form in LLVM: an intrinsic, a call of the C library, an expression of our own that
               may call it, or instructions (`llvm/instructions.py`)
    libmvec    the number of arguments of the GNU C library's vector function; 0 if there is none
    inlined    whether it is expanded inline for the widest vectors (`llvm/vectormath/`)
    outside    where libmvec is slow: for float64, and for float32 if that differs
    device     how the device's `np` wraps libdevice: as it is, or leaving integers unchanged; "" where
               numba-cuda has it in `math`
    result     the type of its result: one type; the common type of two arguments; that of one number, which
               is an integer for booleans; or the common type of its arguments as floats
    cheap      whether it takes an instruction or two
    identity   for a reduction, which combines a total and a value in any order: the initial value
    horizontal LLVM's reduction of the lanes of a vector
    """

    name: str
    texts: tuple[str, ...]
    scalar: Literal["intrinsic", "library", "expression", "instruction"]
    libmvec: int = 0
    inlined: bool = False
    outside: tuple[Outside, ...] = ()
    device: Literal["float", "rounding", ""] = ""
    result: Result = "float"
    cheap: bool = False
    identity: float | None = None
    horizontal: str = ""


def _reduction(text: str, identity: float, horizontal: str) -> Function:
    return Function("", (text,), "instruction", 0, False, (), "", "common", True, identity, horizontal)


EXP = Outside(-745.25, 0.0, 709.8), Outside(-104.0, 0.0, 88.75)
EXP2 = Outside(-1075.0, 0.0, 1024.0), Outside(-150.0, 0.0, 128.0)
EXPM1 = Outside(-40.0, -1.0, 709.8), Outside(-20.0, -1.0, 88.75)
ERFC = Outside(-7.0, 2.0, 28.0, 0.0), Outside(-5.0, 2.0, 11.0, 0.0)
POSITIVE, ABOVE_MINUS_ONE = (Outside(0.0, nan),), (Outside(-1.0, nan),)
UNIT, ABOVE_ONE = (Outside(-1.0, nan, 1.0, nan),), (Outside(1.0, nan, inside=2.0),)

FUNCTIONS = (
    Function("exp", ("math.exp", "np.exp"), "intrinsic", 1, True, EXP, "float"),
    Function("exp2", ("math.exp2",), "intrinsic", 1, True, EXP2),
    Function("expm1", ("math.expm1", "np.expm1"), "library", 1, True, EXPM1, "float"),
    Function("log", ("math.log", "np.log"), "intrinsic", 1, True, POSITIVE, "float"),
    Function("log2", ("math.log2",), "library", 1, True, POSITIVE),
    Function("log10", ("math.log10",), "intrinsic", 1, True, POSITIVE),
    Function("log1p", ("math.log1p", "np.log1p"), "library", 1, True, ABOVE_MINUS_ONE, "float"),
    Function("sqrt", ("math.sqrt", "np.sqrt"), "intrinsic", device="float"),
    Function("rsqrt", ("rsqrt",), "expression", inlined=True, device="float"),
    Function("cbrt", ("np.cbrt",), "expression", 1, device="float"),
    Function("sin", ("math.sin", "np.sin"), "intrinsic", 1, True, device="float"),
    Function("cos", ("math.cos", "np.cos"), "intrinsic", 1, True, device="float"),
    Function("tan", ("math.tan", "np.tan"), "library", 1, device="float"),
    Function("asin", ("math.asin",), "library", 1, outside=UNIT),
    Function("acos", ("math.acos",), "library", 1, outside=UNIT),
    Function("atan", ("math.atan",), "library", 1),
    Function("atan2", ("math.atan2",), "library", 2),
    Function("sinh", ("math.sinh",), "library", 1, True),
    Function("cosh", ("math.cosh",), "library", 1, True),
    Function("tanh", ("math.tanh",), "library", 1),
    Function("asinh", ("math.asinh",), "library", 1),
    Function("acosh", ("math.acosh",), "library", 1, outside=ABOVE_ONE),
    Function("atanh", ("math.atanh",), "library", 1, outside=UNIT),
    Function("erf", ("math.erf",), "library", 1, True),
    Function("erfc", ("math.erfc",), "library", 1, True, ERFC),
    Function("tgamma", ("math.gamma",), "library"),
    Function("lgamma", ("math.lgamma",), "library"),
    Function("hypot", ("math.hypot",), "library", 2),
    Function("pow", (), "intrinsic", 2),
    Function("copysign", ("math.copysign", "np.copysign"), "intrinsic"),
    Function("floor", ("np.floor",), "intrinsic", device="rounding", result="number"),
    Function("ceil", ("np.ceil",), "intrinsic", device="rounding", result="number"),
    Function("trunc", ("np.trunc",), "intrinsic", device="rounding", result="number"),
    Function("rint", ("np.rint",), "intrinsic", device="rounding", result="number"),
    Function("fabs", ("abs",), "intrinsic", result="number", cheap=True),
    Function("fma", ("fma",), "intrinsic", cheap=True),
    Function("fmod", ("np.fmod",), "instruction"),
    Function("", ("np.sign",), "instruction", result="number"),
    Function("", ("np.signbit", "math.isinf", "math.isfinite"), "instruction", result="bool"),
    Function("", ("max", "min", "mul_rn", "select"), "instruction", result="common", cheap=True),
    Function("", ("uint64",), "instruction", result="u64", cheap=True),
    Function("", ("ticks",), "instruction", result="i64"),
    _reduction("reduce_add", 0.0, "fadd"),
    _reduction("reduce_max", -inf, "fmaximum"),
    _reduction("reduce_min", inf, "fminimum"),
)
CASTS: Mapping[str, Dtype] = {
    "bool": "bool", "np.bool": "bool", "int": "i64", "np.int64": "i64", "np.float32": "f32",
    "np.float64": "f64",
}  # fmt: skip
BY_TEXT = {text: function for function in FUNCTIONS for text in function.texts}
BY_NAME = {function.name: function for function in FUNCTIONS if function.name}
REDUCTIONS = {text: f.identity for text, f in BY_TEXT.items() if f.identity is not None}
INTEGER_EXTREMA = {"max": -(2**63), "min": 2**63 - 1}  # with their identities; those of floats are reductions
CHEAP = frozenset(text for text, f in BY_TEXT.items() if f.cheap)
# The names of our own, which are neither of `math` and NumPy nor Python's.
INTRINSICS = tuple(sorted(t for t in BY_TEXT if "." not in t and t not in ("abs", "max", "min", "uint64")))
