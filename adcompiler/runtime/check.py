"""Check derivatives against finite differences of the function itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from adcompiler.errors import GradientError
from adcompiler.ir.nodes import Array, Input, Map, Read, Reduce, identity, is_const
from adcompiler.ir.types import is_float
from adcompiler.ops.build import apply
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.function import Function
from adcompiler.runtime.modes import hvp
from adcompiler.runtime.signature import Parameter
from adcompiler.runtime.specialise import Types
from adcompiler.runtime.transforms import Derived, Gradient
from adcompiler.syntax.program import Lowered
from adcompiler.syntax.structures import flatten, places_of, unflatten

STEP = 6e-3  # of the argument's scale; with two extrapolations the error is of the sixth order in it
RTOL = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 2e-2}


class Weighted(Derived):
    """The sum of all float results, each entry with a weight: takes the arguments, then the weights."""

    def __init__(self, of: Function, count: int) -> None:
        super().__init__(
            of, None, "weighted", tuple(Parameter(f"weight{k}", False, False) for k in range(count))
        )

    def trace(self, types: Types) -> Lowered:
        count = len(self.of.parameters)
        lowered = self.of.trace(types[:count])
        func = lowered.func
        found = [r for r in func.results if is_float(r.dtype)]
        weights = [Input(len(func.inputs) + k, r.dtype, r.shape) for k, r in enumerate(found)]
        terms = [_dot(r, w) for r, w in zip(found, weights, strict=True)]
        total = terms[0]
        for term in terms[1:]:
            total = apply("add", total, term)
        made = func.with_(
            name=self.__name__,
            inputs=(*func.inputs, *weights),
            input_names=(*func.input_names, *(p.name for p in self.parameters[count:])),
            results=(Map((), total),),
            result_names=("total",),
        )
        return Lowered(run(SIMPLIFY, made), lowered.constraints, None)


def _dot(result: Array, weight: Array) -> Any:
    indices = identity(result.shape)
    product = apply("multiply", Read(result, indices), Read(weight, indices))
    wide = [n for n in result.shape if not is_const(n, 1)]
    if not wide:
        return product
    return Read(Reduce("sum", (), result.shape, product), ())


def check_grad(
    f: Function, *args: Any, order: int = 2, wrt: Any = None, rtol: float | None = None, seed: int = 0
) -> float:
    """Compare the derivatives of `f` at `args` with finite differences, up to `order` 1 or 2.

    Results other than one scalar are summed with random weights first, so `f` may return arrays. First
    order: every entry of the gradient; second: the Hessian times a random direction. Differences are
    central with two Richardson extrapolations. Returns the worst relative error; raises GradientError
    with the worst entry and both numbers if that exceeds `rtol` (1e-6; 2e-2 in float32).
    """
    random = np.random.default_rng(seed)
    types, values, _ = f.describe(args, {})
    results = [r for r in f.specialise(types)(values, False) if np.asarray(r).dtype.kind == "f"]
    if not results:
        raise GradientError(f"{f.__name__} returns no floats", remedy="there is nothing to differentiate")
    weights = [_weights(random, np.asarray(r), len(results)) for r in results]
    scalar = f.derived(("weighted", len(weights)), lambda: Weighted(f, len(weights)))
    positions = f.positions(wrt, types)
    wanted = f.inputs_of(positions, types)
    names = [f.specialise(types).func.input_names[k] for k in wanted]
    gradient = Gradient(scalar, positions, with_value=False)
    weighted = (*types, *scalar.describe([*args, *weights], {})[0][len(types) :])
    value, slope = scalar.specialise(weighted), gradient.specialise(weighted)
    point = [*values, *(w if w.ndim else w[()] for w in weights)]
    exact = [np.asarray(g) for g in slope(point, False)]
    slopes = [_slopes(lambda p: np.float64(value(p, False)[0]), point, k) for k in wanted]
    worst = _compare(f, "gradient", names, exact, slopes, rtol)
    if order > 1:
        directions = [random.uniform(-1, 1, g.shape).astype(g.dtype) for g in exact]
        places = tuple(places_of(types[k]) for k in positions)
        product = hvp(scalar, positions)((*args, *weights), unflatten(places, directions))

        def along(p: Sequence[Any]) -> np.float64:
            return np.float64(sum(np.vdot(d, g) for d, g in zip(directions, slope(p, False), strict=True)))

        second = [_slopes(along, point, k) for k in wanted]
        exact = [np.asarray(h) for h in flatten(places, product)]
        worst = max(worst, _compare(f, "second derivative", names, exact, second, rtol))
    return worst


def _weights(random: np.random.Generator, result: np.ndarray, count: int) -> np.ndarray:
    """Random weights; one for a single scalar, so that a message shows the user's own derivative."""
    if count == 1 and not result.shape:
        return np.ones_like(result)
    return random.uniform(0.5, 1.5, result.shape).astype(result.dtype)


def _slopes(value: Callable[[Sequence[Any]], np.float64], point: Sequence[Any], k: int) -> np.ndarray:
    """The derivative of a scalar with respect to each entry of argument `k`, by finite differences.

    Steps relative to the entry and absolute ones are tried; the estimate that moves least when the step is
    halved is taken.
    """
    start = np.asarray(point[k])
    dtype = start.dtype if start.dtype.kind == "f" else np.dtype(np.float64)
    start = start.astype(dtype)
    slopes = np.empty(start.shape)

    def at(place: tuple[int, ...], distance: float) -> tuple[np.float64, float]:
        moved = start.copy()
        moved[place] += dtype.type(distance)
        return value([*point[:k], moved if moved.ndim else moved[()], *point[k + 1 :]]), float(moved[place])

    for place in np.ndindex(start.shape):
        size = abs(float(start[place]))
        scales = {max(1.0, size), size or 1.0}
        estimates = [_extrapolated(at, place, scale * STEP * _coarser(dtype)) for scale in scales]
        slopes[place] = min(estimates, key=lambda e: e[1])[0]
    return slopes


def _coarser(dtype: np.dtype) -> float:
    return 10.0 if dtype == np.float32 else 1.0


def _extrapolated(
    at: Callable[[tuple[int, ...], float], tuple[np.float64, float]], place: tuple[int, ...], step: float
) -> tuple[float, float]:
    """The central difference after two Richardson extrapolations, and how far the last one moved it."""
    table = []
    for h in (step, step / 2, step / 4):
        (right, x), (left, y) = at(place, h), at(place, -h)
        table.append(float(right - left) / (x - y))
    once = [(4 * fine - coarse) / 3 for coarse, fine in pairwise(table)]
    moved = abs(once[1] - once[0])
    return (16 * once[1] - once[0]) / 15, moved if moved == moved else np.inf


def _compare(
    f: Function,
    what: str,
    names: Sequence[str],
    exact: Sequence[np.ndarray],
    slopes: Sequence[np.ndarray],
    rtol: float | None,
) -> float:
    """The worst relative error; raises if it is too large."""
    worst = 0.0
    for name, g, s in zip(names, exact, slopes, strict=True):
        scale = max(1.0, float(np.max(np.abs(s), initial=0.0)))
        error = np.abs(g.astype(np.float64) - s) / scale
        if not error.size:
            continue
        place = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        allowed = rtol if rtol is not None else RTOL[g.dtype if g.dtype in RTOL else np.dtype(np.float64)]
        if not error[place] <= allowed:
            where = f"{name}[{', '.join(map(str, place))}]" if place else name
            raise GradientError(
                f"the {what} of {f.__name__} with respect to {where} is {g[place]:.12g}, "
                f"finite differences give {s[place]:.12g} (relative error {error[place]:.1e})",
                remedy="if the point lies on a kink, move it; else please report the formula",
            )
        worst = max(worst, float(error[place]))
    return worst
