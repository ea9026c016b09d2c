"""The types of arrays in memory: a store, and an update such as `x += v`, converts to the type of the array.

Arrays made by `zeros(n)` and its kin without `dtype=` have no type of their own: they take that of what is
stored.
"""

from __future__ import annotations

from dataclasses import replace

from adcompiler.errors import DtypeError, Span
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue, Masked, Value, is_number
from adcompiler.ir.types import Dtype, is_float
from adcompiler.ops.build import cast


def type_in_memory(array: AnyValue) -> Dtype | None:
    """The type that an array keeps; None if it has none of its own."""
    if not isinstance(array, Value) or array.held is None:
        return None
    kept = array.held.storage.dtype
    return kept if kept == array.dtype else None


def as_stored(array: AnyValue, value: AnyValue) -> AnyValue:
    """A value as an array keeps it; a float stays one, which arrays of integers refuse."""
    kept = type_in_memory(array)
    if kept is None:
        return value
    if isinstance(value, Masked):
        return replace(value, value=as_stored(array, value.value))
    if is_number(value):
        return bool(value) if kept == "bool" and isinstance(value, int) else value
    if not isinstance(value, Value) or (is_float(value.dtype) and not is_float(kept)):
        return value
    return Value(value.shape, cast(value.element, kept), value.weak and value.dtype == kept, value.held)


def as_updated(context: Context, array: AnyValue, value: AnyValue, span: Span) -> AnyValue:
    """The value of an array after `array op= ...`, whose result is `value`."""
    kept = type_in_memory(array)
    if kept is None or not isinstance(value, Value) or kept == value.dtype:
        return value
    if not is_float(kept):
        cause = f"this changes an array of {kept} to one of {value.dtype}, which NumPy refuses"
        context.fail(DtypeError, cause, span, "write x = x + ..., or start from an array of that type")
    return as_stored(array, value)
