"""Derivatives by a complex step: Im f(x + ih) / h, for an h so small that nothing is subtracted.

If f is analytic this is its derivative up to rounding, without any rule of differentiation
(W. Squire and G. Trapp, SIAM Review 40 (1998) 110-112). Locally constant operations, such as
comparisons, use real parts. A primitive with a derivative but no complex form raises `NotAnalytic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adcompiler.interpreter.limits import MOST_STEPPED_ENTRIES, MOST_STEPS
from adcompiler.interpreter.reference import Arithmetic, Reference, reduce_real
from adcompiler.ir.nodes import Func
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.ops.library import CONSTANT, LIBRARY
from adcompiler.ops.table import TABLE

H = 1e-20
COMPLEX = np.dtype(np.complex128)


class NotAnalytic(Exception):  # noqa: N818 (an answer rather than an error)
    """A primitive without a complex form was reached; its name."""


def _logistic(x: Any) -> Any:
    small = np.exp(np.where(x.real >= 0, -x, x))
    return np.where(x.real >= 0, 1, small) / (1 + small)


SAME = (
    "add", "subtract", "multiply", "negative", "square", "strict", "exp", "exp2", "expm1", "sin", "cos",
    "tan", "sinh", "cosh", "tanh", "one_minus_square", "asinh", "atan", "lerp", "erf", "erfc", "ndtr",
    "digamma",
)  # fmt: skip
ANALYTIC: Mapping[str, Callable[..., Any]] = {name: TABLE[name].numpy for name in SAME} | {
    "deg2rad": lambda x: x * (np.pi / 180),
    "rad2deg": lambda x: x * (180 / np.pi),
    "sinpi": lambda x: np.sin(np.pi * (x - 2 * np.rint(0.5 * x.real))),
    "cospi": lambda x: np.cos(np.pi * (x - 2 * np.rint(0.5 * x.real))),
    "sigmoid": _logistic,
    "sigmoid_slope": lambda x: _logistic(x) * _logistic(-x),
    "tanh_slope": lambda x: 4 * _logistic(2 * x) * _logistic(-2 * x),
    "softplus": lambda x: np.where(x.real >= 0, x, 0) + np.log1p(np.exp(np.where(x.real >= 0, -x, x))),
}
# These are complex where the real function is NaN or infinite; there the real one is right.
BOUNDED = (
    "divide", "reciprocal", "power", "sqrt", "log", "log2", "log10", "log1p", "asin", "acos", "acosh",
    "atanh",
)  # fmt: skip


class ComplexStep:
    """The derivatives of a program, one scalar or results that are summed, by entries of input `k`.

    `mapped` is the program over one axis more, the first of that input and of all results, with its length
    behind the others: many steps then are one pass over the program. None where there is no such program.
    """

    def __init__(
        self, func: Func, sizes: Sequence[int], args: Sequence[Any], k: int, mapped: Func | None = None
    ) -> None:
        self.one, self.sizes, self.k = Reference(func, NUMBERS), tuple(sizes), k
        self.many = None if mapped is None else Reference(mapped, NUMBERS)
        self.args = [np.asarray(a, _dtypes()[i.dtype]) for a, i in zip(args, func.inputs, strict=True)]
        self.at_once = min(MOST_STEPS, max(1, MOST_STEPPED_ENTRIES // max(1, sum(a.size for a in self.args))))

    def slopes(
        self, places: Sequence[tuple[int, ...]], weights: Sequence[np.ndarray] | None = None
    ) -> np.ndarray:
        """The derivatives of the result, or of the sum of all with `weights`, by the entries at `places`."""
        if self.many is None or self.at_once == 1 or len(places) <= 1:
            return np.array([self._slope(place, weights) for place in places])
        starts = range(0, len(places), self.at_once)
        return np.concatenate([self._together(places[n : n + self.at_once], weights) for n in starts])

    def _slope(self, place: tuple[int, ...], weights: Sequence[np.ndarray] | None) -> float:
        moved = self.args[self.k].copy()
        moved[place] += 1j * H
        found = self.one(self.sizes, [*self.args[: self.k], moved, *self.args[self.k + 1 :]])
        total = (
            found[0] if weights is None else sum(np.sum(w * r) for w, r in zip(weights, found, strict=True))
        )
        return float(np.imag(total)) / H

    def _together(
        self, places: Sequence[tuple[int, ...]], weights: Sequence[np.ndarray] | None
    ) -> np.ndarray:
        """Some steps in one pass."""
        assert self.many is not None
        count = len(places)
        moved = np.repeat(self.args[self.k][None], count, axis=0)
        moved[(np.arange(count), *np.transpose(places))] += 1j * H
        given = [*self.args[: self.k], moved, *self.args[self.k + 1 :]]
        found = self.many((*self.sizes, count), given)
        terms = found if weights is None else [w * r for w, r in zip(weights, found, strict=True)]
        return np.asarray(np.imag(sum(t.reshape(count, -1).sum(axis=1) for t in terms))) / H


def _dtypes() -> dict[Any, np.dtype]:
    return {name: COMPLEX if is_float(name) else dtype for name, dtype in NUMPY.items()}


def _apply(op: str, args: Sequence[Any]) -> Any:
    """A primitive on complex numbers; on reals that carry no step it is the real one."""
    if all(p == "0" for p in TABLE[op].partials) or not any(np.any(np.imag(a)) for a in args):
        return TABLE[op].numpy(*map(np.real, args))
    if op in ANALYTIC:
        return ANALYTIC[op](*args)
    if op not in BOUNDED:
        raise NotAnalytic(op)
    real = TABLE[op].numpy(*map(np.real, args))
    return np.where(np.isfinite(real), TABLE[op].numpy(*args), real)


def _reduce(op: str, body: np.ndarray, axes: tuple[int, ...], dtype: np.dtype) -> Any:
    if op in ("sum", "prod"):
        return reduce_real(op, body, axes, dtype)
    if not np.any(np.imag(body)):
        return reduce_real(op, np.real(body), axes, np.real(body).dtype).astype(dtype)
    if op != "logsumexp":
        raise NotAnalytic(op)
    largest = np.max(np.real(body), axis=axes, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    return np.log(np.sum(np.exp(body - largest), axis=axes)) + largest.reshape(body.shape[: axes[0]])


def _call(op: str, args: Sequence[Any]) -> Any:
    """A routine of the library; NumPy's decompositions are those of complex matrices."""
    if op in ("cholesky", "eigh", "qr", "svd", "pseudoinverse") and any(np.any(np.imag(a)) for a in args):
        raise NotAnalytic(op)
    if op in CONSTANT and op != "lu":  # an order is one of real numbers
        return LIBRARY[op].numpy(*map(np.real, args)).astype(COMPLEX)
    return LIBRARY[op].numpy(*args)


NUMBERS = Arithmetic(_dtypes(), _apply, _reduce, _call)
