"""The operators and methods of a Variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adcompiler.errors import GraphError
from adcompiler.ops.table import ALIASES, TABLE
from adcompiler.runtime import linear
from adcompiler.runtime.elementwise import apply
from adcompiler.runtime.graph import Node, Variable

Axis = int | Sequence[int] | None


def _operator(name: str) -> Callable[[Any, Any], Variable]:
    return lambda self, other: apply(name, self, other)


def _unary(name: str) -> Callable[[Any], Variable]:
    return lambda self: apply(name, self)


def _reflected(name: str) -> Callable[[Any, Any], Variable]:
    return lambda self, other: apply(name, other, self)


def _product(self: Any, other: Any) -> Variable:
    """`self * other`; a factor 1 costs nothing, for partial derivatives often are 1."""
    one = type(other) in (int, float) and other == 1 and self.differentiable
    result: Variable = self if one else apply("multiply", self, other)
    return result


def _reflected_product(self: Any, other: Any) -> Variable:
    if type(other) in (int, float) and other == 1:
        return _product(self, other)
    result: Variable = apply("multiply", other, self)
    return result


def _comparison(name: str) -> Callable[[Any, Any], np.ndarray]:
    return lambda self, other: apply(name, self, other)


def _in_place(name: str) -> Callable[[Any, Any], Variable]:
    """`x op= other` makes a new Variable, as for numbers; for a parameter that would lose its gradient."""

    def operate(self: Any, other: Any) -> Variable:
        if self.is_leaf and self.requires_grad:
            raise GraphError(
                f"{self.name} is a leaf that requires a gradient: computed anew it would be none any more, "
                "and its .grad would stay None",
                remedy=f"assign the value: {self.name}.value = {self.name}.value - step",
            )
        result: Variable = apply(name, self, other)
        return result

    return operate


class Operators(Node):
    """What can be computed from a Variable; each operation is recorded."""

    __add__, __radd__, __iadd__ = _operator("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _operator("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _product, _reflected_product, _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _operator("divide"), _reflected("divide"), _in_place("divide")
    __pow__, __rpow__, __ipow__ = _operator("power"), _reflected("power"), _in_place("power")
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _operator("remainder"), _reflected("remainder")

    # Comparisons give plain arrays: no derivative flows through them.
    __lt__, __le__ = _comparison("less"), _comparison("less_equal")
    __gt__, __ge__ = _comparison("greater"), _comparison("greater_equal")
    __eq__, __ne__ = _comparison("equal"), _comparison("not_equal")  # type: ignore[assignment]
    __hash__ = object.__hash__

    __neg__, __abs__ = _unary("negative"), _unary("abs")

    def __pos__(self: Any) -> Variable:
        found: Variable = self
        return found

    def __matmul__(self, other: Any) -> Variable:
        raise GraphError("Variables have no @ of their own", remedy=MATMUL)

    __rmatmul__ = __matmul__

    def __getitem__(self: Any, where: Any) -> Variable:
        return linear.index(self, where)

    def __setitem__(self: Any, where: Any, value: Any) -> None:
        raise GraphError(
            f"{self.name} cannot be changed in place: graphs hold its value",
            remedy="compute a new one, with adc.tape.where(mask, new, old) for some elements; "
            "a leaf can be assigned as a whole: w.value = ...",
        )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Every primitive of the rule table is a method: x.exp(), x.tanh(), x.maximum(0)."""
        if name in TABLE or name in ALIASES:
            return lambda *args: apply(name, self, *args)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def sum(self: Any, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Variable:
        """The sum over `axis`, or over all."""
        return linear.total(self, axis, keepdims, name)

    def mean(self: Any, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Variable:
        """The mean over `axis`, or over all."""
        return linear.total(self, axis, keepdims, name, mean=True)

    def expand(self: Any, *shape: int | Sequence[int]) -> Variable:
        """Repeated along axes of length 1, and along new axes in front, to `shape`."""
        return linear.expand(self, _shape_of(shape))

    def reshape(self: Any, *shape: int | Sequence[int]) -> Variable:
        """The same elements in another shape; one length may be -1."""
        return linear.reshape(self, _shape_of(shape))

    def astype(self: Any, dtype: Any) -> Variable:
        """The values as float64 or float32; other types end the derivative."""
        return linear.convert(self, dtype)

    @property
    def T(self: Any) -> Variable:  # noqa: N802, as NumPy calls it
        """The axes in reverse order."""
        return linear.transpose(self)


MATMUL = (
    'call a compiled function: adc.compile("a @ b")(a, b) is one entry of the graph; '
    "for plain arrays use .value"
)


def _shape_of(given: Sequence[Any]) -> tuple[int, ...]:
    """A shape from numbers, or from one sequence."""
    one = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
    return tuple(int(n) for n in one)
