"""Notation shared by the printer and the reader of the text form: operators, words, numbers, types."""

from __future__ import annotations

import json
import math
import re
from typing import Final, NamedTuple

import numpy as np

from adcompiler.ir.nodes import Const, Element, const
from adcompiler.ir.types import DTYPES, Dtype


class Operator(NamedTuple):
    """An operator: its symbol, how tightly it binds, and how tightly its operands must."""

    symbol: str
    level: int
    left: int
    right: int


OR, AND, NOT, COMPARE, SUM, PRODUCT, SIGN, POWER, ATOM = range(9)

COMPARISONS: Final = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}
BINARY: Final = {
    "logical_or": Operator("or", OR, OR, AND),
    "logical_and": Operator("and", AND, AND, NOT),
    **{op: Operator(symbol, COMPARE, SUM, SUM) for op, symbol in COMPARISONS.items()},
    "add": Operator("+", SUM, SUM, PRODUCT),
    "subtract": Operator("-", SUM, SUM, PRODUCT),
    "multiply": Operator("*", PRODUCT, PRODUCT, SIGN),
    "divide": Operator("/", PRODUCT, PRODUCT, SIGN),
    "power": Operator("**", POWER, ATOM, SIGN),
}
PREFIX: Final = {
    "logical_not": Operator("not ", NOT, NOT, NOT),
    "negative": Operator("-", SIGN, SIGN, SIGN),
}
BOOLEAN: Final = frozenset((*COMPARISONS, "logical_or", "logical_and", "logical_not", "logical_xor",
                            "isnan", "isinf", "isfinite"))  # fmt: skip

WORDS: Final = frozenset(("and", "or", "not", "true", "false", "inf", "inff", "nan", "nanf", "select"))
IDENTIFIER: Final = r"[^\W\d]\w*"
ARRAY_NAME: Final = r"[\w.]+"
FUNC_NAME: Final = r"[\w.]+(?:\[[-\w|]*\])?"
NUMBER: Final = r"(?:(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf)f?|nanf?(?::0x[0-9a-f]+)?)(?![\w.])"
NAN_BITS: Final = {"f64": 0x7FF8 << 48, "f32": 0x7FC0 << 16}


def apply_dtype(op: str, args: tuple[Element, ...]) -> Dtype | None:
    """The type of `op` on `args` as the text means it when it does not say."""
    if op in BOOLEAN:
        return "bool"
    if op in DTYPES:
        return DTYPES[DTYPES.index(op)]
    return args[0].dtype if args else None


def word(name: str, pattern: str = IDENTIFIER) -> str:
    """`name` as it is printed: in quotes where it would be read as something else."""
    reserved = pattern == IDENTIFIER and name in WORDS
    return name if re.fullmatch(pattern, name) and not reserved else json.dumps(name)


def constant_text(constant: Const) -> str:
    """The shortest number that reads back as the same bits."""
    value, suffix = constant.value, "f" if constant.dtype == "f32" else ""
    if constant.dtype == "bool":
        return "true" if value else "false"
    if constant.dtype == "i64":
        return str(value)
    if math.isnan(value):
        bits = int.from_bytes(constant.bits, "little")
        return f"nan{suffix}" if bits == NAN_BITS[constant.dtype] else f"nan{suffix}:0x{bits:x}"
    return f"{np.float32(value) if suffix else value!s}{suffix}"


def read_constant(text: str) -> Const:
    """The constant that `text` (a `NUMBER`, perhaps with a sign) stands for."""
    digits, _, bits = text.partition(":")
    single = digits.endswith("f") and not digits.endswith("inf")
    digits = digits[:-1] if single else digits
    dtype: Dtype = "f32" if single else "i64" if re.fullmatch(r"-?\d+", digits) else "f64"
    if digits == "nan":
        pattern = int(bits, 16) if bits else NAN_BITS[dtype]
        return Const(dtype, pattern.to_bytes(4 if single else 8, "little"))
    return const(int(digits) if dtype == "i64" else float(digits), dtype)
