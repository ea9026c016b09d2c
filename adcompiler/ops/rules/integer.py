"""Operators on the bits of integers (two's complement): no derivatives."""

from __future__ import annotations

from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.rules.shorthand import entry


def _bits(name: str, params: str, doc: str, kernel: str) -> Primitive:
    return entry(name, params, (), doc, kind="integer", kernel=kernel, sympy=None)


# A shift by more than the width is undefined in machine code; NumPy shifts every bit out.
INTEGER = (
    _bits("bitwise_and", "x y", "The bits set in both.", "{x} & {y}"),
    _bits("bitwise_or", "x y", "The bits set in either.", "{x} | {y}"),
    _bits("bitwise_xor", "x y", "The bits set in exactly one.", "{x} ^ {y}"),
    _bits("left_shift", "x y", "x shifted left by y bits; 0 unless 0 <= y < 64.",
          "{x} << {y} if 0 <= {y} < 64 else 0"),
    _bits("right_shift", "x y", "x shifted right by y bits; 0 or -1 unless 0 <= y < 64.",
          "{x} >> ({y} if 0 <= {y} < 64 else 63)"),
    _bits("invert", "x", "Every bit flipped.", "~{x}"),
)  # fmt: skip
