"""In-place changes of Variables: the object gets a new result, and graphs keep the values they read.

Arrays that a graph or a user's view refers to are never written: the Variable gets a new array, under a new
serial number. Entries that read it before still lead to its origin. If a backward pass needs the value that
was read, the version shows that it is gone, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import (
    Cotangents,
    Entry,
    Node,
    Variable,
    is_variable,
    perform,
    refuse_packed,
    settle,
    state,
)
from adcompiler.eager.graph.provenance import begin, identity
from adcompiler.eager.graph.views import read_again, stand_for
from adcompiler.eager.variable.elementwise import apply, word
from adcompiler.eager.variable.linear import cleared, frozen, index, index_words, reduced, reshape
from adcompiler.errors import DtypeError, GraphError, OutOfRangeError, ShapeError


def operate(x: Variable, name: str, *operands: Any) -> Variable:
    """`x` becomes the primitive `name` of itself and the operands: `x += y` is add."""
    return _become(x, lambda before, values: apply(name, before, *values), operands)


def assign(x: Variable, where: Any, value: Any) -> Variable:
    """`x[where] = value`."""
    shown = value._view if is_variable(value) else None
    if shown is not None and shown.root is x and shown.where is where:  # x[where] += 1 has changed it already
        x.version += 1  # PyTorch counts the assignment, too
        return x
    return _become(x, lambda before, values: _assigned(before, where, values[0]), (value,))


def _become(
    x: Variable, compute: Callable[[Variable, Sequence[Any]], Variable], operands: Sequence[Any]
) -> Variable:
    settle()
    if state.recording and x.is_leaf and x.requires_grad:
        raise GraphError(
            f"{x.name} is a leaf that requires a gradient: an in-place change would make it computed, and "
            "its .grad would stay None",
            remedy=f"change it inside `with adc.no_grad():`, or assign the value: {x.name}.value = ...",
        )
    before, shown = _as_it_is(x), x._view
    result = compute(before, operands)  # where `x` is one of these it is read before the change
    if result.shape != x.shape or (result.differentiable and not x.differentiable):
        raise (ShapeError if result.shape != x.shape else DtypeError)(
            f"{x.name}, {x.dtype} of shape {x.shape}, cannot hold the result in place: it is {result.dtype} "
            f"of shape {result.shape}",
            remedy="compute a new Variable: x = x + y",
        )
    result = result.astype(x.dtype)
    if shown is not None:
        assign(shown.root, shown.places(), result)  # of which `x` is read again
        return x
    x.change(result.data)
    if state.recording:
        stand_for(x, result)
    elif not x.needs_grad:
        begin(x, "no_grad", [before, *filter(is_variable, operands)])
    read_again(x, state.recording)
    return x


def _as_it_is(x: Variable) -> Variable:
    """A Variable that stands for `x` before the change."""
    before = Node.kind.made(x.data, x.name)
    before.serial, before.entry, before.needs_grad = x.serial, x.entry, x.needs_grad
    before.origin = x.origin
    return before


WHOLE = slice(None)


class Assignment(Entry):
    """A Variable of which some elements are replaced; it is linear, so its adjoint reads no values."""

    __slots__ = ("given", "value", "where")

    def __init__(self, before: Variable, where: Any, value: Any) -> None:
        super().__init__([before, value] if is_variable(value) else [before])
        self.where = where
        self.given: Sequence[Any] = () if is_variable(value) else [identity(value)]
        self.value = word(value)

    @property
    def holds(self) -> bool:  # type: ignore[override]
        """Whether a backward pass frees it: where a part was replaced, as in PyTorch. A buffer that is filled
        again and again does not keep all graphs before."""
        return not (self.where is Ellipsis or (type(self.where) is slice and self.where == WHOLE))

    def clear(self) -> None:
        self.where = None

    def propagate(self, cotangents: Cotangents, wanted: Sequence[bool]) -> Cotangents:
        (g,) = cotangents
        assert g is not None
        found: Cotangents = [cleared(g, self.where) if wanted[0] else None]
        if len(self.inputs) == 2:
            found.append(self._of_value(g) if wanted[1] else None)
        return found

    def _of_value(self, g: Variable) -> Variable:
        """What was assigned last counts, where an index names an element more than once."""
        part = index(g, self.where)
        order = np.arange(part.size).reshape(part.shape)
        last = np.zeros(g.shape, int)
        last[self.where] = order
        lost = last[self.where] != order
        part = cleared(part, lost) if np.any(lost) else part
        shape = self.inputs[1].shape
        return reshape(reduced(part, _trimmed(shape, part.ndim)), shape)

    def right(self) -> str:
        return f"{self.inputs[0].name}.assigned([{index_words(self.where)}], {self.value})"


def _trimmed(shape: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """A shape without leading axes of length 1 beyond `ndim`: NumPy ignores them in assignments."""
    return shape[max(len(shape) - ndim, 0) :]


def _assigned(before: Variable, where: Any, value: Any) -> Variable:
    """`before`, with `value` at `where`."""
    where = frozen(where)
    refuse_packed("the assigned value", value)
    plain = value.data if is_variable(value) else np.asarray(value)
    if plain.dtype.kind not in "biuf":
        raise DtypeError(f"{before.name} is assigned a {type(value).__name__}", remedy="assign real numbers")
    if is_variable(value) and value.differentiable and not before.differentiable:
        raise DtypeError(f"{before.name} holds {before.dtype}, not floats", remedy="start with floats")
    data = before.data.copy()
    try:
        data[where] = plain
    except ValueError as error:
        raise ShapeError(f"{before.name}: {error}", remedy="match the shape of its place") from error
    except (IndexError, TypeError) as error:
        raise OutOfRangeError(
            f"{before.name} of shape {before.shape}: {error}", remedy="index by integers, slices, or arrays"
        ) from error
    return perform(Assignment(before, where, value), [data], [before.name])[0]
