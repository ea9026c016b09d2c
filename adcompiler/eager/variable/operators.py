"""The operators and methods of a Variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import Node, Variable, state
from adcompiler.eager.graph.views import basic, view
from adcompiler.eager.variable import linear, mutation, numpy_functions
from adcompiler.eager.variable.elementwise import apply
from adcompiler.errors import Error
from adcompiler.frames import public, shown
from adcompiler.ops.table import ALIASES, TABLE

# -- torchnames --------------------------------------------------------------------------------------
# PyTorch's names on a Variable: four that are operators here, and what to write for others.


SAME = MappingProxyType({"mul": "multiply", "sub": "subtract", "div": "divide", "neg": "negative"})

INSTEAD = MappingProxyType({
    "bmm": "x @ y", "cat": "np.concatenate([x, y])", "chunk": "np.split(x, count)", "cpu": "x itself",
    "cuda": 'adc.compile(source, backend="cuda")', "dim": "x.ndim", "double": "x.astype(np.float64)",
    "expand_as": "x.expand(y.shape)", "float": "x.astype(np.float32)",
    "fill": "x.fill_(value)",
    "gather": "np.take_along_axis(x, indices, axis)", "grad_fn": "adc.tape.show(), or adc.tape.trace()",
    "index_select": "np.take(x, indices, axis)", "long": "x.astype(np.int64)",
    "masked_fill": "np.where(mask, value, x)", "masked_fill_": "x[mask] = value", "mm": "x @ y",
    "mv": "x @ y",
    "new_zeros": "np.zeros(shape)", "numel": "x.size", "permute": "x.transpose(axes)",
    "softmax": "(x - x.logsumexp()).exp()", "split_with_sizes": "np.split(x, places)", "t": "x.T",
    "mT": "x.swapaxes(-1, -2)", "to": "x.astype(dtype)", "type": "x.dtype", "unbind": "iterate over x",
    "unsqueeze": "np.expand_dims(x, axis)", "view": "x.reshape(shape)", "view_as": "x.reshape(y.shape)",
})  # fmt: skip


def missing(kind: str, name: str) -> AttributeError:
    """The error for a name that is no attribute, with NumPy's or ours where it is PyTorch's."""
    instead = INSTEAD.get(name)
    hint = f": write {instead}" if instead else ""
    return AttributeError(f"{kind!r} object has no attribute {name!r}{hint}")


Axis = int | Sequence[int] | None


def _operator(name: str) -> Callable[[Any, Any], Variable]:
    def operator(self: Any, other: Any) -> Any:
        try:  # as `public` does, but without a call more
            return apply(name, self, other)
        except Error as error:
            raise shown(error) from error.__cause__

    return operator


def _unary(name: str) -> Callable[[Any], Variable]:
    return public(lambda self: apply(name, self))


def _reflected(name: str) -> Callable[[Any, Any], Variable]:
    def operator(self: Any, other: Any) -> Any:
        try:
            return apply(name, other, self)
        except Error as error:
            raise shown(error) from error.__cause__

    return operator


def _product(self: Any, other: Any) -> Variable:
    """`self * other`; in a propagate a factor 1 costs nothing, for partial derivatives often are 1."""
    one = state.inside is not None and type(other) in (int, float) and other == 1 and self.differentiable
    try:
        result: Variable = self if one else apply("multiply", self, other)
    except Error as error:
        raise shown(error) from error.__cause__
    return result


def _comparison(name: str) -> Callable[[Any, Any], np.ndarray]:
    return public(lambda self, other: apply(name, self, other))


def _in_place(name: str) -> Callable[..., Variable]:
    return public(lambda self, *operands: mutation.operate(self, name, *operands))


def _method(name: str, self: Any) -> Callable[..., Any]:
    def method(*args: Any) -> Any:
        try:
            return apply(name, self, *args)
        except Error as error:
            raise shown(error) from error.__cause__

    return method


class Operators(Node):
    """What can be computed from a Variable; each operation is recorded."""

    __add__, __radd__, __iadd__ = _operator("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _operator("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _product, _reflected("multiply"), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _operator("divide"), _reflected("divide"), _in_place("divide")
    __pow__, __rpow__, __ipow__ = _operator("power"), _reflected("power"), _in_place("power")
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _operator("remainder"), _reflected("remainder")
    __ifloordiv__, __imod__ = _in_place("floor_divide"), _in_place("remainder")

    __and__, __rand__ = _operator("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _operator("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _operator("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _operator("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _operator("right_shift"), _reflected("right_shift")

    # Comparisons give plain arrays: no derivative flows through them.
    __lt__, __le__ = _comparison("less"), _comparison("less_equal")
    __gt__, __ge__ = _comparison("greater"), _comparison("greater_equal")
    __eq__, __ne__ = _comparison("equal"), _comparison("not_equal")  # type: ignore[assignment]
    __hash__ = object.__hash__

    __neg__, __abs__, __invert__ = _unary("negative"), _unary("abs"), _unary("invert")

    def __pos__(self: Any) -> Variable:
        found: Variable = self
        return found

    @public
    def __matmul__(self, other: Any) -> Any:
        return numpy_functions.matmul(self, other)

    @public
    def __rmatmul__(self, other: Any) -> Any:
        return numpy_functions.matmul(other, self)

    @public
    def __getitem__(self: Any, where: Any) -> Variable:
        if not basic(where):
            return linear.index(self, where)
        return view(self, linear.part(self, where), lambda x: linear.part(x, where), where)

    @public
    def __setitem__(self: Any, where: Any, value: Any) -> None:
        mutation.assign(self, where, value)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Every primitive of the rule table is a method: x.exp(), x.exp_() in place."""
        if name in TABLE or name in ALIASES:
            return _method(name, self)
        if name.endswith("_") and (name[:-1] in TABLE or name[:-1] in ALIASES):
            return public(lambda *args: mutation.operate(self, name[:-1], *args))
        if name in numpy_functions.METHODS:
            return partial(numpy_functions.METHODS[name], self)
        same = SAME.get(name.removesuffix("_"))
        if same:
            return getattr(self, same + "_" * name.endswith("_"))  # type: ignore[no-any-return]
        raise missing(type(self).__name__, name)

    @public
    def copy_(self: Any, value: Any) -> Variable:
        """Take these values, in place."""
        return mutation.assign(self, ..., value)

    fill_ = copy_

    @public
    def zero_(self: Any) -> Variable:
        """Become zero everywhere, in place."""
        return mutation.assign(self, ..., 0)

    @public
    def sum(self: Any, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Variable:
        """The sum over `axis`, or over all."""
        return linear.total(self, axis, keepdims, name)

    @public
    def mean(self: Any, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Variable:
        """The mean over `axis`, or over all."""
        return linear.total(self, axis, keepdims, name, mean=True)

    @public
    def expand(self: Any, *shape: int | Sequence[int]) -> Variable:
        """Repeated along axes of length 1, and along new axes in front, to `shape`."""
        lengths = _shape_of(shape)
        return view(self, linear.expand(self, lengths), lambda x: linear.expand(x, lengths))

    @public
    def reshape(self: Any, *shape: int | Sequence[int]) -> Variable:
        """The same elements in another shape; one length may be -1."""
        lengths = _shape_of(shape)
        found = linear.reshape(self, lengths)
        data = vars(found).get("data")  # of what a fused function has deferred there is none yet
        if found.copies if data is None else not np.may_share_memory(data, self.data):
            return found  # of a transposed one it is a copy, as in NumPy
        return view(self, found, lambda x: linear.reshape(x, lengths))

    @public
    def astype(self: Any, dtype: Any) -> Variable:
        """The values as float64 or float32; other types end the derivative."""
        return linear.convert(self, dtype)

    @public
    def transpose(self: Any, *axes: Any) -> Variable:
        """The axes in another order, or in reverse."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return numpy_functions.moved(np.transpose, self, order) if order else self.T

    @property
    def T(self: Any) -> Variable:  # noqa: N802, as NumPy calls it
        """The axes in reverse order."""
        return view(self, linear.transpose(self), linear.transpose)


def _shape_of(given: Sequence[Any]) -> tuple[int, ...]:
    """A shape from numbers, or from one sequence."""
    one = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
    return tuple(int(n) for n in one)
