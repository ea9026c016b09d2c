"""The text of reductions: what they start from, and one step of them."""

from __future__ import annotations

from adcompiler.codegen.writer import zero
from adcompiler.ir.nodes import Array, Reduce
from adcompiler.ir.types import is_float
from adcompiler.loopir.precedence import PRODUCT, SIGN, TERNARY
from adcompiler.loopir.printer import text


def neutral(array: Array) -> str:
    """The value that a reduction starts from."""
    if not isinstance(array, Reduce) or array.op == "sum":
        return text(zero(array.dtype))
    if array.op == "prod":
        return "np.float32(1)" if array.dtype == "f32" else "1.0" if array.dtype == "f64" else "1"
    sign = "-" if array.op == "max" else ""
    if not is_float(array.dtype):
        return "np.int64(-(2**63))" if sign else "np.int64(2**63 - 1)"
    return f"np.float32({sign}math.inf)" if array.dtype == "f32" else f"{sign}math.inf"


def operand_level(array: Reduce) -> int:
    """How tightly a reduction's operand must bind in `update`."""
    if array.op == "prod":
        return SIGN
    return TERNARY if is_float(array.dtype) else PRODUCT


def update(array: Array, total: str, value: str, fixed: bool = False) -> str:
    """One step of a reduction; sums of floats may be reassociated by the vectoriser unless `fixed`."""
    assert isinstance(array, Reduce)
    if array.op == "sum":
        reassociated = is_float(array.dtype) and not fixed
        return f"reduce_add({total}, {value})" if reassociated else f"{total} + {value}"
    if array.op == "prod":
        return f"{total} * {value}"
    return f"{'reduce_' if is_float(array.dtype) else ''}{array.op}({total}, {value})"
