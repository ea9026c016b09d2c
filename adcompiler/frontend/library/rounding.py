"""`round(x, decimals)`, by NumPy's formula where its scale is a float, and by Python's rule elsewhere."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adcompiler.errors import Span
from adcompiler.frontend.values.builtin_arguments import known_integer
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue, Masked, Unknown, Value, as_array, is_number
from adcompiler.ir.types import Dtype, as_float


class Floats(NamedTuple):
    """What rounding needs to know of a type of floats: the largest power of 10; up to which one all values
    whose product with it overflows are whole; the power of 10 for which every value has no more decimals;
    and, as powers of 2, from where all values are whole, and a scale that makes smaller ones so."""

    largest: int
    whole_beyond: int
    every: int
    whole: int
    fine: int


FLOATS: dict[Dtype, Floats] = {"f64": Floats(308, 290, 340, 52, 970), "f32": Floats(38, 30, 61, 23, 100)}
INTEGER_DIGITS = 18  # of integers: 10**19 is no 64-bit integer


def rounded(context: Context, x: AnyValue, decimals: AnyValue, span: Span) -> AnyValue:
    """Round to a number of decimals, or before the point if it is negative; halves round to even."""
    x, n = as_array(x), known_integer(context, "decimals", decimals, 0, span)
    if is_number(x):
        return _of_constant(x, n)
    elements = x.value if isinstance(x, Masked) else x
    dtype = elements.dtype if isinstance(elements, Value) else "f64"
    if dtype == "i64":
        return x if n >= 0 else _of_integers(context, x, -n, span)
    whole = context.elementwise("rint", (x,), span)
    if n == 0 or isinstance(whole, Unknown):
        return whole
    return _of_floats(context, x, whole, n, FLOATS[as_float(dtype)], span)


def _of_constant(x: int | float, n: int) -> int | float:
    if isinstance(x, int):
        return round(x, n)
    with np.errstate(all="ignore"):
        found = float(np.round(x, n)) if abs(n) <= FLOATS["f64"].largest else math.nan
    return found if math.isfinite(found) or not math.isfinite(x) else round(x, n)


def _of_integers(context: Context, x: AnyValue, n: int, span: Span) -> AnyValue:
    """Multiples of a power of 10, computed in integers."""

    def of(op: str, *args: AnyValue) -> AnyValue:
        return context.elementwise(op, args, span)

    if n > INTEGER_DIGITS:
        return of("multiply", x, 0)
    scale = 10**n
    quotient, rest = of("floor_divide", x, scale), of("remainder", x, scale)
    odd = of("equal", of("remainder", quotient, 2), 1)
    half = of("logical_and", of("equal", rest, scale // 2), odd)
    up = of("logical_or", of("greater", rest, scale // 2), half)
    return of("multiply", of("add", quotient, context.where(up, 1, 0, span)), scale)


def _of_floats(
    context: Context, x: AnyValue, whole: AnyValue, n: int, floats: Floats, span: Span
) -> AnyValue:
    def of(op: str, *args: AnyValue) -> AnyValue:
        return context.elementwise(op, args, span)

    if n < -floats.largest:
        return context.where(of("isfinite", x), of("multiply", whole, 0.0), whole, span)
    if n < 0:
        scale = 10.0**-n
        return of("multiply", of("rint", of("divide", x, scale)), scale)
    scaled, scales = x, []
    rest = min(n, floats.every)
    while rest > 0:
        scales.append(10.0 ** min(rest, floats.largest))
        scaled, rest = of("multiply", scaled, scales[-1]), rest - floats.largest
    found = of("rint", scaled)
    for scale in reversed(scales):
        found = of("divide", found, scale)
    # Where the product overflows, a value has no more decimals. Every path ends in `rint`, so that the
    # derivative is that of a step, 0.
    kept = whole
    if n > floats.whole_beyond:
        fine = 2.0**floats.fine
        digits = of("divide", of("rint", of("multiply", x, fine)), fine)
        kept = context.where(of("less", of("abs", x), 2.0**floats.whole), digits, whole, span)
    return context.where(of("isfinite", scaled), found, kept, span)
