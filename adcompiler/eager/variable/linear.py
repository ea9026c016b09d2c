"""Operations on Variables that only move or add values. They are linear, so their adjoints read no values.

Each is the adjoint of another: sum and expand, index and scatter (reads become writes), reshape
and transpose of themselves. Together they are closed under differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import Cotangents, Entry, Variable, is_variable, perform, state
from adcompiler.errors import OutOfRangeError, ShapeError
from adcompiler.runtime.arguments.refused import refuse_masked

Shape = tuple[int, ...]
Shown = Callable[[], np.ndarray] | None
LazyText = str | Callable[[], str]  # how a trace shows what becomes of the input


class Linear(Entry):
    """A linear operation: `pull` takes a cotangent of the output to that of the input."""

    __slots__ = ("holds", "pull", "words")

    def __init__(
        self, x: Variable, words: LazyText, pull: Callable[[Variable], Variable] | None, holds: bool = False
    ) -> None:
        super().__init__([x])
        self.words, self.pull, self.holds = words, pull, holds

    def clear(self) -> None:
        self.pull = None

    def propagate(self, cotangents: Cotangents, wanted: Sequence[bool]) -> Cotangents:
        assert cotangents[0] is not None
        assert self.pull is not None
        return [self.pull(cotangents[0])]

    def right(self) -> str:
        words = self.words if isinstance(self.words, str) else self.words()
        return f"{self.inputs[0].name}{words}"


def _linear(
    x: Variable,
    words: LazyText,
    data: Any,
    pull: Callable[[Variable], Variable],
    name: str | None = None,
    holds: bool = False,
) -> Variable:
    return perform(Linear(x, words, pull, holds), [data], [name])[0]


def total(
    x: Variable,
    axis: int | Sequence[int] | None,
    keepdims: bool = False,
    name: str | None = None,
    mean: bool = False,
) -> Variable:
    """The sum (or mean) over some axes, or all; its adjoint writes to every element that it read."""
    axes = _axes(x, axis)
    if state.fusing is not None and (axis is None or axes):
        static = None if axis is None else axes, bool(keepdims), mean
        if (later := state.fusing.take(".total", static, (x,), called=name)) is not None:
            return later
    shape, kept = x.shape, tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    options = [f"axis={axis}"] * (axis is not None) + ["keepdims=True"] * keepdims
    whole = axis is None and not keepdims  # a scalar expands to any shape at once
    data = x.data.sum(axis=axes, keepdims=keepdims)
    count = x.size / data.size if mean and data.size else 1.0

    def pull(g: Variable) -> Variable:
        back = expand(g if whole or keepdims else reshape(g, kept), shape)
        return back if count == 1 else back * (1 / count if count else np.nan)

    words = f".{'mean' if mean else 'sum'}({', '.join(options)})"
    with np.errstate(all="ignore"):
        return _linear(x, words, data / count if mean else data, pull, name)


def clone(x: Variable) -> Variable:
    """Another Variable with the same value."""
    if state.fusing is not None and (later := state.fusing.take(".clone", None, (x,))) is not None:
        return later
    dense = x.data.flags.forc  # a part of an array is copied, so that what is viewed of the clone is its own
    return _linear(x, ".clone()", x.data if dense else x.data.copy(), lambda g: g)


def expand(x: Variable, shape: Shape) -> Variable:
    """`x` repeated along axes of length 1 and leading new axes; its adjoint sums over exactly those."""
    if x.shape == shape:
        return x
    if state.fusing is not None and (later := state.fusing.expand(x, shape)) is not None:
        return later
    try:
        data = np.broadcast_to(x.data, shape)
    except ValueError:
        raise ShapeError(
            f"{x.name} of shape {x.shape} does not expand to {shape}",
            remedy="only an axis of length 1 can be expanded; new axes are added in front",
        ) from None
    before = x.shape
    return _linear(x, lambda: f".expand({_sizes(shape)})", data, lambda g: reduced(g, before))


def reduced(x: Variable, shape: Shape) -> Variable:
    """The adjoint of broadcasting from `shape`: `x` summed over exactly the axes that were expanded."""
    if x.shape == shape:
        return x
    new = x.ndim - len(shape)
    gone = [k for k in range(x.ndim) if k < new or (shape[k - new] == 1 != x.shape[k])]
    axis = None if len(gone) == x.ndim else gone[0] if len(gone) == 1 else gone
    summed = total(x, axis)
    return reshape(summed, shape)


def reshape(x: Variable, shape: Shape) -> Variable:
    """The same elements in another shape; one length may be -1."""
    if x.shape == shape:
        return x
    if state.fusing is not None and (later := state.fusing.reshape(x, shape)) is not None:
        return later
    try:
        data = x.data.reshape(shape)
    except ValueError:
        raise ShapeError(
            f"{x.name} of shape {x.shape} has {x.size} elements: they do not fill {shape}",
            remedy="the product of the lengths must stay the same; one of them may be -1",
        ) from None
    before = x.shape
    after: Shape = data.shape
    return _linear(x, lambda: f".reshape({_sizes(after)})", data, lambda g: reshape(g, before))


def transpose(x: Variable) -> Variable:
    """The axes in reverse order."""
    if x.ndim < 2:
        return x
    if state.fusing is not None and (later := state.fusing.take(".transpose", None, (x,))) is not None:
        return later
    return _linear(x, ".T", x.data.T, transpose)


def convert(x: Variable, dtype: Any) -> Variable:
    """The values in another type; a cotangent comes back in the type of `x`."""
    kind, before = np.dtype(dtype), x.dtype
    if kind == before:
        return x
    return _linear(x, f".astype({kind.name})", x.data.astype(kind), lambda g: convert(g, before))


def index(x: Variable, where: Any, moves: bool = False, shown: Shown = None) -> Variable:
    """`x[where]`, indexed as NumPy does; its adjoint adds to the elements that were read.

    Where that only `moves` elements to known places, the places are kept for another backward pass. `shown`
    gives the result as NumPy's view of an array: what is viewed in turn, or copied, follows from its strides.
    """
    where = frozen(where)
    if state.fusing is not None and (later := state.fusing.index(x, where)) is not None:
        return later
    try:
        data = np.array(x.data[where]) if shown is None else shown()
    except (IndexError, TypeError) as error:
        raise OutOfRangeError(
            f"{x.name} of shape {x.shape}: {error}", remedy="index by integers, slices, arrays or masks"
        ) from error
    shape, holds = x.shape, has_arrays(where) and not moves
    return _linear(
        x,
        lambda: f"[{index_words(where)}]",
        data,
        lambda g: scatter(g, where, shape, moves),
        holds=holds,
    )


def part(x: Variable, where: Any) -> Variable:
    """`x[where]` for an index without arrays: a view, with the strides of one."""
    return index(x, where, shown=lambda: np.asarray(x.data[where]))


def scatter(x: Variable, where: Any, shape: Shape, moves: bool = False) -> Variable:
    """Zeros of `shape` to which `x` is added at `where`: the adjoint of reading there."""
    data = np.zeros(shape, x.dtype)
    np.add.at(data, where, x.data)
    words, holds = f".scatter([{index_words(where)}], {shape})", has_arrays(where) and not moves
    return _linear(x, words, data, lambda g: index(g, where, moves), holds=holds)


def cleared(x: Variable, where: Any) -> Variable:
    """`x` with zeros at `where`: the adjoint of assigning there."""
    data = x.data.copy()
    data[where] = 0
    words = f".cleared([{index_words(where)}])"
    return _linear(x, words, data, lambda g: cleared(g, where), holds=has_arrays(where))


def has_arrays(where: Any) -> bool:
    """Whether an index has arrays, which a backward pass gives back."""
    return any(isinstance(p, np.ndarray) for p in (where if isinstance(where, tuple) else (where,)))


def _axes(x: Variable, axis: int | Sequence[int] | None) -> tuple[int, ...]:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    for k in axes:
        if not -x.ndim <= k < x.ndim:
            raise OutOfRangeError(
                f"{x.name} of shape {x.shape} has no axis {k}",
                remedy=f"use an axis from 0 to {x.ndim - 1}",
            )
    return tuple(k % x.ndim for k in axes)


def frozen(where: Any) -> Any:
    """An index of which no part changes when its arrays do."""
    parts = where if isinstance(where, tuple) else (where,)
    refuse_masked("an index", parts)
    plain = (p.data if is_variable(p) else p for p in parts)
    found = tuple(np.array(p) if isinstance(p, np.ndarray | list) else p for p in plain)
    return found if isinstance(where, tuple) else found[0]


def index_words(where: Any) -> str:
    """An index as a message writes it."""
    parts = where if isinstance(where, tuple) else (where,)
    return ", ".join(_part_words(p) for p in parts)


def _part_words(part: Any) -> str:
    if isinstance(part, slice):
        start, stop, step = ("" if n is None else str(n) for n in (part.start, part.stop, part.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")
    if isinstance(part, np.ndarray):
        return "mask" if part.dtype == bool else "indices"
    return "..." if part is Ellipsis else str(part)


def _sizes(shape: Shape) -> str:
    return ", ".join(map(str, shape))
