"""Expressions, types and arrays of generated C."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from adcompiler.ir.types import Dtype
from adcompiler.loopir.types import Number

# The types of values. Only indices are unsigned; the names of the others are those of the IR.
TYPES: Mapping[Number, str] = {
    "bool": "bool", "u64": "uint64_t", "i64": "int64_t", "f32": "float", "f64": "double"
}  # fmt: skip
STORED: Mapping[Number, str] = {**TYPES, "bool": "uint8_t"}  # in memory
LETTERS: Mapping[Number, str] = {"bool": "b", "u64": "u", "i64": "i", "f32": "f", "f64": "d"}

CHOICE, OR, AND, BIT, EQUAL, LESS, SHIFT, SUM, PRODUCT, PREFIX, ATOM = range(11)  # how tightly they bind
INDEX_BITS = 48  # no loop runs longer, and no array is longer
WHOLE_BITS = 62  # what surely fits into an int64_t


class CValue(NamedTuple):
    """An expression, its type, and how tightly its operator binds. An integer is less than 2 ** `bits`."""

    text: str
    type: Number
    level: int = ATOM
    bits: int = 64
    literal: float | int | bool | None = None

    def within(self, level: int) -> str:
        """The expression, in parentheses if it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point number."""
        return self.type in ("f32", "f64")


class CArray(NamedTuple):
    """An array: the expression of its address, the type of its elements, and its lengths, which are numbers
    or names."""

    address: str
    dtype: Dtype
    lengths: tuple[str, ...]


def number(value: float | int | bool, kind: Number | None = None) -> CValue:
    """A constant; an integer is an i64, another number an f64 unless `kind` says otherwise."""
    if isinstance(value, bool):
        return CValue("true" if value else "false", "bool", literal=value)
    if isinstance(value, int) and kind in (None, "i64", "u64"):
        return CValue(_whole(value), kind or "i64", PREFIX if value < 0 else ATOM, value.bit_length(), value)
    found = float(value)
    text = _real(found, kind == "f32")
    return CValue(text, kind or "f64", PREFIX if text[0] in "-(" else ATOM, literal=found)


def _whole(value: int) -> str:
    if value == -(2**63):
        return "INT64_MIN"
    return str(value) if abs(value) < 2**31 else f"INT64_C({value})"


def _real(value: float, single: bool) -> str:
    if not math.isfinite(value):
        name = "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
        return name if single else f"(double){name}"
    if not single:
        return repr(value)
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
    return _real(float(narrow), True) if not np.isfinite(narrow) else f"{_decimal(str(narrow))}f"


def _decimal(text: str) -> str:
    """A number that C reads as floating point."""
    return text if {".", "e"} & set(text) else f"{text}.0"


def cast(value: CValue, kind: Number) -> CValue:
    """A value converted as NumPy does; a float becomes an integer by `adc_i64`, for which see `whole`."""
    if value.type == kind:
        return value
    if value.literal is not None and not (kind == "bool" or (kind in ("i64", "u64") and value.is_float)):
        return number(value.literal if kind[0] == "f" else int(value.literal), kind)
    if kind == "bool":
        zero = "0.0" if value.is_float else "0"
        return CValue(f"{value.within(LESS)} != {zero}", kind, EQUAL)
    bits = 1 if value.type == "bool" else value.bits
    return CValue(f"({TYPES[kind]}){value.within(PREFIX)}", kind, PREFIX, bits)
