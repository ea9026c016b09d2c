"""`adc.tape.check`: the gradients of recorded operations against finite differences, to any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adcompiler.api.finite_differences import entry, slopes, worst
from adcompiler.eager.graph.cotangents import seed
from adcompiler.eager.graph.graph import reachable, setting, walk
from adcompiler.eager.variable.variable import Variable
from adcompiler.errors import DtypeError, Error, GradientError
from adcompiler.frames import public

RTOL = {"d": 1e-6, "f": 2e-2}  # of a derivative's largest entry, or of 1
ORDINALS = ("first", "second", "third")


@public
def check(
    f: Callable[..., Any], *inputs: Any, order: int = 2, rtol: float | None = None, seed: int = 0
) -> float:
    """Compare gradients of `f`, which takes and returns Variables, with finite differences, to `order`.

    f       any function of Variables, with user-defined operations that it records (tape.record); it may
            return several, nested in tuples and lists
    inputs  Variables, arrays or numbers: floats
    rtol    the tolerance, relative to a derivative's largest entry or to 1: by default 1e-6, in float32 2e-2

    The results are summed with random weights, and so are the gradients for the next order. Differences of
    the n-th derivative depend on each path from an input to it, also on paths that were not recorded. Returns
    the worst relative error; raises GradientError with the worst entry and both numbers.
    """
    if not isinstance(order, int) or order < 1:
        raise Error(f"check of order {order!r}", remedy="use 1, 2 or 3")
    point = [np.array(v.data if isinstance(v, Variable) else _floats(v)) for v in inputs]
    names = [v.name if isinstance(v, Variable) else f"input {k}" for k, v in enumerate(inputs)]
    with setting(recording=True, tracing=False, inside=None):
        scalar = _Scalar(f, np.random.default_rng(seed))
        return max((_compared(scalar, n, point, names, rtol) for n in range(order)), default=0.0)


def _floats(value: Any) -> np.ndarray:
    array = Variable(value).data
    if array.dtype.kind != "f":
        raise DtypeError(f"check got {array.dtype}", remedy="pass floats; bind other arguments in f")
    return array


class _Scalar:
    """The weighted sum of the derivatives of each order; weights are made once."""

    def __init__(self, f: Callable[..., Any], random: np.random.Generator) -> None:
        self.f, self.random = f, random
        self.weights: dict[tuple[int, int], np.ndarray] = {}

    def at(self, order: int, values: Sequence[Variable]) -> Variable | None:
        """The sum of the derivatives of this order, 0 for the results; None where all are zero."""
        parts: list[Variable | None] = []
        parts += self.slopes(order - 1, values, True) if order else _results(self.f(*values))
        alone = len(parts) == 1  # a number alone is not weighted, so that messages show its derivative
        known = [(k, g) for k, g in enumerate(parts) if g is not None]
        terms = [(g * (1.0 if alone and g.size == 1 else self.weight(order, k, g))).sum() for k, g in known]
        return sum(terms[1:], terms[0]) if terms else None

    def slopes(self, order: int, values: Sequence[Variable], create_graph: bool) -> list[Variable | None]:
        """The gradient of the sum of this order."""
        total = self.at(order, values)
        if total is None:
            return [None] * len(values)
        seeds, targets = {total.serial: seed(total, None)}, {v.serial: v for v in values}
        found = walk(reachable([total]), seeds, targets, create_graph).cotangents
        return [found.get(v.serial) for v in values]

    def weight(self, order: int, k: int, like: Variable) -> np.ndarray:
        """The weight of part `k`, of random signs and sizes about 1."""
        if (order, k) not in self.weights:
            drawn = self.random.uniform(0.5, 1.5, like.shape) * self.random.choice([-1, 1], like.shape)
            self.weights[order, k] = np.asarray(drawn, like.dtype)
        return self.weights[order, k]


def _results(found: Any) -> Iterator[Variable]:
    if isinstance(found, Variable):
        if found.differentiable:
            yield found
    elif isinstance(found, tuple | list):
        for part in found:
            yield from _results(part)
    else:
        raise DtypeError(f"the checked function returned a {type(found).__name__}", remedy="return Variables")


def _compared(
    scalar: _Scalar, order: int, point: Sequence[np.ndarray], names: Sequence[str], rtol: float | None
) -> float:
    """The worst relative error of the derivative after `order`."""
    leaves = [Variable(v) for v in point]
    found = scalar.slopes(order, leaves, False)

    def value(moved: Sequence[Any]) -> np.float64:
        total = scalar.at(order, [Variable(v) for v in moved])
        return np.float64(0.0 if total is None else total.data)

    largest = 0.0
    for k, g in enumerate(found):
        expected = slopes(value, point, k)
        exact = np.zeros(point[k].shape) if g is None else g.data.astype(float)
        allowed = RTOL[point[k].dtype.char] if rtol is None else rtol
        largest = max(largest, _judged(names[k], order, exact, expected, allowed))
    return largest


def _judged(name: str, order: int, exact: np.ndarray, expected: np.ndarray, allowed: float) -> float:
    if not exact.size:
        return 0.0
    error = abs(exact - expected) / max(1.0, float(np.max(abs(expected))))
    place = worst(error)
    if not error[place] <= allowed:
        which = ORDINALS[order] if order < len(ORDINALS) else f"{order + 1}th"
        raise GradientError(
            f"the {which} derivative with respect to {entry(name, place)} is {exact[place]:.8g}, by finite "
            f"differences {expected[place]:.8g}",
            remedy="check the recorded propagate"
            + (
                "; a temporary that it reads must be one of the recorded outputs"
                if order
                else ", and what cuts the graph (adc.why_none): .item(), a new Variable"
            ),
        )
    return float(error[place])
