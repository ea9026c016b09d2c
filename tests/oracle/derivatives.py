"""`diff`, `grad`, `value_and_grad` and `jvp` for the test oracle: central differences in many digits.

On NumPy's values the arguments become exact for the differences, and the result is rounded to the type of
what is differentiated; on exact reals it stays exact, so that differences nest. On JAX's values JAX does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from oracle.builtins import Value, is_exact, mp
from oracle.dispatch import is_jax, jax_column

Function = Callable[..., Value]
STEP = mp.mpf(2) ** -32  # squared it is less than a float can tell; its sixth power leaves half the digits


def exact(value: Value) -> Value:
    """Numbers as exact reals."""
    made = np.frompyfunc(mp.convert, 1, 1)(np.asarray(value, dtype=object))
    return np.asarray(made, dtype=object)[()]


def like(value: Value, base: Value) -> Value:
    """An exact result in the type of a result that is not exact."""
    if isinstance(base, tuple):
        return tuple(like(v, b) for v, b in zip(value, base, strict=True))
    if is_exact(base):
        return value
    dtype = np.asarray(base).dtype if hasattr(base, "dtype") else np.dtype(float)
    rounded = np.asarray(value, dtype=object).astype(dtype)[()]
    return rounded if hasattr(base, "dtype") else float(rounded)


def combined(weights: Sequence[int], values: Sequence[Value], scale: Value) -> Value:
    """The sum of weighted values, part by part, times `scale`."""
    if isinstance(values[0], tuple):
        return tuple(combined(weights, part, scale) for part in zip(*values, strict=True))
    total = sum(w * np.asarray(v, dtype=object) for w, v in zip(weights, values, strict=True))
    return np.asarray(total * scale, dtype=object)[()]


def along(function: Function, point: Sequence[Value], way: Sequence[Value], order: int) -> Value:
    """The derivative of `order` of t ↦ function(point + t way) at 0; None in `way` moves nothing."""
    if any(map(is_jax, point)):
        return jax_column()["along"](function, point, way, order)

    def at(t: Value) -> Value:
        moved = [p if w is None else exact(p) + t * exact(w) for p, w in zip(point, way, strict=True)]
        return function(*moved)

    weights = [(-1) ** j * math.comb(order, j) for j in range(order + 1)]
    values = [at((order - 2 * j) * STEP) for j in range(order + 1)]
    return like(combined(weights, values, 1 / (2 * STEP) ** order), function(*point))


def diff(function: Function, point: Sequence[Value], variables: Sequence[tuple[int, int]]) -> Value:
    """The mixed partial derivative by arguments (position, order), entry by entry for arrays."""
    if not variables:
        return function(*point)
    (position, order), *rest = variables

    def inner(*moved: Value) -> Value:
        return diff(function, moved, rest)

    way = [np.ones(np.shape(p)) if k == position else None for k, p in enumerate(point)]
    return along(inner, point, way, order)


def diff_of(function: Function, parameters: Sequence[str], *variables: str | int) -> Function:
    """`diff(u, "x", 2)`: a function of the same parameters."""
    pairs: list[tuple[int, int]] = []
    for one in variables:
        if isinstance(one, str):
            pairs.append((parameters.index(one), 1))
        else:
            pairs[-1] = (pairs[-1][0], one)
    return lambda *args: diff(function, args, pairs)


def is_float(value: Value) -> bool:
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    return is_exact(value) or dtype.kind == "f" or type(value) is int


def gradient(function: Function, args: Sequence[Value], position: int) -> Value:
    """The derivative of a scalar by each entry of one argument."""
    shape = np.shape(args[position])
    size = math.prod(shape)
    entries = []
    for row in np.eye(size).reshape(size, *shape):
        entries.append(along(function, args, [row if k == position else None for k in range(len(args))], 1))
    if not shape:
        return entries[0]
    if any(map(is_jax, entries)):
        return jax_column()["stack"](entries).reshape(shape)
    return np.array(entries, dtype=object if any(map(is_exact, entries)) else None).reshape(shape)


def grad_of(function: Function, parameters: Sequence[str], wrt: Value = None) -> Function:
    """`grad(f, wrt)`: bare for one name, a tuple for a tuple, as for the package's own."""

    def call(*args: Value, **keywords: Value) -> Value:
        args = (*args, *(keywords[p] for p in parameters[len(args) :]))
        chosen = [k for k, a in enumerate(args) if is_float(a)]
        if wrt is not None:
            given = wrt if isinstance(wrt, tuple) else (wrt,)
            chosen = [parameters.index(w) if isinstance(w, str) else w for w in given]
        found = tuple(gradient(function, args, k) for k in chosen)
        return found[0] if len(found) == 1 and not isinstance(wrt, tuple) else found

    return call


def value_and_grad_of(function: Function, parameters: Sequence[str], wrt: Value = None) -> Function:
    slope = grad_of(function, parameters, wrt)
    return lambda *args, **keywords: (function(*args, **keywords), slope(*args, **keywords))


def jvp(function: Function, _: Sequence[str], args: Sequence[Value], tangents: Sequence[Value]) -> Value:
    return function(*args), along(function, args, tangents, 1)


FUNCTIONALS = {
    "diff": diff_of,
    "grad": grad_of,
    "value_and_grad": value_and_grad_of,
    "jvp": jvp,
}
