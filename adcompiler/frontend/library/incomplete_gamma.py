"""The incomplete gamma and beta functions: `gammainc`, `gammaincc` and `betainc`, in `prelude.py`'s text.

Their series and fractions are loops that are differentiated as any other, so there are derivatives by all
parameters, to any order. All is computed in float64; points outside of the domain give NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from adcompiler.errors import Span
from adcompiler.frontend.library.prelude import called
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, taking
from adcompiler.frontend.values.operations import Context, over
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.types import as_float
from adcompiler.ops.build import cast


def _of(name: str, text: str, *more: AnyValue) -> Callable[..., AnyValue]:
    def operation(context: Context, *given: Any) -> AnyValue:
        *args, span = given
        values = [rearranging.array(context, name, x, span) for x in args]
        dtype, weak = context.meet(values)
        shape = context.broadcast(name, values, span)
        wide = [Value(shape, over(v, shape, "f64")) for v in values]
        inside = _inside(context, wide, span)
        found = called(context, text, [*inside, *more], span)
        return Value(found.shape, cast(found.element, as_float(dtype)), weak)

    return operation


def _inside(context: Context, values: list[Value], span: Span) -> list[Value]:
    """The arguments as arrays of their own, for loops read them again and again."""
    return [context.bind(f"x{k}", value, span) for k, value in enumerate(values)]


_OPERATIONS: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "gammainc": (("a", "x"), _of("gammainc", "gammainc", False)),
    "gammaincc": (("a", "x"), _of("gammaincc", "gammainc", True)),
    "betainc": (("a", "b", "x"), _of("betainc", "betainc")),
}
INCOMPLETE: Mapping[str, Builtin] = MappingProxyType(
    {name: taking(name, params, operation) for name, (params, operation) in _OPERATIONS.items()}
)
