"""The operations that `adc.fuse` defers: each as an eager function, and as text in the language.

The names are those under which `elementwise.py`, `linear.py` and `functions.py` offer an operation to the
thread's pending graph; those that are not listed here are primitives of the rule table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from adcompiler.eager.variable import linear
from adcompiler.eager.variable import numpy_functions as functions
from adcompiler.eager.variable.elementwise import INFIX, apply, where
from adcompiler.ops.table import TABLE

Shape = tuple[int, ...]
Static = Any  # what an operation knows besides its operands: hashable, a guard


class Operation(NamedTuple):
    """`eager(static, operands)` computes it at once; `text(static, words, shape)` is its expression."""

    eager: Callable[[Static, Sequence[Any]], Any]
    text: Callable[[Static, Sequence[str], Shape], str]


def operation(name: str) -> Operation:
    """The operation of a name."""
    return OPERATIONS.get(name) or _elementwise(name)


def _elementwise(name: str) -> Operation:
    """A primitive; `static` are operands that are guards, in front (orders) or behind (exponents)."""

    def eager(static: Static, operands: Sequence[Any]) -> Any:
        return apply(name, *_completed(name, static, operands))

    def text(static: Static, words: Sequence[str], shape: Shape) -> str:
        parts = _completed(name, None if static is None else repr(static), words)
        if name in INFIX:
            return f" {INFIX[name]} ".join(f"({p})" if p.startswith("-") else p for p in parts)
        return f"{name}({', '.join(parts)})"

    return Operation(eager, text)


def _completed(name: str, static: Any, operands: Sequence[Any]) -> tuple[Any, ...]:
    if static is None:
        return tuple(operands)
    return (*operands, static) if TABLE[name].orders is None else (static, *operands)


def _total(static: Static, operands: Sequence[Any]) -> Any:
    axis, keepdims, mean = static
    return linear.total(operands[0], axis, keepdims, None, mean)


def _total_text(static: Static, words: Sequence[str], shape: Shape) -> str:
    axis, keepdims, mean = static
    options = [f"axis={axis}"] * (axis is not None) + ["keepdims=True"] * keepdims
    return f"{'mean' if mean else 'sum'}({', '.join([words[0], *options])})"


def _call(static: Static, operands: Sequence[Any]) -> Any:
    return functions.call(*static, *operands)


def _call_text(static: Static, words: Sequence[str], shape: Shape) -> str:
    body: str = static[1]
    return re.sub(r"\bx(\d+)\b", lambda found: words[int(found[1])], body)


def _index_text(static: Static, words: Sequence[str], shape: Shape) -> str:
    arrays = iter(words[1:])
    return f"{words[0]}[{', '.join(_part(p, arrays) for p in static) or '()'}]"


def _part(part: Any, arrays: Any) -> str:
    if isinstance(part, tuple):
        return ":".join("" if n is None else str(n) for n in part)
    return next(arrays) if part == "array" else str(part)


def _index(static: Static, operands: Sequence[Any]) -> Any:
    arrays = iter(operands[1:])
    parts = (slice(*p) if isinstance(p, tuple) else next(arrays) if p == "array" else p for p in static)
    chosen = linear.index if len(operands) > 1 else linear.part
    return chosen(operands[0], tuple(parts))


def indexed(shape: Shape, where: Any) -> tuple[Static, tuple[np.ndarray, ...]] | None:
    """An index as a guard, and its array; None where it is none of integers in range, slices, and one array
    of integers in range between slices."""
    parts = _whole(shape, where if isinstance(where, tuple) else (where,))
    if parts is None:
        return None
    static: list[Any] = []
    arrays: list[np.ndarray] = []
    lengths = iter(shape)
    for p in parts:
        n = 0 if p is None else next(lengths)
        if p is None:
            static.append(None)
        elif isinstance(p, int | np.integer) and type(p) is not bool and -n <= p < n:
            static.append(int(p) % n)
        elif type(p) is slice and _is_plain(p):
            static.append((p.start, p.stop, p.step))
        elif isinstance(p, np.ndarray) and _within(p, n):
            arrays.append(np.where(p < 0, p + n, p).astype(np.int64))
            static.append("array")
        else:
            return None
    several = len(arrays) > 1 or (arrays and any(type(p) is int for p in static))
    return None if several else (tuple(static), tuple(arrays))


def _whole(shape: Shape, parts: tuple[Any, ...]) -> list[Any] | None:
    """The parts of an index, without an ellipsis; None for too many."""
    free = len(shape) - sum(p is not None and p is not Ellipsis for p in parts)
    if free < 0 or sum(p is Ellipsis for p in parts) > 1:
        return None
    whole: list[Any] = []
    for p in parts:
        whole += [slice(None)] * free if p is Ellipsis else [p]
    return whole


def _is_plain(p: slice) -> bool:
    return all(n is None or type(n) is int for n in (p.start, p.stop, p.step)) and p.step != 0


def _within(p: np.ndarray, n: int) -> bool:
    """Whether an array holds integers, all of them in range for an axis of length n."""
    if p.dtype.kind not in "iu" or not p.size or not p.ndim:
        return False
    return bool(-n <= int(p.min()) and int(p.max()) < n)


def _one(function: Callable[..., Any]) -> Callable[[Static, Sequence[Any]], Any]:
    return lambda static, operands: function(operands[0])


def _shaped(function: Callable[..., Any]) -> Callable[[Static, Sequence[Any]], Any]:
    return lambda static, operands: function(operands[0], static)


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        ".total": Operation(_total, _total_text),
        ".expand": Operation(_shaped(linear.expand), lambda s, w, shape: f"{w[0]} * ones({shape})"),
        ".reshape": Operation(_shaped(linear.reshape), lambda s, w, shape: f"reshape({w[0]}, {shape})"),
        ".transpose": Operation(_one(linear.transpose), lambda s, w, shape: f"transpose({w[0]})"),
        ".clone": Operation(_one(linear.clone), lambda s, w, shape: w[0]),
        ".index": Operation(_index, _index_text),
        ".where": Operation(
            lambda s, args: where(args[2], args[0], args[1]),
            lambda s, w, shape: f"where({w[2]}, {w[0]}, {w[1]})",
        ),
        ".call": Operation(_call, _call_text),
    }
)
